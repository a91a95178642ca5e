"""One work unit: a byte range of one file, read window by window into rows and writers.

Stage 1 finds literals in the bytes; stage 2, here, looks at the lines around them only: peels the envelopes, tries the
patterns, places the line in time. Beside the patterns, the first and last lines of a file are looked at one by one, to
know who wrote it and what was said last.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from correlator.envelopes.peel import peel
from correlator.envelopes.peeled import FileContext, Peeled
from correlator.events import STANDS_FOR_OTHERS, Found
from correlator.ingest.blocks import BlockLines, LineIndex
from correlator.ingest.candidates import CandidateScan
from correlator.ingest.error_words import WORDS, error_severity
from correlator.ingest.last_signs import label_of
from correlator.ingest.look_back import CLOCK, LOOK_BACK_LINES, LookBack
from correlator.ingest.matching import Entry, Matcher, excerpt
from correlator.ingest.rows import Row, fill
from correlator.ingest.windows import Window
from correlator.ingest.work import Limits, Unit, UnitResult
from correlator.ingest.writers import WriterTrace, writer_key
from correlator.scan import build_engine
from correlator.timestamps import SECOND

#: Rows of event log.error kept for one writer, half of them the first, half the last.
ERROR_ROWS = 40
# Lines with something like a time in them that are tried for a file's first stamp.
_HEAD_TRIES = 10
# Parts of one line that a collector cut.
_MAX_PARTS = 8


class UnitReader:
    """Reads the windows of one unit."""

    def __init__(self, unit: Unit, matcher: Matcher, context: FileContext, limits: Limits) -> None:
        self.unit = unit
        self.file = unit.file
        self.matcher = matcher
        self.context = context
        self.limits = limits
        self.result = UnitResult(unit.index, unit.position, context)
        self.rows = self.result.rows
        self._covered: dict[int, set[int]] = defaultdict(set)  # entry -> file offsets of lines its blocks used
        self._taken: set[int] = set()  # file offsets of lines that some pattern took

    # --- windows -----------------------------------------------------------------------------------------------------

    def read(self, windows: Iterable[Window]) -> UnitResult:
        """All windows of the unit, in file order."""
        for window in windows:
            self._enter(window)
            if window.base + window.start == 0:
                self._read_head()
            first_row = len(self.rows)
            limits = self.limits
            scan = CandidateScan(window, self.matcher, limits=limits, several=self._several)
            for start, end, entries in scan.lines():
                self._try_entries(start, end, entries)
            scan.count_left_out(self.rows[first_row:])
            if window.holds_end:
                self._read_tail()
            self._leave(window)
        return self.result

    def _enter(self, window: Window) -> None:
        self._window = window
        self._first_newline = window.newlines_before(window.start)
        self._several = self.context.several or (
            self.context.unsure and window.data.find(b"[rank", 0, window.size) >= 0
        )
        self._peeled: dict[int, Peeled] = {}
        self._index = LineIndex(window, self._peel)
        self._look_back = LookBack(window, self.context, self._several, self._peel, self._peeled)
        self._last_seen: dict[str, tuple[int, Peeled]] = {}
        self._last_timed: dict[str, tuple[int, Peeled]] = {}
        self._spans: dict[str, tuple[int, int]] = {}

    def _leave(self, window: Window) -> None:
        self._note_writers()
        lines = window.newlines_before(window.end) - self._first_newline
        if window.holds_end and window.end > window.start and window.data[window.end - 1] != 10:
            lines += 1  # a torn last line counts as a line
        self.result.lines += lines
        self.result.bytes += window.end - window.start
        # Only blocks reach over the window's end, and only by as much as was held.
        horizon = window.base + window.end
        self._taken = {offset for offset in self._taken if offset >= horizon}
        for entry, offsets in self._covered.items():
            self._covered[entry] = {offset for offset in offsets if offset >= horizon}

    def _line_number(self, start: int) -> int:
        return self.result.lines + self._window.newlines_before(start) - self._first_newline + 1

    # --- lines -------------------------------------------------------------------------------------------------------

    def _peel(self, start: int, end: int) -> Peeled:
        p = self._peeled.get(start)
        if p is not None:
            return p
        window = self._window
        p = peel(window.text(start, end), self.context)
        if self._several and start > 0 and window.data[start - 1] == 13 and not p.identity:
            self._adopt(p, start)
        if p.partial:
            self._join_parts(p, end)
        self._peeled[start] = p
        return p

    def _adopt(self, p: Peeled, start: int) -> None:
        """Behind a carriage return: the labels stand at the start of the physical line only."""
        window = self._window
        origin = window.physical_start(start)
        if origin != start:
            p.adopt(self._peel(origin, window.line_end(origin)))

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

    # --- patterns ----------------------------------------------------------------------------------------------------

    def _try_entries(self, start: int, end: int, entries: Sequence[Entry]) -> None:
        p = self._peel(start, end)
        self._saw(start, p)
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
            elif offset not in self._covered[entry.number] and not self._try_block(entry, start, end):
                continue
            done = entry.parser
            progress = progress or entry.pattern.sparse

    def _try_block(self, entry: Entry, start: int, end: int) -> bool:
        assert entry.pattern.block is not None
        lines = BlockLines(self._index, start, end, entry.pattern.block_lines)
        try:
            founds = entry.read_block(lines)
        except Exception as error:  # parsers are plug-ins, and what they read may be hostile
            self.result.note_failure(self.matcher.parser_names[entry.parser], self._line_number(start), error)
            return False
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
        p, head = self._peel(start, end), self._peel(*lines.bounds(0))
        if head.goes_on_in(p):
            p = replace(p)
            p.adopt(head)
        row = self._emit(entry, start, end, p, {**entry.pattern.fields, **found.fields})
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
        row["body"] = excerpt(p.text, entry.pattern.literals)
        fill(row, fields)
        if "rank" in fields and row.get("rank") is not None:
            row["rank_basis"] = "line"
        if "node" in fields and row.get("node") is not None:
            row["node_basis"] = "line"
        if "timestamp" in fields and row.get("timestamp") is not None:
            row["timestamp_basis"] = "printed"
            row["timestamp_resolution_ns"] = row.get("timestamp_resolution_ns") or SECOND
            row["last_timestamp"] = row["timestamp"]
        self.rows.append(row)
        return row

    def _row(self, start: int, end: int, p: Peeled) -> Row:
        """A row with all that is known without the pattern: place, time, claims of line and path."""
        claims = self.file.claims
        row: Row = {
            "file": self.file.name,
            "line": self._line_number(start),
            "byte_offset": self._window.base + start,
            "byte_length": end - start,
            "writer": writer_key(self.file.name, p.key),
            "body": p.text,
            "count": p.repeats,
            "attributes": {STANDS_FOR_OTHERS: "true"} if p.stands_for_others else {},
            "timestamp_basis": "none",
            "_unit": self.unit.index,
        }
        timed = self._look_back.timed(start, p)
        if timed is not None:
            row["timestamp_resolution_ns"] = timed.resolution_ns
            row["timestamp_basis"] = timed.timestamp_basis if timed is p else "inherited"
            if timed.timestamp_ns is not None:
                row["timestamp"] = row["last_timestamp"] = timed.timestamp_ns
            if timed.boot_ns is not None:
                row["attributes"]["boot_seconds"] = f"{timed.boot_ns / SECOND:.6f}"
        if p.rank is not None:
            row["rank"], row["rank_basis"] = p.rank, p.rank_basis
        elif claims.rank is not None:
            row["rank"], row["rank_basis"] = claims.rank, "path"
        if p.node is not None or p.pod is not None:
            row["node"], row["node_basis"] = p.node or p.pod, "envelope"
        elif claims.node is not None:
            row["node"], row["node_basis"] = claims.node, "path"
        row["local_rank"] = claims.local_rank if p.local_rank is None else p.local_rank
        row["task"] = claims.task if p.task is None else p.task
        row["pid"] = claims.pid if p.pid is None else p.pid
        row["attempt"] = claims.attempt
        return row

    # --- writers, first and last lines -------------------------------------------------------------------------------

    def _saw(self, start: int, p: Peeled) -> None:
        """Note a sign of life of the line's writer; what comes last in the file counts."""
        key = p.key
        if not key and p.timestamp_ns is None and not p.text.strip():
            return  # nobody in particular said nothing
        if p.timestamp_ns is not None:
            first, last = self._spans.get(key, (p.timestamp_ns, p.timestamp_ns))
            self._spans[key] = min(first, p.timestamp_ns), max(last, p.timestamp_ns)
            if self._last_timed.get(key, (-1, p))[0] < start:
                self._last_timed[key] = start, p
        if self._last_seen.get(key, (-1, p))[0] < start and p.text.strip():
            self._last_seen[key] = start, p
        trace = self.result.writers.get(key)
        if trace is None:
            trace = self.result.writers[key] = WriterTrace(key)
            if self._several:
                origin = self._window.physical_start(start)
                trace.label = label_of(bytes(self._window.data[origin : origin + 200]))
        trace.claim_all(p)

    def _note_writers(self) -> None:
        """Put what the window's lines told about their writers into the result."""
        result, base = self.result, self._window.base
        for key, (start, p) in self._last_seen.items():
            result.writers[key].heard(base + start, self._line_number(start), p)
        for key, (start, p) in self._last_timed.items():
            result.writers[key].timed(base + start, p)
        for key, (first, last) in self._spans.items():
            result.writers[key].started(first)
            result.first_ns = first if result.first_ns is None else min(result.first_ns, first)
            result.last_ns = last if result.last_ns is None else max(result.last_ns, last)

    def _read_head(self) -> None:
        """The first lines: all of them where several writers alternate, else the first and the first stamped one."""
        window = self._window
        last = min(window.end, self.limits.head_bytes)
        if self._several:
            for start, end in window.lines_between(0, last):
                self._saw(start, self._peel(start, end))
            return
        position = 0
        for _ in range(_HEAD_TRIES):
            start, end = window.line_at(position)
            p = self._peel(start, end)
            self._saw(start, p)
            clock = CLOCK.search(window.data, max(end, position), last)
            if p.timestamp_ns is not None or clock is None:
                break
            position = clock.start()

    def _read_tail(self) -> None:
        """The last lines: all of them where several writers alternate, else back to the last stamp."""
        window = self._window
        begin = max(window.start, window.end - self.limits.tail_bytes)
        if begin > 0 and window.data[begin - 1] != 10:  # in the middle of a line
            begin = window.next_start(window.line_end(begin)) or window.end
        if self._several:
            for start, end in window.lines_between(begin, window.end):
                self._saw(start, self._peel(start, end))
        else:
            line = window.last_line()
            for _ in range(LOOK_BACK_LINES):
                if line is None or line[0] < window.start:
                    break
                p = self._peel(*line)
                self._saw(line[0], p)
                if p.timestamp_ns is not None and p.text.strip():
                    break
                line = window.previous(line[0])
        self._read_error_words(begin)

    def _read_error_words(self, begin: int) -> None:
        """Rows for lines near the end that speak of an error although no pattern took them."""
        window = self._window
        lowered = bytes(window.data[begin : window.end]).lower()
        bounds = dict(window.line_at(begin + to - 1) for to, _ in build_engine(WORDS).scan(lowered, 0, len(lowered)))
        per_writer: dict[str, list[Row]] = defaultdict(list)
        for start, end in sorted(bounds.items()):
            if window.base + start in self._taken or start < window.start:
                continue
            p = self._peel(start, end)
            severity = error_severity(p.text) or (p.severity if p.severity in ("error", "fatal") else None)
            if severity is None or p.severity in ("info", "warning"):
                continue  # the logger itself says that it is no error
            self._saw(start, p)
            row = self._row(start, end, p)
            row["event"], row["severity"], row["_entry"] = "log.error", severity, -1
            per_writer[p.key].append(row)
        for rows in per_writer.values():
            self.rows += rows if len(rows) <= ERROR_ROWS else rows[: ERROR_ROWS // 2] + rows[-ERROR_ROWS // 2 :]
