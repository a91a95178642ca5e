"""One time for all nodes, with an honest bound.

Each node's clock is an unknown offset. Anchors bound the difference of two offsets; the offsets are a solution of the
difference constraints, and the bound is what the constraints leave open (shortest paths in both directions, the usual
reading of difference constraints as a graph). A negative cycle means that anchors contradict each other: the least
trusted anchor on it is dropped and named.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

import networkx as nx

from correlator.records import Row
from correlator.timestamps import SECOND

#: How far apart the same thing may be printed on two nodes, by kind of anchor, in ns. Iteration and save lines of one
#: step agree to some 20 ms; c10d's watchdog polls every 100 ms and its C++ stamps are good to one second only.
_TOLERANCE = {"iteration": 50_000_000, "barrier": 250_000_000, "communicator": SECOND, "time-out": 400_000_000}
#: Trust in an anchor when contradicting ones must be dropped; larger is kept.
_TRUST = {"iteration": 3, "barrier": 2, "communicator": 1, "time-out": 0}
#: Offsets this close to a multiple of half an hour are called a zone error.
_ZONE_STEP = 1800 * SECOND
_ZONE_SLACK = 120 * SECOND
#: One time-out wave spreads by at most this over its ranks; wider groups are not one wave.
_WAVE = 2 * SECOND


@dataclass(frozen=True, slots=True)
class Anchor:
    """``low <= offset(a) - offset(b) <= high``, in ns; an offset is what the node's clock shows too much."""

    a: str
    b: str
    low: int
    high: int
    kind: str
    samples: int


@dataclass(slots=True)
class NodeClock:
    """Offset against the reference node in ns; ``bound_ns`` None: nothing ties this clock to the reference."""

    node: str
    offset_ns: int | None
    bound_ns: int | None
    basis: str


@dataclass
class Clocks:
    """The clocks of all nodes."""

    reference: str | None = None
    nodes: dict[str, NodeClock] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def corrected(self, node: str | None, time_ns: int | None) -> int | None:
        """A time of this node on the reference clock; unchanged where the offset is unknown."""
        clock = self.nodes.get(node) if node else None
        if time_ns is None or clock is None or clock.offset_ns is None:
            return time_ns
        return time_ns - clock.offset_ns

    def bound(self, node: str | None) -> int | None:
        """Half width of what is left open for this node's times, in ns; None: unbounded."""
        if node is None or not self.nodes:
            return 0 if len(self.nodes) <= 1 else None
        clock = self.nodes.get(node)
        return clock.bound_ns if clock else None


def align_clocks(rows: Sequence[Row], progress: Sequence[Row]) -> Clocks:
    """The clocks of all nodes with stamped rows; ``progress``: step lines. Fills ``time`` and ``time_bound_ns``."""
    stamped = [r for r in (*rows, *progress) if r.node and r.timestamp is not None and r.timestamp_basis != "file-time"]
    weight: dict[str, int] = defaultdict(int)
    for row in stamped:
        weight[row.node or ""] += 1
    clocks = Clocks()
    if weight:
        clocks.reference = max(sorted(weight), key=lambda n: weight[n])
        solve(clocks, sorted(weight), [*_anchors(stamped)])
    for row in (*rows, *progress):
        row.time = clocks.corrected(row.node, row.timestamp)
        bound = clocks.bound(row.node)
        resolution = row.timestamp_resolution_ns or 0
        row.time_bound_ns = None if bound is None or row.time is None else bound + resolution
    return clocks


