"""The lines of a traceback without what a logger, a box or an indentation put in front of each of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

HEADER = re.compile(r"(?P<kind>Original |Remote |Exception Group )?Traceback \(most recent call last\):?(?P<label>.*)")
BOX_TOP = re.compile(r"[╭┌+][─━-]+\s*Traceback \(most recent call last\)\s*[─━-]+")

_GROUP_MARGIN = re.compile(r"^\s*(?:\+-\+|[|+] ?)")
_REPEATED = re.compile(r"\[repeated (\d+)x across cluster\]\s*$")


class Texts:
    """Lines of one writer, unwrapped one by one as they are asked for: later ones may not even be read yet.

    A line that lacks the margin of the others is another program's: None.
    """

    def __init__(self, lines: Sequence[str], unwrap: Callable[[str], str | None]) -> None:
        self._lines = lines
        self._unwrap = unwrap
        self._known: list[str | None] = []

    def __getitem__(self, position: int) -> str | None:
        while len(self._known) <= position:
            self._known.append(self._unwrap(self._lines[len(self._known)]))
        return self._known[position]

    def get(self, position: int) -> str | None:
        """The line, or None behind the last one."""
        try:
            return self[position]
        except IndexError:
            return None


def without_margins(lines: Sequence[str]) -> Texts | None:
    """The lines from a traceback's header on, unwrapped; None if the first line only talks about a traceback."""
    try:
        first = lines[0]
    except IndexError:
        return None
    start = BOX_TOP.search(first) or HEADER.search(first)
    if not start:
        return None
    prefix = first[: start.start()]
    if start.re is HEADER and start["kind"] == "Exception Group ":
        return Texts(lines, _without_group_margin)
    if '"' in prefix.replace('"""', "") or re.search(r"traceback\s*:\s*$", prefix):
        return None
    if _REPEATED.search(first):
        return Texts(lines, _without_repeats)
    if not prefix:
        return Texts(lines, lambda text: text)
    if prefix.isspace():
        return Texts(lines, lambda t: t[len(prefix) :] if t.startswith(prefix) else (None if t.strip() else ""))
    shared = re.compile(re.sub(r"\d+", r"\\d+", re.escape(prefix)))
    if any(shared.match(text) for text in lines[1:12]):
        return Texts(lines, lambda text: text[m.end() :] if (m := shared.match(text)) else None)
    return Texts(lines, lambda text: text.removeprefix(prefix))


def _without_repeats(text: str) -> str:
    match = _REPEATED.search(text)
    return text[: match.start()].rstrip() if match else text


def _without_group_margin(text: str) -> str | None:
    return _GROUP_MARGIN.sub("", text) if _GROUP_MARGIN.match(text) else None
