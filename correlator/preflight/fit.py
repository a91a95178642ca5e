"""Whether the checkpoints in a folder load under a launch, and whether the next one will fit on the disk.

What is in the folder is told by ``correlator.checkpoints``, the same code as behind ``correlator checkpoints``.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from correlator.checkpoints import Inventory, scan
from correlator.checkpoints.listing import Entry, describe
from correlator.preflight.facts import Facts
from correlator.preflight.model import Finding, Place, Severity

_AXES = {
    "world": "world_size", "tp": "tensor_model_parallel_size", "pp": "pipeline_model_parallel_size",
    "dp": "data_parallel_size", "cp": "context_parallel_size", "ep": "expert_model_parallel_size",
}  # fmt: skip
#: Layouts that Megatron's --ckpt-format names.
_FORMATS = {"megatron-legacy": "torch", "megatron-dist": "torch_dist", "megatron-zarr": "zarr"}
#: Saves of the run's own sizes that must find room: while a new one is written, the old one is still there.
_SAVES = 2


def check_checkpoint(folder: Path, facts: Facts) -> Iterator[Finding]:
    """Findings on the checkpoints in ``folder`` against a launch. Raises UsageError where it cannot be read."""
    inventory = scan(folder)
    asked = {axis: size for axis, name in _AXES.items() if isinstance(size := facts.get(name), int)}
    listing = describe(inventory, asked)
    place = Place(str(folder), 0)
    if inventory.tracker_problem:
        yield _finding(
            "checkpoint-tracker", "blocker", "The mark that a relaunch follows is wrong", inventory.tracker_problem,
            f"let it name {_newest_whole(listing.checkpoints)}", "checkpoint-tracker-invalid", place,
            "the framework's tracker file, read as it reads it",
        )  # fmt: skip
    target = _target(inventory, listing.checkpoints)
    if target is not None:
        yield from _on_target(target, listing.checkpoints, facts, place)
    yield from _room(inventory, facts, place)


def _target(inventory: Inventory, entries: list[Entry]) -> Entry | None:
    """The checkpoint that a plain relaunch loads: what the tracker names, else the newest."""
    if inventory.tracker is not None:
        for entry in entries:
            if inventory.tracker in (entry.iteration, entry.path, entry.path.rpartition("/")[2]):
                return entry
    return entries[0] if entries else None


def _newest_whole(entries: list[Entry]) -> str:
    whole = next((entry for entry in entries if entry.complete and entry.finite is not False), None)
    return f"{whole.path} (step {whole.iteration})" if whole else "a checkpoint that is whole; there is none here"


def _on_target(target: Entry, entries: list[Entry], facts: Facts, place: Place) -> Iterator[Finding]:
    if target.complete is False or target.finite is False:
        said = target.problems[0] if target.problems else "parts are missing"
        yield _finding(
            "checkpoint-whole", "blocker", "The checkpoint that would be loaded is unusable", f"{target.path}: {said}",
            f"resume from {_newest_whole(entries)}", "checkpoint-incomplete-found", place, "correlator checkpoints",
        )  # fmt: skip
    bound = [note for note in target.fit_notes if target.fits is False]
    if bound:
        *differences, way_out = bound
        yield _finding(
            "checkpoint-topology", "blocker", "The checkpoint was saved with other parallel sizes",
            "; ".join(differences), way_out, "checkpoint-tp-mismatch", place,
            "megatron/training/checkpointing.py load_checkpoint; deepspeed runtime/engine.py load_checkpoint",
        )  # fmt: skip
    asked = facts.get("ckpt_format")
    saved = _FORMATS.get(target.layout)
    stated = facts.settings.get("ckpt_format")
    if "megatron" in facts.frameworks and stated and stated.place and saved and asked != saved:
        yield _finding(
            "checkpoint-format", "note", "Saves will have another format than the checkpoint that is loaded",
            f"{target.path} is {saved}, the launch says --ckpt-format {asked}",
            f"--ckpt-format {saved} keeps one format in the folder", None, place,
            "megatron/training/checkpointing.py save_checkpoint",
        )  # fmt: skip


def _room(inventory: Inventory, facts: Facts, place: Place) -> Iterator[Finding]:
    """Space for the next saves, where this launch saves into this folder."""
    save = facts.get("save")
    if isinstance(save, str) and not _same(Path(save), Path(inventory.root)):
        return
    sizes = [one.size_bytes for one in inventory.checkpoints if one.complete]
    if not sizes:
        return
    try:
        free = shutil.disk_usage(inventory.root).free
    except OSError:
        return
    need = max(sizes)
    if free < _SAVES * need:
        grave: Severity = "blocker" if free < need else "warning"
        yield _finding(
            "checkpoint-room", grave, "Too little space for the next saves",
            f"the largest one here has {need / 1e9:.3g} GB, {free / 1e9:.3g} GB are free: room for {free // need}",
            f"free {(_SAVES * need - free) / 1e9:.3g} GB, or save elsewhere", "disk-full", place,
            "free space of the file system; a quota may be tighter",
        )  # fmt: skip


def _same(one: Path, other: Path) -> bool:
    try:
        return one.resolve() == other.resolve()
    except (OSError, RuntimeError, ValueError):
        return False


def _finding(
    rule: str, severity: Severity, title: str, why: str, fix: str, entry: str | None, place: Place, source: str
) -> Finding:
    return Finding(
        rule=rule, severity=severity, title=title, why=why, fix=fix, entry=entry, places=[place], source=source
    )
