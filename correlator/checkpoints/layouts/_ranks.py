"""Checkpoints of one ``torch.save`` file a rank."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from correlator.checkpoints.disk import File
from correlator.checkpoints.model import Findings, Reading
from correlator.checkpoints.torch_file import inspect_all

RANK = re.compile(r"(?<![a-z])rank[-_]?(\d{1,6})(?!\d)")


def _no_step(tree: Any) -> int | None:
    return None


def check_files(
    files: Sequence[File], findings: Findings, reading: Reading, step: Callable[[Any], int | None] = _no_step
) -> list[int | None]:
    """Check each, and that none of a rank below the highest is missing; the ``step`` of each one's tree, in order."""
    steps = inspect_all([(file.name, file) for file in files], findings, reading, step)
    ranks = {int(match[1]) for match in (RANK.search(file.name) for file in files) if match}
    if ranks and len(ranks) <= max(ranks):
        findings.fault(f"files of {max(ranks) + 1 - len(ranks)} of {max(ranks) + 1} ranks are missing")
    if len(ranks) > 1:
        findings.sizes(world=max(ranks) + 1)
    findings.parts = frozenset(f"rank{rank}" for rank in ranks)
    return steps
