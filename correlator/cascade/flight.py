"""Causes read from flight-recorder dumps: other calls, members that never came, waiting in a circle.

A rank without a dump is unknown, never guilty: where a chain of waiting ends at one, nobody is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from correlator.cascade.findings import STACK_CONTROL, finding_for
from correlator.cascade.model import Facts, Finding
from correlator.cascade.recorded import Mismatch, Table, Wait
from correlator.hostlist import fold_ranges
from correlator.phrases import named_ranks
from correlator.records import Row

#: Names of the rules here, which rest on dumps and not on lines.
RULES_ON_DUMPS = frozenset({"recorded mismatch", "recorded as missing", "waits in a circle", "missing dump"})

_STRENGTH = 0.85
#: Taken off where the full ring has lost what would settle it, where dumps are missing, and where logs contradict.
_LOST, _INCOMPLETE, _CONTRADICTED = 0.15, 0.15, 0.25
_COMPARE = "Run once with TORCH_DISTRIBUTED_DEBUG=DETAIL: it compares the calls of all ranks before each one."


def recorded_mismatch(facts: Facts) -> Iterator[Finding]:
    """Members of a group ran different operations, types or sizes at one number; the majority is taken to be right."""
    for found in facts.recorded.mismatches[:1]:
        undecided = "two members contradict each other" if len(found.table.members) == 2 else "no majority tells"
        one = len(found.odd) == 1
        why = (
            f"in process group {found.table.title} the call number {found.seq} differs in its {found.aspect}: "
            + "; ".join(_told(row) for row in _one_of_each(found))
            + ("" if found.odd else f"; {undecided} which is wrong")
        )
        strength, why = _against_logs(facts, found.table, found.rows, _STRENGTH if one else 0.65, why)
        yield finding_for(
            facts,
            "recorded mismatch",
            found.odd,
            list(found.rows),
            trust="protocol",
            strength=strength,
            what=(
                f"{_ranks(found.odd)} ran another collective than the peers at the same place"
                if found.odd
                else "Ranks of one process group ran different collectives at the same place"
            ),
            why=why,
            class_="application",
            subclass="desync",
            signature="collective-mismatch",
            control=_COMPARE,
        )


def recorded_as_missing(facts: Facts) -> Iterator[Finding]:
    """Following who waits for whom ends at ranks that wait for nobody: they never entered the call."""
    recorded = facts.recorded
    if recorded.mismatches:
        return  # then who is missing says nothing
    ends = [end[0] for end in recorded.ends if len(end) == 1]
    certain = {w.other for w in recorded.waits if w.certain}
    absent = [rank for rank in ends if rank in recorded.ranks and rank in certain]
    if absent:
        named = set(absent)
        waits = [w for w in recorded.waits if w.other in named]
        first = waits[0]
        seats = [first.table.seats[r] for r in absent if r in first.table.seats]
        strength = _STRENGTH if 2 * len(absent) <= len(recorded.ranks) else 0.5
        tables = {id(w.table): w.table for w in recorded.waits}
        without = sorted({r for table in tables.values() for r in table.members} - recorded.ranks)
        why = f"{_who_waits(waits)} in {first.row.op}, number {first.row.seq} of process group {first.table.title}; "
        why += ", ".join(f"rank {s.rank} stands at number {s.enqueued}" for s in seats[:4] if s.enqueued is not None)
        if without:
            strength -= _INCOMPLETE
            why += f"; no dump of this attempt is there of {named_ranks(without)}"
        if any(seat.overwritten and not seat.calls for seat in seats):
            strength -= _LOST
            why += "; its full ring has lost its own calls of this group"
        rows = [seat.row for seat in seats] + [w.row for w in waits]
        strength, why = _against_logs(facts, first.table, rows, strength, why)
        yield finding_for(
            facts,
            "recorded as missing",
            absent,
            list({(r.file, r.index): r for r in rows}.values()),
            trust="protocol",
            strength=strength,
            what=f"{_ranks(absent)} never entered the call that the peers wait in",
            why=why,
            silent=all(facts.topology.ranks[r].collected for r in absent),
            signature="rank-hang",
            control=STACK_CONTROL,
        )
    elif ends:
        named = set(ends)
        waits = [w for w in recorded.waits if w.other in named]
        yield finding_for(
            facts,
            "missing dump",
            [],
            [w.row for w in waits],
            trust="weak",
            strength=0.4,
            what="The ranks wait for one whose dump does not tell where it stood",
            why=f"{_who_waits(waits)} for {named_ranks(ends)}, whose dump is missing, unreadable or too short to tell",
            scope="none",
            control=f"The flight-recorder dump of {named_ranks(ends)} decides: it lies on the disk of its own node.",
        )


def waits_in_a_circle(facts: Facts) -> Iterator[Finding]:
    """Ranks wait for each other in different process groups: nobody can go on, whoever is left out."""
    recorded = facts.recorded
    if recorded.mismatches:
        return
    for ring in (end for end in recorded.ends if len(end) > 1):
        inside = set(ring)
        waits = [w for w in recorded.waits if w.rank in inside and w.other in inside]
        groups = list(dict.fromkeys(w.table.title for w in waits))
        shown = list({w.rank: w for w in waits}.values())[:4]
        why = "; ".join(
            f"rank {w.rank} waits in {w.row.op} of process group {w.table.title} for rank {w.other}" for w in shown
        )
        strength, why = _against_logs(facts, waits[0].table, [w.row for w in waits], 0.8, why)
        yield finding_for(
            facts,
            "waits in a circle",
            ring,
            [w.row for w in shown],
            trust="protocol",
            strength=strength,
            what=f"Ranks wait for each other in a circle, between process groups {' and '.join(groups[:4])}",
            why=why,
            class_="application",
            subclass="desync",
            signature="collective-cycle",
            control=_COMPARE,
        )


def everybody_entered(facts: Facts) -> Iterator[Finding]:
    """All members entered a collective and it did not end: nobody is missing, so the transport or a device is."""
    recorded = facts.recorded
    if recorded.mismatches or recorded.waits:
        return
    for table, rows in recorded.all_entered[:1]:
        yield finding_for(
            facts,
            "everybody entered",
            [],
            rows,
            trust="shape",
            strength=0.45,
            what="All members entered the collective and it never ended",
            why=f"the dumps show nobody missing in number {rows[0].seq} of process group {table.title}",
            scope="all",
            control="An all-reduce test between the same nodes separates the link from the program.",
        )


def _against_logs(facts: Facts, table: Table, rows: Sequence[Row], strength: float, why: str) -> tuple[float, str]:
    """Less strength, and both statements, where a watchdog's line and the dump of a rank name different numbers."""
    stood = {s.rank: s.enqueued for s in table.seats.values() if s.enqueued is not None}
    for row in facts.judged("c10d.watchdog_status"):
        dumped = stood.get(row.rank if row.rank is not None else -1)
        same = (row.process_group or "").partition("(")[0] == table.name
        if same and dumped is not None and row.last_enqueued is not None and row.last_enqueued > dumped:
            why += f"; but the log of rank {row.rank} says it had enqueued {row.last_enqueued}, its dump only {dumped}"
            return strength - _CONTRADICTED, why
    own = {r.rank for r in rows}
    gone = sorted({i.ranks[0] for i in facts.incidents if i.role == "initiator" and i.ranks} - own)
    if gone and not facts.recorded.ranks >= set(gone):
        why += f"; {named_ranks(gone)} failed by the logs and left no dump"
        return strength - _INCOMPLETE, why
    return strength, why


def _one_of_each(found: Mismatch) -> list[Row]:
    return list({(r.op, r.attr("dtypes"), r.attr("sizes_in"), r.attr("sizes_out")): r for r in found.rows}.values())[:3]


def _told(row: Row) -> str:
    return f"rank {row.rank} ran {row.op} {row.attr('sizes_in')} {row.attr('dtypes')}"


def _who_waits(waits: Sequence[Wait]) -> str:
    who = sorted({w.rank for w in waits})
    return f"{named_ranks(who)} wait{'s' if len(who) == 1 else ''}"


def _ranks(who: Sequence[int]) -> str:
    return f"Rank{'s' if len(who) > 1 else ''} {fold_ranges(who)}"
