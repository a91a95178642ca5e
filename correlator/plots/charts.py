"""Altair charts of a diagnosis: they show in Jupyter, zoom and hover, and ``save`` as PNG, SVG, HTML or JSON.

Tables go in as polars frames. Every text from a log is made visible first (``style.chart_text``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias

from correlator.diagnosis import Clock, Document
from correlator.errors import UsageError
from correlator.graph_svg import BOX_WIDTH, LINE_HEIGHT, PADDING, arrange, arrows
from correlator.plots.cells import field_of
from correlator.plots.folding import folded_graph
from correlator.plots.lanes import By, Lane, Mark, lanes_of, window_of
from correlator.plots.moments import Story
from correlator.plots.style import NOT_COLLECTED, QUIET, QUIET_COLOUR, ROLE_SHADES, chart_text
from correlator.report.timeline import ROLE_WORDS
from correlator.report.words import clock_words, ranks_words

if TYPE_CHECKING:
    import altair as alt
    import polars as pl

    AnyChart: TypeAlias = alt.Chart | alt.LayerChart | alt.FacetChart

_WIDTH = 720
_LANE_HEIGHT = 22
_ROLE_COLOURS = {ROLE_WORDS[role]: shade.line for role, shade in ROLE_SHADES.items()}
_STATE_COLOURS = {ROLE_WORDS[role]: shade.solid for role, shade in ROLE_SHADES.items()} | {
    QUIET: QUIET_COLOUR,
    NOT_COLLECTED: "#ffffff",
}
_EXACT, _LOOSE, _AT_LEAST = "exact within its bar", "on a clock tied to no other", "not before"
_SHAPES = {_EXACT: "circle", _LOOSE: "diamond", _AT_LEAST: "triangle-right"}


def _need_altair() -> None:
    if find_spec("altair") is None:
        raise UsageError("charts need Altair: pip install 'rank-correlator[plots]'")


def timeline(story: Story, by: By = "auto") -> AnyChart:
    """Who did what when: a lane a rank (``by="rank"``), a node, or, of a large job, all that did the same.

    Time is in seconds after the first failure. The pale bar under a mark is what its clock leaves open, the line before
    it the wait that it speaks of. Scroll to zoom, drag to move.
    """
    _need_altair()
    import altair as alt

    lanes = lanes_of(story, by)
    names = _names(lanes)
    marks = _frame(
        _mark_row(name, mark, story.zero) for name, lane in zip(names, lanes, strict=True) for mark in lane.marks
    )
    y = alt.Y("lane:N", sort=names, title=None, scale=alt.Scale(domain=names), axis=alt.Axis(labelLimit=260))
    since = f"seconds after {clock_words(story.zero, 0.0)}" if story.zero else "seconds"
    window = [_after(time, story.zero) for time in window_of(lanes) or ()] or [-1.0, 1.0]
    x = alt.X("first:Q", title=since, scale=alt.Scale(domain=window))
    legend = alt.Legend(symbolOpacity=1, symbolType="square")
    colour = alt.Color("role:N", title="role", scale=_scale(_ROLE_COLOURS, marks, "role"), legend=legend)
    base = alt.Chart(marks).encode(y=y)
    waits = base.mark_rule(opacity=0.5, clip=True).encode(x=alt.X("since:Q", title=since), x2="first:Q", color=colour)
    bounds = base.mark_bar(opacity=0.3, height=12, clip=True).encode(x="earliest:Q", x2="latest:Q", color=colour)
    points = base.mark_point(filled=True, size=90, opacity=1, clip=True).encode(
        x=x,
        color=colour,
        shape=alt.Shape("time:N", title="time", scale=alt.Scale(domain=list(_SHAPES), range=list(_SHAPES.values()))),
        tooltip=["what:N", "who:N", "role:N", "when:N", "line:N", "place:N"],
    )
    return (
        alt.layer(waits, bounds, points)
        .properties(width=_WIDTH, height=max(1, len(lanes)) * _LANE_HEIGHT)
        .interactive(bind_y=False)
    )


def cascade(document: Document) -> alt.LayerChart:
    """What set off what: the first failure left, its effects to the right, equal occurrences in one box."""
    _need_altair()
    import altair as alt

    graph = folded_graph(document.cascade)
    boxes = arrange(graph)
    frame = _frame(
        {
            "left": box.x, "right": box.x + BOX_WIDTH, "top": box.y, "bottom": box.y + box.height,
            "head": box.y + PADDING, "body": box.y + PADDING + LINE_HEIGHT, "inside": box.x + PADDING,
            "title": chart_text(box.lines[0]), "text": [chart_text(line) for line in box.lines[1:]],
            "role": ROLE_WORDS[box.role], "what": chart_text(box.tooltip),
        }
        for box in boxes.values()
    )  # fmt: skip
    edges = _frame(
        {"x": boxes[a].x + BOX_WIDTH, "y": boxes[a].middle, "x2": boxes[b].x, "y2": boxes[b].middle, "rule": rule}
        for a, b, rule in arrows(graph, boxes)
    )
    width = max((box.x + BOX_WIDTH for box in boxes.values()), default=BOX_WIDTH)
    height = max((box.y + box.height for box in boxes.values()), default=LINE_HEIGHT)

    def x(field: str) -> alt.X:
        return alt.X(field, type="quantitative", axis=None, scale=alt.Scale(domain=[0, width]))

    def y(field: str) -> alt.Y:
        return alt.Y(field, type="quantitative", axis=None, scale=alt.Scale(domain=[height, 0]))

    arrow = alt.Chart(edges)
    lines = arrow.mark_rule(color="#98a2b3", strokeWidth=1.5).encode(x("x"), y("y"), x2="x2", y2="y2", tooltip="rule:N")
    tips = arrow.mark_point(shape="triangle-right", filled=True, color="#475467", size=60, opacity=1)
    base = alt.Chart(frame)
    roles = list(_ROLE_COLOURS)
    fills = alt.Scale(domain=roles, range=[shade.fill for shade in ROLE_SHADES.values()])
    strokes = alt.Scale(domain=roles, range=list(_ROLE_COLOURS.values()))
    rects = base.mark_rect(cornerRadius=4, strokeWidth=1).encode(
        x("left"), y("top"), x2="right", y2="bottom", tooltip="what:N",
        color=alt.Color("role:N", scale=fills, legend=None), stroke=alt.Stroke("role:N", scale=strokes, legend=None),
    )  # fmt: skip
    font: dict[str, Any] = {"align": "left", "baseline": "top", "font": "monospace", "fontSize": 11, "color": "#101828"}
    heads = base.mark_text(fontWeight="bold", **font).encode(x("inside"), y("head"), text="title:N", tooltip="what:N")
    bodies = base.mark_text(lineHeight=LINE_HEIGHT, **font).encode(
        x("inside"), y("body"), text="text:N", tooltip="what:N"
    )
    layers = alt.layer(lines, tips.encode(x("x2"), y("y2"), tooltip="rule:N"), rects, heads, bodies)
    drawn: alt.LayerChart = layers.properties(width=width, height=height).configure_view(stroke=None)
    return drawn


def topology_grid(document: Document, story: Story) -> AnyChart:
    """Every rank a cell, by tensor, pipeline and data parallel place, coloured by role; without sizes by node."""
    _need_altair()
    import altair as alt

    field = field_of(document, story)
    frame = _frame(
        {
            "block": cell.block, "row": cell.row, "row_name": chart_text(field.row_names[cell.row]),
            "column": cell.column, "rank": ranks_words(cell.ranks), "place": cell.place,
            "node": chart_text(cell.node or "unknown"), "state": cell.state,
        }
        for cell in field.cells
    )  # fmt: skip
    chart = alt.Chart(frame).mark_rect(stroke="#98a2b3", strokeWidth=0.5).encode(
        x=alt.X("column:O", title=None if field.blocks else field.columns, axis=alt.Axis(labelAngle=0)),
        y=alt.Y("row_name:N", title=field.rows, sort=alt.EncodingSortField("row")),
        color=alt.Color("state:N", title="role", scale=_scale(_STATE_COLOURS, frame, "state")),
        tooltip=["rank:N", "place:N", "node:N", "state:N"],
    ).properties(width=alt.Step(16), height=alt.Step(16))  # fmt: skip
    by_block: AnyChart = chart.facet(
        column=alt.Column("block:O", title=f"{field.blocks}; in each, {field.columns}"), spacing=8
    )
    return by_block if field.blocks else chart


def clocks(clocks: Iterable[Clock]) -> AnyChart:
    """How far each node's clock is ahead of the reference, with the bar of what the logs leave open.

    A node without a bar is tied to no other: its times cannot be compared with theirs.
    """
    _need_altair()
    import altair as alt

    clocks = list(clocks)
    frame = _frame(
        {
            "node": chart_text(clock.node), "offset": clock.offset_s, "basis": clock.basis,
            "least": None if clock.offset_s is None or clock.bound_s is None else clock.offset_s - clock.bound_s,
            "most": None if clock.offset_s is None or clock.bound_s is None else clock.offset_s + clock.bound_s,
            "bound": clock.bound_s, "untied": "tied to no other" if clock.bound_s is None else "",
        }
        for clock in clocks
    )  # fmt: skip
    base = alt.Chart(frame).encode(
        y=alt.Y("node:N", title=None, sort=[chart_text(clock.node) for clock in clocks], axis=alt.Axis(labelLimit=260))
    )
    tooltip = ["node:N", "offset:Q", "bound:Q", "basis:N"]
    title = "seconds ahead of the reference clock"
    bars = base.mark_bar(height=10, opacity=0.35).encode(x=alt.X("least:Q", title=title), x2="most:Q", tooltip=tooltip)
    points = base.mark_point(filled=True, size=70, opacity=1).encode(x=alt.X("offset:Q", title=title), tooltip=tooltip)
    words = base.mark_text(align="left", color="#667085").encode(x=alt.datum(0), text="untied:N")
    return alt.layer(bars, points, words).properties(width=_WIDTH)


def _names(lanes: Iterable[Lane]) -> list[str]:
    """The lanes' labels, each once, since a lane is found by its label."""
    seen: dict[str, int] = {}
    names = []
    for lane in lanes:
        name = chart_text(lane.label + (f" ({lane.note})" if lane.note else ""))
        seen[name] = seen.get(name, 0) + 1
        names.append(name if seen[name] == 1 else f"{name} · {seen[name]}")
    return names


def _after(time: datetime | None, zero: datetime | None) -> float | None:
    return None if time is None or zero is None else (time - zero).total_seconds()


def _mark_row(lane: str, mark: Mark, zero: datetime | None) -> dict[str, Any]:
    certainty = _AT_LEAST if mark.not_before else _LOOSE if mark.loose else _EXACT
    return {
        "lane": lane,
        "first": _after(mark.first, zero),
        "earliest": _after(mark.earliest, zero),
        "latest": _after(mark.latest, zero),
        "since": _after(mark.since, zero),
        "role": ROLE_WORDS[mark.role],
        "time": certainty,
        "what": chart_text(mark.what),
        "who": chart_text(mark.who),
        "when": clock_words(mark.first),
        "line": chart_text(mark.text)[:400],
        "place": chart_text(mark.place),
    }


def _scale(colours: Mapping[str, str], frame: pl.DataFrame, column: str) -> Any:
    """Only what occurs is in the legend."""
    there = set(frame[column]) if frame.height else set()
    domain = [name for name in colours if name in there]
    import altair as alt

    return alt.Scale(domain=domain, range=[colours[name] for name in domain])


def _frame(rows: Iterable[dict[str, Any]]) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame(list(rows), infer_schema_length=None)
