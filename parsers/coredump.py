"""Core dumps: what systemd-coredump, coredumpctl and gdb say about a process that crashed.

Emitted by: systemd ``src/coredump/{coredump,coredumpctl}.c`` (texts of 245 to 256; ``terminated abnormally`` from 254
on), gdb's first lines on a core file. ``pid`` joins with the rank, ``signal`` says how it died: a dump that a SIGABRT
wrote is often the watchdog's. The core file itself is binary and not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from correlator.events import Found, Parser, Pattern
from parsers._lines import named, one_line, signal_number

_SIGNAL = re.compile(r"^ {2,}Signal: (\d{1,3}) \(\w+\)$")
_FIELD = re.compile(r"^ {2,}(Timestamp|Executable|Command Line|Hostname|Message): (.+)$")
_COLUMN = {"Executable": "path", "Command Line": "command", "Hostname": "node"}
_MESSAGE = re.compile(r"Process (?P<pid>\d+) \((?P<name>[^)]*)\) of user \S+ (?:dumped core|terminated abnormally)")
_WHEN = re.compile(r"\w{3} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \w{1,5}")


def _numbered(match: re.Match[str]) -> Mapping[str, object] | None:
    fields = named(match)
    number = signal_number(str(fields.pop("signal_name")))
    return None if number is None else fields | {"signal": number}


def _read_info(lines: Sequence[str]) -> list[Found]:
    """``coredumpctl info``: fields of one dump, of which ``Message`` names the process."""
    start = _SIGNAL.match(lines[0])
    if start is None:
        return []
    fields: dict[str, object] = {"signal": start[1]}
    for index, line in enumerate(lines[1:], start=1):
        if _SIGNAL.match(line):
            break  # the next dump
        field = _FIELD.match(line)
        if field is None:
            continue
        if (name := _COLUMN.get(field[1])) is not None:
            fields[name] = field[2]
        elif field[1] == "Timestamp" and (when := _WHEN.match(field[2])):
            fields["when"] = when[0]
        elif message := _MESSAGE.search(field[2]):
            return [Found(0, index, fields | named(message), body=field[2])]
    return []


_INFO_SAMPLE = """        Signal: 11 (SEGV)
     Timestamp: Wed 2024-05-01 07:40:18 UTC (2min ago)
  Command Line: /opt/venv/bin/python3 train.py
    Executable: /usr/bin/python3.11
      Hostname: node012
       Storage: /var/lib/systemd/coredump/core.python3.1001.zst (present)
       Message: Process 4711 (python3) of user 1001 dumped core."""

PARSER = Parser(
    name="coredump",
    patterns=(
        Pattern(
            event="coredump.dumped",
            literals=(") of user ",),
            regex=r"^Process (?P<pid>\d+) \((?P<name>[^)]*)\) of user (?P<uid>\S+) (?:dumped core\.|"
            r"terminated abnormally (?:with signal (?P<signal>\d+)/\w+|without generating a coredump))",
            sample="Process 4711 (python3) of user 1001 dumped core.",
            not_samples=("       Message: Process 4711 (python3) of user 1001 dumped core.",),
        ),
        Pattern(
            event="coredump.dumped",
            literals=("  Signal: ",),
            block=_read_info,
            block_lines=40,
            sample=_INFO_SAMPLE,
            not_samples=("  Signal: 11 (SEGV)", "  Signal: strong"),
        ),
        Pattern(
            # coredumpctl list: TIME PID UID GID SIG COREFILE EXE SIZE
            event="coredump.dumped",
            literals=(" SIGSEGV ", " SIGABRT ", " SIGBUS ", " SIGFPE ", " SIGILL ", " SIGTRAP "),
            block=one_line(
                r"^\s*(?:\w{3} [\d-]{10} [\d:]{8} \w{1,5}\s+)?(?P<pid>\d+)\s+\d+\s+\d+\s+(?P<signal_name>SIG[A-Z]+)\s+"
                r"(?P<corefile>present|missing|none|journal|truncated|inaccessible|error)\s+(?P<path>/\S+)",
                _numbered,
            ),
            block_lines=0,
            sample="Wed 2024-05-01 07:40:18 UTC    4711 1001 1001 SIGSEGV present  /usr/bin/python3.11  1.2G",
            not_samples=("kill 4711 with SIGSEGV or SIGBUS now",),
        ),
        Pattern(
            # gdb says of which command the core is one line before
            event="coredump.signal",
            literals=("Program terminated with signal ",),
            block=one_line(r"^Program terminated with signal (?P<signal_name>SIG[A-Z]+), (?P<text>.*?)\.?$", _numbered),
            block_lines=0,
            sample="Program terminated with signal SIGSEGV, Segmentation fault.",
            not_samples=("Program terminated with signal strength 3",),
        ),
    ),
)
