"""Log texts with their stamps moved: what the logs of a node with a wrong clock would say."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta

_CLOCK = r"(?P<h>\d\d):(?P<mi>\d\d):(?P<s>\d\d)(?![\d:])"
STATED_ZONE = re.compile(_CLOCK.replace("?P<", "?P<z") + r"(?:[.,]\d+)? ?(?:Z\b|UTC|[+-]\d\d:?\d\d\b)")
# Layouts, each with the form in which strftime writes it back.
_LAYOUTS = tuple(
    (re.compile(pattern), form)
    for pattern, form in (
        (r"(?<!\d)(?P<y>20\d\d)-(?P<mo>\d\d)-(?P<d>\d\d)(?P<sep>[T _])" + _CLOCK, "%Y-%m-%d{sep}%H:%M:%S"),
        (r"(?<!\d)(?P<y>20\d\d)/(?P<mo>\d\d)/(?P<d>\d\d)(?P<sep> )" + _CLOCK, "%Y/%m/%d{sep}%H:%M:%S"),
        (r"(?<![\d/])(?P<mo>\d\d)/(?P<d>\d\d)/(?P<y>20\d\d)(?P<sep> )" + _CLOCK, "%m/%d/%Y{sep}%H:%M:%S"),
        (r"(?<![\d/])(?P<mo>\d\d)/(?P<d>\d\d)(?P<sep> )" + _CLOCK, "%m/%d{sep}%H:%M:%S"),
        (r"(?<=[IWEF])(?P<mo>\d\d)(?P<d>\d\d)(?P<sep> )" + _CLOCK, "%m%d{sep}%H:%M:%S"),
        (r"\b(?P<b>[JFMASOND][a-z]{2})(?P<sep> )(?P<d>[ \d]\d) " + _CLOCK, "%b{sep}%e %H:%M:%S"),
    )
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def moved(text: str, by: timedelta) -> tuple[str, int]:
    """The text with all stamps of the layouts moved, and how many there were; years that are not printed stay open."""
    count = 0

    def one(form: str) -> Callable[[re.Match[str]], str]:
        def replace(match: re.Match[str]) -> str:
            nonlocal count
            got = match.groupdict()
            try:
                month = int(got["mo"]) if got.get("mo") else _MONTHS.index(got["b"]) + 1
                year = int(got.get("y") or 2024)
                at = datetime(year, month, int(got["d"]), int(got["h"]), int(got["mi"]), int(got["s"])) + by
            except ValueError:
                return match[0]
            count += 1
            return at.strftime(form.format(sep=got["sep"]))

        return replace

    for layout, form in _LAYOUTS:
        text = layout.sub(one(form), text)
    return text, count
