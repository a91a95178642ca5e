"""Files in the user's cache folder: what can be made again, but takes a noticeable part of a short run.

What cannot be read or written is ignored. CORRELATOR_CACHE=0 turns it off.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path

_FOLDER = "rank-correlator"


def cache_folder() -> Path | None:
    """Where this user's programs keep what they can make again; None where there is no home or it is turned off."""
    if os.environ.get("CORRELATOR_CACHE") == "0":
        return None
    stated = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME", "")
    if Path(stated).is_absolute():
        return Path(stated) / _FOLDER
    try:
        home = Path.home()
    except RuntimeError:
        return None
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / _FOLDER


def read_cached(name: str) -> bytes | None:
    """A file of the cache folder; None when there is none, or it is not this user's own."""
    folder = cache_folder()
    if folder is None:
        return None
    try:
        with (folder / name).open("rb") as stream:
            owner = os.fstat(stream.fileno()).st_uid
            return stream.read() if not hasattr(os, "getuid") or owner == os.getuid() else None
    except OSError:
        return None


def write_cached(name: str, content: bytes) -> None:
    """Put a file into the cache folder, whole or not at all."""
    folder = cache_folder()
    if folder is None:
        return
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(dir=folder, prefix=".part-")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
            Path(part).replace(folder / name)
        except OSError:
            Path(part).unlink(missing_ok=True)
            raise
