"""Whether a ZIP written by ``torch.save`` is whole: central directory, stored entries, sizes that fit, CRC if asked.

PyTorch stores every entry uncompressed and writes the central directory last, so a file cut short has none. The
CRC-32 of each entry is written but not verified when torch loads a tensor: a flipped bit is found only here.
Source: PyTorch ``caffe2/serialize/inline_container.cc``; ZIP application note 6.3 for the end records.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import BinaryIO

from correlator.checkpoints.disk import Window, shown

MAX_DIRECTORY_BYTES = 64 << 20
"""A central directory beyond this (about half a million tensors) is not parsed."""

_END = struct.Struct("<4s4H2LH")
_END64_LOCATOR = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQ2H2L4Q")
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


def check_zip(stream: BinaryIO | Window, size: int, *, deep: bool = False) -> ZipReport:
    """Check the ZIP that fills ``stream`` (``size`` bytes). ``deep`` reads all of it to verify every CRC."""
    try:
        problem = _end_problem(stream, size)
        if problem:
            return ZipReport((problem,), {}, "")
        stream.seek(0)
        # zipfile asks for no more than read, seek, tell and seekable, which a Window has.
        with zipfile.ZipFile(stream) as archive:
            return _check_entries(archive, deep=deep)
    except (zipfile.BadZipFile, NotImplementedError, struct.error, ValueError, EOFError) as error:
        return ZipReport((f"damaged ZIP directory: {shown(str(error), 120)}",), {}, "")


def _end_problem(stream: BinaryIO | Window, size: int) -> str | None:
    """Look for the end record before zipfile does, which would parse a directory of any size."""
    tail_at = max(size - (1 << 16) - _END.size, 0)
    stream.seek(tail_at)
    tail = stream.read(size - tail_at)
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) - at < _END.size:
        return f"no ZIP central directory: the file is cut short at {size} bytes"
    _, disk, _, _, _, directory_size, directory_at, _ = _END.unpack_from(tail, at)
    if disk not in (0, 0xFFFF):
        return "a ZIP split over several volumes"
    if 0xFFFFFFFF in (directory_size, directory_at) and at >= _END64_LOCATOR.size:
        _, _, end64_at, _ = _END64_LOCATOR.unpack_from(tail, at - _END64_LOCATOR.size)
        if end64_at > size - _END64.size:
            return "the ZIP64 end record lies outside the file"
        stream.seek(end64_at)
        directory_size, directory_at = _END64.unpack(stream.read(_END64.size))[-2:]
    if directory_size > MAX_DIRECTORY_BYTES:
        return f"a ZIP central directory of {directory_size} bytes: not read"
    if directory_at + directory_size > tail_at + at:
        return "the ZIP central directory lies outside the file"
    return None


def _check_entries(archive: zipfile.ZipFile, *, deep: bool) -> ZipReport:
    problems: list[str] = []
    members: dict[str, Member] = {}
    free_from = 0
    for info in sorted(archive.infolist(), key=lambda entry: entry.header_offset):
        name = shown(info.filename, 80)
        data_end = info.header_offset + _LOCAL.size + len(info.orig_filename) + info.file_size  # at least
        stored = info.compress_type == zipfile.ZIP_STORED and info.compress_size == info.file_size
        if not stored and "/code/" in info.filename:
            free_from = info.header_offset + _LOCAL.size + info.compress_size  # TorchScript packs its sources
        elif not stored:
            problems.append(f"entry {name} is compressed, which torch never does")
        elif info.header_offset < free_from:
            problems.append(f"entry {name} overlaps the one before it")
        elif data_end > archive.start_dir:
            problems.append(f"entry {name} claims {info.file_size} bytes, more than the file has")
        elif info.filename.startswith("/") or ".." in info.filename.split("/"):
            problems.append(f"entry {name} has a path that leaves the archive")
        elif info.filename in members:
            problems.append(f"entry {name} occurs twice")
        else:
            members[info.filename] = Member(info.header_offset, info.file_size)
            free_from = data_end
            if deep:
                problems += _crc_problem(archive, info, name)
        if len(problems) >= 20:
            break
    folder = next(
        (name[: -len("data.pkl")] for name in members if name.endswith("/data.pkl") and name.count("/") == 1), ""
    )
    if not problems and not folder:
        problems.append("a ZIP without data.pkl: not written by torch.save")
    return ZipReport(tuple(problems), members, folder)


def _crc_problem(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> list[str]:
    try:
        with archive.open(info) as entry:
            while entry.read(_CHUNK):
                pass
    except zipfile.BadZipFile:
        return [f"entry {name} does not match its CRC-32: damaged data"]
    return []


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
