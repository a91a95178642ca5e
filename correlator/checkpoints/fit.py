"""Whether a checkpoint loads under the sizes of another launch: :func:`fit`."""

from __future__ import annotations

import math
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
        what = "does not load as it is" if name in rules.fixed else "resharded on load"
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


def untold(one: Checkpoint, asked: Mapping[str, int]) -> Fit:
    """For a checkpoint that tells none of the sizes that are asked for: whether that matters."""
    rules = one.rescale
    if asked and not rules.fixed:
        return Fit(True, ("loads under any sizes", *((f"not kept: {rules.lost}",) if rules.lost else ())))
    bound = ", ".join(name for name in asked if name in rules.fixed)
    return Fit(None, (f"its files do not tell {bound}; it does not load with another",) if bound else ())


def contradiction(asked: Mapping[str, int]) -> str:
    """Why no run has these sizes, as a clause; empty when one can."""
    world = asked.get("world")
    parts = [name for name in ("tp", "pp", "cp", "dp") if name in asked]
    ranks = math.prod(asked[name] for name in parts)
    if world is None or not parts:
        return ""
    named = " x ".join(f"{name} {asked[name]}" for name in parts)
    if world % ranks:
        return f"{world} ranks cannot be split into {named}"
    if {"tp", "pp", "dp"} <= asked.keys() and "cp" in asked and world != ranks:
        return f"{named} make {ranks} ranks and not {world}"
    return ""


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
