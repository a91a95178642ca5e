"""Errors of the operating system that a program prints in its own words, outside Python tracebacks.

Emitted by: anything that prints strerror(3) (glibc's English texts); interpreters and interactive shells about a
command that they could not start.
Gives: os.error (errno_text), os.command_failed (script or command).
"""

from __future__ import annotations

import re

from correlator.events import Parser, Pattern
from parsers._exception_text import read_final
from parsers._lines import one_line

#: Texts of strerror(3) that a training job does not survive; the frequent harmless ones (no such file, permission on a
#: probe, connection refused while retrying) are left to the emitters that know what they mean.
ERRNO_TEXTS = (
    "No space left on device",
    "Disk quota exceeded",
    "Stale file handle",
    "Stale NFS file handle",
    "Transport endpoint is not connected",
    "Cannot send after transport endpoint shutdown",
    "Input/output error",
    "Remote I/O error",
    "Too many open files",
    "Cannot allocate memory",
    "Read-only file system",
    "Structure needs cleaning",
    "Key has expired",
    "No such device or address",
    "Value too large for defined data type",
    "Resource temporarily unavailable",
    "Text file busy",
)


def _plain(match: re.Match[str]) -> dict[str, object] | None:
    """Refuses tracebacks (their final line is an event of its own) and lines that quote a whole traceback."""
    text = match.string
    final = read_final(text)
    if (final is not None and final.certain) or text.startswith(("  ", "\t")) or '"py_callstack"' in text:
        return None
    return {"errno_text": match["errno_text"]}


ERROR = Pattern(
    event="os.error",
    literals=ERRNO_TEXTS,
    block=one_line("(?P<errno_text>" + "|".join(map(re.escape, ERRNO_TEXTS)) + ")", _plain),
    block_lines=0,
    sample="cp: error writing '/scratch/shard_003.bin': No space left on device",
    not_samples=(
        "OSError: [Errno 28] No space left on device",
        '    raise OSError("No space left on device")',
    ),
)

COMMAND_FAILED = Pattern(
    event="os.command_failed",
    literals=(": command not found", "can't open file '"),
    regex=r"can't open file '(?P<script>[^']+)': \[Errno \d+\] (?P<why>.+)|"
    r"^(?:-?(?:ba|z|k|da)?sh|env): (?P<command>[\w./-]+): command not found",
    sample="python3: can't open file '/opt/job/train.py': [Errno 2] No such file or directory",
    not_samples=("retry: command not found in cache", "launch.sh: line 42: torchrun: command not found"),
)

PARSER = Parser("os_errors", (ERROR, COMMAND_FAILED))
