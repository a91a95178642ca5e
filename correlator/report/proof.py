"""The lines that prove an answer: place, why it counts, and the raw lines around it with the key line marked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.text import Text

from correlator.diagnosis import Document
from correlator.report import layout
from correlator.report.safe import visible, visible_lines

#: Gives the raw lines around a place: ``(file, line, before, after)``; ``line`` counts from 1.
Neighbourhood = Callable[[str, int, int, int], list[str]]

_BEFORE, _AFTER = 2, 1
_PROOFS_SHOWN = 4
#: A neighbour is there for orientation, so it is cut (and says so). The key line is shown whole, but for the monsters
#: that logs hold at times: a dumped tensor, a binary file.
_NEIGHBOUR_LIMIT = 150
_KEY_LIMIT = 4096
_CUT_WORTH = 40
#: A traceback's last message may go on for some lines.
_MORE_LINES = 6


@dataclass(frozen=True)
class _Proof:
    file: str
    line: int
    text: str
    why: str


def render_proof(document: Document, neighbourhood: Neighbourhood | None) -> Iterator[RenderableType]:
    """The first error with its neighbours, then the strongest further evidence, a line each."""
    proofs = list(_proofs(document))
    said = ""
    for number, proof in enumerate(proofs[:_PROOFS_SHOWN]):
        if number:
            yield ""
        place = layout.line(f"{proof.file}:{proof.line}", "bold")
        why, said = ("" if proof.why == said else proof.why), proof.why
        yield layout.indent(Text.assemble(place, "  ", layout.prose(why), overflow="fold"))
        yield from _lines(proof, neighbourhood if number == 0 else None)
    if len(proofs) > _PROOFS_SHOWN:
        yield layout.indent(layout.line(f"{len(proofs) - _PROOFS_SHOWN} more in the JSON: --format json", "dim"))


def _proofs(document: Document) -> Iterable[_Proof]:
    first = document.initiator.first_error
    said = sorted((entry for entry in document.evidence if entry.supports != "resume"), key=lambda entry: -entry.weight)
    found: dict[tuple[str, int], _Proof] = {}
    if first:
        found[first.file, first.line] = _Proof(first.file, first.line, first.text, "")
    for entry in said:
        place = entry.file, entry.line
        known = found.get(place)
        if known is None or not known.why:
            found[place] = _Proof(*place, known.text if known else entry.text, entry.why)
    return found.values()


def _lines(proof: _Proof, neighbourhood: Neighbourhood | None) -> Iterator[RenderableType]:
    own = visible_lines(proof.text.strip("\n"))
    after = max(_AFTER, min(len(own) - 1, _MORE_LINES))
    raw = neighbourhood(proof.file, proof.line, _BEFORE, after) if neighbourhood else []
    at = _key_index(raw, own[0], min(_BEFORE, proof.line - 1))
    if at is None:  # the file is gone or was changed: what was read is still known
        raw, at = proof.text.strip("\n").split("\n"), 0
    first = proof.line - at
    width = len(str(first + len(raw) - 1))
    for number, text in enumerate(raw, first):
        key = number == proof.line
        shown = _cut(text, _KEY_LIMIT if key else _NEIGHBOUR_LIMIT)
        mark = Text(f"{'>' if key else ' '} {number:>{width}}", style="bold red" if key else "dim")
        yield layout.hang(mark, Group(layout.line(shown, "bold" if key else "dim")), by=4)


def _key_index(raw: Sequence[str], text: str, expected: int) -> int | None:
    """Which of the raw lines is the key line; None if none of them is."""
    likely = sorted(range(len(raw)), key=lambda index: (index != expected, index))
    return next((index for index in likely if text.strip() in visible(raw[index])), None)


def _cut(text: str, limit: int) -> str:
    text = text.rstrip("\r\n")
    return text if len(text) <= limit + _CUT_WORTH else f"{text[:limit]}… (+{len(text) - limit:,} characters)"
