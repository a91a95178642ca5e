"""Flight-recorder dumps of a made-up job, as the recorder of each version writes them; times and numbers are invented."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

START_NS = 1741946400_000000000  # 2025-03-14 10:00:00 UTC
#: torch's pickler writes this protocol.
PROTOCOL = 2

WORLD = ("0", "default_pg")

Entry = dict[str, Any]


def call(
    seq: int, op: str = "all_reduce", *, group: tuple[str, str] = WORLD, state: str = "completed", size: int = 8192,
    dtype: str = "BFloat16", retired: bool | None = None, p2p: bool = False, pg_id: int = 0, at: float | None = None,
) -> Entry:  # fmt: skip
    """One call; ``at`` is seconds after the start, by default its number."""
    created = START_NS + int((seq if at is None else at) * 1e9)
    done = state == "completed"
    return {
        "record_id": 0,
        "pg_id": pg_id,
        "process_group": group,
        "collective_seq_id": 0 if p2p else seq,
        "p2p_seq_id": seq if p2p else 0,
        "op_id": seq,
        "profiling_name": f"nccl:{op}",
        "time_created_ns": created,
        "input_sizes": [[size]],
        "input_dtypes": [dtype],
        "output_sizes": [[size]],
        "output_dtypes": [dtype],
        "state": state,
        "time_discovered_started_ns": None if state == "scheduled" else created + 1_000_000,
        "time_discovered_completed_ns": created + 2_000_000 if done else None,
        "retired": done if retired is None else retired,
        "timeout_ms": 600000,
        "is_p2p": p2p,
        "frames": [{"name": "train_step", "filename": "pretrain.py", "line": 44}],
    }


def done(last: int, first: int = 1, **options: Any) -> list[Entry]:
    """Completed calls ``first`` to ``last``."""
    return [call(seq, **options) for seq in range(first, last + 1)]


def stuck(seq: int, op: str = "all_reduce", **options: Any) -> Entry:
    """A call that the watchdog gave up."""
    return call(seq, op, **{"state": "started", "retired": True, **options})


def dump(
    entries: Iterable[Entry],
    groups: Mapping[tuple[str, str], Sequence[int]],
    *,
    version: str = "2.10",
    first_record: int = 0,
) -> dict[str, Any] | list[Entry]:
    """The content of one dump; ``groups``: members by name and description."""
    calls = [{**entry, "record_id": first_record + n} for n, entry in enumerate(entries)]
    config = {name: {"name": name, "desc": desc, "ranks": str(list(r))} for (name, desc), r in groups.items()}
    if version == "early":  # the list alone, one counter for all calls
        dropped = ("process_group", "collective_seq_id", "p2p_seq_id", "op_id", "timeout_ms", "is_p2p", "retired")
        return [{**{k: v for k, v in c.items() if k not in dropped}, "seq_id": c["op_id"]} for c in calls]
    content: dict[str, Any] = {"version": version, "entries": calls, "pg_config": config}
    if version == "2.1":
        for c in calls:
            del c["timeout_ms"]
        return content
    status: dict[int, dict[str, int]] = {}
    for c in calls:
        at = status.setdefault(c["pg_id"], dict.fromkeys(_STATUS, -1))
        reached = {"scheduled": 1, "started": 2, "completed": 3}[c["state"]]
        for key in _STATUS[:reached]:
            at[key] = max(at[key], c["collective_seq_id"])
    content |= {"pg_status": status, "nccl_comm_state": {}}
    if version == "2.10":
        content["comm_lib_version"] = "2.27.5"
        calls[:] = [{**c, "thread_id": "140000000000001", "thread_name": "pt_main_thread"} for c in calls]
    return content


_STATUS = ("last_enqueued_collective", "last_started_collective", "last_completed_collective")


def as_json(content: dict[str, Any]) -> bytes:
    """The JSON form: texts for numbers of the status, 0 for empty times, no stacks."""
    entries = [{k: v for k, v in e.items() if k != "frames"} for e in content["entries"]]
    for entry in entries:
        for key in ("time_discovered_started_ns", "time_discovered_completed_ns"):
            entry[key] = entry[key] or 0
    status = {str(k): {n: str(v) for n, v in s.items()} for k, s in content.get("pg_status", {}).items()}
    return json.dumps({**content, "entries": entries, "pg_status": status}).encode()


def put(
    folder: Path,
    ranks: Mapping[int, Sequence[Entry]],
    groups: Mapping[tuple[str, str], Sequence[int]] | None = None,
    *,
    world: int | None = None,
    version: str = "2.10",
    form: str = "pickle",
    first_record: int = 0,
    prefix: str = "nccl_trace_rank_",
) -> Path:
    """Writes one dump a rank; every group lists all its members in the dumps of its own ones."""
    groups = groups or {WORLD: range(world or len(ranks))}
    for rank, entries in ranks.items():
        own = {name: members for name, members in groups.items() if rank in members}
        content = dump(entries, own, version=version, first_record=first_record)
        folder.mkdir(parents=True, exist_ok=True)
        if form == "json":
            assert isinstance(content, dict)
            (folder / f"{prefix}{rank}.json").write_bytes(as_json(content))
        else:
            (folder / f"{prefix}{rank}").write_bytes(pickle.dumps(content, PROTOCOL))
    return folder
