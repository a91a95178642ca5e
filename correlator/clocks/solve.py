"""Offsets from anchors: a solution of difference constraints.

The constraints are edges of a graph, and what they leave open is the shortest path in both directions (the usual
reading of difference constraints). A negative cycle means that anchors contradict each other: the least trusted anchor
on it is dropped and named. Where many of one kind do, the fault is not with single anchors: one node's clock does not
run evenly, or things of that kind are printed further apart in this job than they usually are. Then the node's anchors
of that kind are dropped, or the bounds of all of them widened.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

import networkx as nx

from correlator.clocks.anchors import Anchor
from correlator.clocks.model import Clocks, NodeClock
from correlator.timestamps import SECOND

#: Trust in an anchor when contradicting ones must be dropped; larger is kept.
_TRUST = {"iteration": 3, "barrier": 2, "communicator": 1, "time-out": 0}
#: Contradictions of one kind, in number and per anchor of the kind, from which on it is not the single anchors' fault.
_MANY, _MANY_SHARE = 4, 0.002
#: Clocks of one job that are believed to run unevenly; where it seems so of more, it is the anchors.
_FEW_CLOCKS = 3
#: Offsets this close to a multiple of half an hour are called a zone error.
_ZONE_STEP = 1800 * SECOND
_ZONE_SLACK = 120 * SECOND


def solve(clocks: Clocks, nodes: Sequence[str], anchors: Sequence[Anchor]) -> None:
    """Fills ``clocks.nodes`` from the anchors; says which of them were dropped or widened in ``clocks.warnings``."""
    constraints = _Constraints(nodes, anchors)
    while constraints.relax():
        pass
    clocks.warnings += constraints.warnings()
    upper, lower = constraints.distances(clocks.reference)
    for node in nodes:
        if node == clocks.reference:
            clocks.nodes[node] = NodeClock(node, 0, 0, "reference")
        elif node in upper and node in lower:
            high, low = upper[node], -lower[node]
            offset, bound = (high + low) // 2, (high - low + 1) // 2
            basis = ", ".join(sorted(constraints.kinds[node])) or "through other nodes"
            clocks.nodes[node] = NodeClock(node, offset, bound, basis)
            nearest = round(offset / _ZONE_STEP) * _ZONE_STEP
            if nearest and abs(offset - nearest) <= _ZONE_SLACK:
                clocks.warnings.append(
                    f"{node} is off by {nearest / 3.6e12:+.1f} h: its stamps are in another time zone"
                )
        else:
            clocks.nodes[node] = NodeClock(node, None, None, "no anchor")


class _Constraints:
    """The anchors as a graph, without those that were dropped and as wide as was found necessary."""

    def __init__(self, nodes: Sequence[str], anchors: Sequence[Anchor]) -> None:
        self._nodes = nodes
        self._anchors = anchors
        self._number = Counter(anchor.kind for anchor in anchors)
        # By kind: dropped ones with what each edge of their cycle lacked, in ns; how much wider; uneven clocks.
        self._dropped: dict[str, dict[Anchor, int]] = defaultdict(dict)
        self._wider: dict[str, int] = {}
        self._uneven: set[tuple[str, str]] = set()
        self._build()

    def _build(self) -> None:
        self.kinds: dict[str, set[str]] = defaultdict(set)
        self._kept: dict[tuple[str, str], list[Anchor]] = defaultdict(list)
        for anchor in self._anchors:
            if self._uneven.isdisjoint({(anchor.a, anchor.kind), (anchor.b, anchor.kind)}):
                self._kept[anchor.a, anchor.b].append(anchor)
                self.kinds[anchor.a].add(anchor.kind)
                self.kinds[anchor.b].add(anchor.kind)
        self._graph = nx.DiGraph()
        self._graph.add_nodes_from(self._nodes)
        # Before all nodes, so that one search sees the cycles of all of them.
        self._source = object()
        self._graph.add_weighted_edges_from((self._source, node, 0) for node in self._nodes)
        for pair in self._kept:
            self._constrain(pair)

    def _constrain(self, pair: tuple[str, str]) -> None:
        a, b = pair
        if kept := self._kept[pair]:
            for start, end, limits in ((b, a, [one.high for one in kept]), (a, b, [-one.low for one in kept])):
                weights = [limit + self._wider.get(one.kind, 0) for limit, one in zip(limits, kept, strict=True)]
                weight = min(weights)
                self._graph.add_edge(start, end, weight=weight, anchor=kept[weights.index(weight)])
        else:
            self._graph.remove_edges_from([(a, b), (b, a)])

    def relax(self) -> bool:
        """Resolve one contradiction; False when there is none left."""
        try:
            cycle = nx.find_negative_cycle(self._graph, self._source)
        except nx.NetworkXError:
            return False
        edges = [self._graph.edges[edge] for edge in pairwise(cycle)]
        lacks = -sum(edge["weight"] for edge in edges) // len(edges) + 1
        worst = min((edge["anchor"] for edge in edges), key=lambda one: (_TRUST[one.kind], one.samples, one.a, one.b))
        dropped = self._dropped[worst.kind]
        dropped[worst] = lacks
        if len(dropped) > max(_MANY, _MANY_SHARE * self._number[worst.kind]):
            self._judge_kind(worst.kind, dropped)
        else:
            self._kept[worst.a, worst.b].remove(worst)
            self._constrain((worst.a, worst.b))
        return True

    def _judge_kind(self, kind: str, dropped: dict[Anchor, int]) -> None:
        """Blame the one clock that nearly all dropped anchors have in common, else the width of all of the kind."""
        times = Counter(node for anchor in dropped for node in (anchor.a, anchor.b))
        node = max(sorted(times), key=lambda n: times[n])
        blamed = {(n, k) for n, k in self._uneven if k == kind}
        if times[node] >= len(dropped) - 1 and len(blamed) < _FEW_CLOCKS:
            self._uneven.add((node, kind))
        else:
            self._uneven -= blamed
            wider = self._wider.get(kind, 0)
            self._wider[kind] = wider + max(wider, *dropped.values())  # doubled, so that a few rounds do
        dropped.clear()
        self._build()

    def distances(self, reference: str | None) -> tuple[dict[str, int], dict[str, int]]:
        """What the constraints leave open: the greatest offset of each node, and the least with its sign turned."""
        self._graph.remove_node(self._source)
        upper = nx.single_source_bellman_ford_path_length(self._graph, reference, weight="weight")
        lower = nx.single_source_bellman_ford_path_length(self._graph.reverse(copy=False), reference, weight="weight")
        return upper, lower

    def warnings(self) -> Iterator[str]:
        """A sentence for each anchor, clock or kind that had to give way."""
        for dropped in self._dropped.values():
            for one in dropped:
                yield f"the clock anchors of {one.a} and {one.b} ({one.kind}) contradict others and were dropped"
        for node, kind in sorted(self._uneven):
            yield f"the clock of {node} does not run evenly with the others: its anchors ({kind}) were dropped"
        for kind, wider in self._wider.items():
            yield (
                f"the clock anchors of many nodes ({kind}) contradict each other: they are taken to be"
                f" {wider / SECOND:.1f} s less exact"
            )
