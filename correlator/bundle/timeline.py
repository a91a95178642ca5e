"""The timeline of a bundle: everything about the part and its node, and what the diagnosis rests on, in one time."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from correlator.bundle.redaction import Redactor
from correlator.bundle.subject import DEVICE_EMITTERS, Subject, in_time
from correlator.cascade.model import Facts
from correlator.diagnosis import Document
from correlator.records import Row

#: Rows of one timeline; errors and warnings go before the rest.
LIMIT = 5000
_TEXTS = ("node", "process_group", "writer", "body", "op", "peer", "file")


def timeline_rows(document: Document, facts: Facts, subject: Subject) -> tuple[list[Row], int]:
    """The rows in the order of time, those whose time is not known last, and how many more were left out."""
    cited = {(e.file, e.line) for e in document.evidence} | {
        (c.evidence.file, c.evidence.line) for c in document.cascade if c.evidence
    }
    chosen = [
        row
        for row in facts.rows
        if (row.file, row.line) in cited
        or subject.is_about(row)
        or (row.emitter in DEVICE_EMITTERS and subject.is_on_node(row) and row.severity != "info")
    ]
    chosen.sort(key=lambda row: row.severity == "info")
    return sorted(in_time(chosen[:LIMIT]), key=_is_only_later_than), max(0, len(chosen) - LIMIT)


def _is_only_later_than(row: Row) -> bool:
    """Whether a line of a program has its time from a line before it: it may have been written hours after that."""
    return row.timestamp_basis == "inherited" and row.emitter not in DEVICE_EMITTERS


def timeline_table(table: pa.Table, rows: Sequence[Row], redactor: Redactor) -> pa.Table:
    """These rows of the event table, in this order, every text masked; ``time`` only where it is known."""
    part = table.take(pa.array([row.index for row in rows], pa.int64()))
    unknown = pa.array([_is_only_later_than(row) for row in rows], pa.bool_())
    for name in ("time", "time_bound_ns"):
        at = part.schema.get_field_index(name)
        known = pc.if_else(unknown, pa.scalar(None, part.schema.field(at).type), part[name])
        part = part.set_column(at, part.schema.field(at), known)
    for name in _TEXTS:
        at = part.schema.get_field_index(name)
        field = part.schema.field(at)
        texts = [None if text is None else redactor.text(text) for text in part[name].to_pylist()]
        part = part.set_column(at, field, pa.array(texts, field.type))
    at = part.schema.get_field_index("attributes")
    field = part.schema.field(at)
    pairs = [
        None if entry is None else [(name, redactor.text(text)) for name, text in entry]
        for entry in part["attributes"].to_pylist()
    ]
    return part.set_column(at, field, pa.array(pairs, field.type))
