"""Errors that a rank, its device or its node reports of itself."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from correlator.cascade.findings import causes, is_everywhere, own_strength
from correlator.cascade.incidents import is_without_end
from correlator.cascade.model import Facts, Finding, Incident, certainly_before
from correlator.diagnosis import FailureClass, Scope
from correlator.events import STANDS_FOR_OTHERS
from correlator.hostlist import expand_ranges
from correlator.records import Row
from correlator.signatures import Signature
from correlator.timestamps import SECOND
from correlator.topology.model import short_name

#: Incidents of one cause on different ranks that start this close together are one occurrence.
_TOGETHER = 30 * SECOND
#: Application Xids that come back on one device in at least this many separate episodes speak against the device.
_REPEATS = 3
_EPISODE = 600 * SECOND
_APPLICATION_XIDS = frozenset({13, 31, 43})
#: Emitters that speak about processes by pid or device; how a rank's own words ended it says nothing about them.
_NOT_THE_JOBS_OWN = frozenset({"kernel", "slurm", "k8s", "fabric_manager"})
#: Strength at most of tracebacks that do not say what was raised: it may be a peer's loss as well.
_WITHOUT_END = 0.4
_DEVICE = re.compile(r"\bGPU (\d+)\b")


def own_error(facts: Facts) -> Iterator[Finding]:
    """A rank, its device or its node reports an error of its own: the strongest evidence a rank can give."""
    groups: dict[str, list[Incident]] = defaultdict(list)
    for incident in causes(facts):
        signature = facts.signatures.get(incident.signature or "")
        if incident.event == "c10d.watchdog_hang" and _others_timed_out_before(facts, incident):
            continue
        if signature is None or signature.blames not in ("job", "peer"):
            groups[incident.signature or f"{incident.event}:{_kind(incident)}"].append(incident)
    for incidents in groups.values():
        for together in _split_by_time(incidents):
            yield _own_error_finding(facts, together)


def _others_timed_out_before(facts: Facts, incident: Incident) -> bool:
    """Whether another rank had given up a collective by then: a watchdog that hangs later waited for the same peer."""
    return any(
        i.event == "c10d.watchdog_timeout" and set(i.ranks) - set(incident.ranks) and certainly_before(i, incident)
        for i in facts.incidents
        if facts.may_be_judged(i)
    )


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
    if about_node and not own_nodes:  # who prints it is elsewhere; the line names the node
        own_nodes = {short_name(row.peer) for i in incidents for row in i.rows if row.peer}
    nodes = sorted(own_nodes | set(facts.topology.nodes_of(ranks)))
    if any(row.attr(STANDS_FOR_OTHERS) for i in incidents for row in i.rows):
        ranks = _ranks_behind(facts, ranks, sum(row.count for i in incidents for row in i.rows))
    at_start = all(facts.before_training(i.rows[0]) for i in incidents)
    everywhere = ranks == facts.expected_ranks() if remote else is_everywhere(facts, ranks, at_start)
    every_node = not (ranks or about_node) and at_start and len(nodes) > 1 and nodes == sorted(facts.topology.nodes)
    everywhere = everywhere or every_node
    class_: FailureClass = signature.class_ if signature else "application"
    if signature and signature.class_everywhere_at_start and everywhere and at_start:
        class_ = signature.class_everywhere_at_start
    scope: Scope = "rank" if len(ranks) == 1 else "ranks"
    if every_node or (everywhere and len(facts.expected_ranks()) > 1):
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
        strength=min(own_strength(signature), _WITHOUT_END)
        if _is_without_end(facts, incidents)
        else own_strength(signature),
        why=_why_own(lead, ranks, everywhere, signature),
        class_=class_,
        subclass=signature.subclass if signature else "code",
        signature=signature.id if signature else "unlisted-exception",
        title=signature.title if signature else lead.what,
        scope=scope,
        control=signature.control if signature else "Run the same step again with the same data on other nodes.",
        explains=tuple(i.id for i in incidents[1:]),
    )
    return _repeats_on_one_device(finding)


def _ranks_behind(facts: Facts, shown: list[int], lines: int) -> list[int]:
    """Of lines that stand for others': the ranks that as many lines are of, or nobody where that is not told.

    The printer shows the first line and counts the rest, so who is shown is chance. As many lines as the nodes of those
    who are shown have ranks are these ranks'.
    """
    nodes = facts.topology.nodes_of(shown)
    there = sorted(rank for node in nodes for rank in facts.topology.ranks_on(node))
    if lines == len(there):
        return there
    return shown if lines <= len(shown) else []


def _is_without_end(facts: Facts, incidents: Sequence[Incident]) -> bool:
    return all(is_without_end(facts, row) for i in incidents for row in i.rows)


def _why_own(lead: Incident, ranks: Sequence[int], everywhere: bool, signature: Signature | None) -> str:
    if everywhere and not lead.ranks and not ranks:
        return "every node reports the same error, so no single one is to blame"
    if everywhere and len(ranks) > 1:
        if signature is not None and signature.subclass == "numerics":
            return "every rank reports it, as a sum hands one rank's bad number to all; whose it was is not told here"
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
