"""The temporary folder of a server, and the removal of those whose server was killed before it could.

A live server holds a lock on the file ``lock`` in its folder; the system lets go of it however the process ends, so a
folder whose lock is free belongs to nobody. The lock is taken before it has its name: no other server can see it free.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from pathlib import Path

_PREFIX = "correlator-serve-"
_LOCK = "lock"


class Lodging:
    """A new folder in the system's temporary one, ours until ``close``."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
        unnamed = self.folder / "unlocked"
        self._lock = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unnamed.rename(self.folder / _LOCK)

    def close(self) -> None:
        """Removes the folder with all that lies in it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)


def remove_left_over() -> None:
    """Removes the folders of this user whose server is no more. What cannot be told or removed stays."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            _remove_unless_held(folder)


def _remove_unless_held(folder: Path) -> None:
    if folder.is_symlink() or folder.lstat().st_uid != os.getuid():
        return  # anybody can make a folder of this name there
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(lock).st_mode):
            return
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
    finally:
        os.close(lock)
