"""The event table as a file: Parquet and Arrow (Feather) hold it whole, CSV is for looking at it.

A spreadsheet runs a cell that starts like a formula, and a terminal obeys control characters, so the CSV is not the raw
text: such a cell gets a leading apostrophe, control characters are visible escapes. Attributes are one JSON object a
cell.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING

from correlator.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

#: A spreadsheet takes a cell that starts so for a formula (OWASP, "CSV injection").
_FORMULA_START = r"^([=+\-@\t\r])"

#: C0 without tab and LF, DEL, C1, and the bidirectional and invisible format characters.
_STEERING = [*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0)]
_STEERING += [0x061C, *range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF]


def event_writer(suffix: str) -> Callable[[pa.Table], bytes]:
    """The function that writes the format which a file name's ``suffix`` (with its dot) asks for.

    Raises UsageError for a format that is not written.
    """
    try:
        return _WRITERS[suffix.lower()]
    except KeyError:
        raise UsageError(f"no event table has the ending {suffix!r}; known are {', '.join(_WRITERS)}") from None


def to_parquet(table: pa.Table) -> bytes:
    """The table as Parquet (zstd), with the schema's descriptions."""
    import pyarrow.parquet as pq

    buffer = BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def to_arrow(table: pa.Table) -> bytes:
    """The table as an Arrow IPC file (Feather version 2), uncompressed, so that it can be memory-mapped."""
    import pyarrow.feather as feather

    buffer = BytesIO()
    feather.write_feather(table, buffer, compression="uncompressed")
    return buffer.getvalue()


def to_csv(table: pa.Table) -> bytes:
    """The table as CSV, UTF-8, LF. Times are RFC 3339 in UTC with nanoseconds; null is an empty cell."""
    import polars as pl

    attributes = table.column("attributes").to_pylist()
    column = pl.Series("attributes", [json.dumps(dict(pairs)) if pairs else None for pairs in attributes], pl.String)
    frame = pl.DataFrame(pl.from_arrow(table.drop_columns(["attributes"]))).with_columns(column)
    steering = {chr(code): f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in _STEERING}
    harmless = pl.col(pl.String).str.replace(_FORMULA_START, "'${1}").str.replace_many(steering)
    times = pl.selectors.datetime().dt.to_string("%Y-%m-%dT%H:%M:%S%.9fZ")
    buffer = BytesIO()
    frame.with_columns(harmless).with_columns(times).write_csv(buffer)
    return buffer.getvalue()


_WRITERS: dict[str, Callable[[pa.Table], bytes]] = {
    ".parquet": to_parquet,
    ".arrow": to_arrow,
    ".csv": to_csv,
}
