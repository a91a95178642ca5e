"""The cascade as a short list of events, from the causal graph."""

from __future__ import annotations

import networkx as nx

from correlator.attribution.verdict import moment
from correlator.diagnosis import CascadeEvent, CascadeEvidence

_TEXT_LIMIT = 400


def cascade_events(graph: nx.DiGraph) -> list[CascadeEvent]:
    """The graph's nodes as cascade entries, causes before effects, then by time."""
    order = {node: depth for depth, layer in enumerate(nx.topological_generations(graph)) for node in layer}
    found = []
    for node in sorted(graph, key=lambda n: (order[n], graph.nodes[n]["time"] is None, graph.nodes[n]["time"] or 0, n)):
        data = graph.nodes[node]
        causes = sorted(graph.predecessors(node))
        found.append(
            CascadeEvent(
                id=node,
                time=moment(data["time"]),
                ranks=data["ranks"],
                nodes=data["nodes"],
                what=data["what"],
                role=data["role"],
                caused_by=causes,
                rule=graph.edges[causes[0], node]["rule"] if causes else None,
                evidence=CascadeEvidence(data["file"], data["line"], data["text"][:_TEXT_LIMIT]) if data["file"] else None,
            )
        )
    return found
