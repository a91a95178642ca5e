"""What a worker leaves in the folder of its diagnosis, and how it is read there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from correlator.diagnosis import Document
from correlator.discovery import SourceFile
from correlator.path_claims import PathClaims
from correlator.rawtext import RawLines

ORDER, SENT, SPOOL, TEMPORARY = "order.json", "sent", "unpacked", "tmp"
REPORT, DIAGNOSIS, MARKDOWN, VIEW, FAILURE = "report.html", "diagnosis.json", "report.md", "view.json", "failure.json"


class Order(msgspec.Struct, frozen=True):
    """What is to be diagnosed: ``places`` are absolute paths; ``timezone`` of stamps that state none."""

    places: list[str]
    timezone: str | None = None


class Failure(msgspec.Struct, frozen=True):
    """Why there is no diagnosis: one sentence, and the HTTP status that says the same."""

    why: str
    status: int = 422


class Line(msgspec.Struct, frozen=True):
    """A line that the diagnosis names. ``why``: what it shows; ``proof``: it carries the answer."""

    file: str
    line: int
    byte_offset: int
    text: str
    why: str
    proof: bool


class Source(msgspec.Struct, frozen=True):
    """A log that was read. ``path``: where it lies; ``inside``: the folder in which it must lie when read again."""

    name: str
    path: str
    inside: str
    size: int
    compression: str | None
    recoded: bool


class View(msgspec.Struct, frozen=True):
    """What the page shows around the report. ``next``: the first step; ``signature``: its entry, if there is one."""

    class_: str
    headline: str
    place: str
    resume: str
    next: str
    signature: str | None
    lines: list[Line]
    sources: list[Source]

    def raw(self, file: str, byte_offset: int, around: int) -> tuple[list[str], int] | None:
        """Raw lines around a place and which of them is its own; None for a file that is not of this diagnosis.

        A file that is gone, that a link has taken the place of, or that leads elsewhere meanwhile gives no lines.
        """
        source = next((source for source in self.sources if source.name == file), None)
        if source is None:
            return None
        path = Path(source.path)
        if path.is_symlink() or not path.resolve().is_relative_to(source.inside):
            return [], 0
        read = SourceFile(path, file, source.size, source.compression, PathClaims(), recoded=source.recoded)
        raw = RawLines({file: read})
        if raw.line(file, byte_offset) is None:
            return [], 0
        before, after = raw.neighbourhood(file, byte_offset, around, 0), raw.neighbourhood(file, byte_offset, 0, around)
        if len(after) > 1 and not after[-1]:  # behind the last line break there is no line
            after.pop()
        return [*before, *after[1:]], len(before) - 1


def lines_of(document: Document, offsets: dict[tuple[str, int], int]) -> Iterator[Line]:
    """All lines that the diagnosis names, once each: the first error, the evidence by weight, the cascade.

    ``offsets``: byte offsets by file and line, of the lines of the cascade.
    """
    seen: set[tuple[str, int]] = set()
    first = document.initiator.first_error
    said = sorted(document.evidence, key=lambda entry: -entry.weight)
    reasons = {(entry.file, entry.line): entry.why for entry in reversed(said)}
    if first is not None:
        seen.add((first.file, first.line))
        why = reasons.get((first.file, first.line)) or "the first error"
        yield Line(first.file, first.line, first.byte_offset, first.text, why, True)
    for entry in said:
        if (entry.file, entry.line) not in seen:
            seen.add((entry.file, entry.line))
            yield Line(entry.file, entry.line, entry.byte_offset, entry.text, entry.why, True)
    for event in document.cascade:
        shown = event.evidence
        if shown is None or (shown.file, shown.line) in seen or (shown.file, shown.line) not in offsets:
            continue
        seen.add((shown.file, shown.line))
        yield Line(shown.file, shown.line, offsets[shown.file, shown.line], shown.text, event.what, False)
