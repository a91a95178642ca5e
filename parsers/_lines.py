"""Pieces that several parsers share: signals, durations, and patterns of one line whose captures need work."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from correlator.events import BODY_LIMIT, BlockParser, Found
from parsers._exception_text import is_continuation

#: Linux x86-64 and arm64 signal numbers, by the name that programs print and by the words of strsignal(3).
_SIGNALS = {
    "SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGILL": 4, "SIGTRAP": 5, "SIGABRT": 6, "SIGBUS": 7, "SIGFPE": 8,
    "SIGKILL": 9, "SIGUSR1": 10, "SIGSEGV": 11, "SIGUSR2": 12, "SIGPIPE": 13, "SIGALRM": 14, "SIGTERM": 15,
    "SIGCONT": 18, "SIGSTOP": 19, "SIGTSTP": 20, "SIGXCPU": 24, "SIGXFSZ": 25,
    "hangup": 1, "interrupt": 2, "quit": 3, "illegal instruction": 4, "aborted": 6, "bus error": 7,
    "floating point exception": 8, "killed": 9, "segmentation fault": 11, "broken pipe": 13, "alarm clock": 14,
    "terminated": 15,
}  # fmt: skip

_DURATION = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ms|milliseconds?|s|sec|seconds?|min|minutes?)?")
_CLOCK = re.compile(r"(?:(?P<days>\d+) days?, )?(?P<h>\d+):(?P<m>\d\d):(?P<s>\d\d)(?:\.(?P<fraction>\d+))?")


def signal_number(text: str) -> int | None:
    """The number of a signal written as ``SIGTERM``, ``Signals.SIGTERM``, ``15`` or ``Terminated``; None if unknown."""
    text = text.strip().removeprefix("Signals.").rstrip(".")
    if text.lstrip("-").isdecimal():
        return abs(int(text))
    return _SIGNALS.get(text) or _SIGNALS.get(text.lower())


def milliseconds(text: str) -> int | None:
    """A printed duration in ms: ``12000ms``, ``60s``, ``901 seconds``, ``0:30:00``; a bare number is seconds."""
    clock = _CLOCK.search(text)
    if clock:
        days, hours, minutes, seconds = (int(clock[g] or 0) for g in ("days", "h", "m", "s"))
        fraction = int((clock["fraction"] or "0").ljust(3, "0")[:3])
        return ((days * 24 + hours) * 3600 + minutes * 60 + seconds) * 1000 + fraction
    found = _DURATION.search(text)
    if not found:
        return None
    unit = found["unit"] or "s"
    factor = 1 if unit.startswith(("ms", "milli")) else 60_000 if unit.startswith("min") else 1000
    return round(float(found["number"]) * factor)


def one_line(regex: str, build: Callable[[re.Match[str]], Mapping[str, object] | None]) -> BlockParser:
    """A block parser of one line: ``build`` turns the match into fields, or refuses the line with None.

    The launcher's error file quotes exceptions of every emitter; it has a parser of its own and is refused here.
    """
    compiled = re.compile(regex)

    def parse(lines: Sequence[str]) -> list[Found]:
        match = None if '"py_callstack":' in lines[0] else compiled.search(lines[0])
        fields = build(match) if match else None
        return [] if fields is None else [Found(0, 0, fields)]

    return parse


def further_lines(lines: Sequence[str], position: int) -> tuple[int, list[str]]:
    """The last of the lines behind ``position`` that continue its message, and their texts without stack frames."""
    more: list[str] = []
    last, wanted = position, False
    for at, text in enumerate(islice(lines, position + 1, position + 200), position + 1):
        if wanted or is_continuation(text):
            last = at
            wanted = text.strip() == "Last error:"
            if not text.startswith("frame #"):
                more.append(text.strip())
        elif text.strip():
            break
    return last, more


def message(regex: str) -> BlockParser:
    """A block parser of one line and the lines by which libraries continue an error's text (``Last error:`` ...)."""
    compiled = re.compile(regex)

    def parse(lines: Sequence[str]) -> list[Found]:
        match = None if '"py_callstack":' in lines[0] else compiled.search(lines[0])
        if match is None:
            return []
        last, more = further_lines(lines, 0)
        return [Found(0, last, named(match), body="\n".join([lines[0].strip(), *more])[:BODY_LIMIT])]

    return parse


def named(match: re.Match[str]) -> dict[str, object]:
    """The named groups of a match that took part in it."""
    return {name: value for name, value in match.groupdict().items() if value is not None}


def rank_list(text: str) -> str:
    """The numbers of a printed rank list as ``3,5`` (the form of all rank-list attributes)."""
    return ",".join(re.findall(r"\d+", text))
