"""Files written by ``torch.save``: whole or not, the plain values inside, and whether the tensors are finite.

Two containers occur. Since PyTorch 1.6 a ZIP: ``data.pkl`` and one stored entry a storage. Before, or with
``_use_new_zipfile_serialization=False``: four pickles (magic number, protocol, machine, object), one with the list of
storage keys, then for each key its number of elements and its bytes; so the exact length of the file is known.
Source: PyTorch ``torch/serialization.py``, ``torch/_utils.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, BinaryIO, TypeVar

from correlator.checkpoints import finite
from correlator.checkpoints.disk import File, Window, shown
from correlator.checkpoints.finite import ITEM_BYTES, Tensor
from correlator.checkpoints.model import Findings, Reading
from correlator.checkpoints.parallel import look
from correlator.checkpoints.pickles import Call, Ended, Foreign, Global, Hostile, Persistent, Refused, read_pickle
from correlator.checkpoints.zip_check import ZipReport, check_zip, data_offset, read_member

LEGACY_MAGIC = bytes.fromhex("80028a0a6cfc9c46f9206aa850192e")
"""Pickle of 0x1950a86a20f9469cfc6c, the first bytes of the old container."""

MAX_PICKLE_BYTES = 64 << 20
MAX_PICKLE_BYTES_DEEP = 1 << 30
MAX_DEPTH = 24
MAX_TENSORS = 1_000_000
MAX_OVERLAP = 4

STORAGE_DTYPES = {
    "DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
    "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8",
    "ByteStorage": "uint8", "BoolStorage": "bool", "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
    "QUInt8Storage": "quint8", "QInt8Storage": "qint8", "QInt32Storage": "qint32", "UntypedStorage": "untyped",
}  # fmt: skip

NO_WEIGHTS = frozenset(
    {
        "callbacks", "hyper_parameters", "loops", "lr_scheduler", "lr_schedulers", "opt_param_scheduler",
        "rerun_state_machine", "rng_state", "rng_states", "scheduler", "train_metrics",
    }
)  # fmt: skip
"""Keys under which infinities and NaN are nobody's fault: best scores, metrics, random-number states."""


@dataclass(frozen=True)
class Storage:
    """One storage a pickle refers to: its key, type and number of elements."""

    key: str
    dtype: str
    count: int

    @property
    def size(self) -> int:
        """Bytes."""
        return self.count * ITEM_BYTES[self.dtype]


@dataclass
class TorchFile:
    """``tree``: the object as plain values, None when not read. ``faults`` prove damage, ``doubts`` leave it open."""

    tree: Any = None
    tensors: tuple[Tensor, ...] = ()
    faults: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Use:
    """One tensor of the tree: the part of a storage it covers."""

    name: str
    storage: Storage
    dtype: str
    first: int
    count: int
    weight: bool


def inspect(file: File, findings: Findings, reading: Reading, *, label: str | None = None, files: int = 1) -> Any:
    """Check one file and report to ``findings``; the tree of plain values, or None when it was not read.

    ``files`` is the number of files of this checkpoint, which share what may be read. ``label`` names the file in
    problems.
    """
    label = label or file.name
    try:
        with file.open() as stream:
            return inspect_stream(stream, file.size, findings, reading, label=label, files=files)
    except OSError as error:
        findings.doubt(f"{label}: cannot be read: {error.strerror or error}")
        return None


_Kept = TypeVar("_Kept")


def _nothing(tree: Any) -> None:
    pass


def inspect_all(
    files: Sequence[tuple[str, File]],
    findings: Findings,
    reading: Reading,
    keep: Callable[[Any], _Kept] = _nothing,  # type: ignore[assignment]
) -> list[_Kept]:
    """:func:`inspect` on many (label, file), several at a time; what ``keep`` takes of each tree, in the same order.

    A tree lives only while its file is looked at: of thousands, the objects would fill the memory, and the garbage
    collector would walk all of them again and again, which took half of the time.
    """

    def one(item: tuple[str, File], found: Findings, share: Reading) -> _Kept:
        return keep(inspect(item[1], found, share, label=item[0], files=len(files)))

    return look(files, one, findings, reading)


def inspect_stream(
    stream: BinaryIO | Window, size: int, findings: Findings, reading: Reading, *, label: str, files: int
) -> Any:
    """As :func:`inspect`, for a file inside another one."""
    content = read_torch(stream, size, deep=reading.deep)
    for fault in content.faults:
        findings.fault(f"{label}: {fault}")
    for doubt in content.doubts:
        findings.doubt(f"{label}: {doubt}")
    for note in content.notes:
        findings.note(f"{label}: {note}")
    if not content.faults:
        verdict, what = finite.check(stream, content.tensors, reading, files * len(content.tensors))
        findings.numbers(verdict)
        if verdict is False:
            findings.note(f"{label}: {what}")
    return content.tree


