"""What the causal rules speak about: incidents, findings, and the facts of one job that every rule may ask for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from correlator.cascade.recorded import Recorded
from correlator.clocks import Clocks
from correlator.diagnosis import FailureClass, Role, Scope
from correlator.events import STANDS_FOR_OTHERS
from correlator.hostlist import expand_ranges
from correlator.ingest import Ingested, Writer
from correlator.records import Row
from correlator.signatures import Signature
from correlator.topology.model import Topology

#: Emitters that write about machines and devices; their records reach back beyond the job.
OF_MACHINES = frozenset({"kernel", "gpu", "fabric_manager", "bmc", "host", "bug_report"})

#: Kinds of evidence, strongest first.
Trust = Literal["outside", "local", "protocol", "exit", "silence", "accusation", "shape", "weak"]


@dataclass(slots=True)
class Incident:
    """One aggregated occurrence: one failure of one rank or node, one wave of a process group, or an absence.

    ``time`` is corrected, in ns since the epoch; ``bound`` its half width in ns, None for unbounded. ``inherited``: the
    time is that of an older line of the same writer, so it is a lower limit only.
    """

    id: str
    event: str
    what: str
    role: Role
    ranks: tuple[int, ...]
    nodes: tuple[str, ...]
    rows: list[Row]
    signature: str | None = None
    time: int | None = None
    bound: int | None = None
    attempt: int = 0
    inherited: bool = False

    @property
    def first(self) -> Row | None:
        """The row the incident rests on."""
        return self.rows[0] if self.rows else None


@dataclass(slots=True)
class Finding:
    """A possible initiator: which incident, by which rule, how far it can be trusted, and what it explains."""

    rule: str
    incident: Incident
    trust: Trust
    strength: float
    why: str
    class_: FailureClass = "unknown"
    subclass: str | None = None
    signature: str | None = None
    title: str = ""
    scope: Scope = "rank"
    silent: bool = False
    control: str = ""
    explains: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Exit:
    """How a rank's process ended. ``code`` is negative for a signal; ``observer`` is the writer that reports it."""

    rank: int
    code: int
    row: Row
    observer: str


@dataclass
class Facts:
    """Everything the rules may ask about one job."""

    ingested: Ingested
    rows: Sequence[Row]
    progress: Sequence[Row]
    topology: Topology
    clocks: Clocks
    signatures: Mapping[str, Signature]
    incidents: list[Incident] = field(default_factory=list)

    def signature(self, row: Row) -> Signature | None:
        """The failure signature of a row, if it matched one."""
        return self.signatures.get(row.signature) if row.signature else None

    def events(self, *names: str) -> list[Row]:
        """Rows of these events, in table order, of all attempts."""
        return [row for name in names for row in self._by_event.get(name, ())]

    def judged(self, *names: str) -> list[Row]:
        """Rows of these events that may be of the judged attempt, in table order."""
        return [row for row in self.events(*names) if self.is_judged(row)]

    def is_judged(self, row: Row) -> bool:
        """Whether a row belongs to the judged attempt, or may belong to it."""
        return row.attempt is None or row.attempt == self.attempt

    def may_be_judged(self, incident: Incident) -> bool:
        """Whether an incident belongs to the judged attempt, or may belong to it."""
        return self.attempt_of(incident) in (None, self.attempt)

    @cached_property
    def attempt(self) -> int:
        """The attempt whose fault ended the job: the last one that trained, since all before it were recovered from.

        Attempts that never trained only met what the one before them left. Needs the incidents.
        """
        known = {self.attempt_of(i) for i in self.incidents if i.role in ("initiator", "collateral")}
        known |= {e.row.attempt for exits in self.all_exits.values() for e in exits if e.code}
        numbers = {number or 0 for number in known}
        trained = max((r.attempt or 0 for r in self.progress if r.step is not None), default=0)
        return min((n for n in numbers if n >= trained), default=max(numbers, default=0))

    def attempt_of(self, incident: Incident) -> int | None:
        """The attempt of an incident; None where neither its file nor the clock tells."""
        first = incident.first
        return incident.attempt if first is None or not self._restarted else first.attempt

    @cached_property
    def _restarted(self) -> bool:
        return bool(self.events("torchrun.restart"))

    @cached_property
    def events_of_file(self) -> dict[str, set[str]]:
        """The names of all events in each file that has any."""
        found: dict[str, set[str]] = defaultdict(set)
        for row in (*self.rows, *self.progress):
            found[row.file].add(row.event)
        return found

    @cached_property
    def _by_event(self) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = defaultdict(list)
        for row in self.rows:
            found[row.event].append(row)
        return found

    @cached_property
    def silence_counts(self) -> bool:
        """Whether a rank's line that is not there was not printed: some printers drop lines that others print, too."""
        return not any(row.attr(STANDS_FOR_OTHERS) for row in self.rows)

    @cached_property
    def recorded(self) -> Recorded:
        """What the flight-recorder dumps of all ranks say together."""
        return Recorded(self.events("fr.group", "fr.entry"), self.expected_ranks())

    @cached_property
    def writers(self) -> dict[str, Writer]:
        """Writers by key."""
        return {w.key: w for w in self.ingested.writers}

    @cached_property
    def exits(self) -> dict[int, list[Exit]]:
        """Exit statuses by rank in the judged attempt, as launchers and schedulers report them."""
        judged = {rank: [e for e in ends if self.is_judged(e.row)] for rank, ends in self.all_exits.items()}
        return {rank: ends for rank, ends in judged.items() if ends}

    @cached_property
    def all_exits(self) -> dict[int, list[Exit]]:
        """Exit statuses by rank in all attempts."""
        found: dict[int, list[Exit]] = defaultdict(list)
        for row in self.rows:
            for rank, code in _exits_of(row, self.topology):
                found[rank].append(Exit(rank, code, row, row.writer))
        return found

    @cached_property
    def failed_exits(self) -> bool:
        """Whether any launcher or scheduler reports an abnormal end."""
        coded = (
            "deepspeed.return_code",
            "hydra.bad_termination",
            "mpi.rank_exited",
            "slurm.task_exit",
            "lightning.child_died",
            "spawn.process_exited",
        )
        return any(e.code for exits in self.all_exits.values() for e in exits) or any(
            (row.exit_code or row.signal or row.event == "hydra.bad_termination") for row in self.events(*coded)
        )

    @cached_property
    def nodes_with_epitaph(self) -> set[str]:
        """Nodes whose launcher said how its workers ended."""
        events = self.judged(
            "torchrun.worker_failed",
            "torchrun.report_entry",
            "torchrun.death_signal",
            "torchrun.kill_escalation",
            "torchrun.child_failed",
            "torchrun.rendezvous_error",
            "torchrun.rendezvous_timeout",
        )
        return {row.node for row in events if row.node}

    @cached_property
    def last_progress(self) -> Row | None:
        """The step line with the highest step of the run that died; the latest of those with a time."""
        stepped = [r for r in self.progress if r.step is not None]
        return max(stepped, key=lambda r: (r.time or 0, r.step or 0), default=None)

    @cached_property
    def first_progress_ns(self) -> int | None:
        """Corrected time of the first step line."""
        times = [r.time for r in self.progress if r.time is not None]
        return min(times) if times else None

    @cached_property
    def trained(self) -> bool:
        """Whether any training step was completed."""
        return any(r.step is not None for r in self.progress)

    def before_training(self, row: Row) -> bool:
        """Whether a row certainly lies before the first step of its run."""
        if not self.trained:
            return True
        if row.time is None or self.first_progress_ns is None or row.timestamp_basis in ("inherited", "none"):
            return False
        return row.time < self.first_progress_ns

    def expected_ranks(self) -> list[int]:
        """Every rank known to exist."""
        return sorted(self.topology.ranks)

    def job_node(self, row: Row) -> str | None:
        """The node of a row where it is surely one of this job: logs of nodes that hold no rank may lie among them."""
        nodes = sorted({rank.node for rank in self.topology.ranks.values() if rank.node}) or self.topology.nodes
        if row.node is None:
            return nodes[0] if len(nodes) == 1 else None
        return row.node if row.node in nodes else None

    def step_near(self, time: int | None) -> int | None:
        """The last completed step at some time; without a time, the last of all."""
        steps = [
            r.step for r in self.progress if r.step is not None and (time is None or r.time is None or r.time <= time)
        ]
        return max(steps, default=None)


