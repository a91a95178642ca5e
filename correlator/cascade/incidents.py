"""From rows to incidents: equal rows of one rank are one incident, and what was survived is left out."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from correlator.cascade.model import OF_MACHINES, Facts, Incident
from correlator.diagnosis import Role
from correlator.records import Row
from correlator.timestamps import SECOND

#: Role of an event that no signature speaks about, by event or emitter; everything else is context.
_DEFAULT_ROLE: dict[str, Role] = {
    "c10d.watchdog_timeout": "collateral",
    "c10d.watchdog_status": "collateral",
    "c10d.watchdog_exception": "collateral",
    "c10d.async_error": "collateral",
    "c10d.store_error": "collateral",
    "c10d.store_timeout": "collateral",
    "c10d.comm_aborted": "collateral",
    "c10d.remote_error": "collateral",
    "c10d.unique_id_failed": "collateral",
    "c10d.barrier_victim": "collateral",
    "c10d.barrier_missing": "collateral",
    "c10d.abort_notice": "teardown",
    "c10d.dump_signal": "collateral",
    "gloo.peer_closed": "collateral",
    "gloo.peer_reset": "collateral",
    "gloo.peer_unreachable": "collateral",
    "gloo.timeout": "collateral",
    "gloo.connect_failed": "collateral",
    "nccl.socket_error": "collateral",
    "nccl.ib_error": "collateral",
    "nccl.proxy_error": "collateral",
    "torchrun.signal_sent": "teardown",
    "torchrun.child_failed": "teardown",
    "slurm.step_aborted": "teardown",
    "cpp.terminate": "collateral",
    "python.exception": "initiator",
    "python.fatal": "initiator",
    "python.error_json": "initiator",
}
_ROLE_OF_SIGNATURE: dict[str, Role] = {
    "cause": "initiator",
    "symptom": "collateral",
    "teardown": "teardown",
    "context": "unrelated",
}
#: How names of exceptions end that are raised without a message.
_WHOLE_TYPE = re.compile(
    r"(?:Error|Exception|Exit|Interrupt|Warning|Group|Iteration|Empty|Full|Timeout|Failure|Abort)$"
)
#: Frames of torch's collectives among those of a traceback.
_IN_A_COLLECTIVE = re.compile(r"/torch/distributed/(?:c10d_logger|distributed_c10d)\.py")
#: What a machine's record says of a time this long before the job's first line is no part of its failure.
_HISTORY = 24 * 3600 * SECOND
#: A step line this long after an error of the same job says that the error was survived.
_SURVIVED = 5 * SECOND


def role_of(facts: Facts, row: Row) -> Role:
    """The role a row can play by its own text, before time and the other ranks are looked at."""
    signature = facts.signature(row)
    by_launcher = row.event == "python.exception" and row.attr("launcher") == "true"
    if signature is not None and not (by_launcher and signature.is_fallback):
        return _ROLE_OF_SIGNATURE[signature.role]
    if by_launcher:
        return "teardown"
    if row.event == "fr.entry":
        # A call under way is no complaint; one in which a rank waits for another is.
        return "collateral" if row.index in facts.recorded.waiting_rows else "unrelated"
    return _DEFAULT_ROLE.get(row.event, "unrelated")


def build_incidents(facts: Facts) -> list[Incident]:
    """The incidents of a job, in order of their first row; rows of no consequence are left out."""
    groups: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    roles: dict[tuple[object, ...], Role] = {}
    began = _job_began(facts)
    for row in facts.rows:
        role = role_of(facts, row)
        if began is not None and row.emitter in OF_MACHINES and _certainly_before(row, began - _HISTORY):
            continue
        if role == "unrelated" or row.attr("ignored") == "true":
            continue
        if role == "initiator" and row.emitter == "python" and survived(facts, row):
            continue
        if role == "initiator" and is_cut_symptom(facts, row):
            role = "collateral"
        who = ("rank", row.rank) if row.rank is not None else ("node", row.node) if row.node else ("writer", row.writer)
        key: tuple[object, ...] = (
            row.event if row.signature is None else row.signature,
            role,
            who,
            row.process_group,
            row.attempt,
        )
        groups[key].append(row)
        roles[key] = role
    found = []
    for number, (group, rows) in enumerate(groups.items(), start=1):
        rows.sort(key=lambda r: (r.time is None, r.time or 0, r.file, r.byte_offset))
        found.append(_incident(facts, f"e{number}", roles[group], rows))
    return found


def _incident(facts: Facts, name: str, role: Role, rows: list[Row]) -> Incident:
    row = rows[0]
    signature = facts.signature(row)
    dated = next((r for r in rows if r.time is not None and r.timestamp_basis != "inherited"), row)
    return Incident(
        id=name,
        event="torchrun.child_failed" if row.attr("launcher") == "true" else row.event,
        what=signature.title if signature else one_line(row.body),
        role=role,
        ranks=(row.rank,) if row.rank is not None else (),
        nodes=(row.node,) if row.node else tuple(facts.topology.nodes_of([row.rank]) if row.rank is not None else ()),
        rows=rows,
        signature=row.signature,
        time=dated.time,
        # A time that was taken over from an older line is a lower limit only; no order may rest on it.
        bound=None if dated.timestamp_basis == "inherited" else dated.time_bound_ns,
        attempt=row.attempt or 0,
        inherited=dated.timestamp_basis == "inherited",
    )


def _job_began(facts: Facts) -> int | None:
    """Earliest time that the job's own lines print."""
    own = (row for row in (*facts.rows, *facts.progress) if row.emitter not in OF_MACHINES)
    times = [row.time for row in own if row.time is not None and row.timestamp_basis in ("printed", "transport")]
    return min(times, default=None)


