"""What a worker leaves in the folder of its diagnosis, and how it is read there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from correlator.diagnosis import Document
from correlator.discovery import SourceFile
from correlator.path_claims import PathClaims
from correlator.rawtext import RawLines

ORDER, SENT, SPOOL, TEMPORARY = "order.json", "sent", "unpacked", "tmp"
REPORT, DIAGNOSIS, MARKDOWN = "report.html", "diagnosis.json", "report.md"
PAGE, VIEW, FAILURE = "page.html", "view.json", "failure.json"


class Order(msgspec.Struct, frozen=True):
    """What is to be diagnosed: ``places`` are absolute paths; ``timezone`` of stamps that state none.

    ``address``: where the server shows the result; ``title``: what was given, in words.
    """

    places: list[bytes]
    address: str
    title: str
    timezone: str | None = None


class Failure(msgspec.Struct, frozen=True):
    """Why there is no diagnosis: one sentence, and the HTTP status that says the same."""

    why: str
    status: int = 422


class Reason(msgspec.Struct, frozen=True):
    """Why the diagnosis names the line at a place."""

    file: str
    byte_offset: int
    why: str


class Source(msgspec.Struct, frozen=True):
    """A log that was read. ``path``: where it lies; ``inside``: the folder in which it must lie when read again.

    Paths are bytes: on a disk a name need not be UTF-8.
    """

    name: str
    path: bytes
    inside: bytes
    size: int
    compression: str | None
    recoded: bool


class View(msgspec.Struct, frozen=True):
    """What leads from the verdict to the raw lines."""

    reasons: list[Reason]
    sources: list[Source]

    def why(self, file: str, byte_offset: int) -> str:
        """Why a line is named; empty where nothing is said of it."""
        return next((r.why for r in self.reasons if (r.file, r.byte_offset) == (file, byte_offset)), "")

    def raw(self, file: str, byte_offset: int, around: int) -> tuple[list[str], int] | None:
        """Raw lines around a place and which of them is its own; None for a file that is not of this diagnosis.

        A file that is gone, that a link has taken the place of, or that leads elsewhere meanwhile gives no lines.
        """
        source = next((source for source in self.sources if source.name == file), None)
        if source is None:
            return None
        path = Path(os.fsdecode(source.path))
        if path.is_symlink() or not path.resolve().is_relative_to(os.fsdecode(source.inside)):
            return [], 0
        read = SourceFile(path, file, source.size, source.compression, PathClaims(), recoded=source.recoded)
        raw = RawLines({file: read})
        if raw.line(file, byte_offset) is None:
            return [], 0
        before, after = raw.neighbourhood(file, byte_offset, around, 0), raw.neighbourhood(file, byte_offset, 0, around)
        if len(after) > 1 and not after[-1]:  # behind the last line break there is no line
            after.pop()
        return [*before, *after[1:]], len(before) - 1


def reasons_of(document: Document) -> Iterator[Reason]:
    """What the evidence says of its lines, the weightiest first; of the first error at least that."""
    for entry in sorted(document.evidence, key=lambda entry: -entry.weight):
        yield Reason(entry.file, entry.byte_offset, entry.why)
    first = document.initiator.first_error
    if first is not None:
        yield Reason(first.file, first.byte_offset, "the first error")
