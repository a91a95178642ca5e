"""Writing a bag: BagIt 1.0 (RFC 8493) with SHA-256, as a folder or a zip file, there whole or not at all.

The files are written here, since the library ``bagit`` writes into the folder in place, changes the working directory
and writes version 0.97; it is asked when a bag is verified.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from correlator.errors import UsageError

MANIFEST, TAG_MANIFEST = "manifest-sha256.txt", "tagmanifest-sha256.txt"
DECLARATION = b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n"
#: The comment of the zip file: this word and the SHA-256 of every byte before it.
SEAL = b"sha256:"
SEAL_LENGTH = len(SEAL) + 64
#: Earliest date that a zip file can hold; equal payloads give equal members.
_ZIP_DATE = (1980, 1, 1, 0, 0, 0)

#: Gives the tag files beside the manifests, from the payload manifest.
TagFiles = Callable[[bytes], Mapping[str, bytes]]


def manifest_of(files: Mapping[str, bytes]) -> bytes:
    """Manifest lines of some files by path; CR, LF and ``%`` of a path are percent-encoded (RFC 8493, 2.1.3)."""
    lines = []
    for path in sorted(files):
        encoded = path.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
        lines.append(f"{hashlib.sha256(files[path]).hexdigest()}  {encoded}\n")
    return "".join(lines).encode()


def bag_files(payload: Mapping[str, bytes], info: Mapping[str, str], tags: TagFiles) -> dict[str, bytes]:
    """All files of a bag by path. ``payload``: paths below ``data/``; ``info``: what ``bag-info.txt`` says."""
    data = {f"data/{path}": content for path, content in payload.items()}
    manifest = manifest_of(data)
    oxum = f"{sum(map(len, data.values()))}.{len(data)}"
    labels = {**info, "Payload-Oxum": oxum}
    own = {
        "bagit.txt": DECLARATION,
        "bag-info.txt": "".join(f"{label}: {' '.join(text.split())}\n" for label, text in labels.items()).encode(),
        MANIFEST: manifest,
        **tags(manifest),
    }
    return {**data, **own, TAG_MANIFEST: manifest_of(own)}


def write_bag(target: Path, files: Mapping[str, bytes], *, beside: Callable[[], None] = lambda: None) -> None:
    """Writes a bag as a folder, or as a zip file where the name ends so, under a temporary name and renames it.

    ``beside`` is called when all is on disk and before the bag gets its name. Raises UsageError where it cannot be
    written (a full disk); then nothing of it is left.
    """
    temporary = target.with_name(f".correlator-{secrets.token_hex(8)}.tmp")
    try:
        try:
            if is_zip(target):
                _write_zip(temporary, target.stem, files)
            else:
                _write_folder(temporary, files)
            beside()
            if target.exists():  # made meanwhile: never replaced
                raise UsageError(f"{target} is there already; choose another name")
            temporary.rename(target)
        finally:
            if temporary.is_dir():
                shutil.rmtree(temporary, ignore_errors=True)
            else:
                temporary.unlink(missing_ok=True)
    except OSError as fault:
        size = sum(map(len, files.values()))
        raise UsageError(
            f"cannot write {target}: {fault.strerror or fault} (the bundle has {size / 1e6:.1f} MB); nothing was left"
        ) from None


def is_zip(path: Path) -> bool:
    """Whether a name asks for a zip file."""
    return path.suffix.lower() == ".zip"


def _write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    folders = {folder}
    folder.mkdir()
    for path in sorted(files):
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        folders.update(parent for parent in place.parents if folder in (parent, *parent.parents))
        with place.open("xb") as file:
            file.write(files[path])
            file.flush()
            os.fsync(file.fileno())  # a disk may say only now that it is full
    for part in folders:
        _sync_folder(part)


def _write_zip(path: Path, name: str, files: Mapping[str, bytes]) -> None:
    with path.open("x+b") as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for member in sorted(files):
                info = zipfile.ZipInfo(f"{name}/{member}", _ZIP_DATE)
                info.compress_type = zipfile.ZIP_DEFLATED
                info.external_attr = 0o100644 << 16
                archive.writestr(info, files[member])
            archive.comment = SEAL + b"0" * 64
        end = file.seek(0, os.SEEK_END)
        file.seek(0)
        sum_ = hashlib.sha256()
        left = end - SEAL_LENGTH
        while left and (block := file.read(min(left, 1 << 20))):
            sum_.update(block)
            left -= len(block)
        file.seek(end - SEAL_LENGTH)
        file.write(SEAL + sum_.hexdigest().encode())
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
