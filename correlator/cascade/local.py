"""Causes that one line states by itself: the scheduler's word, an exception or device error of one rank, an exit code.

Each function is one causal rule and yields findings. The numbers are starting points for the calibration, not
probabilities: they only order findings of one kind of trust.
"""

from __future__ import annotations

import re
import signal
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from correlator.cascade.model import SECOND, Exit, Facts, Finding, Incident, certainly_before
from correlator.diagnosis import FailureClass, Scope
from correlator.hostlist import expand_ranges, fold_ranges
from correlator.records import Row
from correlator.signatures import Signature

#: Exit statuses that an orderly chain of events produces: success, a Python exception, SIGTERM, SIGABRT, SIGINT.
_EXPLAINED_EXITS = frozenset({0, 1, -15, -6, -2, 15, 143, 134, 130})
#: Incidents of one cause on different ranks that start this close together are one occurrence.
_TOGETHER = 30 * SECOND
#: Application Xids that come back on one device in at least this many separate episodes speak against the device.
_REPEATS = 3
_EPISODE = 600 * SECOND
_APPLICATION_XIDS = frozenset({13, 31, 43})
#: From this share of the ranks that could speak on, a cause is everywhere.
_EVERYWHERE = 0.75


#: Strength of a contradiction between ranks of which none is named as the wrong one.
_UNDECIDED_PEERS = 0.6


#: From this exit status on a shell speaks (command not found, not executable, died of a signal), not the program.
_SHELL_CODES = 126


def the_whole_job(facts: Facts) -> Iterator[Finding]:
    """A line that speaks of the whole job, above all the scheduler's word on why it ended it."""
    for incident in _causes(facts):
        signature = facts.signatures.get(incident.signature or "")
        if signature is None or signature.blames != "job":
            continue
        by_scheduler = signature.subclass == "scheduler"
        names_its_subject = by_scheduler or incident.event.startswith(("k8s.", "slurm."))
        if signature.subclass == "rendezvous" and (
            facts.trained or facts.exits or facts.events("torchrun.death_signal")
        ):
            # After workers ran, a rendezvous fails because they went away, not the other way round.
            continue
        if signature.class_ == "configuration" and not facts.before_training(incident.rows[0]):
            # What let the job train was not set wrongly.
            continue
        yield Finding(
            rule="scheduler ended the step" if by_scheduler else "concerns the whole job",
            incident=replace(incident, ranks=(), nodes=incident.nodes if names_its_subject else ()),
            trust="outside" if by_scheduler else "local",
            strength=signature.weight if by_scheduler else _own_strength(signature),
            why=(
                "the scheduler itself says why it ended the job"
                if by_scheduler
                else "the line is about the job as a whole, not about the rank that prints it"
            ),
            class_=signature.class_,
            subclass=signature.subclass,
            signature=signature.id,
            title=signature.title,
            scope="none",
            control=signature.control,
        )


def peers_contradict_each_other(facts: Facts) -> Iterator[Finding]:
    """A line that proves that ranks do not fit together, and does not say which of them is wrong."""
    groups: dict[str, list[Incident]] = defaultdict(list)
    for incident in _causes(facts):
        signature = facts.signatures.get(incident.signature or "")
        if signature is not None and signature.blames == "peer":
            groups[signature.id].append(incident)
    for name, incidents in groups.items():
        signature = facts.signatures[name]
        ranks = sorted({r for i in incidents for r in i.ranks})
        # Where ranks were set up unlike each other, all of them are to be set up anew; code has an odd one out.
        all_of_them = signature.class_ == "configuration" and len(ranks) > 1 and _is_everywhere(facts, ranks, True)
        yield Finding(
            rule="peers contradict each other",
            incident=replace(
                incidents[0],
                ranks=tuple(facts.expected_ranks()) if all_of_them else (),
                nodes=(),
                rows=[r for i in incidents for r in i.rows],
            ),
            trust="accusation",
            strength=_own_strength(signature) if all_of_them else _UNDECIDED_PEERS,
            why="the line says that ranks do not fit together, not which of them is wrong",
            class_=signature.class_,
            subclass=signature.subclass,
            signature=name,
            title=signature.title,
            scope="all" if all_of_them else "none",
            control=signature.control,
        )


