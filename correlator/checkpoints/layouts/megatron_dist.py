"""Megatron-LM distributed checkpoints: ``iter_NNNNNNN/{.metadata, __R_N.distcp, metadata.json, common.pt}``.

Order of a save: common.pt (core <= 0.18), shards, ``.metadata``, ``metadata.json``, ``integrity.json`` if asked,
tracker. ``torch_dcp`` and ``fsdp_dtensor`` have ``.metadata`` only. Since core 0.19 the common state is an entry
inside.
Source: NVIDIA/Megatron-LM ``megatron/core/dist_checkpointing/{serialization,mapping}.py``.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from typing import Any

from correlator.checkpoints import dcp
from correlator.checkpoints.disk import File, Folder, shown
from correlator.checkpoints.layouts._megatron import ITERATION, TRACKER, parse_tracker, take_arguments, take_iteration
from correlator.checkpoints.model import OPTIMIZER_FIXED, Findings, Layout, Reading
from correlator.checkpoints.torch_file import inspect

_COMMON_KEY = "common_state/shard_0_1"
_GRID_KEY = re.compile(r"(rng_state|rerun_state_machine_state)/shard_(\d+)\.(\d+)_(\d+)\.(\d+)")
_WORLD_KEY = re.compile(r"rerun_state_machine_state/shard_(\d+)_(\d+)")
_FIXED_OPTIMIZER = re.compile(r"optimizer\.distributed\.dp_group_idx_\d+\.")
_OWN_FILES = frozenset({".metadata", "metadata.json", "common.pt"})


def _recognises(folder: Folder) -> bool:
    if not ITERATION.fullmatch(folder.name) and folder.name != "release":
        return False
    nothing = not folder.files and not folder.folders
    return nothing or bool(_OWN_FILES & folder.files.keys()) or dcp.is_dcp(folder)


def _read(folder: Folder, reading: Reading) -> Findings:
    findings = Findings()
    take_iteration(folder.name, findings)
    read_dist(folder, findings, reading)
    return findings


def read_dist(folder: Folder, findings: Findings, reading: Reading) -> None:
    """Check one directory of this layout; NeMo keeps one under ``weights``."""
    described = _json(folder.files.get("metadata.json"), "metadata.json", findings)
    if described is not None and described.get("sharded_backend") == "zarr":
        _check_zarr(folder, findings)
        return
    metadata = dcp.check(folder, findings, reading)
    common = folder.files.get("common.pt")
    if common is not None:
        take_arguments(inspect(common, findings, reading), findings, "common.pt")
    names = set(metadata.names) if metadata else set()
    if metadata and "metadata.json" not in folder.files and (common is not None or _COMMON_KEY in names):
        findings.fault("no metadata.json: the save died between its last two steps")
    if metadata and described is not None and common is None and _COMMON_KEY not in names:
        findings.fault("common.pt is missing")
    if metadata:
        if _COMMON_KEY in names:
            take_arguments(dcp.read_item(folder, metadata, _COMMON_KEY, findings, reading), findings, _COMMON_KEY)
        _check_names(names, findings)
    if reading.deep and "integrity.json" in folder.files:
        _check_integrity(folder, findings)


def _json(file: File | None, label: str, findings: Findings) -> dict[str, Any] | None:
    if file is None:
        return None
    try:
        value = json.loads(file.text(16 << 20))
    except OSError as error:
        findings.doubt(f"{label} cannot be read: {error.strerror or error}")
        return None
    except (ValueError, RecursionError):
        findings.fault(f"{label} is no JSON: cut short or overwritten")
        return None
    return value if isinstance(value, dict) else None


def _check_names(names: set[str], findings: Findings) -> None:
    """What the entry names tell: TP, PP and world size, and which parts of the state are there."""
    grids: dict[str, set[tuple[int, int]]] = {}
    for name in names:
        if match := _GRID_KEY.fullmatch(name):
            findings.sizes(tp=int(match[5]), pp=int(match[4]))
            grids.setdefault(match[1], set()).add((int(match[2]), int(match[3])))
        elif match := _WORLD_KEY.fullmatch(name):
            findings.sizes(world=int(match[2]))
    total = findings.topology.get("tp", 1) * findings.topology.get("pp", 1)
    for key, present in grids.items():
        if len(present) < total:
            findings.fault(f"{key} of {total - len(present)} of {total} model-parallel ranks is missing")
    if not any("optimizer." in name for name in names):
        findings.note("no optimizer state inside: weights only")
    elif any(_FIXED_OPTIMIZER.search(name) for name in names):
        findings.note(OPTIMIZER_FIXED)


def _check_zarr(folder: Folder, findings: Findings) -> None:
    """One directory a tensor, all chunks written: a missing one would silently be read as zeros."""
    arrays = {name: sub for name, sub in folder.folders.items() if ".zarray" in sub.files}
    if not arrays:
        findings.fault("metadata.json speaks of zarr, but there is no array")
    for name, array in arrays.items():
        described = _json(array.files[".zarray"], f"{shown(name, 120)}/.zarray", findings) or {}
        shape, chunks = _sizes(described.get("shape")), _sizes(described.get("chunks"))
        if shape is None or chunks is None or len(shape) != len(chunks) or 0 in chunks:
            findings.fault(f"{shown(name, 120)}/.zarray is malformed")
            continue
        expected = math.prod(math.ceil(a / b) for a, b in zip(shape, chunks, strict=True))
        present = sum(not chunk.startswith(".") for chunk in array.files)
        if present < expected:
            findings.fault(f"{expected - present} of {expected} chunks of {shown(name, 120)} are missing")
        elif len({file.size for chunk, file in array.files.items() if not chunk.startswith(".")}) > 1:
            findings.fault(f"chunks of {shown(name, 120)} differ in length")


def _sizes(value: Any) -> list[int] | None:
    fits = isinstance(value, list) and len(value) <= 64 and all(type(n) is int and 0 <= n < 1 << 62 for n in value)
    return value if fits else None


def _check_integrity(folder: Folder, findings: Findings) -> None:
    """Compare the SHA-256 sums that ``--verify-integrity`` stored (core 0.18 and later)."""
    listed = (_json(folder.files["integrity.json"], "integrity.json", findings) or {}).get("files")
    for name, expected in (listed if isinstance(listed, dict) else {}).items():
        file = folder.files.get(name)
        if file is None:
            findings.fault(f"{shown(name, 120)}, listed in integrity.json, is missing")
            continue
        try:
            with file.open() as stream:
                digest = hashlib.sha256()
                while block := stream.read(1 << 20):
                    digest.update(block)
        except OSError as error:
            findings.doubt(f"{shown(name, 120)} cannot be read: {error.strerror or error}")
            continue
        if digest.hexdigest() != expected:
            findings.fault(f"{shown(name, 120)} does not match its SHA-256 in integrity.json")


LAYOUT = Layout(
    name="megatron-dist",
    order=21,
    recognises=_recognises,
    read=_read,
    trackers={TRACKER: parse_tracker},
    hint="--load {parent} --ckpt-step {iteration} (with other tensor or pipeline sizes: --no-load-optim --no-load-rng, "
    "unless the optimizer was saved with --dist-ckpt-optim-fully-reshardable)",
)
