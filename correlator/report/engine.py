"""The template engine of every HTML page: all text escaped, control and direction marks made visible."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from correlator.report.linked import linked
from correlator.report.safe import visible_lines

if TYPE_CHECKING:
    from jinja2 import Environment


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The engine, with the templates of this package."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("correlator.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_harmless,
    )
    made.filters["coded"] = linked
    return made


def _harmless(value: Any) -> Any:
    """Control and direction marks made visible; the engine escapes what HTML would read."""
    return "\n".join(visible_lines(value)) if type(value) is str else value
