"""Patterns compiled for the two stages: literals for the byte scan, regular expressions for candidate lines."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from correlator.errors import CorrelatorError
from correlator.events import BODY_LIMIT, Found, Parser, Pattern
from correlator.scan import Engine, build_engine

#: Most characters of a line that a pattern sees, around its literal: what regular expressions cost on adversarial
#: text grows with the square of its length. The literal stands behind the first _BEFORE of them where the line is long.
PATTERN_TEXT = 8192
_BEFORE = 2048
_KEPT_BEFORE = 200
# Sets of literals that were hit together whose patterns are remembered.
_MOST_SETS = 10_000
#: Places of one literal in a long line that are tried.
_PLACES = 4


def views(text: str, literals: Sequence[str]) -> Iterator[str]:
    """The parts of a long line in which a pattern with these literals can match; all of a short one."""
    if len(text) <= PATTERN_TEXT:
        yield text
        return
    tried = 0
    end = -1
    places = sorted({at for literal in literals for at in _places(text, literal)})
    for at in places:
        if at < end - _BEFORE:
            continue  # well inside the part before
        start = max(0, at - _BEFORE)
        end = start + PATTERN_TEXT
        yield text[start:end]
        if at > _BEFORE:
            yield text[at:end]  # for patterns that want the literal at the very start
        tried += 1
        if tried == _PLACES:
            return


def excerpt(text: str, literals: Sequence[str]) -> str:
    """What is kept of a line: all of it, save that a long run of something else before the literal is cut."""
    if len(text) <= BODY_LIMIT:
        return text
    at = min((at for literal in literals if (at := text.find(literal)) >= 0), default=0)
    return text if at < BODY_LIMIT // 2 else text[at - _KEPT_BEFORE :]


def _places(text: str, literal: str) -> Iterator[int]:
    at = text.find(literal)
    for _ in range(_PLACES):
        if at < 0:
            return
        yield at
        at = text.find(literal, at + PATTERN_TEXT // 2)


@dataclass(frozen=True)
class Entry:
    """One pattern in its place: ``parser`` and ``order`` say which is tried first."""

    number: int
    parser: int
    order: int
    pattern: Pattern
    extra: bool

    @cached_property
    def regex(self) -> re.Pattern[str] | None:
        """Compiled when a line first asks for it: most patterns' lines are in no log of a job."""
        try:
            return re.compile(self.pattern.regex) if self.pattern.regex else None
        except re.error as error:
            raise CorrelatorError(f"pattern of {self.pattern.event}: {error}") from error

    def matches(self, text: str) -> dict[str, object] | None:
        """What a one-line pattern captures in a peeled line; None when it does not match."""
        pattern = self.pattern
        if self.regex is None:
            return dict(pattern.fields) if any(literal in text for literal in pattern.literals) else None
        match = next((found for part in views(text, pattern.literals) if (found := self.regex.search(part))), None)
        if match is None:
            return None
        return {**pattern.fields, **{k: v for k, v in match.groupdict().items() if v is not None}}

    def read_block(self, lines: Sequence[str]) -> Sequence[Found]:
        """What a block pattern finds; of one long line it sees the parts around its literals, of JSON all."""
        block = self.pattern.block
        assert block is not None
        if self.pattern.block_lines or lines[0].startswith("{"):
            return block(lines)
        founds = (block((part,)) for part in views(lines[0], self.pattern.literals))
        return next(filter(None, founds), ())


def _spellings(literal: str) -> set[bytes]:
    """The literal as it stands in the bytes: plain, and escaped as inside a JSON envelope."""
    return {literal.encode(), json.dumps(literal)[1:-1].encode()}


class Matcher:
    """All patterns of a run. ``dense`` literals are reported everywhere, ``sparse`` ones only at a window's edges."""

    def __init__(self, parsers: Sequence[Parser], extra: Iterable[Pattern] = ()) -> None:
        self.entries: list[Entry] = []
        self.parser_names = (*(parser.name for parser in parsers), "signatures")
        groups = [(number, parser.patterns, False) for number, parser in enumerate(parsers)]
        groups.append((len(parsers), tuple(extra), True))
        dense: dict[bytes, list[Entry]] = defaultdict(list)
        sparse: dict[bytes, list[Entry]] = defaultdict(list)
        for number, patterns, is_extra in groups:
            for order, pattern in enumerate(patterns):
                entry = self._entry(number, order, pattern, is_extra)
                self.entries.append(entry)
                for literal in pattern.literals:
                    for spelling in _spellings(literal):
                        (sparse if pattern.sparse else dense)[spelling].append(entry)
        self.dense_literals = tuple(sorted(dense))
        self.dense_lengths = [len(literal) for literal in self.dense_literals]
        self.sparse_literals = tuple(sorted(sparse))
        self.dense_entries = [dense[literal] for literal in self.dense_literals]
        self.sparse_entries = [sparse[literal] for literal in self.sparse_literals]
        self._candidates: dict[frozenset[int], Sequence[Entry]] = {}

    def _entry(self, parser: int, order: int, pattern: Pattern, extra: bool) -> Entry:
        if not pattern.literals or not all(literal.isascii() and literal for literal in pattern.literals):
            raise CorrelatorError(f"pattern of {pattern.event} needs ASCII literals for the byte scan")
        return Entry(len(self.entries), parser, order, pattern, extra)

    def engines(self) -> tuple[Engine, Engine]:
        """The compiled literal sets, dense and sparse."""
        return build_engine(self.dense_literals), build_engine(self.sparse_literals)

    def candidates(self, numbers: frozenset[int]) -> Sequence[Entry]:
        """The patterns whose literals were hit, in the order in which they are to be tried.

        ``numbers``: of dense literals as they are, of sparse ones n as -1 - n.
        """
        known = self._candidates.get(numbers)
        if known is None:
            known = self._find_candidates((n for n in numbers if n >= 0), (-1 - n for n in numbers if n < 0))
            if len(self._candidates) < _MOST_SETS:
                self._candidates[numbers] = known
        return known

    def _find_candidates(self, dense: Iterable[int], sparse: Iterable[int]) -> list[Entry]:
        found: dict[int, Entry] = {}
        for literal in dense:
            for entry in self.dense_entries[literal]:
                found[entry.number] = entry
        for literal in sparse:
            for entry in self.sparse_entries[literal]:
                found[entry.number] = entry
        return [found[number] for number in sorted(found)]