def _certainly_before(row: Row, moment: int) -> bool:
    told = row.time is not None and row.timestamp_basis != "inherited"
    return told and (row.time or 0) + (row.time_bound_ns or 0) < moment


def one_line(text: str, limit: int = 160) -> str:
    """The first line of a text that is not blank, cut to ``limit`` characters."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first = lines[0] if lines else ""
    return first if len(first) <= limit else first[: limit - 1] + "…"


def survived(facts: Facts, row: Row) -> bool:
    """Whether the process that raised this went on: later steps of its own, or of the whole job in step with it.

    A time inherited from an older line cannot say so; then only the writer's own later lines can.
    """
    exits = facts.all_exits.get(row.rank, ()) if row.rank is not None else ()
    if any(e.code not in (0, -15) and (e.row.attempt or 0) == (row.attempt or 0) for e in exits):
        last = max((r.byte_offset for r in _exceptions(facts, row)), default=row.byte_offset)
        if row.byte_offset == last:
            return False
    own = [r for r in facts.progress if r.writer == row.writer and (r.attempt or 0) == (row.attempt or 0)]
    own_later = [r for r in own if r.byte_offset > row.byte_offset]
    if own_later:
        return not (is_uncaught(row) and _goes_on(own, row))
    if row.timestamp_basis not in ("printed", "transport") or row.time is None or row.time_bound_ns is None:
        return False
    later = [
        r
        for r in facts.progress
        if r.time is not None
        and r.time_bound_ns is not None
        and r.time - r.time_bound_ns > row.time + row.time_bound_ns + _SURVIVED
        and (r.attempt or 0) == (row.attempt or 0)
    ]
    return len(later) >= 2 and not facts.events("torchrun.restart")


def is_cut_symptom(facts: Facts, row: Row) -> bool:
    """Whether an exception whose end is missing, for its file was cut there, would tell of a lost peer.

    Its traceback ends inside a collective, before the line that says what was raised; or that line is its writer's last
    one and a peer prints it in full, as a symptom. Cut inside a word or inside the text: a type alone is a whole line.
    """
    writer = facts.writers.get(row.writer)
    if row.event != "python.exception" or writer is None:
        return False
    if is_without_end(facts, row) and (row.attr("call") or _IN_A_COLLECTIVE.search(row.attr("frames"))):
        return True
    text = row.body.rstrip()
    if not text or writer.last_byte_offset != row.byte_offset:
        return False
    for other in facts.events("python.exception"):
        rest = other.body[len(text) :].strip()
        if other.writer != row.writer and rest and other.body.startswith(text) and (": " in text or rest[0].isalnum()):
            signature = facts.signature(other)
            if signature is not None and signature.role == "symptom":
                return True
    return False


def is_without_end(facts: Facts, row: Row) -> bool:
    """Whether a traceback lacks the line that says what was raised, or that line is cut within the name."""
    if row.event != "python.exception" or row.attr("message"):
        return False
    writer = facts.writers.get(row.writer)
    last = writer is not None and writer.last_byte_offset == row.byte_offset
    return row.attr("type") == "unknown" or (last and not _WHOLE_TYPE.search(row.attr("type")))


def _exceptions(facts: Facts, row: Row) -> Sequence[Row]:
    """The exceptions of the same process and attempt, not the launcher's that share its file."""
    return [
        r
        for r in facts.events("python.exception")
        if r.writer == row.writer and r.rank == row.rank and r.attempt == row.attempt and r.attr("launcher") != "true"
    ]


def is_uncaught(row: Row) -> bool:
    """Whether a traceback begins at the program's first line, as one that ended the program does."""
    return row.attr("frames").startswith(("<module>@", "_run_module_as_main@"))


def _goes_on(own: Sequence[Row], row: Row) -> bool:
    """Whether the steps behind a traceback just continue those before: lines that a buffer held back until the end.

    A program that recovers by itself goes back to its last checkpoint first.
    """
    before = [r.step for r in own if r.step is not None and r.byte_offset < row.byte_offset]
    behind = [r.step for r in own if r.step is not None and r.byte_offset > row.byte_offset]
    return bool(behind) and min(behind) > max(before, default=-1)
