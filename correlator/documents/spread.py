"""JSON records that are spread over several lines, as ``jq`` and ``journalctl -o json-pretty`` print them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from correlator.documents.json_lines import MAX_DOCUMENT, as_lines
from correlator.documents.torn import decoded, records_in, values_in

_SAMPLE = 8192
#: A document whose first line holds nothing but brackets.
_SPREAD = re.compile(r"\s*(?:\[\s*)?(?:\{\s*\n|\n\s*)(?=[\s\"{])")
_BRACKETS = re.compile(r"[\s\[]*")
_LOKI = re.compile(r'[{,]\s*"(?:stream|resultType)"\s*:')
#: A record says when it was made and what it says, each under one of these names.
_TIMES = frozenset({"time", "date", "timestamp", "@timestamp", "ts", "asctime", "__REALTIME_TIMESTAMP"})
_TEXTS = frozenset({"log", "message", "msg", "MESSAGE", "line"})


def is_spread(head: bytes) -> bool:
    """Whether the first bytes are those of such records; any other document over several lines is none."""
    text = head[:_SAMPLE].decode("utf-8", "replace")
    if text[:1] not in ("{", "[") or not _SPREAD.match(text):
        return False
    if _LOKI.search(text):
        return True
    start = _BRACKETS.match(text)
    record = decoded(text, start.end() if start else 0)[0]
    return isinstance(record, dict) and bool(
        _TIMES & record.keys() and any(isinstance(record[name], str | list) for name in _TEXTS & record.keys())
    )


def spread_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """One line a record; a file longer than MAX_DOCUMENT, or in which none can be read, passes as it is."""
    held = bytearray()
    rest = iter(pieces)
    for piece in rest:
        held += piece
        if len(held) > MAX_DOCUMENT:
            yield bytes(held)
            yield from rest
            return
    text = held.decode("utf-8", "replace")
    records = values_in(text) if _LOKI.search(text, 0, _SAMPLE) else records_in(text)
    yield as_lines(records, len(held)) or bytes(held)
