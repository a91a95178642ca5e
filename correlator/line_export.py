"""Every line of the logs as a row, for notebooks: what the event table leaves out is most of a log, and may be wanted.

One Parquet file a log, written while it is read and never sorted, so that memory does not grow with the logs; together
the files are one data set (``polars.scan_parquet(f"{folder}/*.parquet")``). Time, node and rank are what the line's own
envelopes and the file's name say; a line without a stamp has that of the last one of the same writer in its file.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from correlator.discovery import SkippedFile, SourceFile, discover
from correlator.envelopes import FileContext, peel
from correlator.envelopes.file_context import JobContext, file_context
from correlator.errors import UsageError
from correlator.ingest import Shard
from correlator.ingest.planning import choose_limits, is_sampled_whole, judge_job, read_samples
from correlator.reading import DamagedArchive, iter_bytes
from correlator.repeated_hour import RepeatedHour
from correlator.timestamps import parse_zone
from correlator.worker_pool import WorkerPool

#: Longest text of one line, in bytes; the rest of a longer one is left out.
MAX_TEXT = 64 << 10
#: Lines and bytes of text in one row group.
_GROUP_LINES, _GROUP_BYTES = 50_000, 8 << 20
#: Writers of one file whose last stamp is remembered.
_MAX_WRITERS = 10_000

#: The schema of every part. Places are those of the event table: ``line`` counts LF from 1, ``byte_offset`` is in the
#: decompressed text.
LINES = pa.schema(
    [
        pa.field("file", pa.dictionary(pa.int32(), pa.string())),
        pa.field("line", pa.int64()),
        pa.field("byte_offset", pa.int64()),
        pa.field("text", pa.string()),
        pa.field("timestamp", pa.timestamp("ns", tz="UTC")),
        pa.field("timestamp_basis", pa.dictionary(pa.int32(), pa.string())),
        pa.field("node", pa.dictionary(pa.int32(), pa.string())),
        pa.field("rank", pa.int32()),
        pa.field("local_rank", pa.int32()),
    ]
)


def export_lines(
    places: Sequence[Path | str],
    folder: Path,
    *,
    timezone: str | None = None,
    workers: int | None = None,
    shard: Shard | None = None,
) -> tuple[int, list[SkippedFile]]:
    """Write the lines of all logs below ``places`` into ``folder``; gives their number and what was not read whole.

    ``places``, ``timezone`` and ``shard`` as for ``ingest``; ``workers`` processes, by default one a processor. The
    name of a part is the number of its file among all, so that parts of shards can be put into one folder.

    Raises UsageError for a place or zone that does not exist and where ``folder`` cannot be written, NothingReadable
    when there is no log. Whatever ends it early, no part is left: some of them would look like all.
    """
    job = JobContext(zone=parse_zone(timezone))
    found = discover(places)
    is_new = not folder.exists()
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise _not_written(folder, error) from error
    job = judge_job(found.files, job)
    sample = choose_limits(len(found.files), len(found.files)).head_bytes
    tasks = [
        (file, folder / f"{number:06}.parquet", job, sample)
        for number, file in enumerate(found.files)
        if file.form == "log" and (shard is None or shard.owns(file.name))
    ]
    problems = [*found.skipped, *found.warnings]
    lines = 0
    try:
        with closing(_written(tasks, workers)) as parts:
            for (file, _, _, _), (count, problem) in zip(tasks, parts, strict=True):
                lines += count
                if problem is not None:
                    problems.append(SkippedFile(file.name, problem))
    except BaseException:
        for _, part, _, _ in tasks:
            part.unlink(missing_ok=True)
        if is_new:
            with suppress(OSError):  # somebody else put something there
                folder.rmdir()
        raise
    return lines, problems


_Task = tuple[SourceFile, Path, JobContext, int]


def _written(tasks: Sequence[_Task], workers: int | None) -> Generator[tuple[int, str | None], None, None]:
    workers = min(workers or os.cpu_count() or 1, len(tasks))
    if workers <= 1:
        yield from map(_write_file, tasks)
        return
    with WorkerPool(workers) as pool:
        yield from pool.in_order(_write_file, tasks)


def _write_file(task: _Task) -> tuple[int, str | None]:
    """Write the part of one log; gives the number of its lines, and why it was not read to its end."""
    file, target, job, sample = task
    head, tail = read_samples(file, sample)
    context = file_context(
        job,
        head,
        tail,
        file.mtime_ns,
        single_process=file.claims.single_process,
        complete=is_sampled_whole(file, sample),
    )
    rows = _Rows(file, context)
    problems: list[str] = []
    try:
        with pq.ParquetWriter(target, LINES, compression="zstd") as writer:
            for number, (offset, raw) in enumerate(_readable_lines(file, problems), start=1):
                rows.add(number, offset, raw)
                if rows.full:
                    writer.write_table(rows.take())
            writer.write_table(rows.take())
    except OSError as error:
        raise _not_written(target.parent, error) from error
    return rows.lines, problems[0] if problems else None


def _not_written(folder: Path, error: OSError) -> UsageError:
    return UsageError(f"cannot write {folder}: {os.strerror(error.errno) if error.errno else error}")


def _readable_lines(file: SourceFile, problems: list[str]) -> Iterator[tuple[int, bytes]]:
    """The lines up to the first place that cannot be read; why goes to ``problems``."""
    try:
        yield from _lines(file)
    except DamagedArchive as error:
        problems.append(f"damaged archive, its lines up to there are written: {error}")
    except OSError as error:
        problems.append(f"could not be read to its end: {error.strerror or error}")


def _lines(file: SourceFile) -> Iterator[tuple[int, bytes]]:
    """Byte offset and text of each line, which is cut at MAX_TEXT; in constant memory, however long a line is."""
    kept, start, position = b"", 0, 0
    limit = None if file.streamed else file.size
    for piece in iter_bytes(file.path, file.compression, limit=limit):
        begin = 0
        while (end := piece.find(b"\n", begin)) >= 0:
            yield start, kept + piece[begin : min(end, begin + MAX_TEXT - len(kept))]
            kept, begin = b"", end + 1
            start = position + begin
        kept += piece[begin : begin + MAX_TEXT - len(kept)]
        position += len(piece)
    if position > start:
        yield start, kept


class _Rows:
    """Rows of one file until they are written."""

    def __init__(self, file: SourceFile, context: FileContext) -> None:
        self.lines = 0
        self._file = file
        self._context = context
        self._stamps: dict[str, int] = {}
        self._hour = RepeatedHour(context.clock.zone)
        self._columns: dict[str, list[object]] = {name: [] for name in LINES.names}
        self._bytes = 0

    @property
    def full(self) -> bool:
        """True when it is time to write them."""
        return self._bytes >= _GROUP_BYTES or len(self._columns["line"]) >= _GROUP_LINES

    def add(self, line: int, offset: int, raw: bytes) -> None:
        """One line; of a progress bar that is rewritten by carriage returns, the last state tells who wrote it."""
        text = raw.decode("utf-8", "replace").rstrip("\r")
        p = peel(text.rpartition("\r")[2], self._context)
        stamp, basis = p.timestamp_ns, p.timestamp_basis or "none"
        if stamp is not None:
            stamp = self._hour.placed(p.key if len(self._stamps) < _MAX_WRITERS else "", stamp)
            if p.key in self._stamps or len(self._stamps) < _MAX_WRITERS:
                self._stamps[p.key] = stamp
        elif basis == "none" and (stamp := self._stamps.get(p.key)) is not None:
            basis = "inherited"
        claims = self._file.claims
        row = {
            "file": self._file.name,
            "line": line,
            "byte_offset": offset,
            "text": text,
            "timestamp": stamp,
            "timestamp_basis": basis,
            "node": p.node or p.pod or claims.node,
            "rank": claims.rank if p.rank is None else p.rank,
            "local_rank": claims.local_rank if p.local_rank is None else p.local_rank,
        }
        for name, value in row.items():
            self._columns[name].append(value)
        self._bytes += len(raw)
        self.lines = line

    def take(self) -> pa.Table:
        """The rows since the last time, as a table."""
        arrays = [pa.array(self._columns[field.name], field.type) for field in LINES]
        for values in self._columns.values():
            values.clear()
        self._bytes = 0
        return pa.table(arrays, schema=LINES)
