"""TensorStore's OCDBT: which files of a database must exist and how long each must be at least.

``manifest.ocdbt`` names the root of the newest version; from there a B+tree leads to all values. Every reference is a
file, an offset and a length, so a missing or cut file shows without reading any value. Manifest and nodes state their
own length and end in a CRC-32C; bodies may be packed with zstd.
Source: TensorStore's description of the format, ``google.github.io/tensorstore/kvstore/ocdbt``.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import zstandard

from correlator.checkpoints.disk import File, Folder, shown
from correlator.checkpoints.model import Findings

_MANIFEST, _NODE = b"\x0c\xdb\x3a\x2a", b"\x0c\xdb\x20\xde"
MAX_BODY_BYTES = 64 << 20
"""A manifest or node, unpacked: nodes of real databases hold at most 8 MiB."""
MAX_SUMMED_BYTES = 1 << 20
"""A manifest or node whose checksum is verified, at some 10 MB/s; they have some kB."""
MAX_NODES = 20_000
MAX_NAMES = 1_000_000


class _Malformed(ValueError):
    """The text says what is wrong."""


@dataclass(frozen=True)
class _Place:
    """Bytes of one file, by its path inside the database."""

    file: str
    offset: int
    length: int


class _Body:
    """A cursor over the body of a manifest or node."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        if not 0 <= count <= len(self.data) - self.at:
            raise _Malformed("ends early")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
            if shift > 63:
                raise _Malformed("holds an absurd number")

    def numbers(self, count: int) -> list[int]:
        return [self.number() for _ in range(count)]

    def count(self) -> int:
        value = self.number()
        if value > MAX_NAMES:
            raise _Malformed("holds an absurd number")
        return value

    def files(self) -> list[str]:
        """A table of data files: shared prefixes, suffixes, lengths of base paths."""
        total = self.count()
        prefixes = [0, *self.numbers(max(total - 1, 0))]
        suffixes = self.numbers(total)
        self.numbers(total)
        names: list[str] = []
        last, room = b"", MAX_BODY_BYTES
        for prefix, suffix in zip(prefixes, suffixes, strict=False):
            last = last[:prefix] + self.take(suffix)
            room -= len(last)
            if room < 0:
                raise _Malformed("holds an absurd table of files")
            names.append(last.decode("utf-8", "replace"))
        return names

    def places(self, files: list[str], count: int) -> list[_Place]:
        numbers, offsets, lengths = self.numbers(count), self.numbers(count), self.numbers(count)
        if any(number >= len(files) for number in numbers):
            raise _Malformed("points to no file")
        return [_Place(files[n], o, s) for n, o, s in zip(numbers, offsets, lengths, strict=True)]


def check_database(folder: Folder, label: str, findings: Findings) -> None:
    """Check the database in ``folder``; ``label`` names it in problems."""
    prefix = f"{label}/" if label else ""
    manifest = folder.files.get("manifest.ocdbt")
    if manifest is None:
        findings.fault(f"{prefix}manifest.ocdbt is missing")
        return
    try:
        roots = _roots(_unpacked(manifest.bytes(MAX_BODY_BYTES), _MANIFEST))
    except _Malformed as error:
        findings.fault(f"{prefix}manifest.ocdbt {error}")
        return
    except OSError as error:
        findings.doubt(f"{prefix}manifest.ocdbt cannot be read: {error.strerror or error}")
        return
    todo, seen = deque(roots), set(roots)
    while todo:
        if len(seen) > MAX_NODES:
            findings.doubt(f"{prefix}manifest.ocdbt: more than {MAX_NODES} nodes, the rest was not looked at")
            return
        place = todo.popleft()
        try:
            inner = _node(folder, place)
        except _Malformed as error:
            findings.fault(f"{prefix}{shown(place.file, 120)} {error}")
        except OSError as error:
            findings.doubt(f"{prefix}{shown(place.file, 120)} cannot be read: {error.strerror or error}")
        else:
            todo += [one for one in inner if one not in seen]
            seen.update(inner)


