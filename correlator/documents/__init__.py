"""Files in which a log record is not a line: they are read as one line of text or JSON a record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from correlator.documents import journal, json_lines, spread

#: Turns the text of a file, in pieces, into lines.
Reader = Callable[[Iterable[bytes]], Iterator[bytes]]


def reader_of(head: bytes) -> Reader | None:
    """The reader for a file with these first bytes; None where a line is a line already."""
    for holds, reader in (
        (journal.is_export, journal.export_lines),
        (journal.is_verbose, journal.verbose_lines),
        (spread.is_spread, spread.spread_lines),
        (json_lines.holds_records, json_lines.record_lines),
    ):
        if holds(head):
            return reader
    return None
