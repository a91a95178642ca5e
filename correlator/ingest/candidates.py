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
        hits = self._without_floods(self._starts(self._dense.scan(window.data, window.start, self._stop)))
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

    def _starts(self, hits: list[Hit]) -> list[Hit]:
        lengths = self._matcher.dense_lengths
        return sorted((to - lengths[number], number) for to, number in hits)

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

    def _without_floods(self, hits: list[Hit]) -> list[Hit]:
        """Hits without the middle of a flood: what a literal repeats thousands of times is counted, not parsed."""
        if len(hits) <= 2 * self._harmless:
            return hits
        by_literal: dict[int, list[int]] = defaultdict(list)
        for position, number in hits:
            by_literal[number].append(position)
        gaps: dict[int, tuple[int, int]] = {}
        for number, positions in by_literal.items():
            keep = FLOOD_SHARED
            if not self._several:
                harmless = all(entry.pattern.severity == "info" for entry in self._matcher.dense_entries[number])
                keep = self._harmless if harmless else FLOOD
            if len(positions) > 2 * keep:
                gaps[number] = positions[keep], positions[-keep]
                self._left_out.append((number, positions[keep:-keep]))
        if not gaps:
            return hits
        nowhere = (0, 0)
        return [hit for hit in hits if not gaps.get(hit[1], nowhere)[0] <= hit[0] < gaps.get(hit[1], nowhere)[1]]

    def count_left_out(self, rows: list[Row]) -> None:
        """Add the lines left out of a flood to the count of the row before them (``rows``: those of this window)."""
        for number, positions in self._left_out:
            before = self._window.base + positions[0]
            entries = {entry.number for entry in self._matcher.dense_entries[number]}
            same = [row for row in rows if row["_entry"] in entries and row["byte_offset"] < before]
            if same:
                same[-1]["count"] += self._window.count_lines(positions)
