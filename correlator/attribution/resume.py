"""Where to resume: the checkpoint directory and the logs' side of the story together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from correlator.attribution.doubt import first_doubt, nan_step
from correlator.attribution.startup import why_nothing_saved
from correlator.cascade.model import Facts, Finding
from correlator.checkpoints import Inventory, scan
from correlator.checkpoints.listed import Listed, compare, size_of
from correlator.checkpoints.names import step_of
from correlator.checkpoints.resume import judge
from correlator.checkpoints.said import Load, LogSide, Save
from correlator.diagnosis import Evidence, Resume
from correlator.records import Row

#: Failures in which a checkpoint was found whole and did not fit what the job asked for.
_REFUSED = frozenset({"checkpoint-tp-mismatch", "checkpoint-size-mismatch", "checkpoint-optimizer-mismatch"})


def judge_resume(facts: Facts, chosen: Finding | None, checkpoints: str | Path | None) -> Resume:
    """The resume part of the diagnosis. ``checkpoints``: the directory, or None to look only where the logs say.

    Raises UsageError if a directory that the caller named cannot be read.
    """
    inventory = scan(Path(checkpoints)) if checkpoints is not None else _found_by_itself(facts)
    return judge(inventory, log_side(facts, chosen))


def resume_evidence(facts: Facts, resume: Resume, raw: Callable[[Row], str]) -> list[Evidence]:
    """The log lines the answer rests on: of the save it names (else of the newest one), and of the first doubt."""
    rows: list[tuple[Row, float, str]] = []
    best = max(_lines_about(facts, resume), key=_proof, default=None)
    if best is not None:
        offered = resume.iteration is not None or resume.path is not None
        why = "the save that is offered" if offered else "the newest save, which cannot be used"
        rows.append((best, 0.9 if resume.status == "safe" else 0.6, why))
    doubt = first_doubt(facts)
    if doubt is not None and resume.status == "unsafe" and doubt.step is not None:
        rows.append((doubt.row, 0.8, f"saves after it cannot be trusted: {doubt.why}"))
    return [Evidence("resume", row.file, row.line, row.byte_offset, raw(row), sure, why) for row, sure, why in rows]


#: Lines about one checkpoint, the one that proves most last.
_PROOF = ("save_scheduled", "save_started", "load_started", "listed", "loaded", "save_finished", "save_failed")


def _proof(row: Row) -> tuple[int, int]:
    return _PROOF.index(row.event.removeprefix("checkpoint.")), row.time or 0


def _lines_about(facts: Facts, resume: Resume) -> list[Row]:
    """Rows about the checkpoint that the answer names, or about the newest of its candidates."""
    newest = resume.candidates[0] if resume.candidates else None
    if resume.iteration is not None or resume.path is not None:
        step, path = resume.iteration, resume.path
    elif newest is not None:
        step, path = newest.iteration, newest.path
    else:
        return []
    rows = facts.events(*(f"checkpoint.{name}" for name in _PROOF))
    if step is None and path is None:
        return [r for r in rows if r.event == "checkpoint.save_started"]
    return [r for r in rows if _is_about(r, step, path)]


def _is_about(row: Row, step: int | None, path: str | None) -> bool:
    said = _whole_path(row.attr("path")).rstrip("/").rpartition("/")[2]
    if step is not None:
        return (row.step if row.step is not None else step_of(said)) == step
    return path is not None and said == path.rstrip("/").rpartition("/")[2]


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
    failing = _failed_while_saving(facts, chosen)
    doubt = first_doubt(facts)
    return LogSide(
        saves=_saves(facts, failing),
        nan_step=nan_step(facts),
        suspect_from_step=doubt.step if doubt else None,
        suspect_why=doubt.why if doubt else "",
        last_step=facts.step_near(None),
        started_from_scratch_after_restart=bool(facts.events("megatron.from_scratch"))
        and bool(facts.events("torchrun.restart")),
        storage_errors_during_save=failing and chosen is not None and chosen.subclass == "storage",
        nothing_saved=why_nothing_saved(facts, chosen),
        loads=_loads(facts, chosen),
        save_interval=_save_interval(facts),
        listed=_listed(facts),
        relapsed=_relapsed(facts),
        cautions=(doubt.why,) if doubt and doubt.step is None else (),
    )


def _saves(facts: Facts, failing: bool) -> tuple[Save, ...]:
    marked: dict[tuple[int | None, str, int | None], set[str]] = {}
    for event, mark in (
        ("checkpoint.save_started", "started"),
        ("checkpoint.save_finished", "finished"),
        ("checkpoint.save_scheduled", "scheduled"),
        ("checkpoint.save_failed", "failed"),
    ):
        for row in facts.events(event):
            path = row.attr("path")
            near = None if path or row.step is not None else _step_before(facts, row)
            marks = marked.setdefault((row.step, path, near), set())
            marks.add(mark)
            if row.attr("completion") == "none":
                marks.add("silent end")
                if event == "checkpoint.save_started" and _went_on(facts, row):
                    marks.add("finished")
    return tuple(
        Save(
            step=step,
            path=path or None,
            started="started" in marks,
            finished="finished" in marks,
            scheduled_async="scheduled" in marks,
            failed="failed" in marks or (failing and not marks & {"finished", "silent end"}),
            near_step=near,
        )
        for (step, path, near), marks in sorted(
            marked.items(), key=lambda item: (item[0][0] is None, item[0][0] or item[0][2] or 0, item[0][1])
        )
    )


def _step_before(facts: Facts, row: Row) -> int | None:
    """The last step that was printed before a line: in its own file, else by the clock."""
    own = [r for r in facts.progress if r.file == row.file and r.byte_offset < row.byte_offset and r.step is not None]
    if own:
        return max(own, key=lambda r: r.byte_offset).step
    return None if row.time is None else facts.step_near(row.time)


def _loads(facts: Facts, chosen: Finding | None) -> tuple[Load, ...]:
    refused = chosen is not None and chosen.signature in _REFUSED
    found = []
    for row in facts.events("checkpoint.loaded", "checkpoint.load_failed", "checkpoint.load_started"):
        begun = row.event == "checkpoint.load_started" and not _went_on(facts, row)
        if not begun or refused:
            path = _whole_path(row.attr("path"))
            found.append(Load(row.step, path or None, row.event == "checkpoint.load_failed", begun))
    return tuple(found)


def _relapsed(facts: Facts) -> frozenset[int]:
    """Steps that more than one run of the job loaded while non-finite numbers followed and no save came behind them."""
    bad = nan_step(facts)
    loads: Counter[tuple[str, int]] = Counter()
    for row in facts.events("checkpoint.loaded"):
        if row.step is not None:
            loads[row.writer, row.step] += row.count
    newest = max((r.step for r in facts.events("checkpoint.save_finished") if r.step is not None), default=0)
    return frozenset(s for (_, s), n in loads.items() if n > 1 and bad is not None and newest <= s < bad)


def _whole_path(path: str) -> str:
    """The checkpoint that a loaded file is a part of, where a folder above it states a step; else the path."""
    parts = path.split("/")
    level = next((n for n, part in enumerate(parts[:-1], 1) if step_of(part) is not None), len(parts))
    return "/".join(parts[:level])


def _listed(facts: Facts) -> tuple[Listed, ...]:
    rows = facts.events("checkpoint.listed")
    sizes = [(r.attr("path"), size_of(r.attr("size"), kib=r.attr("unit") == "KiB")) for r in rows]
    return tuple(compare((path, size) for path, size in sizes if size is not None))


def _went_on(facts: Facts, row: Row) -> bool:
    """Whether training steps were printed after a line: a save or load that the framework does not end with a word."""
    return any(
        (r.file == row.file and r.byte_offset > row.byte_offset)
        or (r.time is not None and row.time is not None and row.timestamp_basis == "printed" and r.time > row.time)
        for r in facts.progress
    )


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
    return next((int(v) for v in stated if v.isdecimal() and int(v) > 0), None)
