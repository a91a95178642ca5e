"""The inventory of a folder as a list for people and programs: :func:`describe`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from correlator.checkpoints.model import OPTIMIZER_FIXED, Checkpoint, Inventory
from correlator.checkpoints.resume import judge
from correlator.checkpoints.said import LogSide
from correlator.diagnosis import Resume


@dataclass(frozen=True)
class Entry:
    """One checkpoint. ``fits``: whether it loads under the sizes asked for; None when it does not tell or none are."""

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


@dataclass(frozen=True)
class Listing:
    """Every checkpoint under ``root``, newest first, the framework's own mark, and where to resume."""

    root: str
    checkpoints: list[Entry]
    tracker: int | str | None
    tracker_problem: str | None
    resume: Resume
    schema: str = field(default="correlator.checkpoints/1")

    def text(self) -> str:
        """For a terminal."""
        lines = [f"{len(self.checkpoints)} checkpoints in {self.root}", ""]
        for one in self.checkpoints:
            step = "step unknown" if one.iteration is None else f"step {one.iteration}"
            sizes = " ".join(f"{name}={size}" for name, size in one.topology.items())
            head = f"{_STATE[one.complete]:<12}{step}  {one.path}  ({one.layout}{', ' + sizes if sizes else ''})"
            lines += [head, *(f"            - {text}" for text in [*one.problems, *one.fit_notes])]
        if self.tracker is not None:
            lines += ["", f"The framework's own mark points to {self.tracker}."]
        lines += ["", f"Resume: {_ANSWER[self.resume.status]}"]
        if self.resume.path is not None:
            lines.append(f"  from {self.resume.path}")
        return "\n".join([*lines, *(f"  - {reason}" for reason in self.resume.reasons)])


_STATE = {True: "complete", False: "INCOMPLETE", None: "undecided"}
_ANSWER = {
    "safe": "safe",
    "unsafe": "not safe, none of these can be trusted as it is",
    "no-checkpoint": "there is nothing to resume from here",
    "unknown": "not decided",
}


def describe(inventory: Inventory, asked: Mapping[str, int]) -> Listing:
    """``asked``: the sizes of the run to come (world, tp, pp, dp, cp, ep); only those stated are compared."""
    entries = [_entry(one, asked) for one in inventory.checkpoints]
    fitting = {entry.path for entry in entries if entry.fits is not False}
    kept = tuple(one for one in inventory.checkpoints if one.path in fitting)
    resume = judge(Inventory(inventory.root, kept, inventory.tracker, inventory.tracker_problem), LogSide())
    if entries and not kept:
        resume = Resume("unsafe", reasons=["no checkpoint here loads under the sizes asked for"])
    return Listing(inventory.root, entries, inventory.tracker, inventory.tracker_problem, resume)


def _entry(one: Checkpoint, asked: Mapping[str, int]) -> Entry:
    fits, notes = _fit(one, asked)
    return Entry(
        one.path, one.iteration, one.layout, one.complete, one.finite, dict(one.topology), one.size_bytes,
        list(one.problems), fits, notes,
    )  # fmt: skip


#: Layouts whose shards are bound to sizes, and to which; all others are resharded on load.
_BOUND = {"megatron-legacy": ("tp", "pp", "ep"), "deepspeed": ("tp", "pp", "dp", "world")}


def _fit(one: Checkpoint, asked: Mapping[str, int]) -> tuple[bool | None, list[str]]:
    known = [name for name in asked if name in one.topology]
    if not known:
        return None, []
    changed = [name for name in known if one.topology[name] != asked[name]]
    bound = _BOUND.get(one.layout, ())
    if OPTIMIZER_FIXED in one.problems:
        bound = ("tp", "pp")
    notes = [
        f"saved with {name}={one.topology[name]}, asked for {name}={asked[name]}: "
        + ("does not load so" if name in bound else "resharded on load; random-number and loader state may be lost")
        for name in changed
    ]
    return not any(name in bound for name in changed), notes
