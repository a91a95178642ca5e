"""The private map of a case: which placeholder stands for which value. It is never part of a bundle.

One map serves all bundles of a case: given again, it is continued, and the same value keeps its placeholder. The file
can be read by its owner only.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import msgspec

from correlator.errors import UsageError

#: Every placeholder begins so; nothing that does is masked again.
PREFIX = "masked-"
_FORMAT = "correlator.private-map/1"


class _Stored(msgspec.Struct):
    format: str
    level: str
    kinds: list[str]
    logs: list[str]
    values: dict[str, dict[str, str]]


class Placeholders:
    """Values by kind with their placeholders, numbered in the order in which they were first met."""

    def __init__(self) -> None:
        self.values: dict[str, dict[str, str]] = defaultdict(dict)
        self.level = ""
        self.kinds: tuple[str, ...] = ()
        self.logs: list[str] = []

    def get(self, kind: str, value: str) -> str:
        """The placeholder of a value, made now if it has none."""
        known = self.values[kind]
        if value not in known:
            known[value] = f"{PREFIX}{kind}-{len(known) + 1}"
        return known[value]

    def add_all(self, kind: str, values: Sequence[str]) -> None:
        """Gives all ``values`` their placeholders, in this order."""
        for value in values:
            self.get(kind, value)

    def to_json(self) -> bytes:
        """The map as indented JSON."""
        stored = _Stored(_FORMAT, self.level, list(self.kinds), self.logs, dict(self.values))
        return msgspec.json.format(msgspec.json.encode(stored), indent=1) + b"\n"


def read_map(path: Path) -> Placeholders:
    """The map in a file. Raises UsageError where it is none."""
    try:
        stored = msgspec.json.decode(path.read_bytes(), type=_Stored)
    except OSError as fault:
        raise UsageError(f"cannot read the private map {path}: {fault.strerror or fault}") from None
    except msgspec.MsgspecError:
        raise UsageError(f"{path} is no private map of a bundle") from None
    if stored.format != _FORMAT:
        raise UsageError(f"{path} is a private map of another version: {stored.format}")
    found = Placeholders()
    found.values.update(stored.values)
    found.level, found.kinds, found.logs = stored.level, tuple(stored.kinds), stored.logs
    return found


def write_map(path: Path, placeholders: Placeholders) -> None:
    """Writes the map under a temporary name and renames it; only the owner may read it. Raises OSError."""
    temporary = path.with_name(f".correlator-{secrets.token_hex(8)}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, stat.S_IRUSR | stat.S_IWUSR)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(placeholders.to_json())
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
