"""Stack dumps of running or dying interpreters: faulthandler's and py-spy's, both innermost frame first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from correlator.events import Found
from parsers._frames import Frame, describe

_FATAL = re.compile(r"Fatal Python error: (?P<what>.+)$")
_THREAD = re.compile(
    r"^\s*(?P<current>Current )?(?:[Tt]hread 0x[0-9a-f]+|Stack)(?: \[(?P<name>[^\]]*)\])? \(most recent call first\):"
)
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+|\?\?\?) in (?P<func>\S+)')
_SPY_THREAD = re.compile(
    r'^\s*Thread (?P<pid>\d+) \((?P<state>[^)]*)\): "(?P<name>[^"]*)"|^\s*Thread 0x[0-9A-Fa-f]+ \([^)]*\): '
    r'"(?P<named>[^"]*)"'
)
_SPY_FRAME = re.compile(r"^\s+(?P<func>\S+) \((?P<file>[^()]+):(?P<line>\d+)\)\s*$")
_PART = re.compile(r"^\s*(?:\.\.\.|<no Python frame>|<truncated rest of calls>|<tstate is freed>)\s*$")
_EXTENSIONS = re.compile(r"^Extension modules: ")
#: Lines that belong to no dump, after which it is taken to be over (other processes may write in between).
_PATIENCE = 12


@dataclass(slots=True)
class _Thread:
    current: bool
    name: str = ""
    frames: list[Frame] = field(default_factory=list)


def read_fatal(lines: Sequence[str]) -> list[Found]:
    """The report of a fatal error, with the frames of the thread it happened in, else of the main thread."""
    fatal = _FATAL.search(lines[0])
    if not fatal:
        return []
    threads, last = _threads(lines, 1)
    chosen = next((t for t in threads if t.current and t.frames), None) or _main(threads)
    fields: dict[str, object] = {"what": fatal["what"].strip()}
    if chosen:
        fields |= describe(chosen.frames)
        fields["thread"] = "current" if chosen.current else "main"
    return [Found(0, last, fields, body=lines[0].strip())]


def read_dump(lines: Sequence[str]) -> list[Found]:
    """The stack that a running process was asked to show: of its main thread, where there are several."""
    spy = _SPY_THREAD.match(lines[0])
    if spy:
        return _read_spy(lines, spy)
    if not _THREAD.match(lines[0]):
        return []
    threads, last = _threads(lines, 0)
    chosen = _main(threads)
    if chosen is None:
        return []
    fields = describe(chosen.frames)
    if len(threads) > 1:
        fields["threads"] = str(len(threads))
    return [Found(0, last, fields, body=_body(chosen.frames))]


def _threads(lines: Sequence[str], start: int) -> tuple[list[_Thread], int]:
    threads: list[_Thread] = []
    last, foreign = max(start - 1, 0), 0
    for position, text in enumerate(islice(lines, start, None), start):
        if thread := _THREAD.match(text):
            threads.append(_Thread(bool(thread["current"]), thread["name"] or ""))
        elif (frame := _FRAME.match(text)) and threads:
            number = int(frame["line"]) if frame["line"].isdecimal() else 0
            threads[-1].frames.append(Frame(frame["func"], frame["file"], number))
        elif _EXTENSIONS.match(text):
            last = position
            break
        elif not _PART.match(text):
            foreign += 1 if text.strip() else 0
            if foreign > _PATIENCE or _FATAL.search(text):
                break
            continue
        last, foreign = position, 0
    for each in threads:
        each.frames.reverse()
    return threads, last


def _main(threads: Sequence[_Thread]) -> _Thread | None:
    """The main thread: the one whose stack begins at a module, else the last one shown."""
    with_frames = [t for t in threads if t.frames]
    of_module = [t for t in with_frames if t.frames[0].func == "<module>"]
    candidates = of_module or with_frames
    return candidates[-1] if candidates else None


def _read_spy(lines: Sequence[str], head: re.Match[str]) -> list[Found]:
    if (head["name"] or head["named"]) != "MainThread":
        return []
    frames: list[Frame] = []
    last = 0
    for position, text in enumerate(islice(lines, 1, None), 1):
        frame = _SPY_FRAME.match(text)
        if not frame:
            break
        frames.append(Frame(frame["func"], frame["file"], int(frame["line"])))
        last = position
    if not frames:
        return []
    frames.reverse()
    fields = describe(frames, short_paths=True)
    if head["pid"]:
        # On Linux the id of the main thread is the id of the process.
        fields["pid"] = head["pid"]
    return [Found(0, last, fields, body=_body(frames))]


def _body(frames: Sequence[Frame]) -> str:
    return "stack dump, innermost first: " + ", ".join(str(f) for f in reversed(frames[-6:]))
