"""What a server may do: which folders it opens, for whom, and how much of anything."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

#: A token that is typed in is at least so long; the one that is made has 43 characters.
LEAST_TOKEN = 16
#: Names by which a browser on this machine reaches it; any other is an attempt to get in through somebody's DNS.
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


@dataclass(frozen=True)
class Settings:
    """``roots``: folders that may be opened, links resolved. ``token``: None lets everyone in who reaches the port.

    ``hosts``: names by which the server may be addressed; None: any. ``max_upload``: bytes of one request;
    ``max_disk``: bytes on disk of all that is held, what was unpacked included. ``max_memory``: bytes of memory of one
    diagnosis. ``time_limit`` and ``upload_limit``:
    seconds for one diagnosis and for one upload. ``parallel`` diagnoses run at a time, ``waiting`` more may wait.
    ``held`` results are there for ``hold_seconds`` after they were last looked at. ``keep``: folder that gets a copy of
    each report. ``timezone``: of stamps that state none.
    """

    roots: tuple[Path, ...] = ()
    token: str | None = None
    hosts: frozenset[str] | None = LOOPBACK_NAMES
    max_upload: int = 256 << 20
    max_disk: int = 8 << 30
    max_memory: int = 4 << 30
    time_limit: float = 300.0
    upload_limit: float = 300.0
    parallel: int = 2
    waiting: int = 16
    held: int = 32
    hold_seconds: float = 1800.0
    keep: Path | None = None
    timezone: str | None = None
