"""Megatron-LM ``--ckpt-format torch_dist``: ``iter_NNNNNNN/{.metadata, __R_N.distcp, metadata.json, common.pt}``.

Order of a save: common.pt (core <= 0.18), shards, ``.metadata``, ``metadata.json``, ``integrity.json`` if asked,
tracker. Since core 0.19 the common state is an entry inside.
Source: NVIDIA/Megatron-LM ``megatron/core/dist_checkpointing/{serialization,mapping}.py`` and
``megatron/core/optimizer/distrib_optimizer.py`` (which optimizer states can be resharded), core 0.7 to 0.20.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from correlator.checkpoints import dcp
from correlator.checkpoints.disk import File, Folder, shown
from correlator.checkpoints.layouts import megatron_zarr
from correlator.checkpoints.layouts._json import read_object
from correlator.checkpoints.layouts._megatron import (
    LOST,
    OPTIMIZER_FIXED,
    TRACKER,
    Saved,
    check_loader,
    is_iteration,
    parse_tracker,
    take_iteration,
    take_saved,
)
from correlator.checkpoints.model import Findings, Layout, Reading, Rescale
from correlator.checkpoints.parallel import look
from correlator.checkpoints.torch_file import attributes, inspect

COMMON_KEY = "common_state/shard_0_1"
_GRID_KEY = re.compile(r"(rng_state|rerun_state_machine_state)/shard_(\d+)\.(\d+)(?:\.\d+)?_(\d+)\.(\d+)(?:\.(\d+))?")
_WORLD_KEY = re.compile(r"rerun_state_machine_state/shard_(\d+)_(\d+)")
_FIXED_OPTIMIZER = re.compile(r"(?:^|\.)optimizer\.distributed\.dp_group_idx_\d+\.")
_FIXED_TYPES = frozenset({"dp_reshardable", "fully_sharded_bucket_space", "dp_zero_gather_scatter"})
_OWN_FILES = frozenset({"metadata.json", "common.pt"})


def _recognises(folder: Folder) -> bool:
    nothing = not folder.files and not folder.folders
    unmarked = dcp.is_dcp(folder) and ".metadata" not in folder.files
    return is_iteration(folder.name) and (nothing or unmarked or bool(_OWN_FILES & folder.files.keys()))


def _read(folder: Folder, reading: Reading) -> Findings:
    findings = Findings()
    take_iteration(folder.name, findings)
    read_dist(folder, findings, reading)
    check_loader(folder, findings, reading)
    return findings


def read_dist(folder: Folder, findings: Findings, reading: Reading) -> None:
    """Check one directory of this layout; NeMo keeps one under ``weights``."""
    if megatron_zarr.is_zarr(folder):
        megatron_zarr.read_zarr(folder, findings, reading)
        return
    file = folder.files.get("metadata.json")
    findings.mark("metadata.json", file is not None)
    if file is not None:
        read_object(file, file.name, findings)
    metadata = dcp.check(folder, findings, reading)
    common = folder.files.get("common.pt")
    if common is not None:
        _take_common(inspect(common, findings, reading), findings, "common.pt")
    if metadata is None:
        return
    names = set(metadata.names)
    if file is None and (common is not None or holds_shards(names)):
        findings.fault("no metadata.json: the save died between its last two steps")
    if COMMON_KEY in names:
        _take_common(dcp.read_item(folder, metadata, COMMON_KEY, findings, reading), findings, COMMON_KEY)
    elif common is None and file is not None:
        findings.fault("common.pt is missing")
    _check_names(names, findings)
    if reading.deep and "integrity.json" in folder.files:
        _check_integrity(folder, findings, reading)


def holds_shards(names: set[str]) -> bool:
    """Whether entries carry the names that Megatron gives to sharded objects, which plain DCP never does."""
    return any("/shard_" in name for name in names)


def _take_common(tree: Any, findings: Findings, label: str) -> None:
    take_saved(Saved.of(tree), findings, label)
    kind = attributes(attributes(tree).get("content_metadata")).get("distrib_optim_sharding_type")
    if kind in _FIXED_TYPES:
        findings.rescale = OPTIMIZER_FIXED


def _check_names(names: set[str], findings: Findings) -> None:
    """What the entry names tell: TP, PP and world size, and which parts of the state are there."""
    grids: dict[str, set[tuple[int, int]]] = {}
    for name in names:
        if match := _GRID_KEY.fullmatch(name):
            findings.sizes(tp=int(match[5]), pp=int(match[4]), dp=int(match[6] or 0))
            grids.setdefault(match[1], set()).add((int(match[2]), int(match[3])))
        elif match := _WORLD_KEY.fullmatch(name):
            findings.sizes(world=int(match[2]))
    total = findings.topology.get("tp", 1) * findings.topology.get("pp", 1)
    for key, present in grids.items():
        if len(present) < total:
            findings.fault(f"{key} of {total - len(present)} of {total} model-parallel ranks is missing")
    if not any("rng_state/" in name for name in names):
        findings.note("no random-number state inside: dropout and data order will differ")
    if not any("optimizer." in name for name in names):
        findings.note("no optimizer state inside: weights only")
    elif any(_FIXED_OPTIMIZER.search(name) for name in names):
        findings.rescale = OPTIMIZER_FIXED


def _check_integrity(folder: Folder, findings: Findings, reading: Reading) -> None:
    """Compare the SHA-256 sums that ``--verify-integrity`` stored (core 0.18 and later)."""
    listed = (read_object(folder.files["integrity.json"], "integrity.json", findings) or {}).get("files")
    sums = {str(name): total for name, total in listed.items()} if isinstance(listed, dict) else {}
    for name in sums.keys() - folder.files.keys():
        findings.fault(f"{shown(name, 120)}, listed in integrity.json, is missing")

    def one(file: File, found: Findings, share: Reading) -> None:
        digest = hashlib.sha256()
        try:
            with file.open() as stream:
                while block := stream.read(1 << 20):
                    digest.update(block)
        except OSError as error:
            found.doubt(f"{shown(file.name, 120)} cannot be read: {error.strerror or error}")
            return
        if digest.hexdigest() != sums[file.name]:
            found.fault(f"{shown(file.name, 120)} does not match its SHA-256 in integrity.json")

    look([folder.files[name] for name in sorted(sums.keys() & folder.files.keys())], one, findings, reading)


LAYOUT = Layout(
    name="megatron-dist",
    order=22,
    recognises=_recognises,
    read=_read,
    rescale=Rescale(lost=LOST),
    trackers={TRACKER: parse_tracker},
    hint="--load {parent} --ckpt-step {iteration}",
)
