"""`correlator preflight`: what of a launch would fail, said before it burns an hour."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from typing import Annotated

import typer

from correlator.cli._options import Output, named
from correlator.cli._output import check_output, form_of, write_output, write_stdout

#: Exit code when the launch cannot work: that of the class configuration.
BLOCKED = 10


class Format(StrEnum):
    """Forms of the answer."""

    text = "text"
    json = "json"
    sarif = "sarif"


_ENDINGS = {".txt": Format.text, ".json": Format.json, ".sarif": Format.sarif}


def run(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- LAUNCH COMMAND ...]", help="The command as it would be started.")
    ] = None,
    script: Annotated[
        list[str] | None,
        typer.Option("--script", metavar="FILE", callback=named, help="A launch script; read, never run."),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config",
            metavar="FILE",
            callback=named,
            help="Configuration: Megatron-LM, NeMo, DeepSpeed, torchtitan, accelerate, a PyTorchJob or JobSet.",
        ),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint", metavar="DIR", callback=named, help="Folder of the checkpoints it would resume from."
        ),
    ] = None,
    world_size: Annotated[
        int | None, typer.Option("--world-size", metavar="N", min=1, help="Ranks, where the launch does not say.")
    ] = None,
    environment: Annotated[
        bool, typer.Option("--environment", help="Take this process's environment as the launch's: for use in a job.")
    ] = False,
    lint_logs: Annotated[
        bool, typer.Option("--lint-logs", help="Also say what to switch on so that a crash can be explained.")
    ] = False,
    emit_env: Annotated[
        bool, typer.Option("--emit-env", help="Print the exports that make a crash explainable, and nothing else.")
    ] = False,
    format: Annotated[
        Format | None, typer.Option(help="Form of the answer; by default text, or what the ending of FILE says.")
    ] = None,
    output: Output = None,
) -> int:
    """Say before a launch what would fail. Exit code 10: it cannot work."""
    inputs = [*(script or []), *(config or []), checkpoint]
    check_output(output, inputs)
    from correlator.preflight import examine
    from correlator.preflight.exports import exports
    from correlator.report.preflight import to_json, to_sarif, to_text

    if emit_env:
        write_output(output, exports().encode())
        return 0
    report = examine(
        command or (), scripts=script or (), configs=config or (), checkpoint=checkpoint, world_size=world_size,
        environment=os.environ if environment else None, lint_logs=lint_logs,
    )  # fmt: skip
    chosen = format or form_of(output, _ENDINGS, Format.text)
    if chosen is Format.text:
        text = to_text(report, None if output else sys.stdout)
        write_output(output, text.encode()) if output and output != "-" else write_stdout(text)
    else:
        write_output(output, to_json(report) if chosen is Format.json else to_sarif(report))
    return BLOCKED if report.blocked else 0
