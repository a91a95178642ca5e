"""Files whose lines hold several log records each, or hide their text from a search: one line a record instead.

Loki's answers and exports (``{"data": {"result": [{"stream": {labels}, "values": [[ns, line], …]}]}}``, the list of
streams alone, one stream a line), Fluent Bit's arrays of records, and the journal's JSON, in which a message that is
not clean text is an array of byte values. Of a document that is cut off, the records that are whole. What is not of
such a form passes as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from correlator.documents.torn import records_in, values_in
from correlator.untrusted import read_json, read_number

#: A longer line passes as it is: nothing that is asked of Loki or flushed by Fluent Bit comes near it.
MAX_DOCUMENT = 64 << 20
#: A line may become this many times as long, labels being repeated, or MAX_DOCUMENT; else it passes as it is.
_GROWTH = 16
#: Bytes of a file by which its form is told.
_SAMPLE = 4096

_DOCUMENT = re.compile(
    rb'\s*(?:\{\s*"status"\s*:\s*"success"\s*,\s*"data"\s*:\s*\{\s*"resultType"\s*:\s*"streams"'
    rb'|\{\s*"streams"\s*:\s*\[|\[?\s*\{\s*"stream"\s*:\s*\{'
    rb'|\[\s*\{\s*"(?:date|time|timestamp|@timestamp)"\s*:)'
)
# The end of an answer of Loki whose beginning is lost: pairs of time and line.
_PAIR = re.compile(rb'\["1\d{18}",\s?"')
_PAIRS_TOLD = 3
_JOURNAL = re.compile(rb'\s*\{\s*"[A-Z_]')
_BYTE_ARRAY = re.compile(rb'"MESSAGE"\s*:\s*\[')


def holds_records(head: bytes) -> bool:
    """Whether the first bytes are those of such a file."""
    sample = head[:_SAMPLE]
    first = sample.partition(b"\n")[0]
    return (
        bool(_DOCUMENT.match(sample))
        or (bool(_JOURNAL.match(sample)) and b'"__REALTIME_TIMESTAMP"' in first)
        or len(_PAIR.findall(first)) >= _PAIRS_TOLD
    )


def record_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The text in pieces, with each such line replaced by one line a record."""
    held = bytearray()
    passing = False  # inside a line that is too long
    for piece in pieces:
        end = piece.rfind(b"\n") + 1
        whole = bytes(held) + piece[:end] if end else b""
        if end:
            held.clear()
        held += piece[end:]
        if end:
            if passing:
                rest, _, whole = whole.partition(b"\n")
                yield rest + b"\n"
                passing = False
            if whole:
                yield b"".join(map(_replaced, whole.splitlines(keepends=True)))
        if passing or len(held) > MAX_DOCUMENT:
            yield bytes(held)
            held, passing = bytearray(), True
    if held:
        yield _replaced(bytes(held))


def _replaced(line: bytes) -> bytes:
    if not (_DOCUMENT.match(line) or _BYTE_ARRAY.search(line) or _PAIR.search(line)):
        return line
    document = read_json(line)
    if document is not None:
        return as_lines(_records(document), len(line)) or line
    text = line.decode("utf-8", "replace")
    return as_lines(values_in(text), len(line)) or as_lines(records_in(text), len(line)) or line


def as_lines(records: Iterable[dict[str, Any]], size: int) -> bytes:
    """One line of JSON a record, of a document of ``size`` bytes; nothing where they would take far more than it."""
    limit = max(MAX_DOCUMENT, _GROWTH * size)
    lines: list[bytes] = []
    for record in records:
        for value in _values(record):
            lines.append(json.dumps(value).encode() + b"\n")
            limit -= len(lines[-1])
            if limit < 0:
                return b""
    return b"".join(lines)


def _records(document: Any) -> Iterator[dict[str, Any]]:
    data = document.get("data", document) if isinstance(document, dict) else document
    if isinstance(data, dict):
        data = next((data[name] for name in ("result", "streams") if isinstance(data.get(name), list)), [document])
    for value in data if isinstance(data, list) else []:
        if isinstance(value, dict):
            yield value


def _values(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if isinstance(value.get("stream"), dict) and isinstance(value.get("values"), list):
        for pair in _oldest_first(value["values"]):
            yield {"stream": value["stream"], "values": [pair]}
    else:
        yield {**value, "MESSAGE": _text(value["MESSAGE"])} if isinstance(value.get("MESSAGE"), list) else value


def _oldest_first(values: list[Any]) -> list[Any]:
    """Loki answers newest first unless it is asked otherwise; a traceback is read from its beginning."""
    pairs = [pair for pair in values if isinstance(pair, list) and len(pair) >= 2]
    first, last = (read_number(str(pairs[at][0])) or 0 for at in (0, -1)) if pairs else (0, 0)
    return [pair[:2] for pair in (reversed(pairs) if first > last else pairs)]


def _text(values: list[Any]) -> str:
    return bytes(b for b in values if isinstance(b, int) and 0 <= b < 256).decode(errors="replace")
