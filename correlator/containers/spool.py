"""A temporary folder for what has no file of its own: members of archives, standard input, objects fetched from afar.

The copies have numbers for names, so that no name from an archive ever reaches the file system. The folder lives as
long as someone holds the Spool (every source file that lies in it does) and is removed then, or at exit.
"""

from __future__ import annotations

import errno
import shutil
import tempfile
import weakref
from pathlib import Path


class Spool:
    """The folder; made when the first file is wanted."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._count = 0

    def new_path(self) -> Path:
        """A path for one more file, which does not exist yet."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="correlator-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._count += 1
        return self._folder / str(self._count)

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        # A worker reads the files but does not own them: only this process may remove the folder.
        return type(None), ()


def why_not_written(error: OSError) -> str:
    """One clause for the user on why a copy could not be written or its source not read."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"no room in the temporary folder {tempfile.gettempdir()} (TMPDIR names another)"
    return (error.strerror or str(error)).lower()
