"""What shows who failed first, in one sentence a kind of evidence; and when that was, as far as the lines bound it."""

from __future__ import annotations

from correlator.attribution.sources import heard_ranks
from correlator.cascade.flight import RULES_ON_DUMPS
from correlator.cascade.model import Facts, Finding, Incident
from correlator.phrases import agree, named_ranks
from correlator.records import Row

#: Events with which a launcher shows that a process of its node was gone by then.
_SEEN_DEAD = ("torchrun.worker_failed", "torchrun.signal_sent", "torchrun.child_failed", "torchrun.report_entry")
#: Events of those who speak about ranks from outside.
_OUTSIDE = ("torchrun.", "slurm.", "mpi.", "kernel.", "k8s.")
#: What the proof is, by kind of evidence.
_BY = {
    "exit": "the report of the exit is the proof",
    "accusation": "other ranks name it as the lost peer",
    "protocol": "what the others wait for is the proof",
    "silence": "its absence from what the others report is the proof",
}


def shown_by(facts: Facts, chosen: Finding) -> str:
    """The sentence for a rank that printed no error of its own; empty where its own line is the proof."""
    ranks = chosen.incident.ranks
    told = chosen.rule in RULES_ON_DUMPS or chosen.trust in ("outside", "local")
    if told or not ranks or has_own_error(facts, ranks):
        return ""
    several = len(ranks) > 1
    who = _capital(named_ranks(ranks))
    if any(
        i.role == "collateral" and not i.event.startswith(_OUTSIDE) and set(i.ranks) & set(ranks)
        for i in facts.incidents
    ):
        return f"{who} printed only what a waiter prints; the comparison with the other ranks tells."
    printed = f"{who} printed no error"
    if not set(ranks) & heard_ranks(facts):
        printed = f"No line is known to be of {named_ranks(ranks)}"
    codes = sorted({e.code for r in ranks for e in facts.exits.get(r, ()) if e.code})
    if len(codes) == 1:
        return f"{printed}; {'their' if several else 'its'} launcher reports exit code {codes[0]}."
    return f"{printed}; {_BY.get(chosen.trust, 'the pattern of the other lines is the proof')}."


#: Emitters whose lines are about a rank's process and not by it.
_SPEAK_ABOUT_RANKS = frozenset(
    {"torchrun", "slurm", "composer", "mpi", "hydra", "deepspeed", "kernel", "k8s", "pbs", "lsf"}
)


def has_own_error(facts: Facts, ranks: tuple[int, ...]) -> bool:
    """Whether a traceback, a crash or another error of their own is among the judged attempt's lines of these ranks."""
    own = (i for i in facts.incidents if facts.may_be_judged(i) and i.event.partition(".")[0] not in _SPEAK_ABOUT_RANKS)
    return any(i.role == "initiator" and set(i.ranks) & set(ranks) for i in own)


def time_of(facts: Facts, incident: Incident) -> tuple[int | None, int | None]:
    """When it happened (corrected ns) and the half width; the latter None: the time is the last sign of life before.

    A line without a stamp of its own lies between the stamp before it and the first stamp with which the launcher of
    its node shows that it was over; what a launcher tells of a rank, between the rank's last line and the telling.
    """
    if incident.time is None or not incident.inherited:
        return incident.time, incident.bound
    alive = _last_own_sign(facts, incident)
    if alive is not None and alive < incident.time:
        return (alive + incident.time) // 2, (incident.time - alive) // 2
    after = [r.time for r in facts.rows if r.time is not None and r.time >= incident.time and _bounds(incident, r)]
    if not after:
        return incident.time, None
    return (incident.time + min(after)) // 2, (min(after) - incident.time) // 2


def _last_own_sign(facts: Facts, incident: Incident) -> int | None:
    """Where the line is the launcher's about one rank: when that rank wrote its last line (corrected ns)."""
    if incident.event.partition(".")[0] not in _SPEAK_ABOUT_RANKS or len(incident.ranks) != 1:
        return None
    known = facts.topology.ranks.get(incident.ranks[0])
    return None if known is None else facts.clocks.corrected(known.node, known.last_ns)


def _bounds(incident: Incident, row: Row) -> bool:
    first = incident.first
    if row.timestamp_basis not in ("printed", "transport") or first is None:
        return False
    same_file = row.file == first.file and row.byte_offset > first.byte_offset
    return row.event in _SEEN_DEAD and (same_file or (row.node is not None and row.node in incident.nodes))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def once(why: str, ranks_in_job: int | None) -> str:
    """A reason without the clause about the others where there are no others."""
    if ranks_in_job == 1:
        why = why.split("; what the others print", 1)[0]
    return agree(why)
