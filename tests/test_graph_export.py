"""The causal graph as GraphML, node-link JSON and SVG: what is in them, and hostile text in a label."""

from __future__ import annotations

import io
import itertools
import json
import re
from datetime import timedelta
from itertools import pairwise
from xml.etree import ElementTree

import networkx as nx
import pytest
from documents import XID, ZERO, graph_of, hardware_document

from correlator.errors import UsageError
from correlator.graph_export import graph_writer, way_to
from correlator.graph_svg import BOX_WIDTH, BOXES_LIMIT, arrange, draw_svg, strips

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "\x1b[2J\x00</text><script>alert(1)</script>&\u202e\ud800\"'"


@pytest.fixture
def graph() -> nx.DiGraph:
    return graph_of(hardware_document())


def hostile_graph() -> nx.DiGraph:
    graph = nx.DiGraph()
    graph.add_node(HOSTILE, what=HOSTILE, role=HOSTILE, ranks=[1], nodes=[HOSTILE], time=ZERO, file=HOSTILE, line=1)
    graph.add_edge(HOSTILE, "b", rule=HOSTILE)
    return graph


def texts_of(picture: bytes) -> list[str]:
    return ["".join(element.itertext()) for element in ElementTree.fromstring(picture).iter(f"{SVG}text")]


def test_graphml_can_be_read_back(graph: nx.DiGraph) -> None:
    again = nx.read_graphml(io.BytesIO(graph_writer(".graphml")(graph)))
    assert set(again.edges) == set(graph.edges)
    assert again.nodes["e1"] == {
        "what": "GPU has fallen off the bus (Xid 79)",
        "role": "initiator",
        "ranks": "21",
        "nodes": "gpu-a009",
        "time": "2024-05-07T17:28:17.120000Z",
        "event": "kernel.xid",
        "file": "journal/gpu-a009.journal",
        "line": 4,
        "text": XID,
    }
    assert again.edges["e1", "c0"] == {"rule": "missing_member"}


def test_json_can_be_read_back(graph: nx.DiGraph) -> None:
    again = nx.node_link_graph(json.loads(graph_writer(".JSON")(graph)), edges="edges")
    assert set(again.edges) == set(graph.edges)
    assert again.nodes["c3"]["ranks"] == [3]
    assert again.nodes["e1"]["time"] == "2024-05-07T17:28:17.120000Z"


def test_dot_quotes_every_text(graph: nx.DiGraph) -> None:
    lines = graph_writer(".dot")(graph).decode().splitlines()
    assert lines[0] == "digraph cascade {" and lines[-1] == "}"
    assert (
        'n0 [label="failed first  +0.0 s\\lrank 21, gpu-a009\\lGPU has fallen off the bus (Xid 79)\\l", id="e1"];'
        in lines
    )
    assert 'n0 -> n1 [label="same_gpu"];' in lines
    # Outside its quoted strings a hostile graph leaves nothing but the language itself.
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", graph_writer(".dot")(hostile_graph()).decode())
    assert bare.splitlines()[2:] == ["n0 [label=, id=];", "n1 [label=, id=];", "n0 -> n1 [label=];", "}"]


@pytest.mark.parametrize("suffix", [".graphml", ".json", ".dot", ".svg"])
def test_hostile_text_stays_text(suffix: str) -> None:
    data = graph_writer(suffix)(hostile_graph()).decode()
    assert all(character.isprintable() or character == "\n" for character in data)
    assert ("\\\\x1b" if suffix in (".json", ".dot") else "\\x1b") in data
    if suffix in (".graphml", ".svg"):
        tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(data).iter()}
        assert "script" not in tags


def test_the_picture_shows_every_box_from_cause_to_effect(graph: nx.DiGraph) -> None:
    picture = graph_writer(".svg")(graph)
    root = ElementTree.fromstring(picture)
    texts = texts_of(picture)
    assert len(root.findall(f"{SVG}g/{SVG}g")) == len(graph)
    assert texts.count("← missing member") == 31
    assert "failed first  +0.0 s" in texts and "suffered  +2.2 s" in texts and "suffered" in texts
    assert "+0.0 s is 2024-05-07 17:28:17.120 UTC" in texts
    left = {
        group.find(f"{SVG}title").text.split("\n")[0]: float(group.find(f"{SVG}rect").get("x"))  # type: ignore[union-attr]
        for group in root.findall(f"{SVG}g/{SVG}g")
    }
    assert (
        left["GPU has fallen off the bus (Xid 79)"]
        < left["the watchdog stopped: CUDA error"]
        < left["the launcher stopped its workers"]
    )
    assert "http" not in picture.decode().replace("http://www.w3.org/2000/svg", "")


