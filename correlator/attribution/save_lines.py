"""The lines about saves and loads, as the values that ``checkpoints`` judges by."""

from __future__ import annotations

from collections import defaultdict

from correlator.attribution.save_harm import harmed_saves
from correlator.cascade.model import Facts, Finding
from correlator.checkpoints.listed import Listed, compare, size_of
from correlator.checkpoints.names import step_of
from correlator.checkpoints.said import Load, Save
from correlator.records import Row

#: Failures in which a checkpoint was found whole and did not fit what the job asked for.
REFUSED = frozenset({"checkpoint-tp-mismatch", "checkpoint-size-mismatch", "checkpoint-optimizer-mismatch"})


def place(row: Row) -> str:
    """File and line of a row, for a sentence."""
    return f"{row.file}:{row.line}"


def saves_of(facts: Facts, failing: bool) -> tuple[Save, ...]:
    """What the logs say about each save, by steps. ``failing``: a save was open when the job died."""
    again, harmed = _begun_again(facts), harmed_saves(facts)
    places: dict[tuple[int | None, str, int | None], Row] = {}
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
            places[row.step, path, near] = row
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
            rewritten=step in again,
            harm=harmed.get(path if step is None else step),
            at=place(places[step, path, near]),
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


def loads_of(facts: Facts, chosen: Finding | None) -> tuple[Load, ...]:
    """The loads of this job, finished, failed, or refused for their sizes."""
    refused = chosen is not None and chosen.signature in REFUSED
    found = []
    for row in facts.events("checkpoint.loaded", "checkpoint.load_failed", "checkpoint.load_started"):
        begun = row.event == "checkpoint.load_started" and not _went_on(facts, row)
        if not begun or refused:
            path = whole_path(row.attr("path"))
            found.append(Load(row.step, path or None, row.event == "checkpoint.load_failed", begun, place(row)))
    return tuple(found)


def listed_of(facts: Facts) -> tuple[Listed, ...]:
    """The checkpoints that a listing among the logs shows."""
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


def failed_while_saving(facts: Facts, chosen: Finding | None) -> bool:
    """Whether a save was open when the job died; frameworks that never print the end of a save do not count."""
    begun = [r for r in facts.events("checkpoint.save_started") if r.attr("completion") != "none"]
    finished = {r.step for r in facts.events("checkpoint.save_finished")}
    return chosen is not None and bool(finished) and bool({r.step for r in begun} - finished)


def whole_path(path: str) -> str:
    """The checkpoint that a loaded file is a part of, where a folder above it states a step; else the path."""
    parts = path.split("/")
    level = next((n for n, part in enumerate(parts[:-1], 1) if step_of(part) is not None), len(parts))
    return "/".join(parts[:level])


def _begun_again(facts: Facts) -> frozenset[int]:
    """Steps that were saved whole, and that a later run began to save once more without coming to the end of it."""
    beside: dict[tuple[int, str], list[Row]] = defaultdict(list)
    attempts: dict[int, set[int]] = defaultdict(set)
    for end in facts.events("checkpoint.save_finished"):
        if end.step is not None:
            beside[end.step, end.file].append(end)
            attempts[end.step].update([] if end.attempt is None else [end.attempt])
    again = set()
    for begin in facts.events("checkpoint.save_started"):
        step = begin.step
        if step is None or begin.attr("completion") == "none":
            continue
        own = beside.get((step, begin.file), [])
        apart = {a - begin.attempt for a in attempts.get(step, ())} if begin.attempt is not None else set()
        behind = any(_behind(begin, end) for end in own) or any(difference < 0 for difference in apart)
        before = any(_behind(end, begin) for end in own) or any(difference > 0 for difference in apart)
        if behind and not before:
            again.add(step)
    return frozenset(again)


def _behind(later: Row, earlier: Row) -> bool:
    """Whether a line surely stands behind another: of a later attempt, or further down in its file.

    Equal lines of one file are one row with the times of the first and the last.
    """
    if later.attempt is not None and earlier.attempt is not None and later.attempt != earlier.attempt:
        return later.attempt > earlier.attempt
    if later.file != earlier.file:
        return False
    if later.count == earlier.count == 1:
        return later.byte_offset > earlier.byte_offset
    last, before = later.last_timestamp or later.timestamp, earlier.last_timestamp or earlier.timestamp
    return last is not None and before is not None and last > before
