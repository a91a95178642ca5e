"""Signs in the event table, as the data files of this package name them: an event, and values that its facts have."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from correlator.bundle.model import Place, Sign
from correlator.records import Row, moment
from correlator.untrusted import read_number

#: Characters of a line that a sign shows.
_SHOWN = 400


class Match(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One kind of event. ``where``: columns or attributes and the values they may have; ``at_least``: a number each.

    ``signature``: ids of failures that the row may have been recognised as.
    """

    event: str = ""
    where: dict[str, list[str]] = {}
    at_least: dict[str, int] = {}
    signature: list[str] = []

    def holds(self, row: Row) -> bool:
        """Whether a row is such an event."""
        if (self.event and row.event != self.event) or (self.signature and row.signature not in self.signature):
            return False
        if not all(fact(row, name) in values for name, values in self.where.items()):
            return False
        return all((read_number(fact(row, name)) or 0) >= least for name, least in self.at_least.items())


def fact(row: Row, name: str) -> str:
    """A column or an attribute of a row as text; empty where it has none."""
    value = row.attributes.get(name)
    if value is None:
        value = getattr(row, name, None) if name in Row.__dataclass_fields__ else None
    return "" if value is None else str(value)


def last_time(row: Row) -> int | None:
    """Corrected time of the last of the equal lines that a row stands for, in ns."""
    if row.time is None or row.timestamp is None or row.last_timestamp is None:
        return row.time
    return row.time + max(0, row.last_timestamp - row.timestamp)


def first_match(row: Row, matches: Iterable[Match]) -> bool:
    """Whether a row is one of several kinds of event."""
    return any(match.holds(row) for match in matches)


def matching(rows: Iterable[Row], matches: Sequence[Match]) -> list[Row]:
    """The rows that are one of several kinds of event."""
    return [row for row in rows if first_match(row, matches)]


def sign_of(row: Row, matches: Iterable[Match] = ()) -> Sign:
    """A row as a line with its place, and the values for which it counts as one of ``matches``."""
    text = " ".join(row.body.split())[:_SHOWN]
    match = next((match for match in matches if match.holds(row)), None)
    asked = [*match.where, *match.at_least] if match else []
    told = [f"{name} {fact(row, name)}" for name in asked if fact(row, name) not in text]
    if row.count > 1:
        told.append(f"{row.count:,} times")
    return Sign(f"{text} ({', '.join(told)})" if told else text, Place(row.file, row.line), moment(row.time))


@cache
def load_data(name: str) -> dict[str, Any]:
    """One data file of this package; do not change what comes back."""
    return tomllib.loads((files("correlator.bundle") / "data" / f"{name}.toml").read_text(encoding="utf-8"))
