"""The causal graph: incidents as nodes, named rules as edges, never against the clock beyond its bound.

Nodes are aggregated: what one rank failed of is one node, a wave of equal complaints of one process group is one node,
so that a job of any size stays readable. Edges run from cause to effect.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import networkx as nx

from correlator.cascade.model import Facts, Finding, Incident, certainly_before
from correlator.diagnosis import Role
from correlator.phrases import agree
from correlator.records import moment
from correlator.timestamps import SECOND

#: What a wave follows from: the rule that draws the edge, and the waves of the same ranks that it follows from, first
#: choice first; where none is there, it follows from the initiator.
_FOLLOWS: dict[str, tuple[str, tuple[str, ...]]] = {
    "c10d.watchdog_timeout": ("waited for it", ()),
    "c10d.watchdog_status": ("same process", ("c10d.watchdog_timeout",)),
    "c10d.blocking_wait_timeout": ("waited for it", ()),
    "fr.entry": ("waited for it", ()),
    "c10d.barrier_missing": ("waited for it", ()),
    "c10d.barrier_victim": ("a waiter told the others", ("c10d.barrier_missing", "c10d.collective_mismatch")),
    "c10d.desync_report": ("same process", ("c10d.watchdog_timeout",)),
    "c10d.dump_signal": ("a waiter told the others", ("c10d.watchdog_timeout",)),
    "c10d.watchdog_exception": ("same process", ("c10d.watchdog_timeout", "nccl.socket_error", "nccl.ib_error")),
    "c10d.abort_notice": ("same process", ("c10d.watchdog_timeout", "c10d.watchdog_exception")),
    "cpp.terminate": ("same process", ("c10d.watchdog_exception", "c10d.abort_notice", "c10d.watchdog_timeout")),
    "gloo.timeout": ("waited for it", ()),
    "gloo.peer_closed": ("lost its peer", ()),
    "gloo.peer_reset": ("lost its peer", ()),
    "gloo.peer_unreachable": ("lost its peer", ()),
    "nccl.socket_error": ("lost its peer", ()),
    "nccl.ib_error": ("lost its peer", ()),
    "nccl.proxy_error": ("lost its peer", ("nccl.socket_error",)),
    "c10d.async_error": ("lost its peer", ("nccl.socket_error", "nccl.ib_error")),
    "c10d.remote_error": ("told by a peer", ()),
    "c10d.comm_aborted": ("told by a peer", ()),
    "c10d.store_error": ("lost the store", ()),
    "c10d.store_timeout": ("lost the store", ()),
    "torchrun.rendezvous_error": ("lost the store", ()),
    "torchrun.worker_failed": (
        "launcher saw the process end",
        ("cpp.terminate", "c10d.abort_notice", "c10d.watchdog_exception", "python.exception", "gloo.timeout"),
    ),
    "torchrun.report_entry": ("launcher saw the process end", ("torchrun.worker_failed", "cpp.terminate")),
    "torchrun.signal_sent": ("launcher stopped the siblings", ("torchrun.worker_failed", "torchrun.death_signal")),
    "torchrun.child_failed": ("launcher saw the process end", ("torchrun.worker_failed",)),
    "torchrun.kill_escalation": ("launcher stopped the siblings", ("torchrun.signal_sent",)),
    "slurm.task_exit": ("launcher saw the process end", ("torchrun.child_failed", "python.exception", "cpp.terminate")),
    "slurm.step_aborted": ("scheduler ended the step", ("slurm.task_exit",)),
    "slurm.cancelled": ("scheduler ended the step", ("slurm.task_exit", "slurm.step_aborted")),
}
#: Said of an effect of which no more is known than that it came after.
_DEFAULT_RULE = "after"
#: Lines that only repeat, on the way to the end, what another line of the same ranks says.
_NOISE = frozenset({"c10d.watchdog_status", "c10d.dump_signal", "nccl.propagation", "torchrun.usage_note"})
#: What a launcher does once a process of its has ended, so the end of that process is not later.
_TEARDOWN = ("torchrun.signal_sent", "torchrun.death_signal", "torchrun.kill_escalation")
#: Farther before the first failure than this, what the clock puts before it is another story.
EARLIER = 600 * SECOND
#: Emitters that write from outside of the ranks' processes.
_OUTSIDE = ("kernel.", "torchrun.", "slurm.", "k8s.", "mpi.", "fabric_manager.", "gpu.")


def build_graph(facts: Facts, chosen: Finding | None, others: Sequence[Finding]) -> nx.DiGraph:
    """The graph around the chosen finding.

    Node attributes: what, role, ranks, nodes, time (datetime, UTC), bound_ns, event, signature, file, line,
    byte_offset, text; edge attribute: rule.
    """
    graph = nx.DiGraph()
    if chosen is not None:
        _add(graph, chosen.incident, "initiator", not_after(facts, chosen))
    explained = set(chosen.explains) | {chosen.incident.id} if chosen else set()
    for finding in others:
        incident = finding.incident
        if incident.id in explained or finding.trust not in ("outside", "local", "exit") or incident.id in graph:
            continue
        if chosen is not None and _is_same_line(incident, chosen):
            continue
        earlier = chosen is not None and _is_earlier(incident, chosen)
        role: Role = "initiator" if chosen is None else "unrelated" if earlier else "collateral"
        _add(graph, incident, role)
        if chosen is not None and not certainly_before(incident, chosen.incident):
            graph.add_edge(chosen.incident.id, incident.id, rule=_shared(incident, chosen.incident))
    folded = [w for w in _without_noise(waves(facts.incidents)) if chosen is None or not _is_part_of(w, chosen)]
    for wave in folded:
        earlier = chosen is not None and _is_earlier(wave, chosen)
        _add(graph, wave, "unrelated" if earlier else wave.role)
    for wave in folded:
        rule, before = _FOLLOWS.get(wave.event, (_DEFAULT_RULE, ()))
        source = _source(wave, before, folded)
        if source is not None:
            graph.add_edge(source.id, wave.id, rule=rule)
        elif chosen is not None and _may_follow(wave, chosen):
            own = _shared(wave, chosen.incident) if before and rule == "same process" else rule
            graph.add_edge(chosen.incident.id, wave.id, rule=own)
    return graph


def not_after(facts: Facts, chosen: Finding) -> int | None:
    """The time of the first failure; a death that a launcher reports is not later than the launcher's first signal."""
    time = chosen.incident.time
    if time is None or chosen.trust not in ("exit", "silence"):
        return time
    sent = [
        r.time for r in facts.events(*_TEARDOWN) if r.time is not None and (r.attempt or 0) == chosen.incident.attempt
    ]
    return min([time, *(t for t in sent if time - t < EARLIER)])


