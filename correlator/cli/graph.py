"""`correlator graph`: the causal graph as a file, or one rank's place in it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from correlator.cli._options import Logs, Timezone, Workers
from correlator.cli._output import check_output, write_output, write_stderr, write_stdout
from correlator.errors import UsageError

if TYPE_CHECKING:
    from correlator.diagnosis import Document


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
    from correlator.ingest.nothing import require_text
    from correlator.pipeline import diagnose

    with progress_on_stderr() as progress:
        diagnosis = diagnose(*logs, timezone=timezone, workers=workers, progress=progress)
    if not diagnosis.document.inputs.events:
        require_text(diagnosis.facts.ingested, logs)
    graph = diagnosis.graph
    if rank is not None:
        _check_rank(rank, diagnosis.document)
    if output and write:
        part = graph if rank is None else way_to(graph, rank)
        write_output(output, write(part))
        boxes, arrows = count_words(len(part), "box", "boxes"), count_words(part.number_of_edges(), "arrow")
        write_stderr(f"{boxes}, {arrows} written to {output}\n")
    if rank is not None:
        from correlator.attribution.standing import life_of
        from correlator.report.layout import render_for
        from correlator.report.standing import render_life, render_standing

        life = render_life(life_of(diagnosis.facts, rank))
        write_stdout(render_for(sys.stdout, [*render_standing(diagnosis.document, rank), *life]))
    return 0


def _check_rank(rank: int, document: Document) -> None:
    """Raises UsageError for a rank that the job cannot have or, where its size is not known, that nothing names."""
    from correlator.report.words import ranks_words

    size = document.job.world_size
    named = {*document.initiator.ranks, *document.collateral.ranks, *(r for e in document.cascade for r in e.ranks)}
    if size and rank >= size:
        raise UsageError(f"--rank {rank}: the job has ranks 0 to {size - 1}")
    if not size and rank not in named:
        raise UsageError(f"--rank {rank}: the logs name {ranks_words(sorted(named))}")
