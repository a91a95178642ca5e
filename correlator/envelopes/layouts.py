"""Layouts of time stamps that nobody listed, learned from a few lines of a file.

dateparser reads almost anything, slowly and sometimes wrongly. So it only sees up to twelve samples of one layout; from
its answers a layout is derived (which run of digits is the year, the month …) that agrees on all of them and then is
read by a regular expression, as the built-in ones are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from correlator.timestamps import MONTHS, Clock, Stamp, fraction, hms_s

#: Most samples of one layout that dateparser gets to see.
SAMPLES = 12

# A stamp at the start of a line: optional bracket, then a run of date-like characters with a clock time in it.
_HMS = r"\d{1,2}[:.h]\d\d[:.m]\d\d"
_CANDIDATE = re.compile(
    rf"[\[(<]?(?=.{{0,40}}?{_HMS})([\w.:,/+\- ]*?{_HMS}(?:[.,]\d{{1,9}})?(?: ?[AaPp]\.?[Mm]\.?)?)(?![\w:])"
)
_MONTHS = {name.lower(): number for name, number in MONTHS.items()}


@dataclass(frozen=True, slots=True)
class Layout:
    """A learned layout: a regular expression whose groups are named year, month, day, hour, minute, second, …"""

    regex: re.Pattern[str]

    def match(self, text: str, clock: Clock) -> Stamp | None:
        """The stamp at the start of a line; None when the line has another form."""
        m = self.regex.match(text)
        if m is None:
            return None
        parts = m.groupdict()
        month = _MONTHS[parts["name"][:3].lower()] if parts.get("name") else int(parts["month"])
        year = int(parts["year"]) if parts.get("year") else None
        if year is not None and year < 100:
            year += 2000
        hour = int(parts["hour"])
        if half := parts.get("half"):
            hour = hour % 12 + (12 if half[0] in "pP" else 0)
        nanos, resolution = fraction(parts.get("fraction"))
        seconds = hms_s(str(hour), parts["minute"], parts["second"])
        ns = clock.resolve(year, month, int(parts["day"]), seconds, nanos)
        return None if ns is None else Stamp(ns, m.end(), resolution, year is not None)


def shape(text: str) -> str:
    """The text with digits as 9 and letters as A: equal for stamps of one layout."""
    return re.sub(r"[^\W\d_]+", "A", re.sub(r"\d", "9", text))


def learn_layout(lines: Sequence[str]) -> Layout | None:
    """The layout in which (nearly) all these lines begin; None when there is no common one.

    Lines whose stamps are built in never get here. A layout is looked for once per shape and process.
    """
    stamps = [match[1].strip() for line in lines if (match := _CANDIDATE.match(line))]
    if len(stamps) < 3 or len(stamps) < 0.3 * len(lines):
        return None
    (common, count), *_ = Counter(shape(stamp) for stamp in stamps).most_common(1)
    if count < 3:
        return None
    return _learn(common, tuple(dict.fromkeys(s for s in stamps if shape(s) == common))[:SAMPLES])


_SEEN: dict[str, Layout | None] = {}


def _learn(common: str, samples: tuple[str, ...]) -> Layout | None:
    if common not in _SEEN:
        parse = _dateparser()
        _SEEN[common] = _derive(samples, [parse(sample) for sample in samples])
    return _SEEN[common]


@lru_cache(maxsize=1)
def _dateparser() -> Callable[[str], datetime | None]:
    from dateparser import parse

    def one(text: str) -> datetime | None:
        found: datetime | None = parse(text, languages=["en"], settings={"PARSERS": ["absolute-time"]})
        return found

    return one


def _derive(samples: Sequence[str], answers: Sequence[datetime | None]) -> Layout | None:
    """The assignment of digit runs to fields that agrees with all answers."""
    known = [(s, a) for s, a in zip(samples, answers, strict=True) if a is not None]
    if len(known) < 2 or len(known) < 0.7 * len(samples):
        return None
    runs = [re.findall(r"\d+|[^\W\d_]+", sample) for sample, _ in known]
    if len({len(run) for run in runs}) != 1:
        return None
    fields = _assign(runs, [answer for _, answer in known])
    if fields is None:
        return None
    parts = re.split(r"(\d+|[^\W\d_]+)", known[0][0])
    pieces: list[str] = []
    for number, part in enumerate(parts):
        pieces.append(_piece(fields[number // 2], part) if number % 2 else re.escape(part))
    return Layout(re.compile(r"[\[(<]?\s*" + "".join(pieces) + r"(?!\w)[\])>]?"))


def _piece(field: str | None, part: str) -> str:
    if field == "name":
        return r"(?P<name>[^\W\d_]+)"
    if field == "half":
        return r"(?P<half>[^\W\d_]+)"
    if field == "fraction":
        return r"(?P<fraction>\d+)"
    if field is not None:
        return rf"(?P<{field}>\d{{{1 if len(part) <= 2 else len(part)},{max(len(part), 2)}}})"
    return r"\d+" if part.isdecimal() else r"[^\W\d_]+"


def _assign(runs: Sequence[Sequence[str]], answers: Sequence[datetime]) -> list[str | None] | None:
    names = ("year", "month", "day", "hour", "minute", "second")
    fields: list[str | None] = []
    for position in range(len(runs[0])):
        column = [run[position] for run in runs]
        if not column[0].isdecimal():
            fields.append(_word(column, answers))
            continue
        options = [
            name
            for name in names
            if name not in fields and all(_fits(text, name, a) for text, a in zip(column, answers, strict=True))
        ]
        if "second" in fields and "fraction" not in fields:
            fields.append("fraction")
        elif options:
            # Hours, minutes and seconds follow each other; among dates the order of ``names`` decides a tie.
            clock = [o for o in options if o in ("hour", "minute", "second")]
            after = {"hour": "minute", "minute": "second"}.get(fields[-1] or "") if fields else None
            fields.append(after if after in options else options[0] if len(options) > len(clock) else clock[0])
        else:
            fields.append(None)
    wanted = {"day", "hour", "minute", "second"}
    if not wanted <= set(fields) or not {"month", "name"} & set(fields):
        return None
    return fields


def _word(column: Sequence[str], answers: Sequence[datetime]) -> str | None:
    if all(_MONTHS.get(word[:3].lower()) == answer.month for word, answer in zip(column, answers, strict=True)):
        return "name"
    if all(word.lower() in ("am", "pm", "a", "p") for word in column):
        return "half"
    return None


def _fits(text: str, name: str, answer: datetime) -> bool:
    value = int(text)
    if name == "year":
        return value == (answer.year if len(text) == 4 else answer.year % 100) and len(text) in (2, 4)
    if name == "hour" and len(text) <= 2:
        return value in (answer.hour, answer.hour % 12 or 12)
    expected: int = getattr(answer, name)
    return len(text) <= 2 and value == expected
