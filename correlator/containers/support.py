"""Support archives of one machine, which state in files of their own whose they are.

``sosreport`` (sos 3 and 4) keeps the output of ``hostname``, ``hostnamectl`` and ``uname -a``; the name of the archive
holds only the short name and may have been changed. ``nvidia-bug-report.sh`` writes ``uname -a`` into its first lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

_HOST = r"([A-Za-z0-9][\w.-]{0,252})"
#: Files of a sosreport that name the machine, the surest first, each with the form of its text.
_SOS_HOSTS = (
    (re.compile(r"^(|.*[/])sos_commands/host/hostname$"), re.compile(rf"\s*{_HOST}\s*$")),
    (re.compile(r"^(|.*[/])sos_commands/host/hostnamectl(?:_status)?$"), re.compile(rf"\s*Static hostname: {_HOST}\s")),
    (re.compile(r"^(|.*[/])sos_commands/kernel/uname_-a$"), re.compile(rf"Linux {_HOST} \d")),
)
_BUG_REPORT = re.compile(rb"Start of NVIDIA bug report log file\b")
_BUG_REPORT_HOST = re.compile(rb"^uname: Linux ([A-Za-z0-9][\w.-]{0,252}) \d", re.M)
_READ = 1024


def bug_report_host(head: bytes) -> str | None:
    """The machine whose bug report begins with these bytes; None for another file, or where it is not stated."""
    match = _BUG_REPORT_HOST.search(head) if _BUG_REPORT.search(head) else None
    return match[1].decode() if match else None


def sos_hosts(files: Iterable[tuple[str, Path]]) -> dict[str, str]:
    """The machine of each sosreport among the files (names relative to LOGDIR), by what its files' names begin with."""
    found: dict[str, str] = {}
    named = [(name, path) for name, path in files if "sos_commands/" in name]
    for place, form in reversed(_SOS_HOSTS):
        for name, path in named:
            if (top := place.match(name)) and (host := form.match(_first_bytes(path))):
                found[top[1]] = host[1]
    return found


def _first_bytes(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return stream.read(_READ).decode("utf-8", "replace")
    except OSError:
        return ""  # reported where the file is read as a log
