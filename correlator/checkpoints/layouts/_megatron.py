"""What the two Megatron-LM layouts share: names, the tracker, sizes kept in the saved arguments.

Source: NVIDIA/Megatron-LM ``megatron/training/checkpointing.py``, core 0.7 to 0.20.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

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


class Saved(NamedTuple):
    """What a file says about the run that wrote it: its iteration, and whether and which sizes its ``args`` state."""

    iteration: int | None
    described: bool
    sizes: tuple[tuple[str, int | None], ...]

    @classmethod
    def of(cls, tree: Any) -> Saved:
        """From the tree of plain values of a file, or from anything else."""
        saved = attributes(tree)
        args = attributes(saved.get("args"))
        return cls(whole(saved.get("iteration")), bool(args), sizes_of(args))


def take_saved(saved: Saved, findings: Findings, label: str) -> None:
    """Sizes into the topology, and the iteration against that of the directory."""
    findings.sizes(**dict(saved.sizes))
    if saved.iteration is not None and findings.iteration is not None and saved.iteration != findings.iteration:
        findings.fault(f"{label} was saved at iteration {saved.iteration}, the directory says {findings.iteration}")


_SIZES = {
    "tp": "tensor_model_parallel_size",
    "pp": "pipeline_model_parallel_size",
    "ep": "expert_model_parallel_size",
    "cp": "context_parallel_size",
    "dp": "data_parallel_size",
    "world": "world_size",
}


def sizes_of(args: dict[str, Any]) -> tuple[tuple[str, int | None], ...]:
    """The parallel sizes among the saved arguments."""
    return tuple((name, whole(args.get(key))) for name, key in _SIZES.items())
