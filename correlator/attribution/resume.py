"""Where to resume: the checkpoint directory and the logs' side of the story together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from correlator.attribution.divergence import divergences, fresh_starts
from correlator.attribution.doubt import Doubt, integrity_doubts, nan_doubts
from correlator.attribution.later_faults import later_faults
from correlator.attribution.runs import Run, runs_of, spread
from correlator.attribution.save_lines import (
    REFUSED,
    failed_while_saving,
    listed_of,
    loads_of,
    place,
    saves_of,
    whole_path,
)
from correlator.attribution.startup import why_nothing_saved
from correlator.cascade.model import Facts, Finding
from correlator.checkpoints import Inventory, scan
from correlator.checkpoints.names import step_of
from correlator.checkpoints.resume import judge
from correlator.checkpoints.said import LogSide, Suspicion
from correlator.diagnosis import Evidence, Resume
from correlator.discovery import lies_below
from correlator.errors import UsageError
from correlator.records import Row
from correlator.topology.model import HIGHEST_SEEN


def judge_resume(
    facts: Facts,
    chosen: Finding | None,
    checkpoints: str | Path | None,
    logs: Sequence[str | Path] = (),
    *,
    confined: bool = False,
) -> Resume:
    """The resume part of the diagnosis.

    ``checkpoints``: the directory, or None to look only where the logs name one that is there, and below the folders
    ``logs``; with ``confined`` only below these. Raises UsageError if a directory that the caller named cannot be read.
    """
    inventory = scan(Path(checkpoints)) if checkpoints is not None else _found_by_itself(facts, logs, confined)
    return judge(inventory, log_side(facts, chosen))


def on_disk_too(chosen: Finding | None, facts: Facts, resume: Resume) -> str:
    """When the launch was refused for its sizes: the sizes that the directory shows, as a sentence; else nothing."""
    if chosen is None or chosen.signature not in REFUSED:
        return ""
    saved = next((one for one in resume.candidates if one.topology and one.complete is not False), None)
    if saved is None:
        return ""
    asked = " ".join(f"{name}={size}" for name, size in _launched(facts).items())
    return f" On disk {saved.path} is of {saved.topology}" + (f"; this launch is {asked}." if asked else ".")


def resume_evidence(facts: Facts, resume: Resume, raw: Callable[[Row], str]) -> list[Evidence]:
    """The log lines the answer rests on: of the save it names (else of the newest one), and of the first doubt."""
    rows: list[tuple[Row, float, str]] = []
    best = max(_lines_about(facts, resume), key=_proof, default=None)
    if best is not None:
        offered = resume.iteration is not None or resume.path is not None
        why = "the save that is offered" if offered else "the newest save, which cannot be used"
        rows.append((best, 0.9 if resume.status == "safe" else 0.6, why))
    runs = runs_of(facts)
    doubts = sorted(_silent(facts, runs), key=lambda d: (d.run, d.step or 0))
    if doubts and resume.status == "unsafe":
        doubt = doubts[-1]
        rows.append((doubt.row, 0.8, f"saves after it cannot be trusted: {doubt.why}"))
    return [Evidence("resume", row.file, row.line, row.byte_offset, raw(row), sure, why) for row, sure, why in rows]


#: Lines that name the folder of the saves.
_NAMING = ("checkpoint.save_finished", "checkpoint.save_started")

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
    said = whole_path(row.attr("path")).rstrip("/").rpartition("/")[2]
    if step is not None:
        return (row.step if row.step is not None else step_of(said)) == step
    return path is not None and said == path.rstrip("/").rpartition("/")[2]


def _found_by_itself(facts: Facts, logs: Sequence[str | Path], confined: bool) -> Inventory | None:
    """The inventory of the save directory that the logs name, where it stands or copied beside the logs."""
    said = (row.attr("path") for row in reversed(facts.events(*_NAMING)))
    # A log may hold any text: a path that climbs out of the folder is not looked for in it.
    named = [path for path in dict.fromkeys(map(Path, filter(None, said))) if ".." not in path.parts]
    roots = [Path(root) for root in logs]
    # A path /lustre/run7/ckpt may have been collected as ckpt, run7/ckpt, …; the longest one that is there counts.
    tails = [path.parts[at:] for path in named for at in range(path.is_absolute(), len(path.parts))]
    beside = [root.joinpath(*tail) for tail in tails for root in roots]
    # An empty folder of that name is no save folder that lost all, but where one was mounted when the job ran.
    folders = [*(path for path in named if path.is_absolute()), *beside]
    for folder in [f for f in folders if lies_below(f, roots)] if confined else folders:
        try:
            found = scan(folder) if folder.is_dir() else None
        except (OSError, ValueError, UsageError):
            continue
        if found is not None and (found.checkpoints or (folder in named and any(folder.iterdir()))):
            return found
    return _among_the_logs(roots)


def _among_the_logs(roots: Iterable[Path]) -> Inventory | None:
    """Checkpoints that lie below the logs' folder unannounced: only directories of a known layout, no loose files."""
    for root in roots:
        try:
            found = scan(root, loose=False) if root.is_dir() else None
        except UsageError:
            continue
        if found is not None and found.checkpoints:
            return found
    return None


