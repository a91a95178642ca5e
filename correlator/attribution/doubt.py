"""From when on the job's numbers cannot be trusted: data-integrity events, non-finite numbers, divergence."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

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


def first_nan(facts: Facts) -> Row | None:
    """The line of the first step with non-finite numbers."""
    rows = [r for r in facts.events("megatron.nan", "trainer.nan") if r.step is not None]
    rows += [r for r in facts.progress if r.step is not None and _is_nan(r)]
    return min(rows, key=lambda r: (r.step or 0, r.file, r.line), default=None)


def _is_nan(row: Row) -> bool:
    if row.attr("nan").isdecimal() and int(row.attr("nan")) > 0:
        return True
    try:
        return not math.isfinite(float(row.attr("loss") or 0))
    except ValueError:
        return False


#: Step lines before a jump that show what is usual, and after it that show that it stayed.
_USUAL, _STAYED = 8, 2
#: A jump is beyond so many robust deviations (1.4826 times the median deviation) and so many times the usual value.
_DEVIATIONS, _TIMES = 10.0, 2.0
#: Step lines in a row, up to the last, in which the loss scaler skipped steps.
_SKIPPING = 3


def first_divergence(facts: Facts) -> Doubt | None:
    """The first step of a divergence that lasted to the end: a loss that jumped and stayed, or a falling loss scale.

    A spike that the run recovers from is no reason to distrust what was saved behind it.
    """
    found = [one for lines in _series(facts).values() for one in (_jump(lines), _skipping(lines)) if one is not None]
    return min(found, key=lambda one: (one.step or 0, one.row.file, one.row.line), default=None)


def _series(facts: Facts) -> dict[str, list[Row]]:
    """The step lines of each file, of its last run only: steps that go back begin another one."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in facts.progress:
        if row.step is not None and not row.attr("epoch"):
            found[row.file].append(row)
    for lines in found.values():
        lines.sort(key=lambda r: r.byte_offset)
        back = [at for at, (a, b) in enumerate(pairwise(lines), 1) if (b.step or 0) < (a.step or 0)]
        del lines[: back[-1] if back else 0]
    return found


def _jump(lines: list[Row]) -> Doubt | None:
    values = [(row, loss) for row in lines if (loss := _number(row.attr("loss"))) is not None]
    for at in range(_USUAL, len(values) - _STAYED):
        before = [loss for _, loss in values[max(0, at - 4 * _USUAL) : at]]
        usual = median(before)
        spread = 1.4826 * median(abs(loss - usual) for loss in before)
        limit = max(usual + _DEVIATIONS * spread, _TIMES * usual)
        if usual > 0 and all(loss > limit for _, loss in values[at:]):
            row, loss = values[at]
            return Doubt(row, row.step, f"the loss rose from about {usual:.3g} to {loss:.3g} and stayed there")
    return None


def _skipping(lines: list[Row]) -> Doubt | None:
    streak: list[Row] = []
    for row in reversed(lines):
        if not (row.attr("skipped").isdecimal() and int(row.attr("skipped")[:9]) > 0 and row.attr("loss_scale")):
            break
        streak.append(row)
    scales = [scale for row in streak if (scale := _number(row.attr("loss_scale"))) is not None]
    if len(streak) < _SKIPPING or len(scales) < len(streak) or scales[0] >= scales[-1]:
        return None
    first = streak[-1]
    return Doubt(first, first.step, f"the loss scale fell from {scales[-1]:.3g} to {scales[0]:.3g}, steps were skipped")


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
