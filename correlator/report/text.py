"""The diagnosis as a page for the person who was woken up.

Order: the verdict; who failed first and the lines that prove it; how it spread; what else it could be and how to tell;
what was ruled out; where to resume; what to do; what limits the answer; what was read. The next steps come late so that
they stand on the screen when the page has scrolled by.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.text import Text

from correlator.diagnosis import Alternative, Document, Resume
from correlator.phrases import agree
from correlator.report import layout, pages, sayings, words
from correlator.report.cascade import render_cascade
from correlator.report.proof import Neighbourhood, render_proof
from correlator.report.warnings import render_warnings

_STYLES = {"none": "bold green", "unknown": "bold yellow"}
_CANDIDATES_SHOWN = 3


def render_report(document: Document, neighbourhood: Neighbourhood | None = None) -> list[RenderableType]:
    """The report as rich renderables. ``neighbourhood(file, line, before, after)`` gives raw lines around a place."""
    undecided = document.verdict.class_ == "unknown"
    rivals = list(_alternatives(document, undecided))
    page: list[RenderableType] = [*_headline(document)]
    if document.verdict.class_ == "none":
        page += layout.section("WHAT SHOWS IT", render_proof(document, neighbourhood))
    else:
        # An undecided case is read for what would decide it, so that comes first.
        page += layout.section("WHAT WOULD DECIDE IT", rivals if undecided else [])
        page += layout.section("WHO FAILED FIRST", _initiator(document, neighbourhood))
        page += layout.section("HOW IT SPREAD", render_cascade(document))
        page += layout.section("WHAT ELSE IT COULD BE", [] if undecided else rivals)
    page += layout.section(
        "RULED OUT",
        layout.bullets(Group(layout.prose(agree(f"{entry.what}: {entry.why}"))) for entry in document.ruled_out),
    )
    page += layout.section("WHERE TO RESUME", _resume(document.resume))
    page += layout.section("WHAT TO DO NOW", _actions(document))
    page += layout.section("WARNINGS", render_warnings(document))
    return [*page, "", layout.line(pages.footer(document), "dim")]


def render_text(document: Document, neighbourhood: Neighbourhood | None = None, width: int = layout.PIPED_WIDTH) -> str:
    """The report as plain text, ``width`` columns wide."""
    return layout.render_plain(render_report(document, neighbourhood), width)


def export_svg(
    document: Document,
    path: Path,
    neighbourhood: Neighbourhood | None = None,
    width: int = 80,
    title: str = "correlator diagnose logs/",
) -> None:
    """Writes a picture of the report in a terminal of ``width`` columns. The picture loads no font from elsewhere."""
    console = Console(
        file=StringIO(), record=True, width=width, force_terminal=True, color_system="truecolor", no_color=False,
        markup=False, emoji=False, highlight=False, legacy_windows=False,
    )  # fmt: skip
    console.print(Group(*render_report(document, neighbourhood)))
    picture = console.export_svg(title=title, unique_id="correlator")
    path.write_text(re.sub(r"@font-face\s*\{[^}]*\}", "", picture), encoding="utf-8")


def _headline(document: Document) -> Iterator[RenderableType]:
    verdict = document.verdict
    title = layout.prose(sayings.headline(document))
    title.stylize(_STYLES.get(verdict.class_, "bold red"))
    yield title
    if verdict.class_ != "none":
        yield layout.prose(_capital(sayings.place_line(document)), "bold")
        yield layout.prose(sayings.resume_short(document))
    if verdict.summary:
        yield ""
        yield layout.prose(verdict.summary)
    yield ""
    yield layout.prose(sayings.job_line(document.job), "dim")
    named = verdict.signature not in ("", "none", "unknown")
    details = [f"signature {verdict.signature} (correlator explain {verdict.signature})"] if named else []
    details += [f"area {verdict.subclass}"] if verdict.subclass else []
    if details:
        yield layout.prose(", ".join(details), "dim")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _initiator(document: Document, neighbourhood: Neighbourhood | None) -> Iterator[RenderableType]:
    initiator = document.initiator
    yield layout.indent(layout.prose(sayings.who(document), "bold"))
    yield from (layout.indent(layout.prose(text)) for text in sayings.gpus(document))
    step = f"step {initiator.step}" if initiator.step is not None else ""
    when = ", ".join(filter(None, [sayings.when(document), step]))
    if when:
        yield layout.indent(layout.prose(when))
    proof = list(render_proof(document, neighbourhood))
    yield from ["", *proof] if proof else []


def _alternatives(document: Document, undecided: bool) -> Iterator[RenderableType]:
    if undecided:
        yield from layout.bullets(map(layout.prose, sayings.would_decide(document)))
    for rival in document.alternatives:
        yield layout.hang("-", Group(*_alternative(rival)))


def _alternative(rival: Alternative) -> Iterator[RenderableType]:
    head = sayings.alternative_head(rival)
    said = layout.prose(f"{head}: {agree(rival.why)}")
    said.stylize("bold", 0, len(layout.prose(head).plain))
    yield said
    if rival.control:
        yield layout.prose(f"To tell: {rival.control}")


def _resume(resume: Resume) -> Iterator[RenderableType]:
    style = {"safe": "bold green", "unsafe": "bold red"}.get(resume.status, "bold")
    yield layout.indent(layout.prose(sayings.resume_head(resume), style))
    chosen = next((c for c in resume.candidates if sayings.is_chosen(c, resume)), None)
    if chosen and (chosen.topology or chosen.problems):
        yield layout.indent(layout.line(sayings.candidate(chosen)))
    elif resume.path:
        yield layout.indent(layout.line(resume.path))
    yield from layout.bullets(map(layout.prose, sayings.resume_reasons(resume)))
    others = sayings.other_candidates(resume)
    yield from layout.bullets(map(layout.line, others[:_CANDIDATES_SHOWN]))
    hidden = len(others) - _CANDIDATES_SHOWN
    if hidden > 0:
        yield layout.indent(layout.line(f"and {words.count_words(hidden, 'more checkpoint')}"))


def _actions(document: Document) -> Iterator[RenderableType]:
    for number, action in enumerate(sayings.next_steps(document), 1):
        yield from layout.step(f"{number}.", action)
    if document.verify.what:
        fixed = Text.assemble(("Fixed when: ", "bold"), layout.prose(document.verify.what), overflow="fold")
        yield layout.indent(fixed)
        if document.verify.command:
            yield layout.Command(document.verify.command)
