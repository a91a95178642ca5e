"""Which rank failed first in a dead multi-node training job, whose fault it was, and where to resume.

``d = correlator.diagnose("logs/")``; then ``d.verdict``, ``d.initiator``, ``d.resume``, ``d.events`` and ``d.graph``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from correlator.pipeline import Diagnosis, diagnose, read_events

__all__ = ["Diagnosis", "diagnose", "read_events"]


def __getattr__(name: str) -> Any:
    # Loaded on first use: polars, pyarrow and networkx cost a quarter of a second that `--help` need not pay.
    if name in __all__:
        from correlator import pipeline

        return getattr(pipeline, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
