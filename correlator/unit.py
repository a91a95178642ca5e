"""One work unit: a byte range of one file, read window by window into rows and writers.

Stage 1 finds literals in the bytes; stage 2 looks at the lines around them only: peels the envelopes, tries the
patterns, places the line in time. Beside the patterns, the first and last lines of a file are looked at one by one, to
know who wrote it and what was said last.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from correlator.blocks import BlockLines, LineIndex
from correlator.discovery import SourceFile
from correlator.envelopes import FileContext, Peeled, peel
from correlator.events import Found, Severity
from correlator.last_signs import label_of
from correlator.matching import Entry, Matcher
from correlator.rows import Row, fill
from correlator.scan import Hit, build_engine
from correlator.windows import MAX_LINE, Window

#: Look-back for the time of a line without one.
LOOK_BACK_LINES = 50
_LOOK_BACK_OTHERS = 400
#: How many hits of one literal at either edge of a window are parsed; those between are only counted. In a file of one
#: writer: harmless ones, others. In a file of many writers each may have its say.
FLOOD_INFO = 64
FLOOD = 1000
FLOOD_SHARED = 16_000
#: Rows of event log.error kept for one writer, half of them the first, half the last.
ERROR_ROWS = 40

_MAX_PARTS = 8
_CLOCK = re.compile(rb"\d:\d\d:\d\d")
_SPARSE_BLOCK = 32 << 10


@dataclass(slots=True)
class WriterTrace:
    """First and last sign of life of one writer in one unit. Lines count from the unit's first LF.

    ``label``: the raw bytes that stand in front of each of its lines, where there are such.
    """

    key: str
    node: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    task: int | None = None
    pod: str | None = None
    pid: int | None = None
    streams: set[str] = field(default_factory=set)
    conflicts: set[str] = field(default_factory=set)
    first_ns: int | None = None
    last_ns: int | None = None
    last_basis: str | None = None
    last_resolution_ns: int | None = None
    last_stamp_offset: int = -1
    label: bytes | None = None
    last_offset: int = -1
    last_line: int = 0
    last_text: str = ""

    def claim(self, name: str, value: object) -> None:
        """Take what a line says about its writer; lines that contradict each other leave the field empty."""
        if value is None or name in self.conflicts:
            return
        known = getattr(self, name)
        if known is not None and known != value:
            self.conflicts.add(name)
            value = None
        setattr(self, name, value)


#: Fields of a WriterTrace that its lines state one by one.
CLAIMS = ("node", "rank", "local_rank", "task", "pod", "pid")


@dataclass(slots=True)
class Unit:
    """A byte range of one file; ``index`` orders the units of a run."""

    index: int
    file: SourceFile
    start: int
    end: int


@dataclass(slots=True)
class UnitResult:
    """What a unit gave. ``lines``: LF bytes in its own range, by which later units' line numbers grow."""

    index: int
    file: str
    context: FileContext
    rows: list[Row] = field(default_factory=list)
    writers: dict[str, WriterTrace] = field(default_factory=dict)
    lines: int = 0
    bytes: int = 0
    first_ns: int | None = None
    last_ns: int | None = None
    damage: str | None = None


# Generic words that make a line near a file's end worth a row although no pattern knows it.
_ERROR_WORDS = (
    b"error", b"exception", b"fatal", b"failed", b"failure", b"abort", b"killed", b"cannot", b"denied", b"not found", b"err!",
    b"traceback", b"refused", b"timed out", b"panic", b"segmentation fault", b"core dumped",
)  # fmt: skip
_SEVERE = re.compile(r"\b(?:fatal|abort(?:ed|ing)?|killed|panic|segmentation fault|core dumped)\b", re.I)
_ERRONEOUS = re.compile(
    r"(?<![\w/.-])(?:\w*Error|\w*Exception|errors?|exception|failed|failure|traceback|refused|timed out|cannot|denied|not found)(?![\w/-])"
    r"|ERR!",
    re.I,
)
# Words of error in lines that report none, or name a setting or a metric.
_HARMLESS = re.compile(
    r"error_file|\b(?:0|no|zero|without) (?:errors?|failures?|failed)\b|\berrors?[\"']?\s*[:=|]\s*(?:[\"']?(?:none|null|false|<n/a>|-?[\d.]+)|$)"
    r"|error[ _](?:rate|margin|bars?)\b|\.{6,}|mean (?:squared|absolute) error|\b\w*error\w*\s*=|%\|",
    re.I,
)


