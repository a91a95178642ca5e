"""What log text may do to numbers and to JSON: nothing.

A log can hold a rank of ten digits, a number of ten thousand, or JSON nested a hundred thousand deep. Python answers
such text with ValueError, OverflowError or RecursionError, and a table with worse. Here it becomes "not stated".
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from typing import Any

#: No job has more ranks; a larger number is something else's.
MOST_RANKS = 131_072
#: Digits kept of one number: far more than any column holds, fewer than ``float`` (308) and ``int`` (4300) can read.
MOST_DIGITS = 200
#: Longest text that is read as a Python value, and most brackets in it: Python's own reader may exhaust the C stack.
_LITERAL_LIMIT, _BRACKET_LIMIT = 1 << 16, 2000

_LONG_RUN = re.compile(rf"(\d{{{MOST_DIGITS}}})\d+|(\s{{{MOST_DIGITS}}})\s+")
# Of a longer run, every 50th character of the text shows four in a row.
_STRIDE, _STRIDDEN = MOST_DIGITS // 4, re.compile(r"\d{4}|\s{4}")


def shorten_runs(text: str) -> str:
    """The text with every number and every run of blanks cut to MOST_DIGITS characters.

    So ``int`` and ``float`` can read each number, and patterns that allow blanks between words need not try out
    thousands of them.

    >>> shorten_runs("7 " + "9" * 5000) == "7 " + "9" * 200
    True
    """
    if len(text) <= MOST_DIGITS or not _STRIDDEN.search(text[::_STRIDE]):
        return text
    return _LONG_RUN.sub(r"\1\2", text)


def is_rank(number: int) -> bool:
    """Whether a job can have a rank, a local rank or a task of this number."""
    return 0 <= number < MOST_RANKS


def read_number(text: str) -> int | None:
    """A plain decimal number of at most 19 digits; None for everything else, superscripts and the like included."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 19 else None


def read_json(text: str | bytes) -> Any:
    """The value of a JSON text; None when it is none, is nested too deep, or holds a number that is too long."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def read_literal(text: str) -> Any:
    """The value of a Python literal; None when the text is none or is too large to be read safely."""
    if len(text) > _LITERAL_LIMIT or sum(map(text.count, "([{")) > _BRACKET_LIMIT:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # of "1or 2": printed for whoever runs the program
            return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None
