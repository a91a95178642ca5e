"""Model weights as the Hugging Face libraries store them: one file, or shards with an index.

``model.safetensors``, ``model-0000K-of-0000N.safetensors`` with ``model.safetensors.index.json``, and the older
``pytorch_model*.bin`` with ``pytorch_model.bin.index.json``. The index's ``weight_map`` says which file holds each
tensor.
Source: huggingface/transformers ``src/transformers/modeling_utils.py``.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable

from correlator.checkpoints import safetensors
from correlator.checkpoints.disk import File, shown
from correlator.checkpoints.model import Findings, Reading
from correlator.checkpoints.parallel import look
from correlator.checkpoints.torch_file import inspect

INDEX_END = ".index.json"
_SHARD = re.compile(r"(.+)-(\d{5})-of-(\d{5})(?:\.safetensors|\.bin)")
_BINARY = re.compile(r"(pytorch_model|adapter_model)(_\d+)?(-\d{5}-of-\d{5})?\.bin")


def of(files: Iterable[File]) -> dict[str, File]:
    """Those of the files that hold weights, and their indices."""
    return {
        file.name: file for file in files
        if file.name.endswith((".safetensors", INDEX_END)) or _BINARY.fullmatch(file.name)
    }  # fmt: skip


def series(name: str) -> str:
    """What the files of one model share: ``model`` for ``model-00001-of-00003.safetensors`` and for its index."""
    if match := _SHARD.fullmatch(name):
        return match[1]
    return re.sub(r"(\.safetensors|\.bin)?(\.index\.json)?$", "", name)


def check(among: Iterable[File], findings: Findings, reading: Reading, *, required: bool) -> None:
    """Check the weights among some files; ``required`` makes it a fault that there are none."""
    files = of(among)
    weights = [file for name, file in files.items() if not name.endswith(INDEX_END)]

    def one(file: File, found: Findings, share: Reading) -> set[str]:
        if file.name.endswith(".safetensors"):
            return safetensors.inspect(file, found, share, files=len(weights))
        inspect(file, found, share, files=len(weights))
        return set()

    held = dict(zip((file.name for file in weights), look(weights, one, findings, reading), strict=True))
    indices = [file for name, file in files.items() if name.endswith(INDEX_END)]
    for index in indices:
        _check_index(index, files, held, findings)
    _check_counts([file.name for file in weights], findings, indexed=bool(indices))
    if required and not files:
        findings.fault("no model weights")


def _check_index(index: File, files: dict[str, File], held: dict[str, set[str]], findings: Findings) -> None:
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
    for tensor, file in weight_map.items() if isinstance(weight_map, dict) else ():
        wanted[str(file)].add(str(tensor))
    for file_name, tensors in sorted(wanted.items()):
        if file_name not in files:
            findings.fault(f"{shown(file_name, 120)}, named in {index.name}, is missing")
        elif held.get(file_name) and tensors - held[file_name]:
            absent = sorted(tensors - held[file_name])
            findings.fault(f"{len(absent)} tensors are not in {shown(file_name, 120)}, first {shown(absent[0], 120)}")


def _check_counts(names: list[str], findings: Findings, *, indexed: bool) -> None:
    """``model-00001-of-00003``: the names themselves say how many there must be."""
    parts: dict[tuple[str, int], set[int]] = defaultdict(set)
    for match in filter(None, map(_SHARD.fullmatch, names)):
        parts[match[1], int(match[3])].add(int(match[2]))
    for (stem, total), numbers in parts.items():
        if len(numbers) < total:
            findings.fault(f"{total - len(numbers)} of {total} files {shown(stem, 80)}-… are missing")
        elif not indexed and total > 1:
            findings.fault(f"{total} files {shown(stem, 80)}-… without their index, which is written last")
