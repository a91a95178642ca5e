"""Did anything fail at all? A run is clean on positive evidence, not for want of errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from correlator.cascade.ends import completions, is_before_end, stopped_after_the_end
from correlator.cascade.model import Facts, Finding
from correlator.records import Row


@dataclass(frozen=True, slots=True)
class Outcome:
    """``failed``: true, false, or None when neither an error nor an end of the run is in the logs."""

    failed: bool | None
    why: str
    rows: tuple[Row, ...] = ()


def outcome_of(facts: Facts, findings: Sequence[Finding]) -> Outcome:
    """Whether the job failed, with the rows that say so."""
    ends = completions(facts)
    causes = [i for i in facts.incidents if i.role == "initiator"]
    complaints = [i for i in facts.incidents if i.role == "collateral"]
    if facts.failed_exits:
        return Outcome(True, "a launcher or the scheduler reports an abnormal exit")
    if stopped_after_the_end(facts):
        return Outcome(True, "training was done, but the job did not end by itself")
    if ends and not [i for i in causes if not is_before_end(facts, i, ends)] and not facts.events("torchrun.restart"):
        return Outcome(False, "the run reports its own orderly end and no process ended abnormally", tuple(ends[-3:]))
    if causes or any(f.trust in ("outside", "local", "exit") for f in findings):
        return Outcome(True, "an error of its own is reported")
    if complaints and not ends:
        return Outcome(True, "ranks report lost or missing peers")
    if any(f.trust in ("silence", "protocol") for f in findings):
        return Outcome(True, "ranks stopped apart from each other")
    return Outcome(None, "neither an error nor an orderly end is in the logs")