def read_torch(stream: BinaryIO | Window, size: int, *, deep: bool = False) -> TorchFile:
    """Read the file that fills ``stream``. Raises OSError only; what is wrong with the content is in the answer."""
    result = TorchFile()
    if size == 0:
        result.faults.append("empty file")
        return result
    stream.seek(0)
    head = stream.read(len(LEGACY_MAGIC))
    try:
        if head[:4] == b"PK\x03\x04":
            _read_zip(stream, size, result, deep=deep)
        elif head == LEGACY_MAGIC:
            _read_legacy(stream, size, result, deep=deep)
        elif not head.strip(b"\0"):
            result.faults.append("begins with zeros: the data never reached the disk")
        else:
            result.doubts.append("not in a form torch.save writes: not checked")
    except Hostile as refusal:
        result.faults.append(refusal.told)
    except Foreign as refusal:
        result.notes.append(f"content not read, so weights not checked: its pickle {shown(str(refusal), 200)}")
    except Refused as refusal:
        result.doubts.append(f"not what torch.save writes, so not checked: its pickle {shown(str(refusal), 200)}")
    except ValueError as error:
        result.faults.append(shown(str(error), 200))
    return result


def _read_zip(stream: BinaryIO | Window, size: int, result: TorchFile, *, deep: bool) -> None:
    report = check_zip(stream, size, deep=deep)
    result.faults += report.problems
    pickled = report.members.get(f"{report.folder}data.pkl")
    if f"{report.folder}constants.pkl" in report.members:
        result.doubts.append("a TorchScript program, not a checkpoint")
        return
    if pickled is None or result.faults:
        return
    limit = MAX_PICKLE_BYTES_DEEP if deep else MAX_PICKLE_BYTES
    if pickled.size > limit:
        result.notes.append(f"data.pkl has {pickled.size} bytes: content not read")
        return
    try:
        raw = read_member(stream, pickled)
        result.tree, uses = _described_again(raw) if len(raw) <= _REPEATED_BYTES else _described(raw)
    except Ended as error:
        result.faults.append(f"data.pkl: {error}")
        return
    broken = _storage_faults(uses, report)
    result.faults += broken
    if not broken:
        places = {key: data_offset(stream, report.members[f"{report.folder}data/{key}"]) for key in _keys(uses)}
        result.tensors = _tensors(uses, places)


def _described(raw: bytes) -> tuple[Any, Sequence[_Use]]:
    """The tree in a pickle and its tensors."""
    tree, _ = read_pickle(raw)
    return tree, tuple(_uses(tree))


_REPEATED_BYTES = 256 << 10
"""Longest description that is kept to be known again; a few of them, since their trees take ten times as much."""

_described_again = lru_cache(maxsize=16)(_described)
"""Shards of the same shapes, of data-parallel ranks say, have the same description byte for byte."""


def _storage_faults(uses: Sequence[_Use], report: ZipReport) -> list[str]:
    faults = []
    for key, storage in _keys(uses).items():
        member = report.members.get(f"{report.folder}data/{key}")
        if member is None:
            faults.append(f"storage {shown(key, 40)} is missing")
        elif member.size != storage.size:
            faults.append(f"storage {shown(key, 40)} has {member.size} bytes instead of {storage.size}")
        if len(faults) >= 5:
            break
    return faults


def _read_legacy(stream: BinaryIO | Window, size: int, result: TorchFile, *, deep: bool) -> None:
    limit = MAX_PICKLE_BYTES_DEEP if deep else MAX_PICKLE_BYTES
    wanted = 1 << 20
    while True:
        stream.seek(0)
        data = stream.read(wanted)
        try:
            at = len(LEGACY_MAGIC)
            for _ in range(2):
                _, at = read_pickle(data, at)
            tree, at = read_pickle(data, at)
            keys, at = read_pickle(data, at)
            break
        except Ended:
            if wanted >= size:
                result.faults.append(f"the file is cut short at {size} bytes, inside its description")
                return
            if wanted >= limit:
                result.doubts.append("its description is too long to be read")
                return
            wanted *= 8
    result.tree = tree
    uses = list(_uses(tree, MAX_TENSORS))
    storages = _keys(uses)
    places: dict[str, int] = {}
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise Refused("has no list of storages")
    for key in keys:
        if key not in storages:
            result.notes.append("holds storages that no known tensor refers to: length not checked")
            return
        places[key] = at + 8
        at += 8 + storages[key].size
    if at > size:
        result.faults.append(f"the file is cut short: {size} bytes instead of {at}")
    elif at < size:
        result.doubts.append(f"{size - at} bytes too many at the end")
    else:
        result.tensors = _tensors(uses, places)


