"""The bytes that a compressed file unpacks to, all of them up to where it is cut or damaged.

Python's own readers drop what they decoded in the call that meets the damage. Here the damaged piece is decoded again,
byte by byte, before the error is passed on. Members (or frames) may follow each other, with zeros between them.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

_PIECE = 1 << 14
_STEP = 1 << 16
_ZLIB = type(zlib.decompressobj())


def _zstd() -> Any:
    import zstandard

    return zstandard.ZstdDecompressor().decompressobj()


#: Makes the decoder of one member, by the name of the compression.
DECODERS: dict[str, Callable[[], Any]] = {
    "gz": lambda: zlib.decompressobj(wbits=31),
    "bz2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ),
    "zst": _zstd,
}


def unpacked(path: Path, compression: str) -> Iterator[bytes]:
    """The unpacked bytes in pieces. Raises the decoder's own error, or EOFError, behind the last good one."""
    with path.open("rb") as source:
        decoder: Any = None
        rest = b""
        member_at = made = 0  # where the current member begins, and how much it gave
        while True:
            at = source.tell() - len(rest)
            piece, rest = rest or source.read(_PIECE), b""
            if not piece:
                if decoder is not None:
                    raise EOFError("the file ends inside compressed data")
                return
            if decoder is None:
                if at and not (piece := piece.lstrip(b"\0")):
                    continue
                decoder, made = DECODERS[compression](), 0
                member_at = at = source.tell() - len(piece)
            try:
                for out in _decoded(decoder, piece):
                    made += len(out)
                    yield out
            except Exception:  # each decoder has its own
                yield from _salvaged(source, compression, member_at, at, made)
                raise
            if decoder.eof:
                rest, decoder = decoder.unused_data, None


def _decoded(decoder: Any, piece: bytes) -> Iterator[bytes]:
    """What a piece of a member unpacks to, in steps where the decoder allows it: a small piece may hold gigabytes."""
    if isinstance(decoder, bz2.BZ2Decompressor | lzma.LZMADecompressor):
        while True:
            if out := decoder.decompress(piece, _STEP):
                yield out
            piece = b""
            if decoder.eof or decoder.needs_input:
                return
    if not isinstance(decoder, _ZLIB):
        if out := decoder.decompress(piece):
            yield out
        return
    while not decoder.eof:
        if out := decoder.decompress(piece, _STEP):
            yield out
        piece = decoder.unconsumed_tail
        if not piece and len(out) < _STEP:
            return


def _salvaged(source: IO[bytes], compression: str, member_at: int, at: int, made: int) -> Iterator[bytes]:
    """What a member holds behind its first ``made`` bytes and before the damage, which lies in the piece at ``at``."""
    decoder = DECODERS[compression]()
    source.seek(member_at)
    fresh = bytearray()
    with suppress(Exception):  # the damage itself, which the caller passes on
        while piece := source.read(max(1, min(_PIECE, at - source.tell()))):
            for out in _decoded(decoder, piece):
                fresh += out[made:]
                made = max(0, made - len(out))
            if len(fresh) >= _STEP:
                yield bytes(fresh)
                fresh.clear()
    if fresh:
        yield bytes(fresh)
