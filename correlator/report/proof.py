"""The lines that prove an answer: place, why it counts, and the raw lines around it with the key line marked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

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


#: Heading and telling fields of an entry in the launcher's report of failed processes.
_HEADING = re.compile(r"(?:\[[^\]]*\]:?\s*)*\[\d+\]:\s*|Root Cause.*|Failures:")
_STATED = re.compile(r"(?:\[[^\]]*\]:\s*)?\s*(?:host|rank|exitcode|time)\s*:")
_ENTRY_LINES = 7
#: A JSON object longer than this is cut to its message.
_JSON_WORTH = 300
_MESSAGE = re.compile(r'"(message|msg|error|log)"\s*:\s*(?:\{\s*"message"\s*:\s*)?"((?:[^"\\]|\\.){8,2000})"')


@dataclass(frozen=True)
class _Proof:
    file: str
    line: int
    text: str
    why: str


def render_proof(document: Document, neighbourhood: Neighbourhood | None) -> Iterator[RenderableType]:
    """The first error whole and with its neighbours, then the strongest further evidence, a line each."""
    for number, proof in enumerate(quoted_proofs(document, neighbourhood)):
        if number:
            yield ""
        place = layout.line(proof.place, "bold")
        yield layout.indent(Text.assemble(place, "  ", layout.prose(proof.why), overflow="fold"))
        yield from map(_numbered, proof.lines)
        if proof.same_at:
            yield layout.indent(layout.line(proof.same_at, "dim"), 4)
    hidden = len(more_proofs(document))
    if hidden:
        yield layout.indent(layout.line(f"{hidden} more in the JSON: --format json", "dim"))


@dataclass(frozen=True)
class QuotedLine:
    """One raw line. ``number`` is empty for a further line of the one before it."""

    number: str
    text: str
    is_key: bool


@dataclass(frozen=True)
class Quoted:
    """A proof: its place, why it counts, its lines, and where else the same stands."""

    place: str
    why: str
    lines: tuple[QuotedLine, ...]
    same_at: str = ""


def quoted_proofs(document: Document, neighbourhood: Neighbourhood | None, *, roomy: bool = False) -> list[Quoted]:
    """The strongest proofs, the first with its neighbours; all of them with theirs where the page is ``roomy``."""
    told = {document.verdict.summary}
    found: list[Quoted] = []
    shown: set[str] = set()
    for number, (proof, *others) in enumerate(_alike(_proofs(document))[:_PROOFS_SHOWN]):
        if f"{proof.file}:{proof.line}" in shown:
            continue
        why = "" if any(proof.why in text for text in told) else proof.why  # a reason is given once
        told.add(proof.why)
        whole = number == 0 or (roomy and not _HEADING.fullmatch(proof.text.split("\n")[0]))
        lines = [*(_first_lines(proof, neighbourhood) if whole else _key_line(proof, neighbourhood))]
        shown |= {f"{proof.file}:{line.number.strip()}" for line in lines}
        places = ", ".join(f"{other.file}:{other.line}" for other in others[:_PLACES_SHOWN])
        places += f" and {len(others) - _PLACES_SHOWN} more" if len(others) > _PLACES_SHOWN else ""
        same_at = f"the same at {places}" if others else ""
        found.append(Quoted(f"{proof.file}:{proof.line}", why, tuple(lines), same_at))
    return found


def more_proofs(document: Document) -> list[tuple[str, str]]:
    """Place and reason of the evidence that is not quoted."""
    groups = _alike(_proofs(document))[_PROOFS_SHOWN:]
    return [(f"{proof.file}:{proof.line}", proof.why) for group in groups for proof in group]


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


def _first_lines(proof: _Proof, neighbourhood: Neighbourhood | None) -> Iterator[QuotedLine]:
    own = [_telling(line) for line in proof.text.split("\n")]
    after = max(_AFTER, min(len(own) - 1, _MORE_LINES))
    raw = neighbourhood(proof.file, proof.line, _BEFORE, after) if neighbourhood else []
    at = _key_index(raw, visible_lines(proof.text.split("\n")[0])[0], min(_BEFORE, proof.line - 1))
    if at is None:  # the file is gone or was changed: what was read is still known
        yield QuotedLine(str(proof.line), _cut(own[0], _KEY_LIMIT), True)
        yield from (QuotedLine("", _cut(text, _KEY_LIMIT), False) for text in own[1:])
        return
    width = len(str(proof.line - at + len(raw) - 1))
    for number, text in enumerate(raw, proof.line - at):
        key = number == proof.line
        shown = _cut(_telling(text), _KEY_LIMIT) if key else _cut(text, _NEIGHBOUR_LIMIT)
        yield QuotedLine(f"{number:>{width}}", shown, key)


def _key_line(proof: _Proof, neighbourhood: Neighbourhood | None) -> Iterator[QuotedLine]:
    lines = proof.text.split("\n")
    if _HEADING.fullmatch(lines[0]):
        # Of a launcher's entry the heading tells nothing; what it states does.
        raw = neighbourhood(proof.file, proof.line, 0, _ENTRY_LINES) if neighbourhood else lines
        entry = takewhile(lambda line: not _HEADING.fullmatch(line.strip()), raw[1:])
        stated = [line for line in entry if _STATED.match(line)]
        yield QuotedLine(
            str(proof.line), "; ".join(" ".join(s.split()) for s in stated) or _cut(lines[0], _KEY_LIMIT), True
        )
        return
    more = f" … (+{words.count_words(len(lines) - 1, 'line')})" if len(lines) > 1 else ""
    yield QuotedLine(str(proof.line), _cut(_telling(lines[0]), _KEY_LIMIT) + more, True)


def _telling(text: str) -> str:
    """A line with a long JSON object: its message alone, and how much was left out."""
    message = _MESSAGE.search(text) if len(text) > _JSON_WORTH and text.lstrip().startswith("{") else None
    if message is None:
        return text
    return f'"{message[1]}": "{message[2]}" … (+{len(text) - len(message[0]):,} characters)'


def _numbered(line: QuotedLine) -> RenderableType:
    if not line.number:
        return layout.indent(layout.line(line.text), 8)
    mark = Text(f"{'>' if line.is_key else ' '} {line.number}", style="bold red" if line.is_key else "dim")
    return layout.hang(mark, layout.line(line.text, "bold" if line.is_key else "dim"), by=4)


def _key_index(raw: Sequence[str], text: str, expected: int) -> int | None:
    """Which of the raw lines is the key line; None if none of them is."""
    likely = sorted(range(len(raw)), key=lambda index: (index != expected, index))
    return next((index for index in likely if text.strip() in visible(raw[index])), None)


def _cut(text: str, limit: int) -> str:
    text = text.rstrip("\r\n")
    return text if len(text) <= limit + _CUT_WORTH else f"{text[:limit]}… (+{len(text) - limit:,} characters)"
