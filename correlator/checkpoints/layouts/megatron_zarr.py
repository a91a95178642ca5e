"""Megatron-LM ``--ckpt-format zarr`` (up to core 0.15): ``iter_NNNNNNN/``, in it a directory a tensor.

All chunks are written, empty ones too, uncompressed; one that is missing would silently be read as zeros, so their
number and length are the test.
Source: NVIDIA/Megatron-LM core 0.12 ``megatron/core/dist_checkpointing/strategies/zarr.py``; the zarr 2 format.
"""

from __future__ import annotations

import math
import re
from typing import Any

from correlator.checkpoints.disk import Folder, shown
from correlator.checkpoints.layouts._json import read_object
from correlator.checkpoints.layouts._megatron import (
    LOST,
    TRACKER,
    Saved,
    is_iteration,
    parse_tracker,
    take_iteration,
    take_saved,
)
from correlator.checkpoints.model import Findings, Layout, Reading, Rescale
from correlator.checkpoints.torch_file import inspect, inspect_all

_TYPE = re.compile(r"[<>|=]?[a-zA-Z](\d{1,3})")
_SHARD = re.compile(r"shard_[\d.]{1,40}_(\d{1,6}(?:\.\d{1,6}){0,4})\.pt")
_NAMED_BYTES = {"bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}


def is_zarr(folder: Folder) -> bool:
    """Whether the directory holds zarr arrays."""
    return any(".zarray" in sub.files for sub in folder.folders.values())


def _recognises(folder: Folder) -> bool:
    return is_iteration(folder.name) and is_zarr(folder)


def _read(folder: Folder, reading: Reading) -> Findings:
    findings = Findings()
    take_iteration(folder.name, findings)
    read_zarr(folder, findings, reading)
    return findings


def read_zarr(folder: Folder, findings: Findings, reading: Reading) -> None:
    """Check one directory of this layout."""
    file = folder.files.get("metadata.json")
    if not findings.mark("metadata.json", file is not None):
        findings.fault("no metadata.json, which is written last: the save was not finished")
    if file is not None:
        read_object(file, file.name, findings)
    common = folder.files.get("common.pt")
    if common is None:
        findings.fault("common.pt is missing")
    else:
        take_saved(Saved.of(inspect(common, findings, reading)), findings, "common.pt")
    for name, sub in folder.folders.items():
        if ".zarray" in sub.files:
            _check_array(name, sub, findings)
        elif any(map(_SHARD.fullmatch, sub.files)):
            _check_objects(name, sub, findings, reading)
        else:
            findings.fault(f"{shown(name, 120)} has no .zarray: its description is lost")


def _check_objects(name: str, folder: Folder, findings: Findings, reading: Reading) -> None:
    """Objects kept one file a shard; the shape at the end of each name says how many there are."""
    shards = {part: match for part in folder.files if (match := _SHARD.fullmatch(part))}
    inspect_all([(f"{name}/{part}", folder.files[part]) for part in shards], findings, reading)
    total = max(math.prod(int(size) for size in match[1].split(".")) for match in shards.values())
    if len(shards) < total:
        findings.fault(f"{total - len(shards)} of {total} shards of {shown(name, 120)} are missing")


def _check_array(name: str, array: Folder, findings: Findings) -> None:
    label = shown(name, 120)
    described = read_object(array.files[".zarray"], f"{label}/.zarray", findings)
    if described is None:
        return
    shape, chunks = _sizes(described.get("shape")), _sizes(described.get("chunks"))
    if shape is None or chunks is None or len(shape) != len(chunks) or 0 in chunks:
        findings.fault(f"{label}/.zarray is malformed")
        return
    expected = math.prod(math.ceil(a / b) for a, b in zip(shape, chunks, strict=True))
    present = [file for chunk, file in array.files.items() if not chunk.startswith(".")]
    width = _width(described.get("dtype")) if described.get("compressor") is None else None
    length = math.prod(chunks) * width if width else None
    if len(present) < expected:
        findings.fault(f"{expected - len(present)} of {expected} chunks of {label} are missing")
    elif length is not None and any(file.size != length for file in present):
        short = next(file for file in present if file.size != length)
        findings.fault(f"chunk {shown(short.name, 80)} of {label} has {short.size} bytes instead of {length}")
    elif length is None and len({file.size for file in present}) > 1 and described.get("compressor") is None:
        findings.fault(f"chunks of {label} differ in length")
    elif any(file.size == 0 for file in present):
        findings.fault(f"a chunk of {label} is empty")


def _width(dtype: Any) -> int | None:
    """Bytes of one value; None for a type that is not known."""
    if not isinstance(dtype, str):
        return None
    match = _TYPE.fullmatch(dtype)
    return int(match[1]) if match else _NAMED_BYTES.get(dtype)


def _sizes(value: Any) -> list[int] | None:
    fits = isinstance(value, list) and len(value) <= 64 and all(type(n) is int and 0 <= n < 1 << 62 for n in value)
    return value if fits else None


LAYOUT = Layout(
    name="megatron-zarr",
    order=21,
    recognises=_recognises,
    read=_read,
    rescale=Rescale(lost=LOST),
    trackers={TRACKER: parse_tracker},
    hint="--load {parent} --ckpt-step {iteration} with a core up to 0.15: later ones no longer read zarr",
)
