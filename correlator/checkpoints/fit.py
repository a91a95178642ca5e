"""Whether a checkpoint loads under the sizes of another launch: :func:`fit`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from correlator.checkpoints.model import Checkpoint

SIZES = ("world", "tp", "pp", "dp", "cp", "ep")
"""Sizes that are compared."""


@dataclass(frozen=True)
class Fit:
    """``loads``: whether it does as it is; None when no size is known on both sides. ``notes``: what follows."""

    loads: bool | None
    notes: tuple[str, ...] = ()


def fit(one: Checkpoint, asked: Mapping[str, int]) -> Fit:
    """Compare the sizes it was saved with against those asked for; a size that only one side states does not count."""
    saved, wanted = _completed(one.topology), _completed(asked)
    changed = [name for name in SIZES if name in saved and name in wanted and saved[name] != wanted[name]]
    if not any(name in saved for name in wanted):
        return Fit(None)
    rules = one.rescale
    notes = []
    for name in changed:
        what = "does not load so" if name in rules.fixed else "resharded on load"
        notes.append(f"saved with {name}={saved[name]}, asked for {name}={wanted[name]}: {what}")
    bound = [name for name in changed if name in rules.fixed]
    if bound:
        kept = " ".join(f"{name}={saved[name]}" for name in bound)
        notes.append(
            f"launch with {kept}, or {rules.convert}" if rules.convert else f"launch with {kept}: no other way"
        )
    elif changed and rules.lost:
        notes.append(f"not kept: {rules.lost}")
    return Fit(not bound, tuple(notes))


def _completed(sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes with the one of world and dp that follows from the others; cp counts 1 where nothing states it."""
    known = dict(sizes)
    if "tp" in known and "pp" in known:
        model = known["tp"] * known["pp"] * known.get("cp", 1)
        if "world" in known and "dp" not in known and known["world"] % model == 0:
            known["dp"] = known["world"] // model
        if "dp" in known and "world" not in known:
            known["world"] = known["dp"] * model
    return known
