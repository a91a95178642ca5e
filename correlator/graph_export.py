"""The causal graph as a file: GraphML (yEd, Gephi), node-link JSON (d3, networkx), DOT (Graphviz), SVG (a browser).

Texts come from logs: what could steer a terminal or break XML is written as a visible escape. Lists are written as
``0-3,7`` (ranks) and comma-separated names (nodes) in GraphML, which knows scalars only, and as lists in JSON. Times
are RFC 3339 in UTC; ``bound_ns`` is the half width of what the clocks leave open, in nanoseconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from io import BytesIO
from typing import TYPE_CHECKING, Any

from correlator.errors import UsageError
from correlator.graph_svg import draw_svg, label_lines, zero_of
from correlator.hostlist import fold_ranges
from correlator.report.safe import visible

if TYPE_CHECKING:
    import networkx as nx


def graph_writer(suffix: str) -> Callable[[nx.DiGraph], bytes]:
    """The function that writes the format which a file name's ``suffix`` (with its dot) asks for.

    Raises UsageError for a format that is not written.
    """
    try:
        return _WRITERS[suffix.lower()]
    except KeyError:
        raise UsageError(f"no graph format has the ending {suffix!r}; known are {', '.join(_WRITERS)}") from None


def way_to(graph: nx.DiGraph, rank: int) -> nx.DiGraph:
    """The part of the graph that leads to what ``rank`` took part in."""
    import networkx as nx

    own = [node for node, data in graph.nodes(data=True) if rank in (data.get("ranks") or ())]
    return graph.subgraph(set(own).union(*(nx.ancestors(graph, node) for node in own)))


def to_graphml(graph: nx.DiGraph) -> bytes:
    """The graph as GraphML. Attributes that are unknown are left out."""
    import networkx as nx

    flat = _plain_copy(graph, _scalar)
    buffer = BytesIO()
    # The pure-Python writer: the one that networkx picks by itself depends on whether lxml is there.
    nx.readwrite.graphml.write_graphml_xml(flat, buffer, named_key_ids=True)
    return buffer.getvalue() + b"\n"


def to_node_link(graph: nx.DiGraph) -> bytes:
    """The graph as networkx's node-link JSON: ``nodes`` with ``id``, ``edges`` with ``source`` and ``target``."""
    import networkx as nx

    data = nx.node_link_data(_plain_copy(graph, _json_value), edges="edges")
    return json.dumps(data, indent=1).encode() + b"\n"


def to_dot(graph: nx.DiGraph) -> bytes:
    """The graph in Graphviz' language, causes left. A box holds role, time, ranks and what happened."""
    numbers = {node: number for number, node in enumerate(graph)}
    zero = zero_of(graph)
    lines = ["digraph cascade {", "rankdir=LR; node [shape=box, fontname=monospace]; edge [fontname=monospace];"]
    for node, data in graph.nodes(data=True):
        lines.append(
            f"n{numbers[node]} [label={_dot_text(label_lines(data, zero))}, id={_dot_text([visible(str(node))])}];"
        )
    for cause, effect, data in graph.edges(data=True):
        lines.append(
            f"n{numbers[cause]} -> n{numbers[effect]} [label={_dot_text([visible(str(data.get('rule') or ''))])}];"
        )
    return ("\n".join([*lines, "}"]) + "\n").encode()


def _dot_text(lines: list[str]) -> str:
    """A DOT string of left-justified lines. A backslash would start one of DOT's own escapes."""
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "".join(f"{line}\\l" for line in escaped) + '"' if len(lines) > 1 else f'"{next(escaped)}"'


_WRITERS: dict[str, Callable[[nx.DiGraph], bytes]] = {
    ".graphml": to_graphml,
    ".json": to_node_link,
    ".dot": to_dot,
    ".svg": draw_svg,
}


def _plain_copy(graph: nx.DiGraph, convert: Callable[[str, Any], Any]) -> nx.DiGraph:
    import networkx as nx

    def converted(attributes: Mapping[str, Any]) -> dict[str, Any]:
        values = {name: convert(name, value) for name, value in attributes.items()}
        return {name: value for name, value in values.items() if value is not None}

    copy = nx.DiGraph()
    copy.add_nodes_from((visible(str(node)), converted(data)) for node, data in graph.nodes(data=True))
    copy.add_edges_from((visible(str(a)), visible(str(b)), converted(data)) for a, b, data in graph.edges(data=True))
    return copy


def _scalar(name: str, value: Any) -> Any:
    if name == "ranks":
        return fold_ranges(value) or None
    if isinstance(value, (list, tuple, set)):
        return ",".join(visible(str(item)) for item in value) or None
    return _json_value(name, value)


def _json_value(name: str, value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, (list, tuple, set)):
        return [_json_value(name, item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float)) else visible(str(value))
