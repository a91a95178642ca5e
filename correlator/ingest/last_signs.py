"""Where in a large shared file a writer that fell silent was last heard.

The last lines of a file are looked at anyway. A writer that is not among them may have printed its last line anywhere
before; its label at the start of a line is a literal, so that the file is searched backwards at memory speed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from correlator.scan import compile_engine

#: Labels that stand unchanged at the start of every line of one writer.
_LABEL = (
    rb"(?:\[pod/[^\]\s]+\] |\[[\w.@-]+,\d+\]<std(?:out|err)>: ?|[A-Za-z0-9][\w.-]*:(?: |\d+ (?:out|err): )"
    rb"| {0,6}\d{1,6}: |\[\d{1,6}\] (?=\[?\w)|\[[A-Za-z_]+\d{1,5}\]:)"
)
_FIRST_LABEL = re.compile(_LABEL)
_LABELS = re.compile(_LABEL + rb"+")
_NUMERIC_LABEL = re.compile(rb" {0,6}\d{1,6}: ")
_CHUNK = 8 << 20
#: More silent writers than this are not looked for: then the file's end is not where the job's end is.
MAX_WRITERS = 512


def label_of(raw: bytes) -> bytes | None:
    """The labels in front of a raw line; None when it begins with something else."""
    match = _LABELS.match(raw)
    return match[0] if match else None


def first_label(raw: bytes | bytearray, start: int) -> bytes | None:
    """The outermost label of the raw line at ``start``; None when it begins with something else."""
    match = _FIRST_LABEL.match(raw, start)
    return match[0] if match else None


def naming_label(raw: bytes, name: str) -> bytes:
    """What all lines of a raw line's writer begin with; empty when that is not sure.

    ``name``: what the outermost label told. A label that is part of the writer's identity stands on each of its lines;
    up to the name it is spelled alike, behind that the stream may stand.
    """
    match, word = _FIRST_LABEL.match(raw), name.encode()
    return raw[: raw.rfind(word, 0, match.end()) + len(word)] if match and word and word in match[0] else b""


def numeric_label(raw: bytes) -> bytes:
    """The number and colon in front of a raw line, as ``srun -l`` prints them; empty when there are none."""
    match = _NUMERIC_LABEL.match(raw)
    return match[0] if match else b""


def find_last_lines(path: Path, end: int, labels: Mapping[str, bytes], others: Iterable[bytes]) -> dict[str, int]:
    """Byte offset of the last line before ``end`` that starts with each label; writers not found are left out.

    ``others`` are the labels of all writers of the file: a label that begins another one (an agent's, in front of its
    workers') stands on their lines too and is not looked for.
    """
    every = set(others) | set(labels.values())
    wanted = {label: key for key, label in labels.items() if not any(o != label and o.startswith(label) for o in every)}
    found: dict[str, int] = {}
    longest = max(map(len, wanted), default=0) + 1
    with path.open("rb", buffering=0) as stream:
        while wanted and end > 0:
            start = max(0, end - _CHUNK)
            stream.seek(start)
            data = stream.read(end - start)
            base = start
            if start == 0:  # the first line has no line end before it
                data, base = b"\n" + data, -1
            literals = sorted(b"\n" + label for label in wanted)
            hits = compile_engine(literals).scan(data, 0, len(data))
            last = {number: to - len(literals[number]) + 1 for to, number in hits}
            for number, position in last.items():
                found[wanted.pop(literals[number][1:])] = base + position
            end = start + longest if start else 0
    return found


def line_numbers(path: Path, offsets: Iterable[int], known: Mapping[int, int]) -> dict[int, int]:
    """Line number, from 1, of the line at each offset. ``known``: LFs before some offsets, 0 among them."""
    numbers: dict[int, int] = {}
    marks = sorted(known)
    position = lines = 0
    with path.open("rb", buffering=0) as stream:
        for offset in sorted(set(offsets)):
            mark = max(m for m in marks if m <= offset)
            if mark > position:
                position, lines = mark, known[mark]
            stream.seek(position)
            while position < offset:
                piece = stream.read(min(_CHUNK, offset - position))
                if not piece:
                    break
                lines += piece.count(b"\n")
                position += len(piece)
            numbers[offset] = lines + 1
    return numbers
