"""What is known of one rank: where it ran, what it printed, its last sign of life, and how it ended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from correlator.cascade.model import Facts, Incident
from correlator.phrases import named_ranks
from correlator.records import moment
from correlator.topology.model import Rank

_MOST = 6


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the rank, or about it. ``time`` is corrected, UTC; None where the line has none of its own."""

    time: datetime | None
    file: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Life:
    """One rank. ``where``: its place. ``collected``: what its silence is worth. ``hidden``: how many more events."""

    rank: int
    where: str
    collected: str
    events: list[Line] = field(default_factory=list)
    hidden: int = 0
    last: Line | None = None
    last_step: int | None = None
    ended: str = ""
    edges: list[str] = field(default_factory=list)


def life_of(facts: Facts, rank: int) -> Life:
    """All that the logs say of a rank of the roster, or that nothing is known of it."""
    known = facts.topology.ranks.get(rank) or Rank(rank)
    own = sorted(
        (i for i in facts.incidents if rank in i.ranks and i.first is not None),
        key=lambda i: (i.time is None, i.time or 0, i.rows[0].file, i.rows[0].byte_offset),
    )
    shown = [_line(i) for i in own]
    last = _last_sign(facts, known)
    return Life(
        rank,
        _where(facts, known),
        _collected(known),
        shown[:_MOST],
        len(shown[_MOST:]),
        last,
        known.last_step,
        ", ".join(dict.fromkeys(f"{e.code} ({e.row.file}:{e.row.line})" for e in facts.all_exits.get(rank, ()))),
        list(_edges(facts, rank)),
    )


def _last_sign(facts: Facts, known: Rank) -> Line | None:
    """The last line of its own writer; in a stream that ranks share, the last one that bears its number."""
    if known.last_place is not None:
        file, line, _, text = known.last_place
        return Line(moment(facts.clocks.corrected(known.node, known.last_ns)), file, line, text)
    own = [r for r in (*facts.rows, *facts.progress) if r.rank == known.rank and r.rank_basis in ("line", "envelope")]
    row = max(own, key=lambda r: (r.time or 0, r.file, r.byte_offset), default=None)
    return None if row is None else Line(moment(row.time), row.file, row.line, row.body)


def _line(incident: Incident) -> Line:
    row = incident.rows[0]
    return Line(None if incident.inherited else moment(incident.time), row.file, row.line, row.body)


def _where(facts: Facts, known: Rank) -> str:
    words = [f"on {known.node}" if known.node else "on a node that nothing names"]
    if known.local_rank is not None:
        words.append(f"local rank {known.local_rank}")
    if known.pci_bus_id:
        words.append(f"GPU {known.pci_bus_id}")
    grid = facts.topology.grid
    if grid is not None and known.rank < grid.world_size:
        place = grid.coordinates(known.rank)
        words += [f"{axis} {place[axis]}" for axis in grid.axes if grid.size(axis) > 1]
    return ", ".join(words)


def _collected(known: Rank) -> str:
    if known.heard:
        return "lines of its own were collected"
    if known.collected:
        return "no line is known to be its own, but its node's log or an empty file of its own was collected"
    return "no log of it was collected, so that it says nothing proves nothing"


def _edges(facts: Facts, rank: int) -> Iterator[str]:
    """Whom it waits for and who waits for it, as flight-recorder dumps show."""
    graph = facts.recorded.graph
    if rank in graph:
        if ahead := sorted(graph.successors(rank)):
            yield f"waits for {named_ranks(ahead)} (flight recorder)"
        if behind := sorted(graph.predecessors(rank)):
            yield f"{named_ranks(behind)} {'wait' if len(behind) > 1 else 'waits'} for it (flight recorder)"
