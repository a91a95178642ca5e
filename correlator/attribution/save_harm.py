"""Storage errors on a node of the job while a save was written that was then reported as done (rule R14).

A program's word that it saved means that its writes were taken, not that they are on the disk: the kernel writes pages
back later, and a client that a server throws out loses those that it still held.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from correlator.attribution.doubt import is_timed
from correlator.cascade.model import Facts
from correlator.checkpoints.said import Harm
from correlator.records import Row

WRITE_BACK_NS = 35 * 10**9
"""How long after a write its pages may still wait: dirty_expire_centisecs and dirty_writeback_centisecs of Linux by
default, 30 s and 5 s."""

_FINISHED, _STARTED = "checkpoint.save_finished", ("checkpoint.save_started", "checkpoint.save_scheduled")

SaveKey = int | str
"""A save by its step, else by its path."""


def save_key(row: Row) -> SaveKey:
    """Which save a line is about."""
    return row.attr("path") if row.step is None else row.step


@dataclass(frozen=True)
class _Window:
    """When a save was written, ns on the reference clock; ``bound``: half width of what that clock leaves open."""

    begin: int
    end: int
    node: str | None
    bound: int | None


def harmed_saves(facts: Facts) -> dict[SaveKey, Harm]:
    """The saves during which a node of the job met an error that loses writes, unless they were written once more."""
    errors = [row for row in facts.rows if is_timed(row) and _loses_writes(facts, row)]
    errors = [row for row in errors if _is_of_job(facts, row)]
    if not errors:
        return {}
    found: dict[SaveKey, Harm] = {}
    for key, windows in _windows(facts).items():
        harms = [harm for row in errors if (harm := _harm(facts, row, windows)) is not None]
        if harms:
            found[key] = max(harms, key=lambda harm: harm.sure)
    return found


@lru_cache(maxsize=64)
def _expression(text: str) -> re.Pattern[str]:
    return re.compile(text)


def _loses_writes(facts: Facts, row: Row) -> bool:
    entry = facts.signature(row)
    return entry is not None and bool(entry.loses_writes) and bool(_expression(entry.loses_writes).search(row.body))


def _is_of_job(facts: Facts, row: Row) -> bool:
    return row.rank is not None or facts.job_node(row) is not None


def _windows(facts: Facts) -> dict[SaveKey, list[_Window]]:
    """When each save that was over was written: from its announcement, else the last step before its end, to its end,
    else the first step after."""
    starts: dict[tuple[str, SaveKey], list[tuple[int, Row]]] = defaultdict(list)
    for row in facts.events(*_STARTED):
        starts[row.file, save_key(row)] += [(time, row) for time in _times(row)]
    steps: dict[str, list[int]] = defaultdict(list)
    for row in facts.progress:
        steps[row.file] += _times(row)
    for times in steps.values():
        times.sort()
    found: dict[SaveKey, list[_Window]] = defaultdict(list)
    ended: set[tuple[str, SaveKey]] = set()
    for row in facts.events(_FINISHED):
        place = row.file, save_key(row)
        ended.add(place)
        for time in _times(row):
            begin = max(
                (one for one, _ in starts.get(place, ()) if one <= time), default=_before(steps[row.file], time)
            )
            found[place[1]].append(_Window(begin, time, row.node, row.time_bound_ns))
    for place, rows in starts.items():
        if place not in ended and place[1] not in found:
            ends = [(begin, _after(steps[row.file], begin), row) for begin, row in rows]
            found[place[1]] += [_Window(b, end, r.node, r.time_bound_ns) for b, end, r in ends if end is not None]
    return found


def _times(row: Row) -> list[int]:
    """When a line was written, ns: of equal lines in one file, which are one row, the first and the last."""
    if row.time is None or not is_timed(row):
        return []
    return [row.time, row.time + _lasted(row)] if row.count > 1 else [row.time]


def _lasted(row: Row) -> int:
    return max((row.last_timestamp or 0) - (row.timestamp or 0), 0)


def _before(times: Sequence[int], time: int) -> int:
    at = bisect_right(times, time)
    return times[at - 1] if at else time


def _after(times: Sequence[int], time: int) -> int | None:
    at = bisect_left(times, time + 1)
    return times[at] if at < len(times) else None


def _harm(facts: Facts, error: Row, windows: Sequence[_Window]) -> Harm | None:
    """What an error did to a save that was written in these windows; None where it came at another time."""
    assert error.time is not None
    last = error.time + _lasted(error)
    sure: list[bool] = []
    over = 0
    for window in windows:
        bound = 0 if window.node == error.node else _sum(window.bound, error.time_bound_ns)
        left_open = bound or 0
        if last + left_open >= window.begin and error.time - left_open <= window.end + WRITE_BACK_NS:
            inside = window.begin + left_open <= error.time <= window.end + WRITE_BACK_NS - left_open
            sure.append(bound is not None and inside)
            over = max(over, window.end)
    if any(window.begin > max(over, last) for window in windows):
        return None  # it was written again, and whole
    if not sure:
        return None
    entry = facts.signature(error)
    title = entry.title if entry is not None else error.event
    where = f" on {error.node}" if error.node else ""
    came = "came" if any(sure) else "may have come"
    return Harm(f"a storage error {came}{where} while it was written ({title}, {error.file}:{error.line})", any(sure))


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second
