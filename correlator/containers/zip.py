"""Zip archives; a torn one, whose directory is lost with its end, is read by the headers in front of its members."""

from __future__ import annotations

import calendar
import io
import lzma
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from correlator.containers.unpack import Contents, Unpacker
from correlator.reading import DamagedArchive

_ENCRYPTED, _SIZES_BEHIND = 1, 8
_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_LOCAL_MAGIC = b"PK\x03\x04"


def zip_reason(names: Sequence[str]) -> str | None:
    """What a zip archive with these members is when it is no archive of logs; None when it may be one."""
    if any(name == "data.pkl" or name.endswith("/data.pkl") for name in names):
        return "a torch checkpoint"
    if names and all(name.endswith(".npy") for name in names):
        return "numpy arrays"
    if "[Content_Types].xml" in names:
        return "an office document"
    if "META-INF/MANIFEST.MF" in names:
        return "program code, not a log"
    return None


def unpack_zip(path: Path, unpacker: Unpacker) -> Contents | str:
    """The members of a zip archive, or what kind of program file it is."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            reason = zip_reason([member.filename for member in members])
            if reason is not None:
                return reason
            for member in members:
                _take(archive, member, unpacker)
    except DamagedArchive as error:
        unpacker.contents.problems.append(str(error))
    except (zipfile.BadZipFile, ValueError, EOFError, NotImplementedError, struct.error, OverflowError):
        with path.open("rb") as stream:
            return _salvage(stream, unpacker)
    return unpacker.contents


def _take(archive: zipfile.ZipFile, member: zipfile.ZipInfo, unpacker: Unpacker) -> None:
    mode = member.external_attr >> 16
    if not member.filename or member.is_dir():
        return
    if stat.S_ISLNK(mode):
        unpacker.leave_out(member.filename, "a link inside the archive; not followed")
    elif stat.S_IFMT(mode) and not stat.S_ISREG(mode):
        unpacker.leave_out(member.filename, "a device, pipe or socket")
    elif member.flag_bits & _ENCRYPTED:
        unpacker.leave_out(member.filename, "encrypted")
    else:
        try:
            with archive.open(member) as stream:
                unpacker.copy(member.filename, _time_of(member.date_time), _counting(stream.read, unpacker))
        except DamagedArchive:
            raise
        except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, ValueError) as error:
            unpacker.contents.problems.append(f"{member.filename}: {error}")
        except OSError as error:
            if error.errno is not None:
                raise
            unpacker.contents.problems.append(f"{member.filename}: {error}")  # bz2 says so of corrupt data


def _counting(read: Callable[[int], bytes], unpacker: Unpacker) -> Callable[[int], bytes]:
    def counted(count: int) -> bytes:
        piece = read(count)
        unpacker.budget.spend(len(piece))
        return piece

    return counted


def _time_of(moment: tuple[int, ...]) -> int:
    """Modification time in ns; zip states it without a zone, UTC is taken."""
    try:
        return max(0, calendar.timegm((*moment, 0, 0, 0))) * 1_000_000_000
    except (ValueError, OverflowError):
        return 0


# --- torn archives ---------------------------------------------------------------------------------------------------


def _salvage(stream: BinaryIO, unpacker: Unpacker) -> Contents | str:
    """Members one after the other, as their own headers tell, up to the first that does not."""
    contents = unpacker.contents
    contents.problems.append("damaged archive: its directory is missing; read up to where it ends")
    try:
        while len(raw := stream.read(_LOCAL_HEADER.size)) == _LOCAL_HEADER.size:
            magic, _, flags, method, time, date, _, packed, size, name_length, extra_length = _LOCAL_HEADER.unpack(raw)
            if magic != _LOCAL_MAGIC:
                break
            name = stream.read(name_length).decode("utf-8", "replace")
            extra = stream.read(extra_length)
            if (reason := zip_reason([name])) is not None:
                return reason
            if size == 0xFFFFFFFF and extra[:2] == b"\x01\x00" and len(extra) >= 20:
                _, packed = struct.unpack("<QQ", extra[4:20])
            if flags & _ENCRYPTED or method not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                break
            if method == zipfile.ZIP_STORED and flags & _SIZES_BEHIND:
                break  # nothing says where the member ends
            start = stream.tell()
            read = _Inflated(stream).read if method == zipfile.ZIP_DEFLATED else _Stored(stream, packed).read
            if not name.endswith("/"):
                unpacker.copy(name, _time_of(_dos_time(date, time)), _counting(read, unpacker))
            if flags & _SIZES_BEHIND:
                while read(1 << 16):  # a member that was not wanted: only its end tells where the next one begins
                    pass
                _skip_descriptor(stream)
            else:
                stream.seek(start + packed)
    except (DamagedArchive, zlib.error) as error:
        contents.problems.append(str(error))
    return contents


def _dos_time(date: int, time: int) -> tuple[int, ...]:
    return 1980 + (date >> 9), date >> 5 & 15, date & 31, time >> 11, time >> 5 & 63, (time & 31) * 2


def _skip_descriptor(stream: BinaryIO) -> None:
    """Go to the next header behind the sizes that follow a member: 12 or 20 bytes, with or without a signature."""
    start = stream.tell()
    following = stream.read(64)
    at = following.find(_LOCAL_MAGIC)
    stream.seek(start + at if at >= 0 else 0, io.SEEK_SET if at >= 0 else io.SEEK_END)


class _Stored:
    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream, self._left = stream, size

    def read(self, count: int) -> bytes:
        piece = self._stream.read(min(count, self._left))
        self._left -= len(piece)
        return piece


class _Inflated:
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)

    def read(self, count: int) -> bytes:
        while not self._inflate.eof:
            packed = self._inflate.unconsumed_tail or self._stream.read(1 << 14)
            if not packed:
                return self._inflate.flush()
            piece = self._inflate.decompress(packed, count)
            if self._inflate.eof:
                self._stream.seek(-len(self._inflate.unused_data), io.SEEK_CUR)
            if piece:
                return piece
        return b""
