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

from correlator.report.safe import visible
from correlator.report.timeline import ROLE_WORDS
from correlator.report.words import clock_words, fold_nodes, ranks_words, relative_words

if TYPE_CHECKING:
    import networkx as nx

#: More boxes than this are no picture. The rest is in the other formats, and the picture says how many it leaves out.
BOXES_LIMIT = 120

_WIDTH, _LINE, _PAD = 310, 16, 8
_GAP_X, _GAP_Y, _MARGIN = 220, 14, 24
_TEXT_COLUMNS, _TEXT_LINES = 42, 3
_ROLES = ("initiator", "collateral", "teardown", "unrelated")
#: Fill and border of a role's box. The role also stands in the box, for those who do not see the colour.
_COLOURS = {
    "initiator": ("#fde8e8", "#b42318"),
    "collateral": ("#fff6e0", "#9a6700"),
    "teardown": ("#f0f2f5", "#667085"),
    "unrelated": ("#ffffff", "#98a2b3"),
}
_SWEEPS = 4
#: Width of a letter of an edge's label.
_LETTER = 5.5


@dataclass
class _Box:
    lines: list[str]
    role: str
    tooltip: str
    x: float = 0.0
    y: float = 0.0

    @property
    def height(self) -> float:
        return len(self.lines) * _LINE + 2 * _PAD

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


def draw_svg(graph: nx.DiGraph) -> bytes:
    """The picture, UTF-8. Of more than BOXES_LIMIT occurrences the ones nearest to the first failure are drawn."""
    chosen = _choose(graph)
    part = graph.subgraph(chosen)
    zero = zero_of(graph)
    boxes = {node: _box(data, zero) for node, data in part.nodes(data=True)}
    columns = _columns(part)
    _place(part, columns, boxes)
    return _document(part, boxes, zero, hidden=len(graph) - len(boxes)).encode()


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


def _box(data: dict[str, Any], zero: datetime | None) -> _Box:
    time = data.get("time")
    place = f"{data['file']}:{data.get('line')}" if data.get("file") else ""
    stated = [data.get("what"), _who(data), clock_words(time) if time else "", data.get("signature"), place]
    tooltip = "\n".join(visible(str(item)) for item in stated if item)
    return _Box(label_lines(data, zero), str(data.get("role")), tooltip)


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


def _place(graph: nx.DiGraph, columns: Sequence[list[Any]], boxes: dict[Any, _Box]) -> None:
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


def _stack(columns: Sequence[list[Any]], boxes: dict[Any, _Box]) -> None:
    heights = [sum(boxes[node].height + _GAP_Y for node in column) - _GAP_Y for column in columns]
    tallest = max(heights, default=0)
    for number, (column, height) in enumerate(zip(columns, heights, strict=True)):
        y = _MARGIN + (tallest - height) / 2
        for node in column:
            boxes[node].x, boxes[node].y = _MARGIN + number * (_WIDTH + _GAP_X), y
            y += boxes[node].height + _GAP_Y


def _document(graph: nx.DiGraph, boxes: dict[Any, _Box], zero: datetime | None, hidden: int) -> str:
    width = max((box.x + _WIDTH for box in boxes.values()), default=_WIDTH) + _MARGIN
    bottom = max((box.y + box.height for box in boxes.values()), default=0) + _MARGIN
    notes = [f"+0.0 s is {clock_words(zero)}"] if zero else []
    notes += [f"{hidden:,} more occurrences are not drawn; GraphML and JSON hold all"] if hidden else []
    notes += ["nothing failed: the graph is empty"] if not boxes else []
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{bottom + _LINE * len(notes) + _PAD:.0f}"'
        ' font-family="ui-monospace, Menlo, Consolas, monospace" font-size="11">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#475467"/></marker></defs>',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        *(_edge(boxes[a], boxes[b], str(data.get("rule") or "")) for a, b, data in graph.edges(data=True)),
        *(_box_svg(box) for box in boxes.values()),
        *(_rules(graph, node, box) for node, box in boxes.items()),
        *_text(_MARGIN, bottom + _PAD, notes, "#475467"),
        "</svg>\n",
    ]
    return "\n".join(part for part in parts if part)


def _edge(cause: _Box, effect: _Box, rule: str) -> str:
    if effect.x <= cause.x:  # both of one knot
        x1, x2, bend = cause.x + _WIDTH, effect.x + _WIDTH, cause.x + _WIDTH + _GAP_X / 2
        path = f"M{x1:.0f} {cause.middle:.0f}C{bend:.0f} {cause.middle:.0f} {bend:.0f} {effect.middle:.0f}"
    else:
        x1, x2 = cause.x + _WIDTH, effect.x
        half = _GAP_X / 2
        path = f"M{x1:.0f} {cause.middle:.0f}C{x1 + half:.0f} {cause.middle:.0f} {x2 - half:.0f} {effect.middle:.0f}"
    line = f'<path d="{path} {x2:.0f} {effect.middle:.0f}" fill="none" stroke="#98a2b3" marker-end="url(#tip)">'
    return f"{line}<title>{_rule_words(rule)}</title></path>"


def _rules(graph: nx.DiGraph, node: Any, box: _Box) -> str:
    """Why the box hangs on its causes: the names of the rules, above the arrow's tip, each once."""
    rules = dict.fromkeys(str(data["rule"]) for _, _, data in graph.in_edges(node, data=True) if data.get("rule"))
    names = [name for name in map(_rule_words, rules) if name != "after"]
    if not names:
        return ""
    said = " / ".join(names)
    # A white ground under the letters, so that no line strikes them through.
    width = len(said) * _LETTER + 4
    ground = (
        f'<rect x="{box.x - 8 - width:.0f}" y="{box.middle - 16:.0f}" width="{width:.0f}" height="12" fill="#ffffff"/>'
    )
    place = f'x="{box.x - 10:.0f}" y="{box.middle - 7:.0f}" text-anchor="end" font-size="9" fill="#475467"'
    return f"{ground}<text {place}>{said}</text>"


def _rule_words(rule: str) -> str:
    return escape(visible(rule.replace("_", " ").replace("-", " ")))


def _box_svg(box: _Box) -> str:
    fill, border = _COLOURS.get(box.role, _COLOURS["unrelated"])
    rect = (
        f'<rect x="{box.x:.0f}" y="{box.y:.1f}" width="{_WIDTH}" height="{box.height:.0f}" rx="4"'
        f" fill={quoteattr(fill)} stroke={quoteattr(border)}/>"
    )
    head = list(_text(box.x + _PAD, box.y + _PAD + 11, box.lines[:1], border, bold=True))
    body = list(_text(box.x + _PAD, box.y + _PAD + 11 + _LINE, box.lines[1:], "#101828"))
    return f"<g><title>{escape(box.tooltip)}</title>{rect}{''.join(head + body)}</g>"


def _text(x: float, y: float, lines: Iterable[str], colour: str, bold: bool = False) -> Iterable[str]:
    weight = ' font-weight="bold"' if bold else ""
    for number, line in enumerate(lines):
        place = f'x="{x:.0f}" y="{y + number * _LINE:.1f}" xml:space="preserve"'
        yield f"<text {place} fill={quoteattr(colour)}{weight}>{escape(line)}</text>"
