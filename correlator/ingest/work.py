"""What goes into reading one piece of a run, and what comes out: plain values that travel between processes."""

from __future__ import annotations

from dataclasses import dataclass, field

from correlator.discovery import SourceFile
from correlator.envelopes.peeled import FileContext
from correlator.ingest.rows import Row
from correlator.ingest.writers import WriterTrace


@dataclass(frozen=True, slots=True)
class Limits:
    """How closely a file is looked at; less when there are many files.

    Of a window's hits so many first and last ones are parsed: ``sparse`` of every sparse pattern (``sparse_shared`` in
    a file of several writers, whose last ones are all wanted), ``harmless`` of a literal that only harmless patterns
    have (in a file of one writer). ``head_bytes`` and ``tail_bytes`` are looked at line by line.
    """

    sparse: int
    sparse_shared: int
    harmless: int
    head_bytes: int
    tail_bytes: int


@dataclass(frozen=True, slots=True)
class Unit:
    """A byte range of one file; ``index`` orders the units of a run, ``position`` the files."""

    index: int
    position: int
    file: SourceFile
    start: int
    end: int

    @property
    def whole(self) -> bool:
        """True when the unit is all of its file."""
        return self.start == 0 and self.end == self.file.size


@dataclass(slots=True)
class Failure:
    """A parser that raised on some lines: the first of them, counted as ``UnitResult.lines`` does, and how many."""

    parser: str
    line: int
    error: str
    count: int = 1


@dataclass(slots=True)
class UnitResult:
    """What a unit gave. ``lines``: lines that end in its own range, by which later units' line numbers grow.

    ``failures`` by parser: the lines stay what they would be without it.
    """

    index: int
    position: int
    context: FileContext
    rows: list[Row] = field(default_factory=list)
    writers: dict[str, WriterTrace] = field(default_factory=dict)
    lines: int = 0
    bytes: int = 0
    first_ns: int | None = None
    last_ns: int | None = None
    damage: str | None = None
    failures: dict[str, Failure] = field(default_factory=dict)

    def note_failure(self, parser: str, line: int, error: Exception) -> None:
        """Note that a parser raised on a line."""
        if parser in self.failures:
            self.failures[parser].count += 1
        else:
            what = f"{type(error).__name__}: {' '.join(str(error).split())[:100]}"
            self.failures[parser] = Failure(parser, line, what)
