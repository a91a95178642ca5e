"""What preflight works with: values as a launch states them, and what is said about them.

A value is known, unknown (stated, but nobody can say it before the launch: ``$(hostname)``, a variable that is not set)
or absent (not stated). Unknown is never replaced by a guess: what rests on it is reported as not checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import msgspec

Severity = Literal["blocker", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("blocker", "warning", "note")


class Place(msgspec.Struct, frozen=True, order=True):
    """Where a value is written. ``line`` counts from 1; 0: a command line or a whole file. ``text``: the line."""

    file: str
    line: int
    text: str = ""


@dataclass(frozen=True)
class Unknown:
    """A value that cannot be known before the launch, and why, as a clause: ``$X is not set in job.sh``.

    ``options``: of words that may be one thing or another, the options (with their dashes) that stand in any of them;
    None: they may be anything. ``one``: whatever a shell variable holds, it is one word, without quotes as well.
    """

    why: str
    options: tuple[str, ...] | None = None
    one: bool = False


def together(values: Iterable[object]) -> Unknown | None:
    """One unknown for all among ``values``, each reason once; None where every value is known."""
    whys = dict.fromkeys(why for value in values if isinstance(value, Unknown) for why in value.why.split("; "))
    return Unknown("; ".join(whys)) if whys else None


Scalar = bool | int | float | str
Value = Scalar | tuple[Scalar, ...] | Unknown


@dataclass(frozen=True)
class Setting:
    """A stated value. ``place`` is None for what a program takes when nothing is said."""

    value: Value
    place: Place | None = None


@dataclass(frozen=True)
class Word:
    """A word of a shell command: known text and unknown pieces in their order.

    ``many``: an unquoted unknown, which may become any number of words.
    """

    pieces: tuple[str | Unknown, ...]
    many: bool = False

    @property
    def text(self) -> str | None:
        """The word, if all of it is known."""
        return None if self.unknown else "".join(piece for piece in self.pieces if isinstance(piece, str))

    @property
    def unknown(self) -> Unknown | None:
        """Why it is not known, all reasons together."""
        return together(self.pieces)

    @property
    def start(self) -> str:
        """The known text before the first unknown piece."""
        first = self.pieces[0] if self.pieces else ""
        return first if isinstance(first, str) else ""

    @property
    def value(self) -> str | Unknown:
        """The text, or why it is unknown."""
        return self.unknown or "".join(piece for piece in self.pieces if isinstance(piece, str))

    def partition(self, mark: str) -> tuple[str, Word] | None:
        """Text before the first ``mark`` and the word behind it; None where the known start has no mark."""
        name, found, rest = self.start.partition(mark)
        return (name, join([rest, *self.pieces[1:]])) if found else None


def join(pieces: Iterable[str | Unknown], many: bool = False) -> Word:
    """One word from pieces; neighbouring texts become one."""
    merged: list[str | Unknown] = []
    for piece in pieces:
        last = merged[-1] if merged else None
        if isinstance(piece, str) and isinstance(last, str):
            merged[-1] = last + piece
        elif piece != "":
            merged.append(piece)
    return Word(tuple(merged), many)


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What would go wrong. ``why`` has the arithmetic on the user's numbers, ``fix`` the right value.

    ``paste``: lines for the script. ``entry``: id in the encyclopedia. ``source``: who says so.
    """

    rule: str
    severity: Severity
    title: str
    why: str
    fix: str
    paste: list[str] = []
    entry: str | None = None
    places: list[Place] = []
    source: str = ""


class NotChecked(msgspec.Struct, frozen=True, kw_only=True):
    """A value that cannot be known, and the rules that therefore could not be checked."""

    why: str
    rules: list[str]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What preflight found. ``launches``: one line for each launch that was read; ``checked``: rules that applied."""

    launches: list[str]
    findings: list[Finding]
    not_checked: list[NotChecked]
    notes: list[str]
    checked: int
    schema: str = "correlator.preflight/1"

    @property
    def blocked(self) -> bool:
        """Whether a finding says that the launch cannot work."""
        return any(finding.severity == "blocker" for finding in self.findings)
