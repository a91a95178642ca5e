"""Time stamps of log lines as nanoseconds since the epoch, UTC.

All layouts that training jobs are known to print are built in: a compiled regular expression and integer arithmetic,
about a microsecond a stamp. Layouts nobody listed are learned by ``correlator.envelopes.layouts`` from a few samples.

Three things a stamp may leave open, and what fills them:

- the zone: ``Clock.zone`` (the caller's ``timezone``, UTC by default);
- the year: the year that brings the stamp closest to ``Clock.reference_ns``. A file that runs from December into
  January needs no state for this: each stamp takes the year in which it is near the reference;
- the day (bare times of day): the day closest to a stamp printed nearby.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from correlator.errors import UsageError

SECOND = 1_000_000_000
DAY = 86_400 * SECOND

_MONTH_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
MONTHS = {m: i for i, m in enumerate(_MONTH_NAMES, 1)}

#: Zone abbreviations that are unambiguous enough in machine logs, as seconds east of UTC.
ZONE_NAMES = {
    "Z": 0, "UTC": 0, "GMT": 0, "WET": 0, "CET": 3600, "WEST": 3600, "BST": 3600, "CEST": 7200, "EET": 7200,
    "EEST": 10800, "MSK": 10800, "EST": -18000, "EDT": -14400, "CDT": -18000, "MST": -25200, "MDT": -21600,
    "PST": -28800, "PDT": -25200, "JST": 32400, "KST": 32400,
}  # fmt: skip


class Stamp(NamedTuple):
    """A stamp found in a text: time, index behind it, the finest step it can tell, and whether it states its year."""

    ns: int
    end: int
    resolution_ns: int
    dated: bool


def parse_zone(name: str | None) -> tzinfo:
    """The zone for stamps that state none: an IANA name, ``UTC`` or an offset such as ``+02:00``.

    Raises UsageError for anything else.
    """
    if name is None or name.upper() in ("UTC", "Z"):
        return UTC
    try:
        if match := re.fullmatch(r"(?:UTC)?([+-])(\d{1,2}):?(\d\d)?", name):
            minutes = int(match[2]) * 60 + int(match[3] or 0)
            return timezone(timedelta(minutes=-minutes if match[1] == "-" else minutes))
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UsageError(
            f"unknown time zone {name!r}: give a name such as Europe/Berlin or an offset as +02:00"
        ) from error


@lru_cache(maxsize=4096)
def _days(year: int, month: int, day: int) -> int | None:
    """Days since 1970-01-01, or None for a date that does not exist or that no job's clock shows.

    Nanoseconds of years behind 2261 do not fit 64 bits, nor do differences of times some centuries apart.
    """
    if not 1970 <= year < 2200:
        return None
    try:
        return datetime(year, month, day).toordinal() - 719_163
    except ValueError:
        return None


@lru_cache(maxsize=4096)
def _zone_offset_s(zone: tzinfo, days: int, quarter: int) -> int:
    """Seconds east of UTC of a local wall clock; zones change on quarter hours at the finest."""
    local = datetime.fromordinal(days + 719_163) + timedelta(minutes=15 * quarter)
    offset = local.replace(tzinfo=zone).utcoffset()
    return int(offset.total_seconds()) if offset else 0


def fraction(digits: str | None) -> tuple[int, int]:
    """Nanoseconds and resolution of the digits after the decimal sign."""
    if not digits:
        return 0, SECOND
    digits = digits[:9]
    scale = int(10 ** (9 - len(digits)))
    return int(digits) * scale, scale


@dataclass(frozen=True, slots=True)
class Clock:
    """What a file's stamps leave open.

    ``reference_ns``: a time near which the file's year-less stamps lie. ``reference_is_latest``: the reference is a
    modification time, so that no stamp lies more than a day (an unknown zone) behind it.
    """

    zone: tzinfo = UTC
    reference_ns: int | None = None
    reference_is_latest: bool = False

    def local(self, days: int, seconds: int, nanos: int, offset_s: int | None = None) -> int:
        """Nanoseconds since the epoch of a local wall clock reading."""
        if offset_s is None:
            offset_s = 0 if self.zone is UTC else _zone_offset_s(self.zone, days, seconds // 900)
        return (days * 86_400 + seconds - offset_s) * SECOND + nanos

    def resolve(
        self, year: int | None, month: int, day: int, seconds: int, nanos: int, offset_s: int | None = None
    ) -> int | None:
        """As ``local``, from a date whose year may be missing; None for an impossible date."""
        if year is not None:
            days = _days(year, month, day)
            return None if days is None else self.local(days, seconds, nanos, offset_s)
        if self.reference_ns is None:
            return None
        middle = 1970 + self.reference_ns // (365_2425 * 86_400 * SECOND // 10_000)
        best: int | None = None
        for candidate in (middle - 1, middle, middle + 1):
            days = _days(candidate, month, day)
            if days is None:
                continue
            value = self.local(days, seconds, nanos, offset_s)
            if self.reference_is_latest and value > self.reference_ns + DAY:
                continue
            if best is None or abs(value - self.reference_ns) < abs(best - self.reference_ns):
                best = value
        return best

    def time_of_day(self, seconds: int, nanos: int, near_ns: int) -> int:
        """The time nearest to ``near_ns`` at which the wall clock shows this."""
        first = near_ns // DAY - 1
        options = (self.local(first + i, seconds, nanos) for i in range(3))
        return min(options, key=lambda value: abs(value - near_ns))


_HMS = r"(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?"
_MONTH = "(" + "|".join(MONTHS) + ")"
_DOW = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_ZONE = r"(?: ?(Z|UTC|GMT|[+-]\d\d:?\d\d)(?!\w|:\d))?"

# 2024-05-01 07:40:18,123 · 2024-05-01T07:40:18.123456+02:00 · 2024/05/01 07:40:18 · 2024-05-01_07:40:18
_ISO = re.compile(rf"(\d{{4}})[-/.](\d\d)[-/.](\d\d)[T _]{_HMS}{_ZONE}")
# 20240501-074018.345 · 20240501 07:40:18 · 20240501T074018Z
_COMPACT = re.compile(r"(\d{4})(\d\d)(\d\d)[- T_](\d\d):?(\d\d):?(\d\d)(?:[.,](\d{1,9}))?(Z)?(?!\d)")
# 05/01/2024 07:40:18 (month first, as Python's logging examples) · 05/01/2024 07:40:18 AM
_US = re.compile(rf"(\d\d?)/(\d\d?)/(\d{{4}}),? {_HMS}(?: ?([AP]M))?")
# 24/05/01 07:40:18 (Spark) · 05/01/24 07:40:18 (rich)
_SHORT_YEAR = re.compile(rf"(\d\d)/(\d\d)/(\d\d) {_HMS}")
# 01.05.2024 07:40:18
_DOTTED = re.compile(rf"(\d\d)\.(\d\d)\.(\d{{4}}) {_HMS}")
# 02/Nov/2025:08:11:12 +0000
_APACHE = re.compile(rf"(\d\d)/{_MONTH}/(\d{{4}})[: ]{_HMS}{_ZONE}")
# 05-01 07:40:18 (vLLM)
_MONTH_DAY = re.compile(rf"(\d\d)-(\d\d) {_HMS}")
# 1714542018.123456 (journalctl short-unix) · 1714542018123 (ms) · 1714542018123456789 (ns)
_EPOCH = re.compile(r"(1[4-9]\d{8}|2[0-3]\d{8})(?:\.(\d{1,9})|(\d{3}|\d{6}|\d{9}))?(?![\d.])")
_TIME = re.compile(rf"{_HMS}(?![\d:])")
# May  1 07:40:18 · May 01 07:40:18.123456 · May  1 07:40:18 2024 · May  1 2024 07:40:18 (switches)
_SYSLOG = re.compile(rf"{_MONTH} +(\d\d?)(?: (\d{{4}}))? {_HMS}(?: (\d{{4}})(?![\d.:]))?")
# Wed May  1 07:40:18 2024 · Wed May  1 07:40:18 CEST 2024 · Wed May 01 07:40:18.123456 2024
_CTIME = re.compile(rf"{_DOW} {_MONTH} +(\d\d?) {_HMS}(?: ([A-Z]{{3,4}}|[+-]\d{{4}}))? (\d{{4}})(?!\d)")
# Wed 2024-05-01 07:40:18 CEST (journalctl short-full)
_FULL = re.compile(rf"{_DOW} (\d{{4}})-(\d\d)-(\d\d) {_HMS}(?: ([A-Z]{{1,4}}|[+-]\d\d:?\d\d?)(?= ))?")
# Wed, 01 May 2024 07:40:18 +0000
_MAIL = re.compile(rf"{_DOW}, (\d\d?) {_MONTH} (\d{{4}}) {_HMS}(?: (GMT|UTC|[+-]\d{{4}}))?")


def zone_offset_s(name: str | None) -> int | None:
    """Seconds east of UTC of ``+02:00``, ``+0200``, ``Z`` or a known abbreviation; None when it says nothing."""
    if not name:
        return None
    if name[0] in "+-":
        digits = name[1:].replace(":", "")
        seconds = int(digits[:2]) * 3600 + int(digits[2:4] or 0) * 60
        return -seconds if name[0] == "-" else seconds
    return ZONE_NAMES.get(name)


def hms_s(hours: str, minutes: str, seconds: str) -> int:
    """Seconds since midnight."""
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds)


def _build(
    clock: Clock,
    match: re.Match[str],
    date: tuple[int | None, int, int],
    hms: int,
    zone: str | None = None,
) -> Stamp | None:
    """A stamp from a match whose groups ``hms .. hms + 3`` are hours, minutes, seconds and fraction."""
    nanos, resolution = fraction(match[hms + 3])
    seconds = hms_s(match[hms], match[hms + 1], match[hms + 2])
    ns = clock.resolve(*date, seconds, nanos, zone_offset_s(zone))
    return None if ns is None else Stamp(ns, match.end(), resolution, date[0] is not None)


def _digits_first(text: str, pos: int, clock: Clock) -> Stamp | None:
    if m := _ISO.match(text, pos):
        return _build(clock, m, (int(m[1]), int(m[2]), int(m[3])), 4, m[8])
    if m := _MONTH_DAY.match(text, pos):
        return _build(clock, m, (None, int(m[1]), int(m[2])), 3)
    if m := _US.match(text, pos):
        month, day = int(m[1]), int(m[2])
        if month > 12:
            month, day = day, month
        stamp = _build(clock, m, (int(m[3]), month, day), 4)
        if stamp and m[8] and (half := (int(m[4]) % 12 - int(m[4])) * 3600 + (43_200 if m[8] == "PM" else 0)):
            stamp = stamp._replace(ns=stamp.ns + half * SECOND)
        return stamp
    if m := _SHORT_YEAR.match(text, pos):
        spark = _build(clock, m, (2000 + int(m[1]), int(m[2]), int(m[3])), 4)
        rich = _build(clock, m, (2000 + int(m[3]), int(m[1]), int(m[2])), 4)
        options = [stamp for stamp in (spark, rich) if stamp]
        near = clock.reference_ns
        return min(options, key=lambda s: abs(s.ns - near) if near is not None else 0, default=None)
    if m := _COMPACT.match(text, pos):
        return _build(clock, m, (int(m[1]), int(m[2]), int(m[3])), 4, m[8])
    if m := _APACHE.match(text, pos):
        return _build(clock, m, (int(m[3]), MONTHS[m[2]], int(m[1])), 4, m[8])
    if m := _DOTTED.match(text, pos):
        return _build(clock, m, (int(m[3]), int(m[2]), int(m[1])), 4)
    if m := _EPOCH.match(text, pos):
        digits = m[2] or m[3]
        nanos, resolution = fraction(digits)
        return Stamp(int(m[1]) * SECOND + nanos, m.end(), resolution, True)
    return None


def _letters_first(text: str, pos: int, clock: Clock) -> Stamp | None:
    if m := _SYSLOG.match(text, pos):
        year = m[3] or m[8]
        return _build(clock, m, (int(year) if year else None, MONTHS[m[1]], int(m[2])), 4)
    if m := _CTIME.match(text, pos):
        return _build(clock, m, (int(m[8]), MONTHS[m[1]], int(m[2])), 3, m[7])
    if m := _FULL.match(text, pos):
        return _build(clock, m, (int(m[1]), int(m[2]), int(m[3])), 4, m[8])
    if m := _MAIL.match(text, pos):
        return _build(clock, m, (int(m[3]), MONTHS[m[2]], int(m[1])), 4, m[8])
    return None


def match_stamp(text: str, pos: int, clock: Clock) -> Stamp | None:
    """The stamp that starts exactly at ``pos``, in any layout that carries a date; None when there is none.

    >>> match_stamp("2024-05-01T07:40:18.5+02:00 x", 0, Clock())
    Stamp(ns=1714542018500000000, end=27, resolution_ns=100000000, dated=True)
    """
    char = text[pos : pos + 1]
    if "0" <= char <= "9":
        return _digits_first(text, pos, clock)
    if char in "JFMASONDTW":
        return _letters_first(text, pos, clock)
    return None


def match_time_of_day(text: str, pos: int, clock: Clock, near_ns: int | None) -> Stamp | None:
    """The bare time of day at ``pos``, placed on the day nearest to ``near_ns``; None without either."""
    m = _TIME.match(text, pos)
    if m is None or near_ns is None:
        return None
    nanos, resolution = fraction(m[4])
    return Stamp(clock.time_of_day(hms_s(m[1], m[2], m[3]), nanos, near_ns), m.end(), resolution, False)


# A full date behind a word that says "this line is about now": Megatron's phase lines, Slurm's notices.
_ANNOUNCED = re.compile(r"(?:datetime: |CANCELLED AT |TERMINATED ON \S+ AT | at )(?=\d{4}-\d\d-\d\d[ T])")


# LSF's report at the end of a job's output, whose other lines follow this one
_LSF_REPORT = re.compile(rf"(?:Started|Terminated|Results reported) at (?={_DOW} )")


def announced_stamp(text: str, clock: Clock) -> Stamp | None:
    """The stamp that a line without a stamped head states about itself (``datetime: …``, ``CANCELLED AT …``)."""
    if match := _LSF_REPORT.match(text):
        return match_stamp(text, match.end(), clock)
    if "datetime: " not in text and " AT " not in text and " at 2" not in text:
        return None
    match = _ANNOUNCED.search(text, 0, 400)
    return match_stamp(text, match.end(), clock) if match else None


# Dated stamps by a part that begins with a plain byte, which makes the search ten times faster; each with the length of
# what stands before that part, and the form of all of it.
_DATED = [
    (re.compile(part), before, re.compile(whole))
    for part, before, whole in (
        (rb"20\d\d-[01]\d-[0-3]\d[T _]", 0, rb"(?<![\d.])20\d\d-[01]\d-[0-3]\d[T _][0-2]\d:[0-5]\d:[0-5]\d"),
        (rb"/20\d\d [0-2]\d:", 5, rb"(?<![\d.])[01]\d/[0-3]\d/20\d\d [0-2]\d:[0-5]\d:[0-5]\d"),
        (
            rb":[0-5]\d (?:[A-Z]{3,4} )?20\d\d",
            16,
            rb"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d"
            rb" \d\d:\d\d:\d\d (?:[A-Z]{3,4} )?20\d\d",
        ),
    )
]


def _dated_places(sample: bytes, part: re.Pattern[bytes], before: int, whole: re.Pattern[bytes]) -> Iterator[int]:
    for found in part.finditer(sample):
        start = found.start() - before
        if start >= 0 and whole.match(sample, start):
            yield start


def dated_stamps_ns(sample: bytes, clock: Clock, limit: int = 50) -> list[int]:
    """Times of the first stamps with a year anywhere in a sample: the neighbours that give year-less stamps a year."""
    found: list[int] = []
    for start in heapq.merge(*(_dated_places(sample, *form) for form in _DATED)):
        stamp = match_stamp(sample[start : start + 48].decode("latin-1"), 0, clock)
        if stamp:
            found.append(stamp.ns)
        if len(found) >= limit:
            break
    return found
