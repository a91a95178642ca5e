"""Pieces of a file as they are held in memory, and the lines in them.

A window owns the lines that START in its own range; around that range it holds some bytes before (to look back for a
time stamp) and after (to finish lines and multi-line blocks). So the same lines come out whatever the window size, and
memory is bounded whatever the file size: a line longer than ``MAX_LINE`` is cut into pieces at fixed file offsets.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Sequence
from typing import IO

import numpy as np

from correlator.discovery import SourceFile
from correlator.reading import iter_bytes

#: Own bytes of one window.
WINDOW = 8 << 20
#: Bytes held before the own range.
LOOK_BACK = 64 << 10
#: Bytes held behind it: the rest of the last line and the following lines that a block parser may need.
LOOK_AHEAD = 1 << 20
#: Longest text of one line, in bytes.
MAX_LINE = 64 << 10

_COUNT_BLOCK = 64 << 10
_NEAR = 8 << 10


class Window:
    """Bytes ``[base, base + size)`` of a file, of which lines starting in ``[start, end)`` (indices) are its own.

    ``at_start`` and ``at_end`` tell whether the held bytes begin at the file's first byte and reach its last.
    """

    def __init__(self, data: bytearray, size: int, base: int, start: int, end: int, at_end: bool) -> None:
        self.data = data
        self.size = size
        self.base = base
        self.start = start
        self.end = end
        self.at_end = at_end
        self._counts: list[int] | None = None
        self._counted = (0, 0)  # index, LFs before it: of the last question

    @property
    def at_start(self) -> bool:
        """True when the window begins at the first byte of the file."""
        return self.base == 0

    @property
    def holds_end(self) -> bool:
        """True when the last byte of the file is one of the own ones (or the file is empty)."""
        return self.at_end and self.end >= self.size

    def last_line(self) -> tuple[int, int] | None:
        """Bounds of the last own line that is not blank; None when there is none."""
        end = self.end
        while end > self.start and self.data[end - 1] in b"\r\n":
            end -= 1
        return self.line_at(end) if end > self.start else None

    def line_at(self, pos: int) -> tuple[int, int]:
        """Start and end index of the soft line around ``pos``: bounded by LF or CR, both excluded."""
        data = self.data
        low = max(0, pos - MAX_LINE)
        start = data.rfind(b"\n", low, pos) + 1
        if start == 0 and (low > 0 or not self.at_start):
            # No line end within reach: a piece of an overlong line, at an offset that any window would choose.
            piece = MAX_LINE // 2
            start = max(0, (self.base + pos) // piece * piece - self.base)
        carriage = data.rfind(b"\r", start, pos)
        if carriage >= 0:
            start = carriage + 1
        return start, self.line_end(start, pos)

    def line_end(self, start: int, pos: int | None = None) -> int:
        """End of the soft line that starts at ``start`` (searching from ``pos``)."""
        begin = start if pos is None else pos
        limit = min(self.size, start + MAX_LINE)
        end = self.data.find(b"\n", begin, limit)
        if end < 0:
            end = max(limit, begin)
        carriage = self.data.find(b"\r", begin, end)
        return end if carriage < 0 else carriage

    def is_overwritten(self, end: int) -> bool:
        """Whether the soft line that ends at ``end`` is followed, on the same physical line, by another text."""
        data, size = self.data, self.size
        while end < size and data[end] == 13:
            end += 1
        return 0 < end < size and data[end - 1] == 13 and data[end] != 10

    def physical_start(self, start: int) -> int:
        """Start of the physical line (after the last LF) that the soft line at ``start`` belongs to."""
        if start == 0 or self.data[start - 1] == 10:
            return start
        return self.data.rfind(b"\n", max(0, start - MAX_LINE), start) + 1

    def next_start(self, end: int) -> int | None:
        """Start of the soft line behind one that ends at ``end``; None at the end of the held bytes."""
        data = self.data
        while end < self.size and data[end] in b"\r\n":
            end += 1
            if data[end - 1] == 10:
                break
        return end if end < self.size else None

    def previous(self, start: int) -> tuple[int, int] | None:
        """Bounds of the physical line before the one that holds ``start``; None at the start of the held bytes."""
        start = self.physical_start(start)
        return self.last_part(start - 1) if start > 0 else None

    def last_part(self, end: int) -> tuple[int, int]:
        """Bounds of the last soft line of the physical line whose LF is at ``end``."""
        begin = self.data.rfind(b"\n", max(0, end - MAX_LINE), end) + 1
        if end > begin and self.data[end - 1] == 13:
            end -= 1
        carriage = self.data.rfind(b"\r", begin, end)
        return (carriage + 1 if carriage >= 0 else begin), end

    def text(self, start: int, end: int) -> str:
        """The decoded bytes of a line; invalid UTF-8 becomes replacement characters."""
        return self.data[start:end].decode("utf-8", "replace")

    def lines_between(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Soft lines that start in ``[start, end)``, where ``start`` is a line start."""
        pos: int | None = start
        while pos is not None and pos < end:
            stop = self.line_end(pos)
            yield pos, stop
            pos = self.next_start(stop)

    def count_lines(self, positions: Sequence[int]) -> int:
        """How many different physical lines the ascending positions lie on."""
        first, last = positions[0], positions[-1]
        ends = np.flatnonzero(np.frombuffer(self.data, np.uint8, last - first + 1, first) == 10) + first
        return int(np.unique(np.searchsorted(ends, np.asarray(positions))).size)

    def newlines_before(self, index: int) -> int:
        """Number of LF bytes in the held bytes before ``index``."""
        near, count = self._counted
        if 0 <= index - near < _NEAR:
            count += self.data.count(b"\n", near, index)
        else:
            count = self._count_newlines(index)
        self._counted = index, count
        return count

    def _count_newlines(self, index: int) -> int:
        array = np.frombuffer(self.data, np.uint8, self.size)
        if self._counts is None:
            scratch = np.empty(_COUNT_BLOCK, bool)
            total, counts = 0, [0]
            for block in range(0, self.size, _COUNT_BLOCK):
                part = array[block : block + _COUNT_BLOCK]
                total += int(np.count_nonzero(np.equal(part, 10, out=scratch[: len(part)])))
                counts.append(total)
            self._counts = counts
        number = index // _COUNT_BLOCK
        return self._counts[number] + int(np.count_nonzero(array[number * _COUNT_BLOCK : index] == 10))


