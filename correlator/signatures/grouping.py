"""The signatures of many rows.

Rows repeat: thousands of ranks print one text with other numbers in it. So rows are grouped by (event, text with its
numbers masked, the facts that ``where`` asks for), vectorised, and only one row of each group is matched in Python.
Numbers that any rule spells out (a completion status, an error code) are kept apart and are part of the group's key;
where a rule asks for a class of digits, nothing is masked.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from correlator.events import COLUMNS
from correlator.signatures.index import FIRST_TEXT, LAST_TEXT, NUMBER, Index

# Rows taken together: their texts are in memory several times over.
_SLICE = 10_000

#: The signature's id of each group of rows: event, masked text, spelled numbers, facts.
_Groups = dict[tuple[str | None, ...], str | None]


def _fact_column(table: pa.Table, name: str) -> pa.ChunkedArray:
    if name in COLUMNS:
        return pc.cast(table.column(name), pa.string())
    return pc.map_lookup(table.column("attributes"), pa.scalar(name), "first")


def _texts(table: pa.Table, parts: Sequence[tuple[str, str]], *start: str) -> pl.Series:
    """Columns ``start``, then for each of ``parts`` that a row has a line ``type: message`` (or only the message)."""
    columns = {name: _fact_column(table, name) for name in (*start, *(n for part in parts for n in part if n))}
    frame = pl.DataFrame([pl.Series(name, column, dtype=pl.String) for name, column in columns.items()])
    lines = [
        pl.when(pl.col(message).is_not_null() | (pl.col(kind).is_not_null() if kind else pl.lit(False)))
        .then(
            pl.concat_str(
                pl.lit("\n"),
                pl.concat_str(pl.col(kind).fill_null(""), pl.lit(": ")) if kind else pl.lit(""),
                pl.col(message).fill_null(""),
            )
        )
        .otherwise(pl.lit(""))
        for kind, message in parts
    ]
    return frame.select(pl.concat_str(*(pl.col(name).fill_null("") for name in start), *lines)).to_series()


def group_and_match(table: pa.Table, index: Index) -> list[str | None]:
    """The id of the best signature of each row of an event table."""
    ids: list[str | None] = []
    # What repeats in the next slice is not matched again; of earlier ones nothing is kept, so that memory is bounded.
    matched: _Groups = {}
    for start in range(0, table.num_rows, _SLICE):
        part, matched = _match_slice(table.slice(start, _SLICE), index, matched)
        ids += part
    return ids


def _match_slice(table: pa.Table, index: Index, before: _Groups) -> tuple[list[str | None], _Groups]:
    """The id of each row, and of each group that occurs; those of ``before`` are known."""
    facts = [f"fact:{name}" for name in index.facts]
    frame = pl.DataFrame(
        [
            pl.Series("event", _fact_column(table, "event"), dtype=pl.String),
            _texts(table, FIRST_TEXT, "body").alias("first"),
            _texts(table, LAST_TEXT).alias("last"),
            *(pl.Series(f"fact:{name}", _fact_column(table, name), dtype=pl.String) for name in index.facts),
        ]
    )
    text = pl.concat_str("first", pl.lit("\n"), "last")
    keyed = frame.with_row_index("row").with_columns(
        pl.when(pl.col("event").is_in(index.exact_events) | text.str.contains(index.exact_text))
        .then(text)
        .otherwise(text.str.replace_all(NUMBER, "0"))
        .alias("masked"),
        text.str.extract_all(NUMBER)
        .list.eval(pl.element().filter(pl.element().is_in(index.spelled_numbers)))
        .list.join(" ")
        .alias("spelled"),
    )
    key = ("event", "masked", "spelled", *facts)
    groups = keyed.group_by(key, maintain_order=True).agg(pl.col("row"), pl.col("first", "last").first())
    matched: _Groups = {}
    for group, first, last in zip(groups.select(key).iter_rows(), groups["first"], groups["last"], strict=True):
        if group in before:
            matched[group] = before[group]
            continue
        event, _, _, *values = group
        found = index.best(event or "", first, last, dict(zip(index.facts, values, strict=True)).get)
        matched[group] = found.id if found else None
    ids = pl.Series("signature", matched.values(), dtype=pl.String)
    filled = groups.select("row").with_columns(ids).explode("row").sort("row")
    return filled["signature"].to_list(), matched
