"""Plain files of ``torch.save``: ``*.pt``, ``*.pth``, ``*.pth.tar``; those with ``rankK`` in the name form one set."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from correlator.checkpoints.disk import File
from correlator.checkpoints.layouts._ranks import RANK, check_files
from correlator.checkpoints.model import Findings, Layout, Reading, Rescale
from correlator.checkpoints.names import step_of
from correlator.checkpoints.torch_file import attributes, whole

_END = re.compile(r".+\.(pt|pth|pth\.tar)")
_STEP_KEYS = ("global_step", "step", "iteration", "iter", "steps")


def _groups(files: Sequence[File]) -> list[list[File]]:
    found: dict[str, list[File]] = defaultdict(list)
    for file in files:
        if _END.fullmatch(file.name):
            found[RANK.sub("rank#", file.name)].append(file)
    return list(found.values())


def _read(files: Sequence[File], reading: Reading) -> Findings:
    findings = Findings()
    findings.iteration = step_of(files[0].name)
    for step in check_files(files, findings, reading, _step):
        if findings.iteration is None:
            findings.iteration = step
    return findings


def _step(tree: Any) -> int | None:
    saved = attributes(tree)
    return next((n for n in (whole(saved.get(key)) for key in _STEP_KEYS) if n is not None), None)


LAYOUT = Layout(
    name="torch-save",
    order=90,
    groups=_groups,
    read_files=_read,
    rescale=Rescale(fixed=("world",)),
    hint="the program's own resume option with {path}",
)
