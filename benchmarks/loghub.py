"""Times and node names read from public log samples, against their published parses.

    python benchmarks/loghub.py [--data FOLDER] [--wrong N]

Reads the 2,000-line samples of loghub (https://github.com/logpai/loghub; free for research) and compares each line's
time and node with the columns of `*_structured.csv`. Without --data they are downloaded into a temporary folder and
deleted afterwards. Where the lines state no year, the year is not compared.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from correlator.envelopes import FileContext, Peeled, peel
from correlator.envelopes.file_context import JobContext, file_context
from correlator.timestamps import MONTHS

_URL = "https://raw.githubusercontent.com/logpai/loghub/master/{name}/{name}_2k.log{suffix}"
_SUFFIXES = ("", "_structured.csv")
_SAMPLE_BYTES = 16_384
_TARGET = 0.999

Columns = dict[str, str]


class Moment(NamedTuple):
    """A wall clock reading in UTC, to the millisecond; ``year`` 0 where the line states none."""

    year: int
    month: int
    day: int
    seconds: int
    millis: int = 0


def _clock(text: str) -> tuple[int, int]:
    """Seconds since midnight and milliseconds of ``hh:mm:ss[,mmm]``."""
    whole, _, fraction = text.partition(",")
    hours, minutes, seconds = map(int, whole.split(":"))
    return hours * 3600 + minutes * 60 + seconds, int((fraction + "000")[:3])


def _epoch(seconds: str, fraction: str = "") -> Moment:
    at = datetime.fromtimestamp(int(seconds), UTC)
    return Moment(at.year, *_day(at), int((fraction + "000")[:3]))


def _day(at: datetime) -> tuple[int, int, int]:
    return at.month, at.day, at.hour * 3600 + at.minute * 60 + at.second


def _dated(row: Columns) -> Moment:
    year, month, day = map(int, row["Date"].replace("/", "-").split("-"))
    return Moment(year + 2000 if year < 100 else year, month, day, *_clock(row["Time"]))


def _node(column: str) -> str:
    """The node of a column that also holds ``NULL``, ``UNKNOWN_LOCATION``, and partitions without a name."""
    return column if any(map(str.isdigit, column)) and not column.isdigit() else ""


class Sample(NamedTuple):
    """How the published parse of one sample names a line's time and node (empty: the line states none)."""

    time: Callable[[Columns], Moment]
    node: Callable[[Columns], str] | None = None


#: The columns' names are those of the published parses: the host of a syslog line is "Level" or "Component" there.
SAMPLES = {
    "Linux": Sample(
        lambda row: Moment(0, MONTHS[row["Month"]], int(row["Date"]), *_clock(row["Time"])), lambda row: row["Level"]
    ),
    "OpenSSH": Sample(
        lambda row: Moment(0, MONTHS[row["Date"]], int(row["Day"]), *_clock(row["Time"])), lambda row: row["Component"]
    ),
    "HPC": Sample(lambda row: _epoch(row["Time"]), lambda row: _node(row["Node"])),
    "BGL": Sample(lambda row: _epoch(row["Timestamp"], row["Time"].rpartition(".")[2]), lambda row: _node(row["Node"])),
    "Thunderbird": Sample(lambda row: _epoch(row["Timestamp"]), lambda row: row["User"]),
    "Hadoop": Sample(_dated),
    "Spark": Sample(_dated),
    "Zookeeper": Sample(_dated),
}


class Score(NamedTuple):
    """One row of the table: lines, lines with the right time, with the right node, and what was wrong."""

    lines: int
    timed: int
    placed: int
    wrong: list[str]


def _read_time(p: Peeled, year: bool) -> Moment | None:
    if p.timestamp_ns is None:
        return None
    at = datetime.fromtimestamp(p.timestamp_ns // 10**9, UTC)
    return Moment(at.year if year else 0, *_day(at), p.timestamp_ns // 10**6 % 1000)


def score(sample: Sample, log: Path, parsed: Path) -> Score:
    """Every line of one sample, peeled as ingest does, against its row of the published parse."""
    raw = log.read_bytes()
    context = context_of(raw, log.stat().st_mtime_ns)
    with parsed.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    lines = raw.decode("utf-8", "replace").splitlines()
    if len(lines) != len(rows):
        raise SystemExit(f"{log.name} has {len(lines)} lines, {parsed.name} {len(rows)} rows")
    timed = placed = 0
    wrong = []
    for line, row in zip(lines, rows, strict=True):
        p = peel(line, context)
        expected = sample.time(row)
        right = _read_time(p, bool(expected.year)) == expected
        there = sample.node is None or (p.node or "") == sample.node(row)
        timed += right
        placed += there
        if not (right and there):
            wrong.append(f"{p.timestamp_ns} {p.node}: {line[:150]}")
    return Score(len(lines), timed, placed, wrong)


def context_of(raw: bytes, mtime_ns: int) -> FileContext:
    """What ingest makes of a file's first and last bytes."""
    head, tail = raw[:_SAMPLE_BYTES], raw[-_SAMPLE_BYTES:]
    return file_context(JobContext(), head, tail, mtime_ns, single_process=False, complete=False)


@contextmanager
def samples_in(folder: Path | None) -> Iterator[Path]:
    """The given folder, or a temporary one with the downloaded samples."""
    if folder is not None:
        yield folder
        return
    with tempfile.TemporaryDirectory() as made:
        for name in SAMPLES:
            for suffix in _SUFFIXES:
                target = Path(made) / f"{name}_2k.log{suffix}"
                address = _URL.format(name=name, suffix=suffix)
                try:
                    with urllib.request.urlopen(address, timeout=60) as answer:
                        target.write_bytes(answer.read())
                except OSError as error:
                    raise SystemExit(f"{address}: {error}; --data reads a folder that has the samples") from error
        yield Path(made)


def main() -> int:
    """Prints the table; 1 when a share is below the target."""
    parser = argparse.ArgumentParser(description="Right times and nodes on the samples of loghub.")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="folder that holds the samples already")
    parser.add_argument("--wrong", type=int, default=0, metavar="N", help="show N wrong lines of each sample")
    arguments = parser.parse_args()
    fine = True
    print(f"{'sample':<12}{'lines':>7}{'right time':>12}{'right node':>12}")
    with samples_in(arguments.data) as folder:
        for name, sample in SAMPLES.items():
            log, parsed = (folder / f"{name}_2k.log{suffix}" for suffix in _SUFFIXES)
            got = score(sample, log, parsed)
            node = f"{got.placed / got.lines:.2%}" if sample.node else "none stated"
            print(f"{name:<12}{got.lines:>7,}{got.timed / got.lines:>12.2%}{node:>12}")
            for line in got.wrong[: arguments.wrong]:
                print(f"    {line}")
            fine = fine and min(got.timed, got.placed) >= _TARGET * got.lines
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
