"""The encyclopedia as terminal pages: one entry, or the list of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from correlator.lookup import Explained
from correlator.report import layout
from correlator.report.entry import Part, about_line, entry_parts, facts_line
from correlator.report.safe import visible_lines
from correlator.signatures.model import Signature


def render_explained(found: Explained) -> list[RenderableType]:
    """The page of what a text means; where no entry fits exactly, the near ones are listed before it."""
    if found.exact:
        return _entry(found)
    return [
        layout.prose("No signature fits exactly. Near matches, the best first (`correlator explain ID` shows one):"),
        *(layout.indent(part) for part in _table([found.entry, *found.rivals])),
        "",
        layout.prose("The nearest:"),
        "",
        *_entry(Explained(found.entry, xids=found.xids, numbers=found.numbers)),
    ]


def render_list(entries: Sequence[Signature]) -> list[RenderableType]:
    """A line an entry: id, class, role, title; by id."""
    return _table(sorted(entries, key=lambda entry: entry.id))


def render_overview(entries: Sequence[Signature]) -> list[RenderableType]:
    """How many entries there are, by class and subject."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(overflow="fold")
    for class_, count in Counter(entry.class_ for entry in entries).most_common():
        subjects = Counter(entry.subclass for entry in entries if entry.class_ == class_).most_common()
        grid.add_row(class_, str(count), layout.prose(", ".join(f"{subject} {number}" for subject, number in subjects)))
    return [
        layout.prose(f"{len(entries)} failures, by class and subject:"),
        "",
        grid,
        "",
        layout.prose(
            "Which: `correlator signatures WORD`, by id, title, subject; --class, --role, --emitter; --all for all."
        ),
    ]


def _entry(found: Explained) -> list[RenderableType]:
    entry = found.entry
    page: list[RenderableType] = [
        layout.prose(entry.title, "bold"),
        layout.prose(f"{entry.id}: {facts_line(entry)}"),
        layout.prose(about_line(entry), "dim"),
    ]
    for part in entry_parts(found):
        page += layout.section(part.title.upper(), _body(part))
    return page


def _body(part: Part) -> Iterator[RenderableType]:
    yield from (layout.indent(layout.prose(text)) for text in part.prose)
    yield from layout.bullets(map(layout.prose, part.bullets))
    for left, right in part.rows:
        yield layout.hang("-", Group(layout.prose(left, "bold"), layout.prose(right)))
    for number, step in enumerate(part.steps, 1):
        yield from layout.step(f"{number}.", step)
    for number, text in enumerate(part.lines):
        yield from [""] if number else []
        yield from (layout.indent(Text(line, style="cyan", overflow="fold")) for line in visible_lines(text))
    for other in part.linked:
        head = layout.prose(f"{other.entry.id}: {other.entry.title}")
        yield layout.hang("-", Group(head, layout.prose(other.why, "dim")) if other.why else head)
    yield from layout.bullets(layout.prose(f"{title}: {url}") for title, url in part.links)


def _table(entries: Sequence[Signature]) -> list[RenderableType]:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(overflow="fold", style="bold")
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for entry in entries:
        grid.add_row(entry.id, entry.class_, entry.role, layout.prose(entry.title))
    return [grid]
