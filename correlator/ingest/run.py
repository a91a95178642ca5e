"""The event table of a folder of logs.

``ingest`` finds the files, cuts them into work units, has the units read (here, or by any ``concurrent.futures``
executor) and merges what they gave. The result does not depend on the order of files or the number of workers.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from correlator.discovery import SkippedFile, SourceFile, discover
from correlator.envelopes.file_context import JobContext, file_context
from correlator.events import Parser, Pattern
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
from correlator.ingest.unit import UnitReader
from correlator.ingest.windows import plain_windows, streamed_windows
from correlator.ingest.work import Unit, UnitResult
from correlator.ingest.writers import Writer
from correlator.plugins import load_parsers
from correlator.reading import DamagedArchive
from correlator.timestamps import parse_zone

#: Processes are worth their start-up from here on.
PARALLEL_FROM_BYTES = 200 << 20

#: Called with (bytes done, bytes in all).
Progress = Callable[[int, int], None]


@dataclass(slots=True)
class Ingested:
    """All that was read.

    ``events`` has ``correlator.events.SCHEMA``, by file and place in it; ``time`` is null, ``rank`` and ``node`` are
    what lines, envelopes and paths claim. ``skipped``: files that are no logs or could not be opened; ``warnings``:
    files that could not be read to their end. ``bytes`` as stored.
    """

    events: pa.Table
    writers: list[Writer]
    files: list[FileSummary]
    skipped: list[SkippedFile]
    warnings: list[SkippedFile]
    bytes: int
    lines: int
    sources: tuple[SourceFile, ...] = ()


def ingest(
    paths: Sequence[Path] | Path,
    *,
    timezone: str | None = None,
    patterns: Sequence[Pattern] | None = None,
    extra_patterns: Sequence[Pattern] = (),
    workers: int | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Ingested:
    """Read all logs below ``paths``.

    ``timezone`` is for stamps that state none (UTC by default). ``patterns`` replaces those of the installed parsers;
    ``extra_patterns`` are tried on lines that no other pattern took. ``workers`` processes (by default one below
    200 MB, else one a processor) or the given ``executor`` read the units.

    Raises UsageError for a path or zone that does not exist, NothingReadable when there is no log.
    """
    job = JobContext(zone=parse_zone(timezone))
    found = discover([paths] if isinstance(paths, Path) else [Path(path) for path in paths])
    units = plan_units(found.files)
    plan = Plan(
        job=judge_job(found.files, job),
        limits=choose_limits(len(found.files), len(units)),
        patterns=None if patterns is None else tuple(patterns),
        extra=tuple(extra_patterns),
    )
    total = sum(file.size for file in found.files)
    by_file: dict[str, list[UnitResult]] = defaultdict(list)
    done = 0
    for batch, results in _run(batch_units(units), plan, total, workers, executor):
        for result in results:
            by_file[result.file].append(result)
        done += sum(unit.end - unit.start for unit in batch)
        if progress:
            progress(done, total)
    rows: list[Row] = []
    writers: list[Writer] = []
    files: list[FileSummary] = []
    warnings: list[SkippedFile] = []
    for file in found.files:
        results = sorted(by_file[file.name], key=lambda result: result.index)
        file_rows, file_writers, summary = merge_file(file, results, plan.limits.tail_bytes)
        rows += file_rows
        writers += file_writers
        files.append(summary)
        warnings += [SkippedFile(file.name, result.damage) for result in results if result.damage]
    lines = sum(summary.lines for summary in files)
    return Ingested(to_table(rows), writers, files, list(found.skipped), warnings, total, lines, found.files)


def read_units(units: Sequence[Unit], plan: Plan) -> list[UnitResult]:
    """The results of some units; runs in a worker process or in this one."""
    matcher = _matcher(plan)
    return [_read_unit(unit, matcher, plan) for unit in units]


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
            return reader.read(plain_windows(stream, unit.start, unit.end, file.size))
    except DamagedArchive as error:
        reader.result.damage = f"damaged archive, read up to byte {reader.result.bytes} of its content: {error}"
    except OSError as error:
        reader.result.damage = f"could not be read to its end: {error.strerror or error}"
    return reader.result


def _run(
    batches: Sequence[list[Unit]], plan: Plan, total: int, workers: int | None, executor: Executor | None
) -> Iterator[tuple[list[Unit], list[UnitResult]]]:
    """Batches with their results, as they come."""
    if executor is not None:
        yield from _submit(executor, batches, plan)
        return
    if workers is None:
        workers = (os.cpu_count() or 1) if total >= PARALLEL_FROM_BYTES else 1
    workers = min(workers, len(batches))
    if workers <= 1 or not _can_travel(plan):
        for batch in batches:
            yield batch, read_units(batch, plan)
        return
    # forkserver and spawn, never fork: polars and pyarrow may have threads already.
    method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context(method)) as pool:
        yield from _submit(pool, batches, plan)


def _submit(
    executor: Executor, batches: Sequence[list[Unit]], plan: Plan
) -> Iterator[tuple[list[Unit], list[UnitResult]]]:
    futures = {executor.submit(read_units, batch, plan): batch for batch in batches}
    for future in as_completed(futures):
        yield futures[future], future.result()


def _can_travel(plan: Plan) -> bool:
    try:
        pickle.dumps((plan.patterns, plan.extra))
    except (pickle.PicklingError, AttributeError, TypeError):
        return False  # block parsers that are no module-level functions stay in this process
    return True
