"""Stage 1: the lines of a window that hold a literal of some pattern, found without looking at the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from correlator.ingest.matching import Entry, Matcher
from correlator.ingest.rows import Row
from correlator.ingest.windows import Window
from correlator.ingest.work import Limits
from correlator.scan import Hit

#: How many hits of one literal at either edge of a window are parsed; those between are only counted. In a file of one
#: writer (harmless ones: ``Limits.harmless``). In a file of many writers each may have its say.
FLOOD = 1000
FLOOD_SHARED = 16_000

# Sparse patterns are looked for in blocks from either end until enough are found.
_SPARSE_BLOCK = 32 << 10
_ENOUGH = 8


class CandidateScan:
    """The candidate lines of one window; ``several``: of a file of several writers."""

    def __init__(self, window: Window, matcher: Matcher, *, limits: Limits, several: bool) -> None:
        self._window = window
        self._matcher = matcher
        self._quota = limits.sparse_shared if several else limits.sparse
        self._harmless = limits.harmless
        self._several = several
        self._dense, self._sparse = matcher.engines()
        self._left_out: list[tuple[int, list[int]]] = []
        # A line that starts in the window may end behind it; the lines behind that one are counted by their own window.
        self._stop = max(window.end, window.line_at(window.end - 1)[1]) if window.end > window.start else window.end

    def lines(self) -> Iterator[tuple[int, int, Sequence[Entry]]]:
        """Bounds of own lines with literals in them, in order, with the patterns to try."""
        window, matcher = self._window, self._matcher
        hits = self._dense_hits()
        sparse = self._sparse_hits()
        if sparse:
            hits = sorted(hits + [(to - len(matcher.sparse_literals[n]), -1 - n) for to, n in sparse])
        start, end = -1, -1
        found: list[int] = []
        for position, number in hits:
            if not start <= position < end:
                if found:
                    yield start, end, self._entries(found)
                    found = []
                start, end = window.line_at(position)
            if window.start <= start < window.end:  # else another window's, whichever of its literals was hit
                found.append(number)
        if found:
            yield start, end, self._entries(found)

    def _entries(self, numbers: list[int]) -> Sequence[Entry]:
        return self._matcher.candidates(frozenset(numbers))

    def _sparse_hits(self) -> list[Hit]:
        """The first and last few hits of sparse literals: forwards until enough, then backwards."""
        window, enough = self._window, _ENOUGH * self._quota
        overlap = max((len(literal) for literal in self._matcher.sparse_literals), default=1) - 1
        first: list[Hit] = []
        position = window.start
        while position < self._stop and len(first) < enough:
            block_end = min(self._stop, position + _SPARSE_BLOCK)
            scanned = self._sparse.scan(window.data, max(window.start, position - overlap), block_end)
            first += [hit for hit in scanned if hit[0] > position]
            position = block_end
        last: list[Hit] = []
        back = self._stop
        while back > position and len(last) < enough:
            block_start = max(position, back - _SPARSE_BLOCK)
            scanned = self._sparse.scan(window.data, max(window.start, block_start - overlap), back)
            last = [hit for hit in scanned if hit[0] > block_start] + last
            back = block_start
        by_pattern: dict[int, list[Hit]] = defaultdict(list)
        for hit in first + last:
            by_pattern[self._matcher.sparse_entries[hit[1]][0].number].append(hit)
        quota = self._quota
        edges: list[Hit] = []
        for found in by_pattern.values():
            edges += found if len(found) <= 2 * quota else found[:quota] + found[-quota:]
        return edges

    def _dense_hits(self) -> list[Hit]:
        """``(start, literal number)`` of dense literals, sorted, without the middle of a flood.

        What a literal repeats thousands of times is counted, not parsed.
        """
        ends: dict[int, list[int]] = defaultdict(list)
        for to, number in self._dense.scan(self._window.data, self._window.start, self._stop):
            ends[number].append(to)
        hits: list[Hit] = []
        for number, of_literal in ends.items():
            length = self._matcher.dense_lengths[number]
            keep = self._kept_of(number) if len(of_literal) > 2 * self._harmless else len(of_literal)
            if len(of_literal) > 2 * keep:
                self._left_out.append((number, [to - length for to in of_literal[keep:-keep]]))
                of_literal = of_literal[:keep] + of_literal[-keep:]
            hits += [(to - length, number) for to in of_literal]
        return sorted(hits)

    def _kept_of(self, number: int) -> int:
        """How many first and last hits of a literal are parsed."""
        if self._several:
            return FLOOD_SHARED
        harmless = all(entry.pattern.severity == "info" for entry in self._matcher.dense_entries[number])
        return self._harmless if harmless else FLOOD

    def count_left_out(self, rows: list[Row]) -> None:
        """Add the lines left out of a flood to the count of the row before them (``rows``: those of this window)."""
        for number, positions in self._left_out:
            before = self._window.base + positions[0]
            entries = {entry.number for entry in self._matcher.dense_entries[number]}
            same = [row for row in rows if row["_entry"] in entries and row["byte_offset"] < before]
            if same:
                same[-1]["count"] += self._window.count_lines(positions)
