"""Where to resume: the checkpoint directory and the logs' side of the story together."""

from __future__ import annotations

import math
from pathlib import Path

from correlator.cascade.model import Facts, Finding
from correlator.checkpoints import Inventory, scan
from correlator.checkpoints.resume import Load, LogSide, Save, judge
from correlator.diagnosis import Resume
from correlator.records import Row

#: A log whose first step line is at most this one begins at the start of the run.
_FIRST_STEPS = 10
#: Verdict areas after which saved weights cannot be trusted from the first fault on.
_TAINTING = frozenset({"silent-corruption"})


def judge_resume(facts: Facts, chosen: Finding | None, checkpoints: str | Path | None) -> Resume:
    """The resume part of the diagnosis. ``checkpoints``: the directory, or None to look only where the logs say.

    Raises UsageError if a directory that the caller named cannot be read.
    """
    inventory = scan(Path(checkpoints)) if checkpoints is not None else _found_by_itself(facts)
    return judge(inventory, log_side(facts, chosen))


def _found_by_itself(facts: Facts) -> Inventory | None:
    """The inventory of the save directory that the logs name, if it is there to be read."""
    for row in reversed(facts.events("checkpoint.save_finished", "checkpoint.save_started")):
        path = Path(row.attr("path"))
        try:
            if path.is_absolute() and path.is_dir():
                return scan(path)
        except OSError:
            return None
    return None


def log_side(facts: Facts, chosen: Finding | None) -> LogSide:
    """What the logs say about the saves and about the trust in them."""
    saves: dict[tuple[int | None, str], set[str]] = {}
    for event, mark in (
        ("checkpoint.save_started", "started"),
        ("checkpoint.save_finished", "finished"),
        ("checkpoint.save_scheduled", "scheduled"),
        ("checkpoint.save_failed", "failed"),
    ):
        for row in facts.events(event):
            marks = saves.setdefault((row.step, row.attr("path")), set())
            marks.add(mark)
            if row.attr("completion") == "none":
                marks.add("silent end")
                if event == "checkpoint.save_started" and _went_on(facts, row):
                    marks.add("finished")
    failing = _failed_while_saving(facts, chosen)
    tainted = chosen is not None and chosen.subclass in _TAINTING
    return LogSide(
        saves=tuple(
            Save(
                step=step,
                path=path or None,
                started="started" in marks,
                finished="finished" in marks,
                scheduled_async="scheduled" in marks,
                failed="failed" in marks or (failing and not marks & {"finished", "silent end"}),
            )
            for (step, path), marks in sorted(
                saves.items(), key=lambda item: (item[0][0] is None, item[0][0] or 0, item[0][1])
            )
        ),
        nan_step=_nan_step(facts),
        suspect_from_step=facts.step_near(chosen.incident.time) if tainted and chosen else None,
        last_step=facts.step_near(None),
        started_from_scratch_after_restart=bool(facts.events("megatron.from_scratch"))
        and bool(facts.events("torchrun.restart")),
        storage_errors_during_save=failing and chosen is not None and chosen.subclass == "storage",
        failed_at_start=not facts.trained or _seen_from_the_start(facts),
        loads=tuple(
            Load(r.step, r.attr("path") or None, failed=r.event == "checkpoint.load_failed")
            for r in facts.events("checkpoint.loaded", "checkpoint.load_failed", "checkpoint.load_started")
            if r.event != "checkpoint.load_started" or _went_on(facts, r)
        ),
        save_interval=_save_interval(facts),
    )


def _went_on(facts: Facts, row: Row) -> bool:
    """Whether training steps were printed after a line: a save or load that the framework does not end with a word."""
    return any(
        (r.file == row.file and r.byte_offset > row.byte_offset)
        or (r.time is not None and row.time is not None and row.timestamp_basis == "printed" and r.time > row.time)
        for r in facts.progress
    )


def _seen_from_the_start(facts: Facts) -> bool:
    """Whether the logs hold the run from its first steps on, and no save or load in it, so nothing was saved."""
    steps = [r.step for r in facts.progress if r.step is not None]
    spoken = any(r.emitter == "checkpoint" for r in facts.rows)
    return bool(steps) and min(steps) <= _FIRST_STEPS and not spoken


def _failed_while_saving(facts: Facts, chosen: Finding | None) -> bool:
    """Whether a save was open when the job died; frameworks that never print the end of a save do not count."""
    begun = [r for r in facts.events("checkpoint.save_started") if r.attr("completion") != "none"]
    finished = {r.step for r in facts.events("checkpoint.save_finished")}
    return chosen is not None and bool(finished) and bool({r.step for r in begun} - finished)


def _save_interval(facts: Facts) -> int | None:
    """Steps between saves, as the job's own arguments state it."""
    stated = [
        r.attr(name)
        for r in facts.events("megatron.arguments", "config.dump")
        for name in ("save_interval", "save_steps")
    ]
    return next((int(v) for v in stated if v.isdigit() and int(v) > 0), None)


def _nan_step(facts: Facts) -> int | None:
    """The first step with non-finite numbers by the logs."""
    steps = [r.step for r in facts.events("megatron.nan") if r.step is not None]
    steps += [r.step for r in facts.events("trainer.nan") if r.step is not None]
    steps += [r.step for r in facts.progress if r.step is not None and _is_nan(r)]
    return min(steps, default=None)


def _is_nan(row: Row) -> bool:
    if row.attr("nan").isdigit() and int(row.attr("nan")) > 0:
        return True
    try:
        return not math.isfinite(float(row.attr("loss") or 0))
    except ValueError:
        return False
