"""`ingest --all-lines`: every line of the logs as a row, one Parquet file a log."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tinylogs import put

from correlator.cli import main
from correlator.ingest import Shard
from correlator.line_export import MAX_TEXT, export_lines


def lines_of(logs: Path, folder: Path, **options: Any) -> pl.DataFrame:
    export_lines([logs], folder, workers=1, **options)
    return pl.read_parquet(folder / "*.parquet").cast(
        {"file": pl.String, "node": pl.String, "timestamp_basis": pl.String}
    )


def test_every_line_is_a_row_with_its_place_time_and_writer(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    put(logs, "2024-05-01 07:40:18,500 INFO fine\n  no stamp\n\n2024-05-01 07:40:19,000 last", "node7/rank_3.log")
    put(logs, gzip.compress(b"May  1 07:40:18 node012 kernel: x\r\n"), "messages.gz")
    frame = lines_of(logs, tmp_path / "out").sort("file", "line")
    assert frame.select("file", "line", "byte_offset", "text", "node", "rank").rows() == [
        ("messages.gz", 1, 0, "May  1 07:40:18 node012 kernel: x", "node012", None),
        ("node7/rank_3.log", 1, 0, "2024-05-01 07:40:18,500 INFO fine", None, 3),
        ("node7/rank_3.log", 2, 34, "  no stamp", None, 3),
        ("node7/rank_3.log", 3, 45, "", None, 3),
        ("node7/rank_3.log", 4, 46, "2024-05-01 07:40:19,000 last", None, 3),
    ]
    assert frame["timestamp"].cast(pl.Int64).to_list() == [
        1_714_549_218 * 10**9, *[1_714_549_218_500_000_000] * 3, 1_714_549_219 * 10**9
    ]  # fmt: skip
    assert frame["timestamp_basis"].to_list() == ["printed", "printed", "inherited", "inherited", "printed"]


def test_a_line_of_any_length_is_cut_and_counted_once(tmp_path: Path) -> None:
    logs = put(tmp_path / "logs", b"a\n" + b"x" * (3 << 20) + b"\nb\n")
    frame = lines_of(logs, tmp_path / "out")
    assert frame["text"].str.len_bytes().to_list() == [1, MAX_TEXT, 1]
    assert frame["byte_offset"].to_list() == [0, 2, 3 + (3 << 20)]


def test_shards_have_each_line_once(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    for number in range(9):
        put(logs, f"line of {number}\n", f"rank_{number}.log")
    whole = lines_of(logs, tmp_path / "whole")
    parts = [lines_of(logs, tmp_path / f"part{i}", shard=Shard(i, 2)) for i in range(2)]
    assert all(len(part) for part in parts)
    assert pl.concat(parts).sort("file").equals(whole.sort("file"))
    names = [{path.name for path in (tmp_path / f"part{i}").iterdir()} for i in range(2)]
    assert names[0].isdisjoint(names[1])


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs = put(tmp_path / "logs", "one\ntwo\n")
    put(logs, gzip.compress(b"three\n" * 99)[:-9], "torn.gz")
    assert main(["ingest", str(logs), "--all-lines", "--workers", "1", "-o", str(tmp_path / "out")]) == 0
    told = capsys.readouterr().err
    assert "torn.gz: damaged archive, its lines up to there are written" in told
    assert "lines written to" in told
    assert main(["ingest", str(logs), "--all-lines", "-o", str(tmp_path / "out")]) == 2
    assert "holds files already" in capsys.readouterr().err
    assert main(["ingest", str(logs), "--all-lines", "-o", str(tmp_path / "x.parquet")]) == 2
    assert "--all-lines writes a folder" in capsys.readouterr().err
    assert main(["ingest", str(logs), "--all-lines", "-o", str(logs / "out")]) == 2
    assert "which is read" in capsys.readouterr().err
    assert main(["ingest", str(logs), "--all-lines", "--scheduler", "tcp://x:1", "-o", str(tmp_path / "y")]) == 2
    assert "leave out --scheduler" in capsys.readouterr().err


FULL = """
import errno, sys
import pyarrow as pa, pyarrow.parquet as pq
from correlator.cli import main

def write_table(self, table):
    raise OSError(errno.ENOSPC, "Error writing bytes to file")

pq.ParquetWriter.write_table = write_table
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("is_there", [False, True])
def test_a_full_disk_is_one_sentence_and_leaves_no_part(tmp_path: Path, is_there: bool) -> None:
    logs, out = put(tmp_path / "logs", "one\n"), tmp_path / "out"
    put(logs, "two\n", "b.log")
    if is_there:
        out.mkdir()
    command = [sys.executable, "-c", FULL, "ingest", str(logs), "--all-lines", "--workers", "1", "-o", str(out)]
    done = subprocess.run(command, text=True, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (2, f"correlator: cannot write {out}: No space left on device\n")
    assert list(tmp_path.rglob("*.parquet")) == [] and out.exists() == is_there


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_shows_no_traceback_and_leaves_no_part(tmp_path: Path, number: signal.Signals, code: int) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    for name in "abcd":
        put(logs, "a line of no interest at all\n" * 400_000, f"{name}.log")
    command = [sys.executable, "-m", "correlator", "ingest", str(logs), "--all-lines", "--workers", "2", "-o", str(out)]
    running = subprocess.Popen(command, text=True, stderr=subprocess.PIPE, start_new_session=True)
    while running.poll() is None and not list(out.glob("*.parquet")):
        time.sleep(0.01)
    if number == signal.SIGINT:
        os.killpg(running.pid, number)  # as Ctrl-C: to all its processes
    else:
        running.send_signal(number)
    said = running.communicate(timeout=60)[1]
    assert running.returncode == code and "Traceback" not in said and "Process" not in said
    assert not out.exists()


def test_two_workers_write_the_same_bytes_as_one(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    for number in range(3):
        put(logs, "".join(f"2024-05-01 07:40:{s:02d} line {s}\n" for s in range(60)), f"rank_{number}.log")
    for workers in (1, 2):
        assert export_lines([logs], tmp_path / str(workers), workers=workers) == (180, [])
    names = sorted(path.name for path in (tmp_path / "1").iterdir())
    assert len(names) == 3
    assert all((tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes() for name in names)
