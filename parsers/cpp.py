"""The C++ runtime's last words: terminate(), what(), where an exception came from, crash signals, heap checks.

Emitted by: libstdc++ (``terminate called ...``), c10 (``Exception raised from``), the signal handlers of glog and UCX
(``src/ucs/debug/debug.c``; HPC-X images bring it), glibc's abort messages. None of them states a rank, but the text
after ``what():`` often does.
Gives: cpp.terminate, cpp.exception_origin, cpp.crash_signal, cpp.heap_corruption. The text of what() decides whose
fault it is, not the termination.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from correlator.events import BODY_LIMIT, Found, Parser, Pattern
from parsers._lines import further_lines, named, one_line, signal_number

_TERMINATE = re.compile(
    r"terminate called after throwing an instance of '(?P<type>[^']*)'|terminate called (?:recur|with)"
)
_WHAT = re.compile(r"what\(\):\s*")
_SCOPE = re.compile(
    r"^\[(?:PG (?:ID \d+ PG GUID )?(?P<process_group>[^\s()\]]+)(?: ?\([^)]*\))? )?Rank (?P<group_rank>\d+)\]"
)
_ORIGIN = re.compile(r"^Exception raised from (?P<function>.+?) at (?P<source>[^\s:]+:\d+) \(most recent call first\)")
#: Lines between the announcement and what() that other processes may have put there.
_PATIENCE = 60


def _parse_terminate(lines: Sequence[str]) -> list[Found]:
    """One event per announcement; k processes that share a stream print k of them and then k texts.

    ``what():    what():  A`` followed by B on a line of its own is the form of two: the texts are A and B.
    """
    announced: list[tuple[int, str]] = []
    texts: list[tuple[int, list[str]]] = []
    last = owed = 0
    for position, text in enumerate(lines):
        if position > last + _PATIENCE or (position > last and len(texts) >= sum(1 for _, kind in announced if kind)):
            break
        announced += [(position, m["type"] or "") for m in _TERMINATE.finditer(text)]
        parts = [part.strip() for part in _WHAT.split(text)[1:]]
        owed += sum(1 for part in parts if not part)
        told = [part for part in parts if part]
        if not parts and owed and text.strip() and not _TERMINATE.search(text) and position > last:
            told, owed = [text.strip()], owed - 1
        if told:
            last, more = further_lines(lines, position)
            texts += [(position, [part]) for part in told[:-1]] + [(last, [told[-1], *more])]
        elif parts or _TERMINATE.search(text):
            last = max(last, position)
    found = []
    waiting = iter(texts)
    for start, kind in announced:
        end, what = next(waiting, (start, [""])) if kind else (start, [""])
        fields: dict[str, object] = {"type": kind, "what": what[0]}
        if scope := _SCOPE.match(what[0]):
            fields |= named(scope)
        head = f"terminate called after throwing an instance of '{kind}'" if kind else lines[start].strip()
        found.append(Found(start, max(end, start), fields, body="\n".join([head, *what]).strip()[:BODY_LIMIT]))
    return found


def _parse_origin(lines: Sequence[str]) -> list[Found]:
    """Where an exception was raised; covers the native frames below it."""
    origin = _ORIGIN.match(lines[0])
    if origin is None:
        return []
    last = 0
    for position, text in enumerate(islice(lines, 1, None), 1):
        if not text.startswith(("frame #", "<omitting python frames>")):
            break
        last = position
    return [Found(0, last, named(origin), body=lines[0].strip())]


TERMINATE = Pattern(
    event="cpp.terminate",
    literals=("terminate called after throwing an instance of", "terminate called without an active exception"),
    block=_parse_terminate,
    block_lines=200,
    severity="fatal",
    sample="terminate called after throwing an instance of 'c10::DistBackendError'\n"
    "  what():  [PG ID 2 PG GUID 14 Rank 1] Process group watchdog thread terminated with exception: CUDA error: "
    "uncorrectable ECC error encountered",
    not_samples=("the job was terminated after throwing an exception",),
)

ORIGIN = Pattern(
    event="cpp.exception_origin",
    literals=("Exception raised from ",),
    block=_parse_origin,
    block_lines=200,
    severity="info",
    sample="Exception raised from checkTimeout at /pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:635 "
    "(most recent call first):\n"
    "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x7f12 in /opt/env/lib/libc10.so)",
    not_samples=("ValueError: Exception raised from somewhere",),
)

CRASH_SIGNAL = Pattern(
    event="cpp.crash_signal",
    literals=(") received by PID ",),
    block=one_line(
        r"\*\*\* (?P<name>SIG[A-Z]+) \(@0x[0-9a-f]+\) received by PID (?P<pid>\d+)",
        lambda m: {"signal": signal_number(m["name"]), "pid": m["pid"]},
    ),
    block_lines=0,
    severity="fatal",
    sample="*** SIGSEGV (@0x0) received by PID 4711 (TID 0x7f0a1c2b3740) from PID 0; stack trace: ***",
    not_samples=("Signal 15 (SIGTERM) received by PID 4711",),
)

UCX_SIGNAL = Pattern(
    event="cpp.crash_signal",
    literals=("] Caught signal ",),
    regex=r"^\[(?P<node>[\w.-]+):(?P<pid>\d+)\s?:\d+:\d+\] Caught signal (?P<signal>\d+) \((?P<name>[^:)]+)",
    severity="fatal",
    sample="[node012:4711 :0:4799] Caught signal 7 (Bus error: nonexistent physical address)",
    not_samples=("INFO: Caught signal SIGUSR1 on node012: this job is preempted.",),
)

HEAP_CORRUPTION = Pattern(
    event="cpp.heap_corruption",
    literals=(
        "double free or corruption",
        "free(): invalid ",
        "malloc(): ",
        "corrupted size vs. prev_size",
        "corrupted double-linked list",
        "munmap_chunk(): invalid pointer",
        "*** stack smashing detected ***",
        "realloc(): invalid ",
        "free(): double free detected",
    ),
    regex=r"^(?:\*\*\* Error in `[^']*': )?(?P<what>double free or corruption.*|(?:free|malloc|realloc)\(\): [a-z].*|"
    r"corrupted (?:size vs\. prev_size|double-linked list).*|munmap_chunk\(\): invalid pointer|"
    r"\*\*\* stack smashing detected \*\*\*.*)",
    severity="fatal",
    sample="free(): invalid pointer",
    not_samples=("calls malloc(): 12 times",),
)

PARSER = Parser("cpp", (TERMINATE, ORIGIN, CRASH_SIGNAL, UCX_SIGNAL, HEAP_CORRUPTION))
