"""The original files that a bundle quotes: digests, ranges of bytes, whole lines around a place."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from correlator.discovery import SourceFile
from correlator.errors import CorrelatorError
from correlator.reading import iter_bytes

#: Unpacked text of one file that is kept to cut several pieces from it, in bytes.
_KEPT = 64 << 20
#: How far around a place whole lines are looked for, in bytes.
_REACH = 1 << 15


class UnreadableSource(CorrelatorError):
    """A file that was read for the diagnosis cannot be read again."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some whole lines of a file: ``start`` and ``end`` in bytes of its text, ``line`` the number of the first."""

    start: int
    end: int
    line: int
    lines: int


class Sources:
    """Reads the files of one LOGDIR again, by their name relative to it; none is ever opened for writing."""

    def __init__(self, files: Sequence[SourceFile]) -> None:
        self._files = {file.name: file for file in files if file.form == "log"}
        self.digest = lru_cache(maxsize=None)(self._digest)
        self._kept = lru_cache(maxsize=4)(self._whole)

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def names(self) -> list[str]:
        """All files, sorted."""
        return sorted(self._files)

    def is_unpacked(self, name: str) -> bool:
        """Whether offsets count in what the file unpacks to."""
        return self._files[name].streamed

    def size(self, name: str) -> int:
        """Bytes as stored."""
        return self._files[name].size

    def _digest(self, name: str) -> str:
        """SHA-256 of the file as stored; of a member of an archive, of the member."""
        sum_ = hashlib.sha256()
        try:
            with self._files[name].path.open("rb") as stream:
                while block := stream.read(1 << 20):
                    sum_.update(block)
        except OSError as fault:
            raise _unreadable(name, fault) from None
        return sum_.hexdigest()

    def blocks(self, name: str) -> Iterator[bytes]:
        """The file's text, unpacked, as far as it can be read."""
        file = self._files[name]
        try:
            yield from iter_bytes(file.path, file.compression, damage_is_error=False)
        except OSError as fault:
            raise _unreadable(name, fault) from None

    def _whole(self, name: str) -> bytes | None:
        kept: list[bytes] = []
        size = 0
        for block in self.blocks(name):
            kept.append(block)
            size += len(block)
            if size > _KEPT:
                return None
        return b"".join(kept)

    def read(self, name: str, start: int, end: int) -> bytes:
        """The bytes ``start`` to ``end`` of the file's text; fewer where it is shorter."""
        start = max(0, start)
        if not self.is_unpacked(name):
            try:
                with self._files[name].path.open("rb") as stream:
                    stream.seek(start)
                    return stream.read(max(0, end - start))
            except OSError as fault:
                raise _unreadable(name, fault) from None
        whole = self._kept(name)
        if whole is not None:
            return whole[start:end]
        found, position = b"", 0
        for block in self.blocks(name):
            if position + len(block) > start:
                found += block[max(0, start - position) : end - position]
            position += len(block)
            if position >= end:
                break
        return found

    def text_size(self, name: str) -> int:
        """Bytes of the file's text, unpacked."""
        if not self.is_unpacked(name):
            return self.size(name)
        whole = self._kept(name)
        return len(whole) if whole is not None else sum(map(len, self.blocks(name)))

    def lines_around(self, name: str, offset: int, length: int, line: int, context: int) -> Piece:
        """Whole lines from ``context`` before the line at ``offset`` to ``context`` behind its ``length`` bytes.

        ``line`` is the number of the line at ``offset``. A line longer than the reach is cut at it.
        """
        low = max(0, offset - _REACH)
        raw = self.read(name, low, offset + length + _REACH)
        at = offset - low
        start = raw.rfind(b"\n", 0, at) + 1
        for _ in range(context):
            if start <= 0 or (low and raw.rfind(b"\n", 0, start - 1) < 0):
                break
            start = raw.rfind(b"\n", 0, start - 1) + 1
        end = at + max(length, 1) - 1
        for _ in range(context + 1):
            newline = raw.find(b"\n", end)
            if newline < 0:
                end = len(raw)
                break
            end = newline + 1
        first = line - raw.count(b"\n", start, at)
        piece = raw[start:end]
        return Piece(low + start, low + end, first, piece.count(b"\n") + (not piece.endswith(b"\n")))


def _unreadable(name: str, fault: OSError) -> UnreadableSource:
    return UnreadableSource(f"{name} cannot be read any more: {fault.strerror or fault}")
