"""Failure signatures as terminal pages: one entry, or the list of all."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table

from correlator.report import layout
from correlator.signatures.catalog import xid_catalog
from correlator.signatures.model import Signature

_BLAMES = {
    "self": "the rank that writes the line",
    "peer": "another rank or host, which the line names",
    "node": "the node that writes the line",
    "fabric": "the network between the nodes",
    "storage": "the storage",
    "job": "the scheduler or launcher, no rank",
    "nobody": "nobody",
}
_ROLES = {
    "cause": "it can be the first event of a failure",
    "symptom": "a waiter or a survivor says it; the cause is elsewhere and earlier",
    "teardown": "part of shutting down after the failure",
    "context": "benign, or neutral",
}
_STATUS = {
    "stable": "seen in a real log",
    "test": "seen in a made log",
    "experimental": "known from source code alone",
}
_RIVALS_SHOWN = 5
#: What a report fills in from the log; a page has no log.
_PLACEHOLDER = re.compile(r"(?<!\$)\{(node|rank|gpu|pci_bus_id|pid)\}")


def render_entry(entry: Signature, rivals: Sequence[Signature] = (), xids: Sequence[int] = ()) -> list[RenderableType]:
    """The page of one entry.

    ``rivals``: other entries that fit the same text or are near it, best first. ``xids``: NVIDIA's numbers in question.
    """
    page: list[RenderableType] = [
        layout.prose(entry.title, "bold"),
        layout.prose(f"{entry.id}: {entry.class_}, {entry.subclass} ({entry.role}: {_ROLES[entry.role]})"),
        layout.prose(f"about: {_BLAMES[entry.blames]}; {_STATUS[entry.status]}", "dim"),
    ]
    page += layout.section("NVIDIA'S CATALOG SAYS", layout.bullets(map(layout.prose, _catalog(xids))))
    page += layout.section("WHAT HAPPENS", _paragraph(entry.mechanism))
    page += layout.section("WHAT YOU SEE", _paragraph(entry.observed))
    page += layout.section("IT IS THIS IF", layout.bullets(map(layout.prose, entry.confirm)))
    page += layout.section("IT IS SOMETHING ELSE IF", layout.bullets(map(layout.prose, entry.contradicts)))
    page += layout.section("THE ONE EXPERIMENT", _paragraph(_spelt(entry.control)))
    page += layout.section("FIX", _numbered(entry.fix))
    page += layout.section("COMMANDS", _commands(entry))
    page += layout.section("RESUME", _paragraph(entry.resume))
    page += layout.section("FIXED WHEN", _paragraph(entry.verify))
    page += layout.section("PREVENTION", _paragraph(entry.prevention))
    related = [*dict.fromkeys([*(rival.id for rival in rivals[:_RIVALS_SHOWN]), *entry.lookalikes])]
    page += layout.section("EASILY TAKEN FOR IT", _paragraph(", ".join(related)))
    page += layout.section("SOURCES", layout.bullets(map(layout.prose, entry.sources)))
    return page


def render_near(entries: Sequence[Signature], xids: Sequence[int] = ()) -> list[RenderableType]:
    """Entries near a text that none fits exactly: the list, best first, then the page of the best."""
    return [
        layout.prose("No signature fits exactly. Near matches, the best first (`correlator explain ID` shows one):"),
        *(layout.indent(part) for part in _table(entries)),
        "",
        layout.prose("The nearest:"),
        "",
        *render_entry(entries[0], xids=xids),
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
            "Which: `correlator signatures WORD`, by id, title or subject; --class, --role; --all for every one."
        ),
    ]


def _table(entries: Sequence[Signature]) -> list[RenderableType]:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(overflow="fold", style="bold")
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for entry in entries:
        grid.add_row(entry.id, entry.class_, entry.role, layout.prose(entry.title))
    return [grid]


def _paragraph(text: str) -> Iterator[RenderableType]:
    if text:
        yield layout.indent(layout.prose(text))


def _numbered(steps: Sequence[str]) -> Iterator[RenderableType]:
    for number, step in enumerate(steps, 1):
        yield layout.hang(f"{number}.", layout.prose(_spelt(step)))


def _commands(entry: Signature) -> Iterator[RenderableType]:
    commands = " ".join([*(action.command or "" for action in entry.actions), *entry.fix, entry.control])
    if names := dict.fromkeys(name.upper() for name in _PLACEHOLDER.findall(commands)):
        yield layout.indent(layout.prose(f"Put your own values for {', '.join(names)}.", "dim"))
    for action in entry.actions:
        yield from layout.step("-", action.title, action.why, action.command and _spelt(action.command), action.risk)


def _spelt(text: str) -> str:
    """``text`` with placeholders as capital words: braces would be read as the shell's."""
    return _PLACEHOLDER.sub(lambda match: match[1].upper(), text)


def _catalog(xids: Sequence[int]) -> Iterator[str]:
    for xid in xids:
        fact = xid_catalog().get(xid)
        yield fact.sentence(xid) if fact else f"Xid {xid}: not listed"
