"""The hour that comes twice when summer time ends, and the year that only a path states."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from tinylogs import put, read, rows

from correlator.line_export import export_lines
from correlator.path_claims import path_day_ns
from correlator.repeated_hour import RepeatedHour
from correlator.timestamps import SECOND

#: Two hours around the end of summer time in Berlin, 2025-10-26 01:00 UTC, a line every four minutes.
START = datetime(2025, 10, 26, tzinfo=UTC)
MINUTES = range(0, 120, 4)


def local(minute: int) -> str:
    return (START + timedelta(minutes=minute)).astimezone(ZoneInfo("Europe/Berlin")).strftime("%Y-%m-%d %H:%M:%S")


def minutes(times: list[int]) -> list[float]:
    return [(ns // SECOND - START.timestamp()) / 60 for ns in times]


def test_rows_of_the_hour_that_comes_twice_stay_in_the_order_of_their_writer(tmp_path: Path) -> None:
    lines = [f"gpu-{w}: {local(m)} BOOM seq={m} by w{w}" for m in MINUTES for w in "ab"]
    result = read(put(tmp_path, "\n".join(lines)), timezone="Europe/Berlin")
    found = rows(result, "test.boom")
    for node in ("gpu-a", "gpu-b"):
        assert minutes([row["timestamp"] for row in found if row["node"] == node]) == list(MINUTES)
    assert {minutes([writer.last_ns])[0] for writer in result.writers if writer.last_ns and writer.node} == {116}


def test_without_such_a_change_stamps_that_go_back_are_left_alone(tmp_path: Path) -> None:
    lines = [f"{local(m)} BOOM seq={m}" for m in MINUTES]
    stamps = [row["timestamp"] for row in rows(read(put(tmp_path, "\n".join(lines)), timezone="+01:00"), "test.boom")]
    assert stamps != sorted(stamps)


def test_seconds_of_overtaking_and_stamps_of_another_hour_are_no_change_of_the_clock() -> None:
    hour = RepeatedHour(ZoneInfo("Europe/Berlin"))
    first = int(START.timestamp()) * SECOND
    for offset_s in (600, 599, 1200, 1195, 0 - 7200, 1300):
        assert hour.placed("w", first + offset_s * SECOND) == first + offset_s * SECOND


def test_every_line_of_an_export_too(tmp_path: Path) -> None:
    logs = put(tmp_path / "logs", "\n".join(f"{local(m)} line" for m in MINUTES))
    export_lines([logs], tmp_path / "out", timezone="Europe/Berlin", workers=1)
    stamps = pl.read_parquet(tmp_path / "out" / "*.parquet")["timestamp"].cast(pl.Int64).to_list()
    assert minutes(stamps) == list(MINUTES)


@pytest.mark.parametrize(
    ("name", "day"),
    [
        ("2025-11-02/node7.log", (2025, 11, 2)),
        ("run_20251102/a.log", (2025, 11, 2)),
        ("var/2025/11/02/a.log", (2025, 11, 2)),
        ("messages-20251102.log", (2025, 11, 2)),
        ("archive/2025/node7.log", (2025, 7, 1)),
        ("node2025.log", None),
        ("slurm-20259902.out", None),
        ("2025-02-30/a.log", None),
        ("job-120251102.log", None),
    ],
)
def test_the_day_that_a_path_names(name: str, day: tuple[int, int, int] | None) -> None:
    assert path_day_ns(name) == (None if day is None else int(datetime(*day, tzinfo=UTC).timestamp()) * SECOND)


@pytest.mark.parametrize(
    ("folder", "other", "year"),
    [
        ("logs/2025-11-02", "", 2025),  # copied in 2026: the path knows better than the modification time
        ("2025-11-02", "", 2025),  # the folder that is given itself
        ("logs/any", "", 2026),
        ("logs/2025-11-02", "2024-11-01 10:00:00 dated", 2024),  # a line that states its year knows best
    ],
)
def test_a_year_that_only_the_path_states(tmp_path: Path, folder: str, other: str, year: int) -> None:
    logs = tmp_path / folder.partition("/")[0]
    put(tmp_path, f"Nov  2 03:04:05 node7 app: BOOM seq=1\n{other}\n", f"{folder}/messages")
    copied = datetime(2026, 12, 1, tzinfo=UTC).timestamp()
    os.utime(tmp_path / folder / "messages", (copied, copied))
    (row,) = rows(read(logs), "test.boom")
    assert row["timestamp"] == int(datetime(year, 11, 2, 3, 4, 5, tzinfo=UTC).timestamp()) * SECOND
