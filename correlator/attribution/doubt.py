"""From when on the job's numbers cannot be trusted: data-integrity events and non-finite numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from correlator.attribution.runs import Run, run_of
from correlator.cascade.model import Facts
from correlator.records import Row

#: Xids after which memory may have given wrong values. A contained error (94) ends the process that met it, so only
#: what was saved after it is in doubt; 63 alone is a remapping that worked.
INTEGRITY_XIDS = frozenset({48, 64, 94, 95, 140, 171, 172})

#: Lines of other sources that say the same.
INTEGRITY_SIGNATURES = frozenset(
    {
        "amdgpu-poison",
        "amdgpu-uncorrectable",
        "amdgpu-uncorrectable-athub",
        "cuda-ecc-error",
        "edac-uncorrected",
        "gpu-ecc-uncorrectable",
        "mce-uncorrected",
        "megatron-rerun-persistent",
        "megatron-rerun-transient",
        "worker-exit-megatron-validation",
    }
)


@dataclass(frozen=True)
class Doubt:
    """``step``: the first whose numbers are in doubt, None where the event has no time to place it by; ``run``: the
    number of the run that it belongs to."""

    row: Row
    step: int | None
    why: str
    run: int = 0


def integrity_doubts(facts: Facts, runs: Sequence[Run]) -> list[Doubt]:
    """Events after which saved numbers cannot be trusted, the first one of each run.

    What the logs hold from before the first step (a kernel log reaches far back) does not count. Where nothing could be
    placed, the first that has no time, without a step.
    """
    rows = [r for r in facts.rows if r.xid in INTEGRITY_XIDS or r.signature in INTEGRITY_SIGNATURES]
    numbered = [(run_of(runs, row), row) for row in rows]
    placed = first_of_each(doubt_at(runs, at, row, _what(row)) for at, row in numbered if at is not None)
    if placed or not facts.trained:
        return placed
    loose = next((row for _, row in numbered if not is_timed(row)), None)
    if loose is None:
        return []
    return [Doubt(loose, None, f"{_what(loose)}; its line has no time, so it may lie before the newest save")]


def is_timed(row: Row) -> bool:
    """Whether the line itself says when it was written."""
    return row.time is not None and row.timestamp_basis not in ("inherited", "none")


def first_of_each(doubts: Iterable[Doubt]) -> list[Doubt]:
    """The first doubt of each run, oldest run first."""
    found: dict[int, Doubt] = {}
    for one in sorted(doubts, key=lambda d: (d.run, d.step or 0, d.row.file, d.row.line)):
        found.setdefault(one.run, one)
    return list(found.values())


def doubt_at(runs: Sequence[Run], number: int, event: Row, why: str) -> Doubt:
    """The doubt from the step that the event states, or the first one that was not over, or not saved, when it came."""
    run = runs[number]
    if event.step is not None:
        return Doubt(event, event.step, why, number)
    over = [row.step or 0 for row in run.lines if _stands_before(row, event)]
    saved = [row.step for row in run.saves if row.step is not None and _stands_before(event, row)]
    return Doubt(event, min([max(over, default=run.loaded) + 1, *saved]), why, number)


def _stands_before(first: Row, second: Row) -> bool:
    if first.file == second.file:
        return first.byte_offset <= second.byte_offset
    return first.time is not None and second.time is not None and first.time <= second.time


def _what(row: Row) -> str:
    node = f" on {row.node}" if row.node else ""
    if row.xid is not None:
        return f"Xid {row.xid}{node} (memory gave or may have given wrong values)"
    if row.event.startswith("megatron") or row.event.startswith("torchrun"):
        return f"a calculation did not repeat{node}, which points to silent corruption"
    return f"an uncorrected memory error{node}"


def nan_doubts(facts: Facts, runs: Sequence[Run]) -> list[Doubt]:
    """The first step with non-finite numbers of each run."""
    rows = [r for r in facts.events("megatron.nan", "trainer.nan") if r.step is not None]
    rows += [r for r in facts.progress if r.step is not None and is_nan(r)]
    return first_of_each(Doubt(row, row.step, "", run_of(runs, row) or 0) for row in rows)


def is_nan(row: Row) -> bool:
    """Whether a step line tells of numbers that are not finite."""
    if row.attr("nan").isdecimal() and int(row.attr("nan")) > 0:
        return True
    try:
        return not math.isfinite(float(row.attr("loss") or 0))
    except ValueError:
        return False
