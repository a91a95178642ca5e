"""The timeline of an HTML report as plain numbers, which the template turns into markup.

The page places everything by style variables in seconds, so that zooming is a change of two numbers and the picture is
there without any script.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from correlator.diagnosis import Document
from correlator.plots.lanes import Lane, Mark, lanes_of, window_of
from correlator.plots.moments import Story
from correlator.report.ticks import time_ticks
from correlator.report.timeline import ROLE_ORDER, ROLE_WORDS
from correlator.report.words import clock_words, count_words, relative_words

#: More lanes of nodes than this are left out: nobody would look at them one by one.
_NODES_SHOWN = 512
_TEXT_SHOWN = 300
_LEAST_MARKS = 2


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
    """All lanes, what is shown of the axis at first (seconds), its ticks, and the lanes by node, if there are any.

    ``roles`` and ``shapes``: what occurs, for the legend; ``notes``: what the picture leaves out.
    """

    first: float
    last: float
    began: float
    zero: str
    ticks: tuple[tuple[float, str], ...]
    tracks: tuple[Track, ...]
    nodes: tuple[Track, ...]
    roles: tuple[tuple[str, str], ...]
    shapes: frozenset[str]
    notes: tuple[str, ...]


def timeline_of(document: Document, story: Story) -> Timeline | None:
    """The timeline; None where there is no second moment, so nothing to compare."""
    lanes = lanes_of(story)
    window = window_of(lanes)
    marks = [mark for lane in lanes for mark in lane.marks]
    if story.zero is None or window is None or len(marks) < _LEAST_MARKS:
        return None
    zero = story.zero
    first, last = _after(window[0], zero), _after(window[1], zero)
    nodes = lanes_of(story, by="node") if any(len(lane.ranks) > 1 for lane in lanes) else []
    if len(nodes) < 2:
        nodes = []
    began = min(_after(document.job.started, zero) if document.job.started else first, first)
    return Timeline(
        first,
        last,
        began,
        clock_words(zero),
        tuple(time_ticks(first, last)),
        tuple(_track(lane, zero) for lane in lanes),
        tuple(_track(lane, zero) for lane in nodes[:_NODES_SHOWN]),
        tuple((role, ROLE_WORDS[role]) for role in sorted({mark.role for mark in marks}, key=ROLE_ORDER.__getitem__)),
        frozenset(_shapes(marks)),
        tuple(_left_out(story, len(nodes))),
    )


def _shapes(marks: Iterable[Mark]) -> Iterator[str]:
    for mark in marks:
        yield _shape(mark)
        if mark.latest > mark.last or mark.earliest < mark.first:
            yield "bound"
        if mark.since:
            yield "wait"


def _left_out(story: Story, nodes: int) -> Iterator[str]:
    """What the reader does not see, in sentences."""
    first = story.untimed.count("initiator")
    others = len(story.untimed) - first
    if first:
        more = f" and of {count_words(others, 'other event')}" if others else ""
        yield f"No time is known of the first failure{more}: not in this picture."
    elif others:
        yield f"No time is known of {count_words(others, 'event')}: not in this picture."
    if nodes > _NODES_SHOWN:
        yield f"Of {nodes:,} nodes the first {_NODES_SHOWN} have a lane, those of the first failure before all others."


def _after(time: datetime, zero: datetime) -> float:
    return round((time - zero).total_seconds(), 3)


def _track(lane: Lane, zero: datetime) -> Track:
    return Track(
        lane.label,
        lane.role or "",
        lane.note,
        _after(lane.last, zero) if lane.last else None,
        tuple(_spot(mark, zero) for mark in lane.marks),
    )


def _spot(mark: Mark, zero: datetime) -> Spot:
    return Spot(
        mark.role, _shape(mark), _after(mark.first, zero), _after(mark.last, zero), _after(mark.earliest, zero),
        _after(mark.latest, zero), _after(mark.since, zero) if mark.since else None, _tip(mark, zero),
    )  # fmt: skip


def _shape(mark: Mark) -> str:
    return "not-before" if mark.not_before else "loose" if mark.loose else "exact"


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
