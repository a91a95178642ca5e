"""The table read in parts, by shards and by clusters, is the table read at once, byte for byte."""

from __future__ import annotations

import gzip
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from packing import tar
from tinylogs import put, read, rows

from correlator.cli import main
from correlator.errors import UsageError
from correlator.ingest import Shard, find_parts, parse_shard, planning
from correlator.pipeline import diagnose, read_events

EXCEPTION = """\
[2024-05-01 07:40:1{rank}] step 12/1000
Traceback (most recent call last):
  File "/opt/job/train.py", line 88, in main
    load(batch)
ValueError: shard {rank} is empty
"""


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    for rank in range(9):
        put(folder, EXCEPTION.format(rank=rank), f"node{rank // 3}/rank_{rank}.log")
    put(folder, gzip.compress(EXCEPTION.format(rank=9).encode())[:-9], "node3/rank_9.log.gz")
    put(folder, tar({"rank_10.log": EXCEPTION.format(rank=3).encode()}), "node3/old.tar")
    put(folder, b"\x80\x02}q\x00.", "m.pt")
    return folder


def ingest_to(target: Path, *arguments: object) -> Path:
    target.parent.mkdir(exist_ok=True)
    assert main(["ingest", *map(str, arguments), "-o", str(target)]) == 0
    return target


def shards_of(logs: Path, folder: Path, count: int, suffix: str = ".parquet") -> Path:
    for index in range(count):
        ingest_to(folder / f"part-{index}{suffix}", logs, "--shard", f"{index}/{count}")
    return folder


# --- shards ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "suffix"), [(1, ".parquet"), (3, ".parquet"), (40, ".parquet"), (3, ".arrow")])
def test_merged_shards_are_the_whole_byte_for_byte(logs: Path, tmp_path: Path, count: int, suffix: str) -> None:
    whole = ingest_to(tmp_path / f"whole{suffix}", logs)
    merged = ingest_to(tmp_path / f"merged{suffix}", shards_of(logs, tmp_path / "parts", count, suffix))
    assert whole.read_bytes() == merged.read_bytes()
    assert read_events(merged).events.equals(read_events(logs).events, check_metadata=True)
    assert read_events(merged).events.num_rows >= 20


def test_each_file_is_in_one_shard(logs: Path) -> None:
    names = [file.name for index in range(4) for file in read(logs, shard=Shard(index, 4)).files]
    assert sorted(names) == [file.name for file in read(logs).files]


def test_a_diagnosis_of_parts_is_that_of_the_logs(logs: Path, tmp_path: Path) -> None:
    of_parts = diagnose(shards_of(logs, tmp_path / "parts", 3)).document
    of_logs = diagnose(logs).document
    assert of_parts == of_logs
    assert of_parts.initiator.first_error is not None
    assert "is empty" in of_parts.initiator.first_error.text


def test_parts_without_the_logs_are_diagnosed_too(logs: Path, tmp_path: Path) -> None:
    parts = shards_of(logs, tmp_path / "parts", 2)
    logs.rename(tmp_path / "gone")
    verdict = diagnose(parts).document.verdict
    assert verdict.class_ == diagnose(tmp_path / "gone").document.verdict.class_


def test_a_missing_shard_is_a_warning(logs: Path, tmp_path: Path) -> None:
    parts = shards_of(logs, tmp_path / "parts", 3)
    (parts / "part-1.parquet").unlink()
    warnings = {warning.name: warning.why for warning in read_events(parts).warnings}
    assert warnings["shard 1/3"] == "its part is not among the parts: the ranks in it are not seen"


def test_the_same_shard_twice_is_refused(logs: Path, tmp_path: Path) -> None:
    parts = shards_of(logs, tmp_path / "parts", 2)
    (parts / "copy.parquet").write_bytes((parts / "part-1.parquet").read_bytes())
    with pytest.raises(UsageError, match="shard 1/2 is there twice"):
        read_events(parts)


