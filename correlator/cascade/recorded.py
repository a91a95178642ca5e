"""What the flight-recorder dumps of all ranks say together: who entered which call, who waits for whom.

Numbers are compared within one process group only. A rank without a readable dump is not known to be anywhere.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import networkx as nx

from correlator.hostlist import expand_ranges
from correlator.records import Row
from correlator.timestamps import SECOND

#: Calls whose sizes must be the same on all members; others may differ in them by design.
_EQUAL_SIZES = frozenset(
    {"all_reduce", "broadcast", "reduce", "_all_gather_base", "all_gather_into_tensor", "_reduce_scatter_base",
     "reduce_scatter_tensor"}
)  # fmt: skip
#: Waits written down of one rank in one call, beside those of the first.
_PAIRS = 32
#: How far clocks that nothing ties together may be apart, in ns; more is another attempt.
_UNBOUNDED = 600 * SECOND
#: How far apart ranks of one attempt begin, and how long a full ring may go on after one of them stopped, in ns.
_START, _LONGEST_WAIT = 60 * SECOND, 3600 * SECOND
_PEERS = re.compile(r"(send|recv) (\d{1,7})(->|<-)(\d{1,7})")


@dataclass(slots=True)
class Seat:
    """One rank's place in one group. ``enqueued`` None: its ring has lost that. ``calls`` by number, kept ones only."""

    rank: int
    row: Row
    enqueued: int | None
    calls: dict[int, Row] = field(default_factory=dict)
    p2p: list[Row] = field(default_factory=list)

    @property
    def overwritten(self) -> bool:
        """Whether older calls of this rank are lost."""
        return self.row.attr("overwritten") == "true"

    @property
    def open(self) -> Row | None:
        """The first collective that did not complete."""
        return next((r for _, r in sorted(self.calls.items()) if r.attr("state") != "completed"), None)


