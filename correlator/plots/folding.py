"""The causal graph of a large or noisy job folded to one a person can read: equal occurrences are one box."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from correlator.diagnosis import CascadeEvent
from correlator.report.timeline import WAVES_SHOWN, Wave, build_waves, choose_waves

if TYPE_CHECKING:
    import networkx as nx


def folded_graph(cascade: Sequence[CascadeEvent], limit: int = WAVES_SHOWN) -> nx.DiGraph:
    """A graph of at most ``limit`` waves, with the node and edge attributes of the causal graph.

    ``count``: how many occurrences a node stands for. What is unrelated is left out, then the latest teardown.
    """
    import networkx as nx

    shown, _ = choose_waves(build_waves(cascade), limit)
    graph = nx.DiGraph()
    wave_of: dict[str, str] = {}
    for wave in shown:
        name = wave.entries[0].id
        wave_of.update((entry.id, name) for entry in wave.entries)
        graph.add_node(name, **_attributes(wave))
    for wave in shown:
        for entry in wave.entries:
            for cause in entry.caused_by:
                before, after = wave_of.get(cause), wave_of[entry.id]
                if before is not None and before != after:
                    graph.add_edge(before, after, rule=entry.rule)
    return graph


def _attributes(wave: Wave) -> dict[str, object]:
    first = wave.entries[0]
    place = first.evidence
    return {
        "what": wave.what,
        "role": wave.role,
        "ranks": sorted(wave.ranks),
        "nodes": sorted(wave.nodes),
        "time": None if wave.against_order else wave.time,
        "count": len(wave.entries),
        "file": place.file if place else None,
        "line": place.line if place else None,
        "text": place.text if place else "",
    }