def _unpacked(data: bytes, magic: bytes) -> _Body:
    if data[:4] != magic:
        raise _Malformed("does not begin as one: damaged or never written")
    if int.from_bytes(data[4:12], "little") != len(data):
        raise _Malformed(f"is cut short: {len(data)} bytes instead of {int.from_bytes(data[4:12], 'little')}")
    if len(data) <= MAX_SUMMED_BYTES and crc32c(data[:-4]) != int.from_bytes(data[-4:], "little"):
        raise _Malformed("does not match its CRC-32C: damaged data")
    head = _Body(data[12:-4])
    if head.number() != 0:
        raise _Malformed("is of an unknown version")
    packed = head.number()
    rest = head.data[head.at :]
    if not packed:
        return _Body(rest)
    try:
        # What the frame says of its own size is no promise: no more than the limit is ever unpacked.
        with zstandard.ZstdDecompressor(max_window_size=MAX_BODY_BYTES).stream_reader(rest) as frame:
            body = frame.read(MAX_BODY_BYTES + 1)
    except zstandard.ZstdError as error:
        raise _Malformed("cannot be unpacked: damaged") from error
    if len(body) > MAX_BODY_BYTES:
        raise _Malformed("would unpack to an absurd size")
    return _Body(body)


def _table() -> tuple[int, ...]:
    rows = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        rows.append(value)
    return tuple(rows)


_CRC32C = _table()


def crc32c(data: bytes) -> int:
    """The checksum of Castagnoli's polynomial; the nodes of a database have some kB, so plain Python will do."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC32C[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def _roots(body: _Body) -> list[_Place]:
    """The root of the newest version in a manifest; none for an empty database or one with numbered manifests."""
    body.take(16)
    kind = body.number()
    body.numbers(2)
    body.take(1)
    if body.number():
        body.take(4)
    if kind:
        return []
    files = body.files()
    versions = body.count()
    body.numbers(versions)
    body.take(versions)
    places = body.places(files, versions)
    # The newest version comes last; an empty one has a root of no length.
    return [place for place in places[-1:] if place.length]


def _node(folder: Folder, place: _Place) -> list[_Place]:
    """The nodes below one, after a look at the files of its values."""
    file = _whole_file(folder, place)
    with file.open() as stream:
        stream.seek(place.offset)
        body = _unpacked(stream.read(min(place.length, MAX_BODY_BYTES)), _NODE)
    height = body.take(1)[0]
    files = body.files()
    entries = body.count()
    body.numbers(max(entries - 1, 0))
    suffixes = body.numbers(entries)
    if height:
        body.numbers(entries)
    body.take(sum(suffixes))
    if height:
        return body.places(files, entries)
    lengths = body.numbers(entries)
    kinds = list(body.take(entries))
    outside = [length for length, kind in zip(lengths, kinds, strict=True) if kind]
    numbers, offsets = body.numbers(len(outside)), body.numbers(len(outside))
    if any(number >= len(files) for number in numbers):
        raise _Malformed("points to no file")
    for number, offset, length in zip(numbers, offsets, outside, strict=True):
        _whole_file(folder, _Place(files[number], offset, length))
    return []


def _whole_file(folder: Folder, place: _Place) -> File:
    """The file of a place, looked up in listings, long enough to hold it."""
    *parents, name = place.file.split("/")
    for parent in parents:
        inner = folder.folders.get(parent)
        if inner is None:
            raise _Malformed(f"refers to {shown(place.file, 120)}, which is missing")
        folder = inner
    file = folder.files.get(name)
    if file is None:
        raise _Malformed(f"refers to {shown(place.file, 120)}, which is missing")
    if file.size < place.offset + place.length:
        raise _Malformed(f"refers to byte {place.offset + place.length} of {shown(place.file, 120)}: it is cut short")
    return file
