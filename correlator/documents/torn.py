"""Records of JSON documents that are whole themselves, wherever their document is cut off, however it is laid out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_DECODER = json.JSONDecoder()
_BETWEEN = re.compile(r"[\s,\[\]]*")
_NEXT = re.compile(r"\n\s{0,8}(?=\{)")
# The labels of a stream of Loki, or a pair of time and line; quotes inside strings are escaped, so both stand outside.
_LOKI_PART = re.compile(r'"stream"\s*:\s*(?=\{)|\[\s*(?="\d{19}"\s*,\s*")')


def records_in(text: str) -> Iterator[dict[str, Any]]:
    """The objects that follow each other, be it in an array; behind a damaged one from the next that begins a line."""
    position = 0
    while True:
        between = _BETWEEN.match(text, position)
        position = between.end() if between else position
        if position >= len(text):
            return
        record, end = decoded(text, position)
        if end is not None:
            position = end
            if isinstance(record, dict):
                yield record
        elif following := _NEXT.search(text, position + 1):
            position = following.end()
        else:
            return


def values_in(text: str) -> Iterator[dict[str, Any]]:
    """The streams of Loki's documents with the values that can be read; labels that were cut off are unknown."""
    stream: dict[str, Any] = {"stream": {}, "values": []}
    position = 0
    while part := _LOKI_PART.search(text, position):
        is_pair = part[0].startswith("[")
        value, end = decoded(text, part.start() if is_pair else part.end())
        position = part.end() if end is None else end
        if end is None:
            continue
        if is_pair:
            stream["values"].append(value)
        else:
            if stream["values"]:
                yield stream
            stream = {"stream": value, "values": []}
    if stream["values"]:
        yield stream


def decoded(text: str, position: int) -> tuple[Any, int | None]:
    """The JSON value that begins at ``position`` and the place behind it; None for that where there is none."""
    try:
        return _DECODER.raw_decode(text, position)
    except (ValueError, RecursionError):
        return None, None
