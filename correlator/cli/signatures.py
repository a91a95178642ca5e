"""`correlator signatures`: the list of all failure signatures."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from correlator.cli._output import write_stderr, write_stdout

#: Through a pipe every entry is one line, for grep.
_PIPED_WIDTH = 1000


def run(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="WORD", help="Only entries that hold every WORD in id or title.")
    ] = None,
    class_: Annotated[str | None, typer.Option("--class", metavar="CLASS", help="Only entries of this class.")] = None,
    role: Annotated[
        str | None, typer.Option(metavar="ROLE", help="Only this role: cause, symptom, teardown, context.")
    ] = None,
    emitter: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only what this one prints: nccl, torch, kernel, slurm …")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="List every entry.")] = False,
) -> int:
    """Count the failure signatures, or list those asked for.

    All are listed with --all or through a pipe.
    """
    from correlator.report.encyclopedia import render_list, render_overview
    from correlator.report.entry import EMITTERS
    from correlator.report.layout import render_for
    from correlator.signatures.model import CLASSES, ROLES, load_signatures

    _check("--class", class_, CLASSES)
    _check("--role", role, ROLES)
    _check("--emitter", emitter, tuple(EMITTERS))
    found = [
        entry
        for entry in load_signatures()
        if class_ in (None, entry.class_)
        and role in (None, entry.role)
        and emitter in (None, entry.emitter)
        and all(word.lower() in f"{entry.id} {entry.title} {entry.subclass}".lower() for word in words or ())
    ]
    if not found:
        write_stderr("no signature fits\n")
        return 0
    watched = sys.stdout.isatty()
    asked = all_ or words or class_ or role or emitter
    page = render_list(found) if asked or not watched else render_overview(found)
    write_stdout(render_for(sys.stdout, page, None if watched else _PIPED_WIDTH))
    return 0


def _check(option: str, value: str | None, known: tuple[str, ...]) -> None:
    if value is not None and value not in known:
        raise typer.BadParameter(f"{option} {value!r} is none of {', '.join(known)}")
