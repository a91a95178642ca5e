"""The event table of a folder of logs.

``ingest`` finds the files, cuts them into work units, has the units read (here, or by any ``concurrent.futures``
executor) and merges what they gave. The result does not depend on the order of files or the number of workers.
"""

from __future__ import annotations

import os
import pickle
import stat
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa

from correlator.discovery import Discovery, SkippedFile, SourceFile, discover
from correlator.envelopes.file_context import JobContext, file_context
from correlator.events import Parser, Pattern
from correlator.ingest.dumps import read_dump_unit
from correlator.ingest.matching import Matcher
from correlator.ingest.merging import FileSummary, merge_file
from correlator.ingest.planning import (
    Plan,
    batch_units,
    choose_limits,
    is_sampled_whole,
    judge_job,
    plan_units,
    read_samples,
)
from correlator.ingest.rows import Row, to_table
from correlator.ingest.shards import Shard
from correlator.ingest.unit import UnitReader
from correlator.ingest.windows import MAX_LINE, plain_windows, streamed_windows
from correlator.ingest.work import Failure, Unit, UnitResult
from correlator.ingest.writers import Writer
from correlator.plugins import load_parsers
from correlator.reading import DamagedArchive, Oversized
from correlator.timestamps import parse_zone
from correlator.worker_pool import WorkerPool

#: Processes are worth their start-up from here on.
PARALLEL_FROM_BYTES = 200 << 20

#: Called with (bytes done, bytes in all, files done).
Progress = Callable[[int, int, int], None]


@dataclass(slots=True)
class Ingested:
    """All that was read.

    ``events`` has ``correlator.events.SCHEMA``, by file and place in it; ``time`` is null, ``rank`` and ``node`` are
    what lines, envelopes and paths claim. ``skipped``: files that are no logs or could not be opened; ``warnings``:
    files that could not be read to their end. ``bytes`` as stored. ``sources``: where the files lie.
    ``shard``: of which part of all files this is the table.
    """

    events: pa.Table
    writers: list[Writer]
    files: list[FileSummary]
    skipped: list[SkippedFile]
    warnings: list[SkippedFile]
    bytes: int
    lines: int
    sources: tuple[SourceFile, ...] = ()
    shard: Shard | None = None


def ingest(
    places: Sequence[Path | str] | Path | str,
    *,
    timezone: str | None = None,
    patterns: Sequence[Pattern] | None = None,
    extra_patterns: Sequence[Pattern] = (),
    workers: int | None = None,
    executor: Executor | None = None,
    shard: Shard | None = None,
    progress: Progress | None = None,
    confined: bool = False,
) -> Ingested:
    """Read all logs below ``places``: folders, files, archives, addresses that fsspec opens, ``-`` for standard input.

    ``timezone`` is for stamps that state none (UTC by default). ``patterns`` replaces those of the installed parsers;
    ``extra_patterns`` are tried on lines that no other pattern took. ``workers`` processes (by default one below
    200 MB, else one a processor) or the given ``executor`` read the units. ``shard``: the share of the files to read;
    what is judged from all files together is judged so for every shard. ``confined``: no link below ``places`` is
    followed.

    Raises UsageError for a place or zone that does not exist, NothingReadable when there is no log.
    """
    job = JobContext(zone=parse_zone(timezone))
    found = discover([places] if isinstance(places, Path | str) else places, confined=confined)
    units = plan_units(found.files)
    plan = Plan(
        job=judge_job(found.files, job),
        limits=choose_limits(len(found.files), len(units)),
        patterns=None if patterns is None else tuple(patterns),
        extra=tuple(extra_patterns),
    )
    own = tuple(file for file in found.files if shard is None or shard.owns(file.name))
    units = [unit for unit in units if shard is None or shard.owns(unit.file.name)]
    total = sum(file.size for file in own)
    pieces: list[_Piece] = []
    partial: dict[int, list[UnitResult]] = defaultdict(list)
    done = 0
    to_read = Counter(unit.position for unit in units)
    for batch, (piece, results) in _run(batch_units(units), plan, total, workers, executor):
        pieces.append(piece)
        for result in results:
            partial[result.position].append(result)
        done += sum(unit.end - unit.start for unit in batch)
        to_read.subtract(unit.position for unit in batch)
        if progress:
            progress(done, total, sum(not left for left in to_read.values()))
    for position, results in partial.items():
        piece = _Piece()
        piece.add(position, found.files[position], sorted(results, key=lambda result: result.index), plan)
        pieces.append(piece.finish())
    return _assemble(pieces, found, own, shard)


