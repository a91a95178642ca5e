"""torch's DataLoader about its worker processes.

Emitted by: torch ``utils/data/dataloader.py`` and ``csrc/DataLoader.cpp``, 1.13 to 2.14. The pid is a worker's: a child
of the rank's process.
Gives: dataloader.worker_killed (pid, signal), dataloader.worker_bus_error.
"""

from __future__ import annotations

import re

from correlator.events import Parser, Pattern
from parsers._lines import one_line, rank_list, signal_number


def _worker_fields(match: re.Match[str]) -> dict[str, object]:
    pids = rank_list(match["pids"])
    fields: dict[str, object] = {"pid": pids.split(",")[0], "pids": pids, "how": match["how"].strip()}
    for name, value in (("signal", match["signal"]), ("exit_code", match["code"])):
        if value:
            fields[name] = signal_number(value) if name == "signal" else value
    return fields


WORKER_KILLED = Pattern(
    event="dataloader.worker_killed",
    literals=("DataLoader worker (pid",),
    block=one_line(
        r"DataLoader worker \(pid(?:\(s\))? (?P<pids>[\d, ]+)\) (?P<how>is killed by signal: (?P<signal>[A-Z][A-Za-z "
        r"]+)|"
        r"exited unexpectedly(?: with exit code (?P<code>-?\d+))?)",
        _worker_fields,
    ),
    block_lines=0,
    sample="RuntimeError: DataLoader worker (pid 4720) is killed by signal: Killed. ",
    not_samples=("started DataLoader worker (pid 4720)",),
)

BUS_ERROR = Pattern(
    event="dataloader.worker_bus_error",
    literals=("Unexpected bus error encountered in worker", "workers are out of shared memory"),
    regex=r"(?:Unexpected bus error encountered in worker|dataloader's workers are out of shared memory)",
    sample="ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory "
    "(shm).",
)

PARSER = Parser("dataloader", (WORKER_KILLED, BUS_ERROR))
