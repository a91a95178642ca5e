"""From the ranked findings to the words and structures of the diagnosis."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from correlator.attribution.actions import actions_for, collect, missing_sources, verify_for
from correlator.attribution.confidence import confidence
from correlator.attribution.initiator import Ranked
from correlator.attribution.numbers import numbers_of
from correlator.attribution.outcome import Outcome
from correlator.attribution.shown import has_own_error, once, shown_by, time_of
from correlator.cascade.graph import not_after
from correlator.cascade.model import Facts, Finding
from correlator.diagnosis import (
    Action,
    Alternative,
    Collateral,
    Evidence,
    Gpu,
    Initiator,
    Place,
    RuledOut,
    Verdict,
    Verify,
)
from correlator.phrases import agree, named_ranks, sentence
from correlator.records import Row, moment
from correlator.signatures import Signature

#: Gives the raw text of the lines a row was made from.
RawText = Callable[[Row], str]

_EVIDENCE_LIMIT = 8
_MANY_RANKS = 64


def attribute(
    facts: Facts, ranked: Sequence[Ranked], outcome: Outcome, raw: RawText, job_id: str | None = None
) -> tuple[Verdict, Initiator, list[Evidence], list[Alternative], list[RuledOut], list[Action], Verify]:
    """The verdict and everything that carries it. A run that did not fail has class ``none`` and no initiator."""
    if outcome.failed is False:
        return _nothing_failed(outcome, raw, ranked)
    if not ranked:
        return _undecided(facts, outcome, raw)
    chosen = ranked[0].finding
    signature = facts.signatures.get(chosen.signature or "")
    sure = confidence(ranked)
    numbers = numbers_of(facts, chosen, signature)
    verdict = Verdict(
        class_=chosen.class_,
        subclass=chosen.subclass,
        signature=chosen.signature or "unknown",
        title=agree(chosen.title),
        summary=_summary(facts, chosen, signature, numbers.finding if numbers else ""),
        confidence=sure,
    )
    return (
        verdict,
        _initiator(facts, chosen, raw),
        _evidence(facts, chosen, ranked, raw),
        [_alternative(facts, r, sure) for r in _rivals(ranked)],
        _ruled_out(facts, chosen),
        actions_for(facts, chosen, signature, job_id, numbers.advice if numbers else ""),
        verify_for(facts, signature),
    )


def _nothing_failed(
    outcome: Outcome, raw: RawText, ranked: Sequence[Ranked]
) -> tuple[Verdict, Initiator, list[Evidence], list[Alternative], list[RuledOut], list[Action], Verify]:
    evidence = [_line("verdict", row, raw, 0.9, outcome.why) for row in outcome.rows]
    survived = [RuledOut(r.finding.title, "the run went on after it and ended in good order") for r in ranked[:3]]
    verdict = Verdict("none", None, "none", "Nothing failed", f"No failure is in these logs: {outcome.why}.", 0.9)
    return verdict, Initiator(), evidence, [], survived, [], Verify()


def _undecided(
    facts: Facts, outcome: Outcome, raw: RawText
) -> tuple[Verdict, Initiator, list[Evidence], list[Alternative], list[RuledOut], list[Action], Verify]:
    what = "Ended without an error" if outcome.failed is None else "Failed, but nothing in the logs says why"
    missing = missing_sources(facts)
    summary = sentence(f"{outcome.why[:1].upper()}{outcome.why[1:]}")
    told = [i for i in facts.incidents if i.role != "teardown"] or facts.incidents  # who stops others complains of none
    rows = sorted((i.rows[0] for i in told), key=lambda r: (r.time is None, r.time or 0, r.file, r.byte_offset))
    last = facts.last_progress
    evidence = [_line("verdict", r, raw, 0.3, "among the first complaints") for r in rows[:3]]
    if last is not None:
        evidence.append(_line("verdict", last, raw, 0.3, "the last step that was completed"))
    verdict = Verdict("unknown", None, "unknown", what, summary, 0.3)
    return verdict, Initiator(), evidence, [], [], [collect(m) for m in missing[:3]], Verify()


def _summary(facts: Facts, chosen: Finding, signature: Signature | None, numbers: str) -> str:
    parts = [sentence(f"{agree(chosen.title).rstrip('.')}: {once(chosen.why, facts.topology.world_size)}")]
    parts += filter(None, [numbers, shown_by(facts, chosen)])
    grid, ranks = facts.topology.grid, chosen.incident.ranks
    if grid is not None and len(ranks) == 1 and ranks[0] < grid.world_size:
        place = grid.coordinates(ranks[0])
        parts.append(
            f"Rank {ranks[0]} is "
            + ", ".join(f"{a} {place[a]}" for a in ("tp", "cp", "pp", "dp") if grid.size(a) > 1)
            + "."
        )
    if signature is not None and signature.mechanism:
        parts.append(signature.mechanism)
    if chosen.class_ == "unknown":
        parts.append("The logs do not decide whose fault it is.")
    return " ".join(parts)


def _initiator(facts: Facts, chosen: Finding, raw: RawText) -> Initiator:
    incident, top = chosen.incident, facts.topology
    ranks = list(incident.ranks)
    row = incident.first
    gpus = []
    for rank in ranks[:_MANY_RANKS] if chosen.scope in ("rank", "ranks") else []:
        known = top.ranks.get(rank)
        if known and (known.pci_bus_id or known.gpu is not None):
            bus = known.pci_bus_id
            gpus.append(
                Gpu(
                    known.node,
                    known.gpu if known.gpu is not None else known.local_rank,
                    bus,
                    top.gpu_uuid.get((known.node, bus)) if bus else None,
                    top.gpu_serial.get((known.node, bus)) if bus else None,
                )
            )
    if not gpus and row is not None and row.pci_bus_id:
        where = (row.node, row.pci_bus_id)
        gpus.append(Gpu(row.node, row.gpu, row.pci_bus_id, top.gpu_uuid.get(where), top.gpu_serial.get(where)))
    time, bound = time_of(facts, incident)
    if not incident.inherited:
        time = not_after(facts, chosen)
    step = next((r.step for r in incident.rows if r.step is not None), None)
    return Initiator(
        ranks=ranks,
        nodes=list(incident.nodes),
        gpus=gpus,
        scope=chosen.scope,
        silent=chosen.silent and not has_own_error(facts, incident.ranks),
        time=moment(time),
        time_uncertainty_s=None if bound is None or time is None else round(bound / 1e9, 3),
        step=step if step is not None else facts.step_near(incident.time if bound is not None else None),
        first_error=_place(row, raw) if row is not None else None,
    )


def _place(row: Row, raw: RawText) -> Place:
    return Place(row.file, row.line, row.byte_offset, raw(row))


def _line(supports: str, row: Row, raw: RawText, weight: float, why: str) -> Evidence:
    return Evidence(supports, row.file, row.line, row.byte_offset, raw(row), round(weight, 2), why)  # type: ignore[arg-type]


def _evidence(facts: Facts, chosen: Finding, ranked: Sequence[Ranked], raw: RawText) -> list[Evidence]:
    """The proving lines: different kinds first, then agreeing findings; never the same text twice."""
    why = once(chosen.why, facts.topology.world_size)
    found: list[Evidence] = []
    seen: set[object] = set()
    kinds: set[str] = set()

    def add(rows: Iterable[Row], supports: str, weight: float, why: str, one_a_kind: bool) -> None:
        for row in rows:
            key = (row.file, row.byte_offset)
            if (
                len(found) < _EVIDENCE_LIMIT
                and key not in seen
                and not (one_a_kind and row.event + str(row.signature) in kinds)
            ):
                seen.add(key)
                kinds.add(row.event + str(row.signature))
                found.append(_line(supports, row, raw, weight, why))

    add(chosen.incident.rows, "initiator", chosen.strength, why, one_a_kind=True)
    own = set(chosen.incident.ranks)
    for rival in ranked[1:]:
        if own and own == set(rival.finding.incident.ranks):
            add(
                rival.finding.incident.rows,
                "initiator",
                rival.finding.strength,
                agree(rival.finding.why),
                one_a_kind=True,
            )
    add(chosen.incident.rows, "verdict", chosen.strength * 0.8, why, one_a_kind=False)
    return found


def _rivals(ranked: Sequence[Ranked]) -> list[Ranked]:
    own = ranked[0].finding
    distinct = {(own.signature, own.incident.ranks)}
    found = []
    for rival in ranked[1:]:
        key = (rival.finding.signature, rival.finding.incident.ranks)
        if key not in distinct and not (own.incident.ranks and own.incident.ranks == rival.finding.incident.ranks):
            distinct.add(key)
            found.append(rival)
    return found[:3]


def _alternative(facts: Facts, rival: Ranked, sure: float) -> Alternative:
    finding = rival.finding
    who = f"{named_ranks(finding.incident.ranks)}: " if finding.incident.ranks else ""
    return Alternative(
        class_=finding.class_,
        signature=finding.signature or "unknown",
        confidence=round(max(0.02, min(finding.strength * (1 - sure), 1 - sure)), 2),
        why=f"{who}{agree(finding.title)}; {once(finding.why, facts.topology.world_size)}",
        control=finding.control or "A repeat of the run with the suspect node left out.",
    )


def _ruled_out(facts: Facts, chosen: Finding) -> list[RuledOut]:
    out = []
    waiters = sorted(
        {r for i in facts.incidents if i.role == "collateral" for r in i.ranks} - set(chosen.incident.ranks)
    )
    if waiters:
        out.append(
            RuledOut(
                f"{named_ranks(waiters)} failed first",
                f"{'they only report' if len(waiters) > 1 else 'it only reports'} peers that were lost or did not come",
            )
        )
    kernel_nodes = {r.node for r in facts.rows if r.emitter == "kernel" and r.node}
    faults = [i for i in facts.incidents if i.event.startswith("kernel.") and i.role == "initiator"]
    if kernel_nodes and not faults:
        out.append(
            RuledOut(
                "a device or memory error on " + ", ".join(sorted(kernel_nodes)),
                "the kernel log collected there shows none",
            )
        )
    reports = [r for r in facts.events("torchrun.report_entry") if r.attr("is_root") == "true" and r.rank is not None]
    blamed = sorted({r.rank for r in reports if r.rank is not None} - set(chosen.incident.ranks))
    if blamed and chosen.incident.ranks:
        out.append(
            RuledOut(
                f"{named_ranks(blamed)}, as named under 'Root Cause (first observed failure)'",
                "that block is written per node, in the order in which its launcher noticed the exits",
            )
        )
    return out


def collateral_of(facts: Facts, initiator: Initiator) -> Collateral:
    """The ranks that only suffered: those with complaints about peers that are not the initiator's."""
    ranks = sorted(
        {r for i in facts.incidents if i.role in ("collateral", "teardown") for r in i.ranks} - set(initiator.ranks)
    )
    return Collateral(ranks, len(ranks))
