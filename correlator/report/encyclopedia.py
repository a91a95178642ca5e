"""Failure signatures as terminal pages: one entry, or the list of all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table

from correlator.report import layout
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


def render_entry(entry: Signature, rivals: Sequence[Signature] = ()) -> list[RenderableType]:
    """The page of one entry. ``rivals``: other entries that fit the same text, best first."""
    page: list[RenderableType] = [
        layout.prose(entry.title, "bold"),
        layout.prose(f"{entry.id}: {entry.class_}, {entry.subclass} ({entry.role}: {_ROLES[entry.role]})"),
        layout.prose(f"about: {_BLAMES[entry.blames]}; {_STATUS[entry.status]}", "dim"),
    ]
    page += layout.section("WHAT HAPPENS", _paragraph(entry.mechanism))
    page += layout.section("WHAT YOU SEE", _paragraph(entry.observed))
    page += layout.section("IT IS THIS IF", layout.bullets(map(layout.prose, entry.confirm)))
    page += layout.section("IT IS SOMETHING ELSE IF", layout.bullets(map(layout.prose, entry.contradicts)))
    page += layout.section("THE ONE EXPERIMENT", _paragraph(entry.control))
    page += layout.section("FIX", _numbered(entry.fix))
    page += layout.section("COMMANDS", _commands(entry))
    page += layout.section("RESUME", _paragraph(entry.resume))
    page += layout.section("FIXED WHEN", _paragraph(entry.verify))
    page += layout.section("PREVENTION", _paragraph(entry.prevention))
    related = [*dict.fromkeys([*(rival.id for rival in rivals[:_RIVALS_SHOWN]), *entry.lookalikes])]
    page += layout.section("EASILY TAKEN FOR IT", _paragraph(", ".join(related)))
    page += layout.section("SOURCES", layout.bullets(map(layout.prose, entry.sources)))
    return page


def render_list(entries: Sequence[Signature]) -> list[RenderableType]:
    """A line an entry: id, class, role, title; by id."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(overflow="fold", style="bold")
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for entry in sorted(entries, key=lambda entry: entry.id):
        grid.add_row(entry.id, entry.class_, entry.role, layout.prose(entry.title))
    return [grid]


def _paragraph(text: str) -> Iterator[RenderableType]:
    if text:
        yield layout.indent(layout.prose(text))


def _numbered(steps: Sequence[str]) -> Iterator[RenderableType]:
    for number, step in enumerate(steps, 1):
        yield layout.hang(f"{number}.", layout.prose(step))


def _commands(entry: Signature) -> Iterator[RenderableType]:
    for action in entry.actions:
        yield from layout.step("-", action.title, action.why, action.command, action.risk)