@dataclass(slots=True)
class Table:
    """One process group: its members, by global rank in the group's order, and the seats of those with a dump."""

    name: str
    desc: str
    members: tuple[int, ...]
    seats: dict[int, Seat]

    @property
    def title(self) -> str:
        """The group as a reader knows it."""
        return f"{self.name} ({self.desc})" if self.desc and self.desc != "undefined" else self.name

    @property
    def unknown(self) -> list[int]:
        """Members of whose place nothing is known."""
        return [m for m in self.members if m not in self.seats or self.seats[m].enqueued is None]


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first number at which members ran different calls. ``odd``: the minority, empty where none tells."""

    table: Table
    seq: int
    odd: tuple[int, ...]
    rows: tuple[Row, ...]
    aspect: str


@dataclass(frozen=True, slots=True)
class Wait:
    """``rank`` waits in ``row``, a call of ``table``, for ``other``; not ``certain``: it may have entered as well."""

    rank: int
    other: int
    table: Table
    row: Row
    certain: bool = True


class Recorded:
    """The dumps of one job."""

    def __init__(self, rows: Sequence[Row], everyone: Sequence[int]) -> None:
        """``rows``: all of emitter ``fr``; ``everyone``: the ranks known to exist."""
        current = _current(rows)
        self.ranks = {r.rank for r in current if r.event == "fr.group" and r.rank is not None}
        self.tables = _tables(current, self.ranks, everyone)

    @cached_property
    def mismatches(self) -> list[Mismatch]:
        """The first mismatch of each group that somebody did not get beyond, earliest first."""
        found = [m for table in self.tables if (m := _mismatch(table)) is not None]
        return sorted(found, key=lambda m: (min((r.time or 0) for r in m.rows), m.table.name))

    @cached_property
    def waits(self) -> list[Wait]:
        """Who waits for whom; of a group with a mismatch, only below it."""
        limits = {id(m.table): m.seq for m in self.mismatches}
        found: list[Wait] = []
        for table in self.tables:
            found += _collective_waits(table, limits.get(id(table)))
            found += self._p2p_waits(table)
        return found

    @cached_property
    def graph(self) -> nx.DiGraph:
        """The waits as a graph of ranks."""
        graph = nx.DiGraph()
        graph.add_edges_from((w.rank, w.other) for w in self.waits)
        return graph

    @cached_property
    def ends(self) -> list[list[int]]:
        """Where the chains of waiting end: single ranks that wait for nobody, and cycles."""
        order = nx.condensation(self.graph)
        return sorted(sorted(order.nodes[n]["members"]) for n in order if order.out_degree(n) == 0)

    @cached_property
    def waiting(self) -> dict[int, Row]:
        """For each rank that waits for another, meets another call than its own, or was given up, the row it is at."""
        found = {w.rank: w.row for w in reversed(self.waits)}
        for mismatch in self.mismatches:
            for row in mismatch.rows:
                if row.rank is not None and row.attr("state") != "completed" and row.rank not in mismatch.odd:
                    found.setdefault(row.rank, row)
        if not found:
            found = {r.rank: r for _, rows in self.all_entered for r in rows if r.rank is not None}
        return found

    @cached_property
    def waiting_rows(self) -> set[int]:
        """The indices of those rows."""
        return {row.index for row in self.waiting.values()}

    @cached_property
    def all_entered(self) -> list[tuple[Table, list[Row]]]:
        """Collectives that all members entered and the watchdog gave up, with their rows."""
        found = []
        for table in self.tables:
            opened = [seat.open for seat in table.seats.values()]
            rows = [row for row in opened if row is not None and row.attr("given_up") == "true"]
            if len(rows) == len(table.members) > 1 and len({row.seq for row in rows}) == 1:
                found.append((table, rows))
        return found

    def _p2p_waits(self, table: Table) -> Iterator[Wait]:
        """An open send without a receive of the other side, or the reverse."""
        pending: dict[tuple[int, int, str], list[Row]] = defaultdict(list)
        for seat in table.seats.values():
            for row in seat.p2p:
                match = _PEERS.search(row.op or "")
                if match:
                    pending[seat.rank, _global(table, int(match[4])), match[1]].append(row)
        for (rank, other, kind), rows in sorted(pending.items()):
            answers = pending.get((other, rank, "recv" if kind == "send" else "send"), [])
            if len(rows) > len(answers) and other != rank:
                yield Wait(rank, other, table, rows[len(answers)])


def _global(table: Table, number: int) -> int:
    """A rank of the group as a global rank."""
    return table.members[number] if number < len(table.members) else number


def _current(rows: Sequence[Row]) -> list[Row]:
    """The rows of one dump a rank, all of one attempt.

    Of several dumps of a rank the one with the newest call counts. A dump whose last call lies long before the first
    one that another holds is of an earlier attempt, and its rank counts as one without: ranks begin together, and one
    that stopped holds up the others for no longer than their time-out.
    """
    dumps: dict[str, _Span] = {}
    for row in rows:
        if row.rank is not None and row.event == "fr.group":
            full = row.attr("overwritten") == "true"
            span = dumps.setdefault(row.file, _Span(row.rank, row.attempt or 0, full=full))
            since = row.attr("since_ns")
            if row.time is not None and row.timestamp is not None and since.isdecimal():
                span.first = min(span.first or row.time, row.time - row.timestamp + int(since))
                span.last = max(span.last, row.time)
                span.bound = max(span.bound, _UNBOUNDED if row.time_bound_ns is None else row.time_bound_ns)
    latest: dict[int, str] = {}
    for file, span in sorted(dumps.items(), key=lambda item: (item[1].attempt, item[1].last, item[0])):
        latest[span.rank] = file
    newest = max((dumps[f] for f in latest.values()), key=lambda s: (s.attempt, s.last), default=None)
    kept = {f for f in latest.values() if newest is not None and not dumps[f].is_before(newest)}
    return [r for r in rows if r.rank is not None and r.file in kept]


@dataclass(slots=True)
class _Span:
    """From when to when the calls of one dump reach, in ns."""

    rank: int
    attempt: int
    first: int = 0
    last: int = 0
    bound: int = 0
    full: bool = False

    def is_before(self, other: _Span) -> bool:
        """Whether all of it lies before the other, beyond what the clocks leave open."""
        slack = self.bound + other.bound + (_LONGEST_WAIT if other.full else _START)
        apart = self.last and other.first and self.last + slack < other.first
        return self.attempt < other.attempt or bool(apart)


def _tables(kept: Sequence[Row], ranks: set[int], everyone: Sequence[int]) -> list[Table]:
    stated = _stated_members(kept)
    seats: dict[tuple[str, str], dict[int, Seat]] = defaultdict(dict)
    where: dict[tuple[int, str], tuple[str, str]] = {}
    for row in kept:
        if row.event == "fr.group" and row.rank is not None:
            name = row.process_group or ""
            # A torn or an early dump lists no members; those of its name in which others place this rank are meant.
            key = (name, row.attr("order") or row.attr("members") or stated.get((name, row.rank), ""))
            seats[key][row.rank] = Seat(row.rank, row, row.last_enqueued)
            where[row.rank, row.process_group or ""] = key
    for row in kept:
        at = where.get((row.rank if row.rank is not None else -1, row.process_group or ""))
        if row.event == "fr.entry" and row.rank is not None and at is not None and row.seq is not None:
            seat = seats[at][row.rank]
            if row.attr("p2p") == "true":
                seat.p2p.append(row)
            else:
                seat.calls[row.seq] = row
    found = []
    for (name, listed), sitting in sorted(seats.items()):
        desc = next((d for seat in sitting.values() if (d := seat.row.attr("pg_desc"))), "")
        members = _listed(listed)
        if not members:
            # Gloo's dumps list no members.
            members = tuple(sorted({*everyone, *sitting})) if desc == "default_pg" else tuple(sorted(sitting))
            for rank in members:
                if rank in ranks and rank not in sitting and desc == "default_pg":
                    sitting[rank] = Seat(rank, next(r for r in kept if r.rank == rank), 0)
        found.append(Table(name, desc, members, sitting))
    return found


def _listed(members: str) -> tuple[int, ...]:
    return tuple(int(m) for m in members.split()) if " " in members else tuple(expand_ranges(members))


def _stated_members(rows: Sequence[Row]) -> dict[tuple[str, int], str]:
    """The members of the group of a name that a rank is in, as other ranks' dumps list them; where they agree."""
    lists: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if listed := row.attr("order") or row.attr("members"):
            lists[row.process_group or ""].add(listed)
    found: dict[tuple[str, int], str] = {}
    for name, several in lists.items():
        for listed in sorted(several):
            for rank in _listed(listed):
                found[name, rank] = "" if (name, rank) in found else listed
    return found