def agent_was_told_to_stop(facts: Facts) -> Iterator[Finding]:
    """One node's launcher received a signal from outside while the others only lost their peers."""
    told = facts.events("torchrun.death_signal")
    nodes = sorted({r.node for r in told if r.node})
    agents = facts.nodes_with_epitaph | set(nodes)
    if not told:
        return
    everywhere = (len(agents) > 1 and set(nodes) >= agents) or not nodes
    ranks = [] if everywhere else [r for n in nodes for r in facts.topology.ranks_on(n)]
    rows = sorted(told, key=lambda r: (r.time is None, r.time or 0, r.file, r.byte_offset))
    numbers = [r.signal for r in rows if r.signal]
    # Ctrl-C also reaches the children, whose SIGTERM then follows from it.
    number = min(numbers, default=signal.SIGTERM)
    incident = Incident(
        "told-to-stop",
        "torchrun.death_signal",
        "The launcher was told to stop from outside",
        "initiator",
        tuple(ranks),
        () if everywhere else tuple(nodes),
        rows,
        time=rows[0].time,
        bound=rows[0].time_bound_ns,
        attempt=rows[0].attempt or 0,
    )
    # A step that already fails is stopped on the other nodes, too.
    follows = bool(facts.events("slurm.step_aborted")) or _own_error_elsewhere(facts, nodes)
    yield Finding(
        rule="launcher was signalled from outside",
        incident=incident,
        trust="exit" if follows else "outside",
        strength=0.55 if everywhere or follows else 0.85,
        why=(
            "every launcher received the signal"
            if everywhere
            else f"only the launcher of {', '.join(nodes)} received a signal"
            + ("" if follows else "; other nodes lost their peers afterwards")
        ),
        class_="infrastructure",
        subclass="scheduler",
        signature="preempted",
        title=f"Stopped from outside by {_signal_name(number)}",
        scope="none" if everywhere else "node",
        control="Ask the scheduler for the job's record (sacct -j JOB -o State,Reason,ExitCode): it names the sender.",
    )


