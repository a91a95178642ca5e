"""Compressed host lists and number ranges, as Slurm, PBS and the launchers print them.

    node[001-004,7]     five nodes; digits keep their width (``node[08-10]`` is node08, node09, node10)
    r[0-1]n[0-3].mgmt   several brackets multiply, text after a bracket is kept
    0-3,7               tasks, ranks, array indices; ``0-6:2`` with a stride

Grammar: Slurm's ``src/common/hostlist.c`` and ``bitstring.c``. The texts come from logs, which are torn and mistyped:
a part that does not follow the grammar is kept as the literal name (hosts) or left out (numbers); nothing here raises
on bad text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product

from correlator.untrusted import is_rank

#: A list that would expand to more than this is mistyped or torn: its parts stay literal or are left out.
LIMIT = 200_000

_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18})(?::(\d{1,18}))?)?")
_BRACKET = re.compile(r"\[([^\[\]]*)\]")


def expand_hostlist(text: str) -> list[str]:
    """All host names of a compressed list, in printed order, each once.

    >>> expand_hostlist("node[001-003,7],login1")
    ['node001', 'node002', 'node003', 'node7', 'login1']
    """
    names: dict[str, None] = {}
    for part in _split_outside_brackets(text):
        for name in _expand_part(part) if len(names) < LIMIT else [part]:
            names.setdefault(name)
    return list(names)


def expand_ranges(text: str) -> list[int]:
    """All numbers of ``0-3,7`` that ranks can have, in printed order, each once.

    >>> expand_ranges("0-3,7")
    [0, 1, 2, 3, 7]
    """
    numbers: dict[int, None] = {}
    expanded = 0
    for part in text.split(","):
        items = _expand_range(part.strip()) or ()
        expanded += len(items)
        if expanded > LIMIT:
            break
        for item in items:
            if is_rank(int(item)):
                numbers.setdefault(int(item))
    return list(numbers)


def fold_ranges(numbers: Iterable[int]) -> str:
    """The shortest ascending list of ranges; the opposite of :func:`expand_ranges`. Numbers are not negative.

    >>> fold_ranges([0, 1, 2, 3, 7])
    '0-3,7'
    """
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _split_outside_brackets(text: str) -> list[str]:
    parts: list[str] = []
    depth = start = 0
    for index, character in enumerate(text):
        if character == "[":
            depth += 1
        elif character == "]":
            depth -= 1
        elif character == "," and depth <= 0:
            parts.append(text[start:index].strip())
            start, depth = index + 1, 0
    parts.append(text[start:].strip())
    return [part for part in parts if part]


def _expand_part(part: str) -> list[str]:
    choices: list[list[str]] = []
    total = 1
    position = 0
    for bracket in _BRACKET.finditer(part):
        items: list[str] = []
        for piece in bracket.group(1).split(","):
            expanded = _expand_range(piece.strip())
            if expanded is None:
                return [part]
            items += expanded
            if len(items) > LIMIT:
                return [part]
        total *= len(items)
        if not items or total > LIMIT:
            return [part]
        choices += [[part[position : bracket.start()]], items]
        position = bracket.end()
    choices.append([part[position:]])
    return ["".join(pieces) for pieces in product(*choices)]


def _expand_range(piece: str) -> list[str] | None:
    """The numbers of ``7``, ``001-004`` or ``0-6:2`` with their printed width; None if it is none of these."""
    match = _RANGE.fullmatch(piece)
    if match is None:
        return None
    first, last, step = match.group(1), match.group(2) or match.group(1), int(match.group(3) or 1)
    count = int(last) - int(first) + 1
    if count < 1 or count > LIMIT or step < 1:
        return None
    return [f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1, step)]
