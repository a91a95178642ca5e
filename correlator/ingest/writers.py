"""Who wrote a file: every writer's claims about itself, its first and its last sign of life."""

from __future__ import annotations

from dataclasses import dataclass, field

from correlator.discovery import SourceFile
from correlator.envelopes.peeled import Peeled

#: Fields that lines state one by one and that may contradict each other.
CLAIMS = ("node", "rank", "local_rank", "task", "pod", "pid")
_TEXT_LIMIT = 1000


@dataclass(slots=True)
class Writer:
    """One process as one file shows it: who it says it is, its first and last sign of life.

    Times are UTC nanoseconds; ``last_basis`` and ``last_resolution_ns`` belong to ``last_ns``. ``last_line`` counts
    from 1. ``last_text`` is the last line that is not blank, without its envelopes. ``last_step`` comes from progress
    lines.
    """

    key: str
    file: str
    node: str | None
    node_basis: str | None
    rank: int | None
    rank_basis: str | None
    local_rank: int | None
    task: int | None
    pod: str | None
    attempt: int | None
    pid: int | None
    stream: str | None
    first_ns: int | None
    last_ns: int | None
    last_basis: str | None
    last_resolution_ns: int | None
    last_line: int
    last_byte_offset: int
    last_text: str
    last_step: int | None = None


@dataclass(slots=True)
class WriterTrace:
    """What one unit shows of a writer. ``last_line`` counts from the unit's first line, offsets from the file's start.

    ``label``: the raw bytes that stand in front of each of its lines, where there are such. ``kernel``: lines of the
    kernel are among those looked at.
    """

    key: str
    node: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    task: int | None = None
    pod: str | None = None
    pid: int | None = None
    streams: set[str] = field(default_factory=set)
    conflicts: set[str] = field(default_factory=set)
    first_ns: int | None = None
    last_ns: int | None = None
    last_basis: str | None = None
    last_resolution_ns: int | None = None
    last_stamp_offset: int = -1
    last_offset: int = -1
    last_line: int = 0
    last_text: str = ""
    label: bytes | None = None
    kernel: bool = False

    def claim(self, name: str, value: object) -> None:
        """Take what a line says about its writer; lines that contradict each other leave the field empty."""
        if value is None or name in self.conflicts:
            return
        known = getattr(self, name)
        if known is not None and known != value:
            self.conflicts.add(name)
            value = None
        setattr(self, name, value)

    def claim_all(self, p: Peeled) -> None:
        """Take all that a line says about its writer."""
        if p.boot_ns is not None or p.logger == "kernel":
            self.kernel = True
        if p.node is not None or p.pod is not None:
            self.claim("node", p.node or p.pod)
            self.claim("pod", p.pod)
        # A rank that only stands in one line's text (a logger that selected ranks print, a launcher's report) says who
        # wrote that line; the other lines of a shared file belong to that rank only behind a label or torch's prefix.
        if p.rank is not None and (p.identity or p.inner_rank is not None):
            self.claim("rank", p.rank)
        if p.local_rank is not None and p.identity:
            self.claim("local_rank", p.local_rank)
        if p.task is not None:
            self.claim("task", p.task)
        if p.pid is not None:
            self.claim("pid", p.pid)
        if p.stream is not None:
            self.streams.add(p.stream)

    def heard(self, offset: int, line: int, p: Peeled) -> None:
        """The line at ``offset`` is the writer's last one as far as known."""
        if offset > self.last_offset:
            self.last_offset, self.last_line, self.last_text = offset, line, p.text[:_TEXT_LIMIT]

    def timed(self, offset: int, p: Peeled) -> None:
        """The stamped line at ``offset`` is the writer's last stamped one as far as known."""
        if offset > self.last_stamp_offset:
            self.last_stamp_offset = offset
            self.last_ns, self.last_basis = p.timestamp_ns, p.timestamp_basis
            self.last_resolution_ns = p.resolution_ns

    def started(self, ns: int) -> None:
        """The writer printed at this time."""
        self.first_ns = ns if self.first_ns is None else min(self.first_ns, ns)

    def join(self, later: WriterTrace) -> None:
        """Add what a later unit of the same file shows."""
        self.conflicts |= later.conflicts
        for name in CLAIMS:
            if name in self.conflicts:
                setattr(self, name, None)
            self.claim(name, getattr(later, name))
        self.streams |= later.streams
        self.kernel = self.kernel or later.kernel
        self.label = self.label or later.label
        if later.first_ns is not None:
            self.started(later.first_ns)
        if later.last_stamp_offset > self.last_stamp_offset:
            self.last_stamp_offset, self.last_ns = later.last_stamp_offset, later.last_ns
            self.last_basis, self.last_resolution_ns = later.last_basis, later.last_resolution_ns
        if later.last_offset > self.last_offset:
            self.last_offset, self.last_line, self.last_text = later.last_offset, later.last_line, later.last_text


def writer_key(file: str, key: str) -> str:
    """Name of a writer in the event table: its file, and what its envelopes say."""
    return f"{file}#{key}" if key else file


def build_writer(file: SourceFile, trace: WriterTrace, last_step: int | None) -> Writer:
    """The writer that a file's traces add up to; what its lines leave open comes from the file's name."""
    claims = file.claims
    rank = claims.rank if trace.rank is None else trace.rank
    node = claims.node if trace.node is None else trace.node
    return Writer(
        key=writer_key(file.name, trace.key),
        file=file.name,
        node=node,
        node_basis=_basis(trace.node, node),
        rank=rank,
        rank_basis=_basis(trace.rank, rank),
        local_rank=claims.local_rank if trace.local_rank is None else trace.local_rank,
        task=claims.task if trace.task is None else trace.task,
        pod=trace.pod,
        attempt=claims.attempt,
        pid=claims.pid if trace.pid is None else trace.pid,
        stream=next(iter(trace.streams)) if len(trace.streams) == 1 else claims.stream,
        first_ns=trace.first_ns,
        last_ns=trace.last_ns,
        last_basis=trace.last_basis,
        last_resolution_ns=trace.last_resolution_ns,
        last_line=trace.last_line,
        last_byte_offset=max(trace.last_offset, 0),
        last_text=trace.last_text,
        last_step=last_step,
    )


def _basis(stated: object, known: object) -> str | None:
    if stated is not None:
        return "envelope"
    return None if known is None else "path"
