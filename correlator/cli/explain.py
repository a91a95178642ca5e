"""`correlator explain`: what a failure is, how to confirm it and how to fix it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from difflib import get_close_matches
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from correlator.cli._options import Output
from correlator.cli._output import check_output, form_of, write_output, write_stdout
from correlator.errors import UsageError

if TYPE_CHECKING:
    from correlator.lookup import Explained

_NEAR_IDS = 5
#: Bytes of standard input: a few lines are explained, a log is diagnosed.
_LONGEST_TEXT = 4 << 20


class Format(StrEnum):
    """Forms of a page."""

    text = "text"
    markdown = "markdown"
    html = "html"
    json = "json"


#: The form that the ending of FILE asks for.
_ENDINGS = {
    ".txt": Format.text,
    ".md": Format.markdown,
    ".markdown": Format.markdown,
    ".html": Format.html,
    ".htm": Format.html,
    ".json": Format.json,
}


def run(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar='SIGNATURE|"ERROR TEXT"', help="An id, or text of a log; - reads it from standard input."
        ),
    ] = None,
    format: Annotated[
        Format | None, typer.Option(help="Form of the page; by default text, or what the ending of FILE says.")
    ] = None,
    output: Output = None,
    site: Annotated[
        str | None, typer.Option(metavar="DIR", help="Write every page as a web site that can be searched offline.")
    ] = None,
) -> int:
    """Explain a failure and how to fix it."""
    if site is not None:
        if what is not None or format is not None or output is not None:
            raise UsageError("--site writes every page; it goes with no text, no --format and no -o")
        return _write_site(site)
    check_output(output)
    chosen = format or form_of(output, _ENDINGS, Format.text)
    text = (_from_stdin() if what == "-" else what or "").strip()
    if not text:
        raise UsageError("there is no text to explain; give an id or a line of a log")
    from correlator.lookup import look_up

    found = look_up(text)
    if found is None:
        raise UsageError(_not_found(text))
    _WRITERS[chosen](found, output)
    return 0


def _from_stdin() -> str:
    data = sys.stdin.buffer.read(_LONGEST_TEXT + 1)
    if len(data) > _LONGEST_TEXT:
        raise UsageError(f"more than {_LONGEST_TEXT >> 20} MiB to explain; `correlator diagnose -` reads whole logs")
    return data.decode(errors="replace")


def _not_found(text: str) -> str:
    from correlator.signatures import by_id

    if " " in text:
        return "no signature fits that text or is near it; `correlator signatures WORD` looks for a word"
    close = get_close_matches(text.lower(), by_id(), n=_NEAR_IDS, cutoff=0.5)
    return f"no such signature: {text}; {'near: ' + ', '.join(close) if close else '`correlator signatures` lists all'}"


def _write_site(place: str) -> int:
    from correlator.cli._folder import write_site
    from correlator.report.site import MANIFEST, site_files
    from correlator.signatures import load_signatures

    count = write_site(place, site_files(load_signatures()), MANIFEST)
    write_stdout(f"{count} files in {place}; open {place.rstrip('/')}/index.html\n")
    return 0


def _write_text(found: Explained, output: str | None) -> None:
    from correlator.report.encyclopedia import render_explained
    from correlator.report.layout import render_for, render_plain

    page = render_explained(found)
    if output and output != "-":
        write_output(output, render_plain(page).encode())
    else:
        write_stdout(render_for(sys.stdout, page))


def _write_markdown(found: Explained, output: str | None) -> None:
    from correlator.report.entry_forms import entry_markdown

    write_output(output, entry_markdown(found).encode("utf-8", "backslashreplace"))


def _write_html(found: Explained, output: str | None) -> None:
    from correlator.report.entry_html import entry_html

    write_output(output, entry_html(found).encode("utf-8", "backslashreplace"))


def _write_json(found: Explained, output: str | None) -> None:
    from correlator.report.entry_forms import entry_json

    write_output(output, entry_json(found))


_WRITERS: dict[Format, Callable[[Explained, str | None], None]] = {
    Format.text: _write_text,
    Format.markdown: _write_markdown,
    Format.html: _write_html,
    Format.json: _write_json,
}
