"""The event table of a folder of logs.

``ingest`` finds the files, cuts them into work units, has the units read (here, or by any ``concurrent.futures``
executor) and merges what they gave. The result does not depend on the order of files or the number of workers.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from correlator.discovery import PathClaims, SkippedFile, SourceFile, discover
from correlator.envelopes import peel
from correlator.events import Parser, Pattern
from correlator.file_context import (
    JobContext,
    RankTags,
    collect_rank_tags,
    decide_rank_tags,
    detect_layers,
    file_clock,
    file_context,
    sample_lines,
)
from correlator.last_signs import MAX_WRITERS, find_last_lines, line_numbers
from correlator.matching import Matcher
from correlator.plugins import load_parsers
from correlator.reading import DamagedArchive, iter_bytes
from correlator.rows import Row, collapse, to_table
from correlator.timestamps import Clock, dated_stamps_ns, parse_zone
from correlator.unit import CLAIMS, Unit, UnitReader, UnitResult, WriterTrace
from correlator.windows import MAX_LINE, plain_windows, streamed_windows

#: Own bytes of one work unit of a large file.
UNIT_BYTES = 32 << 20
#: Processes are worth their start-up from here on.
PARALLEL_FROM_BYTES = 200 << 20
#: Last lines of all files together that are looked at one by one.
TAIL_BUDGET = 32 << 20
TAIL_BYTES = 64 << 10
#: The same for first lines, which also are the sample from which a file's prefixes are judged.
HEAD_BUDGET = 8 << 20
HEAD_BYTES = 16 << 10
#: Rows of frequent harmless lines, all units together, and how many kinds of them one file may have.
SPARSE_BUDGET = 20_000
_SPARSE_KINDS = 6
#: Files from which the job's context is judged.
SAMPLE_FILES = 64


@dataclass(slots=True)
class Writer:
    """One process as one file shows it: who it says it is, its first and last sign of life.

    Times are UTC nanoseconds; ``last_basis`` and ``last_resolution_ns`` belong to ``last_ns``. ``last_line`` counts from
    1. ``last_text`` is the last line that is not blank, without its envelopes. ``last_step`` comes from progress lines.
    """

    key: str
    file: str
    node: str | None
    node_basis: str | None
    rank: int | None
    rank_basis: str | None
    local_rank: int | None
    task: int | None
    pod: str | None
    attempt: int | None
    pid: int | None
    stream: str | None
    first_ns: int | None
    last_ns: int | None
    last_basis: str | None
    last_resolution_ns: int | None
    last_line: int
    last_byte_offset: int
    last_text: str
    last_step: int | None = None


@dataclass(slots=True)
class FileSummary:
    """One file: bytes as stored, lines, the span of its stamps, and the emitters that were recognised in it."""

    name: str
    size: int
    lines: int
    first_ns: int | None
    last_ns: int | None
    mtime_ns: int
    claims: PathClaims
    emitters: tuple[str, ...] = ()


@dataclass(slots=True)
class Ingested:
    """All that was read: the event table, the writers, the files, and what could not be read (completely)."""

    events: pa.Table
    writers: list[Writer]
    files: list[FileSummary]
    skipped: list[SkippedFile]
    warnings: list[SkippedFile]
    bytes: int
    lines: int
    sources: tuple[SourceFile, ...] = ()


@dataclass(frozen=True, slots=True)
class _Plan:
    """What every worker needs beside its units."""

    job: JobContext
    sparse_quota: int
    head_bytes: int
    tail_bytes: int
    patterns: tuple[Pattern, ...] | None
    extra: tuple[Pattern, ...]


def ingest(
    paths: Sequence[Path] | Path,
    *,
    timezone: str | None = None,
    patterns: Sequence[Pattern] | None = None,
    extra_patterns: Sequence[Pattern] = (),
    workers: int | None = None,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Ingested:
    """Read all logs below ``paths``.

    ``timezone`` is for stamps that state none (UTC by default). ``patterns`` replaces those of the installed parsers;
    ``extra_patterns`` are tried on lines that no other pattern took. ``workers`` processes (by default as many as the
    machine has, and one below 200 MB) or the given ``executor`` read the units. ``progress`` gets (done, all) bytes.

    Raises UsageError for a path or zone that does not exist, NothingReadable when there is no log.
    """
    zone = parse_zone(timezone)
    found = discover([paths] if isinstance(paths, Path) else [Path(path) for path in paths])
    job = _job_context(found.files, JobContext(zone=zone))
    units = _plan_units(found.files)
    plan = _Plan(
        job=job,
        sparse_quota=max(3, min(50, SPARSE_BUDGET // (_SPARSE_KINDS * len(units)))),
        head_bytes=max(2048, min(HEAD_BYTES, HEAD_BUDGET // len(found.files))),
        tail_bytes=max(2048, min(TAIL_BYTES, TAIL_BUDGET // len(found.files))),
        patterns=None if patterns is None else tuple(patterns),
        extra=tuple(extra_patterns),
    )
    total = sum(file.size for file in found.files)
    results = _run(units, plan, total, workers, executor, progress)
    return _merge(found.files, list(found.skipped), results, total, plan.tail_bytes)


# --- planning ------------------------------------------------------------------------------------------------------------


def _samples(file: SourceFile, size: int) -> tuple[bytes, bytes]:
    """First and last bytes; a streamed file has only first ones here."""
    try:
        if file.streamed:
            head = b""
            for piece in iter_bytes(file.path, file.compression, damage_is_error=False):
                head += piece
                if len(head) >= 2 * size:
                    break
            return head[: 2 * size], b""
        with file.path.open("rb", buffering=0) as stream:
            head = stream.read(size)
            if file.size <= size:
                return head, b""
            stream.seek(max(size, file.size - size))
            return head, stream.read(size)
    except OSError:
        return b"", b""


def _job_context(files: Sequence[SourceFile], job: JobContext) -> JobContext:
    step = max(1, len(files) // SAMPLE_FILES)
    dated: list[int] = []
    tags = RankTags()
    for file in files[::step][:SAMPLE_FILES]:
        head, tail = _samples(file, HEAD_BYTES)
        clock = Clock(zone=job.zone)
        dated += dated_stamps_ns(head, clock, 10) + dated_stamps_ns(tail, clock, 10)
        if b"[rank" in head:
            first, last = sample_lines(head, tail)
            layers = detect_layers(first, last, file_clock(job, head, tail, file.mtime_ns))
            collect_rank_tags(first, layers, file.name, tags)
    tee_rank, tee_space = decide_rank_tags(tags)
    job = replace(job, tee_rank=tee_rank, tee_space=tee_space)
    if dated:
        dated.sort()
        return replace(job, reference_ns=dated[len(dated) // 2])
    latest = max((file.mtime_ns for file in files), default=None)
    return replace(job, reference_ns=latest, reference_is_latest=True)


def _plan_units(files: Sequence[SourceFile]) -> list[Unit]:
    units: list[Unit] = []
    for file in files:
        start = 0
        if not file.streamed:
            while file.size - start >= 2 * UNIT_BYTES:
                units.append(Unit(len(units), file, start, start + UNIT_BYTES))
                start += UNIT_BYTES
        units.append(Unit(len(units), file, start, file.size))
    return units


def _batches(units: Sequence[Unit]) -> list[list[Unit]]:
    """Units in batches of about UNIT_BYTES, heaviest first, so that the last to end is a small one."""
    batches: list[list[Unit]] = [[]]
    size = 0
    for unit in units:
        if batches[-1] and size + unit.end - unit.start > UNIT_BYTES:
            batches.append([])
            size = 0
        batches[-1].append(unit)
        size += unit.end - unit.start
    return sorted(batches, key=lambda batch: -sum(unit.end - unit.start for unit in batch))


# --- work ----------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def _matcher(patterns: tuple[Pattern, ...] | None, extra: tuple[Pattern, ...], _ids: tuple[int, ...]) -> Matcher:
    parsers = load_parsers() if patterns is None else (Parser("given", patterns),)
    return Matcher(parsers, extra)


class _ById(tuple):  # type: ignore[type-arg]
    """A tuple hashed by the identity of its items: patterns hold dictionaries."""

    def __hash__(self) -> int:
        return hash(tuple(map(id, self)))


def _plan_matcher(plan: _Plan) -> Matcher:
    patterns = None if plan.patterns is None else _ById(plan.patterns)
    return _matcher(patterns, _ById(plan.extra), ())


def read_units(units: Sequence[Unit], plan: _Plan) -> list[UnitResult]:
    """The results of some units; runs in a worker process or in this one."""
    matcher = _plan_matcher(plan)
    return [_read_unit(unit, matcher, plan) for unit in units]


def _read_unit(unit: Unit, matcher: Matcher, plan: _Plan) -> UnitResult:
    file = unit.file
    head, tail = _samples(file, plan.head_bytes)
    context = file_context(
        plan.job,
        head,
        tail,
        file.mtime_ns,
        single_process=file.claims.single_process,
        complete=not file.streamed and file.size <= 2 * plan.head_bytes,
    )
    reader = UnitReader(
        unit,
        matcher,
        context,
        sparse_quota=plan.sparse_quota,
        head_bytes=plan.head_bytes,
        tail_bytes=plan.tail_bytes,
    )
    try:
        if file.streamed:
            return reader.read(streamed_windows(file))
        with file.path.open("rb", buffering=0) as stream:
            return reader.read(plain_windows(stream, unit.start, unit.end, file.size))
    except DamagedArchive as error:
        reader.result.damage = f"damaged archive, read up to byte {reader.result.bytes} of its content: {error}"
    except OSError as error:
        reader.result.damage = f"could not be read to its end: {error.strerror or error}"
    return reader.result


def _run(
    units: Sequence[Unit],
    plan: _Plan,
    total: int,
    workers: int | None,
    executor: Executor | None,
    progress: Callable[[int, int], None] | None,
) -> list[UnitResult]:
    batches = _batches(units)
    if executor is None:
        count = workers if workers is not None else (os.cpu_count() or 1 if total >= PARALLEL_FROM_BYTES else 1)
        count = min(count, len(batches))
        if count > 1 and _can_travel(plan):
            # forkserver and spawn, never fork: polars and pyarrow may have threads already.
            method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
            with ProcessPoolExecutor(count, mp_context=multiprocessing.get_context(method)) as pool:
                return _collect(pool, batches, plan, total, progress)
        results: list[UnitResult] = []
        done = 0
        for batch in batches:
            results += read_units(batch, plan)
            done += sum(unit.end - unit.start for unit in batch)
            if progress:
                progress(done, total)
        return results
    return _collect(executor, batches, plan, total, progress)


def _can_travel(plan: _Plan) -> bool:
    try:
        pickle.dumps((plan.patterns, plan.extra))
    except (pickle.PicklingError, AttributeError, TypeError):
        return False  # block parsers that are no module-level functions stay in this process
    return True


def _collect(
    executor: Executor,
    batches: Sequence[list[Unit]],
    plan: _Plan,
    total: int,
    progress: Callable[[int, int], None] | None,
) -> list[UnitResult]:
    futures = {executor.submit(read_units, batch, plan): batch for batch in batches}
    results: list[UnitResult] = []
    done = 0
    for future in as_completed(futures):
        results += future.result()
        done += sum(unit.end - unit.start for unit in futures[future])
        if progress:
            progress(done, total)
    return results


# --- merging -------------------------------------------------------------------------------------------------------------


def _merge(
    files: Sequence[SourceFile], skipped: list[SkippedFile], results: Iterable[UnitResult], total: int, tail_bytes: int
) -> Ingested:
    by_file: dict[str, list[UnitResult]] = defaultdict(list)
    for result in sorted(results, key=lambda r: r.index):
        by_file[result.file].append(result)
    rows: list[Row] = []
    writers: list[Writer] = []
    summaries: list[FileSummary] = []
    warnings: list[SkippedFile] = []
    for file in files:
        file_rows, traces, summary = _merge_file(file, by_file[file.name], warnings)
        _find_silent(file, by_file[file.name], traces, tail_bytes)
        rows += file_rows
        summaries.append(summary)
        steps = _last_steps(file_rows)
        writers += [_writer(file, trace, steps) for _, trace in sorted(traces.items())]
    lines = sum(summary.lines for summary in summaries)
    return Ingested(to_table(rows), writers, summaries, skipped, warnings, total, lines, tuple(files))


def _merge_file(
    file: SourceFile, results: Sequence[UnitResult], warnings: list[SkippedFile]
) -> tuple[list[Row], dict[str, WriterTrace], FileSummary]:
    rows: list[Row] = []
    traces: dict[str, WriterTrace] = {}
    lines = 0
    for result in results:
        for row in result.rows:
            row["line"] += lines
        for key, trace in result.writers.items():
            trace.last_line += lines
            traces[key] = _join(traces[key], trace) if key in traces else trace
        rows += result.rows
        lines += result.lines
        if result.damage:
            warnings.append(SkippedFile(file.name, result.damage))
    rows.sort(key=lambda row: (row["byte_offset"], row["event"], row["_entry"]))
    rows = collapse(_inherit(_without_continuations(rows)))
    stamps = [value for r in results for value in (r.first_ns, r.last_ns) if value is not None]
    emitters = tuple(sorted({row["event"].partition(".")[0] for row in rows}))
    summary = FileSummary(
        file.name, file.size, lines, min(stamps, default=None), max(stamps, default=None), file.mtime_ns, file.claims, emitters
    )
    return rows, traces, summary


def _without_continuations(rows: list[Row]) -> list[Row]:
    """Drop what a unit found inside a block that began in the unit before it."""
    covers: dict[tuple[str, int], tuple[int, int]] = {}
    kept: list[Row] = []
    for row in rows:
        key = (row["writer"], row["_entry"])
        unit, last = covers.get(key, (row["_unit"], -1))
        if unit != row["_unit"] and row["byte_offset"] <= last:
            continue
        if "_covers" in row and row["_covers"] > last:
            covers[key] = (row["_unit"], row["_covers"])
        kept.append(row)
    return kept


def _inherit(rows: list[Row]) -> list[Row]:
    """Give rows without a time the last one that the same writer printed before, however far away."""
    last: dict[str, Row] = {}
    for row in rows:
        if row.get("timestamp") is None and row["timestamp_basis"] == "none":
            before = last.get(row["writer"])
            if before is not None:
                row["timestamp"] = row["last_timestamp"] = before["timestamp"]
                row["timestamp_basis"] = "inherited"
                row["timestamp_resolution_ns"] = before["timestamp_resolution_ns"]
        elif row.get("timestamp") is not None:
            last[row["writer"]] = row
    return rows


def _join(first: WriterTrace, second: WriterTrace) -> WriterTrace:
    first.conflicts |= second.conflicts
    for name in CLAIMS:
        if name in first.conflicts:
            setattr(first, name, None)
        first.claim(name, getattr(second, name))
    first.streams |= second.streams
    if second.first_ns is not None:
        first.first_ns = second.first_ns if first.first_ns is None else min(first.first_ns, second.first_ns)
    if second.last_stamp_offset > first.last_stamp_offset:
        first.last_stamp_offset = second.last_stamp_offset
        first.last_ns, first.last_basis, first.last_resolution_ns = second.last_ns, second.last_basis, second.last_resolution_ns
    if second.last_offset > first.last_offset:
        first.last_offset, first.last_line, first.last_text = second.last_offset, second.last_line, second.last_text
    return first


def _find_silent(
    file: SourceFile, results: Sequence[UnitResult], traces: dict[str, WriterTrace], tail_bytes: int
) -> None:
    """Find the true last line of writers that do not speak among the last lines of a large shared file."""
    tail = file.size - tail_bytes
    labels = {key: trace.label for key, trace in traces.items() if trace.label and trace.last_offset < tail}
    if file.streamed or not labels or len(labels) > MAX_WRITERS:
        return
    known: dict[int, int] = {}
    lines = position = 0
    for result in results:
        known[position] = lines
        position, lines = position + result.bytes, lines + result.lines
    every = [trace.label for trace in traces.values() if trace.label]
    try:
        offsets = find_last_lines(file.path, tail, labels, every)
        later = {key: offset for key, offset in offsets.items() if offset > traces[key].last_offset}
        numbers = line_numbers(file.path, later.values(), known)
        with file.path.open("rb", buffering=0) as stream:
            for key, offset in later.items():
                stream.seek(offset)
                raw = stream.read(MAX_LINE).partition(b"\n")[0]
                p = peel(raw.decode("utf-8", "replace").rstrip("\r"), results[0].context)
                if p.key != key:
                    continue
                trace = traces[key]
                trace.last_offset, trace.last_line, trace.last_text = offset, numbers[offset], p.text[:1000]
                if p.timestamp_ns is not None:
                    trace.last_ns, trace.last_basis = p.timestamp_ns, p.timestamp_basis
                    trace.last_resolution_ns = p.resolution_ns
    except OSError:
        return  # the file went away after it was read; what is known stays


def _last_steps(rows: Iterable[Row]) -> dict[str, int]:
    steps: dict[str, int] = {}
    for row in rows:
        if row.get("step") is not None and row["event"] in ("megatron.iteration", "trainer.progress"):
            steps[row["writer"]] = row["step"]
    return steps


def _writer(file: SourceFile, trace: WriterTrace, steps: dict[str, int]) -> Writer:
    claims = file.claims
    key = f"{file.name}#{trace.key}" if trace.key else file.name
    rank = claims.rank if trace.rank is None else trace.rank
    node = claims.node if trace.node is None else trace.node
    return Writer(
        key=key,
        file=file.name,
        node=node,
        node_basis="envelope" if trace.node is not None else "path" if node is not None else None,
        rank=rank,
        rank_basis="envelope" if trace.rank is not None else "path" if rank is not None else None,
        local_rank=trace.local_rank if trace.local_rank is not None else claims.local_rank,
        task=trace.task if trace.task is not None else claims.task,
        pod=trace.pod,
        attempt=claims.attempt,
        pid=trace.pid or claims.pid,
        stream=next(iter(trace.streams)) if len(trace.streams) == 1 else claims.stream,
        first_ns=trace.first_ns,
        last_ns=trace.last_ns,
        last_basis=trace.last_basis,
        last_resolution_ns=trace.last_resolution_ns,
        last_line=trace.last_line,
        last_byte_offset=max(trace.last_offset, 0),
        last_text=trace.last_text,
        last_step=steps.get(key),
    )
