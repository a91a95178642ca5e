"""The members of an archive as plain files in a temporary folder.

Nothing is extracted under its own name, no link is followed, no device made; binaries are left where they are. What is
unpacked is counted against the budget of the outermost archive. A torn or damaged archive gives what comes before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from correlator.containers.spool import Spool
from correlator.reading import SNIFF_BYTES, Budget, Oversized

#: Members beyond this many are not unpacked.
MAX_MEMBERS = 100_000
_STEP = 1 << 16

#: Given the name and the first bytes of a member: why it is not wanted; None when it is.
Refuse = Callable[[str, bytes], str | None]


@dataclass(frozen=True, slots=True)
class Member:
    """One file of an archive, copied to ``path``. ``name`` is relative to the archive's top; ``mtime_ns`` UTC."""

    name: str
    path: Path
    size: int
    mtime_ns: int


@dataclass(slots=True)
class Contents:
    """What an archive gave. ``left_out``: names and reasons; ``problems``: why it was not read to its end."""

    members: list[Member] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class Unpacker:
    """Copies wanted members of one archive into the spool."""

    def __init__(self, spool: Spool, budget: Budget, refuse: Refuse) -> None:
        self.contents = Contents()
        self.budget = budget
        self._spool = spool
        self._refuse = refuse
        self._names: set[str] = set()

    def leave_out(self, name: str, why: str) -> None:
        """Note a member that is not unpacked."""
        self.contents.left_out.append((self._unique(name), why))

    def copy(self, name: str, mtime_ns: int, read: Callable[[int], bytes]) -> None:
        """Copy a member whose bytes ``read(count)`` gives, b"" at its end. What came before an error is kept."""
        name = self._unique(name)
        head = b""
        try:
            while len(head) < SNIFF_BYTES and (piece := read(SNIFF_BYTES - len(head))):
                head += piece
        finally:
            why = self._refuse(name, head)
            if why is not None:
                self.contents.left_out.append((name, why))
            else:
                path = self._spool.new_path()
                path.write_bytes(head)
                self.contents.members.append(Member(name, path, len(head), mtime_ns))
        if why is None and len(head) == SNIFF_BYTES:
            self._copy_rest(read)

    def _copy_rest(self, read: Callable[[int], bytes]) -> None:
        member = self.contents.members.pop()
        size = member.size
        with member.path.open("ab") as out:
            try:
                while piece := read(_STEP):
                    out.write(piece)
                    size += len(piece)
            finally:
                self.contents.members.append(Member(member.name, member.path, size, member.mtime_ns))

    def _unique(self, name: str) -> str:
        if len(self._names) >= MAX_MEMBERS:
            raise Oversized(f"holds more files than the limit of {MAX_MEMBERS:,}; those before it were read")
        plain = harmless_name(name)
        name, number = plain, 1
        while name in self._names:
            number += 1
            name = f"{plain}~{number}"
        self._names.add(name)
        return name


def harmless_name(name: str) -> str:
    """A member's name as a relative path with ``/`` that leads nowhere else and can be printed."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace").replace("\\", "/")
    parts = [part for part in text.split("/") if part not in ("", ".", "..")]
    return "/".join(parts) or "unnamed"
