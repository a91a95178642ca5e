"""Files in which a record is not a line: one row a record, and text that a search of the bytes would not see."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tinylogs import put, read, rows

from correlator.documents import reader_of
from correlator.documents.json_lines import MAX_DOCUMENT, record_lines
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


def spread(document: Any) -> str:
    return json.dumps(document, indent=2)


@pytest.mark.parametrize(
    "text",
    [
        spread({"status": "success", "data": {"resultType": "streams", "result": STREAMS, "stats": {}}}),
        spread(STREAMS),
        "\n".join(map(spread, STREAMS)),
    ],
    ids=["the API's answer", "a list", "one stream after the other"],
)
def test_a_document_of_loki_may_be_spread_over_lines(tmp_path: Path, text: str) -> None:
    found = rows(read(put(tmp_path, text)), "test.boom")
    assert [(row["line"], row["seq"], row["node"], row["timestamp"] - NS) for row in found] == [
        (1, 1, "node7", 0),
        (2, 2, "node7", 1),
        (3, 3, "node8", 2),
    ]


@pytest.mark.parametrize("layout", [json.dumps, spread], ids=["one line", "many lines"])
def test_of_a_document_of_loki_that_is_cut_off_the_whole_values_are_read(
    tmp_path: Path, layout: Callable[[Any], str]
) -> None:
    text = layout({"status": "success", "data": {"resultType": "streams", "result": STREAMS}})
    head = text[: text.index("BOOM seq=3")]
    assert [(row["seq"], row["node"]) for row in rows(read(put(tmp_path / "head", head)), "test.boom")] == [
        (1, "node7"),
        (2, "node7"),
    ]


def test_of_an_answer_whose_beginning_is_lost_the_whole_values_are_read(tmp_path: Path) -> None:
    line = json.dumps(loki(({"pod": "w-0"}, [(NS + n, f"BOOM seq={n}") for n in range(6)]), *[]) + STREAMS)
    found = rows(read(put(tmp_path, line[line.index("BOOM seq=1") :])), "test.boom")
    assert [row["seq"] for row in found] == [2, 3, 4, 5, 1, 2, 3]
    assert [row["node"] for row in found] == [None] * 4 + ["node7", "node7", "node8"]


RECORDS = [{"date": 1714542018.5 + n, "log": f"BOOM seq={n}", "kubernetes": {"host": "node7"}} for n in range(3)]


@pytest.mark.parametrize(
    ("text", "seqs"),
    [
        (spread(RECORDS), [0, 1, 2]),
        ("\n".join(map(spread, RECORDS)), [0, 1, 2]),
        (spread(RECORDS)[:-60], [0, 1]),
        (json.dumps(RECORDS)[:-60], [0, 1]),
        ("\n".join(map(spread, RECORDS)).replace("seq=1", 'seq="1', 1), [0, 2]),
    ],
    ids=["an array", "one after the other", "an array cut off", "a line cut off", "a damaged one in between"],
)
def test_records_may_be_spread_over_lines_and_torn(tmp_path: Path, text: str, seqs: list[int]) -> None:
    found = rows(read(put(tmp_path, text)), "test.boom")
    assert [(row["seq"], row["node"]) for row in found] == [(seq, "node7") for seq in seqs]


def test_other_json_over_several_lines_stays_as_it_is() -> None:
    for document in (
        {"message": {"message": "x"}},
        {"time": 1, "loss": 2.0},
        [{"a": 1}],
        {"items": [{"message": "x"}]},
    ):
        assert reader_of(spread(document).encode()) is None


EXPORT = b"""__CURSOR=s=1;i=2
__REALTIME_TIMESTAMP=1714542018123456
_BOOT_ID=0a1b
_HOSTNAME=node012
SYSLOG_IDENTIFIER=python3
_PID=4711
MESSAGE=BOOM seq=1

__CURSOR=s=1;i=3
__REALTIME_TIMESTAMP=1714542019123456
_HOSTNAME=node012
MESSAGE
\x15\0\0\0\0\0\0\0first
BOOM seq=2\n\xff=x\n
PRIORITY=3

"""
VERBOSE = b"""Wed 2024-05-01 07:40:18.123456 CEST [s=0a1b;i=2;b=3;m=4;t=5;x=6]
    _HOSTNAME=node012
    _PID=4711
    SYSLOG_IDENTIFIER=python3
    MESSAGE=BOOM seq=1
Wed 2024-05-01 07:40:19.123456 CEST [s=0a1b;i=3;b=3;m=4;t=5;x=6]
    MESSAGE=first
            BOOM seq=2
    _HOSTNAME=node012
    _COMM=x
"""


@pytest.mark.parametrize("text", [EXPORT, VERBOSE], ids=["export", "verbose"])
def test_the_journals_records_of_several_lines_are_read_as_lines(tmp_path: Path, text: bytes) -> None:
    found = rows(read(put(tmp_path, text)), "test.boom")
    assert [(row["seq"], row["node"], row["pid"], row["timestamp"] // 1000) for row in found] == [
        (1, "node012", 4711, 1_714_542_018_123_456),
        (2, "node012", None, 1_714_542_019_123_456),
    ]


@pytest.mark.parametrize("text", [EXPORT, VERBOSE], ids=["export", "verbose"])
@pytest.mark.parametrize("step", [1, 7, 4096])
def test_journal_records_are_read_in_pieces_of_any_size(text: bytes, step: int) -> None:
    reader = reader_of(text)
    assert reader is not None
    pieces = [text[at : at + step] for at in range(0, len(text), step)]
    assert b"".join(reader(pieces)) == b"".join(reader([text]))
    assert b"".join(reader([text[:-20]])).count(b"BOOM") == 2  # cut off in the last record


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
