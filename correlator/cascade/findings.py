"""What the causal rules share: building a finding, its strength, and whether a cause is everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from correlator.cascade.model import Facts, Finding, Incident, Trust
from correlator.diagnosis import Scope
from correlator.hostlist import fold_ranges
from correlator.records import Row
from correlator.signatures import Signature

#: From this share of the ranks that could speak on, a cause is everywhere.
_EVERYWHERE = 0.75
#: What separates one rank that hangs from any other reason why it did not come.
STACK_CONTROL = "A stack dump of the process while it hangs (py-spy dump --pid PID) shows where it stands."


def finding_for(
    facts: Facts,
    rule: str,
    ranks: Iterable[int],
    rows: Sequence[Row],
    *,
    trust: Trust,
    strength: float,
    what: str,
    why: str,
    **more: object,
) -> Finding:
    """A finding about some ranks; its time is that of the earliest row."""
    who = sorted(set(ranks))
    rows = list(rows)
    stamped = [r for r in rows if r.time is not None and r.timestamp_basis != "inherited"]
    first = min(stamped or [r for r in rows if r.time is not None], key=lambda r: r.time or 0, default=None)
    incident = Incident(
        f"{rule}-{fold_ranges(who)}".replace(" ", "-"),
        rows[0].event if rows else "absence",
        what,
        "initiator",
        tuple(who),
        tuple(facts.topology.nodes_of(who)),
        rows,
        rows[0].signature if rows else None,
        first.time if first else None,
        first.time_bound_ns if first and stamped else None,
        (rows[0].attempt or 0) if rows else 0,
        inherited=not stamped,
    )
    scope: Scope = "rank" if len(who) == 1 else "ranks" if who else "none"
    return Finding(
        rule=rule,
        incident=incident,
        trust=trust,
        strength=strength,
        why=why,
        title=what,
        **{"scope": scope, **more},  # type: ignore[arg-type]
    )


def own_strength(signature: Signature | None) -> float:
    """Strength of a direct cause: an entry written for this very text counts more than a fall-back by type."""
    general = signature is None or signature.priority <= 10
    weight = signature.weight if signature else 0.5
    return min(0.95, (0.45 if general else 0.55) + 0.4 * weight)


def is_everywhere(facts: Facts, ranks: Sequence[int], at_start: bool) -> bool:
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
    stopped = {r for r, exits in facts.exits.items() if any(e.code == -15 for e in exits)} - set(spoken(facts))
    rest = set(expected) - set(ranks) - stopped
    nodes = set(facts.topology.nodes_of(expected))
    return not rest and len(nodes) > 1 and set(facts.topology.nodes_of(ranks)) == nodes


def causes(facts: Facts) -> list[Incident]:
    """Incidents that can come first by what they say; launchers only report how processes ended."""
    launchers = (
        "torchrun.worker_failed",
        "torchrun.report_entry",
        "torchrun.death_signal",
        "slurm.task_exit",
        "mpi.rank_exited",
        "composer.rank_crashed",
        "spawn.process_exited",
    )
    return [i for i in facts.incidents if i.role == "initiator" and i.event not in launchers]


def spoken(facts: Facts) -> dict[int, Row]:
    """Ranks that printed an error in the judged attempt, their own or a peer's, with its first row.

    Launchers' words do not count.
    """
    found: dict[int, Row] = {}
    for incident in facts.incidents:
        if not facts.may_be_judged(incident):
            continue
        if incident.role in ("initiator", "collateral") and not incident.event.startswith(("torchrun.", "slurm.")):
            for rank in incident.ranks:
                found.setdefault(rank, incident.rows[0])
    return found
