"""`correlator graph`: the causal graph as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from correlator.cli._options import Logs, Timezone, Workers
from correlator.cli._output import check_output, write_output, write_stderr


def run(
    logs: Logs,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="cascade.graphml, .json (node-link) or .svg.")
    ],
    timezone: Timezone = None,
    workers: Workers = None,
) -> int:
    """Write the causal graph (GraphML, JSON, SVG)."""
    check_output(output, logs)
    from correlator.graph_export import graph_writer

    write = graph_writer(Path(output).suffix)
    from correlator.cli._progress import progress_on_stderr
    from correlator.pipeline import diagnose

    with progress_on_stderr() as progress:
        graph = diagnose(*logs, timezone=timezone, workers=workers, progress=progress).graph
    write_output(output, write(graph))
    write_stderr(f"{len(graph):,} occurrences and {graph.number_of_edges():,} causes written to {output}\n")
    return 0
