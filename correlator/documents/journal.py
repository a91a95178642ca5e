"""The journal's forms in which a record takes several lines: ``journalctl -o export`` and ``-o verbose``.

A record of the export form becomes the line of ``-o json`` with the fields that say who wrote what and when, one of the
verbose form the line of ``-o short-full``. A message of several lines becomes as many.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

#: Longest record that is taken apart; the journal itself cuts messages far below it.
MAX_RECORD = 16 << 20
_SAMPLE = 4096
_SIZE = 8  # of the little-endian number in front of a value that is no clean text

_EXPORT = re.compile(rb"(?:[A-Z_][A-Z0-9_]{0,63}=[^\n]{0,300}\n){0,4}__(?:CURSOR|REALTIME_TIMESTAMP)=")
_VERBOSE = re.compile(
    rb"(?:-- [^\n]*\n)?([A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})? [A-Z+\-0-9]{1,6}) \[s=[0-9a-f]+;"
)
_FIELD = re.compile(rb" {4}([A-Z_][A-Z0-9_]{0,63})=(.*)$", re.S)
_WANTED = frozenset(
    {
        *("__REALTIME_TIMESTAMP", "_SOURCE_REALTIME_TIMESTAMP", "__MONOTONIC_TIMESTAMP", "_BOOT_ID", "_HOSTNAME"),
        *("SYSLOG_IDENTIFIER", "_COMM", "_PID", "PRIORITY", "_SYSTEMD_UNIT", "MESSAGE"),
    }
)
_Fields = dict[str, str]


def is_export(head: bytes) -> bool:
    """Whether these are the first bytes of ``journalctl -o export``."""
    return bool(_EXPORT.match(head[:_SAMPLE]))


def is_verbose(head: bytes) -> bool:
    """Whether these are the first bytes of ``journalctl -o verbose``."""
    return bool(_VERBOSE.match(head[:_SAMPLE]))


def export_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """One line of JSON a record and line of its message; what is no record passes as it is."""
    held = bytearray()
    fields: _Fields = {}
    for piece in pieces:
        held += piece
        taken = 0
        while (size := _field_size(held, taken)) is not None:
            if size == 1:  # the empty line behind a record
                yield from _record(fields)
                fields = {}
            else:
                _take(bytes(held[taken : taken + size]), fields)
            taken += size
        del held[:taken]
        if len(held) > MAX_RECORD:
            yield bytes(held)
            held.clear()
    _take(bytes(held), fields)
    yield from _record(fields)


def _field_size(held: bytearray, start: int) -> int | None:
    """Bytes of the field at ``start`` with its line end; None where more has to be read."""
    end = held.find(b"\n", start)
    if end < 0:
        return None
    if end == start or held.find(b"=", start, end) >= 0:
        return end + 1 - start
    if len(held) < end + 1 + _SIZE:
        return None
    size = int.from_bytes(held[end + 1 : end + 1 + _SIZE], "little")
    if size > MAX_RECORD:
        return end + 1 - start  # a damaged name
    whole = end + 1 + _SIZE + size + 1
    return whole - start if len(held) >= whole else None


def _take(field: bytes, fields: _Fields) -> None:
    name, end, value = field.partition(b"\n")
    if b"=" in name:
        name, _, value = name.partition(b"=")
    elif end:
        value = value[_SIZE:-1]
    if (text := name.decode("latin-1")) in _WANTED:
        fields[text] = value.decode("utf-8", "replace")


def _record(fields: _Fields) -> Iterator[bytes]:
    for message in fields.get("MESSAGE", "").splitlines():
        yield json.dumps({**fields, "MESSAGE": message}).encode() + b"\n"


def verbose_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """One line of text a record and line of its message; what is no record passes as it is."""
    stamp = b""
    fields: _Fields = {}
    for line in _lines(pieces):
        if match := _VERBOSE.match(line):
            yield from _short(stamp, fields)
            stamp, fields = match[1], {}
        elif field := _FIELD.match(line) if stamp else None:
            fields[field[1].decode("latin-1")] = field[2].decode("utf-8", "replace")
        elif stamp and line.startswith(b"    ") and "MESSAGE" in fields:
            fields["MESSAGE"] += "\n" + line.decode("utf-8", "replace").strip()
        else:
            yield line + b"\n"
    yield from _short(stamp, fields)


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    held = b""
    for piece in pieces:
        *whole, held = (held + piece).split(b"\n")
        yield from whole
        if len(held) > MAX_RECORD:
            yield held
            held = b""
    if held:
        yield held


def _short(stamp: bytes, fields: _Fields) -> Iterator[bytes]:
    name = fields.get("SYSLOG_IDENTIFIER", fields.get("_COMM", "unknown"))
    pid = f"[{fields['_PID']}]" if "_PID" in fields else ""
    for message in fields.get("MESSAGE", "").splitlines():
        yield stamp + f" {fields.get('_HOSTNAME', '-')} {name}{pid}: {message}\n".encode()
