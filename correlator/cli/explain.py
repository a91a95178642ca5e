"""`correlator explain`: what a failure is, how to confirm it and how to fix it."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from typing import Annotated

import typer

from correlator.cli._output import write_stdout
from correlator.errors import UsageError


def run(
    what: Annotated[
        str,
        typer.Argument(
            metavar='SIGNATURE|"ERROR TEXT"', help="An id, or text of a log; - reads it from standard input."
        ),
    ],
) -> int:
    """Explain a failure and how to fix it."""
    from correlator.report.encyclopedia import render_entry
    from correlator.report.layout import render_for
    from correlator.signatures.match import match_text
    from correlator.signatures.model import by_id

    text = sys.stdin.read() if what == "-" else what
    entry = by_id().get(text.strip().lower())
    fitting = [entry] if entry else match_text(text)
    if not fitting:
        near = get_close_matches(text.strip().lower(), by_id(), n=3, cutoff=0.5)
        hint = f"; near by name: {', '.join(near)}" if near else "; `correlator signatures` lists all"
        raise UsageError(f"no signature fits that text{hint}")
    write_stdout(render_for(sys.stdout, render_entry(fitting[0], fitting[1:])))
    return 0
