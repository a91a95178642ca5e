"""Directories of ``torch.distributed.checkpoint``: ``.metadata`` against the ``.distcp`` files it describes.

Shared by every layout built on DCP (FSDP, Megatron ``torch_dist``, torchtitan, OLMo-core, NeMo). ``.metadata`` is
written last, by the coordinator, through a rename. It names each item's file, offset and length, so each file's exact
size is known; each item is a small ``torch.save`` ZIP of its own.
Source: PyTorch ``torch/distributed/checkpoint/{metadata,filesystem}.py``, 2.0 to 2.13.
"""

from __future__ import annotations

import gc
import math
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from correlator.checkpoints.disk import File, Folder, Window, shown
from correlator.checkpoints.model import Findings, Reading
from correlator.checkpoints.parallel import look
from correlator.checkpoints.pickles import Call, Hostile, Refused, read_pickle
from correlator.checkpoints.torch_file import attributes, inspect_stream, whole

MAX_METADATA_BYTES_DEEP = 2 << 30

MAX_CHUNKS = 20_000_000
"""Chunks of all tensors; one list of chunks shared by many tensors must not be walked for ever."""

LATE_NS = 120 * 10**9
"""A shard this much newer than ``.metadata`` was written by another save. Within one save the shards are older; clocks
of the writing nodes differ by less, and coming back to the same step after a restart takes longer."""

ITEM_COST = 4 << 10
"""What looking at one item takes from the bytes that may be read, so that a million small objects end the look too."""

SHARD = re.compile(r"(?:.*_)?_(\d+)_(\d+)\.distcp")


@dataclass(frozen=True)
class Item:
    """One stored piece: which entry, which file, where in it (bytes). ``coded``: a transform such as compression."""

    fqn: str
    place: tuple[int, ...] | None
    file: str
    offset: int
    length: int
    coded: bool


@dataclass(frozen=True)
class TensorEntry:
    """Global shape of a tensor and the (offsets, sizes) of its chunks."""

    shape: tuple[int, ...]
    chunks: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


@dataclass
class Metadata:
    """Content of ``.metadata``."""

    tensors: dict[str, TensorEntry] = field(default_factory=dict)
    objects: set[str] = field(default_factory=set)
    items: list[Item] = field(default_factory=list)

    @property
    def names(self) -> Iterator[str]:
        """All entry names."""
        yield from self.tensors
        yield from self.objects


def is_dcp(folder: Folder) -> bool:
    """Whether the directory has the files of a DCP save, finished or not."""
    return ".metadata" in folder.files or any(SHARD.fullmatch(name) for name in folder.files)


def read_metadata(data: bytes) -> Metadata:
    """Parse ``.metadata``. Raises Refused when it is not what DCP writes."""
    # The collector would walk the millions of objects of a large one again and again and find none to free.
    collecting = gc.isenabled()
    gc.disable()
    try:
        root, _ = read_pickle(data)
        if not isinstance(root, Call) or not root.name.endswith(".Metadata"):
            raise Refused("is not that of a Metadata object")
        return _metadata(attributes(root))
    finally:
        if collecting:
            gc.enable()


def _metadata(fields: dict[str, Any]) -> Metadata:
    result = Metadata()
    total = 0
    for fqn, entry in _pairs(fields.get("state_dict_metadata")):
        if isinstance(entry, Call) and entry.name.endswith(".TensorStorageMetadata"):
            state = attributes(entry)
            chunks = state.get("chunks")
            if not isinstance(chunks, list):
                raise Refused("has a tensor without chunks")
            total += len(chunks)
            if total > MAX_CHUNKS:
                raise Refused("has more chunks than any save")
            parts = [attributes(chunk) for chunk in chunks]
            result.tensors[str(fqn)] = TensorEntry(
                _shape(state.get("size")), tuple((_shape(p.get("offsets")), _shape(p.get("sizes"))) for p in parts)
            )
        else:
            result.objects.add(str(fqn))
    for index, info in _pairs(fields.get("storage_data")):
        key, place = attributes(index), attributes(info)
        offset, length, name = whole(place.get("offset")), whole(place.get("length")), place.get("relative_path")
        if not isinstance(name, str) or offset is None or length is None or offset < 0 or length < 0:
            raise Refused("has a malformed storage entry")
        at = key.get("offset")
        coded = bool(place.get("transform_descriptors"))
        result.items.append(Item(str(key.get("fqn")), None if at is None else _shape(at), name, offset, length, coded))
    return result


def _pairs(value: Any) -> Iterator[tuple[Any, Any]]:
    if not isinstance(value, dict):
        raise Refused("lacks a table")
    yield from value.items()


def _shape(value: Any) -> tuple[int, ...]:
    if not isinstance(value, tuple) or len(value) > 64 or not all(type(n) is int and 0 <= n < 1 << 62 for n in value):
        raise Refused("has a malformed shape")
    return value


