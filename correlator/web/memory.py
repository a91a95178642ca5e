"""How much memory a worker and the processes that it started hold, as the kernel counts it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_PROC = Path("/proc")
#: Fields of ``/proc/PID/statm`` (proc(5)), in pages.
_RESIDENT, _SHARED = 1, 2
#: Fields of ``/proc/PID/stat`` behind the program's name, which may hold blanks and brackets: state, parent, group.
_GROUP = 2


def bytes_of_group(group: int) -> int:
    """Bytes of memory that the processes of a group hold of their own, mapped files not counted.

    0 where the kernel shows no ``/proc`` (macOS): there is no limit then.
    """
    return sum(map(_own_bytes, _members(group)))


def _members(group: int) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        for process in _PROC.iterdir():
            if process.name.isdecimal():
                with contextlib.suppress(OSError):  # it ended meanwhile
                    fields = (process / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
                    if int(fields[_GROUP]) == group:
                        yield process


def _own_bytes(process: Path) -> int:
    try:
        pages = (process / "statm").read_text("ascii").split()
    except OSError:
        return 0
    return (int(pages[_RESIDENT]) - int(pages[_SHARED])) * os.sysconf("SC_PAGE_SIZE")
