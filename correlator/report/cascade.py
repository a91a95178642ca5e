"""How the failure spread, as a short timeline relative to the first failure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from rich.console import Group, RenderableType
from rich.table import Table

from correlator.diagnosis import Document
from correlator.report import layout, sayings, words
from correlator.report.timeline import ROLE_WORDS, Wave, build_waves, choose_waves, zero_time

_WAVES_SHOWN = 12
_STYLES = {"initiator": "bold red", "collateral": "", "teardown": "dim", "unrelated": "dim"}


def render_cascade(document: Document) -> Iterator[RenderableType]:
    """The waves, then what was left out and who only suffered."""
    waves = build_waves(document.cascade)
    shown, hidden = choose_waves(waves, _WAVES_SHOWN)
    if shown:
        yield render_waves(shown, axis_of(document))
    yield from (layout.indent(layout.prose(text, "dim")) for text in cascade_notes(document, waves, shown, hidden))


@dataclass(frozen=True)
class Axis:
    """What the times of a cascade are counted from, and on which nodes' clocks that can be trusted."""

    zero: datetime | None
    rough: bool
    why_rough: str
    untied: frozenset[str]
    own: frozenset[str]


def axis_of(document: Document) -> Axis:
    """The axis of a document's cascade."""
    zero = zero_time(build_waves(document.cascade), document.initiator.time)
    untied, own = frozenset(sayings.untied_nodes(document)), frozenset(document.initiator.nodes)
    rough = document.initiator.time is not None and sayings.is_rough(document.initiator) and not own & untied
    why = "the time of the first failure is not exact" if rough else "nothing ties these clocks to each other"
    return Axis(zero, rough, why, untied, own)


def cascade_notes(
    document: Document, waves: Sequence[Wave], shown: Sequence[Wave], hidden: Sequence[Wave]
) -> Iterator[str]:
    """What stands under the cascade."""
    axis = axis_of(document)
    times = [when_words(wave, axis) for wave in shown]
    if axis.zero and axis.zero != document.initiator.time and any(times):
        yield f"+0.0 s is {words.clock_words(axis.zero)}"
    if any(time.startswith("~") for time in times):
        yield f"~ rough: {axis.why_rough}"
    if not any(wave.ranks == set(document.collateral.ranks) for wave in shown):  # else a line above names them
        if document.collateral.ranks:
            yield f"Only suffered: {words.ranks_words(document.collateral.ranks, limit=60)}"
        elif document.collateral.count:
            yield f"Only suffered: {words.count_words(document.collateral.count, 'rank')}"
    if hidden:
        yield f"Left out here: {_hidden_words(hidden)}; `correlator graph` writes them all."


def render_waves(waves: Sequence[Wave], axis: Axis) -> RenderableType:
    """A line a wave: time on the axis, role, who and what; under it the place and the causal rule."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, justify="right")
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for wave in waves:
        grid.add_row(when_words(wave, axis), layout.line(ROLE_WORDS[wave.role], _STYLES[wave.role]), _what(wave))
    return layout.indent(grid)


def when_words(wave: Wave, axis: Axis) -> str:
    """The time after the first failure; with ``~`` where it is rough, empty where there is none to tell."""
    if wave.time is None or axis.zero is None or wave.against_order:
        return ""
    there = set(wave.entries[0].nodes)
    apart = there <= axis.untied or axis.own & axis.untied
    rough = axis.rough or bool(there and apart and not there <= axis.own)
    said = words.relative_words((wave.time - axis.zero).total_seconds())
    if rough and wave.role == "initiator":
        return "+0.0 s"  # whatever bounds it: the others are counted from it
    return f"~{said}" if rough else said


def wave_words(wave: Wave) -> str:
    """Who and what, in one line."""
    who = words.ranks_words(sorted(wave.ranks)) if wave.ranks else words.fold_nodes(wave.nodes)
    if wave.ranks and len(wave.nodes) == 1:
        who += f" on {words.fold_nodes(wave.nodes)}"
    differ = len({entry.what for entry in wave.entries}) > 1
    alike = f" ({len(wave.entries) - 1} more with other numbers)" if differ else ""
    return f"{who}: {wave.what}{alike}" if who else f"{wave.what}{alike}"


def wave_source(wave: Wave) -> str:
    """The line that a wave rests on and what ties it to its cause; empty for what only ended."""
    if wave.role not in ("initiator", "collateral"):
        return ""
    first = wave.entries[0]
    place = f"{first.evidence.file}:{first.evidence.line}" if first.evidence else ""
    rule = first.rule.replace("_", " ") if first.rule and first.caused_by else ""
    return ", ".join(part for part in (place, rule if rule != "after" else "") if part)


def _what(wave: Wave) -> RenderableType:
    rows: list[RenderableType] = [layout.prose(wave_words(wave))]
    if source := wave_source(wave):
        rows.append(layout.line(source, "dim"))
    return Group(*rows)


def _hidden_words(hidden: Sequence[Wave]) -> str:
    counts = Counter(wave.role for wave in hidden for _ in wave.entries)
    return ", ".join(f"{count:,} {ROLE_WORDS[role]}" for role, count in counts.items())
