"""What limits the answer: logs that are missing or damaged, and clocks that nothing ties to the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import RenderableType

from correlator.diagnosis import Document, Job, SkippedFile
from correlator.report import layout, words

_FILES_NAMED = 3
_CLOCKS_NAMED = 6
#: Clock offsets below this are ordinary; above, a reader who compares printed stamps by eye goes wrong.
OFFSET_TOLD_S = 1.0


def render_warnings(document: Document) -> Iterator[RenderableType]:
    """One item a kind of limit."""
    yield from layout.bullets(map(layout.prose, _warnings(document)))


def _warnings(document: Document) -> Iterator[str]:
    if unheard := unheard_words(document.job):
        yield f"{unheard} Not collected is not the same as silent."
    yield from (f"skipped {text}" for text in _by_reason(document.inputs.files_skipped))
    yield from (f"damaged {text}" for text in _by_reason(entry for entry in document.inputs.warnings if entry.file))
    yield from (entry.why for entry in document.inputs.warnings if not entry.file)
    unbound = [clock.node for clock in document.clocks if clock.bound_s is None]
    if len(document.clocks) > 1 and unbound:
        yield f"no event ties the clock of {words.fold_nodes(unbound)} to the others: its times say nothing about order"
    wrong = [
        f"{clock.node} {words.seconds_words(clock.offset_s)} {'fast' if clock.offset_s > 0 else 'slow'}"
        f" (± {words.seconds_words(clock.bound_s)})"
        for clock in sorted(document.clocks, key=lambda clock: -abs(clock.offset_s or 0))
        if clock.offset_s is not None and clock.bound_s is not None and abs(clock.offset_s) >= OFFSET_TOLD_S
    ]
    if wrong:
        more = f" and {len(wrong) - _CLOCKS_NAMED} more" if len(wrong) > _CLOCKS_NAMED else ""
        yield f"clocks were wrong: {', '.join(wrong[:_CLOCKS_NAMED])}{more}; times outside quoted lines are corrected"


def unheard_words(job: Job) -> str:
    """How many ranks no line can be told to come from; empty where there are none."""
    if not job.world_size or job.ranks_seen >= job.world_size:
        return ""
    if not job.ranks_seen:
        return "No line can be told to be of one rank."
    missing = job.world_size - job.ranks_seen
    return f"{missing:,} of {words.count_words(job.world_size, 'rank')} left no line that can be told to be theirs."


def _by_reason(files: Iterable[SkippedFile]) -> Iterable[str]:
    by_reason: dict[str, list[str]] = {}
    for entry in files:
        by_reason.setdefault(entry.why, []).append(entry.file)
    for why, names in by_reason.items():
        more = f" and {len(names) - _FILES_NAMED:,} more" if len(names) > _FILES_NAMED else ""
        yield f"{', '.join(names[:_FILES_NAMED])}{more}: {why}"
