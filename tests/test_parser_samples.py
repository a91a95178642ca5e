"""One test over everything registered: a pattern finds its own sample, refuses its look-alikes, and keeps the rules."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from correlator.events import COLUMNS, SCHEMA, Found, Parser, Pattern
from correlator.plugins import load_parsers

PARSERS = load_parsers()
PATTERNS = [(parser, pattern) for parser in PARSERS for pattern in parser.patterns]
#: Shorter literals would make the byte scan stop at ordinary lines.
SHORTEST_LITERAL = 4
#: Columns of later stages; a capture of this name stays an attribute.
ATTRIBUTES = {"time", "time_bound_ns", "signature"}
FILLED_BY_INGEST = {"file", "line", "byte_offset", "byte_length", "writer", "event", "attributes"}


def _name(parser: Parser, pattern: Pattern) -> str:
    return f"{parser.name}-{pattern.event}-{pattern.literals[0] if pattern.literals else ''}"[:70]


def find(pattern: Pattern, text: str) -> list[tuple[str, dict[str, object]]]:
    """The events that a pattern finds in a text, from the first line on that holds one of its literals."""
    lines = text.split("\n")
    start = next((i for i, line in enumerate(lines) if any(word in line for word in pattern.literals)), None)
    if start is None:
        return []
    if pattern.block is not None:
        found = pattern.block(lines[start : start + pattern.block_lines + 1])
        assert all(_is_sound(each, len(lines) - start) for each in found)
        return [(each.event or pattern.event, {**pattern.fields, **each.fields}) for each in found]
    match = re.search(pattern.regex, lines[start])
    if match is None:
        return []
    return [(pattern.event, {**pattern.fields, **{k: v for k, v in match.groupdict().items() if v is not None}})]


def _is_sound(found: Found, lines: int) -> bool:
    at = found.first if found.at is None else found.at
    return 0 <= found.first <= found.last < lines and 0 <= at < lines


@pytest.fixture(params=PATTERNS, ids=[_name(*both) for both in PATTERNS])
def pattern(request: pytest.FixtureRequest) -> Pattern:
    chosen: Pattern = request.param[1]
    return chosen


def test_sample_gives_the_event(pattern: Pattern) -> None:
    assert pattern.sample, "a pattern without a sample cannot be trusted"
    events = {event for event, _ in find(pattern, pattern.sample)}
    # A block that tells several kinds of event apart names each itself; then only the emitter is fixed.
    assert pattern.event in events or (
        pattern.block and {e.partition(".")[0] for e in events} == {pattern.event.partition(".")[0]}
    )


def test_look_alikes_are_refused(pattern: Pattern) -> None:
    for text in pattern.not_samples:
        assert find(pattern, text) == []


def test_refuses_a_line_of_another_kind(pattern: Pattern) -> None:
    for text in ("", "\ufffd\ufffd", "the data loader is ready"):
        assert find(pattern, text) == []
        if pattern.regex:
            assert re.search(pattern.regex, text) is None


def test_block_parsers_take_a_line_that_is_only_a_literal(pattern: Pattern) -> None:
    if pattern.block is not None:
        for word in pattern.literals:
            assert all(_is_sound(each, 1) for each in pattern.block([word]))


def test_block_parsers_survive_every_cut_of_their_sample(pattern: Pattern) -> None:
    if pattern.block is None:
        return
    lines = pattern.sample.split("\n")
    for end in range(1, len(lines) + 1):
        for text in (lines[:end], [*lines[: end - 1], lines[end - 1][: len(lines[end - 1]) // 2]]):
            assert all(_is_sound(each, len(text)) for each in pattern.block(text))


def test_fields_fit_their_columns(pattern: Pattern) -> None:
    for _, fields in find(pattern, pattern.sample):
        for name, value in fields.items():
            assert re.fullmatch(r"[A-Za-z_][\w.-]*", name)
            assert name not in FILLED_BY_INGEST, f"{name} is the table's own"
            if name in COLUMNS - ATTRIBUTES:
                kind = SCHEMA.field(name).type
                pa.array([value if pa.types.is_string(kind) else int(str(value))], kind)
            else:
                assert isinstance(value, str | int | float)


def test_pattern_is_well_formed(pattern: Pattern) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*", pattern.event)
    assert (pattern.block is None) != (not pattern.regex), "either a regex or a block parser"
    for word in pattern.literals:
        assert word.isascii() and len(word) >= SHORTEST_LITERAL
    re.compile(pattern.regex)
    assert not re.search(r"\(\?(?:[=!]|<[=!]|P=)|\\[1-9]", pattern.regex), "no look-around, no back-references"


def test_an_event_belongs_to_one_parser() -> None:
    owners: dict[str, set[str]] = {}
    for parser, pattern in PATTERNS:
        # What every framework reports alike has one name, whoever prints it.
        if not pattern.event.startswith(("trainer.", "checkpoint.")):
            owners.setdefault(pattern.event, set()).add(parser.name)
    assert {event: names for event, names in owners.items() if len(names) > 1} == {}


def test_parser_names_are_unique_and_have_patterns() -> None:
    names = [parser.name for parser in PARSERS]
    assert len(names) == len(set(names)) and all(parser.patterns for parser in PARSERS)
