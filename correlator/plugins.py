"""Parsers, found through the entry-point group ``correlator.parsers`` when they are asked for, never at import."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import entry_points

from correlator.events import Parser

GROUP = "correlator.parsers"


@lru_cache(maxsize=1)
def load_parsers() -> tuple[Parser, ...]:
    """All installed parsers, by name. An entry point gives a callable that returns an iterable of Parser."""
    found: dict[str, Parser] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda p: (p.name != "builtin", p.name)):
        for parser in point.load()():
            found.setdefault(parser.name, parser)
    return tuple(found[name] for name in sorted(found))