def _collective_waits(table: Table, below: int | None) -> Iterator[Wait]:
    waiting: dict[int, list[tuple[Seat, Row]]] = defaultdict(list)
    for seat in table.seats.values():
        row = seat.open
        if row is not None and row.seq is not None and (below is None or row.seq < below):
            waiting[row.seq].append((seat, row))
    unknown = table.unknown
    for seq, there in sorted(waiting.items()):
        late = [s.rank for s in table.seats.values() if s.enqueued is not None and s.enqueued < seq]
        # Everybody called it, but on some devices something else still runs before it.
        held = [] if late else [seat.rank for seat, row in there if _not_begun(row)]
        for number, (seat, row) in enumerate(there):
            sure = late or (held if row.attr("state") == "started" else [])
            others = sure or unknown
            # That one waits for all of them is enough: pairs would be too many in a large job.
            for other in others if number == 0 or len(others) <= _PAIRS else others[:_PAIRS]:
                if other != seat.rank:
                    yield Wait(seat.rank, other, table, row, certain=bool(sure))


def _not_begun(row: Row) -> bool:
    return row.attr("state") == "scheduled"


def _essence(row: Row) -> tuple[str, ...]:
    op = (row.op or "").partition(" ")[0]
    return (op, row.attr("dtypes"), *((row.attr("sizes_in"), row.attr("sizes_out")) if op in _EQUAL_SIZES else ()))


def _mismatch(table: Table) -> Mismatch | None:
    numbers: dict[int, list[Row]] = defaultdict(list)
    for seat in table.seats.values():
        for seq, row in seat.calls.items():
            numbers[seq].append(row)
    for seq, rows in sorted(numbers.items()):
        prints = {row.rank: _essence(row) for row in rows if row.rank is not None}
        counts = Counter(prints.values()).most_common()
        if len(counts) < 2 or all(row.attr("state") == "completed" for row in rows):
            continue
        operations = {p[0] for p in prints.values()}
        types = {p[:2] for p in prints.values()}
        aspect = "operations" if len(operations) > 1 else "types" if len(types) > 1 else "sizes"
        decided = 2 * counts[0][1] > len(prints) and len(prints) > 2
        odd = tuple(sorted(r for r, p in prints.items() if p != counts[0][0])) if decided else ()
        return Mismatch(table, seq, odd, tuple(sorted(rows, key=lambda r: (r.rank not in odd, r.rank or 0))), aspect)
    return None
