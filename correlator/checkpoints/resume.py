"""Where to resume: :func:`judge` weighs the checkpoints on disk against what the logs say about them.

Saved is not enough. A checkpoint can be used when it is complete, holds finite numbers, was saved before the numbers
went wrong, and its save was confirmed. Without a directory only the log lines speak, and a save counts when its end
was printed or training went on behind it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from correlator.checkpoints.layouts import load_layouts
from correlator.checkpoints.model import Checkpoint, Inventory
from correlator.checkpoints.names import step_of
from correlator.diagnosis import Resume, ResumeCandidate

MAX_CANDIDATES = 20
"""Checkpoints listed in the answer, newest first."""


@dataclass(frozen=True)
class Save:
    """What the logs say about one save. ``step`` or ``path`` may be unknown, not both.

    ``scheduled_async``: only handed to a background writer, which is no sign that it arrived.
    """

    step: int | None = None
    path: str | None = None
    started: bool = False
    finished: bool = False
    scheduled_async: bool = False
    failed: bool = False


@dataclass(frozen=True)
class Load:
    """A checkpoint that a run of this job loaded, or tried to."""

    step: int | None = None
    path: str | None = None
    failed: bool = False


@dataclass(frozen=True)
class LogSide:
    """The logs' side. Steps count as the framework prints them; ``saves`` stand in the order of their lines.

    ``nan_step``: first step with non-finite numbers. ``suspect_from_step``: first step whose numbers may be silently
    wrong, such as after an uncorrected memory error or at the start of an unexplained divergence. ``save_interval``:
    steps between saves, if printed. ``storage_errors_during_save``: file-system errors on a writing node between the
    lines of a save.
    """

    saves: tuple[Save, ...] = ()
    nan_step: int | None = None
    suspect_from_step: int | None = None
    last_step: int | None = None
    started_from_scratch_after_restart: bool = False
    storage_errors_during_save: bool = False
    failed_at_start: bool = False
    loads: tuple[Load, ...] = ()
    save_interval: int | None = None


def judge(inventory: Inventory | None, log_side: LogSide) -> Resume:
    """Status, the checkpoint to use, and why.

    ``safe``: there is one that is complete and trusted; it may be an older one than the framework's mark points to,
    and then a reason says so. ``unsafe``: there are some and none can be trusted; ``iteration`` may still name the
    least bad. ``no-checkpoint``: nothing was ever saved. ``unknown``: the evidence does not tell.
    """
    by_logs = _judge_logs(log_side)
    if inventory is None:
        return by_logs
    if inventory.checkpoints:
        return _judge_disk(inventory, log_side)
    if by_logs.status == "safe":
        reason = f"the logs name this checkpoint, but there is none in {inventory.root}"
        return Resume("unknown", by_logs.iteration, by_logs.path, [reason, *by_logs.reasons], by_logs.candidates)
    if by_logs.status == "unknown" and not log_side.saves:
        return Resume("no-checkpoint", reasons=[f"no checkpoint in {inventory.root}, and the logs announce no save"])
    return by_logs


@dataclass(frozen=True)
class _Weighed:
    """A checkpoint on disk with what the logs add: why it is not trusted, and whether its save is confirmed."""

    checkpoint: Checkpoint
    taint: str | None
    confirmed: bool

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
    durable = {save.step: _durable(save, logs) for save in _merged(logs.saves)}
    weighed = [
        _Weighed(one, _taint(one.iteration, logs, finite=one.finite), durable.get(one.iteration, True))
        for one in _for_training(inventory.checkpoints)
    ]
    candidates = [_candidate(inventory, one) for one in weighed] + _not_on_disk(inventory, logs)
    candidates.sort(key=lambda c: -1 if c.iteration is None else c.iteration, reverse=True)
    answer = Resume(candidates=candidates[:MAX_CANDIDATES])
    usable = [one for one in weighed if one.usable]
    if not usable:
        return _none_usable(inventory, weighed, answer)
    chosen = next((one for one in usable if one.confirmed), usable[0])
    best = chosen.checkpoint
    answer.status, answer.iteration, answer.path = "safe", best.iteration, _full(inventory, best)
    finite = ", its numbers are finite as far as read" if best.finite else ""
    answer.reasons.append(f"{_label(best)} is complete{finite}{_lost(best.iteration, logs)}")
    answer.reasons += [f"limit: {problem}" for problem in best.problems]
    if not chosen.confirmed:
        answer.reasons.append("the logs announce its save and do not confirm it: check it deeply before use")
    if logs.storage_errors_during_save:
        answer.reasons.append("storage reported errors during a save: check it deeply before use")
    newer = weighed[: weighed.index(chosen)][:MAX_CANDIDATES]
    answer.reasons += [f"{_label(one.checkpoint)} is newer, but {_why_not(one)}" for one in newer]
    answer.reasons += _mark(inventory, best)
    if logs.suspect_from_step is not None and any(
        one.checkpoint.complete and (one.checkpoint.iteration or 0) >= logs.suspect_from_step for one in newer
    ):
        answer.status = "unsafe"
        answer.reasons.append(_SUSPECT)
    return answer


_SUSPECT = (
    "checkpoints were saved after numbers came under suspicion; this is the last one from before, but how far back "
    "silent corruption reaches is not known"
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
        for save in _merged(logs.saves)
        if save.step is not None and save.step not in present
    ]


def _judge_logs(logs: LogSide) -> Resume:
    saves = _merged(logs.saves)
    states = [(save, _durable(save, logs), _taint(save.step, logs, finite=None)) for save in saves]
    loads = [replace(load, step=_step(load.step, load.path)) for load in logs.loads]
    failed = {key for load in loads if load.failed for key in (load.step, load.path) if key is not None}
    known = {save.step for save in saves}
    for load in loads:
        if not load.failed and load.step not in known:
            known.add(load.step)
            states.insert(0, (Save(load.step, load.path), True, _taint(load.step, logs, finite=None)))
    states = [(s, d and s.step not in failed and s.path not in failed, t) for s, d, t in states]
    states.sort(key=lambda state: -1 if state[0].step is None else state[0].step)
    states.reverse()
    answer = Resume(candidates=[_log_candidate(*state) for state in states[:MAX_CANDIDATES]])
    good = [save for save, durable, taint in states if durable and not taint]
    if logs.storage_errors_during_save and len(good) == len(states) and good:
        answer.reasons.append("storage reported errors during a save, and the logs do not say which one it hit")
        good = good[1:]
        if not good:
            return answer
    if good:
        best = good[0]
        answer.status, answer.iteration, answer.path = "safe", best.step, best.path
        answer.reasons.insert(
            0, f"{_named(best)}: {_basis(best)}{_lost(best.step, logs)}; the files were not looked at"
        )
        suspect = logs.suspect_from_step
        if suspect is not None and any(d and s.step is not None and s.step >= suspect for s, d, _ in states):
            answer.status = "unsafe"
            answer.reasons.append(_SUSPECT)
        return answer
    if states:
        # A save without a step cannot be placed before or after the trouble.
        undated = any(durable and save.step is None for save, durable, _ in states)
        answer.status = "unknown" if undated else "unsafe"
        answer.reasons += [f"{_named(s)}: {t or _basis(s)}" for s, d, t in states[:MAX_CANDIDATES]]
        return answer
    return _nothing_announced(logs, answer)


def _nothing_announced(logs: LogSide, answer: Resume) -> Resume:
    early = logs.save_interval is not None and logs.last_step is not None and logs.last_step < logs.save_interval
    reasons = (
        (logs.failed_at_start, "it failed before anything was saved"),
        (logs.started_from_scratch_after_restart, "a restart found no checkpoint and started from scratch"),
        (early, f"it failed at step {logs.last_step}, before the first save at step {logs.save_interval}"),
    )
    answer.reasons = [text for holds, text in reasons if holds] or ["the logs speak of no save"]
    answer.status = "no-checkpoint" if any(holds for holds, _ in reasons) else "unknown"
    return answer


def _merged(saves: Iterable[Save]) -> list[Save]:
    """One record a save, in the order of the lines: those of its beginning, its end and of other ranks are joined."""
    found: dict[int | str | None, Save] = {}
    for save in saves:
        step = _step(save.step, save.path)
        key = step if step is not None else save.path
        known = found.get(key, Save(step, save.path))
        found[key] = Save(
            step,
            known.path or save.path,
            known.started or save.started,
            known.finished or save.finished,
            known.scheduled_async or save.scheduled_async,
            known.failed or save.failed,
        )
    kept = list(found.values())
    # Behind an undated save another one was begun, so training went on: that is all its place in the row tells.
    return [replace(save, finished=True) if _passed(save, kept[i + 1 :]) else save for i, save in enumerate(kept)]


def _step(step: int | None, path: str | None) -> int | None:
    """The step, from the name in the path where the line did not state it."""
    return step if step is not None or path is None else step_of(path.rstrip("/").rpartition("/")[2])


def _passed(save: Save, later: list[Save]) -> bool:
    return save.step is None and save.started and not save.failed and not save.scheduled_async and bool(later)


def _durable(save: Save, logs: LogSide) -> bool:
    """Whether the logs show that the save reached the disk."""
    if save.failed:
        return False
    if save.finished:
        return True
    if save.scheduled_async or save.step is None or logs.last_step is None:
        return False
    # Some frameworks print no end. A synchronous save that training has left behind is over; but where the ends of
    # other saves were printed, a missing one means what it says.
    silent = not any(other.finished for other in logs.saves)
    return save.started and silent and logs.last_step > save.step


def _taint(step: int | None, logs: LogSide, *, finite: bool | None) -> str | None:
    """Why a complete checkpoint of this step cannot be trusted. Weights read and found finite acquit it of NaN."""
    limits = [
        limit for limit in (logs.nan_step if finite is not True else None, logs.suspect_from_step) if limit is not None
    ]
    if step is None:
        return "its step is not known, so it may have been saved after the numbers went wrong" if limits else None
    if finite is not True and logs.nan_step is not None and step >= logs.nan_step:
        return f"it was saved at step {step}, non-finite numbers appear from step {logs.nan_step}"
    if logs.suspect_from_step is not None and step >= logs.suspect_from_step:
        return f"it was saved at step {step}, numbers are under suspicion from step {logs.suspect_from_step}"
    return None


def _for_training(checkpoints: Iterable[Checkpoint]) -> list[Checkpoint]:
    """Weights alone are no point to resume a training from while something better is there."""
    every = list(checkpoints)
    return [one for one in every if one.layout != "safetensors"] or every


def _candidate(inventory: Inventory, weighed: _Weighed) -> ResumeCandidate:
    one = weighed.checkpoint
    sizes = " ".join(f"{name}={size}" for name, size in one.topology.items()) or None
    problems = [*one.problems, *([weighed.taint] if weighed.taint else [])]
    return ResumeCandidate(_full(inventory, one), one.iteration, one.complete, sizes, problems)


def _log_candidate(save: Save, durable: bool, taint: str | None) -> ResumeCandidate:
    problems = [taint] if taint else []
    if not durable:
        problems.append(_basis(save))
    return ResumeCandidate(save.path, save.step, True if durable else (False if save.failed else None), None, problems)


def _basis(save: Save) -> str:
    if save.failed:
        return "its save failed"
    if save.finished:
        return "the logs say that it was saved"
    if save.scheduled_async:
        return "only scheduled in the background, never reported as written"
    return "a save was announced" if save.started else "it was loaded by this job"


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
    return "the logs announce its save and do not confirm it"


def _label(one: Checkpoint) -> str:
    return f"iteration {one.iteration}" if one.iteration is not None else one.path


def _named(save: Save) -> str:
    return f"step {save.step}" if save.step is not None else str(save.path)


def _lost(step: int | None, logs: LogSide) -> str:
    if step is None or logs.last_step is None or logs.last_step < step:
        return ""
    return f"; steps {step + 1} to {logs.last_step} are repeated" if logs.last_step > step else "; no step is lost"


def _full(inventory: Inventory, one: Checkpoint) -> str:
    return inventory.root if one.path == "." else f"{inventory.root}/{one.path}"
