"""Which signature a row shows: fills the event table's ``signature`` column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

import pyarrow as pa

from correlator.events import COLUMNS, Pattern, Severity
from correlator.signatures.index import FIRST_TEXT, LAST_TEXT, OWN_EVENT, Fact, Index
from correlator.signatures.model import Signature, load_signatures

# Up to so many rows are matched one by one, which takes less time than to load what groups them.
_FEW = 500
_SEVERITY: dict[str, Severity] = {"cause": "error", "symptom": "warning", "teardown": "info", "context": "info"}


@lru_cache(maxsize=1)
def _packaged() -> Index:
    return Index(load_signatures())


def own_patterns(signatures: Iterable[Signature]) -> tuple[Pattern, ...]:
    """Patterns for the byte scan, one for each signature that is limited to no event: its literals find its lines."""
    return tuple(
        Pattern(
            event=OWN_EVENT,
            literals=s.match.contains,
            regex=s.match.regex,
            sample=next(sample.line for sample in s.samples if sample.hit),
            severity=_SEVERITY[s.role],
        )
        for s in signatures
        if not s.match.events
    )


def assign(table: pa.Table, signatures: Sequence[Signature] | None = None) -> pa.Table:
    """``table`` with ``signature`` filled: the id of the best signature that each row shows, or null.

    Reads ``event``, ``body``, ``attributes`` and the columns that ``where`` conditions name. Without ``signatures``:
    those of this package.
    """
    index = _packaged() if signatures is None else Index(signatures)
    if table.num_rows <= _FEW:
        ids = [_match(fact, index) for fact in _facts(table, index)]
    else:
        from correlator.signatures.grouping import group_and_match

        ids = group_and_match(table, index)
    column = pa.array(ids, pa.string())
    return table.set_column(table.schema.get_field_index("signature"), table.schema.field("signature"), column)


def _facts(table: pa.Table, index: Index) -> Iterator[Fact]:
    """For each row, what gives its columns and attributes as text."""
    texts = {name for part in (*FIRST_TEXT, *LAST_TEXT) for name in part}
    names = [name for name in ("event", "body", *sorted(texts.union(index.facts))) if name in COLUMNS]
    for attributes, *values in zip(
        table.column("attributes").to_pylist(), *(table.column(name).to_pylist() for name in names), strict=True
    ):
        stated = {name: None if value is None else str(value) for name, value in zip(names, values, strict=True)}
        yield {**dict(attributes or ()), **stated}.get


def _match(fact: Fact, index: Index) -> str | None:
    found = index.best(
        fact("event") or "", (fact("body") or "") + _lines(fact, FIRST_TEXT), _lines(fact, LAST_TEXT), fact
    )
    return found.id if found else None


def _lines(fact: Fact, parts: Sequence[tuple[str, str]]) -> str:
    """For each of ``parts`` that the row has, a line ``type: message`` (or only the message)."""
    lines = []
    for kind, message in parts:
        stated = fact(kind) if kind else None
        if stated is not None or fact(message) is not None:
            lines.append("\n" + (f"{stated or ''}: " if kind else "") + (fact(message) or ""))
    return "".join(lines)
