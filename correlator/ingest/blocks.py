"""The lines that a block parser gets: those of one writer, from the candidate on, fetched as they are asked for."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import overload

from correlator.envelopes.peeled import Peeled
from correlator.ingest.windows import Window

#: Lines of all writers looked through, at most, for the lines of one writer's block.
SPREAD = 20_000
# What tqdm and its like draw: a percentage before the bar, or a rate.
_BAR = re.compile(rb"\d%\||\d ?(?:it|ba|ex)/s|\ds/(?:it|ba|ex)\b")

_TRACEBACK = "Traceback (most recent call last):"


def group_of(p: Peeled) -> Hashable:
    """Lines with equal groups can belong to one block: same process, same stream, and inside a traceback or outside.

    A traceback logged as one message whose head names the writer goes on in lines without that head: ``LineIndex``.

    torch's excepthook puts ``[rankN]: `` on every line of a traceback; its C++ logger puts it in front of a head, and
    what follows such a line has none.
    """
    return p.key, p.stream, p.inner_rank is not None and not p.headed


class LineIndex:
    """The lines of a window in file order, indexed by group; grows forwards on demand and peels each line once."""

    def __init__(self, window: Window, peel: Callable[[int, int], Peeled]) -> None:
        self._window = window
        self._peel = peel
        self._next: int | None = None
        self._speaker: Peeled | None = None
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.groups: dict[Hashable, list[int]] = defaultdict(list)
        self._group_of: list[Hashable] = []

    def locate(self, start: int, end: int) -> int:
        """Ordinal of the line at ``start``, which becomes the first one known when it lies apart from all others."""
        if self.starts and self.starts[0] <= start < (self._next if self._next is not None else self._window.size):
            ordinal = bisect_left(self.starts, start)
            if ordinal < len(self.starts) and self.starts[ordinal] == start:
                return ordinal
        elif self.starts and self._next == start:
            self.grow()
            return len(self.starts) - 1
        self.starts, self.ends, self._group_of = [], [], []
        self.groups = defaultdict(list)
        self._speaker = None
        self._add(start, end)
        return 0

    def grow(self) -> bool:
        """Learn one more line; False at the end of the window."""
        start = self._next
        if start is None:
            return False
        self._add(start, self._window.line_end(start))
        return True

    def members(self, ordinal: int) -> list[int]:
        """Ordinals of all lines known so far of the group of this line."""
        return self.groups[self._group_of[ordinal]]

    def _add(self, start: int, end: int) -> None:
        group = self._group(start, end)
        self.groups[group].append(len(self.starts))
        self._group_of.append(group)
        self.starts.append(start)
        self.ends.append(end)
        self._next = self._window.next_start(end)

    def text(self, start: int, end: int) -> str:
        """The peeled text of a line."""
        return self._peel(start, end).text

    def _group(self, start: int, end: int) -> Hashable:
        if self._window.is_overwritten(end) and _BAR.search(self._window.data, start, end):
            return _BAR  # drawn over by what follows it on the same line, and no part of any block
        p = self._peel(start, end)
        if self._speaker is not None and self._speaker.goes_on_in(p):
            return group_of(self._speaker)
        if p.headed:
            self._speaker = p if _TRACEBACK in p.text else None
        return group_of(p)


class BlockLines(Sequence[str]):
    """Peeled texts of the candidate line and of up to ``limit`` lines behind it of the same writer.

    Most candidates are refused at their first line, so nothing is looked up before the second is asked for.
    """

    def __init__(self, index: LineIndex, start: int, end: int, limit: int) -> None:
        self._index = index
        self._candidate = start, end
        self._limit = limit + 1
        self._members: list[int] | None = None
        self._first = self._offset = 0

    def _reach(self, count: int) -> int:
        """How many lines there are, at least ``count`` when they can be had."""
        count = min(count, self._limit)
        if count <= 1:
            return 1
        index = self._index
        if self._members is None:
            self._first = index.locate(*self._candidate)
            self._members = index.members(self._first)
            self._offset = bisect_left(self._members, self._first)
        while len(self._members) - self._offset < count:
            if len(index.starts) - self._first > SPREAD or not index.grow():
                break
        return min(len(self._members) - self._offset, self._limit)

    def bounds(self, position: int) -> tuple[int, int]:
        """Window indices of a line already asked for."""
        if position == 0 or self._members is None:
            return self._candidate
        ordinal = self._members[self._offset + position]
        return self._index.starts[ordinal], self._index.ends[ordinal]

    def __len__(self) -> int:
        return self._reach(self._limit)

    @overload
    def __getitem__(self, position: int) -> str: ...
    @overload
    def __getitem__(self, position: slice) -> Sequence[str]: ...
    def __getitem__(self, position: int | slice) -> str | Sequence[str]:
        if isinstance(position, slice):
            bounded = position.stop is not None and position.stop >= 0 and (position.start or 0) >= 0
            count = self._reach(position.stop) if bounded else len(self)
            return [self[i] for i in range(*position.indices(count))]
        if position < 0:
            position += len(self)
        if position < 0 or (position > 0 and self._reach(position + 1) <= position):
            raise IndexError(position)
        return self._index.text(*self.bounds(position))

    def __iter__(self) -> Iterator[str]:
        position = 0
        while position == 0 or self._reach(position + 1) > position:
            yield self[position]
            position += 1
