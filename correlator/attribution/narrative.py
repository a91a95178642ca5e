"""The cascade as a short list of events, from the causal graph."""

from __future__ import annotations

from datetime import datetime

import networkx as nx

from correlator.diagnosis import CascadeEvent, CascadeEvidence

_TEXT_LIMIT = 400


def _sort_time(time: datetime | None) -> tuple[bool, float]:
    return (time is None, time.timestamp() if time else 0.0)


def cascade_events(graph: nx.DiGraph) -> list[CascadeEvent]:
    """The graph's nodes as cascade entries, causes before effects, then by time."""
    order = {node: depth for depth, layer in enumerate(nx.topological_generations(graph)) for node in layer}
    found = []
    for node in sorted(graph, key=lambda n: (order[n], _sort_time(graph.nodes[n]["time"]), n)):
        data = graph.nodes[node]
        causes = sorted(graph.predecessors(node))
        found.append(
            CascadeEvent(
                id=node,
                time=data["time"],
                ranks=data["ranks"],
                nodes=data["nodes"],
                what=data["what"],
                role=data["role"],
                caused_by=causes,
                rule=graph.edges[causes[0], node]["rule"] if causes else None,
                evidence=CascadeEvidence(data["file"], data["line"], data["text"][:_TEXT_LIMIT])
                if data["file"]
                else None,
            )
        )
    return found
