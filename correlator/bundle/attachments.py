"""The raw diagnostic files of the node: found among the logs, cut to what matters where they are large, masked."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

import msgspec

from correlator.bundle.excerpts import masked_piece
from correlator.bundle.matching import load_data
from correlator.bundle.model import Attachment
from correlator.bundle.redaction import Redactor
from correlator.bundle.sources import Sources, UnreadableSource
from correlator.bundle.subject import Subject
from correlator.cascade.model import Facts
from correlator.ingest import FileSummary

#: A file up to this size is attached whole; of a larger one the part around the fault, in bytes.
_WHOLE, _BEFORE, _AFTER = 4 << 20, 1 << 20, 1 << 18
_HEAD = 1 << 14
#: Separator of the sections of a bug report: 44 underscores on a line of their own.
_SEPARATOR = b"_" * 44
_MOST_SECTIONS = 400


class _Kind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    title: str
    order: int
    events: list[str] = []
    emitters: list[str] = []
    marks: list[str] = []
    names: str = ""
    sections: bool = False


@dataclass(frozen=True)
class Candidate:
    """A file or a part of one that belongs into the bundle, before it is masked."""

    kind: str
    title: str
    order: int
    file: str
    node: str | None
    start: int
    end: int
    name: str
    note: str = ""


@dataclass(frozen=True)
class Attached:
    """An attachment and its text; None: left out."""

    attachment: Attachment
    text: bytes | None


def find_attachments(facts: Facts, sources: Sources, subject: Subject, problems: list[str]) -> list[Candidate]:
    """The diagnostic files of the subject's node, and those of no known node that may be its own, by kind and name."""
    kinds = msgspec.convert(load_data("attachments")["kind"], list[_Kind])
    events: dict[str, set[str]] = {}
    about: dict[str, list[int]] = {}
    for row in facts.rows:
        events.setdefault(row.file, set()).add(row.event)
        if subject.is_about(row):
            about.setdefault(row.file, []).append(row.byte_offset)
    found: list[Candidate] = []
    for summary in facts.ingested.files:
        if summary.name not in sources:
            continue
        node = _node_of(summary, facts)
        if subject.node is not None and node not in (subject.node, None):
            continue
        if node is None and subject.node is not None and len(facts.topology.nodes) > 1 and summary.name not in about:
            continue
        try:
            head = sources.read(summary.name, 0, _HEAD)
            kind = _kind_of(kinds, summary, events.get(summary.name, set()), head)
            if kind is not None:
                found += _pieces(kind, summary.name, node or subject.node, sources, about.get(summary.name, []))
        except UnreadableSource as fault:
            problems.append(str(fault))
    return sorted(found, key=lambda c: (c.order, c.kind, c.file, c.start, c.end))


def _node_of(summary: FileSummary, facts: Facts) -> str | None:
    named = facts.topology.node_of_file.get(summary.name) or summary.claims.node
    if named is not None:
        return facts.topology.node_named(named) or named
    nodes = {row.node for row in facts.rows if row.file == summary.name and row.node}
    return nodes.pop() if len(nodes) == 1 else None


def _kind_of(kinds: Sequence[_Kind], summary: FileSummary, events: set[str], head: bytes) -> _Kind | None:
    base = summary.name.lower()
    for kind in kinds:
        if (
            events.intersection(kind.events)
            or set(kind.emitters).intersection(summary.emitters)
            or any(mark.encode() in head for mark in kind.marks)
            or (kind.names and re.search(kind.names, base))
        ):
            return kind
    return None


def _pieces(kind: _Kind, file: str, node: str | None, sources: Sources, about: Sequence[int]) -> Iterator[Candidate]:
    size = sources.text_size(file)
    start, end, note = 0, size, ""
    if size > _WHOLE and not kind.sections:
        start = max(0, min(about, default=size) - _BEFORE)
        end = min(size, max(about, default=size) + _AFTER)
        start = sources.read(file, start, start + _HEAD).find(b"\n") + 1 + start if start else 0
        note = f"bytes {start:,} to {end:,} of {size:,}: what stands around the fault"
    if sources.is_unpacked(file):
        note = "; ".join(filter(None, [note, "unpacked; offsets count in the unpacked text"]))
    base = _plain(file)
    if not kind.sections or size <= _WHOLE:
        yield Candidate(kind.id, kind.title, kind.order, file, node, start, end, base, note)
    if kind.sections:
        if size > _WHOLE:
            note = f"the whole has {size:,} bytes and is not attached; its sections are"
        for number, (name, low, high) in enumerate(_sections(sources, file, size), start=1):
            title = f"{kind.title}: {name}"
            path = f"{base}.sections/{number:03}-{_plain(name)[:60] or 'section'}.txt"
            yield Candidate(f"{kind.id}-section", title, kind.order + 1, file, node, low, high, path, note)


def _sections(sources: Sources, file: str, size: int) -> Iterator[tuple[str, int, int]]:
    """Name, start and end of each section of a bug report that is small enough to be read by people."""
    text = sources.read(file, 0, size)
    bounds = [0, *(m.end() for m in re.finditer(rb"^" + _SEPARATOR + rb"\s*\n", text, re.MULTILINE)), len(text)]
    for low, high in islice(pairwise(bounds), _MOST_SECTIONS):
        section = text[low:high]
        words = section.strip().split(b"\n", 1)[0].decode("utf-8", "replace").strip(" *:_")
        if words and not _is_dump(section):
            yield words, low, high


def _is_dump(section: bytes) -> bool:
    """Whether a section is a binary dump in base64, which only the vendor's tools read; it stays in the whole file."""
    lines = section.split()
    return len(lines) > 50 and sum(len(line) in (64, 76) for line in lines) > len(lines) * 0.8


def _plain(name: str) -> str:
    """A name that is safe in a path: letters, digits, dots and dashes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name.replace("!/", "_")).strip("_.-")


def attach(
    sources: Sources, redactor: Redactor, candidates: Sequence[Candidate], room: int, problems: list[str]
) -> list[Attached]:
    """The attachments masked, as many as fit into ``room`` bytes; the others are listed with the reason."""
    done: list[Attached] = []
    taken: set[str] = set()
    for candidate in candidates:
        try:
            source_digest = sources.digest(candidate.file)
            text = masked_piece(sources, redactor, candidate.file, candidate.start, candidate.end)
            original = sources.read(candidate.file, candidate.start, candidate.end)
        except UnreadableSource as fault:
            problems.append(str(fault))
            continue
        fits = len(text) <= room
        path = f"attachments/{_unused(redactor.text(candidate.name), taken)}" if fits else None
        note = candidate.note
        if fits:
            room -= len(text)
        else:
            note = "; ".join(filter(None, [note, f"left out: {len(text):,} bytes are more than --max-size leaves"]))
        attachment = Attachment(
            path=path,
            kind=candidate.kind,
            title=candidate.title,
            file=candidate.file,
            node=candidate.node,
            byte_offset=candidate.start,
            byte_length=candidate.end - candidate.start,
            sha256=hashlib.sha256(text).hexdigest() if fits else None,
            source_sha256=source_digest,
            source_bytes=sources.size(candidate.file),
            redacted=text != original,
            note=note,
        )
        done.append(Attached(attachment, text if fits else None))
    return done


def _unused(path: str, taken: set[str]) -> str:
    """``path``, with a number where another attachment has that name, whatever the case of its letters."""
    stem, number = path, 1
    while path.lower() in taken:
        number += 1
        path = f"{stem}.{number}"
    taken.add(path.lower())
    return path
