"""The orderly end of a run: which lines report it, and what lies before or behind it."""

from __future__ import annotations

from collections.abc import Sequence

from correlator.cascade.incidents import is_uncaught
from correlator.cascade.model import Facts, Incident, interval
from correlator.records import Row


def completions(facts: Facts) -> list[Row]:
    """Rows that report the run's orderly end: the program's, its launcher's, the scheduler's, or the last step."""
    ends = facts.events("trainer.completed", "trainer.stopped")
    # Saving and leaving on a signal is an orderly stop, but somebody stopped the job.
    ends += [r for r in facts.events("megatron.exit") if "SIGTERM" not in r.body]
    ends += [r for r in facts.events("shell.exit_status", "deepspeed.exited") if r.exit_code == 0]
    ends += [r for r in facts.events("torchrun.usage_note") if "successfully finished" in r.attr("what")]
    # A step may be through while the job is not.
    ends += [r for r in facts.events("slurm.job_state") if r.attr("state") == "COMPLETED" and not r.attr("step_id")]
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


def is_before_end(facts: Facts, incident: Incident, ends: Sequence[Row]) -> bool:
    """Whether an error certainly lies before a later orderly end of the run, in the same stream or by the clock.

    A traceback of unknown time counts as before if it was caught on its way: the run came to its end all the same.
    """
    row = incident.first
    if row is not None and incident.inherited and row.attr("frames") and not is_uncaught(row):
        return True
    return row is not None and any(is_later(facts, end, row) for end in ends)


def is_later(facts: Facts, end: Row, row: Row) -> bool:
    """Whether ``end`` certainly lies behind ``row``: in one stream by place, on one node by its clock.

    Else by the clocks beyond what they leave open.
    """
    if end.file == row.file:
        return end.byte_offset > row.byte_offset
    if end.time is None or row.time is None or row.timestamp_basis == "inherited":
        return False
    if end.node == row.node and (end.node is not None or len(facts.topology.nodes) <= 1):
        return end.time > row.time
    first, second = interval(row.time, row.time_bound_ns), interval(end.time, end.time_bound_ns)
    return first is not None and second is not None and first[1] < second[0]


def stopped_after_the_end(facts: Facts) -> list[Row]:
    """Signals from outside to launchers, where one certainly came behind every line that reports an orderly end.

    None may certainly have come before one.
    """
    ends, told = completions(facts), facts.judged("torchrun.death_signal")
    behind = any(all(is_later(facts, row, end) for end in ends) for row in told)
    before = any(is_later(facts, end, row) for row in told for end in ends)
    return told if ends and behind and not before else []
