"""Folders below those named at the start. No address leads anywhere else, and no link is followed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from correlator.errors import UsageError


def find_place(roots: Sequence[Path], address: str) -> Path:
    """The folder or file that ``NUMBER/sub/folder`` means: the number counts the roots from 0.

    Raises UsageError when there is none, whatever the reason, so that nothing is learned of what lies elsewhere.
    """
    number, *parts = address.rstrip("/").split("/")
    if not number.isascii() or not number.isdecimal() or len(number) > 4 or int(number) >= len(roots):
        raise UsageError("no such folder")
    path = roots[int(number)]
    for part in parts:
        if part in ("", ".", "..") or "\0" in part:
            raise UsageError("no such folder")
        path = path / part
        if path.is_symlink():
            raise UsageError("a link, which is not followed here")
    try:
        if not path.exists():
            raise UsageError("no such folder")
    except OSError:
        raise UsageError("no such folder") from None
    return path


def list_folder(folder: Path) -> tuple[list[str], list[tuple[str, int]]]:
    """Names of the folders, and names and bytes of the files, in ``folder``; links and what is neither are left out.

    So is a folder whose name is not UTF-8, since no address can hold it; with the folder above it is diagnosed all the
    same. Raises UsageError where it cannot be listed.
    """
    folders: list[str] = []
    files: list[tuple[str, int]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False) and _is_utf8(entry.name):
                    folders.append(entry.name)
                elif entry.is_file(follow_symlinks=False):
                    files.append((entry.name, entry.stat(follow_symlinks=False).st_size))
    except OSError as error:
        raise UsageError(f"the folder cannot be listed: {(error.strerror or str(error)).lower()}") from None
    return sorted(folders), sorted(files)


def _is_utf8(name: str) -> bool:
    return name.encode("utf-8", "surrogateescape") == name.encode("utf-8", "replace")
