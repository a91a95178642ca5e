"""What the two Megatron-LM layouts share: names, the tracker, sizes kept in the saved arguments.

Source: NVIDIA/Megatron-LM ``megatron/training/checkpointing.py``, core 0.7 to 0.20.
"""

from __future__ import annotations

import re
from typing import Any

from correlator.checkpoints.model import Findings
from correlator.checkpoints.torch_file import attributes, whole

ITERATION = re.compile(r"iter_(\d{1,12})")

TRACKER = "latest_checkpointed_iteration.txt"


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
    findings.sizes(
        tp=args.get("tensor_model_parallel_size"),
        pp=args.get("pipeline_model_parallel_size"),
        ep=args.get("expert_model_parallel_size"),
        cp=args.get("context_parallel_size"),
        dp=args.get("data_parallel_size"),
        world=args.get("world_size"),
    )
    iteration = whole(saved.get("iteration"))
    if iteration is not None and findings.iteration is not None and iteration != findings.iteration:
        findings.fault(f"{label} was saved at iteration {iteration}, the directory says {findings.iteration}")
    return args
