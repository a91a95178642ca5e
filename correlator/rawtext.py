"""Raw lines of a log by place, for proof: the line itself and its neighbourhood, whatever the file is wrapped in."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from correlator.discovery import SourceFile
from correlator.reading import iter_bytes
from correlator.records import Row

#: Longest piece of a line that is shown, in bytes.
_LINE_LIMIT = 2000
#: How far before and after a place the neighbourhood is read, in bytes.
_WINDOW = 1 << 16


class RawLines:
    """Reads lines of the given files again. Files that vanished or changed meanwhile give what can still be read."""

    def __init__(self, files: Mapping[str, SourceFile]) -> None:
        """``files``: source files by their name relative to LOGDIR."""
        self._files = files
        self._around = lru_cache(maxsize=64)(self._read_around)

    def text(self, row: Row) -> str:
        """The raw line of a row; of a multi-line row also the lines that follow in its body."""
        raw = self.line(row.file, row.byte_offset)
        body = row.body.splitlines()
        if raw is None:
            return row.body[:_LINE_LIMIT]
        rest = [line for line in body[1:] if line.strip()]
        return "\n".join([raw, *rest])[:_LINE_LIMIT]

    def line(self, file: str, byte_offset: int) -> str | None:
        """The line that holds this byte; None if the file cannot be read any more.

        A progress bar rewritten with carriage returns is cut at them: the piece that starts at the offset is shown.
        """
        before, after = self._around(file, byte_offset)
        if not before and not after:
            return None
        head = before.rpartition(b"\n")[2].rpartition(b"\r")[2]
        piece = after.partition(b"\n")[0].strip(b"\r").partition(b"\r")[0]
        return _decoded(head + piece if len(head) < _LINE_LIMIT else piece)

    def neighbourhood(self, file: str, byte_offset: int, before: int = 3, after: int = 3) -> list[str]:
        """Lines around a place, the line itself at index ``min(before, lines there are)``."""
        past, rest = self._around(file, byte_offset)
        head, _, begun = past.rpartition(b"\n")
        earlier = head.split(b"\n")[-before:] if before and head else []
        own, *later = (begun + rest).split(b"\n")[: after + 1]
        return [_decoded(line.rpartition(b"\r")[2] if line.strip(b"\r") else line) for line in (*earlier, own, *later)]

    def _read_around(self, file: str, byte_offset: int) -> tuple[bytes, bytes]:
        source = self._files.get(file)
        if source is None:
            return b"", b""
        start = max(0, byte_offset - _WINDOW)
        try:
            if source.compression is None and not source.recoded:
                with source.path.open("rb", buffering=0) as stream:
                    stream.seek(start)
                    data = stream.read(byte_offset - start + _WINDOW)
                return data[: byte_offset - start], data[byte_offset - start :]
            kept, position = b"", 0
            for piece in iter_bytes(source.path, source.compression, damage_is_error=False):
                kept, position = (kept + piece)[-2 * _WINDOW - len(piece) :], position + len(piece)
                if position >= byte_offset + _WINDOW:
                    break
            split = max(0, byte_offset - (position - len(kept)))
            return kept[:split], kept[split : split + _WINDOW]
        except OSError:
            return b"", b""


def _decoded(line: bytes) -> str:
    return line[:_LINE_LIMIT].decode("utf-8", errors="replace").rstrip("\r")