def error_severity(text: str) -> Severity | None:
    """How bad a line sounds by its words alone; None when it does not speak of an error."""
    if _HARMLESS.search(text):
        return None
    if _SEVERE.search(text):
        return "fatal"
    return "error" if _ERRONEOUS.search(text) else None


class UnitReader:
    """Reads the windows of one unit."""

    def __init__(
        self, unit: Unit, matcher: Matcher, context: FileContext, *, sparse_quota: int, head_bytes: int, tail_bytes: int
    ) -> None:
        self.file = unit.file
        self.unit = unit
        self.matcher = matcher
        self.context = context
        self.sparse_quota = sparse_quota
        self.head_bytes = head_bytes
        self.tail_bytes = tail_bytes
        self.dense, self.sparse = matcher.engines()
        self._dense_lengths = [len(literal) for literal in matcher.dense_literals]
        self.result = UnitResult(unit.index, unit.file.name, context)
        self.rows = self.result.rows
        self._covered: dict[int, set[int]] = defaultdict(set)  # entry -> file offsets of lines its blocks used
        self._taken: set[int] = set()  # file offsets of lines that some pattern took
        self._base_line = 0  # LFs in the unit before the window's first own byte

    # --- windows -----------------------------------------------------------------------------------------------------

    def read(self, windows: Iterable[Window]) -> UnitResult:
        """All windows of the unit, in file order."""
        for window in windows:
            self._read_window(window)
        return self.result

    def _read_window(self, window: Window) -> None:
        self._window = window
        self._peeled: dict[int, Peeled] = {}
        self._index = LineIndex(window, self._peel, self.context.several)
        self._inherited: dict[tuple[int, str], Peeled | None] = {}
        self._asked: tuple[int, Peeled | None] = (window.size, None)
        self._last_seen: dict[str, tuple[int, Peeled]] = {}
        self._last_timed: dict[str, tuple[int, Peeled]] = {}
        self._spans: dict[str, tuple[int, int]] = {}
        self._own_newlines = window.newlines_before(window.start) if window.size else 0
        if self.unit.start == 0 and window.base + window.start == 0:
            self._read_head()
        self._flooded: list[tuple[int, list[int]]] = []
        first_row = len(self.rows)
        for start, end, entries in self._candidates():
            self._try_entries(start, end, entries)
        self._count_floods(first_row)
        is_tail = window.at_end and window.base + window.end >= window.base + window.size
        if is_tail:
            self._read_tail()
        self._note_writers()
        newlines = (window.newlines_before(window.end) - self._own_newlines) if window.size else 0
        if is_tail and window.end > window.start and window.data[window.end - 1] != 10:
            newlines += 1  # a torn last line counts as a line
        self._base_line += newlines
        self.result.lines += newlines
        self.result.bytes += window.end - window.start
        horizon = window.base + window.end - MAX_LINE
        self._taken = {offset for offset in self._taken if offset >= horizon}
        for entry in self._covered:
            self._covered[entry] = {offset for offset in self._covered[entry] if offset >= horizon}

    def _line_number(self, start: int) -> int:
        return self._base_line + self._window.newlines_before(start) - self._own_newlines + 1

    # --- stage 1 -----------------------------------------------------------------------------------------------------

    def _candidates(self) -> Iterable[tuple[int, int, list[Entry]]]:
        """Bounds of own lines with literals in them, in order, with the patterns to try."""
        window = self._window
        stop = min(window.size, window.end + MAX_LINE)
        lengths = self._dense_lengths
        dense = self._without_floods([(to - lengths[n], n) for to, n in self.dense.scan(window.data, window.start, stop)])
        sparse = [(to - len(self.matcher.sparse_literals[n]), -1 - n) for to, n in self._sparse_hits(stop)]
        hits = sorted(dense + sparse) if sparse else sorted(dense)
        line_start, line_end = -1, -1
        found: list[int] = []
        for pos, number in hits:
            if line_start <= pos < line_end:
                found.append(number)
                continue
            if found:
                yield line_start, line_end, self._entries(found)
                found = []
            line_start, line_end = window.line_at(pos)
            if window.start <= line_start < window.end:
                found.append(number)
        if found:
            yield line_start, line_end, self._entries(found)

    def _entries(self, numbers: list[int]) -> list[Entry]:
        distinct = set(numbers)
        return self.matcher.candidates((n for n in distinct if n >= 0), (-1 - n for n in distinct if n < 0))

    def _sparse_hits(self, stop: int) -> list[Hit]:
        """The first and last few occurrences of frequent literals: forwards until enough, then backwards."""
        window, enough = self._window, 8 * self.sparse_quota
        overlap = max((len(literal) for literal in self.matcher.sparse_literals), default=1) - 1
        first: list[Hit] = []
        position = window.start
        while position < stop and len(first) < enough:
            block_end = min(stop, position + _SPARSE_BLOCK)
            scanned = self.sparse.scan(window.data, max(window.start, position - overlap), block_end)
            first += [hit for hit in scanned if hit[0] > position]
            position = block_end
        last: list[Hit] = []
        back = stop
        while back > position and len(last) < enough:
            block_start = max(position, back - _SPARSE_BLOCK)
            scanned = self.sparse.scan(window.data, max(window.start, block_start - overlap), back)
            last = [hit for hit in scanned if hit[0] > block_start] + last
            back = block_start
        return self._edges(first + last)

    def _edges(self, hits: list[Hit]) -> list[Hit]:
        """Of every sparse pattern the first and the last hits."""
        quota = self.sparse_quota
        by_pattern: dict[int, list[Hit]] = defaultdict(list)
        for hit in hits:
            by_pattern[self.matcher.sparse_entries[hit[1]][0].number].append(hit)
        chosen: list[Hit] = []
        for found in by_pattern.values():
            chosen += found if len(found) <= 2 * quota else found[:quota] + found[-quota:]
        return chosen

    def _without_floods(self, hits: list[Hit]) -> list[Hit]:
        """Hits without the middle of a flood: what a literal repeats thousands of times is counted, not parsed."""
        if len(hits) <= 2 * FLOOD_INFO:
            return hits
        by_literal: dict[int, list[int]] = defaultdict(list)
        for position, number in hits:
            by_literal[number].append(position)
        gaps: dict[int, tuple[int, int]] = {}
        for number, positions in by_literal.items():
            entries = self.matcher.dense_entries[number]
            if self.context.several:
                keep = FLOOD_SHARED
            else:
                keep = FLOOD_INFO if all(entry.pattern.severity == "info" for entry in entries) else FLOOD
            if len(positions) > 2 * keep + 1:
                gaps[number] = positions[keep], positions[-keep]
                self._flooded.append((number, positions[keep:-keep]))
        if not gaps:
            return hits
        nowhere = (0, 0)
        return [hit for hit in hits if not gaps.get(hit[1], nowhere)[0] <= hit[0] < gaps.get(hit[1], nowhere)[1]]

    def _count_floods(self, first_row: int) -> None:
        """Add the lines left out by ``_without_floods`` to the count of the row before them."""
        for number, positions in self._flooded:
            lines = self._window.count_lines(positions)
            for entry in self.matcher.dense_entries[number]:
                before = self._window.base + positions[0]
                rows = [r for r in self.rows[first_row:] if r["_entry"] == entry.number and r["byte_offset"] < before]
                if rows:
                    rows[-1]["count"] += lines
                    break

    # --- lines -------------------------------------------------------------------------------------------------------

    def _peel(self, start: int, end: int) -> Peeled:
        p = self._peeled.get(start)
        if p is not None:
            return p
        window = self._window
        p = peel(window.text(start, end), self.context)
        if self.context.several and start > 0 and window.data[start - 1] == 13 and not p.identity:
            # Behind a carriage return: the labels stand at the start of the physical line only.
            origin = window.physical_start(start)
            if origin < start:
                outer = self._peel(origin, window.line_end(origin))
                p = replace(outer, text=p.text, severity=p.severity, logger=p.logger) if p.timestamp_ns is None else replace(
                    p, identity=outer.identity, node=outer.node, rank=outer.rank, rank_basis=outer.rank_basis,
                    local_rank=outer.local_rank, task=outer.task, pod=outer.pod, stream=outer.stream,
                )  # fmt: skip
        if p.partial:
            self._join_parts(p, end)
        self._peeled[start] = p
        return p

    def _join_parts(self, p: Peeled, end: int) -> None:
        """Complete a line that the collector cut (CRI tag P, docker's 16 KiB) with its following parts."""
        window = self._window
        start = window.next_start(end)
        for _ in range(_MAX_PARTS):
            if start is None:
                break
            end = window.line_end(start)
            part = peel(window.text(start, end), self.context)
            if (part.key, part.stream) == (p.key, p.stream):
                p.text += part.text
                if not part.partial:
                    break
            start = window.next_start(end)

    def _timed(self, start: int, p: Peeled) -> Peeled | None:
        """The line itself when it has a time, else the last timed one before it of the same writer."""
        if p.timestamp_ns is not None or p.boot_ns is not None:
            return p
        window, key = self._window, p.key
        memo = (start, key)
        if memo in self._inherited:
            return self._inherited[memo]
        if not self.context.several:
            # Nothing like a time of day since the last look-back: the same answer.
            asked, answer = self._asked
            if asked < start <= asked + MAX_LINE and not _CLOCK.search(window.data, asked, start):
                self._asked = start, answer
                self._inherited[memo] = answer
                return answer
        same = others = 0
        found: Peeled | None = None
        line = window.previous(start)
        while line is not None and same < LOOK_BACK_LINES and others < _LOOK_BACK_OTHERS:
            if (line[0], key) in self._inherited:
                found = self._inherited[line[0], key]
                break
            before = self._peel(*line)
            if not self.context.several or before.key == key:
                same += 1
                if before.timestamp_ns is not None:
                    found = before
                    break
            others += 1
            line = window.previous(line[0])
        self._inherited[memo] = found
        self._asked = start, found
        return found

    # --- stage 2 -----------------------------------------------------------------------------------------------------

    def _try_entries(self, start: int, end: int, entries: Sequence[Entry]) -> None:
        p = self._peel(start, end)
        self._saw(start, end, p)
        offset = self._window.base + start
        done = -1  # number of the parser that took the line
        progress = False
        for entry in entries:
            if entry.parser == done or (entry.extra and offset in self._taken):
                continue
            if entry.pattern.sparse and progress:
                continue  # one progress row a line, of the parser that knows it best
            if entry.pattern.block is None:
                fields = entry.matches(p.text)
                if fields is None:
                    continue
                self._taken.add(offset)
                self._emit(entry, start, end, p, fields)
                done = entry.parser
                progress = progress or entry.pattern.sparse
            elif offset in self._covered[entry.number]:
                done = entry.parser
            elif self._try_block(entry, start, end):
                done = entry.parser

    def _try_block(self, entry: Entry, start: int, end: int) -> bool:
        assert entry.pattern.block is not None
        lines = BlockLines(self._index, start, end, entry.pattern.block_lines)
        founds = entry.pattern.block(lines)
        if not founds:
            return False
        last = min(max(found.last for found in founds), len(lines) - 1)
        covered = self._covered[entry.number]
        for position in range(last + 1):
            offset = self._window.base + lines.bounds(position)[0]
            covered.add(offset)
            self._taken.add(offset)
        for found in founds:
            self._emit_found(entry, found, lines)
        return True

    def _emit_found(self, entry: Entry, found: Found, lines: BlockLines) -> None:
        at = min(found.first if found.at is None else found.at, len(lines) - 1)
        start, end = lines.bounds(at)
        last_start, last_end = lines.bounds(min(max(found.last, at), len(lines) - 1))
        row = self._emit(entry, start, end, self._peel(start, end), {**entry.pattern.fields, **found.fields})
        if found.event:
            row["event"] = found.event
        if found.body is not None:
            row["body"] = found.body
        row["byte_length"] = last_end - start
        row["_covers"] = self._window.base + last_start

    def _emit(self, entry: Entry, start: int, end: int, p: Peeled, fields: dict[str, object]) -> Row:
        row = self._row(start, end, p)
        row["event"] = entry.pattern.event
        row["severity"] = entry.pattern.severity
        row["_entry"] = entry.number
        fill(row, fields)
        if "rank" in fields and row.get("rank") is not None:
            row["rank_basis"] = "line"
        if "node" in fields and row.get("node") is not None:
            row["node_basis"] = "line"
        if "timestamp" in fields and row.get("timestamp") is not None:
            row["timestamp_basis"] = "printed"
            row.setdefault("timestamp_resolution_ns", 1_000_000_000)
            row["last_timestamp"] = row["timestamp"]
        self.rows.append(row)
        return row

    def _row(self, start: int, end: int, p: Peeled) -> Row:
        claims = self.file.claims
        row: Row = {
            "file": self.file.name,
            "line": self._line_number(start),
            "byte_offset": self._window.base + start,
            "byte_length": end - start,
            "writer": f"{self.file.name}#{p.key}" if p.key else self.file.name,
            "body": p.text,
            "count": p.repeats,
            "attributes": {},
            "_unit": self.unit.index,
        }
        timed = self._timed(start, p)
        if timed is not None:
            row["timestamp_resolution_ns"] = timed.resolution_ns
            row["timestamp_basis"] = timed.timestamp_basis if timed is p else "inherited"
            if timed.timestamp_ns is not None:
                row["timestamp"] = row["last_timestamp"] = timed.timestamp_ns
            if timed.boot_ns is not None:
                row["attributes"]["boot_seconds"] = f"{timed.boot_ns / 1e9:.6f}"
        else:
            row["timestamp_basis"] = "none"
        if p.rank is not None:
            row["rank"], row["rank_basis"] = p.rank, p.rank_basis
        elif claims.rank is not None:
            row["rank"], row["rank_basis"] = claims.rank, "path"
        node = p.node or p.pod
        if node is not None:
            row["node"], row["node_basis"] = node, "envelope"
        elif claims.node is not None:
            row["node"], row["node_basis"] = claims.node, "path"
        local_rank = p.local_rank if p.local_rank is not None else claims.local_rank
        task = p.task if p.task is not None else claims.task
        for name, value in (("local_rank", local_rank), ("task", task), ("pid", p.pid or claims.pid), ("attempt", claims.attempt)):
            if value is not None:
                row[name] = value
        return row

    # --- writers, first and last lines ---------------------------------------------------------------------------------

    def _saw(self, start: int, end: int, p: Peeled) -> None:
        """Note a sign of life of the line's writer; what comes last in the file counts."""
        if p.timestamp_ns is not None:
            first, last = self._spans.get(p.key, (p.timestamp_ns, p.timestamp_ns))
            self._spans[p.key] = min(first, p.timestamp_ns), max(last, p.timestamp_ns)
            if self._last_timed.get(p.key, (-1, p))[0] < start:
                self._last_timed[p.key] = start, p
        if self._last_seen.get(p.key, (-1, p))[0] < start and p.text.strip():
            self._last_seen[p.key] = start, p
        trace = self.result.writers.get(p.key)
        if trace is None:
            trace = self.result.writers[p.key] = WriterTrace(p.key)
            if self.context.several:
                origin = self._window.physical_start(start)
                trace.label = label_of(bytes(self._window.data[origin : origin + 200]))
        if p.node is not None or p.pod is not None:
            trace.claim("node", p.node or p.pod)
            trace.claim("pod", p.pod)
        if p.rank is not None:
            trace.claim("rank", p.rank)
        if p.local_rank is not None:
            trace.claim("local_rank", p.local_rank)
        if p.task is not None:
            trace.claim("task", p.task)
        if p.pid is not None:
            trace.claim("pid", p.pid)
        if p.stream is not None:
            trace.streams.add(p.stream)

    def _note_writers(self) -> None:
        """Put what the window's lines told about their writers into the result."""
        result, base = self.result, self._window.base
        for key, (start, p) in self._last_seen.items():
            trace = result.writers[key]
            if base + start > trace.last_offset:
                trace.last_offset, trace.last_line = base + start, self._line_number(start)
                trace.last_text = p.text[:1000]
        for key, (start, p) in self._last_timed.items():
            trace = result.writers[key]
            if base + start > trace.last_stamp_offset:
                trace.last_ns, trace.last_basis, trace.last_resolution_ns = p.timestamp_ns, p.timestamp_basis, p.resolution_ns
                trace.last_stamp_offset = base + start
        for key, (first, last) in self._spans.items():
            trace = result.writers[key]
            trace.first_ns = first if trace.first_ns is None else min(trace.first_ns, first)
            result.first_ns = first if result.first_ns is None else min(result.first_ns, first)
            result.last_ns = last if result.last_ns is None else max(result.last_ns, last)

    def _read_head(self) -> None:
        """The first lines: all of them where several writers alternate, else on to the first stamp."""
        window = self._window
        last = min(window.end, self.head_bytes)
        for number, (start, end) in enumerate(window.lines_between(0, last)):
            p = self._peel(start, end)
            self._saw(start, end, p)
            if not self.context.several and (p.timestamp_ns is not None or number == LOOK_BACK_LINES):
                break

    def _read_tail(self) -> None:
        """The last lines: all of them where several writers alternate, else back to the last stamp."""
        window = self._window
        begin = max(window.start, window.end - self.tail_bytes)
        if begin > window.start:
            begin = window.next_start(window.line_end(begin)) or window.end
        if self.context.several:
            for start, end in window.lines_between(begin, window.end):
                self._saw(start, end, self._peel(start, end))
        else:
            line: tuple[int, int] | None = self._last_line()
            for _ in range(LOOK_BACK_LINES):
                if line is None or line[0] < window.start:
                    break
                p = self._peel(*line)
                self._saw(*line, p)
                if p.timestamp_ns is not None and p.text.strip():
                    break
                line = window.previous(line[0])
        self._read_error_words(begin)

    def _last_line(self) -> tuple[int, int] | None:
        window = self._window
        if window.end <= window.start:
            return None
        end = window.end
        while end > window.start and window.data[end - 1] in b"\r\n":
            end -= 1
        return window.line_at(end) if end > window.start else None

    def _read_error_words(self, begin: int) -> None:
        """Rows for lines near the end that speak of an error although no pattern took them."""
        window = self._window
        lowered = bytes(window.data[begin : window.end]).lower()
        bounds: dict[int, int] = {}
        for to, _ in build_engine(_ERROR_WORDS).scan(lowered, 0, len(lowered)):
            start, end = window.line_at(begin + to - 1)
            bounds[start] = end
        per_writer: dict[str, list[Row]] = defaultdict(list)
        for start, end in sorted(bounds.items()):
            if window.base + start in self._taken or start < window.start:
                continue
            p = self._peel(start, end)
            severity = error_severity(p.text)
            if severity is None or p.severity in ("info", "warning"):
                continue  # the logger itself says that it is no error
            self._saw(start, end, p)
            row = self._row(start, end, p)
            row["event"], row["severity"], row["_entry"] = "log.error", severity, -1
            per_writer[p.key].append(row)
        for rows in per_writer.values():
            self.rows += rows if len(rows) <= ERROR_ROWS else rows[: ERROR_ROWS // 2] + rows[-ERROR_ROWS // 2 :]
