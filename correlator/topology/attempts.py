"""Which attempt of an elastic launcher a line belongs to, where one file holds several of them."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence

from correlator.records import Row
from correlator.untrusted import read_number


def number_attempts(rows: Sequence[Row]) -> None:
    """Fills ``attempt`` of the rows of files in which a launcher tells of a restart; others stay as they are.

    "will restart worker group" begins the next attempt; "Rendezvous complete … restart_count=N" states its number. What
    a file's path states about its attempt is left alone.
    """
    begins: dict[str, list[tuple[int, int]]] = defaultdict(list)
    marks = [r for r in rows if r.event in ("torchrun.restart", "torchrun.rendezvous_complete")]
    for row in sorted(marks, key=lambda r: (r.file, r.byte_offset)):
        before = begins[row.file][-1][1] if begins[row.file] else 0
        number = read_number(row.attr("restart_count"))
        if number is None:
            number = before + (row.event == "torchrun.restart")
        if number > before:
            begins[row.file].append((row.byte_offset, number))
    for row in rows:
        found = begins.get(row.file)
        if found and row.attempt is None:
            place = bisect_right(found, row.byte_offset, key=lambda mark: mark[0]) - 1
            row.attempt = found[place][1] if place >= 0 else 0


def place_attempts(rows: Iterable[Row], marks: Iterable[Row]) -> None:
    """Fills ``attempt`` of rows whose files state none, from the clock: the last attempt that certainly began before.

    ``marks``: the launchers' notices of a restart. Rows whose time is not bounded stay without an attempt. Needs the
    corrected times.
    """
    starts = [
        (row.attempt or 0, row.time + row.time_bound_ns)
        for row in marks
        if row.time is not None and row.time_bound_ns is not None
    ]
    for row in rows if starts else ():
        if row.attempt is None and _is_dated(row):
            earliest = (row.time or 0) - (row.time_bound_ns or 0)
            row.attempt = max((number for number, latest in starts if latest < earliest), default=0)


def _is_dated(row: Row) -> bool:
    return row.time is not None and row.time_bound_ns is not None and row.timestamp_basis not in ("inherited", "none")
