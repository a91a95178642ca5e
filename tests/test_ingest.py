"""From folders of logs to the event table: places, times, writers, blocks, floods."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tinylogs import one, put, read, rows

from correlator.errors import CorrelatorError, UsageError
from correlator.events import SCHEMA, Found, Pattern
from correlator.ingest import ingest
from correlator.ingest.error_words import error_severity
from correlator.ingest.rows import ROW_CAP, collapse, mask
from correlator.timestamps import SECOND

# --- rows ----------------------------------------------------------------------------------------------------------------


def test_a_row_says_what_who_when_and_where(tmp_path: Path) -> None:
    line = "[2024-05-01 07:40:18,250] [ERROR] [x.py:3] BOOM seq=52 by me"
    result = read(put(tmp_path, f"first\n{line}\n", "rank_00003.log"))
    assert result.events.schema.equals(SCHEMA, check_metadata=True)
    row = one(result)
    assert row["timestamp"] == row["last_timestamp"] == 1_714_549_218_250_000_000
    assert (row["timestamp_basis"], row["timestamp_resolution_ns"], row["time"]) == ("printed", 1_000_000, None)
    assert (row["rank"], row["rank_basis"], row["seq"], row["attributes"]) == (3, "path", 52, {"who": "me"})
    assert (row["file"], row["line"], row["byte_offset"], row["byte_length"]) == ("rank_00003.log", 2, 6, len(line))
    assert (row["body"], row["count"], row["writer"]) == ("BOOM seq=52 by me", 1, "rank_00003.log")
    assert (result.lines, result.bytes, len(result.files)) == (2, len(line) + 7, 1)


def test_claims_in_the_order_of_trust(tmp_path: Path) -> None:
    pattern = Pattern("test.boom", ("BOOM",), r"BOOM(?: rank (?P<rank>\d+))?")
    put(tmp_path, "BOOM\n[rank4]: BOOM\n[rank4]: BOOM rank 9\n", "rank_3.log")
    found = [(row["rank"], row["rank_basis"]) for row in rows(read(tmp_path, pattern))]
    assert found == [(3, "path"), (4, "envelope"), (9, "line")]


def test_values_that_do_not_fit_their_column_stay_visible(tmp_path: Path) -> None:
    pattern = Pattern("test.boom", ("BOOM",), r"BOOM (?P<exit_code>\S+) (?P<step>\S+) (?P<line>\S+)")
    row = one(read(put(tmp_path, "BOOM 99999999999 1,200 7\n"), pattern))
    assert (row["exit_code"], row["step"], row["line"]) == (None, 1200, 1)
    assert row["attributes"] == {"exit_code": "99999999999", "line": "7"}


def test_a_pattern_without_literals_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorrelatorError, match=r"test\.x needs ASCII literals"):
        read(put(tmp_path, "x\n"), Pattern("test.x", ("",)))


def test_the_first_pattern_of_a_parser_takes_the_line_and_extras_take_the_rest(tmp_path: Path) -> None:
    first, second = Pattern("test.first", ("BOOM",), "BOOM a"), Pattern("test.second", ("BOOM",), "BOOM")
    extra = Pattern("log.message", ("BOOM", "odd"))
    put(tmp_path, "BOOM a\nBOOM b\nsomething odd\n")
    result = ingest(tmp_path, patterns=(first, second), extra_patterns=(extra,))
    assert [(row["line"], row["event"]) for row in rows(result)] == [
        (1, "test.first"),
        (2, "test.second"),
        (3, "log.message"),
    ]


# --- time ----------------------------------------------------------------------------------------------------------------


def test_a_line_without_a_time_inherits_it_from_the_same_writer_only(tmp_path: Path) -> None:
    put(
        tmp_path,
        "0: [2024-05-01 07:00:00] a\n1: [2024-05-01 08:00:00] b\n0: BOOM by zero\n1: BOOM by one\n2: BOOM by two\n" * 1
        + "0: x\n1: y\n2: z\n",
    )
    found = {row["attributes"]["who"]: row for row in rows(read(tmp_path), "test.boom")}
    assert [found[who]["timestamp_basis"] for who in ("zero", "one", "two")] == ["inherited", "inherited", "none"]
    assert found["one"]["timestamp"] - found["zero"]["timestamp"] == 3600 * SECOND
    assert found["two"]["timestamp"] is None
    assert found["zero"]["timestamp_resolution_ns"] == SECOND


@pytest.mark.parametrize(
    "label", ["{}: ", " {}: ", "[1,{}]<stderr>:", "[default{}]:", "node{}: ", "[pod/llm-{}/main] "]
)
def test_the_time_is_found_behind_many_lines_of_other_writers(tmp_path: Path, label: str) -> None:
    first = "".join(f"{label.format(w)}[2024-05-01 0{w}:00:00] start\n" for w in range(8))
    others = "".join(f"{label.format(w)}[2024-05-01 0{w}:00:01] step\n{label.format(w)}x\n" for w in range(1, 8))
    put(tmp_path, first + others * 20 + f"{label.format(0)}y\n{label.format(0)}BOOM\n")
    row = one(read(tmp_path))
    assert (row["timestamp"], row["timestamp_basis"]) == (1_714_521_600 * SECOND, "inherited")


def test_a_whole_file_of_one_process_is_one_writer(tmp_path: Path) -> None:
    put(tmp_path, "[2024-05-01 07:00:00] a\n[rank3]: BOOM\n", "stderr.log")
    row = one(read(tmp_path))
    assert (row["timestamp_basis"], row["rank"], row["writer"]) == ("inherited", 3, "stderr.log")


def test_a_far_stamp_of_the_same_writer_still_bounds_a_row(tmp_path: Path) -> None:
    filler = "nothing to see\n" * 3000
    put(tmp_path, f"[2024-05-01 07:00:00] BOOM\n{filler}BOOM by late\n")
    first, late = rows(read(tmp_path), "test.boom")
    assert (late["timestamp"], late["timestamp_basis"], late["line"]) == (first["timestamp"], "inherited", 3002)


def test_zone_of_the_caller_and_years_from_other_files(tmp_path: Path) -> None:
    put(tmp_path, "May  1 07:40:18 node012 kernel: BOOM\n", "kern.log")
    put(tmp_path, "[2023-05-01 09:00:00] hello\n", "train.log")
    row = one(read(tmp_path, timezone="+02:00"))
    assert row["timestamp"] == 1_682_919_618 * SECOND
    assert (row["node"], row["node_basis"]) == ("node012", "envelope")
    with pytest.raises(UsageError, match="unknown time zone"):
        read(tmp_path, timezone="Nowhere")


def test_seconds_since_boot_are_kept_when_no_clock_is_known(tmp_path: Path) -> None:
    row = one(read(put(tmp_path, "[  123.456789] BOOM\n", "dmesg.txt")))
    assert (row["timestamp"], row["timestamp_basis"]) == (None, "boot-relative")
    assert row["attributes"]["boot_seconds"] == "123.456789"


def test_a_pattern_may_state_the_time_itself(tmp_path: Path) -> None:
    pattern = Pattern("test.boom", ("BOOM",), r"BOOM at (?P<timestamp>\d+)")
    row = one(read(put(tmp_path, "BOOM at 1714549218000000000\n"), pattern))
    assert (row["timestamp"], row["timestamp_basis"]) == (1_714_549_218 * SECOND, "printed")


# --- blocks --------------------------------------------------------------------------------------------------------------


def test_a_block_gets_the_lines_of_its_own_writer(tmp_path: Path) -> None:
    woven = "0: BEGIN\n1: BEGIN\n1: one\n0: zero\nlauncher speaks\n1: END\n0: null\n0: END\n0: BEGIN\n0: END\n"
    found = rows(read(put(tmp_path, woven)), "test.block")
    assert [(row["task"], row["line"], row["attributes"]["text"]) for row in found] == [
        (1, 6, "one"),
        (0, 8, "zero|null"),
        (0, 10, ""),
    ]
    assert found[1]["byte_offset"] == woven.index("0: END")
    assert found[1]["byte_length"] == len("0: END")


def test_torchs_prefix_stands_on_all_lines_of_a_block_or_on_none(tmp_path: Path) -> None:
    text = "n1: [default0]:hello\n" * 3 + (
        "n1: [default0]:[rank4]: BEGIN\nn1: [default0]: step of stdout\nn1: [default0]:[rank4]: inside\nn1: [default0]:[rank4]: END\n"
    )
    row = one(read(put(tmp_path, text)), "test.block")
    assert (row["attributes"]["text"], row["rank"], row["local_rank"], row["node"]) == ("inside", 4, 0, "n1")


def test_a_logged_traceback_belongs_to_the_rank_that_its_head_names(tmp_path: Path) -> None:
    head = "[2024-05-01 07:40:18 TP{}] Scheduler hit an exception: Traceback (most recent call last):"
    frame = '  File "/opt/serve/scheduler.py", line 9, in run\n    step()'
    first = f"{head.format(3)}\n{frame}\nValueError: of three"
    second = f"{head.format(5)}\n{frame}\nValueError: of five"
    plain = f"Traceback (most recent call last):\n{frame}\nValueError: of nobody"
    other = "[2024-05-01 07:40:18 TP1] Prefill batch"
    put(tmp_path, f"{first}\n{other}\n{second}\n{other}\n{plain}\n")
    raised = {row["body"]: row["rank"] for row in rows(ingest(tmp_path, workers=1), "python.exception")}
    assert raised == {"ValueError: of three": 3, "ValueError: of five": 5, "ValueError: of nobody": None}


def test_lines_of_a_block_are_not_offered_again_to_its_pattern_but_to_others(tmp_path: Path) -> None:
    found = rows(read(put(tmp_path, "BEGIN\nBEGIN\nBOOM\nEND\nBEGIN\nEND\n")))
    assert [(row["event"], row["line"]) for row in found] == [("test.boom", 3), ("test.block", 4), ("test.block", 6)]


def test_streams_of_one_container_do_not_mix_in_a_block(tmp_path: Path) -> None:
    at = "2024-05-01T05:40:18.000000000Z"
    lines = [("stderr", "BEGIN"), ("stdout", "progress"), ("stderr", "in"), ("stderr", "END")]
    put(tmp_path, "".join(f"{at} {stream} F {text}\n" for stream, text in lines))
    assert one(read(tmp_path), "test.block")["attributes"]["text"] == "in"


def test_a_line_that_the_collector_cut_is_joined(tmp_path: Path) -> None:
    at = "2024-05-01T05:40:18.000000000Z"
    put(tmp_path, f"{at} stderr P BOOM seq=5\n{at} stdout F other\n{at} stderr F 2 by me\n")
    row = one(read(tmp_path))
    assert (row["seq"], row["attributes"]["who"]) == (52, "me")


def test_a_piece_behind_a_carriage_return_has_the_labels_of_its_line(tmp_path: Path) -> None:
    bars = "\r".join(f"{i}%|#" for i in range(50))
    put(tmp_path, f"0: a\n1: b\n0: c\n1: [default2]:{bars}\rBOOM\n")
    row = one(read(tmp_path))
    assert (row["task"], row["local_rank"], row["line"], row["body"]) == (1, 2, 4, "BOOM")
    assert (tmp_path / "a.log").read_bytes()[row["byte_offset"] :].startswith(b"BOOM")


# --- floods --------------------------------------------------------------------------------------------------------------


def test_equal_messages_collapse_into_one_row_with_an_exact_count(tmp_path: Path) -> None:
    lines = [f"[2024-05-01 07:{i // 60:02d}:{i % 60:02d}] BOOM in 0x{i:08x} after {i} s" for i in range(300)]
    row = one(read(put(tmp_path, "\n".join(lines))))
    assert (row["line"], row["count"]) == (1, 300)
    assert row["last_timestamp"] - row["timestamp"] == 299 * SECOND


def test_rows_with_different_telling_numbers_stay_apart(tmp_path: Path) -> None:
    result = read(put(tmp_path, "BOOM seq=1\nBOOM seq=2\nBOOM seq=1\nBOOM seq=3 by a\nBOOM seq=3 by b\n"))
    assert [(row["seq"], row["count"]) for row in rows(result)] == [(1, 2), (2, 1), (3, 1), (3, 1)]


def test_rows_of_one_writer_and_event_are_capped_with_an_exact_count(tmp_path: Path) -> None:
    text = "".join(f"0: BOOM seq={i}\n1: quiet\n" for i in range(ROW_CAP + 500))
    found = rows(read(put(tmp_path, text)), "test.boom")
    assert (len(found), sum(row["count"] for row in found)) == (ROW_CAP, ROW_CAP + 500)


def test_a_storm_in_a_file_of_one_writer_is_counted_not_parsed(tmp_path: Path) -> None:
    parsed = []

    def watch(lines: Sequence[str]) -> list[Found]:
        parsed.append(lines[0])
        return [Found(0, 0)]

    put(tmp_path, "start\n" + "BOOM and again BOOM\n" * 9000 + "end\n")
    row = one(read(tmp_path, Pattern("test.boom", ("BOOM",), block=watch, block_lines=0)))
    assert (row["count"], row["line"]) == (9000, 2)
    assert len(parsed) < 3000


def test_of_progress_the_first_and_last_lines_are_kept_and_the_last_step_is_known(tmp_path: Path) -> None:
    put(tmp_path, "".join(f"[2024-05-01 07:00:00] step {i} of many, loss is fine\n" for i in range(20_000)))
    result = read(tmp_path)
    steps = [row["step"] for row in rows(result, "trainer.progress")]
    assert steps[:3] == [0, 1, 2]
    assert steps[-3:] == [19_997, 19_998, 19_999]
    assert len(steps) < 500
    assert result.writers[0].last_step == 19_999


def test_masks_and_collapse() -> None:
    assert mask("at 0x7ffe12 rank 12 of 64, id deadbeef01") == "at 0 rank 0 of 0, id 0"
    row = {
        "file": "a",
        "writer": "a",
        "event": "e",
        "body": "x 1",
        "count": 2,
        "attributes": {"loss": "1"},
        "timestamp": 5,
    }
    other = {**row, "body": "x 2", "attributes": {"loss": "2"}, "timestamp": 9}
    (kept,) = collapse([dict(row), dict(other)])
    assert (kept["count"], kept["body"], kept["last_timestamp"]) == (4, "x 1", 9)


# --- writers and last words ------------------------------------------------------------------------------------------------


def test_writers_with_their_first_and_last_signs(tmp_path: Path) -> None:
    put(
        tmp_path,
        "gpu-a017: [default0]:[2024-05-01 07:00:00] start\ngpu-a018: [default0]:[2024-05-01 07:00:01] start\n"
        "gpu-a017: [default0]:[2024-05-01 07:00:09] step 3\ngpu-a018: [default0]:last words \ngpu-a017: agent\n\n",
        "train.log",
    )
    writers = {writer.key: writer for writer in read(tmp_path).writers}
    assert set(writers) == {"train.log#gpu-a017", "train.log#gpu-a017/default0", "train.log#gpu-a018/default0"}
    first = writers["train.log#gpu-a017/default0"]
    assert (first.node, first.node_basis, first.local_rank, first.last_step) == ("gpu-a017", "envelope", 0, 3)
    assert (first.last_ns or 0) - (first.first_ns or 0) == 9 * SECOND
    other = writers["train.log#gpu-a018/default0"]
    assert (other.last_text, other.last_line, other.last_basis) == ("last words ", 4, "printed")


def test_lines_that_contradict_each_other_claim_nothing(tmp_path: Path) -> None:
    put(tmp_path, "a:1:1 [0] NCCL INFO x\nb:2:2 [0] NCCL INFO y\n", "train.log")
    (writer,) = read(tmp_path).writers
    assert (writer.node, writer.pid) == (None, None)


def test_a_silent_writer_of_a_large_file_is_found_where_it_stopped(tmp_path: Path) -> None:
    lines = []
    for i in range(4000):
        lines += [
            f" {task}: [2024-05-01 07:{i // 60 % 60:02d}:{i % 60:02d}] item {i}"
            for task in range(4)
            if task != 2 or i < 1500
        ]
    put(tmp_path, "\n".join(lines) + "\n")
    writers = {writer.task: writer for writer in read(tmp_path).writers}
    number = max(n for n, line in enumerate(lines, 1) if line.startswith(" 2: "))
    assert (writers[2].last_text, writers[2].last_line) == ("item 1499", number)
    assert (tmp_path / "a.log").read_bytes()[writers[2].last_byte_offset :].startswith(lines[number - 1].encode())
    assert writers[3].last_text == "item 3999"
    assert (writers[2].last_ns or 0) - (writers[2].first_ns or 0) == 1499 * SECOND


def test_words_of_error_near_the_end_give_rows(tmp_path: Path) -> None:
    put(
        tmp_path,
        "mount failed\n" + "fine\n" * 20_000 + "0 errors\nBOOM error\nval_error=0.2\ndisk failed\nworker killed\n",
    )
    found = [(row["event"], row["body"], row["severity"]) for row in rows(read(tmp_path))]
    assert found == [
        ("test.boom", "BOOM error", "error"),
        ("log.error", "disk failed", "error"),
        ("log.error", "worker killed", "fatal"),
    ]


def test_a_logger_that_says_warning_is_believed(tmp_path: Path) -> None:
    put(
        tmp_path,
        "[W501 07:40:18.123456789 socket.cpp:1] cannot be retrieved\n[E501 07:40:18.123456789 socket.cpp:1] cannot bind\n",
    )
    assert [row["body"] for row in rows(read(tmp_path))] == ["cannot bind"]


def test_error_rows_of_one_writer_are_bounded(tmp_path: Path) -> None:
    words = [f"{'abcdefghij'[i // 10]}{'klmnopqrst'[i % 10]} failed" for i in range(100)]
    found = [row["body"] for row in rows(read(put(tmp_path, "\n".join(words))), "log.error")]
    assert found == words[:20] + words[-20:]


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("RuntimeError: x", "error"),
        ("torch.OutOfMemoryError: no room", "error"),
        ("CUDA out of memory. Tried to allocate 20 GiB", "error"),
        ("open: permission denied", "error"),
        ("ERR!", "error"),
        ("process was killed", "fatal"),
        ("  error_file: <N/A>", None),
        ("no errors found", None),
        ("errors: 0", None),
        ("error: null", None),
        ("mean squared error 0.3", None),
        ("  stop_on_failure ....................... False", None),
        ("/data/error/log.txt", None),
        ("terrors of the deep", None),
    ],
)
def test_words_of_error(text: str, severity: str | None) -> None:
    assert error_severity(text) == severity


def test_a_logger_that_calls_a_line_an_error_is_believed(tmp_path: Path) -> None:
    found = rows(read(put(tmp_path, "2024-05-01 07:40:18,123 ERROR trainer: worker 3 is killed and gone")), "log.error")
    assert [row["severity"] for row in found] in (["error"], ["fatal"])
