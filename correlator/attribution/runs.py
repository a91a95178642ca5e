"""The runs of a job: stretches of training between two starts, and from which state each of them went on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from correlator.cascade.model import Facts
from correlator.records import Row

#: Lines of a start within the training's own log.
_STARTS = ("checkpoint.loaded", "checkpoint.load_started", "megatron.from_scratch")

_SAVES = ("checkpoint.save_started", "checkpoint.save_finished", "checkpoint.save_scheduled")


@dataclass(frozen=True)
class Run:
    """``lines``: its step lines, ``saves``: its lines about saves, each in the order of their places.

    ``loaded``: the step of the state that it began with, 0 for random weights; where no line states it, the step before
    its first one.
    """

    lines: tuple[Row, ...]
    saves: tuple[Row, ...]
    loaded: int

    @property
    def begin(self) -> int | None:
        """Time of its first step line, ns."""
        return self.lines[0].time

    @property
    def reach(self) -> int:
        """The last step it printed or saved."""
        return max(row.step or 0 for row in (*self.lines, *self.saves))


def runs_of(facts: Facts) -> list[Run]:
    """The runs, oldest first. What several ranks print of one run is one; step lines without a step count nothing."""
    pieces = [piece for rows in _by_file(facts) for piece in _pieces(rows)]
    if not pieces:
        return []
    if any(piece[-1].time is None for piece in pieces):
        # Without times nothing says how the files lie to each other: the one that tells of most runs.
        counts = [(sum(p[-1].file == file for p in pieces), file) for file in {p[-1].file for p in pieces}]
        fullest = min(counts, key=lambda count: (-count[0], count[1]))[1]
        return [_run(facts, [piece]) for piece in pieces if piece[-1].file == fullest]
    together: list[list[list[Row]]] = []
    for piece in sorted(pieces, key=lambda rows: (_first_step(rows).time or 0, rows[0].file)):
        ends = max((p[-1].time or 0 for p in together[-1]), default=0) if together else -1
        if together and (_first_step(piece).time or 0) <= ends:
            together[-1].append(piece)
        else:
            together.append([piece])
    return [_run(facts, one) for one in together]


def _by_file(facts: Facts) -> list[list[Row]]:
    """Step lines and lines of starts and saves of each file that has step lines, in their order."""
    steps: dict[str, list[Row]] = defaultdict(list)
    whole = [row for row in facts.progress if row.step is not None]
    # Steps counted anew in every epoch are no row of steps, unless there is no other.
    for row in [row for row in whole if not row.attr("epoch")] or whole:
        steps[row.file].append(row)
    for file, rows in steps.items():
        # Bars of an evaluation count from 1 again and tell no loss.
        telling = [r for r in rows if r.attr("loss") or r.attr("nan")]
        steps[file] = telling or rows
    for row in facts.events(*_STARTS, *_SAVES):
        if row.file in steps:
            steps[row.file].append(row)
    return [sorted(rows, key=lambda row: row.byte_offset) for _, rows in sorted(steps.items())]


def _is_step(row: Row) -> bool:
    return not row.event.startswith("checkpoint.") and row.event not in _STARTS


def _first_step(rows: Sequence[Row]) -> Row:
    return next(row for row in rows if _is_step(row))


def _pieces(rows: list[Row]) -> list[list[Row]]:
    """The rows of one file cut where a start stands before step lines, the steps go back or another attempt begins."""
    pieces: list[list[Row]] = [[]]
    last: Row | None = None
    for row in rows:
        begins = row.event in _STARTS
        if last is not None and _is_step(row):
            begins = (row.step or 0) < (last.step or 0) or row.attempt != last.attempt
        if begins and any(map(_is_step, pieces[-1])):
            pieces.append([])
        pieces[-1].append(row)
        if _is_step(row):
            last = row
    if len(pieces) > 1 and not any(map(_is_step, pieces[-1])):
        pieces.pop()
    return pieces


def _run(facts: Facts, pieces: Sequence[Sequence[Row]]) -> Run:
    fullest = max(pieces, key=lambda rows: (sum(map(_is_step, rows)), rows[0].file))
    lines = [row for row in fullest if _is_step(row)]
    every = [row for rows in pieces for row in rows]
    stated = [row.step for row in every if row.event == "checkpoint.loaded" and row.step is not None]
    if any(row.event == "megatron.from_scratch" for row in every):
        stated = [0]
    gap = next((b.step - a.step for a, b in pairwise(lines) if (b.step or 0) > (a.step or 0)), 1)  # type: ignore[operator]
    before = max((lines[0].step or 0) - gap, 0)
    return Run(tuple(lines), tuple(row for row in every if row.event in _SAVES), max(stated, default=before))


def run_of(runs: Sequence[Run], row: Row) -> int | None:
    """The number of the run in which a line stands: by its place in the same file, else by the clock; else None."""
    number = None
    for at, run in enumerate(runs):
        first = run.lines[0]
        if row.file == first.file:
            began = row.byte_offset >= first.byte_offset
        else:
            timed = row.time is not None and row.timestamp_basis not in ("inherited", "none")
            began = timed and run.begin is not None and row.time >= run.begin  # type: ignore[operator]
        if began:
            number = at
    return number


def spread(runs: Sequence[Run], number: int, step: int) -> list[tuple[int, int | None]]:
    """Steps (first, last; None: to the end) whose saves hold what went wrong at ``step`` of a run.

    That run's own from there on, and all of later runs that went on from one of them. A later run that went on from an
    older one writes the steps that it reaches anew, and those are good. Without step lines all is one run.
    """
    newest = max(len(runs) - 1, 0)
    spans: list[tuple[int, int | None]] = [(step, None if number == newest else max(runs[number].reach, step))]
    for at in range(number + 1, len(runs)):
        run = runs[at]
        if any(first <= run.loaded and (last is None or run.loaded <= last) for first, last in spans):
            spans.append((run.loaded, None if at == newest else run.reach))
        else:
            spans = [part for span in spans for part in _without(span, run.loaded + 1, run.reach)]
    return sorted(spans)


def _without(span: tuple[int, int | None], first: int, last: int) -> list[tuple[int, int | None]]:
    """The span without the steps ``first`` to ``last``."""
    begin, end = span
    if last < begin or (end is not None and end < first):
        return [span]
    parts: list[tuple[int, int | None]] = [(begin, first - 1)] if begin < first else []
    if end is None or last < end:
        parts.append((last + 1, end))
    return parts
