"""Pieces of the checkpoint patterns: a path with the step it states, and the shape that all of them share."""

from __future__ import annotations

from correlator.events import Pattern, Severity

#: Names that stand in front of the step in the components of a path, by the programs that form it so.
_STEP_NAMES = r"checkpoint-|global_step|step[-_=]?|iter_|iteration[-_]?|-ba"


#: A path, bare or quoted, as ``path``, and the step that its last such component states as ``step``, if any. Dots that
#: close the sentence stay outside.
PATH = (
    rf"['\"]?(?P<path>(?:[^\s'\"]*(?:{_STEP_NAMES})(?P<step>\d+))?[^\s'\"]*?)"
    r"['\"]?[.,;:)]*(?:\s|$)"
)


def line(
    event: str,
    framework: str,
    literals: tuple[str, ...],
    regex: str,
    sample: str,
    *,
    severity: Severity = "info",
    not_samples: tuple[str, ...] = (),
    **fields: str,
) -> Pattern:
    """A pattern of one line about a checkpoint; ``format`` is the framework."""
    return Pattern(
        event=f"checkpoint.{event}",
        literals=literals,
        regex=regex,
        severity=severity,
        fields={"format": framework, **fields},
        sample=sample,
        not_samples=not_samples,
    )
