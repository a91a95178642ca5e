"""Who did what when: the moments that a timeline shows, one for each rank or node that took part.

Times are corrected, aware, UTC. The clock leaves ``bound_s`` open on both sides; None: nothing ties that clock to the
others. A time that was taken over from an older line of the same writer is a lower limit (``not_before``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from correlator.cascade.graph import EARLIER
from correlator.cascade.model import Facts, Incident
from correlator.diagnosis import Document, Role
from correlator.records import moment
from correlator.report.timeline import ROLE_ORDER

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True)
class Moment:
    """One thing that one rank (or a node) did. ``waited_s``: how long the operation it speaks of had run by then."""

    role: Role
    event: str
    what: str
    rank: int | None
    node: str | None
    time: datetime
    bound_s: float | None
    not_before: bool
    waited_s: float | None
    file: str | None
    line: int | None
    text: str


@dataclass(frozen=True)
class Seat:
    """One rank of the roster and its last sign of life; ``collected``: whether its silence would mean anything."""

    rank: int
    node: str | None
    local_rank: int | None
    collected: bool
    last: datetime | None


@dataclass(frozen=True)
class Story:
    """All that the pictures are drawn from. ``zero``: the first failure, from which the other times are counted.

    ``untimed``: of what happened at no known time, the roles, one for each rank or node that took part.
    """

    moments: tuple[Moment, ...]
    seats: tuple[Seat, ...]
    zero: datetime | None
    untimed: tuple[Role, ...] = ()


def story_of(document: Document, graph: nx.DiGraph, facts: Facts) -> Story:
    """The moments of a diagnosis in order of time, and the roster."""
    told = [*_initiators(graph, facts), *_others(graph, facts)]
    found = [one for one in told if isinstance(one, Moment)]
    found.sort(key=lambda m: (m.time, ROLE_ORDER[m.role], -1 if m.rank is None else m.rank, m.node or "", m.event))
    first = document.initiator.time or min((m.time for m in found if m.role == "initiator"), default=None)
    untimed = tuple(sorted((one for one in told if isinstance(one, str)), key=ROLE_ORDER.__getitem__))
    return Story(tuple(found), tuple(_seats(facts)), first or (found[0].time if found else None), untimed)


def _initiators(graph: nx.DiGraph, facts: Facts) -> Iterator[Moment | Role]:
    """What failed first; of what has no time the role alone."""
    for _, data in graph.nodes(data=True):
        if data["role"] != "initiator":
            continue
        for rank, node in _who(data["ranks"], data["nodes"], facts):
            if data["time"] is None:
                yield "initiator"
                continue
            # Its clock is known but its time is not: it is that of an older line.
            inherited = data["bound_ns"] is None and facts.clocks.bound(node) is not None
            yield _drawn(data, rank, node, inherited)


def _drawn(data: dict[str, Any], rank: int | None, node: str | None, inherited: bool) -> Moment:
    return Moment(
        "initiator", data["event"], data["what"], rank, node, data["time"], _seconds(data["bound_ns"]), inherited, None,
        data["file"], data["line"], data["text"],
    )  # fmt: skip


def _others(graph: nx.DiGraph, facts: Facts) -> Iterator[Moment | Role]:
    begun = [data["time"] for _, data in graph.nodes(data=True) if data["role"] == "initiator" and data["time"]]
    too_early = min(begun) - timedelta(microseconds=EARLIER // 1000) if begun else None
    for incident in facts.incidents:
        time, row = moment(incident.time), incident.first
        role = graph.nodes[incident.id]["role"] if incident.id in graph else incident.role
        if row is None or (role == "initiator" and incident.id in graph):
            continue
        if role == "initiator":  # a failure of its own, but not the first: the first one explains it
            role = "collateral"
        if time is None:
            yield from (role for _ in _who(incident.ranks, incident.nodes, facts))
            continue
        if too_early is not None and time < too_early and not incident.inherited:
            role = "unrelated"
        waited = None if row.elapsed_ms is None or incident.inherited else row.elapsed_ms / 1000
        for rank, node in _who(incident.ranks, incident.nodes, facts):
            yield Moment(
                role, incident.event, incident.what, rank, node, time, _bound(incident), incident.inherited, waited,
                row.file, row.line, row.body,
            )  # fmt: skip


def _who(ranks: Iterable[int], nodes: Iterable[str], facts: Facts) -> list[tuple[int | None, str | None]]:
    found: list[tuple[int | None, str | None]] = [(rank, facts.topology.node_of_rank(rank)) for rank in ranks]
    return found or [(None, node) for node in nodes] or [(None, None)]


def _bound(incident: Incident) -> float | None:
    return None if incident.inherited else _seconds(incident.bound)


def _seconds(time_ns: int | None) -> float | None:
    return None if time_ns is None else time_ns / 1e9


def _seats(facts: Facts) -> Iterator[Seat]:
    for number, known in sorted(facts.topology.ranks.items()):
        last = moment(facts.clocks.corrected(known.node, known.last_ns))
        yield Seat(number, known.node, known.local_rank, known.collected, last)
