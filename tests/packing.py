"""Archives of every kind, made from a few names and contents."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import zstandard

MTIME = 1_714_542_018


def lz4(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "lz4") as stream:
        stream.write(content)
    return bytes(sink.getvalue())


COMPRESS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor().compress,
    "lz4": lz4,
}


def tar(members: Mapping[str, bytes | tarfile.TarInfo]) -> bytes:
    """A tar archive; a TarInfo stands for a member without content (a link, a device)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in members.items():
            info = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.mtime = MTIME
            if isinstance(content, bytes):
                info.size = len(content)
            archive.addfile(info, io.BytesIO(content) if isinstance(content, bytes) else None)
    return out.getvalue()


def zipped(members: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name, (2024, 5, 1, 5, 40, 18)), content, method)
    return out.getvalue()


ARCHIVES = {
    "logs.tar": tar,
    "logs.tgz": lambda members: gzip.compress(tar(members)),
    "logs.tar.gz": lambda members: gzip.compress(tar(members)),
    "logs.tar.bz2": lambda members: bz2.compress(tar(members)),
    "logs.tar.xz": lambda members: lzma.compress(tar(members)),
    "logs.tar.zst": lambda members: zstandard.ZstdCompressor().compress(tar(members)),
    "logs.tar.lz4": lambda members: lz4(tar(members)),
    "logs.zip": zipped,
    "stored.zip": lambda members: zipped(members, zipfile.ZIP_STORED),
    "lzma.zip": lambda members: zipped(members, zipfile.ZIP_LZMA),
}


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def put_archive(folder: Path, name: str, members: Mapping[str, bytes]) -> Path:
    path = folder / name
    path.write_bytes(ARCHIVES[name](members))
    return path
