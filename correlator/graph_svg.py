"""The causal graph as a picture: causes left, effects right, one box an occurrence.

A layered layout of our own: a box stands one column right of its latest cause, boxes of a column are ordered so that
lines cross little. No font, script or style is loaded from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from textwrap import wrap
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

from correlator.diagnosis import Role
from correlator.plots.style import ROLE_SHADES
from correlator.report.safe import visible
from correlator.report.timeline import ROLE_WORDS
from correlator.report.words import clock_words, fold_nodes, ranks_words, relative_words

if TYPE_CHECKING:
    import networkx as nx

#: More boxes than this are no picture. The rest is in the other formats, and the picture says how many it leaves out.
BOXES_LIMIT = 120

#: The id of the boxes and arrows, by which a page can show a part of them again.
DRAWN = "cascade-drawn"

BOX_WIDTH, LINE_HEIGHT, PADDING = 256, 16, 8
_GAP_X, _GAP_Y, _MARGIN = 44, 14, 16
_TEXT_COLUMNS, _TEXT_LINES = 36, 4
_ROLES = tuple(ROLE_SHADES)
_SWEEPS = 4
#: Columns of a strip: on A4 upright their words are as small as on the narrowest screen that does not scroll.
_STRIP_COLUMNS = 3
_FONT = 'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="11"'
_EDGE_LOOK = 'fill="none" stroke="#98a2b3" marker-end="url(#tip)"'


@dataclass
class Box:
    """One occurrence in the picture; ``x`` and ``y`` are its upper left corner, in pixels."""

    lines: list[str]
    role: Role
    tooltip: str
    x: float = 0.0
    y: float = 0.0

    @property
    def height(self) -> float:
        """Height in pixels."""
        return len(self.lines) * LINE_HEIGHT + 2 * PADDING

    @property
    def middle(self) -> float:
        """Where arrows meet the box, from the top."""
        return self.y + self.height / 2


def draw_svg(graph: nx.DiGraph) -> bytes:
    """The picture, UTF-8. Of more than BOXES_LIMIT occurrences the ones nearest to the first failure are drawn."""
    boxes = arrange(graph)
    return _document(graph, boxes, zero_of(graph), hidden=len(graph) - len(boxes)).encode()


def strips(graph: nx.DiGraph) -> list[str]:
    """View boxes that cut the picture into strips for paper; none if all of it fits one.

    A strip begins with the last column of the one before, so that every arrow to the next column is whole somewhere.
    """
    boxes = arrange(graph).values()
    columns = sorted({box.x for box in boxes})
    if len(columns) <= _STRIP_COLUMNS:
        return []
    width = _STRIP_COLUMNS * (BOX_WIDTH + _GAP_X) - _GAP_X + 2 * _MARGIN
    views = []
    for first in range(0, len(columns) - 1, _STRIP_COLUMNS - 1):
        inside = [box for box in boxes if box.x in columns[first : first + _STRIP_COLUMNS]]
        top, bottom = min(box.y for box in inside), max(box.y + box.height for box in inside)
        views.append(f"{columns[first] - _MARGIN:.0f} {top - _MARGIN:.0f} {width} {bottom - top + 2 * _MARGIN:.0f}")
    return views


def arrange(graph: nx.DiGraph) -> dict[Any, Box]:
    """The boxes in their places, by node: causes left of their effects."""
    chosen, zero = _choose(graph), zero_of(graph)
    boxes = {node: _box(graph.nodes[node], zero, _rules(graph, node)) for node in chosen}
    part = graph.subgraph(chosen)
    _place(part, _columns(part), boxes)
    return boxes


def arrows(graph: nx.DiGraph, boxes: dict[Any, Box]) -> list[tuple[Any, Any, str]]:
    """Cause, effect and rule of the edges between these boxes, in the order of the boxes."""
    return [(a, b, str(graph.edges[a, b].get("rule") or "")) for a in boxes for b in graph.successors(a) if b in boxes]


def _choose(graph: nx.DiGraph) -> list[Any]:
    """Initiators, then the others by distance from them and by time; what nothing connects comes last."""
    distance = {node: 0 for node, data in graph.nodes(data=True) if data.get("role") == "initiator"}
    frontier = list(distance)
    while frontier:
        following: list[Any] = []
        for node in frontier:
            for child in graph.successors(node):
                if child not in distance:
                    distance[child] = distance[node] + 1
                    following.append(child)
        frontier = following
    far = len(graph)

    def key(node: Any) -> tuple[int, int, float]:
        role, time = _rank_in_time(graph.nodes[node])
        return role, distance.get(node, far), time

    return sorted(graph, key=key)[:BOXES_LIMIT]


def _rank_in_time(data: dict[str, Any]) -> tuple[int, float]:
    time = data.get("time")
    return _role_number(data), time.timestamp() if time else float("inf")


def _role_number(data: dict[str, Any]) -> int:
    role = data.get("role")
    return _ROLES.index(role) if role in _ROLES else len(_ROLES)


def label_lines(data: dict[str, Any], zero: datetime | None) -> list[str]:
    """What stands in a box: role and time after ``zero``, who, what; made visible, wrapped."""
    time = data.get("time")
    when = relative_words((time - zero).total_seconds()) if time and zero else ""
    what = wrap(visible(str(data.get("what") or "")), _TEXT_COLUMNS) or [""]
    if len(what) > _TEXT_LINES:
        what = [*what[: _TEXT_LINES - 1], what[_TEXT_LINES - 1][: _TEXT_COLUMNS - 1] + "…"]
    role = ROLE_WORDS.get(data.get("role") or "unrelated", "unrelated")
    return [f"{role}  {when}".rstrip(), *wrap(visible(_who(data)), _TEXT_COLUMNS)[:2], *what]


def zero_of(graph: nx.DiGraph) -> datetime | None:
    """The time that the others are counted from: the first initiator's, else the earliest."""
    times = [(_role_number(data) > 0, data["time"]) for _, data in graph.nodes(data=True) if data.get("time")]
    return min(times)[1] if times else None


