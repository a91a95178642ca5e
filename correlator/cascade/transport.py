"""Causes between nodes: a store host that went away, a link that carries nothing, a rank that came too late."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from correlator.cascade.absence import PEER_LOST, loss_of, wave_kind
from correlator.cascade.findings import finding_for
from correlator.cascade.model import Facts, Finding
from correlator.cascade.stands import Stand, members, stands, wait_graph
from correlator.hostlist import fold_ranges
from correlator.records import Row
from correlator.topology.model import short_name

#: A host name; the addresses that c10d prints of its sockets may be garbage.
_HOST_NAME = re.compile(r"^[A-Za-z][\w.-]*$")


def store_host_gone(facts: Facts) -> Iterator[Finding]:
    """All other nodes lose the store at once and no worker says anything else: its host went first."""
    complaints = facts.judged("torchrun.rendezvous_error", "c10d.store_error", "c10d.store_timeout")
    top = facts.topology
    # A launcher without ranks, where all ranks have their nodes, waited in vain for a place in the job.
    placed = all(rank.node for rank in top.ranks.values())
    complaining = {r.node for r in complaints if r.node and (not placed or top.ranks_on(r.node))}
    others = top.collected_nodes - complaining
    hosts = {short_name(r.peer) for r in complaints if r.peer and _HOST_NAME.match(r.peer)} - top.collected_nodes
    if len(hosts) == 1 and not others and not _own_errors(facts):
        yield _store_host_not_collected(facts, hosts.pop(), complaints)
        return
    if len(complaining) < 1 or len(others) != 1 or _own_errors(facts):
        return
    host = next(iter(others))
    ranks = top.ranks_on(host)
    if ranks and 0 not in ranks:
        return
    quiet = host not in facts.nodes_with_epitaph
    finding = finding_for(
        facts,
        "store host accused by all others",
        ranks,
        complaints[:3],
        trust="silence" if quiet else "accusation",
        strength=0.68 if quiet else 0.5,
        what=f"Node {host}, which hosts the rendezvous store, is not reachable any more",
        why="every other node's launcher lost the store on that node, and that node itself complains of nothing",
        class_="infrastructure",
        subclass="host" if quiet else "fabric",
        silent=True,
        signature="node-lost" if quiet else "link-down",
        scope="node",
        control="Whether that node's own log goes on after the loss separates a dead node from a cut link.",
    )
    finding.incident.nodes = (host,)
    yield finding


def _own_errors(facts: Facts) -> bool:
    return any(i.event == "python.exception" and i.role == "initiator" for i in facts.incidents)


def _store_host_not_collected(facts: Facts, host: str, complaints: Sequence[Row]) -> Finding:
    named = [r for r in complaints if r.peer]
    finding = finding_for(
        facts,
        "store host accused by all others",
        [],
        named[:3],
        trust="accusation",
        strength=0.5,
        scope="node",
        silent=True,
        what=f"The store on {host} went away; its log was not collected",
        signature="node-lost",
        why="all launchers and ranks that were collected lost their connection to the store on that host",
        control=f"The log of {host} decides: it ended first, and why is written there.",
    )
    finding.incident.nodes = (host,)
    return finding


#: The signature of a send that was repeated without an answer.
_UNANSWERED = "nccl-ib-retry-exceeded"
_NO_ROUTE = re.compile(r"No route to host|Network is unreachable|EHOSTUNREACH|ENETUNREACH")
_CONNECTING = ("nccl.socket_error", "gloo.connect_failed", "c10d.connect_failed", "python.exception")


def no_route_at_start(facts: Facts) -> Iterator[Finding]:
    """Before any step, some ranks' connections are refused by the network itself: routing or a filter, not a process.

    Once training ran, the same text only says that the host at the other end is gone.
    """
    rows = [r for r in facts.judged(*_CONNECTING) if _NO_ROUTE.search(r.body) and facts.before_training(r)]
    if not rows or facts.trained:
        return
    nodes = sorted({r.node for r in rows if r.node})
    ranks = {r.rank for r in rows if r.rank is not None} or {n for h in nodes for n in facts.topology.ranks_on(h)}
    peers = sorted({short_name(r.peer) for r in rows if r.peer})
    finding = finding_for(
        facts,
        "no route at start",
        ranks if len(nodes) == 1 else [],
        rows[:3],
        trust="local",
        strength=0.7,
        scope="node" if len(nodes) == 1 else "none",
        class_="infrastructure",
        subclass="fabric",
        what=f"{nodes[0] if len(nodes) == 1 else 'Several nodes'} cannot reach {', '.join(peers) or 'a peer'}",
        why="the network answers that there is no route, before any step was made",
        signature="no-route-at-start",
        control="Connect to a high port from one node to the other, both ways; compare firewall rules and routes.",
    )
    finding.incident.nodes = tuple(nodes) if len(nodes) == 1 else ()
    yield finding


def everybody_waits_in_company(facts: Facts) -> Iterator[Finding]:
    """Ranks wait in calls that all their members entered: no rank is behind, so the transport is."""
    places = stands(facts)
    if len(places) < 3 or wave_kind(facts) != "timeout":
        return
    graph, top = wait_graph(facts, places), facts.topology
    if any(other not in places for _, other in graph.edges):
        return
    stuck = sorted(r for r in places if not graph.out_degree(r) and stalled_across_nodes(facts, places[r]))
    if len(stuck) < 2:
        return
    nodes = top.nodes_of(stuck)
    ends = nodes if 2 <= len(nodes) < len(top.nodes) else []
    finding = finding_for(
        facts,
        "every group is complete",
        [r for n in ends for r in top.ranks_on(n)],
        [places[r].row for r in stuck][:3],
        trust="shape",
        strength=0.5,
        scope="ranks" if ends else "none",
        silent=True,
        class_="infrastructure",
        subclass="fabric",
        what=f"The network {'between ' + ' and '.join(ends) if ends else 'between the nodes'} stopped carrying data",
        why="the ranks stand in the same calls as their peers with work pending, so none is behind the others",
        signature="link-down",
        control="Port counters and link events of the nodes at the start of the stall name the link.",
    )
    yield finding


def stalled_across_nodes(facts: Facts, stand: Stand) -> bool:
    """Whether the call a rank stands in needs ranks of another node."""
    group = members(stand, facts.topology.grid, facts.expected_ranks()) or ()
    return len(facts.topology.nodes_of(group)) > 1


def late_comer(facts: Facts) -> Iterator[Finding]:
    """In a wave of time-outs, the only one that finds its peers gone: it was late, the others had waited.

    Who waits prints a time-out; who arrives later finds closed connections. It is one rank or one whole node.
    """
    waited, found_gone = set(), {}
    for row in facts.rows:
        if row.rank is None or row.event != "python.exception" or not facts.is_judged(row):
            continue
        loss = loss_of(facts, row)
        if loss == "timeout":
            waited.add(row.rank)
        elif loss == "peer":
            found_gone[row.rank] = row
    late = sorted(set(found_gone) - waited)
    top = facts.topology
    nodes = [n for n in top.nodes_of(late) if set(top.ranks_on(n)) <= set(late)]
    if len(waited) < 2 or not late or len(waited) < len(late):
        return
    if not all(rank.collected for rank in top.ranks.values()):
        return  # the one that all others waited for may have left no log
    if len(late) > 1 and len(nodes) == 1:
        late = top.ranks_on(nodes[0])
    elif len(late) != 1:
        return
    yield finding_for(
        facts,
        "came after the others had given up",
        late,
        [found_gone[r] for r in late],
        trust="accusation",
        strength=0.5,
        silent=True,
        scope="node" if len(late) > 1 else "rank",
        subclass="network" if len(late) > 1 else None,
        what=f"Rank {fold_ranges(late)} was too slow for the time-out of its peers",
        why="its peers timed out waiting; it alone found their connections closed when it arrived",
        signature="straggler",
        control="Step times of that rank or node before the stall show whether it was slow or stopped.",
    )


def both_ends_of_a_path(facts: Facts) -> Iterator[Finding]:
    """Both ends of a connection report that the other stopped answering, so both lived: the path between them is cut.

    Of several such pairs with one node in common it is that node's link.
    """
    ends: dict[frozenset[str], dict[str, Row]] = defaultdict(dict)
    for row in facts.judged("nccl.ib_error"):
        host = facts.topology.node_named(row.peer)
        if row.node and host and host != row.node and row.signature == _UNANSWERED:
            ends[frozenset((row.node, host))].setdefault(row.node, row)
    pairs = {pair: rows for pair, rows in ends.items() if len(rows) == len(pair)}
    shared = sorted(frozenset.intersection(*pairs)) if pairs else []
    if not shared:
        return
    one = len(shared) == 1
    finding = finding_for(
        facts,
        "both ends of a path",
        [],
        [row for rows in pairs.values() for row in rows.values()],
        trust="accusation",
        strength=0.55,
        scope="node" if one else "none",
        class_="infrastructure",
        subclass="fabric",
        what=f"The network {'of' if one else 'between'} {' and '.join(shared)} stopped carrying data",
        why="both ends of a connection sent without an answer, so the processes lived and the path did not",
        signature="link-down",
        control="ib_write_bw between the two hosts; port counters and link events at that time name the link.",
    )
    finding.incident.nodes = tuple(shared)
    yield finding


def accused_host(facts: Facts) -> Iterator[Finding]:
    """A host that several survivors name as the peer they lost, and that names nobody itself."""
    accusers: dict[str, set[int]] = defaultdict(set)
    proof: dict[str, list[Row]] = defaultdict(list)
    for row in facts.rows:
        host = facts.topology.node_named(row.peer.rpartition("<")[0] or row.peer) if row.peer else None
        lost = row.event in (*PEER_LOST, "nccl.ib_error") and facts.is_judged(row)
        if host and row.rank is not None and lost and host != row.node:
            accusers[host].add(row.rank)
            proof[host].append(row)
    accused = {h for h, who in accusers.items() if len(who) >= 2}
    accusing = {row.node for rows in proof.values() for row in rows}
    innocent = sorted(accused - accusing)
    if len(innocent) == 1:
        host = innocent[0]
        ranks = facts.topology.ranks_on(host)
        finding = finding_for(
            facts,
            "accused and accusing nobody",
            ranks,
            proof[host][:3],
            trust="accusation",
            strength=0.55,
            what=f"{host} went away first",
            silent=True,
            scope="node" if len(ranks) != 1 else "rank",
            why=f"{len(accusers[host])} ranks lost their peer on {host}, which itself lost nobody",
            class_="infrastructure",
            subclass="host",
            signature="node-lost",
            control="The kernel log and the scheduler's record of that node say why it went away.",
        )
        finding.incident.nodes = (host,)
        yield finding
