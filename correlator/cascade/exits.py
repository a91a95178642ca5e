"""Ranks that ended with a status that nothing they printed explains."""

from __future__ import annotations

import signal
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from correlator.cascade.findings import finding_for, spoken
from correlator.cascade.model import Exit, Facts, Finding, Incident
from correlator.hostlist import fold_ranges
from correlator.records import Row

#: Exit statuses that say nothing by themselves: success and the signals with which launchers and users stop a job.
_ORDERLY_EXITS = frozenset({0, -15, -2, 15, 143, 130})
#: Exit statuses of a Python exception and of SIGABRT, which the process itself explains before.
_EXPLAINED_EXITS = frozenset({1, -6, 134})
#: From this exit status on a shell speaks (command not found, not executable, died of a signal), not the program.
_SHELL_CODES = 126


def sudden_exit(facts: Facts) -> Iterator[Finding]:
    """A process ended with a status that no orderly chain of events produces and said nothing."""
    hung = {r.pid for r in facts.judged("torchrun.kill_escalation")}
    talkers = spoken(facts)
    aborted = facts.judged("slurm.step_aborted")
    bereft = {(r.node, r.pid) for r in facts.judged("mpi.peer_disconnected") if r.pid is not None}
    sudden: dict[tuple[str, int], list[tuple[int, Exit]]] = defaultdict(list)
    for rank, exits in sorted(facts.exits.items()):
        for end in exits:
            if end.row.pid is not None and end.row.pid in hung:
                continue
            if end.code in _ORDERLY_EXITS and not _told_by_nobody(facts, end):
                continue
            if end.code in _EXPLAINED_EXITS and not _unlike_its_peers(facts, rank, talkers):
                continue
            if _is_after_abort(end, aborted) or _is_later_exit(facts, end):
                continue
            if (end.row.node, end.row.pid) in bereft:
                continue  # it had lost its peer by then, and the library says that it may crash of that
            # What one line reports of several ranks is one occurrence.
            sudden[end.row.file, end.row.byte_offset].append((rank, end))
            break
    alike = {end.code for ends in sudden.values() for _, end in ends}
    ranks = sorted({rank for ends in sudden.values() for rank, _ in ends})
    if len(alike) == 1 and len(ranks) > 1 and ranks == facts.expected_ranks():
        first = min((end for ends in sudden.values() for _, end in ends), key=lambda e: (e.row.file, e.row.byte_offset))
        yield _exit_finding(facts, ranks, first)
        return
    for ends in sudden.values():
        yield _exit_finding(facts, [rank for rank, _ in ends], ends[0][1])


def killed_launcher(facts: Facts) -> Iterator[Finding]:
    """srun saw a node's launcher die of SIGKILL before anything else failed; its ranks may have lived on."""
    if facts.topology.tasks_are_ranks or facts.judged("slurm.step_aborted"):
        return
    ends = sorted(facts.judged("slurm.task_exit"), key=lambda r: (r.file, r.byte_offset))
    if not ends or ends[0].signal != signal.SIGKILL or not ends[0].node or spoken(facts):
        return
    node = ends[0].node
    finding = finding_for(
        facts,
        "launcher killed",
        [],
        [ends[0]],
        trust="exit",
        strength=0.6,
        scope="node",
        silent=True,
        what=f"The launcher of {node} was killed",
        why="srun saw it end by SIGKILL before any rank or other launcher reported a failure",
        class_="infrastructure",
        subclass="host",
        signature="agent-killed",
        control="The kernel log of the node and the scheduler's record name the sender.",
    )
    finding.incident.nodes = (node,)
    yield finding


def _told_by_nobody(facts: Facts, end: Exit) -> bool:
    """Whether SIGTERM ended a worker that its launcher reports as failed and had not sent SIGTERM itself."""
    sent = {r.pid for r in facts.judged("torchrun.signal_sent") if r.node == end.row.node}
    outside = facts.judged("torchrun.death_signal", "slurm.cancelled", "slurm.step_aborted")
    return (
        end.code == -15
        and end.row.event == "torchrun.worker_failed"
        and end.row.pid is not None
        and bool(sent)
        and end.row.pid not in sent
        and not outside
    )


