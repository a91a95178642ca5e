"""How a run is cut into work units, and what all of them must know beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from correlator.discovery import SourceFile
from correlator.envelopes.file_context import (
    JobContext,
    RankTags,
    collect_rank_tags,
    decide_rank_tags,
    detect_layers,
    file_clock,
    sample_lines,
)
from correlator.events import Pattern
from correlator.ingest.work import Limits, Unit
from correlator.path_claims import path_day_ns
from correlator.reading import iter_bytes
from correlator.timestamps import Clock, dated_stamps_ns

#: Own bytes of one work unit of a large file.
UNIT_BYTES = 32 << 20
# Bytes of first and last lines that are looked at one by one, in one file and in all files together; the first ones
# also are the sample from which a file's prefixes are judged.
_HEAD_BYTES, _HEAD_BUDGET = 16 << 10, 8 << 20
_TAIL_BYTES, _TAIL_BUDGET = 64 << 10, 32 << 20
_LEAST_BYTES = 2048
# Rows of frequent harmless lines, all units together, and how many kinds of them one file is thought to have.
_SPARSE_BUDGET, _SPARSE_SHARED_BUDGET, _SPARSE_KINDS = 6_000, 20_000, 6
_SPARSE_LEAST, _SPARSE_MOST = 3, 50
# Hits of one harmless literal at either edge of a window that are parsed, all units together and in one.
_HARMLESS_BUDGET, _HARMLESS_LEAST, _HARMLESS_MOST = 1_500, 3, 64
# Files from which the job's context is judged.
_SAMPLE_FILES = 64


@dataclass(frozen=True, slots=True)
class Plan:
    """What every worker needs beside its units. ``patterns`` None: those of the installed parsers."""

    job: JobContext
    limits: Limits
    patterns: tuple[Pattern, ...] | None
    extra: tuple[Pattern, ...]


def choose_limits(files: int, units: int) -> Limits:
    """How closely files are looked at, given how many there are."""
    return Limits(
        sparse=max(_SPARSE_LEAST, min(_SPARSE_MOST, _SPARSE_BUDGET // (_SPARSE_KINDS * units))),
        sparse_shared=max(_SPARSE_LEAST, min(_SPARSE_MOST, _SPARSE_SHARED_BUDGET // (_SPARSE_KINDS * units))),
        harmless=max(_HARMLESS_LEAST, min(_HARMLESS_MOST, _HARMLESS_BUDGET // units)),
        head_bytes=max(_LEAST_BYTES, min(_HEAD_BYTES, _HEAD_BUDGET // files)),
        tail_bytes=max(_LEAST_BYTES, min(_TAIL_BYTES, _TAIL_BUDGET // files)),
    )


def read_samples(file: SourceFile, size: int) -> tuple[bytes, bytes]:
    """First and last ``size`` bytes; a file that can only be streamed has twice as many first ones and no last ones."""
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
        return b"", b""  # the reader proper meets the same error and reports it


def is_sampled_whole(file: SourceFile, size: int) -> bool:
    """True when ``read_samples`` gives all of the file."""
    return not file.streamed and file.size <= 2 * size


def judge_job(files: Sequence[SourceFile], job: JobContext) -> JobContext:
    """What the files say together: the time around which they lie, and what ``[rankN]:`` means in them."""
    files = [file for file in files if file.form == "log"] or files
    step = max(1, len(files) // _SAMPLE_FILES)
    dated: list[int] = []
    tags = RankTags()
    for file in files[::step][:_SAMPLE_FILES]:
        head, tail = read_samples(file, _HEAD_BYTES)
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
    days = sorted(day for file in files if (day := path_day_ns(_stated_path(file))) is not None)
    if days:
        return replace(job, reference_ns=days[len(days) // 2])
    # One reference for all, so that files without a year do not fall into different ones.
    return replace(job, reference_ns=max(file.mtime_ns for file in files), reference_is_latest=True)


def _stated_path(file: SourceFile) -> str:
    """The file's name, behind that of the folder which was named as the place of the logs."""
    whole = file.path.as_posix()
    above = whole.removesuffix(f"/{file.name}") if file.spool is None else whole
    return f"{above.rpartition('/')[2]}/{file.name}" if above != whole else file.name


def plan_units(files: Sequence[SourceFile]) -> list[Unit]:
    """All units in the order of files and bytes. The cut depends on sizes alone, never on workers."""
    units: list[Unit] = []
    for position, file in enumerate(files):
        start = 0
        while file.form == "log" and not file.streamed and file.size - start >= 2 * UNIT_BYTES:
            units.append(Unit(len(units), position, file, start, start + UNIT_BYTES))
            start += UNIT_BYTES
        units.append(Unit(len(units), position, file, start, file.size))
    return units


def batch_units(units: Sequence[Unit]) -> list[list[Unit]]:
    """Units in batches of about UNIT_BYTES, heaviest first, so that the last one to end is small."""
    batches: list[list[Unit]] = [[]]
    size = 0
    for unit in units:
        if batches[-1] and size + unit.end - unit.start > UNIT_BYTES:
            batches.append([])
            size = 0
        batches[-1].append(unit)
        size += unit.end - unit.start
    return sorted(batches, key=lambda batch: -sum(unit.end - unit.start for unit in batch))
