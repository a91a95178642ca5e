"""The time of a line without one: the last timed line before it of the same writer, as far back as the window holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from correlator.envelopes.peeled import FileContext, Peeled
from correlator.ingest.last_signs import first_label, naming_label, numeric_label
from correlator.ingest.windows import MAX_LINE, Window

#: Lines of the same writer looked through, backwards, for the time of a line without one; and lines of all writers.
LOOK_BACK_LINES = 50
_LOOK_BACK_ALL = 400
# Bytes in which the next line with a label is looked for: more than so many lines have.
_FAR = 256 << 10
#: Something like a time of day. It begins with a plain byte, which makes the search several times faster.
CLOCK = re.compile(rb":[0-5]\d:[0-5]\d")
# Without one of these no built-in layout finds a stamp: minutes and seconds, a date or an epoch in one number.
_STAMP_SIGN = re.compile(rb":[0-5]\d:[0-5]\d|\d{8}")


class LookBack:
    """Answers for the lines of one window; ``peel`` keeps what it peeled in ``peeled``, by start.

    Other writers' lines are told by the label at their start where that is sure, and not peeled for it.
    """

    def __init__(
        self,
        window: Window,
        context: FileContext,
        several: bool,
        peel: Callable[[int, int], Peeled],
        peeled: Mapping[int, Peeled],
    ) -> None:
        self._window = window
        self._several = several
        self._peel = peel
        self._peeled = peeled
        self._stamps_show = context.layout is None  # a layout of the file's own may look like anything
        self._known: dict[tuple[int, str], Peeled | None] = {}
        self._asked: tuple[int, Peeled | None] = (window.size, None)
        self._writers: set[bytes] = set()  # labels that tell their lines' writer

    def timed(self, start: int, p: Peeled) -> Peeled | None:
        """The line itself when it has a time, else the last timed one before it of the same writer."""
        if p.timestamp_ns is not None or p.boot_ns is not None:
            return p
        memo = (start, p.key)
        if memo in self._known:
            return self._known[memo]
        asked, answer = self._asked
        if (
            not self._several
            and asked < start <= asked + MAX_LINE
            and self._stamps_show
            and not CLOCK.search(self._window.data, asked, start)
        ):
            # Nothing like a time of day since the last look-back: the same answer.
            found = answer
        else:
            found = self._find(start, p.key)
        self._known[memo] = found
        self._asked = start, found
        return found

    def _find(self, start: int, key: str) -> Peeled | None:
        window = self._window
        label = self._own_label(start) if self._several else b""
        same = looked = 0
        line = window.previous(start)
        while line is not None and same < LOOK_BACK_LINES and looked < _LOOK_BACK_ALL:
            if label:
                line, passed = self._behind_label(line, label)
                looked += passed
                if line is None or looked >= _LOOK_BACK_ALL:
                    break
            if (line[0], key) in self._known:
                return self._known[line[0], key]
            if self._stamps_show and line[0] not in self._peeled and not _STAMP_SIGN.search(window.data, *line):
                same += 1 if label or not self._several else 0
            elif label or key or not self._has_label(line[0]):
                before = self._peel(*line)
                if not self._several or before.key == key:
                    same += 1
                    if before.timestamp_ns is not None:
                        return before
            looked += 1
            line = window.previous(line[0])
        return None

    def _behind_label(self, line: tuple[int, int], label: bytes) -> tuple[tuple[int, int] | None, int]:
        """The line itself or the last one before it that begins with the label, and how many lines lie between."""
        window, data = self._window, self._window.data
        origin = window.physical_start(line[0])
        if data.startswith(label, origin):
            return line, 0
        found = data.rfind(b"\n" + label, max(0, origin - _FAR), origin)
        if found < 0 and not (window.at_start and origin <= _FAR and data.startswith(label)):
            return None, 0
        return window.last_part(data.index(b"\n", found + 1)), data.count(b"\n", found + 1, origin) - 1

    def _own_label(self, start: int) -> bytes:
        """What all lines of this line's writer begin with; empty when that is not sure."""
        window = self._window
        origin = window.physical_start(start)
        head = bytes(window.data[origin : origin + 100])
        identity = self._peel(start, window.line_end(start)).identity
        if identity:
            return naming_label(head, identity[0])
        # srun's label where too few lines of the file's sample had one to be sure of it
        return numeric_label(head)

    def _has_label(self, start: int) -> bool:
        """Whether the label in front of a line surely tells its writer, so that it is none that says nothing of it."""
        window = self._window
        label = first_label(window.data, window.physical_start(start))
        if label is None or label in self._writers:
            return label is not None
        if self._own_label(start):
            self._writers.add(label)
            return True
        return False
