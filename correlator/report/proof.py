"""The lines that prove an answer: place, why it counts, and the raw lines around it with the key line marked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.text import Text

from correlator.diagnosis import Document
from correlator.report import layout, words
from correlator.report.safe import visible, visible_lines

#: Gives the raw lines around a place: ``(file, line, before, after)``; ``line`` counts from 1.
Neighbourhood = Callable[[str, int, int, int], list[str]]

_BEFORE, _AFTER = 2, 1
_PROOFS_SHOWN = 4
_PLACES_SHOWN = 4
#: A neighbour is there for orientation, so it is cut (and says so). The key line is shown whole, but for the monsters
#: that logs hold at times: a dumped tensor, a binary file.
_NEIGHBOUR_LIMIT = 150
_KEY_LIMIT = 4096
_CUT_WORTH = 40
_DIGITS = re.compile(r"\d+")
#: A traceback's last message may go on for some lines.
_MORE_LINES = 6


@dataclass(frozen=True)
class _Proof:
    file: str
    line: int
    text: str
    why: str


def render_proof(document: Document, neighbourhood: Neighbourhood | None) -> Iterator[RenderableType]:
    """The first error whole and with its neighbours, then the strongest further evidence, a line each."""
    groups = _alike(_proofs(document))
    said = {document.verdict.summary}
    for number, (proof, *others) in enumerate(groups[:_PROOFS_SHOWN]):
        if number:
            yield ""
        place = layout.line(f"{proof.file}:{proof.line}", "bold")
        why = "" if any(proof.why in told for told in said) else proof.why  # a reason is given once
        said.add(proof.why)
        yield layout.indent(Text.assemble(place, "  ", layout.prose(why), overflow="fold"))
        yield from _first_lines(proof, neighbourhood) if number == 0 else _key_line(proof)
        if others:
            places = ", ".join(f"{other.file}:{other.line}" for other in others[:_PLACES_SHOWN])
            places += f" and {len(others) - _PLACES_SHOWN} more" if len(others) > _PLACES_SHOWN else ""
            yield layout.indent(layout.line(f"the same at {places}", "dim"), 4)
    hidden = sum(len(group) for group in groups[_PROOFS_SHOWN:])
    if hidden:
        yield layout.indent(layout.line(f"{hidden} more in the JSON: --format json", "dim"))


def _proofs(document: Document) -> Iterable[_Proof]:
    first = document.initiator.first_error
    said = sorted((entry for entry in document.evidence if entry.supports != "resume"), key=lambda entry: -entry.weight)
    found: dict[tuple[str, int], _Proof] = {}
    if first:
        found[first.file, first.line] = _Proof(first.file, first.line, first.text.strip("\n"), "")
    for entry in said:
        place = entry.file, entry.line
        known = found.get(place)
        if known is None or not known.why:
            found[place] = _Proof(*place, known.text if known else entry.text.strip("\n"), entry.why)
    return found.values()


def _alike(proofs: Iterable[_Proof]) -> list[list[_Proof]]:
    """Proofs whose lines differ in numbers only (another rank, another time), together."""
    groups: dict[str, list[_Proof]] = {}
    for proof in proofs:
        groups.setdefault(_DIGITS.sub("#", proof.text), []).append(proof)
    return list(groups.values())


def _first_lines(proof: _Proof, neighbourhood: Neighbourhood | None) -> Iterator[RenderableType]:
    own = proof.text.split("\n")
    after = max(_AFTER, min(len(own) - 1, _MORE_LINES))
    raw = neighbourhood(proof.file, proof.line, _BEFORE, after) if neighbourhood else []
    at = _key_index(raw, visible_lines(own[0])[0], min(_BEFORE, proof.line - 1))
    if at is None:  # the file is gone or was changed: what was read is still known
        yield from _numbered({proof.line: own[0]}, proof.line)
        yield from (layout.indent(layout.line(_cut(text, _KEY_LIMIT)), 8) for text in own[1:])
    else:
        yield from _numbered(dict(enumerate(raw, proof.line - at)), proof.line)


def _key_line(proof: _Proof) -> Iterator[RenderableType]:
    first, *rest = proof.text.split("\n")
    more = f" … (+{words.count_words(len(rest), 'line')})" if rest else ""
    yield from _numbered({proof.line: first + more}, proof.line)


def _numbered(lines: Mapping[int, str], key: int) -> Iterator[RenderableType]:
    width = len(str(max(lines)))
    for number, text in lines.items():
        is_key = number == key
        shown = _cut(text, _KEY_LIMIT if is_key else _NEIGHBOUR_LIMIT)
        mark = Text(f"{'>' if is_key else ' '} {number:>{width}}", style="bold red" if is_key else "dim")
        yield layout.hang(mark, layout.line(shown, "bold" if is_key else "dim"), by=4)


def _key_index(raw: Sequence[str], text: str, expected: int) -> int | None:
    """Which of the raw lines is the key line; None if none of them is."""
    likely = sorted(range(len(raw)), key=lambda index: (index != expected, index))
    return next((index for index in likely if text.strip() in visible(raw[index])), None)


def _cut(text: str, limit: int) -> str:
    text = text.rstrip("\r\n")
    return text if len(text) <= limit + _CUT_WORTH else f"{text[:limit]}… (+{len(text) - limit:,} characters)"
