"""Documents of several records in one line: one row a record, and text that a search of the bytes would not see."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tinylogs import put, read, rows

from correlator.json_documents import MAX_DOCUMENT, record_lines
from correlator.line_export import export_lines

NS = 1_714_542_018_123_456_789


def loki(*streams: tuple[dict[str, str], list[tuple[int, str]]]) -> list[dict[str, Any]]:
    return [{"stream": labels, "values": [[str(ns), line] for ns, line in values]} for labels, values in streams]


STREAMS = loki(
    ({"pod": "w-0", "node_name": "node7"}, [(NS + 1, "BOOM seq=2"), (NS, "BOOM seq=1 by rank0")]),
    ({"pod": "w-1", "node_name": "node8"}, [(NS + 2, "BOOM seq=3")]),
)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"status": "success", "data": {"resultType": "streams", "result": STREAMS, "stats": {}}}),
        json.dumps({"streams": STREAMS}),
        json.dumps(STREAMS),
        "\n".join(json.dumps(one, separators=(",", ":")) for one in STREAMS),
    ],
    ids=["the API's answer", "a push", "a list", "one stream a line"],
)
@pytest.mark.parametrize("packed", [False, True])
def test_each_value_of_a_loki_stream_is_a_row(tmp_path: Path, text: str, packed: bool) -> None:
    data = text.encode()
    result = read(put(tmp_path, gzip.compress(data) if packed else data, "loki.json.gz" if packed else "loki.json"))
    found = rows(result, "test.boom")
    assert [(row["line"], row["seq"], row["node"], row["timestamp"] - NS) for row in found] == [
        (1, 1, "node7", 0),  # the oldest first, although Loki answered newest first
        (2, 2, "node7", 1),
        (3, 3, "node8", 2),
    ]
    assert {row["timestamp_basis"] for row in found} == {"transport"}


def test_arrays_of_fluent_bit_are_a_row_a_record(tmp_path: Path) -> None:
    records = [{"date": 1714542018.5 + n, "log": f"BOOM seq={n}", "kubernetes": {"pod_name": "w-1"}} for n in range(3)]
    found = rows(read(put(tmp_path, json.dumps(records))), "test.boom")
    assert [(row["seq"], row["timestamp"], row["node"]) for row in found] == [
        (n, (1_714_542_018 + n) * 10**9 + 5 * 10**8, "w-1") for n in range(3)
    ]


def test_a_journal_message_of_byte_values_is_found(tmp_path: Path) -> None:
    head = {"__REALTIME_TIMESTAMP": "1714542018123456", "_HOSTNAME": "node012", "SYSLOG_IDENTIFIER": "kernel"}
    lines = [{**head, "MESSAGE": "fine"}, {**head, "MESSAGE": list(b"\x1b[31mBOOM seq=4\x1b[0m \xff")}]
    (row,) = rows(read(put(tmp_path, "\n".join(map(json.dumps, lines)))), "test.boom")
    assert (row["line"], row["seq"], row["node"], row["timestamp"]) == (2, 4, "node012", 1_714_542_018_123_456_000)


def test_the_lines_of_a_document_are_exported_one_by_one(tmp_path: Path) -> None:
    logs = put(
        tmp_path / "logs", json.dumps({"status": "success", "data": {"resultType": "streams", "result": STREAMS}})
    )
    assert export_lines([logs], tmp_path / "out", workers=1) == (3, [])
    assert pl.read_parquet(tmp_path / "out" / "*.parquet")["node"].to_list() == ["node7", "node7", "node8"]


@pytest.mark.parametrize("step", [1, 7, 4096])
def test_what_is_no_document_passes_as_it_is_in_pieces_of_any_size(step: int) -> None:
    text = (
        b'{"stream":{"a":"b"},"values":[["1","x"],["2","y"]]}\nplain \xff\r\n{"stream":{"torn\n[{"time":[[[\n{}\nlast'
    )
    pieces = (text[at : at + step] for at in range(0, len(text), step))
    first, second, rest = b"".join(record_lines(pieces)).split(b"\n", 2)
    assert [json.loads(line)["values"] for line in (first, second)] == [[["1", "x"]], [["2", "y"]]]
    assert rest == text.partition(b"\n")[2]


def test_a_document_that_would_grow_without_measure_passes_as_it_is() -> None:
    document = json.dumps({"stream": {"label": "x" * 100_000}, "values": [["1", "y"]] * 2_000}).encode()
    assert b"".join(record_lines([document])) == document


def test_an_overlong_line_passes_and_the_next_one_is_read_again() -> None:
    long = b'{"stream":{"' + b"x" * (MAX_DOCUMENT + 5) + b"\n"
    pieces = [long[at : at + (1 << 20)] for at in range(0, len(long), 1 << 20)]
    pieces.append(b'{"stream":{},"values":[["1","x"],["2","y"]]}\n')
    out = b"".join(record_lines(pieces))
    assert out.startswith(long)
    assert out.count(b"\n") == 3
