"""Three small patterns and a few lines of log: what the tests of the reader read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from correlator.events import Found, Pattern
from correlator.ingest import Ingested, ingest

BOOM = Pattern("test.boom", ("BOOM",), r"BOOM(?: seq=(?P<seq>\d+))?(?: by (?P<who>\w+))?")
STEP = Pattern("trainer.progress", ("step ",), r"step (?P<step>\d+)", severity="info", sparse=True)


def _parse_block(lines: Sequence[str]) -> list[Found]:
    if lines[0] != "BEGIN":
        return []
    for number, line in enumerate(lines):
        if line == "END":
            return [Found(0, number, {"text": "|".join(lines[1:number])}, at=number)]
    return []


BLOCK = Pattern("test.block", ("BEGIN",), block=_parse_block, block_lines=20)
PATTERNS = (BOOM, BLOCK, STEP)


def read(folder: Path, *patterns: Pattern, **options: Any) -> Ingested:
    return ingest(folder, patterns=patterns or PATTERNS, **options)


def rows(result: Ingested, event: str | None = None) -> list[dict[str, Any]]:
    table = result.events
    for name in ("timestamp", "last_timestamp", "time"):
        table = table.set_column(table.schema.get_field_index(name), name, table[name].cast(pa.int64()))
    found = table.to_pylist()
    for row in found:
        row["attributes"] = dict(row["attributes"])
    return [row for row in found if event is None or row["event"] == event]


def one(result: Ingested, event: str = "test.boom") -> dict[str, Any]:
    (row,) = rows(result, event)
    return row


def put(folder: Path, text: str | bytes, name: str = "a.log") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return folder
