"""`correlator diagnose`: the main job."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from correlator.cli._options import Logs, Output, Scheduler, Timezone, Workers, named
from correlator.cli._output import check_output, form_of, write_output, write_stderr, write_stdout

if TYPE_CHECKING:
    from correlator.pipeline import Diagnosis

#: What --exit-code answers, so that a batch script can choose to requeue, to drain a node or to stop.
EXIT_CODES = {"none": 0, "configuration": 10, "application": 11, "hardware": 12, "infrastructure": 13, "unknown": 14}


class Format(StrEnum):
    """Forms of the answer."""

    text = "text"
    json = "json"
    markdown = "markdown"
    html = "html"
    sarif = "sarif"


#: The form that the ending of FILE asks for.
_ENDINGS = {
    ".txt": Format.text,
    ".text": Format.text,
    ".log": Format.text,
    ".json": Format.json,
    ".md": Format.markdown,
    ".markdown": Format.markdown,
    ".html": Format.html,
    ".htm": Format.html,
    ".sarif": Format.sarif,
}


def run(
    logs: Logs,
    checkpoints: Annotated[
        str | None,
        typer.Option(metavar="DIR", callback=named, help="Folder of the job's checkpoints, to say where to resume."),
    ] = None,
    format: Annotated[
        Format | None, typer.Option(help="Form of the answer; by default text, or what the ending of FILE says.")
    ] = None,
    output: Output = None,
    exit_code: Annotated[
        bool,
        typer.Option(
            "--exit-code",
            help="Exit 0 no failure, 10 configuration, 11 application, 12 hardware, 13 infrastructure, 14 undecided.",
        ),
    ] = False,
    timezone: Timezone = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
) -> int:
    """Say who failed first, why, and where to resume."""
    check_output(output, [*logs, checkpoints])
    chosen = format or form_of(output, _ENDINGS, Format.text)
    from correlator.cli._progress import progress_on_stderr
    from correlator.cli._scheduler import executor_at
    from correlator.ingest.nothing import require_text
    from correlator.pipeline import diagnose

    with progress_on_stderr() as progress, executor_at(scheduler) as executor:
        diagnosis = diagnose(
            *logs, checkpoints=checkpoints, timezone=timezone, workers=workers, executor=executor, progress=progress
        )
    if not diagnosis.document.inputs.events:
        require_text(diagnosis.facts.ingested, logs)
    _WRITERS[chosen](diagnosis, output)
    return EXIT_CODES[diagnosis.document.verdict.class_] if exit_code else 0


def _write_json(diagnosis: Diagnosis, output: str | None) -> None:
    from correlator.diagnosis import to_json
    from correlator.report.safe import visible_json

    write_output(output, visible_json(to_json(diagnosis.document)))
    inputs = diagnosis.document.inputs
    damaged = [warning for warning in inputs.warnings if warning.file]
    if inputs.files_skipped or damaged:
        counts = f"{len(inputs.files_skipped)} skipped, {len(damaged)} damaged"
        write_stderr(f"correlator: files: {counts}; `inputs` in the JSON names them\n")


def _write_text(diagnosis: Diagnosis, output: str | None) -> None:
    from correlator.report.layout import render_for, render_plain
    from correlator.report.text import render_report

    page = render_report(diagnosis.document, diagnosis.neighbourhood)
    if output and output != "-":
        write_output(output, render_plain(page).encode())
    else:
        write_stdout(render_for(sys.stdout, page))


def _write_markdown(diagnosis: Diagnosis, output: str | None) -> None:
    from correlator.report.markdown import render_markdown

    write_output(output, _encoded(render_markdown(diagnosis.document, diagnosis.neighbourhood)))


def _write_html(diagnosis: Diagnosis, output: str | None) -> None:
    write_output(output, _encoded(diagnosis.html()))


def _write_sarif(diagnosis: Diagnosis, output: str | None) -> None:
    from correlator.report.sarif import to_sarif

    write_output(output, to_sarif(diagnosis.document))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


_WRITERS: dict[Format, Callable[[Diagnosis, str | None], None]] = {
    Format.text: _write_text,
    Format.json: _write_json,
    Format.markdown: _write_markdown,
    Format.html: _write_html,
    Format.sarif: _write_sarif,
}
