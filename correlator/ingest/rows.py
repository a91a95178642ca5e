"""Rows of the event table: built from what a pattern captured, flooded ones collapsed, turned into Arrow.

Rows are plain dictionaries with the columns that are known; ``attributes`` is a dictionary of its own. Keys that begin
with ``_`` are for the merge only and never reach the table.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from correlator.events import BODY_LIMIT, SCHEMA
from correlator.untrusted import is_rank

Row = dict[str, Any]

_INTEGERS = {f.name: 31 if f.type == pa.int32() else 63 for f in SCHEMA if f.type in (pa.int32(), pa.int64())}
_TIMES = frozenset(f.name for f in SCHEMA if pa.types.is_timestamp(f.type))
_STRINGS = frozenset(f.name for f in SCHEMA if f.type == pa.string())
#: Numbers of ranks and of what launchers number like them.
_RANKS = frozenset({"rank", "local_rank", "group_rank", "task"})
#: Columns that the reader sets; captures of these names become attributes.
_RESERVED = frozenset({"file", "line", "byte_offset", "byte_length", "writer", "time", "time_bound_ns", "signature"})


def cast(name: str, value: object) -> object | None:
    """A captured value as the column's type; None when it does not fit."""
    if name in _INTEGERS or name in _TIMES:
        if isinstance(value, str):
            try:
                value = int(value.replace(",", ""))
            except ValueError:
                try:
                    number = float(value)
                except ValueError:
                    return None
                value = number
        if isinstance(value, float):
            if not math.isfinite(value):
                return None
            value = int(value)
        if not isinstance(value, int) or (name in _RANKS and not is_rank(value)):
            return None
        return value if abs(value) < 1 << _INTEGERS.get(name, 63) else None
    return str(value)


def fill(row: Row, fields: Mapping[str, object]) -> None:
    """Put captured fields into their columns, and into ``attributes`` where there is no such column."""
    attributes = row["attributes"]
    for name, value in fields.items():
        if value is None:
            continue
        if name in _RESERVED or (name not in _INTEGERS and name not in _STRINGS and name not in _TIMES):
            attributes[name] = str(value)
            continue
        typed = cast(name, value)
        if typed is None:
            attributes[name] = str(value)
        else:
            row[name] = typed


# --- floods ----------------------------------------------------------------------------------------------------------

#: Events whose ``step`` says how far a writer had come.
PROGRESS = ("megatron.iteration", "trainer.progress")

#: Most rows of one writer and event.
ROW_CAP = 1000

_HEX = re.compile(r"0x[0-9a-fA-F]+|\b(?=[0-9a-f]*\d)(?=[\da-f]*[a-f])[0-9a-f]{6,}\b")
_NUMBER = re.compile(r"\d+")

#: Columns that make two rows different occurrences even when their texts are alike.
_TELLING = (
    "rank", "local_rank", "group_rank", "process_group", "task", "node", "pid", "gpu", "pci_bus_id", "attempt", "seq",
    "op", "numel_in", "numel_out", "last_enqueued", "last_completed", "step", "exit_code", "signal", "xid", "peer",
)  # fmt: skip
#: Attributes that vary from line to line and decide nothing.
_NOISE = frozenset(
    {"tid", "loss", "grad_norm", "lr", "learning_rate", "loss_scale", "boot_seconds", "comm_id", "address", "total"}
)


def mask(text: str) -> str:
    """The text with numbers and hexadecimal words blanked: equal for messages that differ only in those."""
    return _NUMBER.sub("0", _HEX.sub("0", text))


def _identity(row: Row) -> tuple[object, ...]:
    """Equal for rows that are one message repeated, if their masked texts are equal too."""
    attributes = row["attributes"]
    rest = frozenset((k, v) for k, v in attributes.items() if k not in _NOISE) if attributes else None
    return (row["file"], row["writer"], row["event"], *map(row.get, _TELLING), rest)


def _masked(row: Row) -> str:
    return mask(row["body"][:300])


def _absorb(row: Row, other: Row) -> None:
    row["count"] += other["count"]
    last = other.get("last_timestamp") or other.get("timestamp")
    if last is not None and (row.get("last_timestamp") is None or last > row["last_timestamp"]):
        row["last_timestamp"] = last


class _Rounds:
    """How often a writer's steps went back: the same step of another run is no repetition."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int]] = {}

    def of(self, row: Row) -> int:
        step: int | None = row.get("step")
        if step is None or row["event"] not in PROGRESS:
            return 0
        last, number = self._seen.get(row["writer"], (step, 0))
        number += step < last
        self._seen[row["writer"]] = step, number
        return number


def collapse(rows: Sequence[Row]) -> list[Row]:
    """Rows in their order, with equal messages of one writer as one row that keeps the first's place.

    ``count`` stays exact: rows beyond ROW_CAP of one writer and event are added to the last row kept.
    """
    kept: list[Row] = []
    first: dict[tuple[object, ...], Row] = {}
    # By identity, then by masked text; a row that is alone with its identity needs none.
    texts: dict[tuple[object, ...], dict[str, Row]] = {}
    per_event: dict[tuple[object, ...], list[Any]] = {}
    rounds = _Rounds()
    for row in rows:
        identity = (*_identity(row), rounds.of(row))
        alike = first.get(identity)
        if alike is not None:
            by_text = texts.setdefault(identity, {})
            if not by_text:
                by_text[_masked(alike)] = alike
            same = by_text.get(_masked(row))
            if same is not None:
                _absorb(same, row)
                continue
        tally = per_event.setdefault((row["file"], row["writer"], row["event"]), [0, None])
        if tally[0] >= ROW_CAP:
            _absorb(tally[1], row)
            continue
        tally[0] += 1
        tally[1] = row
        if alike is None:
            first[identity] = row
        else:
            texts[identity][_masked(row)] = row
        kept.append(row)
    return kept


# --- Arrow -----------------------------------------------------------------------------------------------------------


def to_table(rows: Sequence[Row]) -> pa.Table:
    """The rows as a table of ``correlator.events.SCHEMA``."""
    present: set[str] = set().union(*rows) if rows else set()
    columns = []
    for column in SCHEMA:
        name = column.name
        if name not in present:
            columns.append(pa.nulls(len(rows), column.type))
            continue
        if name == "attributes":
            values: list[Any] = [sorted(row[name].items()) for row in rows]
        else:
            values = [row.get(name) for row in rows]
            if name == "body":
                values = [v[:BODY_LIMIT] if v is not None else None for v in values]
        columns.append(pa.array(values, type=column.type))
    return pa.Table.from_arrays(columns, schema=SCHEMA)