def _anchors(rows: Iterable[Row]) -> Iterable[Anchor]:
    keyed: dict[tuple[str, object], dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.timestamp_basis not in ("printed", "transport", "boot-relative"):
            continue
        key = _anchor_key(row)
        if key is not None and row.node:
            keyed[key][row.node].append(row)
    pairs: dict[tuple[str, str, str], list[tuple[int, int]]] = defaultdict(list)
    for (kind, _), by_node in sorted(keyed.items(), key=lambda item: str(item[0])):
        # One stamp a node: the earliest, which is the one that nothing delayed.
        first = {n: min(found, key=lambda r: r.timestamp or 0) for n, found in by_node.items()}
        names = sorted(first)
        for i, a in enumerate(names):
            for b in names[i + 1 : i + 9]:
                slack = _TOLERANCE[kind] + sum(_resolution(first[n]) for n in (a, b))
                pairs[kind, a, b].append(((first[a].timestamp or 0) - (first[b].timestamp or 0), slack))
    for (kind, a, b), differences in sorted(pairs.items()):
        middle = int(median(d for d, _ in differences))
        spread = int(median(abs(d - middle) for d, _ in differences)) * 3
        slack = min(s for _, s in differences) + spread
        yield Anchor(a, b, middle - slack, middle + slack, kind, len(differences))


def _resolution(row: Row) -> int:
    return row.timestamp_resolution_ns or 0


def _anchor_key(row: Row) -> tuple[str, object] | None:
    match row.event:
        case "megatron.iteration" | "trainer.progress" if row.step is not None:
            return "iteration", (row.attempt or 0, row.attr("epoch"), row.attr("mark"), row.step)
        case "checkpoint.save_started" if row.step is not None:
            return "iteration", (row.attempt or 0, "", "", row.step)
        case "megatron.phase":
            return "barrier", (row.attempt or 0, row.attr("phase"))
        case "nccl.init" if row.attr("phase") == "COMPLETE" and row.attr("comm_id"):
            return "communicator", row.attr("comm_id")
        case "c10d.watchdog_timeout" if row.seq is not None and row.timestamp_basis == "printed":
            return "time-out", (row.attempt or 0, row.process_group, row.seq, row.op, row.timeout_ms)
    return None


def solve(clocks: Clocks, nodes: Sequence[str], anchors: Sequence[Anchor]) -> None:
    """Fills ``clocks.nodes`` from the anchors; drops contradicting ones, least trusted first, and names them."""
    kept = list(anchors)
    while True:
        graph = nx.DiGraph()
        graph.add_nodes_from(nodes)
        for anchor in kept:
            _constrain(graph, anchor.b, anchor.a, anchor.high)
            _constrain(graph, anchor.a, anchor.b, -anchor.low)
        if not nx.negative_edge_cycle(graph, weight="weight"):
            break
        worst = _least_trusted(graph, kept)
        kept.remove(worst)
        clocks.warnings.append(
            f"the clock anchors of {worst.a} and {worst.b} ({worst.kind}) contradict others and were dropped"
        )
    reference = clocks.reference
    upper = nx.single_source_bellman_ford_path_length(graph, reference, weight="weight")
    lower = nx.single_source_bellman_ford_path_length(graph.reverse(copy=False), reference, weight="weight")
    for node in nodes:
        if node == reference:
            clocks.nodes[node] = NodeClock(node, 0, 0, "reference")
        elif node in upper and node in lower:
            high, low = upper[node], -lower[node]
            offset, bound = (high + low) // 2, (high - low + 1) // 2
            kinds = sorted({a.kind for a in kept if node in (a.a, a.b)})
            clocks.nodes[node] = NodeClock(node, offset, bound, ", ".join(kinds) or "through other nodes")
            nearest = round(offset / _ZONE_STEP) * _ZONE_STEP
            if nearest and abs(offset - nearest) <= _ZONE_SLACK:
                clocks.warnings.append(
                    f"{node} is off by {nearest / 3.6e12:+.1f} h: its stamps are in another time zone"
                )
        else:
            clocks.nodes[node] = NodeClock(node, None, None, "no anchor")


def _constrain(graph: nx.DiGraph, start: str, end: str, weight: int) -> None:
    if not graph.has_edge(start, end) or graph[start][end]["weight"] > weight:
        graph.add_edge(start, end, weight=weight)


def _least_trusted(graph: nx.DiGraph, kept: Sequence[Anchor]) -> Anchor:
    cycle = nx.find_negative_cycle(graph, next(n for n in graph if _on_negative_cycle(graph, n)))
    on_cycle = set(pairwise(cycle))
    involved = [a for a in kept if (a.a, a.b) in on_cycle or (a.b, a.a) in on_cycle]
    order: Callable[[Anchor], tuple[int, int, str, str]] = lambda a: (_TRUST[a.kind], a.samples, a.a, a.b)  # noqa: E731
    return min(involved or kept, key=order)


def _on_negative_cycle(graph: nx.DiGraph, node: str) -> bool:
    try:
        nx.find_negative_cycle(graph, node)
    except nx.NetworkXError:
        return False
    return True
