"""Where to resume: :func:`judge` weighs the checkpoints on disk against what the logs say about them.

Saved is not enough. A checkpoint can be used when it is complete, holds finite numbers, was saved before the numbers
went wrong, and its save was confirmed. Without a directory only the log lines speak, and a save counts when its end
was printed or training went on behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from correlator.checkpoints.fit import fit
from correlator.checkpoints.hints import hint_for
from correlator.checkpoints.layouts import load_layouts
from correlator.checkpoints.model import Checkpoint, Inventory
from correlator.checkpoints.said import (
    LogSide,
    Save,
    Suspicion,
    basis,
    durable,
    flaw,
    harmed,
    merged,
    named,
    path_step,
    suspected,
    taint,
)
from correlator.diagnosis import Resume, ResumeCandidate

MAX_CANDIDATES = 20
"""Checkpoints listed in the answer, newest first."""

_DEEP = "check it deeply before use (correlator checkpoints DIR --deep)"


def judge(inventory: Inventory | None, logs: LogSide | None) -> Resume:
    """Status, the checkpoint to use, and why; ``logs`` is None where none were read.

    ``safe``: there is one that is complete and trusted; it may be an older one than the framework's mark points to,
    and then a reason says so. ``unsafe``: there are some and none can be trusted; ``iteration`` may still name the
    least bad. ``no-checkpoint``: nothing was ever saved. ``unknown``: the evidence does not tell.
    """
    log_side = logs or LogSide()
    by_logs = _judge_logs(log_side)
    if inventory is None:
        return by_logs
    if inventory.checkpoints:
        return _judge_disk(inventory, log_side)
    if by_logs.status == "safe":
        reason = f"the logs name this checkpoint, but there is none in {inventory.root}"
        return Resume("unknown", by_logs.iteration, by_logs.path, [reason, *by_logs.reasons], by_logs.candidates)
    if by_logs.status == "unknown" and not log_side.saves:
        silent = ", and the logs announce no save" if logs is not None else ""
        return Resume("no-checkpoint", reasons=[f"no checkpoint in {inventory.root}{silent}"])
    return by_logs


@dataclass(frozen=True)
class _Weighed:
    """A checkpoint on disk with what the logs add: why it is not trusted, whether its save is confirmed, and in doubt.

    ``harmed``: storage errors surely came while it was written, so only reading all of it makes it safe.
    """

    checkpoint: Checkpoint
    taint: str | None
    confirmed: bool
    doubt: str = ""
    harmed: bool = False

    @property
    def usable(self) -> bool:
        one = self.checkpoint
        return one.complete is True and one.finite is not False and self.taint is None

    @property
    def open(self) -> bool:
        """Not decided either way."""
        one = self.checkpoint
        return one.complete is None and one.finite is not False and self.taint is None


def _judge_disk(inventory: Inventory, logs: LogSide) -> Resume:
    saves = {save.step: save for save in merged(logs) if save.step is not None}
    weighed = [_weigh(one, saves, logs) for one in _for_training(inventory.checkpoints)]
    candidates = [_candidate(inventory, one) for one in weighed] + _not_on_disk(inventory, logs)
    candidates.sort(key=lambda c: -1 if c.iteration is None else c.iteration, reverse=True)
    answer = Resume(candidates=candidates[:MAX_CANDIDATES])
    usable = [one for one in weighed if one.usable]
    if not usable:
        return _none_usable(inventory, weighed, answer)
    chosen = next((one for one in usable if one.confirmed), usable[0])
    best = chosen.checkpoint
    answer.status = "unknown" if chosen.harmed else "safe"
    answer.iteration, answer.path = best.iteration, _full(inventory, best)
    finite = ", its numbers are finite as far as read" if best.finite else ""
    answer.reasons.append(f"{_label(best)} is complete{finite}{_lost(best.iteration, logs)}")
    answer.reasons += [f"limit: {problem}" for problem in best.problems]
    answer.reasons += [f"this launch: {note}" for note in fit(best, logs.sizes).notes]
    if chosen.doubt:
        answer.reasons.append(f"{chosen.doubt}; {_DEEP}")
    if logs.storage_errors_during_save:
        answer.reasons.append("storage reported errors during a save: " + _DEEP)
    answer.reasons += logs.cautions
    newer = weighed[: weighed.index(chosen)][:MAX_CANDIDATES]
    answer.reasons += [f"{_label(one.checkpoint)} is newer, but {_why_not(one)}" for one in newer]
    answer.reasons += _mark(inventory, best)
    _make_suspect(answer, (suspected(one.checkpoint.iteration, logs) for one in newer if one.checkpoint.complete))
    if answer.status == "safe":
        answer.reasons.append(f"to resume: {hint_for(inventory, best)}")
    return answer


def _weigh(one: Checkpoint, saves: Mapping[int, Save], logs: LogSide) -> _Weighed:
    said = None if one.iteration is None else saves.get(one.iteration)
    doubtful = taint(one.iteration, logs, finite=one.finite)
    if harmed(said) is not None:
        return _Weighed(one, doubtful, False, harmed(said) or "", True)
    if said is None or durable(said, logs):
        return _Weighed(one, doubtful, True, said.harm.why if said and said.harm else "")
    return _Weighed(one, doubtful, False, f"the logs announce its save and do not confirm it: {basis(said)}")


def _make_suspect(answer: Resume, newer: Iterable[Suspicion | None]) -> None:
    """A newer complete one is not to be trusted, so a plain relaunch is not; the one from before is offered."""
    first = next((one for one in newer if one is not None), None)
    if first is None:
        return
    answer.status = "unsafe"
    answer.reasons.append(
        "newer ones were saved after the numbers came under suspicion; this is the last one from before, but how far "
        f"back it reaches is not known: {first.why}"
    )


def _none_usable(inventory: Inventory, weighed: list[_Weighed], answer: Resume) -> Resume:
    answer.reasons = [f"{_label(one.checkpoint)}: {_why_not(one)}" for one in weighed[:MAX_CANDIDATES]]
    undecided = next((one.checkpoint for one in weighed if one.open), None)
    answer.status = "unknown" if undecided else "unsafe"
    if undecided:
        answer.iteration, answer.path = undecided.iteration, _full(inventory, undecided)
    if inventory.tracker_problem:
        answer.reasons.append(inventory.tracker_problem)
    return answer


def _mark(inventory: Inventory, chosen: Checkpoint) -> list[str]:
    """What a plain relaunch would do, when that is not to load the chosen checkpoint."""
    layout = next(layout for layout in load_layouts() if layout.name == chosen.layout)
    name = chosen.path.rpartition("/")[2]
    if inventory.tracker_problem:
        return [f"a plain relaunch goes wrong: {inventory.tracker_problem}"]
    if inventory.tracker is not None and inventory.tracker not in (chosen.iteration, name):
        return [f"a plain relaunch follows the mark to {inventory.tracker}"]
    if inventory.tracker is None and layout.trackers and chosen.path != ".":
        return [f"there is no {next(iter(layout.trackers))}: a plain relaunch starts from scratch"]
    return []


def _not_on_disk(inventory: Inventory, logs: LogSide) -> list[ResumeCandidate]:
    """Saves the logs announce of which the directory has nothing."""
    present = {one.iteration for one in inventory.checkpoints}
    return [
        ResumeCandidate(save.path, save.step, False, None, ["announced in the logs, not in the directory"])
        for save in merged(logs)
        if save.step is not None and save.step not in present
    ]


def _judge_logs(logs: LogSide) -> Resume:
    states = _states(logs)
    answer = Resume(candidates=[_log_candidate(*state) for state in states[:MAX_CANDIDATES]])
    good = [save for save, arrived, doubt in states if arrived and not doubt]
    if logs.storage_errors_during_save and len(good) == len(states) and good:
        answer.reasons.append("storage reported errors during a save, and the logs do not say which one it hit")
        good = good[1:]
        if not good:
            return answer
    if good:
        _offer(answer, good[0], states, logs)
    elif states:
        # A save without a step cannot be placed before or after the trouble; one in doubt may be whole.
        undecided = any(arrived and (save.step is None or harmed(save)) for save, arrived, _ in states)
        answer.status = "unknown" if undecided else "unsafe"
        answer.reasons += [flaw(save, doubt) for save, _, doubt in states[:MAX_CANDIDATES]]
        answer.reasons.append("no older one is in these logs; look in the save folder (--checkpoints DIR)")
    else:
        _nothing_announced(logs, answer)
    answer.reasons += logs.cautions if states else ()
    return answer


#: A save, whether it reached the disk, and why it is not trusted.
_State = tuple[Save, bool, str | None]


def _states(logs: LogSide) -> list[_State]:
    """Everything the logs say was saved, loaded or listed; newest first."""
    states = [(save, durable(save, logs), taint(save.step, logs, finite=None) or harmed(save)) for save in merged(logs)]
    loads = [replace(load, step=path_step(load.step, load.path)) for load in logs.loads]
    failed = {key for load in loads if load.failed for key in (load.step, load.path) if key is not None}
    known = {save.step for save, _, _ in states}
    for load in loads:
        if not load.failed and load.step not in known:
            known.add(load.step)
            states.insert(0, (Save(load.step, load.path, at=load.at), True, taint(load.step, logs, finite=None)))
    states = [(s, d and s.step not in failed and s.path not in failed, t) for s, d, t in states]
    states.sort(key=lambda state: -1 if state[0].step is None else state[0].step)
    states.reverse()
    return states


def _offer(answer: Resume, best: Save, states: Sequence[_State], logs: LogSide) -> None:
    """Fills the answer with the save that can be used, and why the newer ones cannot."""
    answer.status, answer.iteration, answer.path = "safe", best.step, best.path
    answer.reasons.insert(0, f"{named(best)}: {basis(best)}{_lost(best.step, logs)}; the files were not looked at")
    if best.harm is not None:
        answer.reasons.append(f"{best.harm.why}; {_DEEP}")
    for save, _, doubt in states:
        if save is best:
            break
        answer.reasons.append(f"newer: {flaw(save, doubt)}")
    if any(load.refused and path_step(load.step, load.path) == best.step for load in logs.loads):
        answer.reasons.append("this job asked for another topology than that of the save: resume with the latter")
    _make_suspect(answer, (suspected(save.step, logs) for save, arrived, _ in states if arrived))


def _nothing_announced(logs: LogSide, answer: Resume) -> None:
    early = logs.save_interval is not None and logs.last_step is not None and logs.last_step < logs.save_interval
    reasons = (
        (bool(logs.nothing_saved), logs.nothing_saved),
        (logs.started_from_scratch_after_restart, "a restart found no checkpoint and started from scratch"),
        (early, f"it failed at step {logs.last_step}, before the first save at step {logs.save_interval}"),
    )
    answer.reasons = [text for holds, text in reasons if holds]
    answer.status = "no-checkpoint" if answer.reasons else "unknown"
    if not answer.reasons:
        answer.reasons = [
            "the logs mention no checkpoint; look in the save folder and run again with --checkpoints DIR"
        ]


def _for_training(checkpoints: Iterable[Checkpoint]) -> list[Checkpoint]:
    """Weights alone are no point to resume a training from while something better is there."""
    every = list(checkpoints)
    return [one for one in every if one.layout != "safetensors"] or every


def _candidate(inventory: Inventory, weighed: _Weighed) -> ResumeCandidate:
    one = weighed.checkpoint
    sizes = " ".join(f"{name}={size}" for name, size in one.topology.items()) or None
    problems = [*one.problems, *([weighed.taint] if weighed.taint else [])]
    return ResumeCandidate(_full(inventory, one), one.iteration, one.complete, sizes, problems)


def _log_candidate(save: Save, arrived: bool, doubt: str | None) -> ResumeCandidate:
    problems = [doubt] if doubt else []
    if not arrived:
        problems.append(basis(save))
    complete = True if arrived else False if save.failed or _cut(save) else None
    return ResumeCandidate(save.path, save.step, complete, None, problems)


def _cut(save: Save) -> bool:
    return save.listed is not None and save.listed.whole is False


def _why_not(weighed: _Weighed) -> str:
    one = weighed.checkpoint
    if one.complete is False:
        return f"incomplete: {one.problems[0] if one.problems else 'parts are missing'}"
    if one.finite is False:
        return next((p for p in one.problems if "NaN" in p or "Inf" in p), "its weights are not finite")
    if weighed.taint:
        return weighed.taint
    if one.complete is None:
        return f"not decidable: {one.problems[0] if one.problems else 'not checked'}"
    return f"{weighed.doubt}; {_DEEP}" if weighed.harmed else weighed.doubt


def _label(one: Checkpoint) -> str:
    return f"iteration {one.iteration}" if one.iteration is not None else one.path


def _lost(step: int | None, logs: LogSide) -> str:
    if step is None or logs.last_step is None or logs.last_step < step:
        return ""
    return f"; steps {step + 1} to {logs.last_step} are repeated" if logs.last_step > step else "; no step is lost"


def _full(inventory: Inventory, one: Checkpoint) -> str:
    return inventory.root if one.path == "." else f"{inventory.root}/{one.path}"
