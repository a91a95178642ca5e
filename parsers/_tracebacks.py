"""Reads Python tracebacks out of the lines of one writer.

Covers chained exceptions, exceptions carried over from a worker (DataLoader, spawn, Ray, distributed checkpoint,
exception groups), marker lines of Python 3.11, rich's boxes, a constant prefix or indentation on every line, and the
tracebacks of several ranks woven into each other line by line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from correlator.untrusted import read_number
from parsers._exception_text import Final, is_continuation, read_final, wants_next_line
from parsers._frames import Frame, call
from parsers._margins import BOX_TOP, HEADER, Texts, without_margins
from parsers._weave import untangle

#: Lines without any part of a traceback after which an open one is given up.
_PATIENCE = 300

_BOX_LINE = re.compile(r"^\s*[│┃|] (?P<text>.*?)\s*[│┃|]?\s*$")
_BOX_FRAME = re.compile(r"^(?:❱ )?(?P<file>[^\s│].*?):(?P<line>\d+) in (?P<func>\S+)$")
_BOX_CODE = re.compile(r"^❱\s*\d+ [│|]?\s*(?P<code>.*)$")
_FRAME = re.compile(
    r'^\s*(?:[>|│]\s*)?File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<func>[^\s,]+(?:\.<locals>\S*)?))?\s*$'
)
_GLUED_FRAME = re.compile(r'\S(  File ")')
_AFTER = (
    "During handling of the above exception, another exception occurred",
    "The above exception was the direct cause of the following exception",
)
_INSIDE = re.compile(r"^-- Process (?P<spawned>\d+) terminated with the following error:|^-+ \d+ -+$")
_PREVIOUS_LINE = re.compile(r"^\s*\[Previous line repeated \d+ more times?\]")
_CARETS = re.compile(r"^\s+[~^]+\s*$")


@dataclass(slots=True)
class Stack:
    """One traceback: header, frames, final line. ``link`` says how it hangs on ``parent``.

    ``after``: raised later, while or because the parent was handled. ``inside``: the exception that the parent carries
    over from another process or thread; ``spawned`` is the number of that process.
    """

    start: int
    indent: int = 0
    label: str = ""
    boxed: bool = False
    parent: Stack | None = None
    link: str = ""
    frames: list[Frame] = field(default_factory=list)
    children: list[Stack] = field(default_factory=list)
    final: int = -1
    last: int = 0
    type: str = ""
    message: str = ""
    lines: list[str] = field(default_factory=list)
    spawned: int | None = None

    def carries(self) -> bool:
        """Whether parts of another process or of a group may follow this exception."""
        return not self.message or self.link == "inside" or "sub-exception" in self.message

    def below(self) -> list[Stack]:
        """This stack and all that hang on it, in printed order."""
        found = [self]
        for child in self.children:
            found += child.below()
        return sorted(found, key=lambda s: s.start)

    def root(self) -> Stack:
        """The stack of the exception that was raised first."""
        inside = next((c for c in self.children if c.link == "inside"), None)
        return inside.root() if inside else self


def read_stacks(lines: Sequence[str]) -> list[Stack]:
    """The tracebacks that begin with line 0, as the first stack of each chain, in the order of their final lines.

    Stacks without a final line come last, and only if the lines end before one is due. Empty if line 0 merely talks
    about a traceback.
    """
    texts = without_margins(lines)
    return _Reader(texts).read() if texts else []


class _Reader:
    def __init__(self, texts: Texts) -> None:
        self.texts = texts
        self.open: list[Stack] = []
        self.closed: list[Stack] = []
        self.waiting: list[tuple[Stack, str, int | None]] = []
        self.edges: set[tuple[object, object]] = set()
        self.sources: dict[tuple[str, str, int], str] = {}
        self.last_line = 0
        self.path_head = ""
        self.most_open = 0
        self.printed_frames: list[tuple[int, Frame]] = []
        self.printed_sources: list[tuple[int, str]] = []

    def read(self) -> list[Stack]:
        position, ended = 0, True
        while True:
            try:
                text = self.texts[position]
            except IndexError:
                break
            following = position + 1
            if text is not None:
                for piece in _pieces(text):
                    following = max(following, self._take(position, piece))
            position = following
            if not self.open and not self.waiting and not self._goes_on(position):
                ended = False
                break
            if position - self.last_line > (_PATIENCE if self.open else 8):
                ended = False
                break
        if self.most_open > 1:
            self._untangle()
        heads = [s for s in self.closed if s.parent is None or s.parent.final < 0]
        cut = [s for s in self.open if s.frames and s.parent is None] if ended else []
        return [*heads, *cut]

    def _untangle(self) -> None:
        """Replaces the frames given line by line with those found from all lines together, where that can be done."""
        if any(s.parent or s.boxed for s in (*self.closed, *self.open)):
            return
        finals = [(s.final, s.type, s.message) for s in self.closed]
        processes = len(self.closed) + len(self.open)
        stacks = untangle(self.printed_frames, self.printed_sources, finals, processes)
        for stack, frames in zip(self.closed, stacks or (), strict=False):
            if frames:
                stack.frames = frames

    # -- lines --------------------------------------------------------------------------------------------------------

    def _take(self, at: int, text: str) -> int:
        """Uses one piece of line ``at``; gives the position to go on from."""
        following = at + 1
        if header := HEADER.search(text):
            self._begin(at, text, header)
        elif text.strip().startswith(_AFTER):
            self._expect(at, "after")
        elif inside := _INSIDE.match(text.strip()):
            self._expect(at, "inside", inside["spawned"])
        elif self._in_box(text):
            self._box_line(at, text)
        elif frame := _FRAME.match(text):
            self._frame(at, Frame(frame["func"] or "<source>", frame["file"], int(frame["line"])))
        elif (final := read_final(text)) and (owner := self._owner(at, text, final)):
            following = self._close(owner, at, final)
        elif self.open and text[:1].isspace() and text.strip():
            self._code(at, text)
        return following

    def _begin(self, at: int, text: str, header: re.Match[str]) -> None:
        label = header["label"].strip()
        stack = Stack(at, indent=_indent(text), label=label, last=at, boxed=bool(BOX_TOP.search(text)))
        if stack.boxed:
            stack.indent, stack.label = 0, ""
        carrier = self._carrier(header["kind"] or "", label)
        if carrier is not None:
            stack.parent, stack.link = carrier, "inside"
        elif self.waiting:
            stack.parent, stack.link, stack.spawned = self.waiting.pop(0)
        if stack.parent is not None:
            stack.parent.children.append(stack)
        self.open.append(stack)
        self.most_open = max(self.most_open, len(self.open))
        self.last_line = at

    def _carrier(self, kind: str, label: str) -> Stack | None:
        """The closed stack whose message goes on with this traceback, if the header says that there is one."""
        if kind == "Original ":
            return next((s for s in reversed(self.closed) if s.message.startswith("Caught ")), None)
        if re.match(r"\(RANK \d+\)", label):
            return next((s for s in reversed(self.closed) if "ranks:dict_keys" in s.message), None)
        return None

    def _expect(self, at: int, link: str, spawned: str | None = None) -> None:
        inside = [s for s in self.closed if s.carries()]
        able = inside if link == "inside" else [s for s in self.closed if not self._has_next(s)]
        last = able[-1] if able else None
        if last is not None:
            # The parts of a group hang on the group, not on each other.
            owner = last.parent if link == "inside" and last.link == "inside" and last.parent else last
            self.waiting.append((owner, link, read_number(spawned) if spawned else None))
            self.last_line = at

    def _has_next(self, stack: Stack) -> bool:
        return any(c.link == "after" for c in stack.children) or any(s is stack for s, _, _ in self.waiting)

    def _frame(self, at: int, frame: Frame) -> None:
        if not self.open and self.closed and at <= self.last_line + 1:
            # A remote stack printed without a header of its own, straight below the exception that carries it.
            carrier = self.closed[-1]
            stack = Stack(at, parent=carrier, link="inside", last=at)
            carrier.children.append(stack)
            self.open.append(stack)
        if not self.open:
            return
        stack = self._stack_for(frame)
        self.edges.add((_tail(stack), frame.key))
        stack.frames.append(frame)
        self.printed_frames.append((at, frame))
        stack.last = self.last_line = at

    def _code(self, at: int, text: str) -> None:
        if _CARETS.match(text) or _PREVIOUS_LINE.match(text):
            self.last_line = at
            return
        # The writer of a source line wrote the frame before it; of several such frames it is the one that has waited
        # longest, unless the same place was seen with this source line before.
        waiting = [s for s in self.open if s.frames and not s.frames[-1].code]
        code = text.strip()
        self.printed_sources.append((at, code))
        known = [s for s in waiting if self.sources.get(s.frames[-1].key) == code]
        unknown = [s for s in waiting if s.frames[-1].key not in self.sources]
        if known or unknown:
            stack = min(known or unknown, key=lambda s: s.last)
            stack.frames[-1].code = self.sources[stack.frames[-1].key] = code
            self.last_line = at
        elif at <= self.last_line + 1:
            self.last_line = at

    def _close(self, stack: Stack, at: int, final: Final) -> int:
        self.edges.add((_tail(stack), final.type))
        self.open.remove(stack)
        stack.final = stack.last = self.last_line = at
        stack.type, stack.message = final.type, final.message
        stack.lines.append((self.texts.get(at) or "").strip())
        self.closed.append(stack)
        again = f"{final.type}: "
        if self.open and again in final.message:
            # Two final lines of equal stacks written into one.
            stack.message, _, rest = final.message.partition(again)
            stack.lines = [f"{final.type}: {stack.message}"]
            return self._close(self._pick_owner(final.type), at, Final(final.type, rest, True))
        following = self._continue(stack, at + 1)
        if not stack.message:
            stack.message = next((text.strip() for text in stack.lines[1:] if text.strip()), "")
        return following

    def _continue(self, stack: Stack, position: int) -> int:
        """Adds the further lines of a message; gives the position after them."""
        open_ended = 12 if wants_next_line(stack.message) or (not stack.message and stack.lines[0].endswith(":")) else 0
        forced = False
        while (text := self.texts.get(position)) is not None:
            if not text.strip():
                after = self.texts.get(position + 1)
                if after is None or not is_continuation(after):
                    break
                position += 1
                continue
            if HEADER.search(text) or _FRAME.match(text) or _INSIDE.match(text.strip()):
                break
            if text.strip().startswith((*_AFTER, '"""')) or re.match(r"^\s*[=*_-]{10,}", text):
                break
            indented = text[:1] == "\t" or (text[:1] == " " and not self.open and _indent(text) > stack.indent)
            if not (forced or indented or is_continuation(text) or open_ended > 0):
                break
            open_ended = 0 if indented else open_ended - 1
            forced = text.strip() in ("Last error:", "Original exception:")
            if not text.startswith("frame #"):
                stack.lines.append(text)
            stack.last = self.last_line = position
            position += 1
        return position

    # -- boxes --------------------------------------------------------------------------------------------------------

    def _in_box(self, text: str) -> bool:
        return bool(self.open) and self.open[-1].boxed and bool(re.match(r"^\s*[│┃|╰└]", text))

    def _box_line(self, at: int, text: str) -> None:
        stack = self.open[-1]
        self.last_line = stack.last = at
        line = _BOX_LINE.match(text)
        content = line["text"].strip() if line else ""
        if frame := _BOX_FRAME.match(self.path_head + content):
            stack.frames.append(Frame(frame["func"], frame["file"], int(frame["line"])))
            self.path_head = ""
        elif content.startswith("/") or self.path_head:
            # A long path is broken at the width of the box.
            self.path_head = self.path_head + content if content and len(self.path_head) < 1000 else ""
        elif (code := _BOX_CODE.match(content)) and stack.frames:
            stack.frames[-1].code = re.sub(r"^(?:│\s*)+", "", code["code"]).strip()

    # -- whose line is it ---------------------------------------------------------------------------------------------

    def _stack_for(self, frame: Frame) -> Stack:
        """The open stack that this frame continues.

        Ranks that run the same program print the same sequence, so a step from one frame to the next that was seen
        once belongs to the next stack that stands there. A new step is made by the one whose source line names the
        function, else by the one that is furthest.
        """
        able = self._between_frames()
        for stack in able:
            if (_tail(stack), frame.key) in self.edges:
                return stack
        origins = {origin for origin, _ in self.edges}
        call_text = re.compile(rf"\b{re.escape(frame.func)}\(")

        def fit(stack: Stack) -> tuple[bool, bool, int]:
            named = bool(stack.frames and call_text.search(stack.frames[-1].code))
            return named, _tail(stack) not in origins, len(stack.frames)

        return max(able, key=fit)

    def _between_frames(self) -> list[Stack]:
        """The open stacks that may print a frame now: not those that owe a source line, unless all do."""
        return [s for s in self.open if not s.frames or s.frames[-1].code] or self.open

    def _owner(self, at: int, text: str, final: Final) -> Stack | None:
        """The open stack that this final line ends; None if the line is a stray one."""
        if self.waiting and not self.open:
            # A part of an exception group that was never raised has no traceback of its own.
            parent, link, _ = self.waiting[0]
            if link == "inside" and final.certain:
                self.waiting.pop(0)
                stack = Stack(at, indent=_indent(text), parent=parent, link=link, last=at)
                parent.children.append(stack)
                self.open.append(stack)
                return stack
            return None
        indent = _indent(text)
        if not any(s.indent == indent and (s.frames or final.certain) for s in self.open):
            return None
        if final.certain:
            return self._pick_owner(final.type, indent)
        after = self.texts.get(at + 1) or ""
        adjacent = at <= self.last_line + 1 and not _FRAME.match(after)
        return self.open[0] if len(self.open) == 1 and adjacent else None

    def _pick_owner(self, type_name: str, indent: int | None = None) -> Stack:
        able = [s for s in self.open if indent is None or s.indent == indent]
        able = [s for s in able if s.frames and s.frames[-1].code] or [s for s in able if s.frames] or able
        known = [s for s in able if (_tail(s), type_name) in self.edges]
        if known:
            return known[0]
        word = "assert" if type_name == "AssertionError" else type_name.rsplit(".", 1)[-1]
        raising = [s for s in able if s.frames and re.search(rf"\b{re.escape(word)}\b", s.frames[-1].code)]
        if not raising and re.search(r"Dist\w*Error$", type_name):
            raising = [s for s in able if call(s.frames)]
        origins = {origin for origin, _ in self.edges}
        return max(raising or able, key=lambda s: (_tail(s) not in origins, len(s.frames)))

    def _goes_on(self, position: int) -> bool:
        """Whether what follows a complete traceback belongs to it."""
        for text in map(self.texts.get, range(position, position + 4)):
            if text is None:
                continue
            bare = text.strip()
            if not bare or bare.startswith('"""'):
                continue
            header = HEADER.search(text)
            if header:
                return self._carrier(header["kind"] or "", header["label"].strip()) is not None
            adjacent = position == self.last_line + 1 and bool(_FRAME.match(text))
            carried = bool(_INSIDE.match(bare)) and any(s.carries() for s in self.closed)
            return adjacent or carried or bare.startswith(_AFTER)
        return False


def _pieces(text: str) -> list[str]:
    """The parts of a line that several writers tore: headers and frames that begin in the middle of it."""
    if BOX_TOP.search(text):
        return [text]
    cuts = [m.start() for m in _HEADER_START.finditer(text) if text[: m.start()].strip()]
    cuts += [m.start(1) for m in _GLUED_FRAME.finditer(text)]
    if not cuts:
        return [text]
    cuts = [0, *sorted(set(cuts)), len(text)]
    return [text[a:b] for a, b in pairwise(cuts) if text[a:b].strip()]


_HEADER_START = re.compile(r"(?:Original |Remote |Exception Group )?Traceback \(most recent call last\)")


def _tail(stack: Stack) -> tuple[str, str, int] | None:
    return stack.frames[-1].key if stack.frames else None


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())
