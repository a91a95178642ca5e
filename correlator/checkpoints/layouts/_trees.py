"""Sub-trees that Trainer and Accelerate leave to other libraries: DeepSpeed's and DCP's, and files of every rank."""

from __future__ import annotations

import re

from correlator.checkpoints import dcp
from correlator.checkpoints.disk import Folder
from correlator.checkpoints.layouts import deepspeed
from correlator.checkpoints.model import Findings, Reading
from correlator.checkpoints.torch_file import inspect_all

_FSDP = re.compile(r"(pytorch_model_fsdp|optimizer)_\d+")


def read_trees(folder: Folder, findings: Findings, reading: Reading) -> int:
    """Check the trees inside; how many there are."""
    trees = 0
    for name, sub in folder.folders.items():
        inner: Findings | None = None
        if deepspeed.recognises(sub):
            inner = deepspeed.read(sub, reading)
            inner.rescale = deepspeed.LAYOUT.rescale
        elif dcp.is_dcp(sub) or _FSDP.fullmatch(name):
            inner = Findings()
            dcp.check(sub, inner, reading)
        if inner is not None:
            trees += 1
            findings.absorb(inner, name)
    return trees


def check_ranks(folder: Folder, pattern: re.Pattern[str], findings: Findings, reading: Reading) -> None:
    """Random-number states, one file a rank: their count is the world size, a gap is a limit and no fault.

    A rank without its file resumes with other random numbers, and nothing else is lost; one whose file is damaged does
    not start.
    """
    ranks = {int(match[1]): folder.files[match[0]] for match in map(pattern.fullmatch, folder.files) if match}
    if not ranks:
        return
    inspect_all([(file.name, file) for file in ranks.values()], findings, reading)
    findings.sizes(world=max(ranks) + 1)
    lost = max(ranks) + 1 - len(ranks)
    if lost:
        first = next(rank for rank in range(max(ranks)) if rank not in ranks)
        findings.note(f"the random-number state of {lost} ranks is missing, first of rank {first}")
