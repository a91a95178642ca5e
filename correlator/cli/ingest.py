"""`correlator ingest`: the event table alone, as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from correlator.cli._options import Logs, Scheduler, Timezone, Workers
from correlator.cli._output import check_output, write_output, write_stderr


def run(
    logs: Logs,
    output: Annotated[str, typer.Option("-o", "--output", metavar="FILE", help="events.parquet, .arrow or .csv.")],
    shard: Annotated[
        str | None,
        typer.Option(metavar="I/N", help="Read only share I (from 0) of N; diagnose a folder with all N parts."),
    ] = None,
    timezone: Timezone = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
) -> int:
    """Write the event table (Parquet, Arrow, CSV).

    LOGDIR may hold parts of one that other runs wrote: they are merged.
    """
    check_output(output, logs)
    from correlator.event_export import event_writer

    write = event_writer(Path(output).suffix)
    from correlator.cli._nothing import require_text
    from correlator.cli._progress import progress_on_stderr
    from correlator.cli._scheduler import executor_at
    from correlator.ingest import as_part, parse_shard
    from correlator.pipeline import read_events

    share = parse_shard(shard) if shard else None
    with progress_on_stderr() as progress, executor_at(scheduler) as executor:
        read = read_events(*logs, timezone=timezone, workers=workers, executor=executor, shard=share, progress=progress)
    require_text(read, logs)
    write_output(output, write(as_part(read)))
    write_stderr(f"{read.events.num_rows:,} events written to {output}\n")
    return 0
