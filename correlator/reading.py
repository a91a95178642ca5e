"""Bytes of a log file, whatever it is wrapped in: plain, compressed, UTF-16; and what is no log at all.

Compressed files are streamed. A damaged archive gives what could be read and says where it ended. Nothing is ever
opened for writing.
"""

from __future__ import annotations

import codecs
import tarfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import IO, Literal

from correlator.core_files import core_reason, is_core
from correlator.documents import reader_of
from correlator.unpacked import DECODERS, unpacked

#: Bytes looked at to decide what a file is.
SNIFF_BYTES = 8192

_COMPRESSIONS = {
    b"\x1f\x8b": "gz",
    b"BZh": "bz2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zst",
    b"\x04\x22\x4d\x18": "lz4",
}

#: More than this many times its size nothing is unpacked, once it is more than the least; and never more than the most
#: is put on disk. The NUL tail that a crashed node leaves shrinks a thousandfold, logs thirty times.
MAX_RATIO = 500
LEAST_UNPACKED, MOST_UNPACKED = 256 << 20, 64 << 30

#: First bytes of formats that no logger writes.
_MAGICS = (
    (b"\x7fELF", "an executable"),
    (b"LPKSHHRH", "the journal's own file; export it with `journalctl --file NAME -o json`"),
    (b"PK\x03\x04", "a zip archive"),
    (b"PK\x05\x06", "a zip archive"),
    (b"\x80\x02", "a Python pickle"),
    (b"\x80\x03", "a Python pickle"),
    (b"\x80\x04", "a Python pickle"),
    (b"\x80\x05", "a Python pickle"),
    (b"\x93NUMPY", "a numpy array"),
    (b"\x89PNG", "an image"),
    (b"\xff\xd8\xff", "an image"),
    (b"GIF8", "an image"),
    (b"%PDF-", "a PDF document"),
    (b"PAR1", "a Parquet file"),
    (b"ARROW1", "an Arrow file"),
    (b"\x89HDF", "an HDF5 file"),
    (b"SQLite format 3", "a database"),
    (b"MMIDIDX", "a dataset index"),
    (b"\xca\xfe\xba\xbe", "an executable"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
)

_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
#: Bytes by which UTF-16 without a mark is told, and which share of its characters is one byte and a zero.
_UTF16_SAMPLE, _UTF16_SHARE = range(16, 1025), 0.9

#: Control bytes that loggers do print: tab, LF, CR, form feed, backspace, bell, escape.
_TEXT = bytes({7, 8, 9, 10, 12, 13, 27} | set(range(32, 127)) | set(range(128, 256)))
_HIGH = bytes(range(128, 256))


def compression_of(head: bytes) -> str | None:
    """Name of the compression that the first bytes announce; None for none."""
    return next((name for magic, name in _COMPRESSIONS.items() if head.startswith(magic)), None)


def utf16_of(head: bytes) -> str | None:
    """Name of the UTF-16 codec of a text with these first bytes; None for every other one.

    Without a byte order mark it is told by its zeros, one in nearly every pair of bytes and always on the same side.
    """
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return None
    if marked := next((name for mark, name in _UTF16.items() if head.startswith(mark)), None):
        return marked
    sample = head[: _UTF16_SAMPLE.stop - 1]
    sample = sample[: len(sample) // 2 * 2]
    if len(sample) not in _UTF16_SAMPLE:
        return None
    for codec, text, zeros in (("utf-16-le", sample[::2], sample[1::2]), ("utf-16-be", sample[1::2], sample[::2])):
        printed = len(text) - len(text.translate(None, _TEXT))
        if 0 not in text and min(zeros.count(0), printed) >= _UTF16_SHARE * len(text):
            return codec
    return None


def archive_of(head: bytes) -> Literal["tar", "zip"] | None:
    """Kind of archive that the (decompressed) first bytes announce; None for none."""
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip"
    if head[257:262] == b"ustar":
        return "tar"
    if b"\x00" not in head[:512]:
        return None
    try:  # an old archive, without the magic: its header's own sum tells
        tarfile.TarInfo.frombuf(head[:512], "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError):
        return None
    return "tar"


def binary_reason(head: bytes) -> str | None:
    """Why the file whose (decompressed) first bytes these are is no log; None when it may be one.

    NUL bytes alone are no reason: a crashed node or a file truncated while open leaves runs of them in a log.
    """
    if utf16_of(head):
        return None
    if is_core(head):
        return core_reason(head)
    for magic, what in _MAGICS:
        if head.startswith(magic):
            return what
    if head[8:10] == b'{"' and b"\x00" in head[:8]:
        return "a safetensors file"
    rest = head.strip(b"\x00")
    if not rest:
        return None
    nuls = rest.count(0)
    if nuls and nuls > len(rest) // 20 and b"\x00" * (nuls // 2 + 1) not in rest:
        return "binary data"  # NULs spread through the text, not one run of them
    rest = rest.replace(b"\x00", b"")
    controls = len(rest.translate(None, _TEXT))
    if controls > len(rest) // 10:
        return "binary data"
    high = len(rest) - len(rest.translate(None, _HIGH))
    if high > len(rest) // 3 and rest.decode("utf-8", errors="replace").count("\ufffd") > len(rest) // 10:
        return "binary data"
    return None


class DamagedArchive(Exception):
    """A compressed file ended early or is corrupt; what came before was delivered."""


class Oversized(DamagedArchive):
    """A compressed file or archive unpacks to more than is sane; what came before was delivered."""


class Budget:
    """How much one file may unpack to, all that is packed inside it together; ``stored`` is its size in bytes.

    ``kept``: what comes out is written to disk, and not only looked at.
    """

    def __init__(self, stored: int, *, kept: bool = True) -> None:
        self.stored = stored
        self.limit = max(LEAST_UNPACKED, MAX_RATIO * stored)
        if kept:
            self.limit = min(self.limit, MOST_UNPACKED)
        self.spent = 0

    def spend(self, count: int) -> None:
        """Count unpacked bytes. Raises Oversized beyond the limit."""
        self.spent += count
        if self.spent > self.limit:
            raise Oversized(
                f"unpacks to more than the limit of {self.limit:,} bytes ({self.stored:,} bytes packed); "
                "unpack it yourself if it is sound, and pass the folder"
            )


def read_head(path: Path, compression: str | None, size: int = SNIFF_BYTES) -> bytes:
    """At most ``size`` decompressed first bytes; what can be read of a damaged file."""
    got = b""
    for piece in iter_bytes(path, compression, size, damage_is_error=False):
        got += piece
        if len(got) >= size:
            break
    return got[:size]


def iter_bytes(
    path: Path, compression: str | None, block: int = 1 << 20, *, damage_is_error: bool = True, limit: int | None = None
) -> Iterator[bytes]:
    """Blocks of the text as UTF-8 (or whatever 8-bit encoding it has), decompressed, out of UTF-16, a record a line.

    ``limit``: bytes of the stored file that are read, when it is not compressed. Raises DamagedArchive after the last
    good block, unless ``damage_is_error`` is false.
    """
    pieces = iter_unpacked(path, compression, block, limit=limit)
    try:
        yield from _separated(_recoded(pieces))
    except DamagedArchive:
        if damage_is_error:
            raise


def iter_unpacked(
    path: Path,
    compression: str | None,
    block: int = 1 << 20,
    *,
    budget: Budget | None = None,
    limit: int | None = None,
) -> Iterator[bytes]:
    """Blocks of the decompressed bytes. Raises DamagedArchive after the last good one.

    ``budget``: of the file that this one was packed in; its own by default.
    """
    try:
        if compression is None:
            with path.open("rb", buffering=0) as plain:
                yield from _blocks(plain, block, limit)
            return
        if budget is None:
            budget = Budget(path.stat().st_size, kept=False)
        for piece in unpacked(path, compression) if compression in DECODERS else _lz4(path):
            budget.spend(len(piece))
            yield piece
    except DamagedArchive:
        raise
    except Exception as error:
        # Each decompressor has its own error class, and some report corruption as OSError or ValueError; a file that
        # vanished or cannot be read must stay an OSError with its number.
        if compression is None or (isinstance(error, OSError) and error.errno is not None):
            raise
        raise DamagedArchive(str(error) or type(error).__name__) from error


def _lz4(path: Path) -> Iterator[bytes]:
    import pyarrow as pa

    with path.open("rb") as file, pa.CompressedInputStream(pa.PythonFile(file), "lz4") as stream:
        # Small steps: damage raises in the middle of a read and takes the whole step with it.
        yield from iter(lambda: stream.read(1 << 12), b"")


def _blocks(stream: IO[bytes], block: int, limit: int | None) -> Iterator[bytes]:
    left = limit
    while piece := stream.read(block if left is None else min(block, left)):
        yield piece
        if left is not None:
            left -= len(piece)


def is_recoded(head: bytes) -> bool:
    """Whether ``iter_bytes`` gives another text than the stored one, whose first bytes these are."""
    return utf16_of(head) is not None or reader_of(head) is not None


def _separated(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The text with one line a record."""
    first = b""
    while len(first) < SNIFF_BYTES and (piece := next(pieces, b"")):
        first += piece
    if not first:
        return
    whole = chain((first,), pieces)
    reader = reader_of(first)
    yield from whole if reader is None else reader(whole)


def _recoded(pieces: Iterator[bytes]) -> Iterator[bytes]:
    first = next(pieces, b"")
    codec = utf16_of(first)
    if codec is None:
        if first:
            yield first
        yield from pieces
        return
    decoder = codecs.getincrementaldecoder(codec)(errors="replace")
    yield decoder.decode(first).removeprefix("\ufeff").encode("utf-8", errors="replace")
    for piece in pieces:
        yield decoder.decode(piece).encode("utf-8", errors="replace")
    yield decoder.decode(b"", final=True).encode("utf-8", errors="replace")
