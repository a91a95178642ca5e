"""Why one rank failed first, suffered, was stopped or is unknown: the chain from the first failure to it."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from correlator.attribution.standing import Life, Line
from correlator.diagnosis import CascadeEvent, Document
from correlator.report import layout
from correlator.report.cascade import axis_of, render_waves
from correlator.report.timeline import ROLE_ORDER, ROLE_WORDS, wave_of

#: Characters shown of a line.
_TEXT = 160
_MEANINGS = {
    "initiator": "nothing before it explains it",
    "collateral": "it failed because of what happened elsewhere before",
    "teardown": "it was stopped after the failure",
    "unrelated": "what it printed has nothing to do with the failure",
}


def render_standing(document: Document, rank: int) -> list[RenderableType]:
    """The role of ``rank`` in words, then its causes from the first to its own line."""
    own = [entry for entry in document.cascade if rank in entry.ranks]
    if not own:
        return [layout.prose(_unseen(document, rank), "bold")]
    # Of several events the one that decides the role; `own` is in causal order.
    entry = min(own, key=lambda entry: ROLE_ORDER[entry.role])
    return [
        layout.prose(f"rank {rank}: {ROLE_WORDS[entry.role]}: {_MEANINGS[entry.role]}", "bold"),
        render_waves([wave_of(link) for link in _chain(document, entry)], axis_of(document)),
    ]


def render_life(life: Life) -> Iterator[RenderableType]:
    """Where the rank ran, its own lines, whom it waits for, its last sign of life, and how it ended."""
    yield layout.prose(f"rank {life.rank} ran {life.where}; {life.collected}")
    for line in life.events:
        yield layout.indent(layout.line(_place_words(line)))
    if life.hidden:
        yield layout.indent(layout.line(f"and {life.hidden} more kinds of lines"))
    for edge in life.edges:
        yield layout.indent(layout.line(edge))
    if life.last is not None:
        step = f", step {life.last_step}" if life.last_step is not None else ""
        yield layout.prose(f"last sign of life{step}")
        yield layout.indent(layout.line(_place_words(life.last)))
    if life.ended:
        yield layout.prose(f"ended with status {life.ended}")


def _place_words(line: Line) -> str:
    when = f"{line.time:%H:%M:%S} " if line.time else ""
    first = line.text.strip().split("\n", 1)[0]
    return f"{when}{line.file}:{line.line}: {first[:_TEXT]}{'…' if len(first) > _TEXT else ''}"


def _unseen(document: Document, rank: int) -> str:
    if rank in document.initiator.ranks:
        return f"rank {rank}: failed first: found by what the others say; it has no line of its own"
    if rank in document.collateral.ranks:
        return f"rank {rank}: suffered: it ended with the others and has no line of its own"
    return f"rank {rank}: unknown: no line of it tells, and no other rank or launcher names it"


def _chain(document: Document, entry: CascadeEvent) -> list[CascadeEvent]:
    by_id = {event.id: event for event in document.cascade}
    chain = [entry]
    while cause := next((by_id[c] for c in chain[0].caused_by if c in by_id and by_id[c] not in chain), None):
        chain.insert(0, cause)
    return chain