#: The buffer of the file read last by this thread: fresh memory for every file costs more than reading it.
_spare = threading.local()


def plain_windows(stream: IO[bytes], start: int, end: int, size: int) -> Iterator[Window]:
    """Windows over the own range ``[start, end)`` of a seekable file of ``size`` bytes; one reused buffer."""
    window = WINDOW
    buffer = getattr(_spare, "buffer", bytearray())
    _spare.buffer = bytearray()  # whoever reads another file meanwhile needs one of their own
    try:
        buffer = yield from _plain_windows(stream, start, end, size, window, buffer)
    finally:
        _spare.buffer = buffer


def _plain_windows(
    stream: IO[bytes], start: int, end: int, size: int, window: int, buffer: bytearray
) -> Generator[Window, None, bytearray]:
    position = start
    while position < end or (start == end == position):
        stop = end if end - position < window * 3 // 2 else position + window
        base = max(0, position - LOOK_BACK)
        wanted = min(size, stop + LOOK_AHEAD) - base
        if wanted > len(buffer):
            buffer = bytearray(wanted)
        stream.seek(base)
        got = 0
        with memoryview(buffer) as view:
            while got < wanted and (count := stream.readinto(view[got:wanted])):  # type: ignore[attr-defined]
                got += count
        # A file that shrank meanwhile ends where it ends.
        ended = base + got >= size or got < wanted
        yield Window(buffer, got, base, min(position - base, got), min(stop - base, got), ended)
        if got < wanted or stop >= end:
            break
        position = stop
    return buffer


def streamed_windows(file: SourceFile) -> Iterator[Window]:
    """Windows over a file that can only be read from front to back (compressed, or recoded from UTF-16).

    Raises DamagedArchive after the last window of what could be read.
    """
    window = WINDOW
    held = bytearray()
    base = own = 0  # file offset of held[0]; index of the first byte not yet owned
    damage: Exception | None = None
    pieces = iter_bytes(file.path, file.compression, limit=file.size)
    ended = False
    while not ended:
        while len(held) < own + window + LOOK_AHEAD:
            try:
                piece = next(pieces, None)
            except Exception as error:  # raised again below, after the good bytes were given out
                damage, piece = error, None
            if piece is None:
                ended = True
                break
            held += piece
        while own < len(held) if ended else len(held) >= own + window + LOOK_AHEAD:
            stop = len(held) if ended and len(held) - own < window * 3 // 2 else own + window
            yield Window(held, len(held), base, own, stop, ended)
            own = stop
        drop = max(0, own - LOOK_BACK)
        # A new object, since numpy views of the old one may be alive and forbid resizing it.
        held = bytearray(held[drop:])
        base, own = base + drop, own - drop
    if damage is not None:
        raise damage
