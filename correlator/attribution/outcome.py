"""Did anything fail at all? A run is clean on positive evidence, not for want of errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from correlator.cascade.incidents import is_uncaught
from correlator.cascade.model import Facts, Finding, Incident, interval
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
    if ends and not [i for i in causes if not _before_end(facts, i, ends)] and not facts.events("torchrun.restart"):
        return Outcome(False, "the run reports its own orderly end and no process ended abnormally", tuple(ends[-3:]))
    if causes or any(f.trust in ("outside", "local", "exit") for f in findings):
        return Outcome(True, "an error of its own is reported")
    if complaints and not ends:
        return Outcome(True, "ranks report lost or missing peers")
    if any(f.trust in ("silence", "protocol") for f in findings):
        return Outcome(True, "ranks stopped apart from each other")
    return Outcome(None, "neither an error nor an orderly end is in the logs")


def completions(facts: Facts) -> list[Row]:
    """Rows that report the orderly end of the run: a closing line, an orderly stop, or the last step of all."""
    ends = facts.events("trainer.completed", "trainer.stopped")
    # Saving and leaving on a signal is an orderly stop, but somebody stopped the job.
    ends += [r for r in facts.events("megatron.exit") if "SIGTERM" not in r.body]
    ends += [r for r in facts.events("shell.exit_status") if r.exit_code == 0]
    for row in facts.progress:
        total = row.attr("total")
        if (
            row.step is not None
            and total.isdecimal()
            and row.step >= int(total) > 1
            and row.event == "megatron.iteration"
        ):
            ends.append(row)
    return ends


def _before_end(facts: Facts, incident: Incident, ends: Sequence[Row]) -> bool:
    """Whether an error certainly lies before a later orderly end of the run, in the same stream or by the clock.

    A traceback of unknown time counts as before if it was caught on its way: the run came to its end all the same.
    """
    row = incident.first
    if row is not None and incident.inherited and row.attr("frames") and not is_uncaught(row):
        return True
    return row is not None and any(
        (end.file == row.file and end.byte_offset > row.byte_offset) or _is_later(facts, end, row) for end in ends
    )


def _is_later(facts: Facts, end: Row, row: Row) -> bool:
    """By the clock of the one node, where it is one; else beyond what the clocks of the two leave open."""
    if end.time is None or row.time is None or row.timestamp_basis == "inherited":
        return False
    if end.node == row.node and (end.node is not None or len(facts.topology.nodes) <= 1):
        return end.time > row.time
    first, second = interval(row.time, row.time_bound_ns), interval(end.time, end.time_bound_ns)
    return first is not None and second is not None and first[1] < second[0]
