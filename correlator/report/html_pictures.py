"""The pictures of the HTML report as plain numbers: lanes, cells and clocks, which the template turns into markup.

The page places everything by style variables (seconds, or cells), so that zooming is a change of two numbers and the
pictures are there without any script.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import ceil, floor, log10, sqrt

from correlator.diagnosis import Clock, Document
from correlator.plots.cells import Cell, Field, field_of
from correlator.plots.lanes import Lane, Mark, lanes_of, window_of
from correlator.plots.moments import Story
from correlator.plots.style import NOT_COLLECTED
from correlator.report.timeline import ROLE_WORDS
from correlator.report.words import clock_words, count_words, relative_words

#: More nodes than this get no lane each, and more ranks no cell each: nobody would look at them one by one.
_NODES_SHOWN, _CELLS_SHOWN = 512, 4096
_TEXT_SHOWN = 300
_TICKS = 8
_CELL, _BLOCK_GAP, _PANEL_GAP, _LETTER = 14, 8, 24, 6.5
_LABEL_LETTERS = 22


@dataclass(frozen=True)
class Spot:
    """One mark: from ``least`` to ``most`` its clock's bound, ``at`` its time, in seconds after the first failure."""

    role: str
    shape: str
    at: float
    until: float
    least: float
    most: float
    since: float | None
    tip: str


@dataclass(frozen=True)
class Track:
    """One lane. ``last``: the last sign of life in seconds after the first failure."""

    label: str
    role: str
    note: str
    last: float | None
    spots: tuple[Spot, ...]


@dataclass(frozen=True)
class Timeline:
    """All lanes, what is shown of the axis at first (seconds), its ticks, and the lanes by node, if there are any."""

    first: float
    last: float
    began: float
    zero: str
    ticks: tuple[tuple[float, str], ...]
    tracks: tuple[Track, ...]
    nodes: tuple[Track, ...]


def timeline_of(document: Document, story: Story) -> Timeline | None:
    """The timeline; None where no time is known."""
    lanes = lanes_of(story)
    window = window_of(lanes)
    if story.zero is None or window is None:
        return None
    zero = story.zero
    first, last = _after(window[0], zero), _after(window[1], zero)
    nodes = lanes_of(story, by="node") if any(len(lane.ranks) > 1 for lane in lanes) else []
    began = min(_after(document.job.started, zero) if document.job.started else first, first)
    return Timeline(
        first,
        last,
        began,
        clock_words(zero),
        tuple((at, relative_words(at)) for at in _ticks(first, last)),
        tuple(_track(lane, zero) for lane in lanes),
        tuple(_track(lane, zero) for lane in nodes) if 1 < len(nodes) <= _NODES_SHOWN else (),
    )


def _after(time: datetime, zero: datetime) -> float:
    return round((time - zero).total_seconds(), 3)


