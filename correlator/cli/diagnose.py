"""`correlator diagnose`: the main job."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from correlator.cli._options import Logs, Scheduler, Timezone, Workers
from correlator.cli._output import check_output, write_output, write_stderr, write_stdout

if TYPE_CHECKING:
    from correlator.pipeline import Diagnosis

#: What --exit-code answers, so that a batch script can choose to requeue, to drain a node or to stop.
EXIT_CODES = {"none": 0, "configuration": 10, "application": 11, "hardware": 12, "infrastructure": 13, "unknown": 14}


class Format(StrEnum):
    """Forms of the answer."""

    text = "text"
    json = "json"


def run(
    logs: Logs,
    checkpoints: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder of the job's checkpoints, to say where to resume.")
    ] = None,
    format: Annotated[
        Format | None, typer.Option(help="Form of the answer; by default text, or what the ending of FILE says.")
    ] = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="Write to FILE and not to standard output.")
    ] = None,
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
    if output:
        check_output(output, logs)
    from correlator.cli._progress import progress_on_stderr
    from correlator.cli._scheduler import executor_at
    from correlator.pipeline import diagnose

    with progress_on_stderr() as progress, executor_at(scheduler) as executor:
        diagnosis = diagnose(
            *logs, checkpoints=checkpoints, timezone=timezone, workers=workers, executor=executor, progress=progress
        )
    chosen = format or (Format.json if output and Path(output).suffix.lower() == ".json" else Format.text)
    if chosen is Format.json:
        _write_json(diagnosis, output)
    else:
        _write_text(diagnosis, output)
    return EXIT_CODES[diagnosis.document.verdict.class_] if exit_code else 0


def _write_json(diagnosis: Diagnosis, output: str | None) -> None:
    from correlator.diagnosis import to_json
    from correlator.report.safe import visible_json

    write_output(output or "-", visible_json(to_json(diagnosis.document)))
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