def _signal_name(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def _own_error_elsewhere(facts: Facts, nodes: Sequence[str]) -> bool:
    """Whether a rank on another node than these raised an exception of its own, which no signal here can cause."""
    return any(
        i.event == "python.exception"
        and i.role == "initiator"
        and i.ranks
        and i.nodes
        and not set(i.nodes) & set(nodes)
        for i in facts.incidents
    )


def own_error(facts: Facts) -> Iterator[Finding]:
    """A rank, its device or its node reports an error of its own: the strongest evidence a rank can give."""
    groups: dict[str, list[Incident]] = defaultdict(list)
    for incident in _causes(facts):
        signature = facts.signatures.get(incident.signature or "")
        if signature is None or signature.blames not in ("job", "peer"):
            groups[incident.signature or f"{incident.event}:{_kind(incident)}"].append(incident)
    for incidents in groups.values():
        for together in _split_by_time(incidents):
            yield _own_error_finding(facts, together)


def _own_strength(signature: Signature | None) -> float:
    """Strength of a direct cause: an entry written for this very text counts more than a fall-back by type."""
    general = signature is None or signature.priority <= 10
    weight = signature.weight if signature else 0.5
    return min(0.95, (0.45 if general else 0.55) + 0.4 * weight)


def _ranks_by_report(facts: Facts, incidents: Sequence[Incident]) -> list[int]:
    """Ranks of errors that carry none, from the launcher's report on the same node: who ended by an error of its own.

    As many copies of an exception as the node has ranks mean all of them, also those that SIGTERM reached first.
    Otherwise the report must leave no choice: as many ranks with exit 1 as there are copies, or one named first.
    """
    found: list[int] = []
    by_place: dict[str | None, list[Row]] = defaultdict(list)
    for incident in incidents:
        if not incident.ranks and incident.rows[0].emitter not in _NOT_THE_JOBS_OWN:
            for row in incident.rows:
                by_place[row.node].append(row)
    for node, rows in by_place.items():
        here = [r for r in facts.exits if node is None or facts.topology.node_of_rank(r) in (node, None)]
        everyone = facts.topology.ranks_on(node) if node else facts.expected_ranks()
        failed = [r for r in here if any(e.code == 1 for e in facts.exits[r])]
        first = [r for r in failed if any(e.row.attr("is_root") == "true" for e in facts.exits[r])]
        copies = sum(row.count for row in rows if row.emitter == "python")
        devices = {row.gpu or int(n) for row in rows for n in _DEVICE.findall(row.body)[:1] or ["0"]} - {0}
        if everyone and copies >= len(everyone):
            found += everyone
        elif len(failed) <= max(copies, 1):
            found += failed
        elif copies == 1 and len(first) == 1:
            found += first
        faulty = {
            r.rank
            for r in facts.events("kernel.xid")
            if r.rank is not None and (node is None or r.node in (node, None))
        }
        if not found and len(faulty) == 1 and any("CUDA" in row.body or row.emitter == "cuda" for row in rows):
            found += [r for r in faulty if r is not None]
        if not found and len(devices) == 1 and max(devices) < len(everyone):
            # A device number above 0 means that the process sees all devices of its node, so it is the local rank.
            found += [everyone[max(devices)]]
    return found


#: Emitters that speak about processes by pid or device; how a rank's own words ended it says nothing about them.
_NOT_THE_JOBS_OWN = frozenset({"kernel", "slurm", "k8s", "fabric_manager"})
_DEVICE = re.compile(r"\bGPU (\d+)\b")


def _kind(incident: Incident) -> str:
    row = incident.first
    return row.attr("type") or row.event if row else incident.event


def _own_error_finding(facts: Facts, incidents: Sequence[Incident]) -> Finding:
    incidents = sorted(incidents, key=lambda i: (i.time is None, i.time or 0, i.rows[0].file, i.rows[0].byte_offset))
    lead = incidents[0]
    signature = facts.signatures.get(lead.signature or "")
    about_node = signature is not None and signature.blames == "node"
    reported = [] if about_node else _ranks_by_report(facts, incidents)
    ranks = sorted({r for i in incidents for r in i.ranks} | set(reported))
    # An exception that every rank re-raises may name the ranks where it arose (distributed checkpoints do).
    remote = {r for i in incidents for row in i.rows for r in expand_ranges(row.attr("remote_ranks"))}
    ranks = sorted(remote) if remote else ranks
    own_nodes = set() if remote else {n for i in incidents for n in i.nodes}
    nodes = sorted(own_nodes | set(facts.topology.nodes_of(ranks)))
    at_start = all(facts.before_training(i.rows[0]) for i in incidents)
    everywhere = _is_everywhere(facts, ranks, at_start)
    class_: FailureClass = signature.class_ if signature else "application"
    if signature and signature.class_everywhere_at_start and everywhere and at_start:
        class_ = signature.class_everywhere_at_start
    scope: Scope = "rank" if len(ranks) == 1 else "ranks"
    if everywhere and len(facts.expected_ranks()) > 1:
        scope, ranks = "all", facts.expected_ranks()
        nodes = facts.topology.nodes_of(ranks) or nodes
    elif not ranks and nodes:
        scope, ranks = (
            "node",
            [r for n in nodes for r in facts.topology.ranks_on(n)] if about_node else [],
        )
    elif not ranks:
        scope = "none"
    pids = {i.rows[0].pid for i in incidents if i.ranks} | {None}
    unknown = [i for i in incidents if not i.ranks and i.event.startswith(("python.", "cpp.", "c10d."))]
    if scope == "rank" and len(pids) > 1 and {i.rows[0].pid for i in unknown} - pids:
        # Other processes report the same and are not identified, so this one cannot be singled out.
        scope, ranks = "ranks", []
    merged = Incident(
        lead.id,
        lead.event,
        lead.what,
        "initiator",
        tuple(ranks),
        tuple(nodes),
        [r for i in incidents for r in i.rows],
        lead.signature,
        lead.time,
        lead.bound,
        lead.attempt,
        lead.inherited,
    )
    finding = Finding(
        rule="own error",
        incident=merged,
        trust="local",
        strength=_own_strength(signature),
        why=_why_own(lead, ranks, everywhere),
        class_=class_,
        subclass=signature.subclass if signature else "code",
        signature=signature.id if signature else "unlisted-exception",
        title=signature.title if signature else lead.what,
        scope=scope,
        control=signature.control if signature else "Run the same step again with the same data on other nodes.",
        explains=tuple(i.id for i in incidents[1:]),
    )
    return _repeats_on_one_device(finding)


def _why_own(lead: Incident, ranks: Sequence[int], everywhere: bool) -> str:
    if everywhere and len(ranks) > 1:
        return "every rank reports the same error of its own, so no single rank is to blame"
    if len(ranks) > 1:
        return "these ranks report an error of their own; what the others print is about their peers"
    if not ranks and not lead.nodes:
        return "the line reports an error of its own, and not a peer's"
    who = f"rank {ranks[0]}" if ranks else f"node {lead.nodes[0]}"
    return f"{who} reports an error of its own; what the others print is about their peers"


def _repeats_on_one_device(finding: Finding) -> Finding:
    """Application Xids that move between devices point to the program; those that return on one, to the device."""
    rows = [r for r in finding.incident.rows if r.xid in _APPLICATION_XIDS and r.pci_bus_id]
    episodes: list[int] = []
    for row in sorted(rows, key=lambda r: r.timestamp or 0):
        if row.timestamp is not None and (not episodes or row.timestamp - episodes[-1] > _EPISODE):
            episodes.append(row.timestamp)
    if len({r.pci_bus_id for r in rows}) == 1 and len(episodes) >= _REPEATS:
        finding.class_, finding.subclass = "hardware", "gpu"
        finding.why = f"the same Xid came back on the same device in {len(episodes)} separate episodes"
    return finding


def _is_everywhere(facts: Facts, ranks: Sequence[int], at_start: bool) -> bool:
    """Whether (nearly) all ranks that could speak report it.

    At start, ranks that the launcher stopped with SIGTERM before they could speak count as having agreed when
    every node has one that spoke.
    """
    expected = facts.expected_ranks()
    if len(expected) < 2 or not ranks:
        return not expected
    if len(ranks) >= max(2, _EVERYWHERE * len(expected)):
        return True
    if not at_start or len(ranks) < 2:
        return False
    stopped = {r for r, exits in facts.exits.items() if any(e.code == -15 for e in exits)}
    rest = set(expected) - set(ranks) - stopped
    nodes = set(facts.topology.nodes_of(expected))
    return not rest and len(nodes) > 1 and set(facts.topology.nodes_of(ranks)) == nodes


def _split_by_time(incidents: Sequence[Incident]) -> Iterable[list[Incident]]:
    """Splits incidents whose times are certainly far apart, so that a second wave is not blamed with the first."""
    timed = sorted((i for i in incidents if i.time is not None and i.bound is not None), key=lambda i: i.time or 0)
    loose = [i for i in incidents if i.time is None or i.bound is None]
    clusters: list[list[Incident]] = []
    for incident in timed:
        if clusters and not certainly_before(clusters[-1][-1], incident, _TOGETHER):
            clusters[-1].append(incident)
        else:
            clusters.append([incident])
    if not clusters:
        return [loose]
    clusters[0].extend(loose)
    return clusters


def sudden_exit(facts: Facts) -> Iterator[Finding]:
    """A process ended with a status that no orderly chain of events produces and said nothing."""
    hung = {r.pid for r in facts.events("torchrun.kill_escalation")}
    aborted = facts.events("slurm.step_aborted")
    sudden: dict[tuple[str, int], list[tuple[int, Exit]]] = defaultdict(list)
    for rank, exits in sorted(facts.exits.items()):
        for end in exits:
            if end.code in _EXPLAINED_EXITS or (end.row.pid is not None and end.row.pid in hung):
                continue
            if _is_after_abort(end, aborted) or _is_later_exit(facts, end):
                continue
            # What one line reports of several ranks is one occurrence.
            sudden[end.row.file, end.row.byte_offset].append((rank, end))
            break
    for ends in sudden.values():
        yield _exit_finding(facts, [rank for rank, _ in ends], ends[0][1])


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
        why=f"{who} ended with status {end.code} without printing an error; the others lost their peer",
        scope="rank" if len(ranks) == 1 else "ranks",
        class_=cause.class_ if cause else ("application" if 0 < end.code < _SHELL_CODES else "unknown"),
        subclass=cause.subclass if cause else None,
        signature=cause.id if cause else ("worker-exit-sigkill" if end.code == -9 else "rank-died"),
        title=incident.what,
        silent=True,
        control=cause.control if cause else "The kernel log of the node and the scheduler's record name the sender.",
    )


def _exit_rows(facts: Facts, rank: int, end: Exit) -> list[Row]:
    """The exit's rows, the launcher's own line first."""
    rows = [e.row for e in facts.exits[rank] if e.code == end.code]
    order = {"torchrun.worker_failed": 0, "composer.rank_crashed": 0, "slurm.task_exit": 1, "mpi.rank_exited": 1}
    return sorted(rows, key=lambda r: (order.get(r.event, 2), r.file, r.byte_offset))


def _causes(facts: Facts) -> list[Incident]:
    launchers = (
        "torchrun.worker_failed",
        "torchrun.report_entry",
        "torchrun.death_signal",
        "slurm.task_exit",
        "mpi.rank_exited",
        "composer.rank_crashed",
    )
    return [i for i in facts.incidents if i.role == "initiator" and i.event not in launchers]