def check(folder: Folder, findings: Findings, reading: Reading) -> Metadata | None:
    """Check a DCP directory and report to ``findings``; its metadata, or None when there is none that can be read."""
    shards = {name: file for name, file in folder.files.items() if name.endswith(".distcp")}
    described = folder.files.get(".metadata")
    if findings.commit is None:
        findings.mark(".metadata", described is not None)
    if described is None:
        if ".metadata.tmp" in folder.files:
            findings.fault(".metadata is still .metadata.tmp: the save died before its last step")
        elif any(re.fullmatch(r"__\d+\.metadata", name) for name in folder.files):
            findings.doubt("every rank wrote its own .metadata: not checked")
        elif shards:
            findings.fault(f"no .metadata beside {len(shards)} shard files: the save was not finished")
        else:
            findings.fault("neither .metadata nor shards: the save died before its first write")
        return None
    try:
        if described.size > (MAX_METADATA_BYTES_DEEP if reading.deep else reading.metadata_left):
            findings.doubt(f".metadata has {described.size >> 20} MiB, more than is read without a deep check")
            return None
        reading.metadata_left -= described.size
        metadata = read_metadata(described.bytes(MAX_METADATA_BYTES_DEEP))
    except OSError as error:
        findings.doubt(f".metadata cannot be read: {error.strerror or error}")
        return None
    except Hostile as refusal:
        findings.fault(f".metadata: {refusal.told}")
        return None
    except Refused as refusal:
        findings.fault(f".metadata is damaged or foreign: its pickle {shown(str(refusal), 200)}")
        return None
    _check_tiles(metadata, findings)
    _check_files(metadata, folder, findings, reading)
    _check_times(described, shards, findings)
    return metadata


def _check_tiles(metadata: Metadata, findings: Findings) -> None:
    """Every chunk has its item, and the chunks of a tensor fill its shape."""
    stored: dict[str, set[tuple[int, ...] | None]] = defaultdict(set)
    for item in metadata.items:
        stored[item.fqn].add(item.place)
    for fqn, entry in metadata.tensors.items():
        missing = sum(offsets not in stored[fqn] for offsets, _ in entry.chunks)
        if missing:
            findings.fault(f"{missing} of {len(entry.chunks)} chunks of {shown(fqn, 120)} are stored nowhere")
        elif sum(math.prod(sizes) for _, sizes in entry.chunks) < math.prod(entry.shape):
            findings.fault(f"the chunks of {shown(fqn, 120)} do not fill its shape")
    for fqn in metadata.objects - stored.keys():
        findings.fault(f"{shown(fqn, 120)} is stored nowhere")


def _check_files(metadata: Metadata, folder: Folder, findings: Findings, reading: Reading) -> None:
    by_file: dict[str, list[Item]] = defaultdict(list)
    for item in metadata.items:
        by_file[item.file].append(item)
    share = len(metadata.items)
    whole_files: list[tuple[File, list[Item]]] = []
    for name, items in sorted(by_file.items()):
        file = _member(folder, name)
        expected = max(item.offset + item.length for item in items)
        if file is None:
            findings.fault(f"shard file {shown(name, 120)} is missing")
        elif file.size < expected:
            findings.fault(f"{shown(name, 120)} is cut short: {file.size} bytes instead of {expected}")
        elif file.size > expected:
            findings.fault(
                f"{shown(name, 120)} has {file.size} bytes instead of {expected}: it belongs to another save"
            )
        else:
            whole_files.append((file, items))
    look(whole_files, lambda one, found, own: _check_items(*one, found, own, share), findings, reading)
    spare = sorted(name for name in folder.files if name.endswith(".distcp") and name not in by_file)
    if spare:
        findings.note(
            f"{len(spare)} shard files that .metadata does not know, such as {spare[0]}: left from another save"
        )


def _member(folder: Folder, name: str) -> File | None:
    """The file of a relative path, looked up in listings, so that no path from the file reaches the file system."""
    *parents, last = name.split("/")
    for parent in parents:
        if parent not in folder.folders:
            return None
        folder = folder.folders[parent]
    return folder.files.get(last)


def _check_items(file: File, items: list[Item], findings: Findings, reading: Reading, share: int) -> None:
    """Look into the items while bytes may be read, and into the file's last one always: that one a torn file lacks."""
    last = max(items, key=lambda item: item.offset)
    try:
        with file.open() as stream:
            for item in items:
                spent = reading.bytes_left <= 0 and not reading.deep
                if item.coded or item.length == 0 or (spent and item is not last):
                    continue
                reading.bytes_left -= ITEM_COST
                window = Window(stream, item.offset, item.length)
                label = f"{file.name}, {shown(item.fqn, 120)}"
                inspect_stream(window, item.length, findings, reading, label=label, files=share)
    except OSError as error:
        findings.doubt(f"{file.name}: cannot be read: {error.strerror or error}")


def _check_times(described: File, shards: dict[str, File], findings: Findings) -> None:
    """A save into a used directory that dies half-way leaves the old ``.metadata`` with new shards of the same size."""
    late = sorted(name for name, file in shards.items() if file.mtime_ns - described.mtime_ns > LATE_NS)
    if late:
        findings.late = f"{len(late)} of {len(shards)} shard files are newer than .metadata, such as {late[0]}"


def read_item(folder: Folder, metadata: Metadata, fqn: str, findings: Findings, reading: Reading) -> Any:
    """The tree of plain values of a stored object; None when it is absent or cannot be read."""
    item = next((item for item in metadata.items if item.fqn == fqn and not item.coded), None)
    file = _member(folder, item.file) if item else None
    if item is None or file is None or item.offset + item.length > file.size:
        return None
    try:
        with file.open() as stream:
            window = Window(stream, item.offset, item.length)
            return inspect_stream(window, item.length, findings, reading, label=shown(fqn, 120), files=1)
    except OSError as error:
        findings.doubt(f"{file.name}: cannot be read: {error.strerror or error}")
        return None


def writers(folder: Folder) -> int:
    """Number of ranks whose shard files are there: a lower bound of the world size."""
    return len({match[1] for match in map(SHARD.fullmatch, folder.files) if match})
