"""Causes read from what c10d's watchdogs print: who is behind, who timed out in another call, who did not at all.

Keyed by process group and attempt: sequence numbers of different groups say nothing about each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from correlator.cascade.absence import doing
from correlator.cascade.findings import STACK_CONTROL, finding_for
from correlator.cascade.model import Facts, Finding
from correlator.hostlist import fold_ranges
from correlator.records import Row

_TIMEOUTS = ("c10d.watchdog_timeout", "c10d.blocking_wait_timeout")
#: Operations that all members call with equal sizes; in others one member's sizes differ by design.
_EQUAL_SIZES = frozenset({"ALLREDUCE", "BROADCAST", "REDUCE", "_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE", "ALLGATHER"})
_COMPARE = "Run once with TORCH_DISTRIBUTED_DEBUG=DETAIL: it compares the calls of all ranks before each one."


def behind_the_others(facts: Facts) -> Iterator[Finding]:
    """Members of a group whose last enqueued number is below the one that the others wait at.

    Those that timed out in an earlier call ran something else; those that were only told to dump stand outside of the
    group's calls.
    """
    statuses: dict[str, dict[int, Row]] = defaultdict(dict)
    # The signal comes with the counters of the default group, and of a rank that waits itself after its own report.
    for row in facts.judged("c10d.watchdog_status", "c10d.dump_signal"):
        if row.rank is not None and row.last_enqueued is not None:
            statuses[row.process_group or ""].setdefault(row.rank, row)
    late: dict[int, Row] = {}
    for rows in statuses.values():
        if not _is_one_group(rows.values()):
            continue
        target = max((r.seq or -1 for r in rows.values()), default=-1)
        below = {k: r for k, r in rows.items() if r.last_enqueued is not None and r.last_enqueued < target}
        if below and 2 * len(below) < len(rows) + 1:
            late.update(below)
    elsewhere = {rank: row for rank, row in late.items() if row.event == "c10d.watchdog_status"}
    outside = {rank: row for rank, row in late.items() if rank not in elsewhere}
    if elsewhere:
        yield finding_for(
            facts,
            "lowest sequence number",
            elsewhere,
            [*elsewhere.values(), *(r for r in facts.judged(*_TIMEOUTS) if r.rank in elsewhere)],
            trust="protocol",
            strength=0.75,
            what=f"Rank {fold_ranges(sorted(elsewhere))} never issued the collective that the others wait in",
            why="its last enqueued number is below the one its group waits at",
            signature="collective-desync",
            class_="application",
            subclass="desync",
            control="A stack dump of that rank, or the flight recorder dump of all ranks, shows what it ran instead.",
        )
    elif outside:
        yield _outside(facts, outside)


def _outside(facts: Facts, ranks: Mapping[int, Row]) -> Finding:
    who = sorted(ranks)
    busy = doing(facts, facts.topology.ranks[who[0]]) if len(who) == 1 and who[0] in facts.topology.ranks else None
    activity = busy[0] if busy else None
    return finding_for(
        facts,
        "told but not waiting",
        who,
        [*([busy[1]] if busy else []), *ranks.values()],
        trust="protocol",
        strength=0.7,
        what=f"Rank {fold_ranges(who)} was still {activity.name} while the others waited"
        if activity
        else f"Rank {fold_ranges(who)} never issued the collective that the others wait in",
        why="it was only told of the time-out, and its last enqueued number is below the one its group waits at",
        silent=True,
        class_=activity.class_ if activity else "unknown",
        subclass=activity.subclass if activity else None,
        signature=activity.signature if activity else "rank-hang",
        control=STACK_CONTROL,
    )


def missing_from_the_timeouts(facts: Facts) -> Iterator[Finding]:
    """Collected ranks that did not time out in the wait in which all others did."""
    waiters = {r.rank: r for r in facts.judged(*_TIMEOUTS) if r.rank is not None}
    ranks = facts.topology.ranks
    expected = {r for r in facts.expected_ranks() if ranks[r].collected}
    absent = sorted(expected - set(waiters) - _spoke_otherwise(facts))
    worldwide = len(waiters) >= 2 and 2 * len(waiters) >= len(expected) and facts.topology.grid is None
    few = len(absent) <= max(1, len(expected) // 4)
    if not (worldwide and absent and facts.silence_counts):
        return
    # Many that are missing may just not have been given the time to speak, unless their own logs are there.
    nodes = facts.topology.nodes_of(absent)
    whole_node = len(nodes) == 1 and absent == facts.topology.ranks_on(nodes[0])
    if not few and not whole_node and not all(ranks[r].heard and r not in facts.exits for r in absent):
        return
    yield finding_for(
        facts,
        "missing from the time-outs",
        absent,
        [*[r for r in facts.judged("log.error") if r.rank in absent][-2:], *list(waiters.values())[:3]],
        trust="silence",
        strength=0.7 if len(absent) == 1 else 0.5 if few else 0.42,
        what=f"Rank {fold_ranges(absent)} is missing from the collective that all others wait in",
        why="all other collected ranks timed out in the same wait and only this one did not"
        if len(absent) == 1
        else "all other collected ranks timed out in the same wait and only these did not",
        silent=True,
        signature="rank-hang",
        control=STACK_CONTROL,
    )


def divergent_collectives(facts: Facts) -> Iterator[Finding]:
    """Ranks of one group wait in different collectives at the same time: their programs went apart.

    Where all stand at one number, and all but one in the same call, that one went another way.
    """
    waiting: dict[str, dict[int, Row]] = defaultdict(dict)
    for row in facts.judged(*_TIMEOUTS):
        if row.rank is not None and row.seq is not None:
            group = row.process_group or ("" if row.group_rank == row.rank else f"of rank {row.rank}")
            waiting[group].setdefault(row.rank, row)
    for rows in waiting.values():
        calls: dict[tuple[object, ...], list[Row]] = defaultdict(list)
        for row in rows.values():
            calls[row.seq, row.op, row.numel_in, row.numel_out].append(row)
        if len(rows) < 3 or len(calls) < 2 or not _is_one_group(rows.values()):
            continue
        split = sorted(calls.values(), key=lambda c: (len(c), c[0].file, c[0].byte_offset))
        odd = _odd_one(split)
        apart = "the time-outs name different sequence numbers, operations or sizes in the same group"
        yield finding_for(
            facts,
            "waits in different collectives",
            [] if odd is None or odd.rank is None else [odd.rank],
            [c[0] for c in split],
            trust="protocol",
            strength=0.55 if odd is None else 0.66,
            what="Ranks of one process group wait in different collectives"
            if odd is None
            else f"Rank {odd.rank} waits in another collective than all other ranks of its group",
            why=apart if odd is None else f"{apart}: it alone stands in {odd.op} of {odd.numel_in} elements",
            scope="none" if odd is None else "rank",
            class_="application",
            subclass="desync",
            signature="collective-desync",
            control=_COMPARE,
        )


def _odd_one(split: Sequence[Sequence[Row]]) -> Row | None:
    """The one row that differs from all others, which agree, at one sequence number; None where that does not hold."""
    if len(split) != 2 or len(split[0]) != 1 or len(split[1]) < 2:
        return None
    (odd,), others = split
    same_kind = odd.op == others[0].op
    comparable = not same_kind or odd.op in _EQUAL_SIZES
    return odd if odd.seq == others[0].seq and comparable else None


def _is_one_group(rows: Iterable[Row]) -> bool:
    """Whether rows under one group name can be of one group: torch 2.3 and older number groups in each process anew."""
    numbers = [row.group_rank for row in rows if row.group_rank is not None]
    return len(numbers) == len(set(numbers))


def _spoke_otherwise(facts: Facts) -> set[int]:
    """Ranks with an error of a peer in their own words, which are waiters of another kind."""
    own = (i for i in facts.incidents if not i.event.startswith(("torchrun.", "slurm.")))
    return {i.ranks[0] for i in own if i.role == "collateral" and len(i.ranks) == 1}
