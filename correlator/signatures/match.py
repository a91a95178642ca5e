"""Which signature a row shows: fills the event table's ``signature`` column.

Rows repeat: thousands of ranks print one text with other numbers in it. So rows are grouped by (event, text with its
numbers masked, the facts that ``where`` asks for), vectorised, and only one row of each group is matched in Python.
Numbers that any rule spells out (a completion status, an error code) are kept apart and are part of the group's key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from correlator.events import COLUMNS, Pattern, Severity
from correlator.plugins import load_parsers
from correlator.signatures.model import Signature, load_signatures

#: Event of a line that no parser took and a signature's own literal found.
OWN_EVENT = "log.message"

#: Attributes that hold text of the message, beside ``body``: a chained exception shows its first and its last link.
_TEXT_ATTRIBUTES = (("type", "message"), ("outer_type", "outer_message"))

_SEVERITY: dict[str, Severity] = {"cause": "error", "symptom": "warning", "teardown": "info", "context": "info"}
_NUMBER = r"0[xX][0-9a-fA-F]+|[0-9]+"

#: Gives the value of a column or attribute as text, or None.
_Fact = Callable[[str], str | None]


@cache
def _compiled(regex: str) -> re.Pattern[str]:
    # Far more patterns than re's own cache holds.
    return re.compile(regex, re.MULTILINE)


def _text_holds(signature: Signature, text: str) -> bool:
    match = signature.match
    if match.contains and not any(part in text for part in match.contains):
        return False
    if not all(part in text for part in match.all_of) or any(part in text for part in match.not_contains):
        return False
    return not match.regex or _compiled(match.regex).search(text) is not None


def _wanted(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, tuple) else (str(value),)


def _holds(signature: Signature, text: str, fact: _Fact) -> bool:
    where = signature.match.where
    return all(fact(name) in _wanted(value) for name, value in where.items()) and _text_holds(signature, text)


class _Index:
    """Signatures by event name, best first, and what their rules ask of a row."""

    def __init__(self, signatures: Sequence[Signature]) -> None:
        ordered = sorted(signatures, key=lambda s: (-s.priority, -s.weight, s.id))
        self._ordered = tuple(ordered)
        self._by_event: dict[str, tuple[Signature, ...]] = {}
        self.facts = tuple(sorted({name for s in ordered for name in s.match.where}))
        self.spelled_numbers = {
            number
            for s in ordered
            for part in (*s.match.contains, *s.match.all_of, *s.match.not_contains, s.match.regex)
            for number in re.findall(_NUMBER, part)
        }

    def candidates(self, event: str) -> tuple[Signature, ...]:
        if event not in self._by_event:
            fitting = tuple(s for s in self._ordered if not s.match.events or event in s.match.events)
            self._by_event[event] = fitting
        return self._by_event[event]

    def best(self, event: str, text: str, fact: _Fact) -> Signature | None:
        return next((s for s in self.candidates(event) if _holds(s, text, fact)), None)


@lru_cache(maxsize=1)
def _packaged() -> _Index:
    return _Index(load_signatures())


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


def _fact_column(table: pa.Table, name: str) -> pa.ChunkedArray:
    if name in COLUMNS:
        return pc.cast(table.column(name), pa.string())
    return pc.map_lookup(table.column("attributes"), pa.scalar(name), "first")


def _texts(table: pa.Table) -> pl.Series:
    """Body, then what the attributes say of the first and the last link of an exception chain."""
    frame = pl.DataFrame({"body": pl.Series(_fact_column(table, "body"), dtype=pl.String)})
    for kind, message in _TEXT_ATTRIBUTES:
        frame = frame.with_columns(
            pl.Series(kind, _fact_column(table, kind), dtype=pl.String),
            pl.Series(message, _fact_column(table, message), dtype=pl.String),
        )
    links = [
        pl.when(pl.col(kind).is_not_null())
        .then(pl.concat_str(pl.lit("\n"), pl.col(kind), pl.lit(": "), pl.col(message).fill_null("")))
        .otherwise(pl.lit(""))
        for kind, message in _TEXT_ATTRIBUTES
    ]
    return frame.select(pl.concat_str(pl.col("body").fill_null(""), *links).alias("text")).to_series()


def assign(table: pa.Table, signatures: Sequence[Signature] | None = None) -> pa.Table:
    """``table`` with ``signature`` filled: the id of the best signature that each row shows, or null.

    Reads ``event``, ``body``, ``attributes`` and the columns that ``where`` conditions name. Without ``signatures``:
    those of this package.
    """
    index = _packaged() if signatures is None else _Index(signatures)
    facts = [f"fact:{name}" for name in index.facts]
    frame = pl.DataFrame(
        [
            pl.Series("event", _fact_column(table, "event"), dtype=pl.String),
            _texts(table),
            *(pl.Series(f"fact:{name}", _fact_column(table, name), dtype=pl.String) for name in index.facts),
        ]
    )
    keyed = frame.with_row_index("row").with_columns(
        pl.col("text").str.replace_all(_NUMBER, "0").alias("masked"),
        pl.col("text")
        .str.extract_all(_NUMBER)
        .list.eval(pl.element().filter(pl.element().is_in(sorted(index.spelled_numbers))))
        .list.join(" ")
        .alias("spelled"),
    )
    groups = keyed.group_by("event", "masked", "spelled", *facts, maintain_order=True).agg(
        pl.col("row"), pl.col("text").first()
    )
    ids: list[str | None] = []
    for group in groups.iter_rows(named=True):
        known = {name: group[f"fact:{name}"] for name in index.facts}
        found = index.best(group["event"] or "", group["text"], known.get)
        ids.append(found.id if found else None)
    filled = groups.select("row").with_columns(pl.Series("signature", ids, dtype=pl.String)).explode("row").sort("row")
    column = pa.array(filled["signature"].to_list(), pa.string())
    return table.set_column(table.schema.get_field_index("signature"), table.schema.field("signature"), column)


def _events_in(text: str) -> list[tuple[str, str, dict[str, str]]]:
    """(event, text, captured facts) of what the installed parsers see in ``text``; envelopes are not peeled."""
    lines = text.splitlines()
    found: list[tuple[str, str, dict[str, str]]] = []
    for parser in load_parsers():
        for pattern in parser.patterns:
            for number, line in enumerate(lines):
                if not any(literal in line for literal in pattern.literals):
                    continue
                if pattern.block:
                    for item in pattern.block(lines[number : number + pattern.block_lines]):
                        facts = {k: str(v) for k, v in {**pattern.fields, **item.fields}.items() if v is not None}
                        found.append((item.event or pattern.event, item.body or line, facts))
                elif hit := _compiled(pattern.regex).search(line):
                    facts = {k: str(v) for k, v in {**pattern.fields, **hit.groupdict()}.items() if v is not None}
                    found.append((pattern.event, line, facts))
    return found


def match_text(text: str) -> list[Signature]:
    """Signatures that a pasted text shows, best first.

    A signature counts if its text conditions hold for the whole text (its event is then not asked for, and a value of
    each ``where`` must stand in the text as a word), or if a parser sees its event in a line.
    """
    found: dict[str, Signature] = {}
    events = _events_in(text)
    for signature in load_signatures():
        match = signature.match
        spoken = match.contains or match.all_of or match.regex
        if spoken and _text_holds(signature, text):
            words = (_wanted(value) for value in match.where.values())
            if all(any(re.search(rf"\b{re.escape(v)}\b", text) for v in values) for values in words):
                found[signature.id] = signature
                continue
        for event, body, facts in events:
            if (not match.events or event in match.events) and _holds(signature, body, facts.get):
                found[signature.id] = signature
                break
    return list(found.values())
