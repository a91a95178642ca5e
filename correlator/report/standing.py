"""Why one rank failed first, suffered, was stopped or is unknown: the chain from the first failure to it."""

from __future__ import annotations

from rich.console import RenderableType

from correlator.diagnosis import CascadeEvent, Document
from correlator.report import layout
from correlator.report.cascade import axis_of, render_waves
from correlator.report.timeline import ROLE_ORDER, ROLE_WORDS, wave_of

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
