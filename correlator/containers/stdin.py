"""Standard input as a file, so that it can be read twice and quoted."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from correlator.containers.spool import Spool, why_not_written
from correlator.errors import NothingReadable, UsageError


def spool_stdin(spool: Spool) -> Path:
    """All of standard input in a file. Raises UsageError for a terminal, NothingReadable when nothing comes."""
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("- means standard input, which is a terminal here; pipe a log into it")
    path = spool.new_path()
    try:
        with path.open("wb") as out:
            shutil.copyfileobj(sys.stdin.buffer, out, 1 << 20)
    except OSError as error:
        raise UsageError(f"standard input could not be kept: {why_not_written(error)}") from error
    if path.stat().st_size == 0:
        raise NothingReadable("nothing came on standard input")
    return path
