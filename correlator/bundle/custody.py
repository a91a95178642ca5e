"""The chain of custody: who did what, when, with which tool; each row holds the digest of the one before.

It lies beside the payload, for it names the time and the person, and the payload of equal input is equal. An unsigned
chain shows damage and careless changes; against a forger sign ``tagmanifest-sha256.txt``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

FILE = "custody.jsonl"
_START = "0" * 64


class Step(msgspec.Struct, frozen=True):
    """One row. ``subjects``: digests of what the step took or gave, by name."""

    sequence: int
    time: datetime
    who: str
    host: str
    tool: str
    step: str
    subjects: dict[str, str]
    note: str
    previous: str


class Chain:
    """Rows in the order in which they happened."""

    def __init__(self, who: str, host: str, tool: str) -> None:
        self._who, self._host, self._tool = who, host, tool
        self._lines: list[bytes] = []

    def add(self, step: str, subjects: dict[str, str], note: str = "", time: datetime | None = None) -> None:
        """Adds a row; ``time`` is now where none is given."""
        previous = hashlib.sha256(self._lines[-1]).hexdigest() if self._lines else _START
        row = Step(
            len(self._lines) + 1,
            (time or datetime.now(UTC)).replace(microsecond=0),
            self._who,
            self._host,
            self._tool,
            step,
            dict(sorted(subjects.items())),
            note,
            previous,
        )
        self._lines.append(msgspec.json.encode(row))

    def to_bytes(self) -> bytes:
        """The rows, one JSON object a line."""
        return b"".join(line + b"\n" for line in self._lines)


def read_chain(data: bytes) -> tuple[list[Step], list[str]]:
    """The rows of a custody file, and what is wrong with the chain."""
    steps: list[Step] = []
    problems: list[str] = []
    previous = _START
    for number, line in enumerate(data.splitlines(), start=1):
        try:
            step = msgspec.json.decode(line, type=Step)
        except msgspec.MsgspecError:
            problems.append(f"{FILE}: row {number} cannot be read")
            continue
        if step.sequence != number:
            problems.append(f"{FILE}: row {number} says that it is row {step.sequence}")
        if step.previous != previous:
            problems.append(f"{FILE}: row {number} does not continue the row before it")
        if steps and step.time < steps[-1].time:
            problems.append(f"{FILE}: row {number} is earlier than the row before it")
        previous = hashlib.sha256(line).hexdigest()
        steps.append(step)
    if not steps:
        problems.append(f"{FILE} is empty")
    return steps, problems


def last_digest(steps: Sequence[Step], step: str, name: str) -> str | None:
    """The digest that the last row of a kind gives for a name."""
    return next((s.subjects[name] for s in reversed(steps) if s.step == step and name in s.subjects), None)
