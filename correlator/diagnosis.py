"""What comes out: the diagnosis, version 1, as typed structs.

Times are timezone-aware ``datetime`` in UTC, after clock correction. Ranks are global ranks. ``file`` is relative to
LOGDIR, ``line`` counts from 1, ``byte_offset`` from 0. An unknown scalar is null; an empty list stays a list.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

SCHEMA_ID = "correlator.diagnosis/1"

FailureClass = Literal["configuration", "application", "hardware", "infrastructure", "unknown", "none"]
Scope = Literal["rank", "ranks", "node", "all", "none"]
Role = Literal["initiator", "collateral", "teardown", "unrelated"]
ResumeStatus = Literal["safe", "unsafe", "no-checkpoint", "unknown"]
#: A step only looks, or changes the code, data or settings of the next run, or touches what runs or serves now.
StepKind = Literal["read-only", "changes-config", "disruptive"]
SourceKind = Literal["training", "launcher", "scheduler", "kernel", "device", "flight-recorder", "other"]


class Topology(msgspec.Struct, frozen=True):
    """Sizes of the parallel dimensions and the order in which ranks count through them, first name fastest."""

    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    cp: int | None = None
    ep: int | None = None
    order: str | None = None


class Job(msgspec.Struct):
    """Who was there."""

    world_size: int | None = None
    nodes: list[str] = []
    ranks_seen: int = 0
    framework: str | None = None
    versions: dict[str, str] = {}
    topology: Topology | None = None
    started: datetime | None = None
    ended: datetime | None = None
    last_step: int | None = None
    job_id: str | None = None


class Verdict(msgspec.Struct):
    """Whose fault it is. ``confidence`` is calibrated: of the answers given with 0.8, 8 in 10 are right."""

    class_: FailureClass = msgspec.field(name="class", default="unknown")
    subclass: str | None = None
    signature: str = "unknown"
    title: str = ""
    summary: str = ""
    confidence: float = 0.0


class Gpu(msgspec.Struct, frozen=True):
    """One GPU as far as the logs identify it."""

    node: str | None = None
    index: int | None = None
    pci_bus_id: str | None = None
    uuid: str | None = None
    serial: str | None = None


class Place(msgspec.Struct, frozen=True):
    """A line of a log."""

    file: str
    line: int
    byte_offset: int
    text: str


class Initiator(msgspec.Struct):
    """Who failed first."""

    ranks: list[int] = []
    nodes: list[str] = []
    gpus: list[Gpu] = []
    scope: Scope = "none"
    silent: bool = False
    time: datetime | None = None
    time_uncertainty_s: float | None = None
    step: int | None = None
    first_error: Place | None = None


class CascadeEvidence(msgspec.Struct, frozen=True):
    """The line a cascade entry rests on."""

    file: str
    line: int
    text: str


class CascadeEvent(msgspec.Struct):
    """One aggregated occurrence of the causal graph."""

    id: str
    time: datetime | None
    ranks: list[int]
    nodes: list[str]
    what: str
    role: Role
    caused_by: list[str] = []
    rule: str | None = None
    evidence: CascadeEvidence | None = None


class Collateral(msgspec.Struct):
    """The ranks that only suffered."""

    ranks: list[int] = []
    count: int = 0


class Evidence(msgspec.Struct):
    """One line that carries the answer. ``weight`` is between 0 and 1."""

    supports: Literal["verdict", "initiator", "resume"]
    file: str
    line: int
    byte_offset: int
    text: str
    weight: float
    why: str


class Alternative(msgspec.Struct):
    """A rival explanation and the one experiment that separates it from the verdict."""

    class_: FailureClass = msgspec.field(name="class")
    signature: str
    confidence: float
    why: str
    control: str


class RuledOut(msgspec.Struct):
    """What was considered and dropped."""

    what: str
    why: str


class ResumeCandidate(msgspec.Struct):
    """One checkpoint."""

    path: str | None
    iteration: int | None
    complete: bool | None
    topology: str | None = None
    problems: list[str] = []


class Resume(msgspec.Struct):
    """Where to resume."""

    status: ResumeStatus = "unknown"
    iteration: int | None = None
    path: str | None = None
    reasons: list[str] = []
    candidates: list[ResumeCandidate] = []


class Action(msgspec.Struct):
    """A next step. ``command`` is meant to be read before it is run; text from logs is never part of it unquoted.

    ``risk``: whether anything that runs or serves now is touched. ``stopgap``: the cause stays.
    """

    title: str
    command: str | None
    why: str
    risk: Literal["read-only", "disruptive"]
    kind: StepKind
    stopgap: bool

    @classmethod
    def of(cls, kind: StepKind, title: str, command: str | None = None, why: str = "", stopgap: bool = False) -> Action:
        """An action with the risk that its kind has."""
        return cls(title, command, why, "disruptive" if kind == "disruptive" else "read-only", kind, stopgap)


class Verify(msgspec.Struct):
    """What must be seen for the fix to count."""

    what: str = ""
    command: str | None = None


class Clock(msgspec.Struct):
    """A node's clock against the reference node's. ``bound_s`` null: unbounded."""

    node: str
    offset_s: float | None
    bound_s: float | None
    basis: str


class SkippedFile(msgspec.Struct, frozen=True):
    """A file that was not read, or not wholly, and why."""

    file: str
    why: str


class Source(msgspec.Struct, frozen=True):
    """How many of the files read are (also) of one kind; ``other``: nothing in them was recognised."""

    kind: SourceKind
    files: int


class MissingSource(msgspec.Struct, frozen=True):
    """A usual source that is not among the files: ``what`` in words, and which nodes or ranks lack it, if known."""

    kind: SourceKind
    what: str
    nodes: list[str] = []
    ranks: list[int] = []


class Inputs(msgspec.Struct):
    """What was read. ``warnings`` name files whose content was damaged but read as far as possible."""

    files_read: int = 0
    files_skipped: list[SkippedFile] = []
    bytes: int = 0
    lines: int = 0
    events: int = 0
    warnings: list[SkippedFile] = []
    sources: list[Source] = []
    missing: list[MissingSource] = []


class Document(msgspec.Struct):
    """The diagnosis JSON."""

    schema: str
    job: Job
    verdict: Verdict
    initiator: Initiator
    cascade: list[CascadeEvent]
    collateral: Collateral
    evidence: list[Evidence]
    alternatives: list[Alternative]
    ruled_out: list[RuledOut]
    resume: Resume
    actions: list[Action]
    verify: Verify
    clocks: list[Clock]
    inputs: Inputs


def to_json(document: Document) -> bytes:
    """The document as indented UTF-8 JSON, one trailing newline."""
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the diagnosis, derived from the structs."""
    schema = msgspec.json.schema(Document)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID, **schema}
