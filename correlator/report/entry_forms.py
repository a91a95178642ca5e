"""An entry's page as Markdown and as JSON."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from correlator.lookup import Explained
from correlator.report.entry import Part, about_line, entry_parts, facts_line
from correlator.report.markdown import code_block, escaped
from correlator.report.safe import visible_json
from correlator.report.words import step_tag
from correlator.signatures.catalog import xid_catalog
from correlator.signatures.model import Signature

SCHEMA_ID = "correlator.explain/1"


def entry_markdown(found: Explained) -> str:
    """The page, in CommonMark with GitHub's tables."""
    return "\n\n".join(_pieces(found)) + "\n"


def _pieces(found: Explained) -> Iterator[str]:
    entry = found.entry
    if not found.exact:
        yield "No entry fits exactly; this is the nearest."
    yield f"# {escaped(entry.title)}"
    yield f"**{escaped(entry.id)}**: {escaped(facts_line(entry))}"
    yield escaped(about_line(entry))
    for part in entry_parts(found):
        yield f"## {escaped(part.title)}"
        yield from _body(part)


def _body(part: Part) -> Iterator[str]:
    yield from map(escaped, part.prose)
    if part.bullets:
        yield "\n".join(f"- {escaped(item)}" for item in part.bullets)
    if any(part.head):
        table = [f"| {part.head[0]} | {part.head[1]} |", "| --- | --- |"]
        table += [f"| {escaped(left)} | {escaped(right)} |" for left, right in part.rows]
        if part.rows:
            yield "\n".join(table)
    else:
        for left, right in part.rows:
            yield f"**{escaped(left)}**"
            yield escaped(right)
    for number, step in enumerate(part.steps, 1):
        tag = step_tag(step.kind, step.stopgap)
        yield f"{number}\\. **{escaped(step.title)}** *({tag})* {escaped(step.why)}".rstrip()
        if step.command:
            yield code_block(step.command.split("\n"), "sh")
    for text in part.lines:
        yield code_block(text.split("\n"))
    if part.linked:
        yield "\n".join(
            f"- {escaped(other.entry.id)}: {escaped(other.entry.title)}"
            + (f" ({escaped(other.why)})" if other.why else "")
            for other in part.linked
        )
    if part.links:
        yield "\n".join(f"- {escaped(title)}: <{url}>" for title, url in part.links)


def entry_json(found: Explained) -> bytes:
    """The entry with all its fields, the other entries in question, NVIDIA's words for the numbers, the arithmetic."""
    catalog = xid_catalog()
    answer = {
        "schema": SCHEMA_ID,
        "exact": found.exact,
        "entry": found.entry,
        "others": [_brief(other) for other in found.rivals],
        "xids": [{"xid": xid, **(catalog[xid]._asdict() if xid in catalog else {})} for xid in found.xids],
        "numbers": found.numbers._asdict() if found.numbers else None,
    }
    return visible_json(msgspec.json.format(msgspec.json.encode(answer), indent=2)) + b"\n"


def _brief(entry: Signature) -> dict[str, str]:
    return {"id": entry.id, "title": entry.title, "class": entry.class_, "role": entry.role}
