"""A directory seen with suspicion: listings that never leave the root, never open what is no regular file.

Symbolic links whose target lies outside the root are reported and not followed. Nothing here reads file content beyond
what a caller asks for.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

MAX_ENTRIES = 200_000
"""Directory entries listed in one folder; zarr trees of large models come near a tenth of it."""

MAX_DEPTH = 6
"""Levels below a checkpoint's own folder that are walked."""


SMALL_BYTES = 256 << 10
"""A file up to this length is read at once."""


def shown(text: str, limit: int) -> str:
    """``text`` fit for a terminal and for JSON: no control characters, no lone surrogates, at most ``limit`` long."""
    if text.isascii() and text.isprintable() and len(text) <= limit:
        return text
    clean = "".join(
        c if c.isprintable() else f"\\x{ord(c):02x}" for c in text.encode("utf-8", "backslashreplace").decode()
    )
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


@dataclass(frozen=True)
class File:
    """A regular file. ``rel`` is relative to the root of the scan, ``path`` is free of links; size in bytes.
    ``linked``: the name is a link to ``path``."""

    name: str
    rel: str
    path: Path
    size: int
    mtime_ns: int
    linked: bool = False

    def open(self) -> BinaryIO:
        """The open file at position 0; of a small one the whole content, because each access to a parallel file system
        costs more than the bytes. Raises OSError, also when it is no regular file any more or of another length."""
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        descriptor = os.open(self.path, flags)
        stream = os.fdopen(descriptor, "rb")
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size != self.size:
            stream.close()
            raise OSError("it changed while the directory was read")
        if self.size > SMALL_BYTES:
            return stream
        with stream:
            return io.BytesIO(stream.read(self.size))

    def text(self, limit: int = 64 << 20) -> str:
        """The content as UTF-8 (bad bytes replaced). Raises OSError, also when it is longer than ``limit`` bytes."""
        return self.bytes(limit).decode("utf-8", "replace")

    def bytes(self, limit: int = 64 << 20) -> bytes:
        """The content. Raises OSError, also when it is longer than ``limit`` bytes."""
        if self.size > limit:
            raise OSError(f"it has {self.size} bytes, more than are read of such a file")
        with self.open() as stream:
            return stream.read(limit)


class Folder:
    """A directory under ``root``; ``rel`` is "." for the root itself. Listings are taken once, when first asked for."""

    def __init__(self, root: Path, rel: str = ".", parent: Folder | None = None) -> None:
        self.root = root
        self.rel = rel
        self.parent = parent
        self.name = root.name if rel == "." else rel.rpartition("/")[2]
        self.unreadable = False
        """Set with the listing: the directory could not be listed at all."""

    @cached_property
    def path(self) -> Path:
        """Where it is; made when asked for, since a search passes thousands of folders by."""
        return self.root if self.rel == "." else self.root / self.rel

    @cached_property
    def _listing(self) -> tuple[dict[str, File], dict[str, Folder], tuple[str, ...]]:
        files: dict[str, File] = {}
        folders: dict[str, Folder] = {}
        problems: list[str] = []
        try:
            with os.scandir(self.root if self.rel == "." else f"{self.root}/{self.rel}") as entries:
                for count, entry in enumerate(entries):
                    if count >= MAX_ENTRIES:
                        problems.append(f"more than {MAX_ENTRIES} entries in one directory: the rest was not looked at")
                        break
                    self._take(entry, files, folders, problems)
        except OSError as error:
            self.unreadable = True
            problems.append(f"cannot be listed: {error.strerror or error}")
        return dict(sorted(files.items())), dict(sorted(folders.items())), tuple(sorted(problems))

    def _take(
        self, entry: os.DirEntry[str], files: dict[str, File], folders: dict[str, Folder], problems: list[str]
    ) -> None:
        rel = entry.name if self.rel == "." else f"{self.rel}/{entry.name}"
        target: Path | None = None
        try:
            linked = entry.is_symlink()
            if linked:
                target = Path(entry.path).resolve(strict=True)
                if not target.is_relative_to(self.root):
                    problems.append(f"{entry.name} is a link that leaves the directory: not followed")
                    return
            status = target.lstat() if target else entry.stat(follow_symlinks=False)
        except (OSError, RuntimeError) as error:
            problems.append(f"{entry.name} cannot be read: {getattr(error, 'strerror', None) or error}")
            return
        if stat.S_ISREG(status.st_mode):
            path = target or Path(entry.path)
            files[entry.name] = File(entry.name, rel, path, status.st_size, status.st_mtime_ns, linked)
        elif stat.S_ISDIR(status.st_mode):
            # A link to a directory within the root is a second name of something that is visited anyway.
            if not linked:
                folders[entry.name] = Folder(self.root, rel, self)
        else:
            problems.append(f"{entry.name} is neither a file nor a directory: not opened")

    @property
    def files(self) -> dict[str, File]:
        """Regular files by name, sorted."""
        return self._listing[0]

    @property
    def folders(self) -> dict[str, Folder]:
        """Sub-directories by name, sorted; links are not among them."""
        return self._listing[1]

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be listed or was refused."""
        return self._listing[2]

    def walk(self, depth: int = MAX_DEPTH) -> Iterator[File]:
        """All regular files in this directory and below."""
        yield from self.files.values()
        if depth:
            for folder in self.folders.values():
                yield from folder.walk(depth - 1)

    def all_problems(self, depth: int = MAX_DEPTH) -> Iterator[str]:
        """The listing problems of this directory and those below, with the path inside this one."""
        yield from self.problems
        if depth:
            for folder in self.folders.values():
                yield from (f"{folder.name}/: {problem}" for problem in folder.all_problems(depth - 1))


class Window:
    """Bytes [offset, offset + length) of a seekable stream as a file of its own, for a ZIP inside a larger file."""

    def __init__(self, stream: BinaryIO, offset: int, length: int) -> None:
        self._stream, self._offset, self._length, self._at = stream, offset, length, 0

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """The position, counted from the window's start."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move; a position before the start is an OSError."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._length}[whence]
        if base + offset < 0:
            raise OSError("seek before the start")
        self._at = base + offset
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """Up to ``size`` bytes, never beyond the window's end."""
        left = max(self._length - self._at, 0)
        size = left if size is None or size < 0 else min(size, left)
        self._stream.seek(self._offset + self._at)
        data = self._stream.read(size)
        self._at += len(data)
        return data
