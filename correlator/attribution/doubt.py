"""From when on the job's numbers cannot be trusted: the first data-integrity event, and the first non-finite number."""

from __future__ import annotations

import math
from dataclasses import dataclass

from correlator.cascade.model import Facts
from correlator.records import Row

#: Xids after which memory may have given wrong values. A contained error (94) ends the process that met it, so only
#: what was saved after it is in doubt; 63 alone is a remapping that worked.
_XIDS = frozenset({48, 64, 94, 95, 140, 171, 172})

#: Lines of other sources that say the same.
_SIGNATURES = frozenset(
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

#: A run that begins again leaves the doubts of the one before behind.
_RESTARTS = ("checkpoint.loaded", "checkpoint.load_started", "megatron.from_scratch", "torchrun.rendezvous_complete")


@dataclass(frozen=True)
class Doubt:
    """``step``: the first whose numbers are in doubt, None where the event has no time to place it by."""

    row: Row
    step: int | None
    why: str


def first_doubt(facts: Facts) -> Doubt | None:
    """The first event of the last run after which saved numbers cannot be trusted.

    What the logs hold from before the first step (a kernel log reaches far back) or from before a later restart does
    not count.
    """
    began = facts.first_progress_ns
    rows = [r for r in facts.rows if r.xid in _XIDS or r.signature in _SIGNATURES]
    again = [r.time for r in facts.events(*_RESTARTS) if r.time is not None]
    placed = [r for r in rows if _timed(r) and began is not None and r.time is not None and r.time >= began]
    placed = [r for r in placed if not any(r.time < time for time in again if r.time is not None)]
    if placed:
        first = min(placed, key=lambda r: r.time or 0)
        return Doubt(first, _first_step_after(facts, first), _what(first))
    loose = next((r for r in rows if not _timed(r)), None)
    if loose is None or not facts.trained:
        return None
    return Doubt(loose, None, f"{_what(loose)}; its line has no time, so it may lie before the newest save")


def _timed(row: Row) -> bool:
    return row.time is not None and row.timestamp_basis not in ("inherited", "none")


def _first_step_after(facts: Facts, event: Row) -> int:
    """The first step that was not over when the event came, or whose save was not."""
    assert event.time is not None
    steps = [r.step for r in facts.progress if r.step is not None and r.time is not None and r.time <= event.time]
    saved = [
        r.step
        for r in facts.events("checkpoint.save_finished", "checkpoint.save_started")
        if r.step is not None and r.time is not None and r.time > event.time
    ]
    return min([max(steps) + 1, *saved])


def _what(row: Row) -> str:
    node = f" on {row.node}" if row.node else ""
    if row.xid is not None:
        return f"Xid {row.xid}{node} (memory gave or may have given wrong values)"
    if row.event.startswith("megatron") or row.event.startswith("torchrun"):
        return f"a calculation did not repeat{node}, which points to silent corruption"
    return f"an uncorrected memory error{node}"


def nan_step(facts: Facts) -> int | None:
    """The first step with non-finite numbers by the logs."""
    steps = [r.step for r in facts.events("megatron.nan", "trainer.nan") if r.step is not None]
    steps += [r.step for r in facts.progress if r.step is not None and _is_nan(r)]
    return min(steps, default=None)


def _is_nan(row: Row) -> bool:
    if row.attr("nan").isdecimal() and int(row.attr("nan")) > 0:
        return True
    try:
        return not math.isfinite(float(row.attr("loss") or 0))
    except ValueError:
        return False
