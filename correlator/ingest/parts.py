"""Event tables as files that can be diagnosed: what a table's metadata carries beside its rows, and how parts merge.

A part is what ``correlator ingest`` writes (Parquet or Arrow). Its schema metadata holds what else was found out while
reading: writers, files, what was left out. Parts of one folder give, merged, the table of the whole folder; parts of
different folders (logs on the disks of their nodes) are put side by side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from correlator.discovery import SkippedFile, SourceFile
from correlator.errors import UsageError
from correlator.events import SCHEMA
from correlator.ingest.merging import FileSummary
from correlator.ingest.run import Ingested
from correlator.ingest.shards import Shard
from correlator.ingest.writers import Writer
from correlator.path_claims import PathClaims

_KEY = b"correlator.ingested"
_VERSION = 1
# What reads and writes files of Arrow is loaded where there are such: it loads every file system that Arrow knows.
_SUFFIXES = frozenset({".parquet", ".arrow"})


@dataclass(slots=True)
class _Source:
    """A source file as the metadata has it; ``path`` is where it lay on the machine that read it."""

    path: str
    name: str
    size: int
    compression: str | None
    claims: PathClaims
    mtime_ns: int
    recoded: bool


@dataclass(slots=True)
class _Beside:
    """All of an Ingested but its events."""

    version: int
    shard: Shard | None
    writers: list[Writer]
    files: list[FileSummary]
    skipped: list[SkippedFile]
    warnings: list[SkippedFile]
    bytes: int
    lines: int
    sources: list[_Source]


def as_part(read: Ingested) -> pa.Table:
    """The event table with everything else in its metadata, ready to be written."""
    sources = [
        _Source(_printable(s.path), s.name, s.size, s.compression, s.claims, s.mtime_ns, s.recoded)
        for s in read.sources
        if s.spool is None and s.form == "log"  # temporary copies are gone by the time the part is read
    ]
    beside = _Beside(
        _VERSION, read.shard, read.writers, read.files, read.skipped, read.warnings, read.bytes, read.lines, sources
    )
    return read.events.replace_schema_metadata({**(SCHEMA.metadata or {}), _KEY: msgspec.json.encode(beside)})


def _printable(path: Path) -> str:
    return str(path).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


# --- reading ---------------------------------------------------------------------------------------------------------


def find_parts(places: Sequence[Path | str]) -> list[Path]:
    """The parts that the places are: files, or folders that hold nothing else; empty when they are logs."""
    parts: list[Path] = []
    if not all(str(place).strip() for place in places):
        return []  # Path("") is the current folder
    for place in map(Path, places):
        try:
            candidates = sorted(place.iterdir()) if place.is_dir() else [place]
        except OSError:
            return []  # whoever looks for logs there says what is wrong
        candidates = [path for path in candidates if not path.name.startswith(".")]
        if not candidates or not all(path.suffix.lower() in _SUFFIXES and path.is_file() for path in candidates):
            return []
        parts += candidates
    return parts if all(_is_part(path) for path in parts) else []


def _is_part(path: Path) -> bool:
    try:
        if path.suffix.lower() == ".parquet":
            import pyarrow.parquet as pq

            schema = pq.read_schema(path)
        else:
            with pa.OSFile(str(path)) as source:
                schema = pa.ipc.open_file(source).schema
    except (pa.ArrowException, OSError):
        return False
    return _KEY in (schema.metadata or {})


def read_parts(paths: Sequence[Path]) -> Ingested:
    """The parts as if one run had read all their files.

    Raises UsageError when a part is damaged, of another version, or there twice. A shard that is missing is a warning.
    """
    read = [_read(path) for path in paths]
    shards = Counter(one.shard for one in read if one.shard is not None)
    names = Counter(summary.name for one in read for summary in one.files)
    if any(count > 1 for count in names.values()):
        twice = next((shard for shard, count in shards.items() if count > 1 and shard.count > 1), None)
        if twice is not None:
            raise UsageError(f"shard {twice} is there twice; keep one part of it")
        for path, one in zip(paths, read, strict=True):
            _put_under(path.stem, one)
    return _merge(read, _missing(shards))


def _read(path: Path) -> Ingested:
    import pyarrow.feather as feather
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path) if path.suffix.lower() == ".parquet" else feather.read_table(path)
        beside = msgspec.json.decode(table.schema.metadata[_KEY], type=_Beside)
        events = table.replace_schema_metadata(SCHEMA.metadata).cast(SCHEMA)
    except (pa.ArrowException, OSError, ValueError, KeyError, msgspec.MsgspecError) as error:
        raise UsageError(f"{path} cannot be read: {' '.join(str(error).split())[:200]}") from error
    if beside.version != _VERSION:
        raise UsageError(f"{path} was written by another version of correlator; ingest its logs again")
    sources = tuple(
        SourceFile(Path(s.path), s.name, s.size, s.compression, s.claims, s.mtime_ns, s.recoded) for s in beside.sources
    )
    return Ingested(
        events, beside.writers, beside.files, beside.skipped, beside.warnings, beside.bytes, beside.lines, sources,
        beside.shard,
    )  # fmt: skip


def _put_under(folder: str, read: Ingested) -> None:
    """Put a folder in front of all names, for parts of different places that use the same ones."""
    import pyarrow.compute as pc

    prefix = f"{folder}/"
    for name in ("file", "writer"):
        at = read.events.schema.get_field_index(name)
        column = pc.binary_join_element_wise(prefix, read.events.column(name), "")
        read.events = read.events.set_column(at, SCHEMA.field(name), column)
    read.writers = [replace(w, key=prefix + w.key, file=prefix + w.file) for w in read.writers]
    read.files = [replace(f, name=prefix + f.name) for f in read.files]
    read.skipped = [replace(s, name=prefix + s.name) for s in read.skipped]
    read.warnings = [replace(w, name=prefix + w.name) for w in read.warnings]
    read.sources = tuple(replace(s, name=prefix + s.name) for s in read.sources)


def _missing(shards: Counter[Shard]) -> list[SkippedFile]:
    return [
        SkippedFile(f"shard {index}/{count}", "its part is not among the parts: the ranks in it are not seen")
        for count in sorted({shard.count for shard in shards})
        for index in range(count)
        if Shard(index, count) not in shards
    ]


def _merge(read: Sequence[Ingested], missing: Sequence[SkippedFile]) -> Ingested:
    files = sorted((f for one in read for f in one.files), key=lambda f: f.name)
    position = {summary.name: number for number, summary in enumerate(files)}
    events = pa.concat_tables([one.events for one in read]).combine_chunks()
    order = np.array([position[name] for name in events.column("file").to_pylist()], np.int64)
    if np.any(np.diff(order) < 0):
        events = events.take(pa.array(np.argsort(order, kind="stable"))).combine_chunks()
    # Every shard sees the whole folder, so what is left out is named by each of them.
    skipped = sorted({(s.name, s.why) for one in read for s in one.skipped})
    warnings = sorted({(w.name, w.why) for w in (*missing, *(w for one in read for w in one.warnings))})
    return Ingested(
        events=events,
        writers=sorted((w for one in read for w in one.writers), key=lambda w: position[w.file]),
        files=files,
        skipped=[SkippedFile(*entry) for entry in skipped],
        warnings=[SkippedFile(*entry) for entry in warnings],
        bytes=sum(one.bytes for one in read),
        lines=sum(one.lines for one in read),
        sources=tuple(sorted((s for one in read for s in one.sources), key=lambda s: s.name)),
    )