def _unlike_its_peers(facts: Facts, rank: int, talkers: Mapping[int, Row]) -> bool:
    """Whether a rank that can speak said nothing while most others say that they lost a peer."""
    known = facts.topology.ranks.get(rank)
    if known is None or not known.collected or rank in talkers or not facts.silence_counts:
        return False
    # Some launchers keep the output of local rank 0 only: then silence says nothing.
    if not known.heard and not any(_local_rank(facts, r) == known.local_rank for r in talkers):
        return False
    others = [r for r in facts.expected_ranks() if r != rank]
    # An error of nobody in particular on its node may be its own, and one of another rank explains what follows.
    explained = any(
        i.role == "initiator" or (i.role == "collateral" and not i.ranks and (not i.nodes or known.node in i.nodes))
        for i in facts.incidents
        if i.event.startswith(("python.", "cpp.", "log."))
    )
    return not explained and len(others) > 1 and sum(r in talkers for r in others) * 2 >= len(others)


def _local_rank(facts: Facts, rank: int) -> int | None:
    known = facts.topology.ranks.get(rank)
    return known.local_rank if known else None


def _is_after_abort(end: Exit, aborted: Sequence[Row]) -> bool:
    """srun kills the rest after its notice; the lines of one srun are in the order it saw things."""
    return any(a.writer == end.observer and a.byte_offset < end.row.byte_offset for a in aborted) and any(
        end.code == code for code in (-9, 137)
    )


def _is_later_exit(facts: Facts, end: Exit) -> bool:
    """Whether the same observer saw another rank end abnormally before (its own lines are in its own order)."""
    if end.row.event != "slurm.task_exit" or end.code not in (-9, 137):
        return False
    earlier = [
        e
        for exits in facts.exits.values()
        for e in exits
        if e.observer == end.observer and e.row.byte_offset < end.row.byte_offset and e.code not in (0, -15)
    ]
    return bool(earlier)


def _exit_finding(facts: Facts, ranks: Sequence[int], end: Exit) -> Finding:
    row = end.row
    everywhere = len(ranks) > 1 and list(ranks) == facts.expected_ranks()
    signature = facts.signature(row)
    cause = signature if signature and signature.role != "teardown" else None
    who = f"rank{'s' if len(ranks) > 1 else ''} {fold_ranges(ranks)}"
    incident = Incident(
        f"exit-{fold_ranges(ranks)}",
        row.event,
        cause.title if cause else f"Ended with status {end.code}",
        "initiator",
        tuple(ranks),
        tuple(facts.topology.nodes_of(ranks)) or ((row.node,) if row.node else ()),
        _exit_rows(facts, ranks[0], end),
        row.signature,
        row.time,
        None if row.timestamp_basis == "inherited" else row.time_bound_ns,
        row.attempt or 0,
        inherited=row.timestamp_basis == "inherited",
    )
    return Finding(
        rule="ended with a status of its own",
        incident=incident,
        trust="exit",
        strength=0.7,
        why=f"all ranks ended with status {end.code} without printing an error, so no single one is to blame"
        if everywhere
        else f"{who} ended with status {end.code} without printing an error; the others lost their peer",
        scope="all" if everywhere else "rank" if len(ranks) == 1 else "ranks",
        class_=cause.class_ if cause else ("application" if 0 < end.code < _SHELL_CODES else "unknown"),
        subclass=cause.subclass if cause else None,
        signature=cause.id if cause else ("worker-exit-sigkill" if end.code == -9 else "rank-died"),
        title=incident.what,
        silent=not everywhere,
        control=cause.control if cause else "The kernel log of the node and the scheduler's record name the sender.",
    )


def _exit_rows(facts: Facts, rank: int, end: Exit) -> list[Row]:
    """The exit's rows, the launcher's own line first."""
    rows = [e.row for e in facts.exits[rank] if e.code == end.code]
    order = {"torchrun.worker_failed": 0, "composer.rank_crashed": 0, "slurm.task_exit": 1, "mpi.rank_exited": 1}
    return sorted(rows, key=lambda r: (order.get(r.event, 2), r.file, r.byte_offset))