def _tensors(uses: Sequence[_Use], places: dict[str, int]) -> tuple[Tensor, ...]:
    tensors = []
    # Overlapping views of one storage are read once each: that must not become a long read of a short file.
    left = MAX_OVERLAP * sum(storage.size for storage in _keys(uses).values())
    for use in uses:
        width = ITEM_BYTES[use.dtype]
        left -= use.count * width
        if use.weight and use.dtype in finite.FORMATS and left >= 0:
            tensors.append(Tensor(use.name, use.dtype, places[use.storage.key] + use.first * width, use.count))
    return tuple(tensors)


def _keys(uses: Sequence[_Use]) -> dict[str, Storage]:
    return {use.storage.key: use.storage for use in uses}


_Link = tuple["_Link", Any] | None
"""Where a node stands in the tree: its parent's place and its own key. Names are made of it only for tensors."""

_LEAVES = (int, float, str, bytes, type(None), Global)


def _uses(tree: Any, limit: int = MAX_TENSORS) -> Iterator[_Use]:
    """The tensors in a tree, in its order. Every container is entered once, so shared parts cost nothing."""
    seen: set[int] = set()
    stack: list[tuple[_Link, Any, int, bool]] = [(None, tree, 0, True)]
    while stack and limit:
        link, node, depth, weight = stack.pop()
        if isinstance(node, _LEAVES) or depth > MAX_DEPTH or id(node) in seen:
            continue
        seen.add(id(node))
        use = _use(link, node, weight) if isinstance(node, Call) else None
        if use is not None:
            limit -= 1
            yield use
            continue
        inner = [pair for pair in _children(node) if not isinstance(pair[1], _LEAVES)]
        for key, child in reversed(inner):
            stack.append(((link, key), child, depth + 1, weight and key not in NO_WEIGHTS))


def _name(link: _Link) -> str:
    steps: list[str] = []
    while link is not None:
        link, key = link
        steps.append(shown(str(key), 80) if isinstance(key, str | int) else "?")
    return ".".join(reversed(steps))


def _children(node: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(node, dict):
        yield from node.items()
    elif isinstance(node, list | tuple):
        yield from enumerate(node)
    elif isinstance(node, Call):
        # A Parameter or another wrapper adds no step of its own to the name.
        yield from enumerate(node.args)
        yield from (node.state.items() if isinstance(node.state, dict) else enumerate([node.state]))
        yield from (node.items or {}).items()
        yield from enumerate(node.elements or ())


def _use(link: _Link, call: Call, weight: bool) -> _Use | None:
    function, args = call.name, call.args
    if function.endswith("._rebuild_from_type_v2") and len(args) >= 3 and isinstance(args[0], Global):
        function, args = args[0].name, args[2]
    if not function.startswith("torch._utils._rebuild_tensor") or not isinstance(args, tuple) or len(args) < 4:
        return None
    storage = _storage(args[0])
    first, size, stride = args[1:4]
    shaped = isinstance(size, tuple) and isinstance(stride, tuple) and len(size) == len(stride)
    if storage is None or not shaped or type(first) is not int or not all(map(_counts, (first, size, stride))):
        raise Refused("has a malformed tensor")
    dtype = storage.dtype
    if dtype == "untyped":
        # _rebuild_tensor_v3 (storage, offset, size, stride, requires_grad, hooks, dtype): types without a storage class
        named = args[6].name.removeprefix("torch.") if len(args) > 6 and isinstance(args[6], Global) else "untyped"
        dtype = named if named in ITEM_BYTES else "untyped"
    count = math.prod(size)
    extent = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if count else 0
    if (first + extent) * ITEM_BYTES[dtype] > storage.size:
        raise ValueError(f"tensor {_name(link)} reaches beyond its storage")
    # Gaps between the elements of a strided view may hold anything: such a tensor is left out of the check of numbers.
    return _Use(_name(link), storage, dtype, first, count, weight and extent == count)


def _storage(value: Any) -> Storage | None:
    if not isinstance(value, Persistent) or not isinstance(value.id, tuple) or len(value.id) < 5:
        return None
    kind, type_, key, _, count = value.id[:5]
    if kind != "storage" or not isinstance(type_, Global) or not isinstance(key, str) or not _counts(count):
        return None
    dtype = STORAGE_DTYPES.get(type_.name.rpartition(".")[2])
    return Storage(key, dtype, count) if dtype else None


def _counts(value: Any) -> bool:
    """Whether it is a count below 2**62, or a tuple of such (a shape or stride of at most 64 dimensions)."""
    if isinstance(value, tuple):
        return len(value) <= 64 and all(type(part) is int and 0 <= part < 1 << 62 for part in value)
    return type(value) is int and 0 <= value < 1 << 62


def attributes(value: Any) -> dict[str, Any]:
    """The named values of a dict or of an object such as ``argparse.Namespace``; empty when it is neither."""
    if isinstance(value, Call):
        value = value.state
    return {k: v for k, v in value.items() if isinstance(k, str)} if isinstance(value, dict) else {}


def whole(value: Any) -> int | None:
    """``value`` when it is an int that is no bool and fits 62 bits."""
    return value if type(value) is int and abs(value) < 1 << 62 else None