def _who(data: dict[str, Any]) -> str:
    ranks, nodes = list(data.get("ranks") or []), list(data.get("nodes") or [])
    who = [ranks_words(ranks, 26)] if ranks else []
    who += [fold_nodes(nodes, 2)] if nodes else []
    return ", ".join(who)


def _rules(graph: nx.DiGraph, node: Any) -> list[str]:
    """Why a box hangs on its causes: the names of the rules, each once; that it only came after needs no word."""
    rules = dict.fromkeys(str(rule) for _, _, rule in graph.in_edges(node, data="rule") if rule)
    said = " / ".join(name for name in map(_rule_words, rules) if name != "after")
    return wrap(f"← {said}", _TEXT_COLUMNS) if said else []


def _box(data: dict[str, Any], zero: datetime | None, why: list[str]) -> Box:
    time = data.get("time")
    place = f"{data['file']}:{data.get('line')}" if data.get("file") else ""
    stated = [data.get("what"), _who(data), clock_words(time) if time else "", data.get("signature"), place]
    tooltip = "\n".join(visible(str(item)) for item in stated if item)
    role = data.get("role")
    head, *rest = label_lines(data, zero)
    return Box([head, *why, *rest], role if role in ROLE_SHADES else "unrelated", tooltip)


def _columns(graph: nx.DiGraph) -> list[list[Any]]:
    """Nodes by their longest way from a root; a knot (which a causal graph should not have) stands in one column."""
    import networkx as nx

    knots = nx.condensation(graph)
    columns: list[list[Any]] = []
    for generation in nx.topological_generations(knots):
        columns.append([node for knot in sorted(generation) for node in knots.nodes[knot]["members"]])
    for column in columns:
        column.sort(key=lambda node: (*_rank_in_time(graph.nodes[node]), str(node)))
    return columns


def _place(graph: nx.DiGraph, columns: Sequence[list[Any]], boxes: dict[Any, Box]) -> None:
    """Orders every column by the middle of its neighbours, forth and back, and sets x and y."""
    _stack(columns, boxes)
    for sweep in range(_SWEEPS):
        forth = sweep % 2 == 0
        for column in columns if forth else reversed(columns):
            wanted = {}
            for node in column:
                around = graph.predecessors(node) if forth else graph.successors(node)
                middles = [boxes[other].middle for other in around]
                wanted[node] = sum(middles) / len(middles) if middles else boxes[node].middle
            column.sort(key=wanted.__getitem__)
            _stack(columns, boxes)


