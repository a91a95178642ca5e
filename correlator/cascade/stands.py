"""Where each rank stood when the job stopped: the call it waited in, its process group, and whom it waited for.

Read from tracebacks of ranks that timed out and from stack dumps (faulthandler, py-spy). Only one thing is needed of a
stack: the innermost line of the program itself, and the collective that it called.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import networkx as nx

from correlator.cascade.model import Facts
from correlator.grid import Grid
from correlator.records import Row

_POINT_TO_POINT = frozenset({"recv", "send", "irecv", "isend", "batch_isend_irecv"})
#: Words in the calling line or the group's description that tell the axes of a group, tried in order.
_AXES = (
    (re.compile(r"model_parallel_group\(\)|MODEL_PARALLEL_GROUP$|\bMP\b|\bmp_group"), ("tp", "pp")),
    (re.compile(r"tensor_(?:model_)?parallel|TENSOR|\bTP\b|\btp_"), ("tp",)),
    (re.compile(r"pipeline|PIPELINE|\bPP\b|\bpp_"), ("pp",)),
    (re.compile(r"context_parallel|CONTEXT|\bCP\b|\bcp_"), ("cp",)),
    (re.compile(r"data_parallel|DATA|\bDP\b|\bdp_|\bdata_group"), ("dp",)),
)
_TENSOR_FIRST = re.compile(r"tensor|pipeline|TENSOR|PIPELINE", re.IGNORECASE)
_TO_PREVIOUS = re.compile(r"-\s*1\b|prev|recv_forward|send_backward", re.IGNORECASE)
_TO_NEXT = re.compile(r"\+\s*1\b|next|send_forward|recv_backward", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Stand:
    """A rank's place: ``site`` is ``function@file:line``; ``call`` the collective; ``text`` the calling source line."""

    rank: int
    site: str
    call: str
    text: str
    row: Row


def stands(facts: Facts) -> dict[int, Stand]:
    """The last known place of each rank inside a collective; ranks outside one, or without a stack, are absent."""
    texts: dict[str, str] = {}
    found: dict[int, Stand] = {}
    for row in facts.judged("python.stack_dump", "python.exception"):
        if row.attr("call_text"):
            texts.setdefault(row.attr("site"), row.attr("call_text"))
    for row in facts.judged("python.stack_dump", "python.exception"):
        if row.rank is None or not row.attr("site") or not row.attr("call"):
            continue
        site = row.attr("site")
        found[row.rank] = Stand(row.rank, site, row.attr("call"), texts.get(site, ""), row)
    return found


def outside_collective(facts: Facts) -> dict[int, Row]:
    """Ranks whose stack dump, taken while others waited, ends outside of any collective."""
    found: dict[int, Row] = {}
    for row in facts.judged("python.stack_dump"):
        if row.rank is not None and row.attr("site") and not row.attr("call") and row.attr("device_wait") != "true":
            found[row.rank] = row
        elif row.rank is not None:
            found.pop(row.rank, None)
    return found


def axes_of(text: str) -> tuple[str, ...] | None:
    """The axes of the group that a source line or a description names; None when it names none.

    >>> axes_of("dist.all_reduce(bucket, group=mpu.DP)")
    ('dp',)
    """
    for pattern, axes in _AXES:
        if pattern.search(text):
            if axes == ("tp", "pp") and _TENSOR_FIRST.search(text):
                continue
            return axes
    return None


def members(stand: Stand, grid: Grid | None, everyone: Sequence[int]) -> tuple[int, ...] | None:
    """The ranks that must enter the call for it to end (with the rank itself); None when the group is not known."""
    if stand.call in _POINT_TO_POINT:
        return _peer(stand, grid)
    axes = axes_of(stand.text)
    if grid is None or (axes is None and "group" not in stand.text):
        # A call without a group argument is one of the default group.
        return tuple(everyone) if axes is None or grid is None else None
    if axes is None:
        return None
    return grid.group(stand.rank, axes)


def _peer(stand: Stand, grid: Grid | None) -> tuple[int, ...] | None:
    if grid is None or grid.pp < 2:
        return None
    step = -1 if _TO_PREVIOUS.search(stand.text) else 1 if _TO_NEXT.search(stand.text) else 0
    own = grid.coordinates(stand.rank)
    if step == 0:
        return None
    peer = grid.rank({**own, "pp": (own["pp"] + step) % grid.pp})
    return tuple(sorted((stand.rank, peer)))


def wait_graph(facts: Facts, places: dict[int, Stand]) -> nx.DiGraph:
    """Edges from each waiting rank to the members of its group that did not enter its call."""
    graph = nx.DiGraph()
    everyone = facts.expected_ranks()
    graph.add_nodes_from(everyone)
    for stand in places.values():
        group = members(stand, facts.topology.grid, everyone)
        for other in group or ():
            there = places.get(other)
            if other != stand.rank and not _keeps_company(stand, there, facts.topology.grid):
                graph.add_edge(stand.rank, other)
    return graph


def _keeps_company(stand: Stand, there: Stand | None, grid: Grid | None) -> bool:
    """Whether a member is in the call that the other waits in: at the same site, or at the other end of one message."""
    if there is None:
        return False
    if stand.call not in _POINT_TO_POINT:
        return there.site == stand.site
    ends = {stand.call.removeprefix("i"), there.call.removeprefix("i")}
    return ends == {"send", "recv"} and stand.rank in (_peer(there, grid) or ())


def deviants(facts: Facts, places: dict[int, Stand], among: Collection[int]) -> list[int]:
    """The ranks of a waiting cycle that stand where no sister stands: alone at their site, against a majority.

    Sisters are the ranks of the same pipeline stage, which run the same program lines. Of several such ranks, those
    whose call leaves the most members missing deviate most. More than one rank in the result means undecided.
    """
    grid, everyone = facts.topology.grid, facts.expected_ranks()
    scores: dict[int, tuple[int, int]] = {}
    for rank in among:
        stand = places.get(rank)
        if stand is None:
            continue
        sisters = grid.group(rank, [a for a in grid.axes if a != "pp"]) if grid else tuple(everyone)
        company = [r for r in sisters if r != rank and r in places and places[r].site == stand.site]
        if company:
            continue
        group = members(stand, grid, everyone) or ()
        missing = sum(1 for r in group if r != rank and (r not in places or places[r].site != stand.site))
        others = [places[r].site for r in sisters if r != rank and r in places]
        majority = max((others.count(s) for s in set(others)), default=0)
        scores[rank] = (majority, missing)
    best = max(scores.values(), default=None)
    lone = sorted(r for r, score in scores.items() if score == best)
    return lone if len(lone) == 1 else left_its_group(facts, places, among) or lone


def left_its_group(facts: Facts, places: dict[int, Stand], among: Iterable[int]) -> list[int]:
    """The one rank of a cycle that stands in a wider call than all others: it went on and left its group."""
    grid, everyone = facts.topology.grid, facts.expected_ranks()
    sizes = {r: len(members(places[r], grid, everyone) or ()) for r in among if r in places}
    widest = max(sizes.values(), default=0)
    ahead = sorted(r for r, size in sizes.items() if size == widest)
    return ahead if len(ahead) == 1 else []
