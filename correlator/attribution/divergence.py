"""Training that went wrong and stayed so: a loss that jumped or is no number, a falling loss scale, a resume astray.

Only what lasted to the end of a run counts: a spike that the run recovers from is no reason to distrust what was saved
behind it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise, takewhile
from statistics import median

from correlator.attribution.doubt import Doubt, first_of_each, is_nan
from correlator.attribution.runs import Run
from correlator.records import Row

#: Step lines before a jump that show what is usual, and after it that show that it stayed.
_USUAL, _STAYED = 8, 2
#: A jump is beyond so many robust deviations (1.4826 times the median deviation) and so many times the usual value.
_DEVIATIONS, _TIMES = 10.0, 2.0
#: Steps that two runs must have in common to be compared one by one; as the same steps they differ by less.
_COMMON, _COMMON_TIMES = 3, 1.25
#: Step lines in a row, up to the last, in which the loss scaler skipped steps.
_SKIPPING = 3
#: Step lines in a row, up to the last, whose numbers are not finite: what is saved between them makes such again.
_NOT_FINITE = 3


def divergences(runs: Sequence[Run]) -> list[Doubt]:
    """The first divergence of each run; of one against its history, from the step whose state it had loaded."""
    found: list[Doubt | None] = []
    for number, run in enumerate(runs):
        found += [_jump(run, number), _lost(run, number), _skipping(run, number), _against_history(runs, number)]
    return first_of_each(one for one in found if one is not None)


def fresh_starts(runs: Sequence[Run]) -> list[Doubt]:
    """Runs that began from random weights although a save was there that is further than all they reached."""
    found = []
    for number, run in enumerate(runs):
        saved = [row.step or 0 for before in runs[:number] for row in before.saves if row.event.endswith("_finished")]
        if run.loaded == 0 and saved and max(saved) > run.reach:
            found.append(Doubt(run.lines[0], run.lines[0].step, f"step {max(saved)} had been saved before", number))
    return found


def _losses(run: Run) -> list[tuple[Row, float]]:
    return [(row, loss) for row in run.lines if (loss := _number(row.attr("loss"))) is not None]


def _jump(run: Run, number: int) -> Doubt | None:
    values = _losses(run)
    for at in range(_USUAL, len(values) - _STAYED):
        limit, usual = _limit([loss for _, loss in values[max(0, at - 4 * _USUAL) : at]])
        if usual > 0 and all(loss > limit for _, loss in values[at:]):
            row, loss = values[at]
            why = f"the loss rose from about {usual:.3g} to {loss:.3g} and stayed there"
            return Doubt(row, row.step, why, number)
    return None


def _limit(before: Sequence[float]) -> tuple[float, float]:
    """The loss beyond which it jumped, and what was usual."""
    usual = median(before)
    deviation = 1.4826 * median(abs(loss - usual) for loss in before)
    return max(usual + _DEVIATIONS * deviation, _TIMES * usual), usual


def _against_history(runs: Sequence[Run], number: int) -> Doubt | None:
    """A run that went on from a save with losses far above those that the runs before had at the same steps.

    Where it goes on behind all of them, the losses up to the save say what was usual.
    """
    run = runs[number]
    if run.loaded == 0 or number == 0:
        return None
    history: dict[int, float] = {}
    for before in runs[:number]:
        history |= {row.step or 0: loss for row, loss in _losses(before)}
    after = [(row, loss) for row, loss in _losses(run) if (row.step or 0) > run.loaded]
    common = [(history[row.step or 0], loss) for row, loss in after if (row.step or 0) in history]
    if len(common) >= _COMMON:
        noise = [abs(b - a) for a, b in pairwise(old for old, _ in common)]
        beyond = _DEVIATIONS * median(noise)
        away = all(new > max(old + beyond, _COMMON_TIMES * old) for old, new in common)
        usual, where = median(old for old, _ in common), "at the same steps"
    else:
        known = [loss for step, loss in sorted(history.items()) if step <= run.loaded][-4 * _USUAL :]
        if len(known) < _USUAL or len(after) <= _STAYED:
            return None
        limit, usual = _limit(known)
        away, where = all(loss > limit for _, loss in after), "before"
    if not away or usual <= 0:
        return None
    first, loss = after[0]
    why = f"the run that went on from it has a loss of {loss:.3g}, where it was about {usual:.3g} {where}"
    return Doubt(first, run.loaded, why, number)


def _lost(run: Run, number: int) -> Doubt | None:
    streak = list(takewhile(is_nan, reversed(run.lines)))
    if len(streak) < _NOT_FINITE:
        return None
    return Doubt(streak[-1], streak[-1].step, "from then on no step had finite numbers", number)


def _skipping(run: Run, number: int) -> Doubt | None:
    streak: list[Row] = []
    for row in reversed(run.lines):
        if not (row.attr("skipped").isdecimal() and int(row.attr("skipped")[:9]) > 0 and row.attr("loss_scale")):
            break
        streak.append(row)
    scales = [scale for row in streak if (scale := _number(row.attr("loss_scale"))) is not None]
    if len(streak) < _SKIPPING or len(scales) < len(streak) or scales[0] >= scales[-1]:
        return None
    first = streak[-1]
    why = f"the loss scale fell from {scales[-1]:.3g} to {scales[0]:.3g}, steps were skipped"
    return Doubt(first, first.step, why, number)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
