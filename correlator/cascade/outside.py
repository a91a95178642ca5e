"""Causes outside of the ranks: the scheduler, the whole job, ranks set up unlike each other, a signal."""

from __future__ import annotations

import signal
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from correlator.cascade.absence import PEER_LOST, loss_of, wave_kind
from correlator.cascade.ends import stopped_after_the_end
from correlator.cascade.findings import causes, finding_for, is_everywhere, own_strength
from correlator.cascade.model import Facts, Finding, Incident
from correlator.records import Row
from correlator.untrusted import read_number

#: Strength of a contradiction between ranks of which none is named as the wrong one.
_UNDECIDED_PEERS = 0.6


def the_whole_job(facts: Facts) -> Iterator[Finding]:
    """A line that speaks of the whole job, above all the scheduler's word on why it ended it."""
    for incident in causes(facts):
        signature = facts.signatures.get(incident.signature or "")
        if signature is None or signature.blames != "job":
            continue
        by_scheduler = signature.subclass == "scheduler"
        # A cancel notice names the step's first node, on which it is printed, not the one it is about.
        printed_there = incident.event == "slurm.cancelled" and len(facts.topology.nodes) > 1
        names_its_subject = not printed_there and (by_scheduler or incident.event.startswith(("k8s.", "slurm.")))
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
            strength=signature.weight if by_scheduler else own_strength(signature),
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
    for incident in causes(facts):
        signature = facts.signatures.get(incident.signature or "")
        if signature is not None and signature.blames == "peer":
            groups[signature.id].append(incident)
    for name, incidents in groups.items():
        signature = facts.signatures[name]
        ranks = sorted({r for i in incidents for r in i.ranks})
        # Where ranks were set up unlike each other, all of them are to be set up anew; code has an odd one out.
        all_of_them = signature.class_ == "configuration" and len(ranks) > 1 and is_everywhere(facts, ranks, True)
        yield Finding(
            rule="peers contradict each other",
            incident=replace(
                incidents[0],
                ranks=tuple(facts.expected_ranks()) if all_of_them else (),
                nodes=(),
                rows=[r for i in incidents for r in i.rows],
            ),
            trust="accusation",
            strength=own_strength(signature) if all_of_them else _UNDECIDED_PEERS,
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
    all_told = {r.node for r in told if r.node}
    agents = facts.nodes_with_epitaph | all_told
    lost = [r for r in facts.judged("python.exception", *PEER_LOST) if r.rank is not None and loss_of(facts, r)]
    early = [row for row in told if not _had_lost_peers(row, lost)]
    told = (early if _died_of_signals(facts, lost) else []) or told
    nodes = sorted({r.node for r in told if r.node})
    if not told or (set(nodes) >= agents and _scheduler_says_why(facts)):
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
    if stopped_after_the_end(facts):
        yield _hung_at_exit(facts, incident)
        return
    # A step that already fails is stopped on the other nodes, too.
    follows = not early or bool(facts.events("slurm.step_aborted")) or _own_error_elsewhere(facts, nodes)
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


def _had_lost_peers(signalled: Row, lost: Sequence[Row]) -> bool:
    """Whether ranks of the same node had lost their peers by then, as its stream tells: the job was dying already."""
    return any(
        r.file == signalled.file and r.node == signalled.node and r.byte_offset < signalled.byte_offset for r in lost
    )


def _died_of_signals(facts: Facts, lost: Sequence[Row]) -> bool:
    """Whether nothing but signals can have ended it: no time-out, no error, no exit status that they do not give."""
    odd_exit = any(e.code not in (0, 1, -signal.SIGTERM) for ends in facts.exits.values() for e in ends)
    own = any(i.role == "initiator" and i.event != "torchrun.death_signal" for i in facts.incidents)
    timed_out = any(loss_of(facts, r) == "timeout" for r in lost)
    return wave_kind(facts) == "peer" and not (odd_exit or own or timed_out)


def _scheduler_says_why(facts: Facts) -> bool:
    """Whether the scheduler itself states why it ended the job, of which the launchers' signals come."""
    for incident in causes(facts):
        signature = facts.signatures.get(incident.signature or "")
        if signature is not None and (signature.blames, signature.subclass) == ("job", "scheduler"):
            return True
    return False


def _hung_at_exit(facts: Facts, told: Incident) -> Finding:
    """The program was through and some process of it lived on, until somebody stopped it."""
    return Finding(
        rule="stopped after its end",
        incident=replace(told, ranks=(), nodes=(), what="Training was done, but the job did not end by itself"),
        trust="outside",
        strength=0.6,
        why="the program reports its end, and the launchers were told to stop only afterwards",
        signature="rank-hang",
        title="Training was done, but the job did not end by itself",
        scope="none",
        control="A stack dump of the processes that are left (py-spy dump --pid PID) shows what they wait for.",
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


def restarted_alone(facts: Facts) -> Iterator[Finding]:
    """Of the job's pods that run, the only one that was started anew, while the others complain of a lost peer.

    Pods of other jobs may have restarted as often as they like; a job's pods differ in the number at their name's end.
    """
    families: dict[str, dict[str, Row]] = defaultdict(dict)
    for row in facts.events("k8s.pod_listed"):
        families[row.attr("pod").rstrip("0123456789")][row.attr("pod")] = row
    complaining = {node for row in facts.rows if loss_of(facts, row) == "peer" and (node := row.node)}
    for pods in families.values():
        counts = {name: read_number(row.attr("restarts")) or 0 for name, row in pods.items()}
        most = [name for name, count in counts.items() if count == max(counts.values())]
        rest = {count for name, count in counts.items() if name not in most}
        if len(pods) < 3 or len(most) != 1 or len(rest) != 1 or not complaining & set(counts) - set(most):
            continue
        place = facts.topology.node_named(most[0]) or most[0]
        finding = finding_for(
            facts,
            "restarted alone",
            facts.topology.ranks_on(place),
            [pods[most[0]]],
            trust="exit",
            strength=0.6,
            scope="node",
            silent=True,
            what=f"Pod {most[0]} was restarted and no other of its job",
            why="its containers were started anew, and the others report a lost peer",
            signature="rank-died",
            control="kubectl logs --previous and the last state in kubectl describe pod say how it ended.",
        )
        finding.incident.nodes = (place,)
        yield finding
