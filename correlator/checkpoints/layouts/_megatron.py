"""What the two Megatron-LM layouts share: names, the tracker, sizes kept in the saved arguments.

Source: NVIDIA/Megatron-LM ``megatron/training/checkpointing.py``, core 0.7 to 0.20.
"""

from __future__ import annotations

import re
from typing import Any

from correlator.checkpoints.disk import Folder
from correlator.checkpoints.model import Findings, Reading, Rescale
from correlator.checkpoints.torch_file import attributes, inspect_all, whole

ITERATION = re.compile(r"iter_(\d{1,12})")

TRACKER = "latest_checkpointed_iteration.txt"


LOST = "random-number states, when tensor or pipeline sizes change, and loader states of another number of ranks"
"""What the distributed formats drop when they are resharded."""

OPTIMIZER_FIXED = Rescale(
    fixed=("tp", "pp"),
    convert="load with the old sizes, save once with --dist-ckpt-optim-fully-reshardable, then change them; or give "
    "the optimizer up with --no-load-optim --no-load-rng",
    lost=LOST,
)
"""Optimizer states in bucket space (``dp_reshardable``, the default since core 0.15) or gathered on one rank."""

_LOADER = re.compile(r"train_dataloader_dprank(\d{3,6})\.pt")


def is_iteration(name: str) -> bool:
    """Whether a directory of this name holds one save."""
    return bool(ITERATION.fullmatch(name)) or name == "release"


def check_loader(folder: Folder, findings: Findings, reading: Reading) -> None:
    """States of an external data loader, one file a data-parallel rank, where there are some."""
    ranks = {int(match[1]): folder.files[match[0]] for match in map(_LOADER.fullmatch, folder.files) if match}
    inspect_all([(file.name, file) for file in ranks.values()], findings, reading)
    wanted = max(findings.topology.get("dp", 0), max(ranks, default=-1) + 1)
    if ranks and len(ranks) < wanted:
        findings.note(f"data-loader states of {wanted - len(ranks)} of {wanted} data-parallel ranks are missing")


def parse_tracker(text: str) -> int | str | None:
    """The iteration, or ``release``; None for what Megatron rejects with "Invalid metadata file"."""
    word = text.strip()
    if re.fullmatch(r"\d{1,12}", word):
        return int(word)
    return word if word == "release" else None


def take_iteration(name: str, findings: Findings) -> None:
    """Set the iteration from the directory's name."""
    match = ITERATION.fullmatch(name)
    if match:
        findings.iteration = int(match[1])


def take_arguments(tree: Any, findings: Findings, label: str) -> dict[str, Any]:
    """Read the saved ``args``: sizes into the topology, and the iteration against that of the directory."""
    saved = attributes(tree)
    args = attributes(saved.get("args"))
    take_sizes(args, findings)
    iteration = whole(saved.get("iteration"))
    if iteration is not None and findings.iteration is not None and iteration != findings.iteration:
        findings.fault(f"{label} was saved at iteration {iteration}, the directory says {findings.iteration}")
    return args


def take_sizes(args: dict[str, Any], findings: Findings) -> None:
    """Read the parallel sizes among the saved arguments."""
    findings.sizes(
        tp=args.get("tensor_model_parallel_size"),
        pp=args.get("pipeline_model_parallel_size"),
        ep=args.get("expert_model_parallel_size"),
        cp=args.get("context_parallel_size"),
        dp=args.get("data_parallel_size"),
        world=args.get("world_size"),
    )