def _ticks(first: float, last: float) -> list[float]:
    """Round numbers between two, about _TICKS of them."""
    rough = (last - first) / _TICKS
    power = 10.0 ** floor(log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    return [round(number * step, 6) for number in range(ceil(first / step), floor(last / step) + 1)]


def _track(lane: Lane, zero: datetime) -> Track:
    return Track(
        lane.label,
        lane.role or "",
        lane.note,
        _after(lane.last, zero) if lane.last else None,
        tuple(_spot(mark, zero) for mark in lane.marks),
    )


def _spot(mark: Mark, zero: datetime) -> Spot:
    shape = "not-before" if mark.not_before else "loose" if mark.loose else "exact"
    return Spot(
        mark.role, shape, _after(mark.first, zero), _after(mark.last, zero), _after(mark.earliest, zero),
        _after(mark.latest, zero), _after(mark.since, zero) if mark.since else None, _tip(mark, zero),
    )  # fmt: skip


def _tip(mark: Mark, zero: datetime) -> str:
    """What is shown of a mark: role, time and how well it is known, who, what, and the line."""
    bound = max((mark.first - mark.earliest).total_seconds(), (mark.latest - mark.last).total_seconds())
    when = relative_words((mark.first - zero).total_seconds())
    if mark.last > mark.first:
        when += f" to {relative_words((mark.last - zero).total_seconds())}"
    if mark.not_before:
        when = f"not before {when}"
    elif mark.loose:
        when += ", on a clock tied to no other"
    elif bound:
        when += f" ± {bound:.3g} s"
    lines = [f"{ROLE_WORDS[mark.role]}, {when} ({clock_words(mark.first)})", mark.who, mark.what]
    first_line = mark.text.partition("\n")[0]
    if mark.place:
        shown = first_line if len(first_line) <= _TEXT_SHOWN else first_line[:_TEXT_SHOWN] + "…"
        lines.append(f"{mark.place}  {shown}" if shown != mark.what else mark.place)
    return "\n".join(line for line in lines if line)


@dataclass(frozen=True)
class Square:
    """One rank in the field, in pixels."""

    x: int
    y: int
    kind: str
    tip: str


@dataclass(frozen=True)
class Grid:
    """The field of ranks. ``said``: what rows, columns and blocks are, and where the rank that failed first stands."""

    width: int
    height: int
    size: int
    squares: tuple[Square, ...]
    labels: tuple[tuple[int, int, str], ...]
    said: tuple[str, ...]
    kinds: tuple[tuple[str, str], ...]


def grid_of(document: Document, story: Story) -> Grid | None:
    """The field; None without ranks, or with more than anybody would look at."""
    field = field_of(document, story)
    if not field.cells or len(field.cells) > _CELLS_SHOWN:
        return None
    columns = max(cell.column for cell in field.cells) + 1
    blocks = max(cell.block for cell in field.cells) + 1
    rows = len(field.row_names)
    across = blocks * (columns * _CELL + _BLOCK_GAP)
    letters = min(max(len(name) for name in field.row_names), _LABEL_LETTERS)
    left = round(letters * _LETTER) + 8
    panel = left + across + _PANEL_GAP
    # A field that is much higher than wide is cut into panels side by side.
    per_panel = ceil(rows / max(1, round(sqrt(rows * _CELL / panel))))
    top = _CELL + 4

    def place(cell: Cell) -> Square:
        part, row = divmod(cell.row, per_panel)
        x = part * panel + left + cell.block * (columns * _CELL + _BLOCK_GAP) + cell.column * _CELL
        return Square(x, top + row * _CELL, _kind(cell), _cell_tip(cell))

    labels = [
        (part * panel + left - 4, top + row * _CELL + _CELL - 3, name)
        for number, name in enumerate(field.row_names)
        for part, row in [divmod(number, per_panel)]
    ]
    squares = tuple(place(cell) for cell in field.cells)
    return Grid(
        width=ceil(rows / per_panel) * panel - _PANEL_GAP,
        height=top + per_panel * _CELL + 4,
        size=_CELL - 2,
        squares=squares,
        labels=tuple(
            (x, y, name if len(name) <= _LABEL_LETTERS else name[: _LABEL_LETTERS - 1] + "…") for x, y, name in labels
        ),
        said=tuple(_field_words(field)),
        kinds=tuple(dict.fromkeys(sorted((_kind(cell), cell.state) for cell in field.cells))),
    )


def _kind(cell: Cell) -> str:
    return cell.role or ("absent" if cell.state == NOT_COLLECTED else "quiet")


def _cell_tip(cell: Cell) -> str:
    where = f" on {cell.node}" if cell.node else ""
    return f"rank {cell.rank}{where}: {cell.state}\n{cell.place}"


def _field_words(field: Field) -> Iterable[str]:
    said = [f"rows: {field.rows}", f"columns: {field.columns}"] + ([f"blocks: {field.blocks}"] if field.blocks else [])
    yield "; ".join(said)
    first = [cell for cell in field.cells if cell.role == "initiator"]
    if 0 < len(first) <= 4:
        yield from (_cell_tip(cell).replace("\n", "; ") for cell in first)
    elif first:
        yield f"{count_words(len(first), 'rank')} failed first"


@dataclass(frozen=True)
class ClockBar:
    """One node's clock in seconds ahead of the reference; ``offset`` None: tied to no other."""

    node: str
    offset: float | None
    least: float
    most: float
    said: str


@dataclass(frozen=True)
class ClockPicture:
    """All clocks and the span of the axis in seconds."""

    first: float
    last: float
    bars: tuple[ClockBar, ...]
    ticks: tuple[tuple[float, str], ...]


def clocks_of(clocks: Sequence[Clock]) -> ClockPicture | None:
    """The clocks; None with one node only."""
    if len(clocks) < 2:
        return None
    bars = tuple(_clock_bar(clock) for clock in clocks)
    known = [bar for bar in bars if bar.offset is not None]
    first, last = min((bar.least for bar in known), default=0.0), max((bar.most for bar in known), default=0.0)
    margin = max(0.01, (last - first) / 20)
    first, last = first - margin, last + margin
    return ClockPicture(first, last, bars, tuple((at, f"{at:+g} s") for at in _ticks(first, last)))


def _clock_bar(clock: Clock) -> ClockBar:
    if clock.offset_s is None or clock.bound_s is None:
        return ClockBar(clock.node, None, 0.0, 0.0, "tied to no other clock")
    known = "the reference" if clock.basis == "reference" else f"{clock.offset_s:+.3f} s ± {clock.bound_s:.3f} s"
    least, most = round(clock.offset_s - clock.bound_s, 3), round(clock.offset_s + clock.bound_s, 3)
    return ClockBar(clock.node, clock.offset_s, least, most, known)
