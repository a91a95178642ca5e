"""Failures at the start: the nodes do not find each other, or run different versions of what must be one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from correlator.cascade.findings import finding_for
from correlator.cascade.model import Facts, Finding
from correlator.hostlist import fold_ranges
from correlator.records import Row
from correlator.topology.ranks import OWN_RANK_EVENTS


def rendezvous_failed(facts: Facts) -> Iterator[Finding]:
    """A node cannot reach the address it was given, or too few nodes came."""
    failed = facts.events("c10d.connect_failed")
    late = facts.events("torchrun.rendezvous_timeout", "c10d.clients_missing")
    bind = facts.events("c10d.bind_failed")
    if facts.trained or not (failed or late or bind):
        return
    if bind:
        yield _port_taken(facts, bind)
    accusing = sorted({r.node for r in failed if r.node})
    waiting = sorted({r.node for r in late if r.node and r.node not in accusing})
    if failed:
        # The node that waits at the right place is not wrong; the one that knocks elsewhere is, if both are known.
        nodes = accusing if waiting and len(accusing) < len(facts.topology.collected_nodes) else []
        finding = finding_for(
            facts,
            "cannot reach the rendezvous",
            [],
            [*failed, *late],
            trust="local",
            strength=0.78 if nodes else 0.72,
            what="A node cannot reach the rendezvous address it was given",
            class_="configuration",
            subclass="rendezvous",
            why=(
                f"{', '.join(nodes)} tries an address that nobody answers while {', '.join(waiting)} waits for it"
                if nodes
                else "the address and port that the launcher was given are not answered"
            ),
            signature="rendezvous-mismatch" if nodes else "rendezvous-master-unreachable",
            scope="node" if nodes else "none",
            control="From the failing node, connect to the address and port (nc -vz HOST PORT).",
        )
        finding.incident.nodes = tuple(nodes)
        yield finding
    elif late:
        yield finding_for(
            facts,
            "too few nodes came",
            [],
            late,
            trust="local",
            strength=0.6,
            what="Fewer nodes joined than the launch asks for",
            why="the launcher waited until its rendezvous time-out; no node that came is at fault",
            class_="configuration",
            subclass="rendezvous",
            signature="rendezvous-node-missing",
            scope="none",
            control="Count the launchers that started against the number of nodes asked for (--nnodes).",
        )


def _port_taken(facts: Facts, rows: list[Row]) -> Finding:
    finding = finding_for(
        facts,
        "port already in use",
        [],
        rows,
        trust="local",
        strength=0.85,
        what="The rendezvous port is already in use",
        why="the launcher could not bind the port it was given",
        class_="configuration",
        subclass="rendezvous",
        signature=rows[0].signature or "port-in-use",
        scope="node",
        control="ss -ltnp on that node shows the process that holds the port.",
    )
    finding.incident.nodes = tuple(sorted({r.node for r in rows if r.node}))
    return finding


def versions_differ(facts: Facts) -> Iterator[Finding]:
    """NCCL fails before the first step and the nodes loaded different releases of it: those unlike the most.

    Different builds of one release (what follows the +) speak the same protocol.
    """
    if facts.trained or not any(i.event.startswith("nccl.") or _is_nccl_error(i.rows[0]) for i in facts.incidents):
        return
    loaded: dict[str, dict[str, Row]] = defaultdict(dict)
    for row in facts.judged("nccl.version"):
        if row.node and row.attr("version"):
            loaded[row.node].setdefault(row.attr("version").partition("+")[0], row)
    release = {node: next(iter(rows)) for node, rows in loaded.items() if len(rows) == 1}
    counts = Counter(release.values()).most_common()
    if len(counts) < 2:
        return
    majority = counts[0][0] if counts[0][1] > counts[1][1] else None
    odd = sorted(node for node, version in release.items() if majority and version != majority)
    finding = finding_for(
        facts,
        "versions differ between nodes",
        [rank for node in odd for rank in facts.topology.ranks_on(node)],
        [loaded[node][release[node]] for node in odd or sorted(release)],
        trust="local",
        strength=0.88,
        what="The nodes loaded different NCCL versions",
        why=(
            f"{', '.join(odd)} loaded another NCCL release than the other nodes ({majority})"
            if odd
            else "NCCL of one communicator must be one release, and the nodes print different ones"
        ),
        class_="configuration",
        subclass="version",
        signature="nccl-version-mismatch",
        scope="node" if odd else "none",
        control="Print the version on every node: python -c 'import torch; print(torch.cuda.nccl.version())'.",
    )
    finding.incident.nodes = tuple(odd)
    yield finding


def ranks_taken_twice(facts: Facts) -> Iterator[Finding]:
    """Several groups of processes state the same ranks, as if each were alone, and together they are as many as asked.

    Each launcher numbered its processes from 0: it was not told which node it is on.
    """
    size = facts.topology.world_size
    taken: dict[str, dict[int, Row]] = defaultdict(dict)
    for row in facts.judged(*sorted(OWN_RANK_EVENTS)):
        if row.rank is not None:
            taken[row.writer].setdefault(row.rank, row)
    groups = [rows for rows in taken.values() if rows.keys() == next(iter(taken.values())).keys()]
    if facts.trained or not size or len(groups) < 2 or len(groups) < len(taken):
        return
    if sum(map(len, groups)) != size:
        return
    ranks = sorted(groups[0])
    yield finding_for(
        facts,
        "ranks taken twice",
        [],
        [rows[rank] for rank in ranks for rows in groups],
        trust="local",
        strength=0.85,
        what="Processes of different launchers took the same ranks",
        why=f"{len(groups)} groups of processes each state rank {fold_ranges(ranks)} of {size}; the rest never exists",
        class_="configuration",
        subclass="environment",
        signature="ranks-taken-twice",
        scope="none",
        control="Print RANK, LOCAL_RANK, NODE_RANK and WORLD_SIZE in every process at its start.",
    )


def _is_nccl_error(row: Row) -> bool:
    return row.event == "python.exception" and "NCCL error" in row.body
