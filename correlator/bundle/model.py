"""What ``case.json`` holds: the case as a stranger reads it, every value with the line it was read from.

Times are timezone-aware, UTC, after clock correction. ``file`` is relative to LOGDIR, ``line`` counts from 1. A value
that the logs do not state is null and says what would give it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from correlator.diagnosis import FailureClass

SCHEMA_ID = "correlator.bundle/1"

PartKind = Literal["gpu", "nic", "switch", "host"]
DecisionStatus = Literal["meets-criteria", "insufficient", "not-hardware"]
#: ``met``: shown and confirmed. ``shown``: a confirmation is missing. ``suggested``: other lines point to it, the
#: reading that would show it is missing. ``contradicted``: a later reading or a passed test speaks against it.
CriterionStatus = Literal["met", "shown", "suggested", "contradicted"]
#: ``fault``: done, and it found one. ``passed``: done, nothing found. ``done``: done; it has no result of its own.
TestStatus = Literal["fault", "passed", "done", "not done"]
#: Of another cause. ``no sign``: a log at hand in which it would have shown is silent, which rules nothing out.
Standing = Literal["ruled out", "speaks for it", "no sign", "not shown"]


class Place(msgspec.Struct, frozen=True):
    """A line of a log."""

    file: str
    line: int


class Fact(msgspec.Struct, frozen=True):
    """One value with its source; without a value, ``missing`` says how to get it."""

    name: str
    value: str | None
    source: Place | None = None
    missing: str | None = None


class FactGroup(msgspec.Struct):
    """Facts about one thing: the part, the board, the machine."""

    title: str
    facts: list[Fact]


class Sign(msgspec.Struct, frozen=True):
    """A line that speaks for or against something."""

    text: str
    source: Place
    time: datetime | None = None


class Criterion(msgspec.Struct):
    """One replacement rule and how far the logs fulfil it."""

    id: str
    title: str
    rule: str
    basis: str
    source: str
    status: CriterionStatus
    signs: list[Sign]
    unconfirmed: list[str]


class Missing(msgspec.Struct, frozen=True):
    """A test or file that is not in the logs, where it has to be got, and how."""

    what: str
    node: str | None
    command: str | None
    why: str


class Decision(msgspec.Struct):
    """Whether the part can be sent back on this evidence."""

    status: DecisionStatus
    headline: str
    why: str
    criteria: list[Criterion]
    missing: list[Missing]
    forced: bool = False


class Test(msgspec.Struct):
    """One diagnostic step: done or to do. ``confirms``: it counts as the confirmation that a rule asks for."""

    id: str
    name: str
    title: str
    status: TestStatus
    confirms: bool
    result: str | None
    node: str | None
    command: str | None
    why: str
    source: Place | None = None


class Excluded(msgspec.Struct):
    """One other cause and what the logs say about it."""

    what: str
    standing: Standing
    why: str
    source: Place | None = None


class Labels(msgspec.Struct):
    """The verdict in the words of the public label sets."""

    azure: str
    gcp: str
    oci: str
    nvidia: list[str]


class Head(msgspec.Struct):
    """The fault in brief. ``clock``: how the node's clock stands to those of the others."""

    node: str | None
    job: str
    time: datetime | None
    time_uncertainty_s: float | None
    clock: str
    failure_class: FailureClass
    signature: str
    title: str
    summary: str
    confidence: float
    is_initiator: bool
    tool: str


class Reading(msgspec.Struct):
    """Counters of the part as one snapshot shows them; ``when`` is relative to the fault."""

    source: Place
    time: datetime | None
    when: Literal["before", "after", "unknown"]
    values: dict[str, str]


class Excerpt(msgspec.Struct):
    """Some whole lines of a log.

    ``byte_offset`` and ``byte_length`` are those of the original, unredacted lines: in the file, or where
    ``offsets_in`` says so in what it unpacks to. ``sha256`` is that of the text in the bag; ``source_sha256`` that of
    the original file as found.
    """

    id: str
    path: str
    why: str
    file: str
    node: str | None
    line_start: int
    line_end: int
    byte_offset: int
    byte_length: int
    offsets_in: Literal["file", "unpacked"]
    sha256: str
    source_sha256: str
    source_bytes: int
    redacted: bool


class Attachment(msgspec.Struct):
    """A raw diagnostic file, or a part of one. ``path`` null: left out, and ``note`` says why."""

    path: str | None
    kind: str
    title: str
    file: str
    node: str | None
    byte_offset: int
    byte_length: int
    sha256: str | None
    source_sha256: str
    source_bytes: int
    redacted: bool
    note: str = ""


class RedactionRecord(msgspec.Struct):
    """What was replaced, how often, and what stays on purpose."""

    level: str
    kinds: list[str]
    values: dict[str, int]
    kept: list[str]


class Case(msgspec.Struct):
    """The whole case."""

    schema: str
    case_id: str
    part: str
    part_kind: PartKind
    decision: Decision
    head: Head
    labels: Labels
    identity: list[FactGroup]
    software: list[Fact]
    first_fault: list[Sign]
    why_first: str
    collateral: list[str]
    counters: list[Reading]
    tests: list[Test]
    excluded: list[Excluded]
    history: list[Sign]
    actions_taken: list[Sign]
    attachments: list[Attachment]
    redaction: RedactionRecord
    notes: list[str]
