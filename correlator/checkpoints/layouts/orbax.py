"""Orbax (JAX): ``<step>/{_CHECKPOINT_METADATA, <item>/{_METADATA, _sharding, manifest.ocdbt, d/, …}}``.

A save goes to ``<step>.orbax-checkpoint-tmp…`` and is renamed; where renaming is not atomic ``commit_success.txt``
comes last instead. Arrays lie in an OCDBT database (``manifest.ocdbt``), or in zarr folders, one an array.
Source: google/orbax ``checkpoint/orbax/checkpoint/_src/path/{step,atomicity}.py``.
"""

from __future__ import annotations

import re

from correlator.checkpoints.disk import File, Folder
from correlator.checkpoints.layouts._json import read_object
from correlator.checkpoints.model import Findings, Layout, Reading, Rescale
from correlator.checkpoints.ocdbt import check_database

_NAME = re.compile(r"(?:[A-Za-z_-]+)?(\d{1,12})(\.orbax-checkpoint-tmp.*)?")
_ROOT, _ITEM, _COMMIT = "_CHECKPOINT_METADATA", "_METADATA", "commit_success.txt"


def _recognises(folder: Folder) -> bool:
    if ".orbax-checkpoint-tmp" in folder.name or _ROOT in folder.files:
        return True
    named = _NAME.fullmatch(folder.name)
    return bool(named) and any(_ITEM in item.files or "manifest.ocdbt" in item.files for item in _items(folder))


def _items(folder: Folder) -> list[Folder]:
    return [folder, *folder.folders.values()]


def _read(folder: Folder, reading: Reading) -> Findings:
    findings = Findings()
    match = _NAME.fullmatch(folder.name)
    findings.iteration = int(match[1]) if match else None
    unfinished = [f.name for f in _items(folder) if ".orbax-checkpoint-tmp" in f.name]
    for name in unfinished:
        findings.fault(f"{name} still has its temporary name: the save was not finished")
    _check_commit(folder, findings)
    if _ROOT in folder.files:
        described = read_object(folder.files[_ROOT], _ROOT, findings) or {}
        handlers = described.get("item_handlers")
        for name in handlers if isinstance(handlers, dict) else ():
            if name not in folder.folders and not isinstance(name, int):
                findings.fault(f"item {name} is missing")
    arrays = [item for item in _items(folder) if _ITEM in item.files or "manifest.ocdbt" in item.files]
    if not arrays:
        findings.fault("no item with arrays inside")
    for item in arrays:
        _check_item(item, "" if item is folder else item.name, findings)
    inner = (f"{item.name}/{name}" for item in folder.folders.values() for name in item.files)
    findings.parts = frozenset([*inner, *folder.files])
    for item in folder.folders.values():
        for name in ("metadata", "_sharding"):
            if name in item.files:
                read_object(item.files[name], f"{item.name}/{name}", findings)
    return findings


def _check_commit(folder: Folder, findings: Findings) -> None:
    """Where some parts, or other steps, carry the success file, all must."""
    items = _items(folder)
    others = folder.parent.folders.values() if folder.parent else ()
    if any(_COMMIT in item.files for item in [*items, *(other for other in others if _NAME.fullmatch(other.name))]):
        findings.mark(_COMMIT, _COMMIT in folder.files)
        for item in items:
            if _COMMIT not in item.files and (item is folder or _ITEM in item.files or "metadata" in item.files):
                findings.fault(f"no {_COMMIT} in {item.name}, which is written last: the save was not finished")
            elif _COMMIT in item.files and _blank(item.files[_COMMIT]):
                findings.fault(f"{_COMMIT} in {item.name} is empty")
    elif _ROOT in folder.files:
        findings.mark(_ROOT, True)


def _blank(mark: File) -> bool:
    """Whether the success file holds no text; one that cannot be read is there all the same."""
    try:
        return not mark.bytes(1 << 16).strip(b"\0")
    except OSError:
        return False


def _check_item(item: Folder, label: str, findings: Findings) -> None:
    prefix = f"{label}/" if label else ""
    described = item.files.get(_ITEM)
    table = read_object(described, f"{prefix}{_ITEM}", findings) if described else None
    if described is None:
        findings.fault(f"{prefix}{_ITEM} is missing")
    if "manifest.ocdbt" in item.files or (table or {}).get("use_ocdbt"):
        check_database(item, label, findings)
    for process in item.folders.values():
        if process.name.startswith("ocdbt.process_") and "manifest.ocdbt" not in item.files:
            findings.fault(f"{prefix}{process.name} was never merged: the save was not finished")
            return


LAYOUT = Layout(
    name="orbax",
    order=46,
    recognises=_recognises,
    read=_read,
    rescale=Rescale(),
    hint="CheckpointManager({parent!r}).restore({iteration}); without a step the highest committed one is taken",
)
