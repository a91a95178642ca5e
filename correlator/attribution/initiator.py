"""Which finding is the initiator: trust first, then time where the clocks allow it, then agreement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from correlator.cascade.model import Facts, Finding, before_in_stream, certainly_before, interval
from correlator.timestamps import SECOND

#: What the kind of evidence adds to a finding's strength when findings compete.
_TRUST_BONUS = {
    "outside": 0.25,
    "local": 0.22,
    "protocol": 0.15,
    "exit": 0.12,
    "silence": 0.08,
    "accusation": 0.0,
    "shape": -0.1,
    "weak": -0.3,
}
#: Taken off a direct cause that lies certainly after the stall began: it cannot have set it off.
_TOO_LATE = 0.35
#: Taken off what happened in another attempt than the one that is judged.
_OTHER_ATTEMPT = 1.0
_DIRECT = ("outside", "local", "exit")
#: A direct cause must beat a weaker direct one by less than this to lose to it for coming later.
_EARLIER_WINS_WITHIN = 0.45
#: A finding that names a reason may be weaker by this than one about the same ranks that names none.
_MORE_TELLING_WITHIN = 0.15


@dataclass(frozen=True, slots=True)
class Ranked:
    """A finding with what the competition made of it."""

    finding: Finding
    score: float
    agreeing: int


def rank_findings(facts: Facts, findings: Sequence[Finding]) -> list[Ranked]:
    """The findings, best first."""
    findings = [_with_rank_from_others(facts, f, findings) for f in findings]
    findings = [_with_node_from_others(f, findings) for f in findings]
    findings = [f for f in findings if not _superseded(facts, f, findings)]
    stall = stall_began(facts)
    ranked = []
    for finding in findings:
        score = finding.strength + _TRUST_BONUS[finding.trust]
        when = interval(finding.incident.time, finding.incident.bound)
        if (
            stall is not None
            and finding.trust in ("local", "exit")
            and when is not None
            and when[0] > stall[1] + 2 * SECOND
        ):
            score -= _TOO_LATE
        if not facts.may_be_judged(finding.incident):
            score -= _OTHER_ATTEMPT
        agreeing = sum(
            1
            for other in findings
            if other.rule != finding.rule
            and other.incident.ranks
            and set(other.incident.ranks) == set(finding.incident.ranks)
        )
        ranked.append(Ranked(finding, score + 0.04 * agreeing, agreeing))
    ranked.sort(
        key=lambda r: (
            -r.score,
            not (r.finding.incident.ranks or r.finding.incident.nodes),
            r.finding.incident.time or 0,
            r.finding.rule,
            r.finding.incident.id,
        )
    )
    judged = [r for r in ranked if facts.may_be_judged(r.finding.incident)]
    return [*_earlier_first(judged), *(r for r in ranked if r not in judged)]


def _earlier_first(ranked: list[Ranked]) -> list[Ranked]:
    """Moves a direct cause to the front if it certainly lies before the leading one, or says what its rank died of."""
    if not ranked:
        return ranked
    lead = ranked[0]
    if lead.finding.trust not in _DIRECT:
        # That a rank died says more than that it is missing.
        missing = set(lead.finding.incident.ranks)
        same = [
            r
            for r in ranked
            if r.finding.trust in _DIRECT and r.finding.incident.ranks and missing >= set(r.finding.incident.ranks)
        ]
        same = same or _more_telling(lead, ranked)
        return [*same, *[r for r in ranked if r not in same]] if lead.finding.incident.ranks else ranked
    for other in ranked[1:]:
        if (
            other.finding.trust in _DIRECT
            and lead.score - other.score < _EARLIER_WINS_WITHIN
            and other.finding.strength >= 0.5
            and not _says_less(other.finding, lead.finding)
            and (
                certainly_before(other.finding.incident, lead.finding.incident)
                or before_in_stream(other.finding.incident, lead.finding.incident)
            )
        ):
            lead = other
    return [lead, *[r for r in ranked if r is not lead]]


def _says_less(finding: Finding, than: Finding) -> bool:
    """Whether a finding is about the same kind of cause and names nobody, where the other names a rank or a node."""
    named, other = finding.incident, than.incident
    same_kind = (finding.class_, finding.subclass) == (than.class_, than.subclass)
    return same_kind and not (named.ranks or named.nodes) and bool(other.ranks or other.nodes)


def _more_telling(lead: Ranked, ranked: Sequence[Ranked]) -> list[Ranked]:
    """Where the leading finding only says that some ranks are missing: one of the same ranks that says why."""
    if lead.finding.class_ != "unknown":
        return []
    ranks = lead.finding.incident.ranks
    known = [r for r in ranked if r.finding.incident.ranks == ranks and r.finding.class_ != "unknown"]
    return [r for r in known if lead.score - r.score < _MORE_TELLING_WITHIN][:1]


def _with_node_from_others(finding: Finding, findings: Sequence[Finding]) -> Finding:
    """A death that names neither rank nor node, nor a reason, takes the only node that others report an error of."""
    if finding.trust != "local" or finding.class_ != "unknown" or finding.incident.ranks or finding.incident.nodes:
        return finding
    named = {f.incident.nodes for f in findings if f.trust == "local" and f.incident.nodes}
    if len(named) != 1 or len(nodes := named.pop()) != 1:
        return finding
    return replace(finding, incident=replace(finding.incident, nodes=nodes), scope="node")


def _superseded(facts: Facts, finding: Finding, findings: Sequence[Finding]) -> bool:
    """Whether another finding about the same ranks, nodes or processes says what this one comes from."""
    writers = {r.writer for r in finding.incident.rows}
    ranks, nodes = set(finding.incident.ranks), set(finding.incident.nodes)
    for other in findings:
        signature = facts.signatures.get(other.signature or "")
        same = ranks <= set(other.incident.ranks) if ranks else nodes <= set(other.incident.nodes)
        same = same or writers <= {r.writer for r in other.incident.rows}
        if signature is not None and finding.signature in signature.supersedes and same:
            return True
    return False


def _with_rank_from_others(facts: Facts, finding: Finding, findings: Sequence[Finding]) -> Finding:
    """A cause without a rank takes the one that independent rules name: on its node, or of the same kind.

    What the scheduler decided is about no rank, whatever else one of them says.
    A kernel that killed a process for memory knows the host and its own pid; in a container both differ from those of
    the job, so the only rank that ended by SIGKILL is meant.
    """
    if (
        finding.trust not in ("local", "outside")
        or finding.subclass == "scheduler"
        or finding.incident.ranks
        or len(finding.incident.nodes) > 1
        or finding.scope == "all"
    ):
        return finding
    nodes = finding.incident.nodes
    foreign_host = bool(nodes) and not facts.topology.ranks_on(nodes[0])
    named = set()
    for other in findings:
        if other is finding or not other.incident.ranks:
            continue
        if other.trust == "local" and nodes and other.incident.nodes == nodes:
            named.add((other.incident.ranks, other.incident.nodes))
        if len(other.incident.ranks) != 1 or other.trust not in ("protocol", "exit", "silence"):
            continue
        same_kind = other.trust == "exit" and other.subclass is not None and other.subclass == finding.subclass
        killed = other.trust == "exit" and any(r.exit_code == -9 or r.signal == 9 for r in other.incident.rows)
        if (
            (nodes and other.incident.nodes == nodes)
            or (not nodes and same_kind)
            or (foreign_host and finding.subclass == "memory" and killed)
            or (foreign_host and other.silent and not other.incident.nodes)
        ):
            named.add((other.incident.ranks, other.incident.nodes))
    if len(named) != 1:
        return finding
    ((ranks, where),) = named
    incident = replace(finding.incident, ranks=ranks, nodes=where if (where and foreign_host) or not nodes else nodes)
    return replace(finding, incident=incident, scope="rank" if len(ranks) == 1 else "ranks")


def stall_began(facts: Facts) -> tuple[int, int] | None:
    """When the first waiter began to wait (earliest, latest), in ns: its time-out minus how long it ran."""
    starts = []
    for row in facts.judged("c10d.watchdog_timeout"):
        when = interval(row.time, row.time_bound_ns)
        if when is not None and row.elapsed_ms is not None and row.timestamp_basis == "printed":
            starts.append((when[0] - row.elapsed_ms * 1_000_000, when[1] - row.elapsed_ms * 1_000_000))
    return min(starts, default=None)
