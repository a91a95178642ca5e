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
from correlator.records import moment

#: What a wave follows from: the rule that draws the edge, and the waves of the same ranks that it follows from, first
#: choice first; where none is there, it follows from the initiator.
_FOLLOWS: dict[str, tuple[str, tuple[str, ...]]] = {
    "c10d.watchdog_timeout": ("member missing from the collective", ()),
    "c10d.watchdog_status": ("same process", ("c10d.watchdog_timeout",)),
    "c10d.blocking_wait_timeout": ("member missing from the collective", ()),
    "c10d.barrier_missing": ("member missing from the collective", ()),
    "c10d.barrier_victim": ("a waiter told the others", ("c10d.barrier_missing", "c10d.collective_mismatch")),
    "c10d.desync_report": ("same process", ("c10d.watchdog_timeout",)),
    "c10d.dump_signal": ("a waiter told the others", ("c10d.watchdog_timeout",)),
    "c10d.watchdog_exception": ("same process", ("c10d.watchdog_timeout", "nccl.socket_error", "nccl.ib_error")),
    "c10d.abort_notice": ("same process", ("c10d.watchdog_timeout", "c10d.watchdog_exception")),
    "cpp.terminate": ("same process", ("c10d.watchdog_exception", "c10d.abort_notice", "c10d.watchdog_timeout")),
    "gloo.timeout": ("member missing from the collective", ()),
    "gloo.peer_closed": ("peer process gone", ()),
    "gloo.peer_reset": ("peer process gone", ()),
    "nccl.socket_error": ("peer process gone", ()),
    "nccl.ib_error": ("peer process gone", ()),
    "nccl.proxy_error": ("peer process gone", ("nccl.socket_error",)),
    "c10d.async_error": ("peer process gone", ("nccl.socket_error", "nccl.ib_error")),
    "c10d.remote_error": ("remote exception re-raised", ()),
    "c10d.comm_aborted": ("remote exception re-raised", ()),
    "c10d.store_error": ("store host gone", ()),
    "c10d.store_timeout": ("store host gone", ()),
    "torchrun.rendezvous_error": ("store host gone", ()),
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
_DEFAULT_RULE = "waited for it"


def build_graph(facts: Facts, chosen: Finding | None, others: Sequence[Finding]) -> nx.DiGraph:
    """The graph around the chosen finding. Node attributes: what, role, ranks, nodes, time (datetime, UTC), bound_ns,
    event,
    signature, file, line, byte_offset, text; edge attribute: rule."""
    graph = nx.DiGraph()
    if chosen is not None:
        _add(graph, chosen.incident, "initiator")
    explained = set(chosen.explains) | {chosen.incident.id} if chosen else set()
    own = set(chosen.incident.ranks) if chosen else set()
    for finding in others:
        incident = finding.incident
        if incident.id in explained or finding.trust not in ("outside", "local", "exit") or incident.id in graph:
            continue
        same = chosen is not None and bool(own & set(incident.ranks))
        role: Role = "collateral" if chosen is not None else "initiator"
        _add(graph, incident, role)
        if chosen is not None and not certainly_before(incident, chosen.incident):
            graph.add_edge(chosen.incident.id, incident.id, rule="same process" if same else _DEFAULT_RULE)
    folded = [w for w in waves(facts.incidents) if chosen is None or not _is_part_of(w, chosen)]
    for wave in folded:
        _add(graph, wave, wave.role)
    for wave in folded:
        rule, before = _FOLLOWS.get(wave.event, (_DEFAULT_RULE, ()))
        source = _source(wave, before, folded)
        if source is not None:
            graph.add_edge(source.id, wave.id, rule=rule)
        elif chosen is not None and not certainly_before(wave, chosen.incident):
            graph.add_edge(
                chosen.incident.id, wave.id, rule=_DEFAULT_RULE if before and rule == "same process" else rule
            )
    return graph


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
    return bool(wave.rows) and all(any(r is own for own in chosen.incident.rows) for r in wave.rows)


def _add(graph: nx.DiGraph, incident: Incident, role: Role) -> None:
    row = incident.first
    graph.add_node(
        incident.id,
        what=incident.what,
        role=role,
        ranks=list(incident.ranks),
        nodes=list(incident.nodes),
        time=moment(incident.time) if role == "initiator" or not incident.inherited else None,
        bound_ns=incident.bound,
        event=incident.event,
        signature=incident.signature,
        file=row.file if row else None,
        line=row.line if row else None,
        byte_offset=row.byte_offset if row else None,
        text=row.body if row else "",
    )
