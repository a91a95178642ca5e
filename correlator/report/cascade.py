"""How the failure spread, as a short timeline relative to the first failure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

from rich.console import Group, RenderableType
from rich.table import Table

from correlator.diagnosis import Document
from correlator.report import layout, words
from correlator.report.timeline import Wave, build_waves, choose_waves, zero_time

_WAVES_SHOWN = 12
_STYLES = {"initiator": "bold red", "collateral": "", "teardown": "dim", "unrelated": "dim"}


def render_cascade(document: Document) -> Iterator[RenderableType]:
    """The waves, then what was left out and who only suffered."""
    waves = build_waves(document.cascade)
    shown, hidden = choose_waves(waves, _WAVES_SHOWN)
    zero = zero_time(waves, document.initiator.time)
    if shown:
        yield render_waves(shown, zero)
    if zero and zero != document.initiator.time and any(wave.time for wave in shown):
        yield layout.indent(layout.line(f"+0.0 s is {words.clock_words(zero)}", "dim"))
    if any(wave.ranks == set(document.collateral.ranks) for wave in shown):
        pass  # a line above names them
    elif document.collateral.ranks:
        others = words.ranks_words(document.collateral.ranks, limit=60)
        yield layout.indent(layout.prose(f"Only suffered: {others}"))
    elif document.collateral.count:
        yield layout.indent(layout.line(f"Only suffered: {words.count_words(document.collateral.count, 'rank')}"))
    if hidden:
        left_out = f"Left out here: {_hidden_words(hidden)}; `correlator graph` writes them all."
        yield layout.indent(layout.prose(left_out, "dim"))


def render_waves(waves: Sequence[Wave], zero: datetime | None) -> RenderableType:
    """A line a wave: time after ``zero``, role, who and what; under it the place and the causal rule."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, justify="right")
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for wave in waves:
        grid.add_row(_when(wave, zero), layout.line(wave.role, _STYLES[wave.role]), _what(wave))
    return layout.indent(grid)


def _when(wave: Wave, zero: datetime | None) -> str:
    if wave.time is None or zero is None:
        return "no time"
    if wave.against_order:
        return "unsure"
    return words.relative_words((wave.time - zero).total_seconds())


def _what(wave: Wave) -> RenderableType:
    who = words.ranks_words(sorted(wave.ranks)) if wave.ranks else words.fold_nodes(wave.nodes)
    if wave.ranks and len(wave.nodes) == 1:
        who += f" on {words.fold_nodes(wave.nodes)}"
    differ = len({entry.what for entry in wave.entries}) > 1
    alike = f" ({len(wave.entries) - 1} more with other numbers)" if differ else ""
    rows: list[RenderableType] = [layout.prose(f"{who}: {wave.what}{alike}" if who else f"{wave.what}{alike}")]
    first = wave.entries[0]
    if wave.role in ("initiator", "collateral"):
        place = f"{first.evidence.file}:{first.evidence.line}" if first.evidence else ""
        rule = first.rule.replace("_", " ") if first.rule and first.caused_by else ""
        said = ", ".join(part for part in (place, rule) if part)
        if said:
            rows.append(layout.line(said, "dim"))
    return Group(*rows)


def _hidden_words(hidden: Sequence[Wave]) -> str:
    counts = Counter(wave.role for wave in hidden for _ in wave.entries)
    return ", ".join(f"{count:,} {role}" for role, count in counts.items())
