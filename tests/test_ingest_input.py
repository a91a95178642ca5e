"""Logs that are odd, broken or huge; and the same table, however a run is cut into windows, units and workers."""

from __future__ import annotations

import gzip
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tinylogs import BLOCK, BOOM, PATTERNS, one, put, read, rows

from correlator.errors import NothingReadable
from correlator.events import Found, Pattern
from correlator.ingest import Ingested, ingest, planning, windows
from correlator.plugins import load_parsers

# --- odd and broken input --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        b"x\r\nBOOM\r\ny\r\n",
        b"x\nBOOM",
        b"x\n\xff\xfe\xe2BOOM\xe2\x28\n",
        b"x\n\x00\x00BOOM\x00\n\x00\x00\x00",
        b"\xef\xbb\xbfx\nBOOM\n",
    ],
)
def test_odd_bytes(tmp_path: Path, content: bytes) -> None:
    result = read(put(tmp_path, content))
    row = one(result)
    assert (row["line"], result.warnings) == (2, [])
    assert row["body"].strip("\ufffd(") == "BOOM"


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_utf16_is_recoded_with_and_without_its_mark(tmp_path: Path, codec: str, end: str) -> None:
    result = read(put(tmp_path, f"hello \u4e2d{end}BOOM seq=7{end}".encode(codec)))
    assert (one(result)["line"], one(result)["seq"], result.lines) == (2, 7, 2)


def test_empty_files_are_read_and_binaries_skipped(tmp_path: Path) -> None:
    put(tmp_path, "", "stderr.log")
    put(tmp_path, b"\x80\x02}q\x00.", "m.pt")
    result = read(tmp_path)
    assert (result.events.num_rows, result.lines, result.writers) == (0, 0, [])
    assert [(file.name, file.lines) for file in result.files] == [("stderr.log", 0)]
    assert [skip.name for skip in result.skipped] == ["m.pt"]
    with pytest.raises(NothingReadable):
        read(tmp_path / "m.pt")


