"""What the logs say about saves and loads, as values, and what follows from it alone: joined, durable, tainted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from correlator.checkpoints.listed import Listed
from correlator.checkpoints.names import rank_in_series, step_of


@dataclass(frozen=True)
class Harm:
    """What may have spoiled a save that was reported as done, as a clause; ``sure``: it surely came meanwhile."""

    why: str
    sure: bool


@dataclass(frozen=True)
class Save:
    """What the logs say about one save. ``step`` and ``path`` may both be unknown: a bare "Saving checkpoint...".

    ``scheduled_async``: only handed to a background writer, which is no sign that it arrived. ``near_step``: the last
    step printed before the line, for a save that states none. ``listed``: how a listing shows it. ``rewritten``: it was
    whole, and a later run began to write it anew and did not finish. ``harm``: storage errors meanwhile. ``at``: file
    and line of what proves most.
    """

    step: int | None = None
    path: str | None = None
    started: bool = False
    finished: bool = False
    scheduled_async: bool = False
    failed: bool = False
    near_step: int | None = None
    listed: Listed | None = None
    rewritten: bool = False
    harm: Harm | None = None
    at: str = ""


@dataclass(frozen=True)
class Load:
    """A checkpoint that a run of this job loaded, or tried to. ``refused``: another topology was asked of it."""

    step: int | None = None
    path: str | None = None
    failed: bool = False
    refused: bool = False
    at: str = ""


@dataclass(frozen=True)
class Suspicion:
    """Saves of the steps ``first`` to ``last`` (None: to the end) are not to be trusted, and why.

    ``kind``: non-finite numbers (of which weights that were read and found finite acquit), numbers that may be wrong
    without a sign, training that went wrong, or a run that began from random weights.
    """

    kind: Literal["nan", "silent", "diverged", "fresh"]
    first: int
    last: int | None = None
    why: str = ""

    def covers(self, step: int) -> bool:
        """Whether the save of a step is one of them."""
        return self.first <= step and (self.last is None or step <= self.last)

    def of(self, step: int) -> str:
        """The reason, as a clause about the save of a step."""
        text = {
            "nan": f"non-finite numbers appear from step {self.first}",
            "silent": "its numbers are under suspicion by then",
            "diverged": f"training went wrong from step {self.first}",
            "fresh": "by a run that began from random weights",
        }[self.kind]
        comma = " " if self.kind == "fresh" else ", "
        return f"it was saved at step {step}{comma}{text}{f': {self.why}' if self.why else ''}"


@dataclass(frozen=True)
class LogSide:
    """The logs' side. Steps count as the framework prints them; ``saves`` stand in the order of their lines.

    ``suspicions``: of the numbers. ``save_interval``: steps between saves, if
    printed. ``storage_errors_during_save``: file-system errors on a writing node between the lines of a save.
    ``nothing_saved``: why there can be no checkpoint, such as a failure before the first step; empty when the logs do
    not show it. ``relapsed``: steps from which runs began again and again and met non-finite numbers each time.
    ``cautions``: what to add to any answer. ``sizes``: of the launch that failed (world, tp, pp, dp, cp, ep), as far as
    known.
    """

    saves: tuple[Save, ...] = ()
    suspicions: tuple[Suspicion, ...] = ()
    last_step: int | None = None
    started_from_scratch_after_restart: bool = False
    storage_errors_during_save: bool = False
    nothing_saved: str = ""
    loads: tuple[Load, ...] = ()
    save_interval: int | None = None
    listed: tuple[Listed, ...] = ()
    relapsed: frozenset[int] = frozenset()
    cautions: tuple[str, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)


def merged(logs: LogSide) -> list[Save]:
    """One record a save, oldest first: lines of its beginning, its end, of other ranks and of a listing are joined."""
    found: dict[int | str, Save] = {}
    for save in logs.saves:
        step = path_step(save.step, save.path)
        key = _key(step, save.path, save.near_step)
        known = found.get(key, Save(step, save.path))
        found[key] = Save(
            step,
            known.path or save.path,
            known.started or save.started,
            known.finished or save.finished,
            known.scheduled_async or save.scheduled_async,
            known.failed or save.failed,
            save.near_step if known.near_step is None else known.near_step,
            None,
            known.rewritten or save.rewritten,
            known.harm or save.harm,
            save.at if save.finished or save.failed or not known.at else known.at,
        )
    kept = list(found.values())
    # Behind an undated save another one was begun, so training went on: that is all its place in the row tells.
    kept = [replace(save, finished=True) if _passed(save, kept[i + 1 :]) else save for i, save in enumerate(kept)]
    return _with_listed(kept, logs.listed)


def _with_listed(saves: list[Save], listed: Iterable[Listed]) -> list[Save]:
    by_key = {_key(save.step, save.path, save.near_step): save for save in saves}
    others = []
    for one in listed:
        step = path_step(None, one.path)
        key = _key(step, one.path)
        if key in by_key:
            by_key[key] = replace(by_key[key], listed=one, path=by_key[key].path or one.path)
        elif one.whole is not None:
            others.append(Save(step, one.path, listed=one))
    if not others:
        return list(by_key.values())
    both = [*others, *by_key.values()]
    return sorted(both, key=lambda save: _number(save) if save.step is None else save.step)


def _number(save: Save) -> int:
    return rank_in_series(save.path.rstrip("/").rpartition("/")[2]) if save.path else -1


def _key(step: int | None, path: str | None, near_step: int | None = None) -> int | str:
    """What a save is known by: its step, else the last component of its path, else its place among the steps."""
    if step is not None:
        return step
    return f"after {near_step}" if path is None else path.rstrip("/").rpartition("/")[2]


def path_step(step: int | None, path: str | None) -> int | None:
    """The step, from the name in the path where the line did not state it."""
    return step if step is not None or path is None else step_of(path.rstrip("/").rpartition("/")[2])


def _passed(save: Save, later: list[Save]) -> bool:
    return save.step is None and save.started and not save.failed and not save.scheduled_async and bool(later)


def durable(save: Save, logs: LogSide) -> bool:
    """Whether the logs show that the save reached the disk."""
    if save.listed is not None and save.listed.whole is not None:
        return save.listed.whole
    if save.failed or save.rewritten:
        return False
    if save.finished:
        return True
    if save.scheduled_async or save.step is None or logs.last_step is None:
        return False
    # Some frameworks print no end. A synchronous save that training has left behind is over; but where the ends of
    # other saves were printed, a missing one means what it says.
    silent = not any(other.finished for other in logs.saves)
    return save.started and silent and logs.last_step > save.step


def taint(step: int | None, logs: LogSide, *, finite: bool | None) -> str | None:
    """Why a complete checkpoint of this step cannot be trusted. Weights read and found finite acquit it of NaN."""
    open_ = [one for one in logs.suspicions if one.kind != "nan" or finite is not True]
    if step is None:
        return "its step is not known, so it may have been saved after the numbers went wrong" if open_ else None
    if finite is not True and step in logs.relapsed:
        return (
            f"more than one run began from step {step} and met non-finite numbers again, so its state may be the cause"
        )
    return next((one.of(step) for one in open_ if one.covers(step)), None)


def suspected(step: int | None, logs: LogSide) -> Suspicion | None:
    """The suspicion that the numbers of this step's save are wrong without a sign."""
    return next((s for s in logs.suspicions if s.kind == "silent" and step is not None and s.covers(step)), None)


