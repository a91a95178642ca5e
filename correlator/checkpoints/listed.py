"""What a directory listing among the logs tells: which checkpoint files are whole, by the sizes of their siblings.

Files of one kind that differ in their numbers only hold the same tensors, so their sizes hardly differ. One that is
clearly smaller was cut off.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from correlator.checkpoints.names import rank_in_series, series, step_of

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}

#: Below this part of the largest sibling a file counts as cut off. Step counters and the like vary far less; sizes with
#: a unit letter are rounded to about 5 %.
_WHOLE = 0.94

#: Files that are one part of a checkpoint: many of them, of different sizes, make one.
_PART = re.compile(r"rank|shard|-of-|_states\b|^__|\.distcp$|optim|rng|random", re.IGNORECASE)


@dataclass(frozen=True)
class Listed:
    """A checkpoint as a listing shows it. ``whole``: None when there is nothing of its kind to compare it with."""

    path: str
    whole: bool | None
    why: str


def size_of(text: str, *, kib: bool = False) -> int | None:
    """Bytes of a listed size: ``187170816``, ``1.3G``; bare numbers are KiB with ``kib``. None for no size."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "K" if kib else "")
    try:
        return int(float(number) * _UNITS.get(unit, 1))
    except (ValueError, OverflowError):
        return None


def compare(files: Iterable[tuple[str, int]]) -> list[Listed]:
    """The checkpoints that the listed (path, bytes) make, oldest first by their numbers.

    A checkpoint is a file whose name states a number, or the part of a path up to a component that states a step; there
    every file is compared with the same file of the other steps.
    """
    kinds: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for path, size in files:
        place = _checkpoint_of(path)
        if place is not None:
            kinds[series(place), path[len(place) :]][place] = size
    found: dict[str, Listed] = {}
    for sizes in kinds.values():
        largest = max(sizes.values())
        for place, size in sizes.items():
            if len(sizes) == 1:
                one = Listed(place, None, "a listing shows it, with nothing of its kind to compare its size with")
            elif size < _WHOLE * largest:
                why = f"a listing shows it cut off: {size:,} bytes where others of its kind have {largest:,}"
                one = Listed(place, False, why)
            else:
                one = Listed(place, True, f"a listing shows it in full size, {size:,} bytes")
            known = found.get(place)
            if known is None or _worse(one, known):
                found[place] = one
    return sorted(found.values(), key=lambda one: (rank_in_series(one.path), one.path))


def _worse(one: Listed, known: Listed) -> bool:
    return one.whole is False or (one.whole is None and known.whole is True)


def _checkpoint_of(path: str) -> str | None:
    parts = path.split("/")
    for level, part in enumerate(parts[:-1]):
        if step_of(part) is not None:
            return "/".join(parts[: level + 1])
    name = parts[-1]
    return path if rank_in_series(name) >= 0 and not _PART.search(name) else None
