"""Which signature a row shows: fills the event table's ``signature`` column.

Rows repeat: thousands of ranks print one text with other numbers in it. So rows are grouped by (event, text with its
numbers masked, the facts that ``where`` asks for), vectorised, and only one row of each group is matched in Python.
Numbers that any rule spells out (a completion status, an error code) are kept apart and are part of the group's key;
where a rule asks for a class of digits, nothing is masked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from correlator.events import COLUMNS, Pattern, Severity
from correlator.signatures.model import Signature, load_signatures

#: Event of a line that no parser took and a signature's own literal found.
OWN_EVENT = "log.message"

#: Attributes with text of the event beside ``body``: what is first in time (the exception raised first; the traceback
#: that a launcher repeats), and the last link of an exception chain.
_FIRST_TEXT = (("type", "message"), ("", "traceback"))
_LAST_TEXT = (("outer_type", "outer_message"),)

_SEVERITY: dict[str, Severity] = {"cause": "error", "symptom": "warning", "teardown": "info", "context": "info"}
#: Numbers, also hexadecimal words with a digit in them (addresses, ids).
_NUMBER = r"0[xX][0-9a-fA-F]+|\b[a-fA-F]*[0-9][0-9a-fA-F]*\b|[0-9]+"
#: A class of characters with single digits in it, such as ``[246]`` or ``[1-9]``; all digits alike are no such class.
_DIGIT_CLASS = re.compile(r"(?<!\\)\[(?!0-9(?:a-f)?(?:A-F)?\])[a-fA-F-]*[0-9][0-9a-fA-F-]*\]")

#: Events that are plain log lines. Where such a line itself says that the trouble was dealt with, it is no cause.
_PLAIN_EVENTS = frozenset({OWN_EVENT, "log.error", "os.error"})
_DEALT_WITH = re.compile(
    r"(?i)\b(re-?try|re-?trying|retries left|attempt \d+ ?(of|/)|will try again|skip(ped|ping)|ignor(ed|ing)|handled|"
    r"recovered|fall(s|ing)? back|fell back|using .{1,40} instead|continuing|non-?fatal)\b"
)

#: Gives the value of a column or attribute as text, or None.
_Fact = Callable[[str], str | None]


@cache
def _compiled(regex: str) -> re.Pattern[str]:
    # Far more patterns than re's own cache holds.
    return re.compile(regex, re.MULTILINE)


def text_holds(signature: Signature, text: str) -> bool:
    """Whether all text conditions of a signature hold for ``text``; its event and ``where`` are not looked at."""
    match = signature.match
    if match.contains and not any(part in text for part in match.contains):
        return False
    if not all(part in text for part in match.all_of) or any(part in text for part in match.not_contains):
        return False
    return not match.regex or _compiled(match.regex).search(text) is not None


def _wanted(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, tuple) else (str(value),)


#: Facts that follow from others: more processes counted at a barrier than the world has.
_DERIVED = {"workers_beyond_world": ("worker_count", "world_size")}


def _known(name: str, fact: _Fact) -> str | None:
    if name not in _DERIVED:
        return fact(name)
    more, less = (fact(source) for source in _DERIVED[name])
    if more is None or less is None or not (more.isdecimal() and less.isdecimal()):
        return None
    return "true" if int(more) > int(less) else "false"


def _holds(signature: Signature, text: str, fact: _Fact) -> bool:
    where = signature.match.where
    return all(_known(name, fact) in _wanted(value) for name, value in where.items()) and text_holds(signature, text)


class _Index:
    """Signatures by event name, best first, and what their rules ask of a row."""

    def __init__(self, signatures: Sequence[Signature]) -> None:
        ordered = sorted(signatures, key=lambda s: (-s.priority, -s.weight, s.id))
        self._ordered = tuple(ordered)
        self._by_event: dict[str, tuple[Signature, ...]] = {}
        asked = {name for s in ordered for name in s.match.where}
        self.facts = tuple(sorted({source for name in asked for source in _DERIVED.get(name, (name,))}))
        spelled = {
            number
            for s in ordered
            for part in (*s.match.contains, *s.match.all_of, *s.match.not_contains, s.match.regex)
            for number in re.findall(_NUMBER, part)
        }
        # The empty text is in each list because polars cannot tell the type of an empty one; it never matches a number
        # or an event.
        self.spelled_numbers = ["", *sorted(spelled)]
        exact = [s for s in ordered if _DIGIT_CLASS.search(s.match.regex)]
        literals = {part for s in exact if not s.match.events for part in s.match.contains}
        self.exact_events = ["", *sorted({event for s in exact for event in s.match.events})]
        self.exact_text = "|".join(map(re.escape, sorted(literals))) or r"\A\z."

    def candidates(self, event: str) -> tuple[Signature, ...]:
        if event not in self._by_event:
            fitting = tuple(s for s in self._ordered if not s.match.events or event in s.match.events)
            self._by_event[event] = fitting
        return self._by_event[event]

    def best(self, event: str, first: str, last: str, fact: _Fact) -> Signature | None:
        """The best signature of an event; ``last`` is the text of later links of an exception chain, often empty."""
        if event in _PLAIN_EVENTS and _DEALT_WITH.search(first):
            fitting = (s for s in self.candidates(event) if s.role != "cause")
            return next((s for s in fitting if _holds(s, first, fact)), None)
        found = next((s for s in self.candidates(event) if _holds(s, first, fact)), None)
        if not last or (found is not None and not found.is_fallback):
            return found
        later = next((s for s in self.candidates(event) if _holds(s, f"{first}\n{last}", fact)), None)
        return later if found is None or (later is not None and later.priority > found.priority) else found


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
            _texts(table, _FIRST_TEXT, "body").alias("first"),
            _texts(table, _LAST_TEXT).alias("last"),
            *(pl.Series(f"fact:{name}", _fact_column(table, name), dtype=pl.String) for name in index.facts),
        ]
    )
    text = pl.concat_str("first", pl.lit("\n"), "last")
    keyed = frame.with_row_index("row").with_columns(
        pl.when(pl.col("event").is_in(index.exact_events) | text.str.contains(index.exact_text))
        .then(text)
        .otherwise(text.str.replace_all(_NUMBER, "0"))
        .alias("masked"),
        text.str.extract_all(_NUMBER)
        .list.eval(pl.element().filter(pl.element().is_in(index.spelled_numbers)))
        .list.join(" ")
        .alias("spelled"),
    )
    groups = keyed.group_by("event", "masked", "spelled", *facts, maintain_order=True).agg(
        pl.col("row"), pl.col("first", "last").first()
    )
    ids: list[str | None] = []
    for group in groups.iter_rows(named=True):
        known = {name: group[f"fact:{name}"] for name in index.facts}
        found = index.best(group["event"] or "", group["first"], group["last"], known.get)
        ids.append(found.id if found else None)
    filled = groups.select("row").with_columns(pl.Series("signature", ids, dtype=pl.String)).explode("row").sort("row")
    column = pa.array(filled["signature"].to_list(), pa.string())
    return table.set_column(table.schema.get_field_index("signature"), table.schema.field("signature"), column)
