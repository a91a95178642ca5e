"""What the logs say of one part, judged but not yet masked: everything that goes into its case."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from correlator.bundle import story
from correlator.bundle.attachments import Candidate, find_attachments
from correlator.bundle.checklist import run_checklist
from correlator.bundle.decision import decide
from correlator.bundle.excerpts import Quote, find_quotes
from correlator.bundle.excluded import other_causes
from correlator.bundle.identity import identity_of, software_of, vendor_of
from correlator.bundle.labels import labels_of
from correlator.bundle.model import Decision, Excluded, Fact, FactGroup, Head, Labels, Place, Reading, Sign, Test
from correlator.bundle.sources import Sources
from correlator.bundle.subject import Choice, Subject, choose_subject, in_time, rows_about
from correlator.bundle.timeline import timeline_rows
from correlator.diagnosis import Document
from correlator.records import Row, moment
from correlator.report.sayings import job_line
from correlator.timestamps import SECOND

if TYPE_CHECKING:
    from correlator.pipeline import Diagnosis


@dataclass(slots=True)
class Gathered:
    """The parts of the case of ``subject``. ``problems``: files that could not be read, and what was left out."""

    subject: Subject
    decision: Decision
    head: Head
    labels: Labels
    identity: list[FactGroup]
    software: list[Fact]
    first_fault: list[Sign]
    why_first: str
    collateral: list[str]
    counters: list[Reading]
    tests: list[Test]
    excluded: list[Excluded]
    history: list[Sign]
    actions_taken: list[Sign]
    candidates: list[Candidate]
    timeline: list[Row]
    more_rows: int = 0
    quotes: list[Quote] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def gather(diagnosis: Diagnosis, sources: Sources, choice: Choice, tool: str) -> Gathered:
    """Chooses the part and reads, for its case, the event table and the files that are quoted.

    Raises UsageError for a choice that the logs do not allow.
    """
    document, facts = diagnosis.document, diagnosis.facts
    problems: list[str] = []
    subject = choose_subject(document, facts, choice)
    about = rows_about(facts, subject)
    on_node = in_time([row for row in facts.rows if subject.is_on_node(row)])
    vendor = vendor_of(about)
    fault = _fault_ns(document, subject, about)
    candidates = find_attachments(facts, sources, subject, problems)
    identity = identity_of(subject, vendor, about, on_node)
    tests = run_checklist(subject, vendor, about, on_node, candidates, fault)
    decision = decide(document, subject, vendor, about, tests, identity)
    timeline, more = timeline_rows(document, facts, subject)
    gathered = Gathered(
        subject=subject,
        decision=decision,
        head=_head(document, subject, fault, tool),
        labels=labels_of(document, subject, decision, about),
        identity=identity,
        software=software_of(subject, vendor, on_node),
        first_fault=story.first_fault(document, facts, about),
        why_first=story.why_first(document, subject),
        collateral=story.collateral(document),
        counters=story.counters(about, fault),
        tests=tests,
        excluded=other_causes(document, about, on_node, candidates),
        history=story.history(about, fault),
        actions_taken=story.actions_taken(facts, subject),
        candidates=candidates,
        timeline=timeline,
        more_rows=more,
        problems=problems,
    )
    wanted = story.wanted_quotes(document, facts, subject, about, {(s.file, s.line) for s in _cited(gathered)})
    gathered.quotes = find_quotes(sources, diagnosis.table, wanted, problems)
    return gathered


def _fault_ns(document: Document, subject: Subject, about: list[Row]) -> int | None:
    """When the part failed, UTC nanoseconds: as the verdict has it, or its first grave row."""
    if subject.is_initiator and document.initiator.time is not None:
        return int(document.initiator.time.timestamp() * SECOND)
    return next((row.time for row in about if row.severity in ("error", "fatal") and row.time is not None), None)


def _head(document: Document, subject: Subject, fault: int | None, tool: str) -> Head:
    verdict = document.verdict
    return Head(
        node=subject.node,
        job=job_line(document.job),
        time=moment(fault),
        time_uncertainty_s=document.initiator.time_uncertainty_s if subject.is_initiator else None,
        clock=story.clock_words(document, subject),
        failure_class=verdict.class_,
        signature=verdict.signature,
        title=verdict.title,
        summary=verdict.summary,
        confidence=verdict.confidence,
        is_initiator=subject.is_initiator,
        tool=tool,
    )


def _cited(found: Gathered) -> list[Place]:
    """The places that the case points to."""
    signs = [*found.first_fault, *found.history, *found.actions_taken]
    signs += [sign for criterion in found.decision.criteria for sign in criterion.signs]
    facts = [fact for group in found.identity for fact in group.facts]
    places = [
        *(sign.source for sign in signs),
        *(fact.source for fact in facts),
        *(reading.source for reading in found.counters),
        *(test.source for test in found.tests),
        *(cause.source for cause in found.excluded),
    ]
    return [place for place in places if place is not None]