def _stack(columns: Sequence[list[Any]], boxes: dict[Any, Box]) -> None:
    heights = [sum(boxes[node].height + _GAP_Y for node in column) - _GAP_Y for column in columns]
    tallest = max(heights, default=0)
    for number, (column, height) in enumerate(zip(columns, heights, strict=True)):
        y = _MARGIN + (tallest - height) / 2
        for node in column:
            boxes[node].x, boxes[node].y = _MARGIN + number * (BOX_WIDTH + _GAP_X), y
            y += boxes[node].height + _GAP_Y


def _document(graph: nx.DiGraph, boxes: dict[Any, Box], zero: datetime | None, hidden: int) -> str:
    width = max((box.x + BOX_WIDTH for box in boxes.values()), default=BOX_WIDTH) + _MARGIN
    drawn = arrows(graph, boxes)
    bottom = max((box.y + box.height for box in boxes.values()), default=0) + _MARGIN
    notes = [f"+0.0 s is {clock_words(zero)}"] if zero else []
    notes += [f"{hidden:,} more occurrences are not drawn; GraphML and JSON hold all"] if hidden else []
    notes += ["nothing failed: the graph is empty"] if not boxes else []
    height = bottom + LINE_HEIGHT * len(notes) + PADDING
    # The classes let a page set its own colours, for a dark screen; by itself the picture is on white.
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}"'
        f' viewBox="0 0 {width:.0f} {height:.0f}" style="--width:{width:.0f}px"'
        f" {_FONT}>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path class="tip" d="M0 0L8 4L0 8z" fill="#475467"/></marker></defs>',
        '<rect class="ground" width="100%" height="100%" fill="#ffffff"/>',
        f'<g id="{DRAWN}" {_FONT}>',
        *(_edge(boxes[a], boxes[b], rule) for a, b, rule in drawn),
        *(_box_svg(box) for box in boxes.values()),
        "</g>",
        *_text(_MARGIN, bottom + PADDING, notes, "#475467", "dim"),
        "</svg>\n",
    ]
    return "\n".join(part for part in parts if part)


def _edge(cause: Box, effect: Box, rule: str) -> str:
    if effect.x <= cause.x:  # both of one knot
        x1, x2, bend = cause.x + BOX_WIDTH, effect.x + BOX_WIDTH, cause.x + BOX_WIDTH + _GAP_X / 2
        path = f"M{x1:.0f} {cause.middle:.0f}C{bend:.0f} {cause.middle:.0f} {bend:.0f} {effect.middle:.0f}"
    else:
        x1, x2 = cause.x + BOX_WIDTH, effect.x
        half = _GAP_X / 2
        path = f"M{x1:.0f} {cause.middle:.0f}C{x1 + half:.0f} {cause.middle:.0f} {x2 - half:.0f} {effect.middle:.0f}"
    line = f'<path class="edge" d="{path} {x2:.0f} {effect.middle:.0f}"'
    return f"{line} {_EDGE_LOOK}><title>{escape(_rule_words(rule))}</title></path>"


def _rule_words(rule: str) -> str:
    return visible(rule.replace("_", " ").replace("-", " "))


def _box_svg(box: Box) -> str:
    fill, border, _ = ROLE_SHADES[box.role]
    rect = (
        f'<rect class="box {box.role}" x="{box.x:.0f}" y="{box.y:.1f}" width="{BOX_WIDTH}" height="{box.height:.0f}"'
        f' rx="4" fill="{fill}" stroke="{border}"/>'
    )
    head = list(_text(box.x + PADDING, box.y + PADDING + 11, box.lines[:1], border, f"head {box.role}", bold=True))
    body = list(_text(box.x + PADDING, box.y + PADDING + 11 + LINE_HEIGHT, box.lines[1:], "#101828", "ink"))
    return f"<g><title>{escape(box.tooltip)}</title>{rect}{''.join(head + body)}</g>"


def _text(x: float, y: float, lines: Iterable[str], colour: str, kind: str, bold: bool = False) -> Iterable[str]:
    weight = ' font-weight="bold"' if bold else ""
    for number, line in enumerate(lines):
        place = f'class="{kind}" x="{x:.0f}" y="{y + number * LINE_HEIGHT:.1f}" xml:space="preserve"'
        yield f"<text {place} fill={quoteattr(colour)}{weight}>{escape(line)}</text>"
