"""A dump as rows of the event table: one for each process group, and the calls at which ranks can differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from correlator.flightrecorder.model import Call, Dump, Group
from correlator.hostlist import fold_ranges

#: Calls kept of one group: the last completed ones, the first open ones, and the open P2P calls.
_COMPLETED, _OPEN, _P2P = 6, 4, 16


def rows_of(dump: Dump) -> Iterator[dict[str, Any]]:
    """Rows without their place; ``event`` is ``fr.group`` or ``fr.entry``, ``attributes`` a dictionary of texts."""
    for group in dump.groups:
        whole = _is_of_all(group)
        yield _row(
            dump,
            group,
            "fr.group",
            f"process group {_named(group)}: {_stands(group)}",
            max((c.time_ns for c in group.calls if c.time_ns is not None), default=None),
            {
                "members": fold_ranges(sorted(group.members)) if group.members else "",
                "order": "" if list(group.members) == sorted(group.members) else " ".join(map(str, group.members)),
                "world_size": str(len(group.members)) if whole else "",
                "overwritten": "true" if dump.overwritten else "",
                "torn": "true" if dump.torn else "",
                "since_ns": str(min((c.time_ns for c in group.calls if c.time_ns is not None), default="")),
                "version": dump.version,
            },
            last_enqueued=group.enqueued,
            last_completed=max((c.number for c in group.calls if c.completed and not c.p2p), default=None),
        )
        for call in _kept(group.calls):
            state = "completed" if call.completed else "started" if call.started else "scheduled"
            yield _row(
                dump,
                group,
                "fr.entry",
                f"{'P2P call' if call.p2p else 'collective'} {call.number} of process group {_named(group)}: {call.op} "
                f"{call.sizes_in} -> {call.sizes_out} {call.dtypes}, {state}",
                call.time_ns,
                {
                    "state": state,
                    "p2p": "true" if call.p2p else "",
                    "given_up": "true" if call.given_up else "",
                    "sizes_in": call.sizes_in,
                    "sizes_out": call.sizes_out,
                    "dtypes": call.dtypes,
                },
                seq=call.number,
                op=call.op,
                numel_in=call.numel_in,
                numel_out=call.numel_out,
                timeout_ms=call.timeout_ms,
            )


def unreadable(rank: int) -> dict[str, Any]:
    """The row of a dump that could not be read: all that is known is that its rank existed."""
    return {
        "event": "fr.unreadable",
        "severity": "info",
        "body": f"the flight-recorder dump of rank {rank} cannot be read",
        "timestamp_basis": "none",
        "attributes": {},
        "rank": rank,
        "rank_basis": "dump",
    }


def _is_of_all(group: Group) -> bool:
    return group.desc == "default_pg" and sorted(group.members) == list(range(len(group.members))) != []


def _stands(group: Group) -> str:
    done = max((c.number for c in group.calls if c.completed and not c.p2p), default=None)
    enqueued = "not known" if group.enqueued is None else group.enqueued
    return f"last enqueued collective {enqueued}, last completed {'not known' if done is None else done}"


def _named(group: Group) -> str:
    return f"{group.name} ({group.desc})" if group.desc and group.desc != "undefined" else group.name


def _kept(calls: Sequence[Call]) -> list[Call]:
    collectives = sorted((c for c in calls if not c.p2p), key=lambda c: c.number)
    done = [c for c in collectives if c.completed][-_COMPLETED:]
    waiting = [c for c in collectives if not c.completed]
    last = waiting[-1:] if len(waiting) > _OPEN else []
    return [*done, *waiting[:_OPEN], *last, *[c for c in calls if c.p2p and not c.completed][:_P2P]]


def _row(
    dump: Dump,
    group: Group,
    event: str,
    body: str,
    time_ns: int | None,
    attributes: Mapping[str, str],
    **columns: int | str | None,
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "event": event,
        "severity": "info",
        "body": body,
        "process_group": group.name,
        "timestamp_basis": "none",
        "attributes": {k: v for k, v in {"pg_desc": group.desc, **attributes}.items() if v},
        **{k: v for k, v in columns.items() if v is not None and (isinstance(v, str) or -(1 << 62) < v < 1 << 62)},
    }
    if time_ns is not None:
        row |= {
            "timestamp": time_ns,
            "last_timestamp": time_ns,
            "timestamp_basis": "printed",
            "timestamp_resolution_ns": 1,
        }
    if dump.rank is not None:
        row |= {"rank": dump.rank, "rank_basis": "dump"}
    if dump.host:
        row |= {"node": dump.host, "node_basis": "dump"}
    return row
