"""What happened to the part and to its node: the first fault and its collateral, counters, history, steps taken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from correlator.bundle.matching import Match, matching, sign_of
from correlator.bundle.model import Place, Reading, Sign
from correlator.bundle.subject import Subject, in_time
from correlator.cascade.model import Facts
from correlator.diagnosis import Document
from correlator.phrases import named_ranks
from correlator.records import Row, moment

#: Lines shown of each list.
_LISTED = 40
_COUNTERS = frozenset(
    {"gpu.counters", "gpu.nvlink_errors", "gpu.remapped_rows", "gpu.ecc_errors", "nic.link_down_counter"}
)
_NOT_VALUES = frozenset({"uuid", "serial", "model"})
#: Lines that say that somebody did something to the part or its node.
_TAKEN = [
    Match(event="kernel.boot"), Match(event="kernel.shutdown"), Match(event="slurm.admin_reason"),
    Match(event="slurm.node_down"),
    Match(event="slurm.requeue"),
    Match(event="kernel.amdgpu", where={"what": ["reset-begin", "reset-done", "reset-failed"]}),
    Match(event="kernel.nvidia_driver"),
]  # fmt: skip
_FAULTS = ("error", "fatal")


def first_fault(document: Document, facts: Facts, about: Sequence[Row]) -> list[Sign]:
    """The first error of the diagnosis if it is about the part, and the first errors of the part itself."""
    first = document.initiator.first_error
    rows = [row for row in facts.rows if first and (row.file, row.byte_offset) == (first.file, first.byte_offset)]
    own = [row for row in about if row.severity in _FAULTS]
    return list(dict.fromkeys(sign_of(row) for row in [*rows[:1], *own[:3]]))


def why_first(document: Document, subject: Subject) -> str:
    """The sentence of the diagnosis on why this came first; for another part, that it did not."""
    if not subject.is_initiator:
        return "This part is not the one that failed first in this job; the bundle was asked for by name."
    return next((entry.why for entry in document.evidence if entry.supports == "initiator"), document.verdict.summary)


def clock_words(document: Document, subject: Subject) -> str:
    """The node's clock against the others', as far as the logs bound it."""
    clock = next((clock for clock in document.clocks if clock.node == subject.node), None)
    if clock is None or len(document.clocks) < 2:
        return ""
    if clock.basis == "reference":
        return "the times shown are by this node's clock"
    if clock.offset_s is None or clock.bound_s is None:
        return "by this node's own clock; nothing in the logs ties it to the others"
    return f"corrected: this node's clock is {clock.offset_s:+.3f} s (± {clock.bound_s:.3f} s) off the reference"


def collateral(document: Document) -> list[str]:
    """What followed from the first fault, one line a kind of occurrence."""
    found: dict[str, set[int]] = {}
    for event in document.cascade:
        if event.role in ("collateral", "teardown"):
            found.setdefault(f"{event.what} ({event.role})", set()).update(event.ranks)
    return [f"{what}: {named_ranks(sorted(ranks))}" if ranks else what for what, ranks in found.items()][:_LISTED]


def counters(about: Sequence[Row], fault_ns: int | None) -> list[Reading]:
    """Counters of the part, snapshot by snapshot. ``fault_ns``: corrected time of the fault."""
    return [
        Reading(Place(row.file, row.line), moment(row.time), _relative(row, fault_ns), _values(row))
        for row in about
        if row.event in _COUNTERS
    ]


def _relative(row: Row, fault_ns: int | None) -> Literal["before", "after", "unknown"]:
    if row.time is None or fault_ns is None or row.timestamp_basis not in ("printed", "transport", "inherited"):
        return "unknown"
    return "before" if row.time < fault_ns else "after"


def _values(row: Row) -> dict[str, str]:
    return {name: text for name, text in sorted(row.attributes.items()) if name not in _NOT_VALUES}


def history(about: Sequence[Row], fault_ns: int | None) -> list[Sign]:
    """Earlier errors of the same part in these logs, episodes first; the same text counts once a file."""
    earlier = (row for row in about if row.severity in (*_FAULTS, "warning") and _is_earlier(row, fault_ns))
    unique = {(row.file, row.event, row.xid, row.time): sign_of(row) for row in earlier}
    return list(unique.values())[:_LISTED]


def _is_earlier(row: Row, fault_ns: int | None) -> bool:
    return row.time is not None and fault_ns is not None and row.time < fault_ns


def actions_taken(facts: Facts, subject: Subject) -> list[Sign]:
    """Boots, resets and changes of state of the node that the logs record."""
    rows = (row for row in facts.rows if subject.is_on_node(row) and (row.node or subject.node is None))
    return [sign_of(row) for row in in_time(matching(rows, _TAKEN))][:_LISTED]


def wanted_quotes(
    document: Document, facts: Facts, subject: Subject, about: Sequence[Row], cited: set[tuple[str, int]]
) -> Iterator[tuple[Row, str]]:
    """Rows worth an excerpt with the reason, the most important first. ``cited``: lines that the case names."""
    by_place = {(row.file, row.byte_offset): row for row in facts.rows}
    for entry in document.evidence:
        if entry.supports != "resume" and (row := by_place.get((entry.file, entry.byte_offset))):
            yield row, entry.why
    for row in about:
        if row.severity in _FAULTS:
            yield row, "an error of the part"
    for row in facts.rows:
        if (row.file, row.line) in cited:
            yield row, "named in the case"
    for row in about:
        if row.severity == "warning" or row.event in _COUNTERS:
            yield row, "a line about the part"
    collateral_lines = ((c.evidence.file, c.evidence.line) for c in document.cascade if c.evidence)
    places = {(row.file, row.line): row for row in facts.rows}
    for place in dict.fromkeys(collateral_lines):
        if place in places:
            yield places[place], "what followed"