def log_side(facts: Facts, chosen: Finding | None) -> LogSide:
    """What the logs say about the saves and about the trust in them."""
    failing = failed_while_saving(facts, chosen)
    runs = runs_of(facts)
    return LogSide(
        saves=saves_of(facts, failing),
        suspicions=_suspicions(facts, runs),
        last_step=facts.step_near(None),
        started_from_scratch_after_restart=bool(facts.events("megatron.from_scratch"))
        and bool(facts.events("torchrun.restart")),
        storage_errors_during_save=failing and chosen is not None and chosen.subclass == "storage",
        nothing_saved=why_nothing_saved(facts, chosen),
        loads=loads_of(facts, chosen),
        save_interval=_save_interval(facts),
        listed=listed_of(facts),
        relapsed=_relapsed(facts, runs),
        cautions=_cautions(facts, runs),
        sizes=_launched(facts),
    )


def _silent(facts: Facts, runs: Sequence[Run]) -> list[Doubt]:
    """What makes numbers doubtful that look like any other, where its step is known."""
    return [one for one in (*integrity_doubts(facts, runs), *later_faults(facts, runs)) if one.step is not None]


def _suspicions(facts: Facts, runs: Sequence[Run]) -> tuple[Suspicion, ...]:
    """Every doubt as the steps whose saves it touches, in the order in which a save is told of them."""
    found: list[Suspicion] = []
    for kind, doubts in (
        ("nan", nan_doubts(facts, runs)),
        ("silent", _silent(facts, runs)),
        ("diverged", divergences(runs)),
        ("fresh", fresh_starts(runs)),
    ):
        for doubt in doubts:
            why = f"{doubt.why} ({place(doubt.row)})" if doubt.why else place(doubt.row)
            for first, last in spread(runs, doubt.run, doubt.step or 0):
                # A run that began anew reaches what it reaches: further saves are those of the run before.
                end = runs[doubt.run].reach if kind == "fresh" and last is None else last
                found.append(Suspicion(kind, first, end, why))  # type: ignore[arg-type]
    return tuple(found)


def _launched(facts: Facts) -> dict[str, int]:
    """The parallel sizes of the launch that failed; a size of 1 that nothing states is left out."""
    grid, world = facts.topology.grid, facts.topology.world_size
    if facts.topology.world_size_basis == HIGHEST_SEEN:  # logs of other ranks may be missing
        world = None
    if grid is None:
        return {"world": world} if world else {}
    rare = {name: size for name, size in (("cp", grid.cp), ("ep", grid.ep)) if size > 1}
    return {"world": world or grid.world_size, "tp": grid.tp, "pp": grid.pp, "dp": grid.dp, **rare}


def _cautions(facts: Facts, runs: Sequence[Run]) -> tuple[str, ...]:
    found = [f"{one.why} ({place(one.row)})" for one in integrity_doubts(facts, runs) if one.step is None]
    fresh = next(iter(facts.events("megatron.from_scratch")), None)
    if fresh is not None:
        found.append(f"a start found no checkpoint and began at random weights without stopping ({place(fresh)})")
    return tuple(found)


def _relapsed(facts: Facts, runs: Sequence[Run]) -> frozenset[int]:
    """Steps that more than one run of the job loaded while non-finite numbers followed and no save came behind them."""
    bad = min((one.step for one in nan_doubts(facts, runs) if one.step is not None), default=None)
    loads: Counter[tuple[str, int]] = Counter()
    for row in facts.events("checkpoint.loaded"):
        if row.step is not None:
            loads[row.writer, row.step] += row.count
    newest = max((r.step for r in facts.events("checkpoint.save_finished") if r.step is not None), default=0)
    return frozenset(s for (_, s), n in loads.items() if n > 1 and bad is not None and newest <= s < bad)


def _save_interval(facts: Facts) -> int | None:
    """Steps between saves, as the job's own arguments state it."""
    stated = [
        r.attr(name)
        for r in facts.events("megatron.arguments", "config.dump")
        for name in ("save_interval", "save_steps")
    ]
    return next((int(v) for v in stated if v.isdecimal() and int(v) > 0), None)
