"""Whether a ZIP written by ``torch.save`` is whole: central directory, stored entries, sizes that fit, CRC if asked.

PyTorch stores every entry uncompressed and writes the central directory last, so a file cut short has none. The
CRC-32 of each entry is written but not verified when torch loads a tensor: a flipped bit is found only here.
Source: PyTorch ``caffe2/serialize/inline_container.cc``; ZIP application note 6.3 for the end records.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import BinaryIO, NamedTuple

from correlator.checkpoints.disk import Window, shown

MAX_DIRECTORY_BYTES = 64 << 20
"""A central directory beyond this (about half a million tensors) is not parsed."""

_END = struct.Struct("<4s4H2LH")
_END64_LOCATOR = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQ2H2L4Q")
_CENTRAL = struct.Struct("<4s6xH4x3L3H8xL")
_LOCAL = struct.Struct("<4s5H3L2H")
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Member:
    """One stored entry: offset of its local header in the stream, size of its data in bytes."""

    header_offset: int
    size: int


@dataclass(frozen=True)
class ZipReport:
    """``problems`` empty: whole as far as looked. ``members``: entry name -> place; ``folder``: their common top."""

    problems: tuple[str, ...]
    members: Mapping[str, Member]
    folder: str


class _Damaged(ValueError):
    """The text says what is wrong with the directory."""


def check_zip(stream: BinaryIO | Window, size: int, *, deep: bool = False) -> ZipReport:
    """Check the ZIP that fills ``stream`` (``size`` bytes). ``deep`` reads all of it to verify every CRC.

    The directory is read here and not by ``zipfile``, whose object for every entry took half of the time for a
    checkpoint of thousands of files.
    """
    try:
        directory, start = _directory(stream, size)
        return _check_entries(stream, list(_entries(directory)), start, deep=deep)
    except (_Damaged, struct.error) as error:
        return ZipReport((shown(str(error), 120),), {}, "")


def _directory(stream: BinaryIO | Window, size: int) -> tuple[bytes, int]:
    """The bytes of the central directory and where it starts."""
    tail_at = max(size - (1 << 16) - _END.size, 0)
    stream.seek(tail_at)
    tail = stream.read(size - tail_at)
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) - at < _END.size:
        raise _Damaged(f"no ZIP central directory: the file is cut short at {size} bytes")
    _, disk, _, _, _, length, start, _ = _END.unpack_from(tail, at)
    if disk not in (0, 0xFFFF):
        raise _Damaged("a ZIP split over several volumes")
    if 0xFFFFFFFF in (length, start) and at >= _END64_LOCATOR.size:
        _, _, end64_at, _ = _END64_LOCATOR.unpack_from(tail, at - _END64_LOCATOR.size)
        if end64_at > size - _END64.size:
            raise _Damaged("the ZIP64 end record lies outside the file")
        stream.seek(end64_at)
        length, start = _END64.unpack(stream.read(_END64.size))[-2:]
    if length > MAX_DIRECTORY_BYTES:
        raise _Damaged(f"a ZIP central directory of {length} bytes: not read")
    if start + length > tail_at + at:
        raise _Damaged("the ZIP central directory lies outside the file")
    if start >= tail_at:
        return tail[start - tail_at : start - tail_at + length], start
    stream.seek(start)
    return stream.read(length), start


class _Entry(NamedTuple):
    """One entry of the directory; sizes and offset in bytes. ``stored``: not compressed."""

    name: str
    stored: bool
    crc: int
    packed: int
    size: int
    offset: int
    name_bytes: int


def _entries(directory: bytes) -> Iterator[_Entry]:
    at = 0
    while at < len(directory):
        fields = _CENTRAL.unpack_from(directory, at)
        signature, method, crc, packed, size, name_bytes, extra_bytes, comment_bytes, offset = fields
        behind = at + _CENTRAL.size + name_bytes
        if signature != b"PK\x01\x02" or behind + extra_bytes + comment_bytes > len(directory):
            raise _Damaged("damaged ZIP directory: an entry is not where it must be")
        if 0xFFFFFFFF in (packed, size, offset):
            size, packed, offset = _wide(directory[behind : behind + extra_bytes], size, packed, offset)
        name = directory[at + _CENTRAL.size : behind].decode("utf-8", "replace")
        yield _Entry(name, method == 0 and packed == size, crc, packed, size, offset, name_bytes)
        at = behind + extra_bytes + comment_bytes


def _wide(extra: bytes, *fields: int) -> list[int]:
    """Sizes and offset of more than 4 GiB: those that are all ones stand in the ZIP64 field, in this order."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        if kind == 1:
            wide = iter(struct.unpack_from(f"<{min(length, len(extra) - at - 4) // 8}Q", extra, at + 4))
            return [next(wide, field) if field == 0xFFFFFFFF else field for field in fields]
        at += 4 + length
    return list(fields)


def _check_entries(stream: BinaryIO | Window, entries: list[_Entry], start: int, *, deep: bool) -> ZipReport:
    problems: list[str] = []
    members: dict[str, Member] = {}
    free_from = 0
    for entry in sorted(entries, key=attrgetter("offset")):
        name, size, offset = entry.name, entry.size, entry.offset
        data_end = offset + _LOCAL.size + entry.name_bytes + size  # at least
        if not entry.stored and "/code/" in name:
            free_from = offset + _LOCAL.size + entry.packed  # TorchScript packs its sources
            continue
        if not entry.stored:
            problem = "is compressed, which torch never does"
        elif offset < free_from:
            problem = "overlaps the one before it"
        elif data_end > start:
            problem = f"claims {size} bytes, more than the file has"
        elif name.startswith("/") or ".." in name.split("/"):
            problem = "has a path that leaves the archive"
        elif name in members:
            problem = "occurs twice"
        else:
            members[name] = Member(offset, size)
            free_from = data_end
            if not deep or _sum(stream, members[name]) == entry.crc:
                continue
            problem = "does not match its CRC-32: damaged data"
        problems.append(f"entry {shown(name, 80)} {problem}")
        if len(problems) >= 20:
            break
    folder = next(
        (name[: -len("data.pkl")] for name in members if name.endswith("/data.pkl") and name.count("/") == 1), ""
    )
    if not problems and not folder:
        problems.append("a ZIP without data.pkl: not written by torch.save")
    return ZipReport(tuple(problems), members, folder)


def _sum(stream: BinaryIO | Window, member: Member) -> int | None:
    """The CRC-32 of an entry's data; None when they are not there."""
    try:
        stream.seek(data_offset(stream, member))
    except ValueError:
        return None
    left, crc = member.size, 0
    while left and (block := stream.read(min(left, _CHUNK))):
        crc = zlib.crc32(block, crc)
        left -= len(block)
    return None if left else crc


def data_offset(stream: BinaryIO | Window, member: Member) -> int:
    """Where the entry's data begin in the stream. Raises ValueError when there is no local header."""
    stream.seek(member.header_offset)
    head = stream.read(_LOCAL.size)
    if len(head) < _LOCAL.size or head[:4] != b"PK\x03\x04":
        raise ValueError("no local header where the ZIP directory says")
    name_length, extra_length = _LOCAL.unpack(head)[-2:]
    return member.header_offset + _LOCAL.size + int(name_length) + int(extra_length)


def read_member(stream: BinaryIO | Window, member: Member) -> bytes:
    """All bytes of an entry; the caller has looked at its size. Raises ValueError when some are missing."""
    stream.seek(data_offset(stream, member))
    data = stream.read(member.size)
    if len(data) < member.size:
        raise ValueError("an entry ends behind the end of the file")
    return data
