"""`correlator ingest`: the event table alone, as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from correlator.cli._options import Logs, Timezone, Workers
from correlator.cli._output import check_output, write_output, write_stderr


def run(
    logs: Logs,
    output: Annotated[str, typer.Option("-o", "--output", metavar="FILE", help="events.parquet, .arrow or .csv.")],
    timezone: Timezone = None,
    workers: Workers = None,
) -> int:
    """Write the event table (Parquet, Arrow, CSV)."""
    check_output(output, logs)
    from correlator.event_export import event_writer

    write = event_writer(Path(output).suffix)
    from correlator.cli._progress import progress_on_stderr
    from correlator.pipeline import read_events

    with progress_on_stderr() as progress:
        events = read_events(*logs, timezone=timezone, workers=workers, progress=progress).events
    write_output(output, write(events))
    write_stderr(f"{events.num_rows:,} events written to {output}\n")
    return 0
