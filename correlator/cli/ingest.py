"""`correlator ingest`: the event table alone, as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from correlator.cli._options import Logs, Scheduler, Timezone, Workers
from correlator.cli._output import check_output, write_output, write_stderr
from correlator.errors import UsageError


def run(
    logs: Logs,
    output: Annotated[str, typer.Option("-o", "--output", metavar="FILE", help="events.parquet, .arrow or .csv.")],
    shard: Annotated[
        str | None,
        typer.Option(metavar="I/N", help="Read only share I (from 0) of N; diagnose a folder with all N parts."),
    ] = None,
    all_lines: Annotated[
        bool, typer.Option("--all-lines", help="Every line a row: -o names a new folder, one Parquet file a log.")
    ] = False,
    timezone: Timezone = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
) -> int:
    """Write the event table (Parquet, Arrow, CSV).

    LOGDIR may hold parts of one that other runs wrote: they are merged.
    """
    if all_lines:
        return _write_lines(logs, output, shard, timezone, workers, scheduler)
    check_output(output, logs)
    from correlator.event_export import event_writer

    write = event_writer(Path(output).suffix)
    from correlator.cli._progress import progress_on_stderr
    from correlator.cli._scheduler import executor_at
    from correlator.ingest import as_part, parse_shard
    from correlator.ingest.nothing import require_text
    from correlator.pipeline import read_events

    share = parse_shard(shard) if shard else None
    with progress_on_stderr() as progress, executor_at(scheduler) as executor:
        read = read_events(*logs, timezone=timezone, workers=workers, executor=executor, shard=share, progress=progress)
    require_text(read, logs)
    write_output(output, write(as_part(read)))
    write_stderr(f"{read.events.num_rows:,} events written to {output}\n")
    return 0


def _write_lines(
    logs: list[str], output: str, shard: str | None, timezone: str | None, workers: int | None, scheduler: str | None
) -> int:
    """Every line of the logs as a row, in a folder of Parquet files."""
    if scheduler is not None:
        raise UsageError("--all-lines reads on this machine: leave out --scheduler, or use --shard on several")
    folder = Path(output)
    if not folder.is_dir():
        check_output(output, logs)
        if folder.exists() or folder.suffix in (".parquet", ".arrow", ".csv"):
            raise UsageError(f"-o {output}: --all-lines writes a folder; name a new or an empty one")
    else:
        check_output(output, logs, part="part")
        if any(folder.iterdir()):
            raise UsageError(f"-o {output} holds files already; name a new or an empty folder")
    from correlator.ingest import parse_shard
    from correlator.line_export import export_lines

    lines, problems = export_lines(
        logs, folder, timezone=timezone, workers=workers, shard=parse_shard(shard) if shard else None
    )
    for problem in problems:
        write_stderr(f"correlator: {problem.name}: {problem.why}\n")
    write_stderr(f"{lines:,} lines written to {output}\n")
    return 0
