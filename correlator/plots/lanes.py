"""The swim lanes of a timeline: who failed first has a lane of its own, the many that did the same share one.

A lane holds marks. Equal moments of one lane that lie close together are one mark with its ranks and its first and last
time, so that the picture of thousands of ranks has dozens of marks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from correlator.diagnosis import Role
from correlator.plots.moments import Moment, Seat, Story
from correlator.plots.style import NOT_COLLECTED
from correlator.report.timeline import ROLE_ORDER
from correlator.report.words import fold_nodes, ranks_words

By = Literal["auto", "rank", "node"]

#: With more ranks than this those that did the same share a lane.
LANES_OWN = 24
#: More that failed first than this share a lane, too.
_FIRST_OWN = 8
#: More groups of ranks that did the same than this are told apart by what they were only, then by nothing.
_GROUPS = 10
#: Equal moments closer than this part of the whole picture are one mark.
_CLOSE = 1 / 60


@dataclass(frozen=True)
class Mark:
    """Equal moments: ``first`` to ``last``; with what the clocks leave open ``earliest`` to ``latest``.

    ``loose``: the clock of at least one of them is not tied to the others. ``since``: when the wait that they speak of
    began. ``count``: of how many moments.
    """

    role: Role
    what: str
    ranks: tuple[int, ...]
    nodes: tuple[str, ...]
    count: int
    first: datetime
    last: datetime
    earliest: datetime
    latest: datetime
    loose: bool
    not_before: bool
    since: datetime | None
    place: str
    text: str

    @property
    def who(self) -> str:
        """Ranks and nodes in words."""
        ranks = ranks_words(self.ranks, 40) if self.ranks else ""
        return ", ".join(part for part in (ranks, fold_nodes(self.nodes, 3)) if part)


@dataclass
class Lane:
    """One line of the picture. ``last``: the last sign of life of its ranks, where one is known."""

    label: str
    role: Role | None
    ranks: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    last: datetime | None = None
    uncollected: bool = False
    marks: list[Mark] = field(default_factory=list)

    @property
    def note(self) -> str:
        """What is said of a lane whose ranks left no log."""
        return NOT_COLLECTED if self.uncollected else ""


#: A lane before it is drawn: a rank, or a node for what no rank is named for.
_Key = tuple[str, int | str]


def lanes_of(story: Story, by: By = "auto") -> list[Lane]:
    """The lanes, those of the first failure on top.

    ``rank``: one each; ``node``: one a node; ``auto``: one a rank, but of a large job one for all that did the same.
    """
    own: dict[_Key, list[Moment]] = defaultdict(list)
    seats = {seat.rank: seat for seat in story.seats}
    for seat in story.seats:
        own[_key(seat.rank, seat.node, by)]
    for told in story.moments:
        own[_key(told.rank, told.node, by)].append(told)
    groups = [[key] for key in own]
    if by == "auto" and len(own) > LANES_OWN:
        groups = _folded(own, {seat.rank: seat.collected for seat in story.seats})
    gap = _span(story) * _CLOSE
    lanes = [_lane(group, own, seats, by, gap) for group in groups]
    lanes.sort(key=lambda lane: (lane.role != "initiator", not lane.ranks, lane.ranks[:1], lane.nodes[:1]))
    return lanes


def window_of(lanes: Iterable[Lane]) -> tuple[datetime, datetime] | None:
    """The span first shown, with a margin; None without a mark.

    What is unrelated, or dated by an older line only, may lie outside of it.
    """
    marks = [mark for lane in lanes for mark in lane.marks]
    related = [mark for mark in marks if mark.role != "unrelated"]
    shown = [mark for mark in related if not mark.not_before] or related or marks
    if not shown:
        return None
    first, last = min(mark.first for mark in shown), max(mark.last for mark in shown)
    margin = max(timedelta(seconds=1), (last - first) / 20)
    return first - margin, last + margin


def _key(rank: int | None, node: str | None, by: By) -> _Key:
    return ("node", node or "") if rank is None or by == "node" else ("rank", rank)


def _folded(own: dict[_Key, list[Moment]], collected: dict[int, bool]) -> list[list[_Key]]:
    """Lanes that share one: with the same events and roles; of too many kinds with the same worst role."""
    first = {key for key, moments in own.items() if any(told.role == "initiator" for told in moments)}
    if len(first) > _FIRST_OWN:
        first.clear()
    for kind in (_events, _worst):
        groups: dict[object, list[_Key]] = defaultdict(list)
        for key, moments in own.items():
            left_log = key[0] == "node" or collected.get(int(key[1]), True)
            groups[key if key in first else (key[0], left_log, kind(moments))].append(key)
        if len(groups) <= _GROUPS:
            break
    return list(groups.values())


def _events(moments: Iterable[Moment]) -> object:
    return frozenset((told.event, told.role) for told in moments)


def _worst(moments: Iterable[Moment]) -> Role | None:
    return min((told.role for told in moments), key=ROLE_ORDER.__getitem__, default=None)


def _lane(keys: Sequence[_Key], own: dict[_Key, list[Moment]], seats: dict[int, Seat], by: By, gap: timedelta) -> Lane:
    moments = [told for key in keys for told in own[key]]
    if by == "node":
        on_nodes = {str(name) for _, name in keys}
        ranks = sorted(rank for rank, seat in seats.items() if (seat.node or "") in on_nodes)
    else:
        ranks = sorted(int(name) for kind, name in keys if kind == "rank")
    known = [seats[rank] for rank in ranks if rank in seats]
    nodes = sorted(
        {seat.node for seat in known if seat.node} | {str(name) for kind, name in keys if kind == "node" and name}
    )
    return Lane(
        label=_label(ranks, nodes, by),
        role=_worst(moments),
        ranks=tuple(ranks),
        nodes=tuple(nodes),
        last=max((seat.last for seat in known if seat.last), default=None),
        uncollected=bool(known) and not moments and not any(seat.collected for seat in known),
        marks=_marks(moments, gap),
    )


def _label(ranks: Sequence[int], nodes: Sequence[str], by: By) -> str:
    where = fold_nodes(nodes, 1) if nodes else ""
    if not ranks or by == "node":
        return where or "the job"
    who = ranks_words(ranks, 16)
    return f"{who}, {where}" if where else who


def _marks(moments: Iterable[Moment], gap: timedelta) -> list[Mark]:
    runs: dict[tuple[str, Role, bool, bool], list[list[Moment]]] = defaultdict(list)
    for told in sorted(moments, key=lambda m: m.time):
        alike = runs[told.event, told.role, told.not_before, told.bound_s is None]
        if alike and told.time - alike[-1][-1].time <= gap:
            alike[-1].append(told)
        else:
            alike.append([told])
    marks = [_mark(run) for found in runs.values() for run in found]
    # Drawn in this order: what failed first lies on top of the others.
    return sorted(marks, key=lambda mark: (-ROLE_ORDER[mark.role], mark.first, mark.what))


def _mark(run: Sequence[Moment]) -> Mark:
    lead = run[0]
    bounds = [timedelta(seconds=told.bound_s or 0) for told in run]
    waits = [told.time - timedelta(seconds=told.waited_s) for told in run if told.waited_s is not None]
    return Mark(
        role=lead.role,
        what=lead.what,
        ranks=tuple(sorted({told.rank for told in run if told.rank is not None})),
        nodes=tuple(sorted({told.node for told in run if told.node})),
        count=len(run),
        first=lead.time,
        last=run[-1].time,
        earliest=min(told.time - bound for told, bound in zip(run, bounds, strict=True)),
        latest=max(told.time + bound for told, bound in zip(run, bounds, strict=True)),
        loose=any(told.bound_s is None and not told.not_before for told in run),
        not_before=lead.not_before,
        since=min(waits, default=None),
        place=f"{lead.file}:{lead.line}" if lead.file else "",
        text=lead.text,
    )


def _span(story: Story) -> timedelta:
    times = [told.time for told in story.moments if told.role != "unrelated"]
    return max(times) - min(times) if times else timedelta()