def harmed(save: Save | None) -> str | None:
    """Why what was reported as saved may not be stored, where that is more than a possibility of the clocks."""
    return save.harm.why if save is not None and save.harm is not None and save.harm.sure else None


def _in(place: str) -> str:
    return f" ({place})" if place else ""


def basis(save: Save) -> str:
    """On what the judgement about a save rests, as a clause."""
    if save.listed is not None and save.listed.whole is not None:
        return save.listed.why
    if save.rewritten:
        text = "a later run began to write it anew and did not finish: it is half overwritten"
    elif save.failed:
        text = "its save failed or was never finished"
    elif save.finished:
        text = "the logs say that it was saved"
    elif save.scheduled_async:
        text = "only scheduled in the background, never reported as written"
    else:
        text = "its save was begun and never finished" if save.started else "this job loaded it"
    return text + _in(save.at)


def named(save: Save) -> str:
    """A save as the subject of a sentence."""
    if save.step is not None:
        return f"step {save.step}"
    if save.path:
        return save.path
    return "a save" if save.near_step is None else f"the save after step {save.near_step}"


def flaw(save: Save, doubt: str | None) -> str:
    """Why a save cannot be used, as a sentence without its full stop."""
    unlisted = save.listed is None or save.listed.whole is None
    if doubt is None and unlisted and save.started and not save.finished and not save.scheduled_async:
        name = f"the save of step {save.step}" if save.step is not None else named(save)
        end = "failed or was not finished" if save.failed else "was begun and never finished"
        subject = name if save.path is None or save.step is not None else f"the save to {save.path}"
        return f"{subject} {end}{_in(save.at)}"
    return f"{named(save)}: {doubt or basis(save)}"
