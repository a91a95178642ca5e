"""Rows of the event table as plain objects, for the stages that reason over few events with many rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta

import pyarrow as pa


@dataclass(slots=True)
class Row:
    """One event. Names and units are those of ``events.SCHEMA``; times are integers in ns since the epoch, UTC."""

    index: int
    event: str
    severity: str
    body: str
    file: str
    line: int
    byte_offset: int
    writer: str
    timestamp: int | None = None
    timestamp_basis: str = "none"
    timestamp_resolution_ns: int | None = None
    last_timestamp: int | None = None
    time: int | None = None
    time_bound_ns: int | None = None
    node: str | None = None
    node_basis: str | None = None
    rank: int | None = None
    rank_basis: str | None = None
    local_rank: int | None = None
    group_rank: int | None = None
    task: int | None = None
    process_group: str | None = None
    pid: int | None = None
    gpu: int | None = None
    pci_bus_id: str | None = None
    attempt: int | None = None
    signature: str | None = None
    count: int = 1
    seq: int | None = None
    op: str | None = None
    numel_in: int | None = None
    numel_out: int | None = None
    timeout_ms: int | None = None
    elapsed_ms: int | None = None
    last_enqueued: int | None = None
    last_completed: int | None = None
    step: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    xid: int | None = None
    peer: str | None = None
    attributes: dict[str, str] = field(default_factory=dict)

    def attr(self, name: str, default: str = "") -> str:
        """An attribute, or ``default``."""
        return self.attributes.get(name, default)

    @property
    def emitter(self) -> str:
        """The part of the event name before the dot."""
        return self.event.partition(".")[0]


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(time_ns: int | None) -> datetime | None:
    """A time in ns since the epoch as an aware datetime in UTC, cut to microseconds."""
    return None if time_ns is None else _EPOCH + timedelta(microseconds=time_ns // 1000)


_TIMES = ("timestamp", "last_timestamp", "time")
_COLUMNS = tuple(f.name for f in fields(Row) if f.name != "index")


def read_rows(table: pa.Table) -> list[Row]:
    """The rows of an event table in table order; ``index`` is the row's position in ``table``."""
    columns: list[list[object]] = []
    for name in _COLUMNS:
        column = table[name]
        if name in _TIMES:
            column = pa.chunked_array([chunk.view(pa.int64()) for chunk in column.chunks], pa.int64())
        columns.append(column.to_pylist())
    return list(_build(columns))


def _build(columns: list[list[object]]) -> Iterator[Row]:
    for index, values in enumerate(zip(*columns, strict=True)):
        row = Row(index, *values)  # _COLUMNS are the fields in order
        row.attributes = dict(row.attributes or ())
        row.count = row.count or 1
        row.body = row.body or ""
        yield row
