"""The parts of a report as plain values, for the forms that are no terminal page: Markdown and HTML."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from correlator.diagnosis import Document
from correlator.phrases import agree
from correlator.report import cascade, sayings, words
from correlator.report.timeline import ROLE_WORDS, WAVES_SHOWN, Wave, build_waves, choose_waves

_SOURCES = {
    "training": "training output",
    "launcher": "launcher output",
    "scheduler": "scheduler records",
    "kernel": "kernel logs",
    "device": "device reports",
    "flight-recorder": "flight-recorder dumps",
    "other": "nothing recognised",
}


@dataclass(frozen=True)
class Step:
    """One next step. ``tag``: what it does, in words."""

    title: str
    tag: str
    disruptive: bool
    why: str
    command: str | None


def cascade_rows(document: Document) -> Iterator[tuple[str, str, str, str]]:
    """Time after the first failure, role, what, and line of each wave that is worth one."""
    axis = cascade.axis_of(document)
    for wave in _waves(document)[1]:
        yield (
            cascade.when_words(wave, axis),
            ROLE_WORDS[wave.role],
            cascade.wave_words(wave),
            cascade.wave_source(wave),
        )


def cascade_notes(document: Document) -> list[str]:
    """What stands under the cascade."""
    return list(cascade.cascade_notes(document, *_waves(document)))


def _waves(document: Document) -> tuple[list[Wave], list[Wave], list[Wave]]:
    waves = build_waves(document.cascade)
    return (waves, *choose_waves(waves, WAVES_SHOWN))


def rivals(document: Document) -> list[str]:
    """The rival explanations, each with the experiment that tells it apart."""
    return [
        f"{sayings.alternative_head(rival)}: {agree(rival.why)}"
        + (f" To tell: {rival.control}" if rival.control else "")
        for rival in document.alternatives
    ]


def would_decide(document: Document) -> list[str]:
    """For an undecided case: what to fetch, then the rival explanations."""
    return [*sayings.would_decide(document), *rivals(document)]


def steps(document: Document) -> Iterator[Step]:
    """The next steps."""
    for action in sayings.next_steps(document):
        tag = words.step_tag(action.kind, action.stopgap)
        yield Step(action.title, tag, action.kind == "disruptive", action.why, action.command)


def footer(document: Document) -> str:
    """What was read, of which kinds, and which usual sources are missing."""
    inputs = document.inputs
    read = (
        words.count_words(inputs.files_read, "file"),
        words.count_words(inputs.lines, "line"),
        words.size_words(inputs.bytes),
    )
    said = f"Read {', '.join(read)}; {words.count_words(inputs.events, 'event')}."
    if inputs.sources:
        said += f" Kinds: {', '.join(f'{_SOURCES[source.kind]} {source.files:,}' for source in inputs.sources)}."
    if inputs.missing:
        said += f" Missing: {'; '.join(source.what for source in inputs.missing)}."
    return said
