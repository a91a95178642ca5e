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

from correlator.diagnosis import Alternative, Document, Gpu, Job, Resume, ResumeCandidate
from correlator.report import layout, words
from correlator.report.cascade import render_cascade
from correlator.report.proof import Neighbourhood, render_proof
from correlator.report.warnings import OFFSET_TOLD_S, render_warnings, unheard_words

_STYLES = {"none": "bold green", "unknown": "bold yellow"}
_RESUME_HEADLINES = {
    "safe": "Safe to resume",
    "unsafe": "Not safe to resume",
    "no-checkpoint": "No checkpoint to resume from: the job starts over",
    "unknown": "Not known whether it is safe to resume",
}
_CANDIDATES_SHOWN = 3
_VERSIONS_SHOWN = 4


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
        layout.bullets(Group(layout.prose(f"{entry.what}: {entry.why}")) for entry in document.ruled_out),
    )
    page += layout.section("WHERE TO RESUME", _resume(document.resume))
    page += layout.section("WHAT TO DO NOW", _actions(document))
    page += layout.section("WARNINGS", render_warnings(document))
    return [*page, "", _footer(document)]


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
    title = layout.prose(f"{words.HEADLINES[verdict.class_]}: {verdict.title}".rstrip(": "))
    title.stylize(_STYLES.get(verdict.class_, "bold red"))
    yield title
    named = verdict.class_ == "unknown" and (document.initiator.ranks or document.initiator.nodes)
    about = "confidence in who it was" if named else "confidence"
    details = [f"{about}: {words.confidence_words(verdict.confidence)}"]
    if verdict.signature not in ("", "none", "unknown"):
        details.append(f"signature: {verdict.signature}")
    if verdict.subclass:
        details.append(f"area: {verdict.subclass}")
    yield layout.prose(", ".join(details))
    if verdict.summary:
        yield ""
        yield layout.prose(verdict.summary)
    yield ""
    yield layout.prose(_job_words(document.job), "dim")


def _job_words(job: Job) -> str:
    parts = [words.count_words(job.world_size, "rank")] if job.world_size else []
    if job.nodes:
        parts.append(f"{words.count_words(len(job.nodes), 'node')} ({words.fold_nodes(job.nodes)})")
    if job.framework:
        parts.append(job.framework)
    if job.topology:
        sizes = [(name, getattr(job.topology, name)) for name in ("tp", "pp", "dp")]
        sizes += [(name, size) for name in ("cp", "ep") if (size := getattr(job.topology, name)) != 1]
        parts.append(" ".join(f"{name} {size}" for name, size in sizes if size))
    parts += [f"{name} {version}" for name, version in sorted(job.versions.items())[:_VERSIONS_SHOWN]]
    if job.last_step is not None:
        parts.append(f"last step {job.last_step}")
    if job.started and job.ended:
        parts.append(f"{words.clock_words(job.started, 1)} to {words.clock_words(job.ended, 1)}")
    return f"job {job.job_id or ''}".rstrip() + ": " + (", ".join(part for part in parts if part) or "nothing known")


def _initiator(document: Document, neighbourhood: Neighbourhood | None) -> Iterator[RenderableType]:
    initiator = document.initiator
    yield layout.indent(layout.prose(_who(document), "bold"))
    yield from (layout.indent(layout.prose(text)) for text in _gpu_words(initiator.gpus))
    if not (initiator.ranks or initiator.nodes or initiator.time):
        when = ""
    elif initiator.time:
        bound = initiator.time_uncertainty_s
        known = f"± {words.seconds_words(bound)}" if bound is not None else "error of this clock not known"
        when = f"{words.clock_words(initiator.time, bound)} ({known}{_own_clock(document)})"
    else:
        when = "time not known"
    step = f", step {initiator.step}" if initiator.step is not None else ""
    if when + step:
        yield layout.indent(layout.prose((when + step).removeprefix(", ")))
    if initiator.silent:
        yield layout.indent(layout.prose("It printed nothing itself: its absence in the others' lines gives it away."))
    proof = list(render_proof(document, neighbourhood))
    yield from ["", *proof] if proof else []


def _own_clock(document: Document) -> str:
    """What a reader must know who compares the time with the stamp printed on the line."""
    offsets = [clock.offset_s for clock in document.clocks if clock.node in document.initiator.nodes and clock.offset_s]
    if len(offsets) != 1 or abs(offsets[0]) < OFFSET_TOLD_S:
        return ""
    return f"; its own clock ran {words.seconds_words(offsets[0])} {'fast' if offsets[0] > 0 else 'slow'}"