def test_parts_of_node_local_logs_stand_side_by_side(tmp_path: Path) -> None:
    for node in ("gpu-a017", "gpu-a018"):
        put(tmp_path / node, f"BOOM on {node}\n" + EXCEPTION.format(rank=1), "job.log")
        ingest_to(tmp_path / "parts" / f"{node}.parquet", tmp_path / node)
    result = read_events(tmp_path / "parts")
    assert {row["file"] for row in rows(result)} == {"gpu-a017/job.log", "gpu-a018/job.log"}
    assert {row["writer"].partition("#")[0] for row in rows(result)} == {"gpu-a017/job.log", "gpu-a018/job.log"}
    assert [file.name for file in result.files] == ["gpu-a017/job.log", "gpu-a018/job.log"]
    assert [source.path.parent.name for source in result.sources] == ["gpu-a017", "gpu-a018"]


def test_what_are_parts(logs: Path, tmp_path: Path) -> None:
    parts = shards_of(logs, tmp_path / "parts", 2)
    assert len(find_parts([parts])) == 2
    assert find_parts([parts / "part-0.parquet"]) == [parts / "part-0.parquet"]
    assert find_parts([logs]) == find_parts([tmp_path / "missing"]) == find_parts(["-"]) == []
    put(parts, "a log beside them\n", "notes.log")
    assert find_parts([parts]) == []
    other = tmp_path / "other"
    other.mkdir()
    pq.write_table(read(logs).events, other / "x.parquet")
    (other / "y.arrow").write_bytes(b"no table")
    assert find_parts([other]) == []


def test_a_damaged_part_is_one_sentence(logs: Path, tmp_path: Path) -> None:
    part = ingest_to(tmp_path / "part.arrow", logs)
    raw = bytearray(part.read_bytes())
    part.write_bytes(re.sub(rb'"version":1,', b'"version":7,', bytes(raw)))
    with pytest.raises(UsageError, match="written by another version"):
        read_events(part)
    part.write_bytes(re.sub(rb'"writers":\[', b'"writers":{', bytes(raw)))
    with pytest.raises(UsageError, match="cannot be read"):
        read_events(part)


@pytest.mark.parametrize("text", ["3/3", "-1/3", "1", "a/b", "1/0", "1/2/3", ""])
def test_shards_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="expected I/N"):
        parse_shard(text)


# --- executors -------------------------------------------------------------------------------------------------------


def same(one: Any, other: Any) -> bool:
    return bool(one.events.equals(other.events)) and (one.writers, one.files, one.warnings) == (
        other.writers, other.files, other.warnings,
    )  # fmt: skip


def test_any_executor(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read_events(logs)
    monkeypatch.setattr(planning, "UNIT_BYTES", 100)
    with ThreadPoolExecutor(4) as pool:
        assert same(read_events(logs, executor=pool), whole)


def test_temporary_copies_are_not_sent_away(logs: Path) -> None:
    """The workers of an executor may be on other machines."""

    class Elsewhere(ThreadPoolExecutor):
        def __init__(self) -> None:
            super().__init__(1)
            self.sent: set[str] = set()

        def submit(self, work: Any, units: Any, plan: Any) -> Any:  # type: ignore[override]
            self.sent |= {unit.file.name for unit in units}
            return super().submit(work, units, plan)

    with Elsewhere() as pool:
        result = read_events(logs, executor=pool)
    assert {file.name for file in result.files} - pool.sent == {"node3/old.tar!/rank_10.log"}
    assert same(result, read_events(logs))


@pytest.fixture
def scheduler() -> Iterator[str]:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None, protocol="tcp://", host="127.0.0.1"
    ) as cluster:
        yield cluster.scheduler_address


def test_a_dask_cluster_gives_the_same_table(logs: Path, tmp_path: Path, scheduler: str) -> None:
    whole = ingest_to(tmp_path / "whole.parquet", logs)
    by_dask = ingest_to(tmp_path / "dask.parquet", logs, "--scheduler", scheduler)
    assert by_dask.read_bytes() == whole.read_bytes()


def test_no_scheduler_there(logs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("correlator.cli._scheduler._PATIENCE", "300ms")
    assert main(["diagnose", str(logs), "--scheduler", "tcp://127.0.0.1:9"]) == 2
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert main(["diagnose", str(logs), "--scheduler", "tcp://127.0.0.1:9"]) == 2
    assert "pip install 'rank-correlator[dask]'" in capsys.readouterr().err
