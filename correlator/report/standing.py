"""Why one rank is initiator, collateral, teardown or unknown: the chain from the first failure to it."""

from __future__ import annotations

from rich.console import RenderableType

from correlator.diagnosis import CascadeEvent, Document
from correlator.report import layout
from correlator.report.cascade import render_waves
from correlator.report.timeline import ROLE_ORDER, build_waves, wave_of, zero_time

_MEANINGS = {
    "initiator": "it failed first; nothing before it explains it",
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
    zero = zero_time(build_waves(document.cascade), document.initiator.time)
    return [
        layout.prose(f"rank {rank}: {entry.role}: {_MEANINGS[entry.role]}", "bold"),
        render_waves([wave_of(link) for link in _chain(document, entry)], zero),
    ]


def _unseen(document: Document, rank: int) -> str:
    if rank in document.initiator.ranks:
        return f"rank {rank}: initiator: found by what the others say; it has no line of its own"
    if rank in document.collateral.ranks:
        return f"rank {rank}: collateral: it ended with the others and has no line of its own"
    return f"rank {rank}: unknown: no line of it tells, and no other rank or launcher names it"


def _chain(document: Document, entry: CascadeEvent) -> list[CascadeEvent]:
    by_id = {event.id: event for event in document.cascade}
    chain = [entry]
    while cause := next((by_id[c] for c in chain[0].caused_by if c in by_id and by_id[c] not in chain), None):
        chain.insert(0, cause)
    return chain