def _who(document: Document) -> str:
    initiator, world_size = document.initiator, document.job.world_size
    at = f" on {words.fold_nodes(initiator.nodes)}" if initiator.nodes else ""
    if initiator.scope == "all":
        return f"all {world_size} ranks" if world_size else "all ranks"
    if initiator.scope == "node" and initiator.nodes:
        ranks = f" with {words.ranks_words(initiator.ranks)}" if initiator.ranks else ""
        return f"{'node' if len(initiator.nodes) == 1 else 'nodes'} {words.fold_nodes(initiator.nodes)}{ranks}"
    if initiator.ranks:
        return words.ranks_words(initiator.ranks) + at
    if initiator.nodes:
        return f"{words.fold_nodes(initiator.nodes)}, rank not known"
    return "no rank or node can be named on this evidence"


def _gpu_words(gpus: list[Gpu]) -> Iterator[str]:
    for gpu in gpus:
        index = f"GPU {gpu.index}" if gpu.index is not None else "GPU"
        named = (("PCI", gpu.pci_bus_id), ("serial", gpu.serial), ("", gpu.uuid))
        identity = ", ".join(f"{name} {value}".strip() for name, value in named if value)
        at = f" on {gpu.node}" if gpu.node and len(gpus) > 1 else ""
        yield f"{index}{at} ({identity})" if identity else index + at


def _alternatives(document: Document, undecided: bool) -> Iterator[RenderableType]:
    if undecided:
        yield from layout.bullets(map(layout.prose, _missing(document)))
    for rival in document.alternatives:
        yield layout.hang("-", Group(*_alternative(rival)))


def _alternative(rival: Alternative) -> Iterator[RenderableType]:
    said = layout.prose(f"{rival.class_}, {rival.signature} ({round(100 * rival.confidence)} %): {rival.why}")
    said.stylize("bold", 0, said.plain.index(":"))
    yield said
    if rival.control:
        yield layout.prose(f"To tell: {rival.control}")


def _missing(document: Document) -> Iterator[str]:
    if document.alternatives:
        return
    looks = [action for action in document.actions if action.risk == "read-only"]
    yield from (f"{action.title}: {action.why}" if action.why else action.title for action in looks)
    if not looks:
        yield from filter(None, [unheard_words(document.job)])
        yield (
            "No candidate explains it. What settles most such cases: the kernel log of every node around the time "
            "above, the launcher's own output, the scheduler's record of the job."
        )


def _resume(resume: Resume) -> Iterator[RenderableType]:
    head = _RESUME_HEADLINES[resume.status]
    if resume.iteration is not None:
        head += f" {'from' if resume.status == 'safe' else 'at'} iteration {resume.iteration}"
    style = {"safe": "bold green", "unsafe": "bold red"}.get(resume.status, "bold")
    yield layout.indent(layout.prose(head, style))
    chosen = next((c for c in resume.candidates if _is_chosen(c, resume)), None)
    if chosen and (chosen.topology or chosen.problems):
        yield layout.indent(layout.line(_candidate_words(chosen)))
    elif resume.path:
        yield layout.indent(layout.line(resume.path))
    yield from layout.bullets(map(layout.prose, resume.reasons))
    others = [*dict.fromkeys(_candidate_words(c) for c in resume.candidates if not _is_chosen(c, resume))]
    yield from layout.bullets(map(layout.line, others[:_CANDIDATES_SHOWN]))
    hidden = len(others) - _CANDIDATES_SHOWN
    if hidden > 0:
        yield layout.indent(layout.line(f"and {words.count_words(hidden, 'more checkpoint')}"))


def _is_chosen(candidate: ResumeCandidate, resume: Resume) -> bool:
    return bool(resume.path) and (candidate.path, candidate.iteration) == (resume.path, resume.iteration)


def _candidate_words(candidate: ResumeCandidate) -> str:
    state = {True: "complete", False: "incomplete", None: "not checked"}[candidate.complete]
    name = candidate.path or (f"iteration {candidate.iteration}" if candidate.iteration is not None else "checkpoint")
    return ", ".join(part for part in [f"{name}: {state}", candidate.topology, *candidate.problems] if part)


def _actions(document: Document) -> Iterator[RenderableType]:
    for number, action in enumerate(document.actions, 1):
        yield from layout.step(f"{number}.", action.title, action.why, action.command, action.risk)
    if document.verify.what:
        fixed = Text.assemble(("Fixed when: ", "bold"), layout.prose(document.verify.what), overflow="fold")
        yield layout.indent(fixed)
        if document.verify.command:
            yield layout.Command(document.verify.command)


def _footer(document: Document) -> Text:
    inputs = document.inputs
    read = ", ".join(
        (
            words.count_words(inputs.files_read, "file"),
            words.count_words(inputs.lines, "line"),
            words.size_words(inputs.bytes),
        )
    )
    return layout.line(f"Read {read}; {words.count_words(inputs.events, 'event')}.", "dim")
