"""Megatron-LM ``--ckpt-format torch_dcp`` and ``fsdp_dtensor``: ``iter_NNNNNNN/`` with DCP files alone.

The arguments are an entry of their own. A ``torch_dist`` save that died before ``metadata.json`` looks the same but
for the names of its entries.
Source: NVIDIA/Megatron-LM ``megatron/training/checkpointing.py``, core 0.12 to 0.20.
"""

from __future__ import annotations

from correlator.checkpoints import dcp
from correlator.checkpoints.disk import Folder
from correlator.checkpoints.layouts._megatron import (
    LOST,
    TRACKER,
    check_loader,
    is_iteration,
    parse_tracker,
    sizes_of,
    take_iteration,
)
from correlator.checkpoints.layouts.megatron_dist import holds_shards
from correlator.checkpoints.model import Findings, Layout, Reading, Rescale
from correlator.checkpoints.torch_file import attributes


def _recognises(folder: Folder) -> bool:
    return is_iteration(folder.name) and ".metadata" in folder.files


def _read(folder: Folder, reading: Reading) -> Findings:
    findings = Findings()
    take_iteration(folder.name, findings)
    metadata = dcp.check(folder, findings, reading)
    check_loader(folder, findings, reading)
    if metadata is None:
        return findings
    names = set(metadata.names)
    if holds_shards(names):
        findings.fault("no metadata.json, which torch_dist writes last: the save died between its last two steps")
    if "args" in names:
        args = attributes(dcp.read_item(folder, metadata, "args", findings, reading))
        findings.sizes(**dict(sizes_of(args)))
    if not any(name.startswith("optimizer.") for name in names):
        findings.note("no optimizer state inside: weights only")
    return findings


LAYOUT = Layout(
    name="megatron-fsdp",
    order=23,
    recognises=_recognises,
    read=_read,
    rescale=Rescale(lost=LOST),
    trackers={TRACKER: parse_tracker},
    hint="--load {parent} --ckpt-step {iteration} with the --ckpt-format it was saved with (torch_dcp, fsdp_dtensor)",
)
