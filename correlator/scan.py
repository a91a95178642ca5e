"""Multi-literal search over raw bytes: where in a buffer does any literal end?

One small interface, three engines with the same result: hyperscan (extra ``fast``), ahocorasick_rs, and polars where
neither has a wheel. No Python code runs per line; only literals that are found cost anything.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Protocol

#: A bytes-like buffer that the caller may reuse.
Buffer = bytes | bytearray | memoryview

Hit = tuple[int, int]


class Engine(Protocol):
    """A compiled set of literals."""

    def scan(self, buffer: Buffer, start: int, end: int) -> list[Hit]:
        """``(end, literal number)`` of every occurrence inside ``buffer[start:end]``, overlaps included, sorted."""


class _Hyperscan:
    def __init__(self, literals: Sequence[bytes]) -> None:
        import hyperscan

        self._hyperscan = hyperscan
        self._database: Any = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        self._database.compile(
            expressions=list(literals), ids=list(range(len(literals))), elements=len(literals), flags=0, literal=True
        )
        self._scratch = threading.local()  # one a thread, or concurrent scans fail

    def scan(self, buffer: Buffer, start: int, end: int) -> list[Hit]:
        hits: list[Hit] = []
        append = hits.append

        def found(number: int, _from: int, to: int, _flags: int, _context: object) -> None:
            append((to + start, number))

        if not hasattr(self._scratch, "value"):
            self._scratch.value = self._hyperscan.Scratch(self._database)
        with memoryview(buffer) as view, view[start:end] as part:
            if len(part):  # hyperscan refuses an empty block
                self._database.scan(part, match_event_handler=found, scratch=self._scratch.value)
        hits.sort()
        return hits


class _AhoCorasick:
    def __init__(self, literals: Sequence[bytes]) -> None:
        import ahocorasick_rs

        self._machine = ahocorasick_rs.BytesAhoCorasick(
            list(literals), implementation=ahocorasick_rs.Implementation.DFA if len(literals) < 2000 else None
        )

    def scan(self, buffer: Buffer, start: int, end: int) -> list[Hit]:
        with memoryview(buffer) as view, view[start:end] as part:
            found = self._machine.find_matches_as_indexes(part, overlapping=True)
        return sorted((to + start, number) for number, _, to in found)


class _Polars:
    def __init__(self, literals: Sequence[bytes]) -> None:
        self._texts = [literal.decode("ascii") for literal in literals]
        self._numbers = {text: number for number, text in enumerate(self._texts)}
        self._ascii = bytes(range(128)) + b"?" * 128

    def scan(self, buffer: Buffer, start: int, end: int) -> list[Hit]:
        import polars as pl

        # polars wants valid UTF-8; one byte for one byte keeps the offsets, and literals are ASCII.
        text = bytes(memoryview(buffer)[start:end]).translate(self._ascii).decode("ascii")
        series = pl.Series([text])
        offsets = series.str.find_many(self._texts, overlapping=True)[0]
        words = series.str.extract_many(self._texts, overlapping=True)[0]
        return sorted(
            (offset + len(word) + start, self._numbers[word]) for offset, word in zip(offsets, words, strict=True)
        )


class _Nothing:
    def scan(self, buffer: Buffer, start: int, end: int) -> list[Hit]:
        return []


#: All engines, fastest first.
ENGINES: dict[str, Callable[[Sequence[bytes]], Engine]] = {
    "hyperscan": _Hyperscan,
    "ahocorasick": _AhoCorasick,
    "polars": _Polars,
}


@lru_cache(maxsize=16)
def build_engine(literals: tuple[bytes, ...], name: str | None = None) -> Engine:
    """As ``compile_engine``, compiled once a process and kept."""
    return compile_engine(literals, name)


def compile_engine(literals: Sequence[bytes], name: str | None = None) -> Engine:
    """The fastest engine that can be had for these literals, or the named one.

    Literals are distinct, non-empty ASCII bytes.
    """
    if not literals:
        return _Nothing()
    if name is not None:
        return ENGINES[name](literals)
    for engine in ENGINES.values():
        try:
            return engine(literals)
        except ImportError:
            continue
    raise AssertionError("polars is a dependency")
