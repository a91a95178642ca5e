"""`correlator graph`: the causal graph as a file, or one rank's place in it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from correlator.cli._options import Logs, Timezone, Workers
from correlator.cli._output import check_output, write_output, write_stderr, write_stdout
from correlator.errors import UsageError


def run(
    logs: Logs,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="cascade.graphml, .json (node-link), .dot or .svg."),
    ] = None,
    rank: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="Say why rank N failed first, suffered, was stopped or is unknown; FILE holds only the way to it.",
        ),
    ] = None,
    timezone: Timezone = None,
    workers: Workers = None,
) -> int:
    """Write the causal graph (GraphML, JSON, DOT, SVG)."""
    if output is None and rank is None:
        raise UsageError("graph needs -o FILE, --rank N, or both")
    from correlator.graph_export import graph_writer, way_to
    from correlator.report.words import count_words

    check_output(output, logs)
    write = graph_writer(Path(output).suffix) if output else None
    from correlator.cli._progress import progress_on_stderr
    from correlator.pipeline import diagnose

    with progress_on_stderr() as progress:
        diagnosis = diagnose(*logs, timezone=timezone, workers=workers, progress=progress)
    graph, world_size = diagnosis.graph, diagnosis.document.job.world_size
    if rank is not None and world_size and rank >= world_size:
        raise UsageError(f"--rank {rank}: the job has ranks 0 to {world_size - 1}")
    if output and write:
        part = graph if rank is None else way_to(graph, rank)
        write_output(output, write(part))
        boxes, arrows = count_words(len(part), "box", "boxes"), count_words(part.number_of_edges(), "arrow")
        write_stderr(f"{boxes}, {arrows} written to {output}\n")
    if rank is not None:
        from correlator.report.layout import render_for
        from correlator.report.standing import render_standing

        write_stdout(render_for(sys.stdout, render_standing(diagnosis.document, rank)))
    return 0