#: Lines of launchers that say how the process of one rank ended.
_EXITS_OF_RANKS = frozenset(
    {
        "torchrun.worker_failed",
        "torchrun.report_entry",
        "composer.rank_crashed",
        "mpi.rank_exited",
        "lightning.child_died",
        "spawn.process_exited",
    }
)


def _exits_of(row: Row, topology: Topology) -> Iterable[tuple[int, int]]:
    """(rank, code) of a row that states how processes ended; shells' 128+n is folded to -n for scheduler lines."""
    if row.event in _EXITS_OF_RANKS:
        if row.rank is not None and row.attr("teardown") != "true":
            code = row.exit_code if row.exit_code is not None else -(row.signal or 0)
            yield row.rank, code
    elif row.event == "slurm.task_exit" and topology.tasks_are_ranks:
        code = row.exit_code if row.exit_code is not None else -(row.signal or 0)
        if not code and row.attr("how") == "Out Of Memory":
            code = -9
        if code > 128:
            code = 128 - code
        for task in expand_ranges(row.attr("tasks")) or ([row.task] if row.task is not None else []):
            yield task, code


def interval(row_time: int | None, bound: int | None) -> tuple[int, int] | None:
    """Earliest and latest true time, or None when nothing bounds it."""
    return None if row_time is None or bound is None else (row_time - bound, row_time + bound)


def certainly_before(a: Incident, b: Incident, slack: int = 0) -> bool:
    """Whether ``a`` lies before ``b`` by more than both bounds leave open."""
    first, second = interval(a.time, a.bound), interval(b.time, b.bound)
    return first is not None and second is not None and first[1] + slack < second[0]


def before_in_stream(a: Incident, b: Incident) -> bool:
    """Whether ``a`` was written before ``b`` in one and the same file: for what the clock leaves open.

    One file is one stream, filled in the order in which its lines arrived; files say nothing about each other.
    """
    first, second = a.first, b.first
    comparable = interval(a.time, a.bound) is not None and interval(b.time, b.bound) is not None
    return (
        not comparable
        and first is not None
        and second is not None
        and first.file == second.file
        and first.byte_offset < second.byte_offset
    )