def test_boxes_do_not_overlap(graph: nx.DiGraph) -> None:
    root = ElementTree.fromstring(graph_writer(".svg")(graph))
    columns: dict[float, list[tuple[float, float]]] = {}
    for rect in (group.find(f"{SVG}rect") for group in root.findall(f"{SVG}g/{SVG}g")):
        assert rect is not None
        top = float(rect.get("y", ""))
        columns.setdefault(float(rect.get("x", "")), []).append((top, top + float(rect.get("height", ""))))
    for boxes in columns.values():
        ordered = sorted(boxes)
        assert all(above[1] < below[0] for above, below in pairwise(ordered))


def test_a_huge_graph_is_drawn_in_part_and_says_so() -> None:
    graph = nx.DiGraph()
    graph.add_node("last", what="the cause", role="initiator", ranks=[7], nodes=[], time=ZERO, bound_ns=50_000_000)
    for n in range(5000):
        graph.add_node(n, what="timed out", role="collateral", ranks=[n], nodes=[], time=ZERO + timedelta(seconds=n))
        graph.add_edge("last", n, rule="missing_member")
    picture = graph_writer(".svg")(graph)
    assert len(ElementTree.fromstring(picture).findall(f"{SVG}g/{SVG}g")) == BOXES_LIMIT
    texts = texts_of(picture)
    assert "the cause" in texts
    assert f"{5001 - BOXES_LIMIT:,} more occurrences are not drawn; GraphML and JSON hold all" in texts


def test_a_circle_and_an_empty_graph_are_drawn_too() -> None:
    graph = nx.DiGraph([("a", "b"), ("b", "a"), ("b", "c")])
    assert len(ElementTree.fromstring(graph_writer(".svg")(graph)).findall(f"{SVG}g/{SVG}g")) == 3
    assert texts_of(graph_writer(".svg")(nx.DiGraph())) == ["nothing failed: the graph is empty"]
    assert len(nx.read_graphml(io.BytesIO(graph_writer(".graphml")(nx.DiGraph())))) == 0


def test_an_unknown_format_is_named_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"'\.png'; known are \.graphml, \.json, \.dot, \.svg"):
        graph_writer(".png")


def test_the_way_to_a_rank_holds_its_causes_and_nothing_else() -> None:
    graph = graph_of(hardware_document())
    part = way_to(graph, 30)
    assert set(part) == {"e1", "c30"}
    assert list(part.edges) == [("e1", "c30")]
    assert not way_to(graph, 99)


def test_a_box_says_why_it_hangs_on_its_cause_and_of_what_only_came_after_nothing() -> None:
    graph = graph_of(hardware_document())
    assert [text for text in texts_of(draw_svg(graph)) if text.startswith("←")]
    for _, _, data in graph.edges(data=True):
        data["rule"] = "after"
    assert not [text for text in texts_of(draw_svg(graph)) if text.startswith("←")]


@pytest.mark.parametrize("columns", [1, 3, 4, 5, 8])
def test_strips_for_paper_show_every_box_and_arrow_whole_and_readably(columns: int) -> None:
    chain = nx.DiGraph()
    for number in range(columns):
        chain.add_node(number, what=f"step {number}", role="collateral", ranks=[number])
    nx.add_path(chain, range(columns))
    views = [[float(value) for value in view.split()] for view in strips(chain)]
    assert bool(views) == (columns > 3)
    boxes = list(arrange(chain).values())
    for cause, effect in itertools.pairwise(boxes) if views else ():
        assert any(
            x <= cause.x and effect.x + BOX_WIDTH <= x + width and y <= min(cause.y, effect.y)
            and max(box.y + box.height for box in (cause, effect)) <= y + height
            for x, y, width, height in views
        )  # fmt: skip
    assert all(width < 1000 for _, _, width, _ in views)
