"""The list of checkpoints for a terminal: :func:`checkpoint_page`."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from correlator.checkpoints.listing import Entry, Listing
from correlator.report.layout import bullets, hang, line, prose, section
from correlator.report.words import count_words, size_words

_STATE = {True: ("complete", "green"), False: ("INCOMPLETE", "bold red"), None: ("undecided", "yellow")}
_NOT_FINITE = ("NOT FINITE", "bold red")
_ANSWER = {
    "safe": "safe",
    "unsafe": "not safe, none of these can be used as it is",
    "no-checkpoint": "there is nothing to resume from here",
    "unknown": "not decided",
}


def checkpoint_page(found: Listing) -> Iterator[RenderableType]:
    """Every checkpoint, newest first, the framework's own mark, and last, where the eye ends, the answer."""
    yield line(f"{count_words(len(found.checkpoints), 'checkpoint')} in {found.root}")
    if found.checkpoints:
        yield ""
        yield from map(_entry, found.checkpoints)
    if found.tracker is not None:
        yield ""
        yield line(f"The framework's own mark points to {found.tracker}.")
    yield from section("Not looked at:", bullets(map(line, found.refused)))
    yield ""
    yield line(f"Resume: {_ANSWER[found.resume.status]}", "bold")
    if found.resume.path is not None:
        yield hang("from", line(found.resume.path))
    yield from bullets(map(prose, found.resume.reasons))


def _entry(one: Entry) -> RenderableType:
    step = "step unknown" if one.iteration is None else f"step {one.iteration}"
    sizes = " ".join(f"{name}={size}" for name, size in one.topology.items())
    facts = ", ".join(part for part in (one.layout, sizes, size_words(one.size_bytes), _commit(one)) if part)
    state, style = _NOT_FINITE if one.complete and one.finite is False else _STATE[one.complete]
    notes = bullets(map(prose, [*one.problems, *one.fit_notes]), by=0)
    return hang(Text(f"{state:<10}", style), Group(line(f"{step}  {one.path}"), line(facts, "dim"), *notes), by=0)


def _commit(one: Entry) -> str:
    if one.commit is None:
        # Of one that could not be read it is not known.
        return "" if one.complete is None else "no commit mark in this layout"
    return f"{one.commit} is there" if one.committed else f"no {one.commit}"