def _may_follow(wave: Incident, chosen: Finding) -> bool:
    """Whether the clock allows the effect; that a launcher cleans up shows by itself that a death came before."""
    cleans_up = wave.role == "teardown" and wave.attempt == chosen.incident.attempt
    return not _is_earlier(wave, chosen) and (cleans_up or not certainly_before(wave, chosen.incident))


def _is_earlier(incident: Incident, chosen: Finding) -> bool:
    """Whether it lies so far before the first failure that it belongs to another story."""
    return certainly_before(incident, chosen.incident, slack=EARLIER)


def _is_same_line(incident: Incident, chosen: Finding) -> bool:
    """Whether both rest on one line, or say the same of the same ranks."""
    a, b = incident.first, chosen.incident.first
    if a is not None and b is not None and (a.file, a.byte_offset) == (b.file, b.byte_offset):
        return True
    return (incident.signature, incident.ranks) == (chosen.signature, chosen.incident.ranks) and bool(incident.ranks)


def _shared(effect: Incident, cause: Incident) -> str:
    """What ties two events of the same ranks; of others, only the order."""
    if not set(effect.ranks) & set(cause.ranks):
        return _DEFAULT_RULE
    outside = effect.event.startswith(_OUTSIDE) or cause.event.startswith(_OUTSIDE)
    if len(cause.ranks) > 1:
        return "same ranks"
    return "same rank" if outside or effect.ranks != cause.ranks else "same process"


def _without_noise(found: Sequence[Incident]) -> list[Incident]:
    """The waves without lines that repeat another wave of the same ranks."""
    told = {rank for wave in found if wave.event not in _NOISE for rank in wave.ranks}
    return [wave for wave in found if wave.event not in _NOISE or not set(wave.ranks) <= told]


def _source(wave: Incident, before: Sequence[str], folded: Sequence[Incident]) -> Incident | None:
    """The wave that this one follows from: of the first kind present that shares a rank or node and is not later."""
    for event in before:
        for other in folded:
            shared = set(wave.ranks) & set(other.ranks) or (not wave.ranks and set(wave.nodes) & set(other.nodes))
            if other is not wave and other.event == event and shared and not certainly_before(wave, other):
                return other
    return None


def waves(incidents: Iterable[Incident]) -> list[Incident]:
    """Collateral and teardown incidents folded by kind, process group and attempt."""
    groups: dict[tuple[object, ...], list[Incident]] = defaultdict(list)
    for incident in incidents:
        if incident.role in ("collateral", "teardown") and incident.first is not None:
            key = (incident.signature or incident.event, incident.first.process_group, incident.attempt, incident.role)
            groups[key].append(incident)
    folded = []
    for number, found in enumerate(groups.values(), start=1):
        found.sort(key=lambda i: (i.time is None, i.time or 0, i.rows[0].file, i.rows[0].byte_offset))
        lead = next((i for i in found if i.time is not None and i.bound is not None), found[0])
        folded.append(
            Incident(
                f"w{number}",
                lead.event,
                lead.what,
                lead.role,
                tuple(sorted({r for i in found for r in i.ranks})),
                tuple(sorted({n for i in found for n in i.nodes})),
                [r for i in found for r in i.rows],
                lead.signature,
                lead.time,
                lead.bound,
                lead.attempt,
                lead.inherited,
            )
        )
    folded.sort(key=lambda i: (i.time is None, i.time or 0, i.id))
    return folded


def _is_part_of(wave: Incident, chosen: Finding) -> bool:
    if wave.event == "fr.entry":  # all that a dump says has one place
        return set(wave.ranks) <= set(chosen.incident.ranks)
    own = {(r.file, r.byte_offset) for r in chosen.incident.rows}
    lines = [(r.file, r.byte_offset) in own for r in wave.rows]
    # The lines of a silent rank's finding are those of others, which are waves of their own.
    return bool(lines) and (
        all(lines) or (lines[0] and not chosen.silent and not set(wave.ranks) - set(chosen.incident.ranks))
    )


def _add(graph: nx.DiGraph, incident: Incident, role: Role, time: int | None = None) -> None:
    row = incident.first
    time = incident.time if time is None else time
    graph.add_node(
        incident.id,
        what=agree(incident.what),
        role=role,
        ranks=list(incident.ranks),
        nodes=list(incident.nodes),
        time=moment(time) if role == "initiator" or not incident.inherited else None,
        bound_ns=incident.bound,
        event=incident.event,
        signature=incident.signature,
        file=row.file if row else None,
        line=row.line if row else None,
        byte_offset=row.byte_offset if row else None,
        text=row.body if row else "",
    )
