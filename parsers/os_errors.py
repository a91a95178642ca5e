"""Errors of the operating system that a program or shell prints in its own words, outside Python tracebacks.

Emitted by: anything that prints strerror(3), and shells about the commands they ran. glibc's English texts.
Gives: os.error (errno_text), os.child_killed (pid, signal), os.command_failed (a command that could not be started).
"""

from __future__ import annotations

import re

from correlator.events import Parser, Pattern
from parsers._exception_text import read_final
from parsers._lines import one_line, signal_number

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


def _command(match: re.Match[str]) -> dict[str, object]:
    return {"command": match["script"] or match["command"], "errno_text": match["why"] or match["text"]}


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

CHILD_KILLED = Pattern(
    event="os.child_killed",
    literals=(" Killed ", " Segmentation fault", " Bus error", " Aborted ", " Illegal instruction", " Terminated "),
    block=one_line(
        r"\bline \d+: +(?P<pid>\d+) (?P<how>Killed|Segmentation fault|Bus error|Aborted|Illegal instruction|"
        r"Floating point exception|Terminated) ",
        lambda m: {"pid": m["pid"], "signal": signal_number(m["how"]), "how": m["how"]},
    ),
    block_lines=0,
    sample="/opt/job/launch.sh: line 14:  4711 Killed                  python train.py --config run.yaml",
    not_samples=("Worker 4711 Killed ", "2 tasks Terminated "),
)

COMMAND_FAILED = Pattern(
    event="os.command_failed",
    literals=(": command not found", "can't open file '"),
    block=one_line(
        r"can't open file '(?P<script>[^']+)': \[Errno \d+\] (?P<why>.+)|"
        r"\bline \d+: (?P<command>[\w./-]+): (?P<text>command not found)|"
        r"^(?:-?(?:ba|z|k|da)?sh): (?P<other>[\w./-]+): command not found",
        lambda m: _command(m) if not m["other"] else {"command": m["other"], "errno_text": "command not found"},
    ),
    block_lines=0,
    sample="python3: can't open file '/opt/job/train.py': [Errno 2] No such file or directory",
    not_samples=("retry: command not found in cache",),
)

PARSER = Parser("os_errors", (ERROR, CHILD_KILLED, COMMAND_FAILED))
