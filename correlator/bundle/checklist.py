"""Which diagnostic steps were done, with what result, and which are still to do, with their commands."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from correlator.bundle.attachments import Candidate
from correlator.bundle.identity import filled
from correlator.bundle.matching import Match, last_time, load_data, matching
from correlator.bundle.model import PartKind, Place, Test, TestStatus
from correlator.bundle.subject import Subject
from correlator.records import Row


class _Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    name: str
    title: str
    vendors: list[str]
    parts: list[PartKind]
    why: str
    command: str | None = None
    attachments: list[str] = []
    needs_events: list[str] = []
    done: list[Match] = []
    fault: list[Match] = []
    passed: list[Match] = []
    comes_back: list[Match] = []

    @property
    def has_results(self) -> bool:
        """Whether having done it says nothing yet: its result counts."""
        return bool(self.fault or self.comes_back)


def run_checklist(
    subject: Subject, vendor: str, about: Sequence[Row], on_node: Sequence[Row], attached: Sequence[Candidate],
    fault_ns: int | None,
) -> list[Test]:  # fmt: skip
    """All steps that are asked for such a part. ``fault_ns``: time of the fault; a power cycle counts after it only."""
    steps = msgspec.convert(load_data("tests")["test"], list[_Step])
    return [
        _judged(step, subject, about, on_node, attached, fault_ns)
        for step in steps
        if subject.kind in step.parts and vendor in step.vendors
    ]


def _judged(
    step: _Step, subject: Subject, about: Sequence[Row], on_node: Sequence[Row], attached: Sequence[Candidate],
    fault_ns: int | None,
) -> Test:  # fmt: skip
    status, source, result = _result(step, about, on_node, attached, fault_ns)
    command = filled(step.command, subject) if step.command else None
    confirms = status == "fault" or (status == "done" and not step.has_results)
    return Test(step.id, step.name, step.title, status, confirms, result, subject.node, command, step.why, source)


def _result(
    step: _Step, about: Sequence[Row], on_node: Sequence[Row], attached: Sequence[Candidate], fault_ns: int | None
) -> tuple[TestStatus, Place | None, str | None]:
    for status, matches, rows in (("fault", step.fault, about), ("passed", step.passed, about)):
        if found := matching(rows, matches):
            text = "; ".join(dict.fromkeys(_told(row) for row in found[:4]))
            return status, Place(found[-1].file, found[-1].line), text  # type: ignore[return-value]
    for boot in matching(on_node, step.comes_back):
        booted = last_time(boot)
        if fault_ns is not None and booted is not None and booted > fault_ns:
            again = [row for row in about if row.severity in ("error", "fatal") and (last_time(row) or 0) > booted]
            if again:
                return "fault", Place(again[0].file, again[0].line), f"it is back: {_told(again[0])}"
            return "done", Place(boot.file, boot.line), "no error of the part is logged since"
    for row in matching(on_node, step.done):
        return "done", Place(row.file, row.line), None
    if step.needs_events and not any(row.event in step.needs_events for row in about):
        return "not done", None, None
    for candidate in attached:
        if candidate.kind in step.attachments and step.has_results:
            return "not done", Place(candidate.file, 1), "the file holds no result"
        if candidate.kind in step.attachments:
            return "done", Place(candidate.file, 1), None
    return "not done", None, None


def _told(row: Row) -> str:
    words = [row.attr(name) for name in ("test", "result", "status", "code", "warning") if row.attr(name)]
    return ": ".join(words) or " ".join(row.body.split())[:120]