def test_a_truncated_archive_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    packed = gzip.compress(b"BOOM\n" + b"".join(b"%d\n" % (i * i) for i in range(200_000)))
    result = read(put(tmp_path, packed[: len(packed) // 2], "rank_0.log.gz"))
    assert one(result)["rank"] == 0
    assert result.lines > 10_000
    assert [(w.name, w.why.partition(",")[0]) for w in result.warnings] == [("rank_0.log.gz", "damaged archive")]


def test_offsets_of_a_compressed_file_are_those_of_its_text(tmp_path: Path) -> None:
    text = b"x" * 100 + b"\nBOOM\n"
    row = one(read(put(tmp_path, gzip.compress(text))))
    assert (row["byte_offset"], row["line"]) == (101, 2)


def test_a_file_that_vanishes_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "BOOM\n", "a.log")
    put(tmp_path, "BOOM\n", "b.log")
    plan = planning.plan_units

    def vanish(files: Any) -> Any:
        (tmp_path / "a.log").unlink()
        return plan(files)

    monkeypatch.setattr("correlator.ingest.run.plan_units", vanish)
    result = read(tmp_path)
    assert one(result)["file"] == "b.log"
    assert [warning.name for warning in result.warnings] == ["a.log"]


def test_one_huge_line_is_never_held_as_a_whole(tmp_path: Path) -> None:
    filler = b"0123456789abcdef" * (1 << 16)
    with (tmp_path / "a.log").open("wb") as stream:
        stream.write(b"BOOM by first ")
        for _ in range(50):
            stream.write(filler)
        stream.write(b" BOOM by last\nBOOM by next\n")
    found = rows(read(tmp_path), "test.boom")
    assert [(row["attributes"]["who"], row["line"]) for row in found] == [("first", 1), ("last", 1), ("next", 2)]
    assert max(row["byte_length"] for row in found) <= windows.MAX_LINE
    assert max(len(row["body"]) for row in found) <= 4096


def test_millions_of_carriage_returns(tmp_path: Path) -> None:
    put(tmp_path, b"\r".join(b"%d%%|###" % i for i in range(200_000)) + b"\rBOOM\n")
    assert one(read(tmp_path))["body"] == "BOOM"


BLOCKS = [
    pattern
    for parser in load_parsers()
    for pattern in parser.patterns
    if pattern.block is not None and "\n" in pattern.sample
]


@pytest.mark.parametrize(
    "bar", ["Loading shards:  30%|###       | 3/10 [00:03<00:12,  1.27s/it]", "24it [00:02,  9.5it/s]"]
)
def test_a_bar_drawn_into_a_block_of_lines_is_no_part_of_it(bar: str, tmp_path: Path) -> None:
    """Whatever block it is: a bar ends with a carriage return, and what comes next stands in its place."""
    assert len(BLOCKS) > 30

    def found(name: str, text: str, pattern: Pattern) -> list[tuple[Any, ...]]:
        (tmp_path / name).mkdir()
        put(tmp_path / name, f"{text}\nafter\n")
        events = ingest(tmp_path / name, patterns=[pattern], workers=1).events.to_pylist()
        return [(e["event"], e["rank"], e["exit_code"], e["attributes"]) for e in events if e["event"] != "log.error"]

    for number, pattern in enumerate(BLOCKS):
        whole, *rest = pattern.sample.split("\n")
        drawn = "\n".join([whole, *(f"{bar}\r{line}" for line in rest)])
        assert found(f"{number}-drawn", drawn, pattern) == found(f"{number}-plain", pattern.sample, pattern)


# --- the same result, however it is read -------------------------------------------------------------------------------------


def mixture() -> str:
    lines = []
    for i in range(3000):
        task = i * 7 % 5
        text = f"[2024-05-01 07:{i // 60 % 60:02d}:{i % 60:02d}] item {i} " + "." * (i % 90)
        if i % 97 == 0:
            text = f"BOOM seq={i}"
        elif i % 251 == 0:
            text = "BEGIN"
        elif i % 251 in (40, 45):
            text = "END"
        elif i % 500 == 3:
            text = "\r".join(["10%|", "20%|", "BOOM by bar"])
        lines.append(f"{task}: {text}\r" if i % 1000 == 999 else f"{task}: {text}")
    return "\n".join(lines)


def same(one_result: Ingested, other: Ingested) -> bool:
    return (
        one_result.events.equals(other.events)
        and one_result.writers == other.writers
        and one_result.files == other.files
        and (one_result.lines, one_result.bytes) == (other.lines, other.bytes)
    )


@pytest.mark.parametrize(
    ("window", "unit", "ahead"), [(4096, 1 << 30, 1 << 20), (70_000, 20_000, 40_000), (1000, 3001, 30_000)]
)
def test_windows_and_units_do_not_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int, unit: int, ahead: int
) -> None:
    put(tmp_path, mixture(), "slurm-77.out")
    put(tmp_path, gzip.compress(mixture().encode()), "packed.log")
    patterns = (BOOM, BLOCK)
    whole = read(tmp_path, *patterns)
    assert whole.events.num_rows > 60
    monkeypatch.setattr(windows, "WINDOW", window)
    monkeypatch.setattr(windows, "LOOK_AHEAD", ahead)
    monkeypatch.setattr(planning, "UNIT_BYTES", unit)
    assert same(read(tmp_path, *patterns), whole)


@pytest.mark.parametrize("window", range(90, 118))
def test_a_line_across_a_window_s_edge_is_one_row_however_often_it_is_hit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    put(tmp_path, "".join(f"BOOM seq={i} and BOOM and BOOM\n" for i in range(40)))
    monkeypatch.setattr(windows, "WINDOW", window)
    found = rows(read(tmp_path, BOOM))
    assert [(row["seq"], row["line"], row["count"]) for row in found] == [(i, i + 1, 1) for i in range(40)]


def test_workers_executors_and_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(6):
        put(tmp_path, f"[2024-05-01 07:00:0{number}] step {number}\n" * 50 + "BOOM\n", f"rank_{number}.log")
    whole = read(tmp_path)
    monkeypatch.setattr(planning, "UNIT_BYTES", 3000)
    seen: list[tuple[int, int, int]] = []
    with ThreadPoolExecutor(3) as pool:
        threaded = read(tmp_path, executor=pool, progress=lambda *told: seen.append(told))
    assert same(threaded, whole)
    assert seen[-1] == (whole.bytes, whole.bytes, 6)
    assert len(seen) > 1
    assert same(read(tmp_path, workers=2), whole)


def test_patterns_that_cannot_travel_stay_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "UNIT_BYTES", 8)
    put(tmp_path, "BEGIN now\n", "a.log")
    put(tmp_path, "BEGIN now\n", "b.log")
    local = Pattern("test.local", ("BEGIN",), block=lambda lines: [Found(0, 0)])
    assert len(rows(read(tmp_path, local, workers=2), "test.local")) == 2


def test_without_processes_the_work_is_done_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.log", "b.log"):
        put(tmp_path, "BOOM\n", name)
    whole = read(tmp_path)
    monkeypatch.setattr(planning, "UNIT_BYTES", 4)

    def refuse(*args: object, **options: object) -> None:
        raise PermissionError("no semaphores here")

    monkeypatch.setattr("correlator.ingest.run.WorkerPool", refuse)
    assert same(read(tmp_path, workers=2), whole)


def test_the_order_of_paths_does_not_matter(tmp_path: Path) -> None:
    put(tmp_path, "BOOM by a\n", "n1/x.log")
    put(tmp_path, "BOOM by b\n", "n2/x.log")
    folders = [tmp_path / "n1", tmp_path / "n2"]
    assert same(ingest(folders, patterns=PATTERNS), ingest(folders[::-1], patterns=PATTERNS))


def test_the_installed_parsers_read_a_failing_ranks_error_file(tmp_path: Path) -> None:
    put(
        tmp_path,
        '{"message": {"message": "ValueError: bad shard", "extraInfo": {"py_callstack": "Traceback (most recent call '
        'last):\\n  File \\"/opt/job/train.py\\", line 88, in main\\n    load()\\nValueError: bad shard\\n", '
        '"timestamp": "1714549218"}}}',
        "none_x1/attempt_0/2/error.json",
    )
    row = one(ingest(tmp_path), "python.error_json")
    assert (row["local_rank"], row["attempt"], row["attributes"]["type"]) == (2, 0, "ValueError")
    assert re.search("main@", row["attributes"]["frames"])


def test_a_flood_in_which_every_line_matches_is_counted_exactly_over_all_units(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "UNIT_BYTES", 4096)
    put(tmp_path, "BOOM seq=7\n" * 20_000)
    for workers in (1, 2):
        assert sum(row["count"] for row in rows(read(tmp_path, workers=workers), "test.boom")) == 20_000
