"""What a parser makes of a few lines, without reading any file."""

from __future__ import annotations

import re

from correlator.events import Parser


def find(parser: Parser, text: str) -> list[tuple[str, dict[str, object]]]:
    """Events and captured fields of the first pattern that fits a text whose first line is the candidate."""
    lines = text.split("\n")
    for pattern in parser.patterns:
        if not any(literal in lines[0] for literal in pattern.literals):
            continue
        if pattern.block is not None:
            founds = pattern.block(lines[: pattern.block_lines + 1])
            if founds:
                return [(found.event or pattern.event, {**pattern.fields, **found.fields}) for found in founds]
        elif match := re.search(pattern.regex, lines[0]):
            return [
                (pattern.event, {**pattern.fields, **{k: v for k, v in match.groupdict().items() if v is not None}})
            ]
    return []
