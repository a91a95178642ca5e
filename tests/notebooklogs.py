"""The example logs of the notebooks, which ``python tests/notebooklogs.py`` writes into ``notebooks/logs``.

Two nodes with two ranks each run the same job five times. On three days a GPU falls off the bus: twice the same board,
which was moved to the other node in between, and once another one. One day a batch is too long, and one day the kernel
and the vendor's tools say that the first board is broken.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import joblogs
from joblogs import HOSTS, Lines, gpu_off_the_bus, iterations, kernel, raises, torchrun, write
from returns import BUS, SERIAL, UUID, complete

FOLDER = Path(__file__).parents[1] / "notebooks" / "logs"
LEFT, RIGHT = HOSTS[:2]
#: Bus address, UUID and serial number of a board.
MOVED = (BUS, UUID, SERIAL)
OTHER = ("0000:1b:00", "GPU-77d1b0aa-0000-4c1e-8f55-0a1b2c3d4e5f", "1650000000031")
TOO_LONG = "ValueError: sequence of 4097 tokens, at most 4096 are allowed"


def job(codes: dict[int, int], printed: Lines) -> dict[str, Lines]:
    """The nodes' logs: ``codes`` are the exit codes by rank, ``printed`` are the lines of rank 2."""
    return torchrun({0: iterations(30), 1: [], 2: printed, 3: []}, codes)


def off_the_bus(host: str, board: tuple[str, str, str], rank: int) -> dict[str, Lines]:
    """A job whose ``rank`` loses its board, with the kernel's lines of its node."""
    bus, uuid, serial = board
    return job({rank: -6}, []) | {
        f"kern-{host}.log": [
            *kernel(30.0, host, f"NVRM: GPU at PCI:{bus}: {uuid}"),
            *kernel(30.0, host, f"NVRM: GPU Board Serial Number: {serial}"),
            *gpu_off_the_bus(31.0, host, bus, rank),
        ]
    }


def incidents() -> Iterator[tuple[str, dict[str, Lines]]]:
    """Each incident's folder and its files."""
    happened = (
        (14, lambda: off_the_bus(RIGHT, MOVED, 3)),
        (19, lambda: job({}, raises(TOO_LONG, rank=2))),
        (23, lambda: off_the_bus(LEFT, OTHER, 1)),
        (29, lambda: off_the_bus(LEFT, MOVED, 1)),
    )
    for day, files in happened:
        start = joblogs.START.replace(day=day)
        with mock.patch.object(joblogs, "START", start):
            yield start.date().isoformat(), files()


def write_all(folder: Path) -> None:
    """Writes every file of ``notebooks/logs`` below ``folder``."""
    write(folder / "for-a-return", complete())
    for name, files in incidents():
        write(folder / "incidents" / name, files)


if __name__ == "__main__":
    write_all(FOLDER)
