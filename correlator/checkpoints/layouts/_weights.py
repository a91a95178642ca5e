"""Model weights as the Hugging Face libraries store them: one file, or shards with an index.

``model.safetensors``, ``model-0000K-of-0000N.safetensors`` with ``model.safetensors.index.json``, and the older
``pytorch_model*.bin`` with ``pytorch_model.bin.index.json``. The index's ``weight_map`` says which file holds each tensor.
Source: huggingface/transformers ``src/transformers/modeling_utils.py``.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict

from correlator.checkpoints import safetensors
from correlator.checkpoints.disk import File, Folder, shown
from correlator.checkpoints.model import Findings, Reading
from correlator.checkpoints.torch_file import inspect

INDEX_END = ".index.json"
_SHARD = re.compile(r"(.+)-(\d{5})-of-(\d{5})(?:\.safetensors|\.bin)")
_BINARY = re.compile(r"(pytorch_model|adapter_model)(_\d+)?(-\d{5}-of-\d{5})?\.bin")


def present(folder: Folder) -> bool:
    """Whether there are weights of this kind."""
    return any(name.endswith((".safetensors", INDEX_END)) or _BINARY.fullmatch(name) for name in folder.files)


def of(folder: Folder) -> list[File]:
    """The files with weights and their indices."""
    return [
        file for name, file in folder.files.items()
        if name.endswith((".safetensors", INDEX_END)) or _BINARY.fullmatch(name)
    ]  # fmt: skip


def check(folder: Folder, findings: Findings, reading: Reading, *, required: bool) -> None:
    """Check the weights in a directory; ``required`` makes it a fault that there are none."""
    held: dict[str, set[str]] = {}
    files = [file for file in of(folder) if not file.name.endswith(INDEX_END)]
    for file in files:
        if file.name.endswith(".safetensors"):
            held[file.name] = safetensors.inspect(file, findings, reading, files=len(files))
        else:
            inspect(file, findings, reading, files=len(files))
    indices = [file for file in of(folder) if file.name.endswith(INDEX_END)]
    for index in indices:
        _check_index(index, folder, held, findings)
    _check_counts([file.name for file in files], findings, indexed=bool(indices))
    if required and not files and not indices:
        findings.fault("no model weights")


def _check_index(index: File, folder: Folder, held: dict[str, set[str]], findings: Findings) -> None:
    try:
        table = json.loads(index.text())
        weight_map = table["weight_map"]
    except OSError as error:
        findings.doubt(f"{index.name} cannot be read: {error.strerror or error}")
        return
    except (ValueError, KeyError, TypeError, RecursionError):
        findings.fault(f"{index.name} is damaged")
        return
    wanted: dict[str, set[str]] = defaultdict(set)
    for tensor, file in (weight_map.items() if isinstance(weight_map, dict) else ()):
        wanted[str(file)].add(str(tensor))
    for file_name, tensors in sorted(wanted.items()):
        if file_name not in folder.files:
            findings.fault(f"{shown(file_name, 120)}, named in {index.name}, is missing")
        elif held.get(file_name) and tensors - held[file_name]:
            absent = sorted(tensors - held[file_name])
            findings.fault(f"{len(absent)} tensors are not in {shown(file_name, 120)}, first {shown(absent[0], 120)}")


def _check_counts(names: list[str], findings: Findings, *, indexed: bool) -> None:
    """``model-00001-of-00003``: the names themselves say how many there must be."""
    series: dict[tuple[str, int], set[int]] = defaultdict(set)
    for match in filter(None, map(_SHARD.fullmatch, names)):
        series[match[1], int(match[3])].add(int(match[2]))
    for (stem, total), numbers in series.items():
        if len(numbers) < total:
            findings.fault(f"{total - len(numbers)} of {total} files {stem}-… are missing")
        elif not indexed:
            findings.fault(f"{total} files {stem}-… without their index")
