"""What limits the answer: logs that are missing or damaged, and clocks that nothing ties to the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import RenderableType

from correlator.diagnosis import Document, Job, SkippedFile
from correlator.report import layout, sayings, words

_FILES_NAMED = 3
_CLOCKS_NAMED = 6


def render_warnings(document: Document) -> Iterator[RenderableType]:
    """One item a kind of limit."""
    yield from layout.bullets(map(layout.prose, warning_texts(document)))


def warning_texts(document: Document) -> Iterator[str]:
    """What limits the answer, a sentence each."""
    if unheard := unheard_words(document.job):
        yield unheard
    yield from (f"skipped {text}" for text in _by_reason(document.inputs.files_skipped))
    yield from (f"damaged {text}" for text in _by_reason(entry for entry in document.inputs.warnings if entry.file))
    yield from (entry.why for entry in document.inputs.warnings if not entry.file)
    yield from _about_clocks(document)


def _about_clocks(document: Document) -> Iterator[str]:
    untied = sayings.untied_nodes(document)
    if untied:
        clocks, times = ("clock", "its times say") if len(untied) == 1 else ("clocks", "their times say")
        whose = words.fold_nodes(untied)
        yield f"nothing in the logs ties the {clocks} of {whose} to the others: {times} nothing about the order"
    reference = sayings.reference_node(document)
    apart = [
        f"{clock.node} is {words.seconds_words(clock.offset_s)} {'ahead of' if clock.offset_s > 0 else 'behind'} "
        f"{reference} (± {words.seconds_words(clock.bound_s)})"
        for clock in sorted(document.clocks, key=lambda clock: -abs(clock.offset_s or 0))
        if clock.offset_s is not None and clock.bound_s is not None and abs(clock.offset_s) >= words.OFFSET_TOLD_S
    ]
    if apart and reference:
        more = f" and {len(apart) - _CLOCKS_NAMED} more" if len(apart) > _CLOCKS_NAMED else ""
        yield (
            f"clocks differ: {', '.join(apart[:_CLOCKS_NAMED])}{more}; "
            f"times outside quoted lines are shown on {reference}'s clock"
        )


def unheard_words(job: Job) -> str:
    """How many ranks no line is known to come from; empty where there are none."""
    if not job.world_size or job.ranks_seen >= job.world_size or job.world_size == 1:
        return ""
    if not job.ranks_seen:
        return sayings.NO_RANK_KNOWN
    missing = job.world_size - job.ranks_seen
    return (
        f"no line is known to be of {missing:,} of {words.count_words(job.world_size, 'rank')}; "
        "a quiet rank cannot be told from a missing log"
    )


def _by_reason(files: Iterable[SkippedFile]) -> Iterable[str]:
    by_reason: dict[str, list[str]] = {}
    for entry in files:
        by_reason.setdefault(entry.why, []).append(entry.file)
    for why, names in by_reason.items():
        more = f" and {len(names) - _FILES_NAMED:,} more" if len(names) > _FILES_NAMED else ""
        yield f"{', '.join(names[:_FILES_NAMED])}{more}: {why}"
