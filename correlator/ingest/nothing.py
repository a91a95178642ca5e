"""Logs without a word: nothing can be said about the job, and that is said instead of a diagnosis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from correlator.errors import NothingReadable

if TYPE_CHECKING:
    from correlator.discovery import SourceFile
    from correlator.ingest import Ingested

#: What a file system leaves where a machine died before its data were on the disk, and what separates words.
_NO_TEXT = b"\0 \t\r\n\v\f"
_EMPTY, _BLANK, _DAMAGED = "empty", "nothing but blanks or NUL bytes", "damaged from the start"


def require_text(read: Ingested, places: Sequence[str]) -> None:
    """Raises NothingReadable when no file of ``places`` holds any text; one share of a sharded reading may be so."""
    if read.events.num_rows or (read.shard is not None and read.shard.count > 1):
        return
    if any(map(_holds_text, read.sources)) or (read.lines and not read.sources):
        return
    where = ", ".join("standard input" if place == "-" else place for place in places)
    raise NothingReadable(f"nothing readable in {where}: {_found(read)}")


def _holds_text(source: SourceFile) -> bool:
    from correlator.reading import iter_bytes

    try:
        return any(
            block.strip(_NO_TEXT) for block in iter_bytes(source.path, source.compression, damage_is_error=False)
        )
    except OSError:  # read elsewhere (parts of a table), or gone: what was counted must do
        return source.size > 0


def _found(read: Ingested) -> str:
    damage = {warning.name: warning.why for warning in read.warnings}
    kinds = Counter(_kinds(read.sources, damage))
    skipped = f"; {len(read.skipped)} more skipped" if read.skipped else ""
    if len(read.sources) == 1:
        name = read.sources[0].name
        return f"{name}: {damage.get(name) or next(iter(kinds))}{skipped}"
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    return f"{len(read.sources)} files{f': {counts}' if counts else ''}{skipped}"


def _kinds(sources: Sequence[SourceFile], damage: dict[str, str]) -> Iterator[str]:
    for source in sources:
        yield _DAMAGED if source.name in damage else _BLANK if source.size else _EMPTY
