"""Numbers in the names of checkpoints."""

from __future__ import annotations

import re

_STEP = re.compile(r"(?:step|iter(?:ation)?|batch|ba|checkpoint|ckpt|gs)s?[-_=]?(\d{1,12})(?![\d.])", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\d.])(\d{1,12})(?![\d.]*\d)")


def step_of(name: str) -> int | None:
    """The step or iteration that a name states: 200000 for ``epoch=9-step=200000.ckpt``, None for ``epoch_3.pt``."""
    stem = re.sub(r"\.(ckpt|pt|pth|tar|safetensors|bin|json|index)(?=$|\.)", "", name)
    found = _STEP.findall(stem)
    return int(found[-1]) if found else None


def rank_in_series(name: str) -> int:
    """A number to sort names of one series by when no step is known: the last one, 3 in ``epoch_3.pt``; else -1."""
    found = _NUMBER.findall(name)
    return int(found[-1]) if found else -1


def series(name: str) -> str:
    """The name with its numbers masked: equal for checkpoints of one series."""
    return re.sub(r"\d+", "#", name)