@dataclass(slots=True)
class _Piece:
    """Some files, read and merged. ``order`` sorts the rows of ``table`` among those of all files."""

    order: list[int] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    table: pa.Table | None = None
    writers: list[tuple[int, list[Writer]]] = field(default_factory=list)
    files: list[tuple[int, FileSummary]] = field(default_factory=list)
    warnings: list[SkippedFile] = field(default_factory=list)

    def add(self, position: int, file: SourceFile, results: Sequence[UnitResult], plan: Plan) -> None:
        """Merge what all units of one file gave."""
        rows, writers, summary = merge_file(file, results, plan.limits.tail_bytes)
        self.order += range(position << 32, (position << 32) + len(rows))
        self.rows += rows
        self.writers.append((position, writers))
        self.files.append((position, summary))
        damages = dict.fromkeys(result.damage for result in results if result.damage)
        self.warnings += [SkippedFile(file.name, damage) for damage in damages]
        self.warnings += [SkippedFile(file.name, why) for why in _failures(results)]

    def finish(self) -> _Piece:
        """Turn the rows into Arrow: a tenth of the memory, and quick to send between processes."""
        self.table, self.rows = to_table(self.rows), []
        return self


def _failures(results: Sequence[UnitResult]) -> Iterator[str]:
    """What is told of parsers that raised: the first line of a file that each did not read, and how many more."""
    lines = 0
    told: dict[str, Failure] = {}
    for result in results:
        for parser, failure in result.failures.items():
            if parser in told:
                told[parser].count += failure.count
            else:
                told[parser] = replace(failure, line=failure.line + lines)
        lines += result.lines
    for parser, failure in told.items():
        more = f" and {failure.count - 1} more" if failure.count > 1 else ""
        yield f"parser {parser} failed on line {failure.line}{more}, which it left unread: {failure.error}"


def _assemble(pieces: Sequence[_Piece], found: Discovery, own: tuple[SourceFile, ...], shard: Shard | None) -> Ingested:
    # Most pieces are files that follow each other: put in order, nothing is left to be sorted, which takes a copy.
    pieces = sorted(pieces, key=lambda piece: piece.order[:1])
    order = np.array([number for piece in pieces for number in piece.order], np.int64)
    events = pa.concat_tables([piece.table for piece in pieces])
    for piece in pieces:
        piece.table = None
    if np.any(np.diff(order) < 0):
        events = events.take(pa.array(np.argsort(order)))
    events = events.combine_chunks()
    files = sorted((entry for piece in pieces for entry in piece.files), key=lambda entry: entry[0])
    writers = sorted((entry for piece in pieces for entry in piece.writers), key=lambda entry: entry[0])
    return Ingested(
        events=events,
        writers=[writer for _, of_file in writers for writer in of_file],
        files=[summary for _, summary in files],
        skipped=list(found.skipped),
        warnings=sorted((*found.warnings, *(w for p in pieces for w in p.warnings)), key=lambda w: (w.name, w.why)),
        bytes=sum(file.size for file in own),
        lines=sum(summary.lines for _, summary in files),
        sources=own,
        shard=shard,
    )


def read_units(units: Sequence[Unit], plan: Plan) -> tuple[_Piece, list[UnitResult]]:
    """What some units give, in this process or a worker: whole files merged, parts of larger ones as they are."""
    matcher = _matcher(plan)
    piece = _Piece()
    partial: list[UnitResult] = []
    for unit in units:
        result = _read_unit(unit, matcher, plan)
        if unit.whole:
            piece.add(unit.position, unit.file, [result], plan)
        else:
            partial.append(result)
    return piece.finish(), partial


_last_matcher: tuple[tuple[int, ...] | None, tuple[int, ...], Matcher] | None = None


