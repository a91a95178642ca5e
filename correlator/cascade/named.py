"""Whom the survivors name: the one host of a death that all reports agree on, the rank a chain of waiters ends at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import networkx as nx

from correlator.cascade.findings import STACK_CONTROL, finding_for
from correlator.cascade.model import Facts, Finding, Incident
from correlator.cascade.protocol import global_ranks
from correlator.hostlist import expand_ranges
from correlator.records import Row
from correlator.topology.model import short_name

#: Reports by those who noticed, about a process or launcher that ended elsewhere: ``peer`` is the place.
_DEATHS = (
    "ray.worker_died",
    "ray.actor_died",
    "mpi.peer_disconnected",
    "torchrun.node_dropped",
    "horovod.blacklisted",
)


def death_reported_at_one_host(facts: Facts) -> Iterator[Finding]:
    """All reports of a lost process name the same host, and nothing there was lost to somebody else before.

    Several hosts, or a host that itself lost a peer, are links of a chain whose beginning is not told.
    """
    reports: dict[str, list[Row]] = defaultdict(list)
    for row in facts.judged(*_DEATHS):
        if row.peer and not row.attr("more"):
            host = short_name(row.peer)
            reports[facts.topology.node_named(host) or host].append(row)
    if len(reports) != 1 or not facts.silence_counts:
        return
    ((host, rows),) = reports.items()
    if any(_lost_a_peer(incident, host) for incident in facts.incidents):
        return
    of_node = any(row.event == "torchrun.node_dropped" for row in rows)
    pids = {row.pid for row in rows if row.event.startswith("ray.") and row.pid is not None}
    known = {rank for pid in pids if (rank := facts.topology.rank_for_pid(host, pid)) is not None}
    ranks = facts.topology.ranks_on(host) if of_node else sorted(known)
    finding = finding_for(
        facts,
        "death reported at one host",
        ranks,
        rows[:3],
        trust="accusation",
        strength=0.6,
        scope="rank" if len(ranks) == 1 else "node",
        silent=True,
        what=f"{'The launcher' if of_node else 'A process'} on {host} ended without a word",
        why=f"every report of a loss names {host}, where nothing was lost to another",
        **({"class_": "infrastructure", "subclass": "host"} if of_node else {}),
        signature="node-lost" if of_node else "rank-died",
        control="The process's own log and the kernel log of that host at that second say what ended it.",
    )
    finding.incident.nodes = (host,)
    yield finding


def _lost_a_peer(incident: Incident, host: str) -> bool:
    """Whether a process on that host complains of a loss or a wait of its own."""
    return incident.role == "collateral" and host in incident.nodes and incident.event not in _DEATHS


def end_of_the_waiting(facts: Facts) -> Iterator[Finding]:
    """Time-outs that name whom they wait for: the one that all chains lead to and that waits for nobody itself."""
    graph, rows = nx.DiGraph(), {}
    for row in facts.judged("hccl.error"):
        if row.rank is None or not row.attr("waits_for"):
            continue
        for other in global_ranks(facts, row, expand_ranges(row.attr("waits_for"))):
            graph.add_edge(row.rank, other)
            rows[row.rank] = row
    ends = [rank for rank in graph if graph.out_degree(rank) == 0]
    if len(ends) != 1 or len(rows) < 2 or len(nx.ancestors(graph, ends[0])) < len(rows):
        return
    yield finding_for(
        facts,
        "end of the waiting",
        ends,
        [rows[r] for r in sorted(graph.predecessors(ends[0]))],
        trust="protocol",
        strength=0.7,
        silent=True,
        what=f"Rank {ends[0]} never took part in the exchange that its peers wait in",
        why="each waiting rank names the one it waits for, and all chains end there",
        signature="rank-hang",
        control=STACK_CONTROL,
    )
