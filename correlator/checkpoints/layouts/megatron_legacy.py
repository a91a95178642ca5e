"""Megatron-LM ``--ckpt-format torch``: ``iter_NNNNNNN/mp_rank_TT[_PPP][_EEE]/model_optim_rng.pt``.

Each model-parallel rank writes its own folder, then a barrier, then rank 0 moves the tracker. A folder that is
missing is noticed by nobody until the load, so the set must be the full grid of the sizes in the saved arguments.
Source: NVIDIA/Megatron-LM ``megatron/training/checkpointing.py`` (``get_checkpoint_name``).
"""

from __future__ import annotations

import re
from collections import Counter

from correlator.checkpoints.disk import Folder
from correlator.checkpoints.layouts._megatron import (
    TRACKER,
    Saved,
    check_loader,
    is_iteration,
    parse_tracker,
    take_iteration,
    take_saved,
)
from correlator.checkpoints.model import Findings, Layout, Reading, Rescale
from correlator.checkpoints.torch_file import inspect_all

_SHARD = re.compile(r"mp_rank_(\d{2,5})(?:_(\d{3,5}))?(?:_(\d{3,5}))?")

MAX_GRID = 100_000
"""Model-parallel ranks a grid may have; a name such as ``mp_rank_99999_99999`` must not make a grid of billions."""


def _recognises(folder: Folder) -> bool:
    return is_iteration(folder.name) and any(_SHARD.fullmatch(name) for name in folder.folders)


def _read(folder: Folder, reading: Reading) -> Findings:
    findings = Findings()
    take_iteration(folder.name, findings)
    shards = {name: sub for name, sub in folder.folders.items() if _SHARD.fullmatch(name)}
    usual = Counter(name for shard in shards.values() for name in shard.files if name.endswith(".pt"))
    findings.parts = frozenset(shards)
    for shard in shards.values():
        for missing in sorted(
            name for name, count in usual.items() if 2 * count > len(shards) and name not in shard.files
        ):
            findings.fault(f"{shard.name}/{missing} is missing")
        if not any(name.endswith(".pt") for name in shard.files):
            findings.fault(f"{shard.name} is empty")
    files = [(f"{s.name}/{n}", f) for s in shards.values() for n, f in s.files.items() if n.endswith(".pt")]
    for (label, _), saved in zip(files, inspect_all(files, findings, reading, Saved.of), strict=True):
        take_saved(saved, findings, label)
        findings.described = saved.described or findings.described
    _check_grid(shards, findings)
    check_loader(folder, findings, reading)
    return findings


def _check_grid(shards: dict[str, Folder], findings: Findings) -> None:
    """All combinations of the indices must occur; the saved sizes, where there are some, say how many there are."""
    indices = {name: tuple(int(part) for part in _SHARD.fullmatch(name).groups() if part) for name in shards}  # type: ignore[union-attr]
    widths = {len(index) for index in indices.values()}
    if len(widths) > 1:
        findings.fault("names of different topologies side by side: shards of two saves")
        return
    (width,) = widths
    sizes = [max(index[axis] for index in indices.values()) + 1 for axis in range(width)]
    tp, pp, ep = (findings.topology.get(name, 1) for name in ("tp", "pp", "ep"))
    if findings.described:
        # The second part is the pipeline rank, or the expert rank when there is no pipeline.
        wanted = [tp] + [size for size in (pp, ep) if size > 1]
        if len(wanted) != width or any(a > b for a, b in zip(sizes, wanted, strict=True)):
            findings.fault(f"{len(shards)} shards do not fit the saved sizes tp {tp}, pp {pp}, ep {ep}")
            return
        sizes = wanted
    else:
        findings.sizes(**dict(zip(("tp", "pp", "ep"), sizes, strict=False)))
    total = 1
    for size in sizes:
        total *= size
    if total > MAX_GRID:
        findings.fault(f"shard names that claim {total} model-parallel ranks")
    elif total != len(shards):
        missing = _first_missing(sizes, set(indices.values()))
        findings.fault(f"{total - len(shards)} of {total} model-parallel shards are missing, first {missing}")


def _first_missing(sizes: list[int], present: set[tuple[int, ...]]) -> str:
    index = [0] * len(sizes)
    while tuple(index) in present:
        axis = len(sizes) - 1
        while index[axis] + 1 == sizes[axis]:
            index[axis] = 0
            axis -= 1
        index[axis] += 1
    return "_".join([f"mp_rank_{index[0]:02d}", *(f"{part:03d}" for part in index[1:])])


LAYOUT = Layout(
    name="megatron-legacy",
    order=20,
    recognises=_recognises,
    read=_read,
    rescale=Rescale(
        fixed=("tp", "pp", "ep"),
        convert="tools/checkpoint/convert.py of Megatron-LM, weights only: the optimizer starts anew",
    ),
    trackers={TRACKER: parse_tracker},
    hint="--load {parent} --ckpt-step {iteration} (same --tensor-model-parallel-size and "
    "--pipeline-model-parallel-size; releases without --ckpt-step: write {iteration} into "
    + TRACKER
    + " and keep the old value)",
)
