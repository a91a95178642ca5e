"""The lines that carry the case, cut from the original files with a little of what stands around them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from correlator.bundle.model import Excerpt
from correlator.bundle.redaction import Redactor
from correlator.bundle.sources import Piece, Sources, UnreadableSource
from correlator.records import Row

#: Lines shown before and after a line that matters.
_CONTEXT = 2
#: Bytes before an excerpt that are looked at with it: a key that is quoted in the log may have begun there.
_LEAD = 1 << 13
#: Excerpts of one bundle; the rest of a flood is in the timeline.
LIMIT = 80


@dataclass
class Quote:
    """A place worth quoting and the reasons."""

    file: str
    piece: Piece
    node: str | None
    reasons: list[str] = field(default_factory=list)
    order: int = 0


@dataclass(frozen=True)
class Cut:
    """An excerpt and its text, as it goes into the bag."""

    excerpt: Excerpt
    text: bytes


def find_quotes(
    sources: Sources, table: pa.Table, wanted: Iterable[tuple[Row, str]], problems: list[str]
) -> list[Quote]:
    """Places of the rows with their reasons; neighbours in one file become one. The first ``LIMIT`` rows count.

    A file that cannot be read any more is named in ``problems``.
    """
    lengths = table["byte_length"]
    found: list[Quote] = []
    seen: set[tuple[str, int]] = set()
    unreadable: set[str] = set()
    for row, why in wanted:
        key = (row.file, row.byte_offset)
        if key in seen or row.file not in sources or row.file in unreadable or len(seen) >= LIMIT:
            continue
        seen.add(key)
        length = lengths[row.index].as_py() or 1
        try:
            piece = sources.lines_around(row.file, row.byte_offset, length, row.line, _CONTEXT)
        except UnreadableSource as fault:
            unreadable.add(row.file)
            problems.append(str(fault))
            continue
        found.append(Quote(row.file, piece, row.node, [why], len(found)))
    joined = _joined(sorted(found, key=lambda q: (q.file, q.piece.start, q.piece.end)))
    return sorted(joined, key=lambda q: q.order)


def _joined(quotes: Sequence[Quote]) -> list[Quote]:
    joined: list[Quote] = []
    for quote in quotes:
        last = joined[-1] if joined else None
        if last is None or last.file != quote.file or quote.piece.start > last.piece.end:
            joined.append(quote)
            continue
        end = max(last.piece.end, quote.piece.end)
        lines = max(last.piece.line + last.piece.lines, quote.piece.line + quote.piece.lines) - last.piece.line
        last.piece = Piece(last.piece.start, end, last.piece.line, lines)
        last.order = min(last.order, quote.order)
        last.reasons += [why for why in quote.reasons if why not in last.reasons]
    return joined


def masked_piece(sources: Sources, redactor: Redactor, name: str, start: int, end: int) -> bytes:
    """The text of a piece with everything masked, seen with what stands before it."""
    lead = sources.read(name, max(0, start - _LEAD), start)
    lead = lead[lead.find(b"\n") + 1 :] if start > _LEAD else lead
    own = sources.read(name, start, end)
    masked = redactor.raw(lead + own)
    # Masking never adds or removes a line, so the piece begins behind as many line breaks as before.
    for _ in range(lead.count(b"\n")):
        masked = masked[masked.find(b"\n") + 1 :]
    return masked


def learn_quotes(sources: Sources, redactor: Redactor, quotes: Sequence[Quote]) -> None:
    """Lets the redactor see every quoted line once, so that values are known before the first is masked."""
    for quote in quotes:
        masked_piece(sources, redactor, quote.file, quote.piece.start, quote.piece.end)


def cut_excerpts(sources: Sources, redactor: Redactor, quotes: Sequence[Quote]) -> list[Cut]:
    """The excerpts, numbered in the order of ``quotes``."""
    cuts = []
    for number, quote in enumerate(quotes, start=1):
        piece = quote.piece
        original = sources.read(quote.file, piece.start, piece.end)
        text = masked_piece(sources, redactor, quote.file, piece.start, piece.end)
        identity = f"E{number:03}"
        cuts.append(
            Cut(
                Excerpt(
                    id=identity,
                    path=f"excerpts/{identity}.txt",
                    why="; ".join(quote.reasons),
                    file=quote.file,
                    node=quote.node,
                    line_start=piece.line,
                    line_end=piece.line + piece.lines - 1,
                    byte_offset=piece.start,
                    byte_length=piece.end - piece.start,
                    offsets_in="unpacked" if sources.is_unpacked(quote.file) else "file",
                    sha256=hashlib.sha256(text).hexdigest(),
                    source_sha256=sources.digest(quote.file),
                    source_bytes=sources.size(quote.file),
                    redacted=text != original,
                ),
                text,
            )
        )
    return cuts
