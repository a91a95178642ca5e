"""Arguments that several commands share."""

from __future__ import annotations

from typing import Annotated, TypeVar

import typer

from correlator.errors import UsageError

Places = TypeVar("Places", str, str | None, list[str] | None)


def _known_zone(zone: str | None) -> str | None:
    from correlator.timestamps import parse_zone

    parse_zone(zone)
    return zone


def named(places: Places) -> Places:
    """Refuses an empty path (of a shell variable that is not set), which would else be the folder this runs in."""
    if places is not None and "" in ([places] if isinstance(places, str) else places):
        raise UsageError("an empty path: name a file or a folder")
    return places


Logs = Annotated[
    list[str],
    typer.Argument(
        metavar="LOGDIR",
        help="Folders, files or archives with the logs of one job; s3:// and other addresses; - for standard input.",
    ),
]
Timezone = Annotated[
    str | None,
    typer.Option(metavar="ZONE", callback=_known_zone, help="Zone of stamps that state none: Europe/Berlin, +02:00."),
]
Workers = Annotated[
    int | None, typer.Option(metavar="N", min=1, max=1024, help="Processes that read; one a core by default.")
]
Scheduler = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Dask scheduler whose workers read: tcp://host:8786 (extra dask).")
]
Output = Annotated[
    str | None, typer.Option("-o", "--output", metavar="FILE", help="Write to FILE and not to standard output.")
]
