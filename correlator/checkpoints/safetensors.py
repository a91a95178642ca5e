"""The header of a safetensors file: does it fit the file's length, and what tensors does it place where.

Layout: 8 bytes little-endian header length, that many bytes of JSON, then the data without holes. No checksum exists.
Source: huggingface/safetensors ``safetensors/src/tensor.rs`` (header limit 100,000,000 bytes).
"""

from __future__ import annotations

import json
from typing import Any

from correlator.checkpoints import finite
from correlator.checkpoints.disk import File, shown
from correlator.checkpoints.finite import Tensor
from correlator.checkpoints.model import Findings, Reading

MAX_HEADER_BYTES = 100_000_000

DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E5M2": "float8_e5m2",
    "F8_E4M3": "float8_e4m3fn",
}  # fmt: skip


def inspect(file: File, findings: Findings, reading: Reading, *, label: str | None = None, files: int = 1) -> set[str]:
    """Check one file and report to ``findings``; the names of its tensors, empty when the header cannot be read."""
    label = label or file.name
    try:
        with file.open() as stream:
            length = int.from_bytes(stream.read(8), "little")
            if file.size < 8 or length > file.size - 8:
                findings.fault(f"{label}: cut short at {file.size} bytes, inside the header")
                return set()
            if length > MAX_HEADER_BYTES:
                findings.fault(f"{label}: no safetensors header")
                return set()
            tensors, end, fault = _header(stream.read(length), 8 + length)
            if fault:
                findings.fault(f"{label}: {fault}")
                return set()
            if file.size != 8 + length + end:
                word = "cut short" if file.size < 8 + length + end else "too long"
                findings.fault(f"{label}: {word}: {file.size} bytes instead of {8 + length + end}")
                return set(tensors)
            verdict, what = finite.check(stream, list(tensors.values()), reading, files * len(tensors))
            findings.numbers(verdict)
            if verdict is False:
                findings.note(f"{label}: {what}")
            return set(tensors)
    except OSError as error:
        findings.doubt(f"{label}: cannot be read: {error.strerror or error}")
        return set()


def _header(raw: bytes, base: int) -> tuple[dict[str, Tensor], int, str | None]:
    """Tensors by name, length of the data part, and what is wrong with the header."""
    try:
        table = json.loads(raw)
    except (ValueError, RecursionError):
        return {}, 0, "the header is no JSON"
    if not isinstance(table, dict):
        return {}, 0, "the header is no table"
    tensors: dict[str, Tensor] = {}
    spans: list[tuple[int, int]] = []
    for name, entry in table.items():
        if name == "__metadata__":
            continue
        span = _span(entry)
        if span is None:
            return {}, 0, f"the header's entry {shown(name, 80)} is malformed"
        spans.append(span)
        dtype = DTYPES.get(str(entry.get("dtype")), "untyped")
        width = finite.ITEM_BYTES[dtype]
        tensors[name] = Tensor(shown(name, 200), dtype, base + span[0], (span[1] - span[0]) // width)
    end = 0
    for first, behind in sorted(spans):
        if first != end:
            return {}, 0, f"the header leaves a hole at byte {end}" if first > end else "the header's tensors overlap"
        end = behind
    return tensors, end, None


def _span(entry: Any) -> tuple[int, int] | None:
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(type(o) is int for o in offsets):
        return None
    first, behind = offsets
    return (first, behind) if 0 <= first <= behind < 1 << 62 else None
