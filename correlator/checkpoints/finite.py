"""NaN and Inf in raw tensor bytes, by bit pattern, so bfloat16 and the 8-bit floats need no library.

A value is not finite when all its exponent bits are one; it is a NaN when mantissa bits are set besides.
``float8_e4m3fn`` has no Inf and only the all-ones pattern is NaN. Bytes are little-endian, as torch and safetensors
store them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from correlator.checkpoints.disk import Window
from correlator.checkpoints.model import Reading

_WINDOWS = 4
"""Places a large tensor is sampled at: start, end and two between."""


@dataclass(frozen=True)
class FloatFormat:
    """Bits of a float format: type of the same width, masks of exponent and mantissa."""

    bits: Any
    exponent: int
    mantissa: int


FORMATS = {
    "float64": FloatFormat(np.dtype("<u8"), 0x7FF << 52, (1 << 52) - 1),
    "float32": FloatFormat(np.dtype("<u4"), 0xFF << 23, (1 << 23) - 1),
    "float16": FloatFormat(np.dtype("<u2"), 0x7C00, 0x03FF),
    "bfloat16": FloatFormat(np.dtype("<u2"), 0x7F80, 0x007F),
    "float8_e5m2": FloatFormat(np.dtype("<u1"), 0x7C, 0x03),
    "float8_e4m3fn": FloatFormat(np.dtype("<u1"), 0x7F, 0x7F),
}

ITEM_BYTES: dict[str, int] = {name: layout.bits.itemsize for name, layout in FORMATS.items()} | {
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8, "bool": 1,
    "complex64": 8, "complex128": 16, "quint8": 1, "qint8": 1, "qint32": 4, "untyped": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Tensor:
    """Where the values of one tensor stand: offset in bytes in its stream, number of elements."""

    name: str
    dtype: str
    offset: int
    count: int


@dataclass(frozen=True)
class Tally:
    """How many values of a sample are no finite numbers."""

    values: int = 0
    nan: int = 0
    plus_inf: int = 0
    minus_inf: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.values + other.values,
            self.nan + other.nan,
            self.plus_inf + other.plus_inf,
            self.minus_inf + other.minus_inf,
        )


def tally(raw: bytes, dtype: str) -> Tally:
    """Count the values of ``raw`` that are not finite; a torn last value is left out. Unknown dtypes count nothing."""
    layout = FORMATS.get(dtype)
    if layout is None:
        return Tally()
    width = layout.bits.itemsize
    bits = np.frombuffer(raw, layout.bits, count=len(raw) // width)
    odd = bits[(bits & layout.exponent) == layout.exponent]
    if odd.size == 0:
        return Tally(values=int(bits.size))
    nan = int(np.count_nonzero(odd & layout.mantissa))
    infinite = odd[(odd & layout.mantissa) == 0]
    minus = int(np.count_nonzero(infinite >> (8 * width - 1)))
    return Tally(int(bits.size), nan, int(infinite.size) - minus, minus)


def check(
    stream: BinaryIO | Window, tensors: Sequence[Tensor], reading: Reading, share: int
) -> tuple[bool | None, str]:
    """Whether the tensors are finite, and a sentence on the first that is not.

    None when no float was read. ``share`` is the number of tensors, over all files, that share the reading's limit.
    Two kinds of infinity are innocent: in a scalar (a best score not yet set) and in an additive attention mask, a
    tensor named so or one in which at least a quarter of the values is minus infinity and none is plus infinity.
    """
    seen = 0
    for tensor in tensors:
        if reading.bytes_left <= 0 and not reading.deep:
            break
        if tensor.dtype not in FORMATS or tensor.count <= 0:
            continue
        found = _sample(stream, tensor, reading, share)
        seen += found.values
        infinite = found.plus_inf + found.minus_inf
        masked = "mask" in tensor.name or (found.plus_inf == 0 and 4 * found.minus_inf >= found.values)
        if found.nan or (infinite and tensor.count > 1 and not masked):
            what = " and ".join(w for w, n in (("NaN", found.nan), ("Inf", infinite)) if n)
            return False, f"{what} in {found.nan + infinite} of {found.values} values read of {tensor.name}"
    return (True if seen else None), ""


def _sample(stream: BinaryIO | Window, tensor: Tensor, reading: Reading, share: int) -> Tally:
    width = ITEM_BYTES[tensor.dtype]
    total = tensor.count * width
    granted = reading.allow(total, share) // width * width
    if granted <= 0:
        return Tally()
    if granted == total:
        return _read(stream, tensor, 0, total)
    piece = max(granted // _WINDOWS // width, 1) * width
    step = (total - piece) // (_WINDOWS - 1) // width * width
    return sum((_read(stream, tensor, i * step, piece) for i in range(_WINDOWS)), Tally())


def _read(stream: BinaryIO | Window, tensor: Tensor, start: int, length: int) -> Tally:
    found = Tally()
    stream.seek(tensor.offset + start)
    while length > 0:
        raw = stream.read(min(length, 8 << 20))
        if not raw:
            break
        found += tally(raw, tensor.dtype)
        length -= len(raw)
    return found
