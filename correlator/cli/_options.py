"""Arguments that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer


def _known_zone(zone: str | None) -> str | None:
    if zone is not None:
        from zoneinfo import ZoneInfo

        try:
            ZoneInfo(zone)
        except (KeyError, ValueError, OSError):  # an unknown name, a name with a slash in front, a folder's name
            raise typer.BadParameter(f"{zone!r} is no time zone; write one like Europe/Berlin or Etc/GMT-3") from None
    return zone


Logs = Annotated[
    list[str],
    typer.Argument(metavar="LOGDIR", help="Folders or files with the logs of one job."),
]
Timezone = Annotated[
    str | None,
    typer.Option(metavar="ZONE", callback=_known_zone, help="Zone of time stamps that state none, like Europe/Berlin."),
]
Workers = Annotated[int | None, typer.Option(metavar="N", min=1, help="Processes that read; one a core by default.")]