def _matcher(plan: Plan) -> Matcher:
    """The compiled patterns of a plan; kept, since a worker gets many batches and compiling takes longer than some."""
    global _last_matcher
    parsers = load_parsers() if plan.patterns is None else (Parser("given", plan.patterns),)
    wanted = tuple(id(parser) for parser in parsers) if plan.patterns is None else tuple(map(id, plan.patterns))
    extra = tuple(map(id, plan.extra))
    if _last_matcher is None or _last_matcher[:2] != (wanted, extra):
        # The matcher keeps the patterns alive, so that their ids are not given to others.
        _last_matcher = (wanted, extra, Matcher(parsers, plan.extra))
    return _last_matcher[2]


def _read_unit(unit: Unit, matcher: Matcher, plan: Plan) -> UnitResult:
    file, sample = unit.file, plan.limits.head_bytes
    if file.form == "flight recorder":
        return read_dump_unit(unit)
    head, tail = read_samples(file, sample)
    context = file_context(
        plan.job,
        head,
        tail,
        file.mtime_ns,
        single_process=file.claims.single_process,
        complete=is_sampled_whole(file, sample),
    )
    reader = UnitReader(unit, matcher, context, plan.limits)
    try:
        if file.streamed:
            return reader.read(streamed_windows(file))
        with file.path.open("rb", buffering=0) as stream:
            size = _whole_lines(stream, file.size)
            end = size if unit.end == file.size else unit.end
            reader.read(plain_windows(stream, unit.start, end, size))
            if reader.result.bytes < end - unit.start:
                reader.result.damage = "became shorter while it was read"
    except Oversized as error:
        reader.result.damage = f"read up to byte {reader.result.bytes} of its content: {error}"
    except DamagedArchive as error:
        reader.result.damage = f"damaged archive, read up to byte {reader.result.bytes} of its content: {error}"
    except OSError as error:
        reader.result.damage = f"could not be read to its end: {error.strerror or error}"
    return reader.result


def _whole_lines(stream: IO[bytes], size: int) -> int:
    """``size`` as found, or less: of a file that grows meanwhile, its last line of then may be half a line."""
    info = os.fstat(stream.fileno())
    if not stat.S_ISREG(info.st_mode) or info.st_size <= size:
        return size
    start = max(0, size - MAX_LINE)
    stream.seek(start)
    end = stream.read(size - start).rfind(b"\n")
    return start + end + 1 if end >= 0 else size


def _run(
    batches: Sequence[list[Unit]], plan: Plan, total: int, workers: int | None, executor: Executor | None
) -> Iterator[tuple[list[Unit], tuple[_Piece, list[UnitResult]]]]:
    """Batches with their results, as they come."""
    if executor is not None:
        # Its workers may be on other machines, which do not see the temporary files of this one.
        away = [[unit for unit in batch if unit.file.spool is None] for batch in batches]
        yield from _submit(executor, [batch for batch in away if batch], plan)
        for batch in batches:
            if here := [unit for unit in batch if unit.file.spool is not None]:
                yield here, read_units(here, plan)
        return
    if workers is None:
        workers = (os.cpu_count() or 1) if total >= PARALLEL_FROM_BYTES else 1
    workers = min(workers, len(batches))
    if workers <= 1 or not _can_travel(plan):
        for batch in batches:
            yield batch, read_units(batch, plan)
        return
    left = list(batches)
    try:
        with WorkerPool(workers) as pool:
            for batch, result in _submit(pool, batches, plan):
                left.remove(batch)
                yield batch, result
    except (BrokenExecutor, OSError):
        # No processes to be had here (no semaphores, no memory, a killed worker): this one does the rest.
        for batch in left:
            yield batch, read_units(batch, plan)


def _submit(
    executor: Executor, batches: Sequence[list[Unit]], plan: Plan
) -> Iterator[tuple[list[Unit], tuple[_Piece, list[UnitResult]]]]:
    futures = {executor.submit(read_units, batch, plan): batch for batch in batches}
    for future in as_completed(futures):
        yield futures[future], future.result()


def _can_travel(plan: Plan) -> bool:
    try:
        pickle.dumps((plan.patterns, plan.extra))
    except (pickle.PicklingError, AttributeError, TypeError):
        return False  # block parsers that are no module-level functions stay in this process
    return True
