"""Which node's link explains where each member of a ring is stuck.

Gloo sums over a ring: every member receives from the next rank of the group and sends to the one before, two segments
under way, and waits for a receive before it waits for the send of the same turn (``gloo/allreduce.cc``). A send ends
only once the receiver has said that it is ready (``transport/tcp/pair.cc``). So each possible fault leaves its own
pattern of members that wait to receive or to send, and a pattern that only one fault leaves names it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from correlator.cascade.absence import loss_of
from correlator.cascade.findings import finding_for, spoken
from correlator.cascade.model import Facts, Finding
from correlator.cascade.stands import Stand, members, stands

_DIRECTION = re.compile(r"\bfor (recv|send) operation to complete")
#: Segments that each member has in the ring, at least.
_SEGMENTS = 2
#: Stuck members that it takes for each one that saw a connection close instead.
_EACH = 3
#: Larger rings are left out: what is played through grows with the square of the members, once for each node.
_LARGEST = 64


@dataclass(frozen=True, slots=True)
class Ring:
    """A sum that ran out of time: its members in their order, and in what each of those that say so was stuck."""

    ranks: tuple[int, ...]
    inside: frozenset[int]
    stuck: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Fault:
    """A possible cause: a node whose link carries nothing, or ranks that never entered."""

    node: str | None
    absent: frozenset[int] = frozenset()


def stuck_at(ring: Sequence[int], absent: Collection[int], cut: Collection[frozenset[int]]) -> dict[int, str]:
    """What each member that entered waits for in the end: ``recv``, ``send``, or ``done``.

    ``cut`` are the pairs of members between which nothing arrives.

    >>> stuck_at([0, 1, 2], absent=[], cut=[frozenset((0, 1)), frozenset((1, 2))])
    {0: 'recv', 1: 'recv', 2: 'send'}
    """
    size = len(ring)
    last = _SEGMENTS * size
    turn = {rank: 0 if rank in absent else 1 for rank in ring}  # turns begun; turn t has issued segment t - 1

    def waits(at: int) -> str | None:
        segment, rank = turn[ring[at]] - 2, ring[at]
        if segment < 0:
            return None
        source, target = ring[(at + 1) % size], ring[at - 1]
        if frozenset((rank, source)) in cut or turn[source] <= segment:
            return "recv"
        return "send" if frozenset((rank, target)) in cut or turn[target] <= segment else None

    entered = [(at, rank) for at, rank in enumerate(ring) if rank not in absent]
    moved = True
    while moved:
        moved = False
        for at, rank in entered:
            while turn[rank] <= last and waits(at) is None:
                turn[rank] += 1
                moved = True
    return {rank: "done" if turn[rank] > last else waits(at) or "done" for at, rank in entered}


def broken_ring(facts: Facts) -> Iterator[Finding]:
    """Members that entered one and the same sum are stuck in it as only one node's cut link leaves them."""
    places = stands(facts)
    rings = _rings(facts, places)
    top = facts.topology
    if not rings or not all(top.node_of_rank(rank) for ring in rings for rank in ring.ranks):
        return
    talkers = spoken(facts).keys()
    # A connection that was seen closing still carries news; more than a last one shows no more than the end of a wave.
    if not any(1 < len(ring.stuck) >= _EACH * len((talkers & {*ring.ranks}) - {*ring.stuck}) for ring in rings):
        return
    faults = [fault for fault in _faults(facts, rings) if all(_explains(facts, fault, ring) for ring in rings)]
    if len(faults) != 1 or (node := faults[0].node) is None:
        return
    rows = [places[rank].row for ring in rings for rank in sorted(ring.stuck)]
    beside = [row for row in rows if row.node == node]
    yield finding_for(
        facts,
        "stuck around one node",
        top.ranks_on(node),
        [*beside, *(row for row in rows if row.node != node)],
        trust="protocol",
        strength=0.7,
        scope="node",
        silent=True,
        class_="infrastructure",
        subclass="fabric",
        what=f"The network of {node} stopped carrying data",
        why=f"a cut link of {node} alone leaves the members of the sum waiting to send or to receive as they do",
        signature="link-down",
        control=f"Port counters and link events of {node} at the start of the stall; if clean, of its neighbours.",
    )


def _rings(facts: Facts, places: Mapping[int, Stand]) -> list[Ring]:
    """The sums of which some member ran out of time, one for each group and call site."""
    found: dict[tuple[tuple[int, ...], str], set[int]] = defaultdict(set)
    everyone = facts.expected_ranks()
    for rank, stand in places.items():
        if stand.call == "all_reduce":
            group = members(stand, facts.topology.grid, everyone)
            if group is not None and 2 < len(group) <= _LARGEST:
                found[group, stand.site].add(rank)
    rings = []
    for (group, _), inside in sorted(found.items()):
        stuck = {
            rank: match[1]
            for rank in sorted(inside)
            if loss_of(facts, places[rank].row) == "timeout" and (match := _DIRECTION.search(places[rank].row.body))
        }
        if stuck:
            rings.append(Ring(group, frozenset(inside), stuck))
    return rings


def _faults(facts: Facts, rings: Sequence[Ring]) -> list[Fault]:
    """What could have stopped the sums: a node's link, a rank that is in none of them, a whole node of such ranks."""
    top = facts.topology
    ranks = {rank for ring in rings for rank in ring.ranks}
    outside = ranks - {rank for ring in rings for rank in ring.inside}
    nodes = top.nodes_of(ranks)
    alone = [frozenset((rank,)) for rank in sorted(outside)]
    whole = [here for node in nodes if len(here := frozenset(top.ranks_on(node)) & ranks) > 1 and here <= outside]
    return [*(Fault(node) for node in nodes), *(Fault(None, absent) for absent in (*alone, *whole))]


def _explains(facts: Facts, fault: Fault, ring: Ring) -> bool:
    top = facts.topology
    here = {rank: top.node_of_rank(rank) == fault.node for rank in ring.ranks}
    pairs = zip(ring.ranks, (*ring.ranks[1:], ring.ranks[0]), strict=True)
    cut = {frozenset(pair) for pair in pairs if fault.node and here[pair[0]] != here[pair[1]]}
    expected = stuck_at(ring.ranks, fault.absent, cut)
    return all(expected.get(rank) == state for rank, state in ring.stuck.items())
