"""Takes apart the tracebacks of several processes that were written into one stream line by line.

Processes that fail together mostly run the same program, so the stacks form a tree: they share their outer frames and
part somewhere. The tree is found from how often each frame was printed, from the source line that names the next
function, and from order; then every final line is given the branch that it fits.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from parsers._frames import Frame, call

_COMMUNICATION = re.compile(r"Dist\w*Error|NCCL|[Gg]loo|Connection|Timed out|Barrier")


@dataclass(slots=True)
class _Place:
    """One distinct frame: where it was printed, and how many stacks end in it (``ends``)."""

    frame: Frame
    at: list[int] = field(default_factory=list)
    parent: _Place | None = None
    free: int = 0

    def path(self) -> list[Frame]:
        outer = self.parent.path() if self.parent else []
        return [*outer, self.frame]


def untangle(
    frames: Sequence[tuple[int, Frame]],
    sources: Sequence[tuple[int, str]],
    finals: Sequence[tuple[int, str, str]],
    processes: int,
) -> list[list[Frame]] | None:
    """The frames of the stack that each final line ends.

    ``frames``, ``sources`` (source lines) and ``finals`` (type, text) come with their line numbers, in order. None if
    the stacks cannot be told apart so: a frame stands in one stack more than once.
    """
    places: dict[tuple[str, str, int], _Place] = {}
    for at, frame in frames:
        places.setdefault(frame.key, _Place(Frame(*frame.key))).at.append(at)
    if not places or max(len(p.at) for p in places.values()) > processes:
        return None
    _give_sources(list(places.values()), sources)
    ordered = sorted(places.values(), key=lambda p: p.at[0])
    for place in ordered:
        place.free = len(place.at)
    for position, place in enumerate(ordered):
        _find_parent(place, ordered[:position])
    return _give_finals(ordered, finals)


def _may_follow(earlier: Sequence[int], later: Sequence[int]) -> bool:
    """Whether the i-th of ``later`` can follow the i-th of ``earlier`` for every i."""
    return len(later) <= len(earlier) and all(a < b for a, b in zip(earlier, later, strict=False))


def _give_sources(places: Sequence[_Place], sources: Sequence[tuple[int, str]]) -> None:
    lines: dict[str, list[int]] = defaultdict(list)
    for at, text in sources:
        lines[text].append(at)

    def fit(place: _Place, text: str) -> tuple[bool, int, int]:
        at = lines[text]
        adjacent = sum(1 for a in place.at if a + 1 in at)
        whole = len(at) == len(place.at) and _may_follow(place.at, at)
        return whole, adjacent, -min(a - place.at[0] for a in at if a > place.at[0])

    pairs = [(place, text) for place in places for text in lines if place.at[0] < lines[text][-1]]
    used: set[str] = set()
    # Each source line to its best place first; a place left over shares the line of another one.
    for shared in (False, True):
        for place, text in sorted(pairs, key=lambda p: fit(*p), reverse=True):
            if not place.frame.code and (shared or text not in used):
                place.frame.code = text
                used.add(text)


def _find_parent(place: _Place, before: Sequence[_Place]) -> None:
    able = [p for p in before if p.free >= len(place.at) and _may_follow(p.at, place.at)]
    called = re.compile(rf"\b{re.escape(place.frame.func)}\(")
    if able:
        place.parent = max(able, key=lambda p: (bool(called.search(p.frame.code)), p.at[0]))
        place.parent.free -= len(place.at)


def _give_finals(places: Sequence[_Place], finals: Sequence[tuple[int, str, str]]) -> list[list[Frame]]:
    counts = Counter(kind for _, kind, _ in finals)
    result: list[list[Frame]] = [[] for _ in finals]

    def fit(place: _Place, at: int, kind: str, text: str) -> tuple[int, bool, int]:
        word = "assert" if kind == "AssertionError" else kind.rsplit(".", 1)[-1]
        raised = re.search(rf"\b{re.escape(word)}\b", place.frame.code) is not None
        waits = bool(_COMMUNICATION.search(f"{kind}: {text}")) == (call(place.path()) is not None)
        return 2 * raised + waits, place.free == counts[kind], -abs(at - place.at[-1])

    options = [
        (fit(place, at, kind, text), -number, number, place)
        for number, (at, kind, text) in enumerate(finals)
        for place in places
        if place.free > 0 and place.at[0] < at
    ]
    done: set[int] = set()
    for _, _, number, place in sorted(options, key=lambda o: o[:2], reverse=True):
        if number not in done and place.free > 0:
            place.free -= 1
            done.add(number)
            result[number] = place.path()
    return result
