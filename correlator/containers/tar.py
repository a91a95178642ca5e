"""Tar archives, compressed or not, read once from front to back."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from correlator.containers.unpack import Contents, Unpacker
from correlator.reading import DamagedArchive, Oversized, iter_unpacked

#: Longest header with its extensions (long names, pax records), in bytes; tarfile holds them in memory.
_MAX_HEADER = 4 << 20
_BLOCK = 1 << 16


def unpack_tar(path: Path, compression: str | None, unpacker: Unpacker) -> Contents:
    """The members of a tar archive."""
    contents = unpacker.contents
    source: Any = _Source(iter_unpacked(path, compression, budget=unpacker.budget if compression else None))
    try:
        with tarfile.open(fileobj=source, mode="r|", bufsize=_BLOCK, errors="surrogateescape") as tar:
            while (member := source.header(tar)) is not None:
                _take(tar, member, unpacker)
                if source.total < tar.offset and source.ended:
                    contents.problems.append(f"ends inside {member.name}")
                    break
    except DamagedArchive as error:
        contents.problems.append(str(error))
    except (tarfile.TarError, ValueError, OverflowError, IndexError) as error:
        # Broken headers come as any of these, depending on the field.
        contents.problems.append(f"damaged archive: {error}")
    if source.problem:
        contents.problems = [source.problem]
    return contents


def _take(tar: tarfile.TarFile, member: tarfile.TarInfo, unpacker: Unpacker) -> None:
    """Copy or leave out one member and go on to the next header."""
    stream: Any = tar.fileobj
    mtime_ns = int(max(0.0, min(float(member.mtime), 1e11)) * 1e9)
    if member.issym() or member.islnk():
        unpacker.leave_out(member.name, "a link inside the archive; not followed")
    elif member.issparse():
        # Holes cost nothing in the archive, so what comes out is counted here.
        expanded: Any = tar.extractfile(member)
        unpacker.copy(member.name, mtime_ns, lambda count: _counted(expanded.read(count), unpacker))
    elif member.isreg():
        end = stream.tell() + member.size
        unpacker.copy(member.name, mtime_ns, lambda count: stream.read(min(count, end - stream.tell())))
    elif not member.isdir():
        unpacker.leave_out(member.name, "a pipe" if member.isfifo() else "a device")
    if stream.tell() < tar.offset:
        stream.seek(tar.offset)


def _counted(piece: bytes, unpacker: Unpacker) -> bytes:
    unpacker.budget.spend(len(piece))
    return piece


class _Source:
    """What tarfile reads from: the unpacked bytes, which end where the damage begins."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._ready = b""
        self._allowed: int | None = _MAX_HEADER  # opening reads the first header
        self.total = 0
        self.ended = False
        self.problem: str | None = None

    def header(self, tar: tarfile.TarFile) -> tarfile.TarInfo | None:
        """The next member. Raises Oversized for a header that would fill the memory."""
        self._allowed = _MAX_HEADER
        member = tar.next()
        self._allowed = None
        return member

    def read(self, count: int) -> bytes:
        """At most ``count`` bytes; b"" at the end."""
        if not self._ready and not self.ended:
            try:
                self._ready = next(self._pieces, b"")
            except DamagedArchive as error:
                self.problem = str(error)
            self.ended = not self._ready
        piece, self._ready = self._ready[:count], self._ready[count:]
        self.total += len(piece)
        if self._allowed is not None:
            self._allowed -= len(piece)
            if self._allowed < 0:
                raise Oversized(f"has a header of more than the limit of {_MAX_HEADER:,} bytes")
        return piece
