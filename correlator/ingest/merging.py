"""What the units of one file gave, put together: line numbers, times, floods, writers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC

from correlator.discovery import SourceFile
from correlator.envelopes.peel import peel
from correlator.ingest.last_signs import MAX_WRITERS, find_last_lines, line_numbers
from correlator.ingest.rows import PROGRESS, Row, collapse
from correlator.ingest.windows import MAX_LINE
from correlator.ingest.work import UnitResult
from correlator.ingest.writers import Writer, WriterTrace, build_writer, writer_key
from correlator.path_claims import PathClaims
from correlator.repeated_hour import RepeatedHour


@dataclass(slots=True)
class FileSummary:
    """One file: bytes as stored, lines, the span of its stamps (UTC ns), and the emitters recognised in it.

    The kernel is one also where none of its lines is an event.
    """

    name: str
    size: int
    lines: int
    first_ns: int | None
    last_ns: int | None
    mtime_ns: int
    claims: PathClaims
    emitters: tuple[str, ...] = ()


def merge_file(
    file: SourceFile, results: Sequence[UnitResult], tail_bytes: int
) -> tuple[list[Row], list[Writer], FileSummary]:
    """Rows, writers and summary of one file from the results of its units, which come in the order of bytes."""
    rows: list[Row] = []
    traces: dict[str, WriterTrace] = {}
    lines = 0
    for result in results:
        for row in result.rows:
            row["line"] += lines
        for key, trace in result.writers.items():
            trace.last_line += lines
            if key in traces:
                traces[key].join(trace)
            else:
                traces[key] = trace
        rows += result.rows
        lines += result.lines
    rows.sort(key=lambda row: (row["byte_offset"], row["event"], row["_entry"]))
    rows = _inherit(_without_continuations(rows))
    _tell_repeated_hour(file, rows, results, traces)
    rows = collapse(rows)
    _find_silent(file, results, traces, tail_bytes)
    steps = {row["writer"]: row["step"] for row in rows if row.get("step") is not None and row["event"] in PROGRESS}
    writers = [build_writer(file, trace, None) for _, trace in sorted(traces.items())]
    for writer in writers:
        writer.last_step = steps.get(writer.key)
    emitters = {row["event"].partition(".")[0] for row in rows}
    if any(trace.kernel for trace in traces.values()):
        emitters.add("kernel")
    stamps = [value for r in results for value in (r.first_ns, r.last_ns) if value is not None]
    summary = FileSummary(
        name=file.name,
        size=file.size,
        lines=lines,
        first_ns=min(stamps, default=None),
        last_ns=max(stamps, default=None),
        mtime_ns=file.mtime_ns,
        claims=file.claims,
        emitters=tuple(sorted(emitters)),
    )
    return rows, writers, summary


def _without_continuations(rows: Iterable[Row]) -> list[Row]:
    """Drop what a unit found inside a block that began in the unit before it."""
    covers: dict[tuple[str, int], tuple[int, int]] = {}
    kept: list[Row] = []
    for row in rows:
        key = (row["writer"], row["_entry"])
        unit, last = covers.get(key, (row["_unit"], -1))
        if unit != row["_unit"] and row["byte_offset"] <= last:
            continue
        if row.get("_covers", -1) > last:
            covers[key] = (row["_unit"], row["_covers"])
        kept.append(row)
    return kept


def _tell_repeated_hour(
    file: SourceFile, rows: Iterable[Row], results: Sequence[UnitResult], traces: dict[str, WriterTrace]
) -> None:
    """Put rows and last signs of life of the hour that came twice, at the end of summer time, where they belong."""
    zone = results[0].context.clock.zone
    if zone is UTC:
        return
    hour = RepeatedHour(zone)
    for row in rows:
        if row.get("timestamp") is not None:
            row["timestamp"] = row["last_timestamp"] = hour.placed(row["writer"], row["timestamp"])
    last = {row["writer"]: row["byte_offset"] for row in rows}
    for trace in traces.values():
        writer = writer_key(file.name, trace.key)
        if trace.last_ns is not None and trace.last_stamp_offset >= last.get(writer, -1):
            trace.last_ns = hour.placed(writer, trace.last_ns)


def _inherit(rows: list[Row]) -> list[Row]:
    """Give rows without a time the last one that the same writer printed before, however far away."""
    last: dict[str, Row] = {}
    for row in rows:
        if row.get("timestamp") is not None:
            last[row["writer"]] = row
        elif row["timestamp_basis"] == "none" and (before := last.get(row["writer"])) is not None:
            row["timestamp"] = row["last_timestamp"] = before["timestamp"]
            row["timestamp_basis"] = "inherited"
            row["timestamp_resolution_ns"] = before["timestamp_resolution_ns"]
    return rows


def _find_silent(
    file: SourceFile, results: Sequence[UnitResult], traces: dict[str, WriterTrace], tail_bytes: int
) -> None:
    """Find the true last line of writers that are not among the last lines of a large shared file."""
    tail = file.size - tail_bytes
    labels = {key: trace.label for key, trace in traces.items() if trace.label and trace.last_offset < tail}
    if file.streamed or not labels or len(labels) > MAX_WRITERS:
        return
    known: dict[int, int] = {}
    position = lines = 0
    for result in results:
        known[position] = lines
        position, lines = position + result.bytes, lines + result.lines
    others = [trace.label for trace in traces.values() if trace.label]
    try:
        offsets = find_last_lines(file.path, tail, labels, others)
        later = {key: offset for key, offset in offsets.items() if offset > traces[key].last_offset}
        numbers = line_numbers(file.path, later.values(), known)
        with file.path.open("rb", buffering=0) as stream:
            for key, offset in later.items():
                stream.seek(offset)
                raw = stream.read(MAX_LINE).partition(b"\n")[0]
                p = peel(raw.decode("utf-8", "replace").rstrip("\r"), results[0].context)
                if p.key == key:
                    traces[key].heard(offset, numbers[offset], p)
                    if p.timestamp_ns is not None:
                        traces[key].timed(offset, p)
    except OSError:
        return  # the file went away after it was read; what is known stays
