"""The inventory of a folder as a list for people and programs: :func:`describe`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from correlator.checkpoints.fit import fit, untold
from correlator.checkpoints.model import Checkpoint, Inventory, Rescale
from correlator.checkpoints.resume import judge
from correlator.diagnosis import Resume


@dataclass(frozen=True)
class Entry:
    """One checkpoint.

    ``fits``: whether it loads under the sizes asked for; None when it does not tell or none are. ``commit``: the file
    written last as a mark, None where the layout has none; ``committed``: whether it is there. ``other_sizes``: what
    other sizes of a next run mean.
    """

    path: str
    iteration: int | None
    layout: str
    complete: bool | None
    finite: bool | None
    topology: dict[str, int]
    size_bytes: int
    problems: list[str]
    fits: bool | None
    fit_notes: list[str]
    commit: str | None
    committed: bool
    other_sizes: str


@dataclass(frozen=True)
class Listing:
    """Every checkpoint under ``root``, newest first, the framework's own mark, and where to resume.

    ``refused``: what was not looked at beside them, and why.
    """

    root: str
    checkpoints: list[Entry]
    tracker: int | str | None
    tracker_problem: str | None
    resume: Resume
    refused: list[str]
    schema: str = field(default="correlator.checkpoints/1")


def describe(inventory: Inventory, asked: Mapping[str, int]) -> Listing:
    """``asked``: the sizes of the run to come (world, tp, pp, dp, cp, ep); only those stated are compared."""
    entries = [_entry(one, asked) for one in inventory.checkpoints]
    fitting = {entry.path for entry in entries if entry.fits is not False}
    kept = tuple(one for one in inventory.checkpoints if one.path in fitting)
    resume = judge(replace(inventory, checkpoints=kept), None)
    if entries and not kept:
        resume = Resume("unsafe", reasons=["none of these loads under the sizes asked for"])
    return Listing(
        inventory.root, entries, inventory.tracker, inventory.tracker_problem, resume, list(inventory.refused)
    )


def _entry(one: Checkpoint, asked: Mapping[str, int]) -> Entry:
    fitting = fit(one, asked)
    if fitting.loads is None:
        fitting = untold(one, asked)
    return Entry(
        one.path, one.iteration, one.layout, one.complete, one.finite, dict(one.topology), one.size_bytes,
        list(one.problems), fitting.loads, list(fitting.notes), one.commit, one.committed, _other_sizes(one.rescale),
    )  # fmt: skip


def _other_sizes(rules: Rescale) -> str:
    fixed = f"does not load with another {', '.join(rules.fixed)}" if rules.fixed else "resharded on load"
    way = f"; {rules.convert}" if rules.convert else ""
    return fixed + way + (f"; not kept: {rules.lost}" if rules.lost else "")
