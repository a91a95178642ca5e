"""Whether the part can be sent back on this evidence, by the rules that vendors publish, and what is missing for it.

An Xid alone never meets a rule. Where the logs show what a rule asks for and a confirming test is not among them, the
answer is ``insufficient``, and the test is named with its command. A part that no rule and no verdict speaks against is
``not-hardware``.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from correlator.bundle.identity import filled
from correlator.bundle.matching import Match, load_data, matching, sign_of
from correlator.bundle.model import Criterion, CriterionStatus, Decision, FactGroup, Missing, PartKind, Test
from correlator.bundle.subject import Subject
from correlator.diagnosis import Document
from correlator.phrases import inside
from correlator.records import Row

#: Lines shown of one rule.
_SIGNS = 6
#: Always asked for, whatever the rule.
_ALWAYS = ("bug-report", "kernel-log", "nvidia-smi", "amd-diagnostic")


class _Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    title: str
    parts: list[PartKind]
    vendors: list[str]
    rule: str
    basis: str
    source: str
    shown_by: list[Match]
    confirm: list[str]
    suggested_by: list[Match] = []
    contradicted_by: list[Match] = []
    reading: str | None = None


def decide(
    document: Document, subject: Subject, vendor: str, about: Sequence[Row], tests: Sequence[Test],
    identity: Sequence[FactGroup],
) -> Decision:  # fmt: skip
    """The decision about the part. ``about``: its rows in the order of time."""
    rules = msgspec.convert(load_data("criteria")["criterion"], list[_Rule])
    by_id = {test.id: test for test in tests}
    fitting = [rule for rule in rules if subject.kind in rule.parts and vendor in rule.vendors]
    judged = [found for rule in fitting if (found := _judged(rule, about, by_id)) is not None]
    order: dict[CriterionStatus, int] = {"met": 0, "shown": 1, "suggested": 2, "contradicted": 3}
    judged.sort(key=lambda criterion: order[criterion.status])
    live = [criterion for criterion in judged if criterion.status != "contradicted"]
    met = [criterion for criterion in judged if criterion.status == "met"]
    class_ = document.verdict.class_
    part = subject.words()
    if met:
        headline = f"{part}: meets the criteria for a return"
        why = " ".join(f"{criterion.title}. Rule: {criterion.rule}" for criterion in met)
        return Decision("meets-criteria", headline, why, judged, [])
    suspected = subject.is_initiator and class_ in ("hardware", "unknown")
    if not live and not suspected:
        said = f"the verdict of the logs is '{class_}': {document.verdict.title.rstrip('.') or 'nothing failed'}"
        return Decision(
            "not-hardware",
            f"{part}: these logs show no hardware fault",
            f"{said}; no line about this part fulfils or suggests a rule for a return.",
            judged,
            [],
        )
    missing = _missing(live, tests, subject, identity)
    shown = [inside(criterion.title) for criterion in live if criterion.status == "shown"]
    words = f"shown: {', '.join(shown)}" if shown else "no rule is shown by the logs so far"
    listed = ", ".join(dict.fromkeys(entry.what for entry in missing)) or "nothing that could be named"
    return Decision(
        "insufficient",
        f"{part}: insufficient for a return; missing: {listed}",
        f"{words}; not confirmed as the rules ask. An error number alone is no reason for a return.",
        judged,
        missing,
    )


def _judged(rule: _Rule, about: Sequence[Row], tests: dict[str, Test]) -> Criterion | None:
    """How far the rule is fulfilled; None where nothing points to it."""
    shown, suggested = matching(about, rule.shown_by), matching(about, rule.suggested_by)
    against = matching(about, rule.contradicted_by)
    signs = shown or suggested
    if not signs:
        return None
    last = signs[-1].time
    refuted = [row for row in against if not shown and last is not None and row.time is not None and row.time > last]
    refuting = [tests[name] for name in rule.confirm if name in tests and tests[name].status == "passed"]
    unconfirmed = [name for name in rule.confirm if name in tests and not tests[name].confirms]
    if not shown and rule.reading and rule.reading not in unconfirmed:
        unconfirmed.insert(0, rule.reading)
    status: CriterionStatus = "shown" if shown else "suggested"
    if shown and not unconfirmed:
        status = "met"
    elif refuted or refuting:
        status = "contradicted"
    signs = [*signs[:_SIGNS], *refuted[:1]]
    kinds = [*rule.shown_by, *rule.suggested_by, *rule.contradicted_by]
    unique = list(dict.fromkeys(sign_of(row, kinds) for row in signs))
    names = [tests[name].name for name in unconfirmed if name in tests]
    return Criterion(rule.id, rule.title, rule.rule, rule.basis, rule.source, status, unique, names)


def _missing(
    live: Sequence[Criterion], tests: Sequence[Test], subject: Subject, identity: Sequence[FactGroup]
) -> list[Missing]:
    """What is missing, what the rules ask for first; then what every vendor asks for."""
    asked: dict[str, str] = {}
    for criterion in live:
        for name in criterion.unconfirmed:
            asked.setdefault(name, f"asked for by the rule '{inside(criterion.title)}'")
    for test in tests:
        if test.id in _ALWAYS:
            asked.setdefault(test.name, "asked for with every return")
    by_name = {test.name: test for test in tests}
    found = [
        Missing(name, subject.node, by_name[name].command, f"{why}: {by_name[name].why}")
        for name, why in asked.items()
        if not by_name[name].confirms and by_name[name].status != "passed"
    ]
    for group in identity:
        for fact in group.facts:
            if fact.value is None and fact.name in ("Serial number", "System serial (service tag)"):
                if subject.kind == "gpu" and fact.name != "Serial number":
                    continue
                command = filled(fact.missing, subject) if fact.missing else None
                found.append(Missing(fact.name, subject.node, command, "nothing is exchanged without it"))
    return found
