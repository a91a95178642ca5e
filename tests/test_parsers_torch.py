"""The parsers of torch, its launcher, Python and the C++ runtime on their fixtures.

``fixtures/parsers/<parser>--<case>.log`` is read as any log is; ``.expected.jsonl`` beside it holds the rows of that
parser, one a line. ``CORRELATOR_REWRITE_FIXTURES=1 pytest tests/test_parsers_torch.py`` writes them anew: read the diff.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from correlator.events import Parser
from correlator.ingest import ingest
from parsers import agent_error_file, c10d, cpp, cuda, dataloader, gloo, os_errors, python_tracebacks, torchrun
from parsers._lines import milliseconds, rank_list, signal_number

FIXTURES = Path(__file__).parents[1] / "fixtures" / "parsers"
MODULES = (agent_error_file, c10d, cpp, cuda, dataloader, gloo, os_errors, python_tracebacks, torchrun)
PARSERS: dict[str, Parser] = {module.PARSER.name: module.PARSER for module in MODULES}
COLUMNS = (
    "line", "event", "severity", "node", "rank", "local_rank", "group_rank", "task", "process_group", "pid", "gpu",
    "attempt", "seq", "op", "numel_in", "numel_out", "timeout_ms", "elapsed_ms", "last_enqueued", "last_completed",
    "exit_code", "signal", "peer", "count",
)  # fmt: skip
LOGS = sorted(log for log in FIXTURES.glob("*.log") if log.name.partition("--")[0] in PARSERS)


def rows_of(parser: Parser, log: Path) -> list[dict[str, object]]:
    """The rows of one parser in one file: what it captured and who it is about."""
    events = ingest(log, patterns=parser.patterns).events.select([*COLUMNS, "attributes"])
    return [
        {name: dict(value) if name == "attributes" else value for name, value in row.items() if value not in (None, [])}
        for row in events.to_pylist()
        if not row["event"].startswith("log.")  # the end of a file may give a general row
    ]


@pytest.mark.parametrize("log", LOGS, ids=[log.stem for log in LOGS])
def test_fixture_gives_the_expected_rows(log: Path) -> None:
    expected = log.with_suffix(".expected.jsonl")
    rows = rows_of(PARSERS[log.name.partition("--")[0]], log)
    if os.environ.get("CORRELATOR_REWRITE_FIXTURES"):
        expected.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    assert rows == [json.loads(line) for line in expected.read_text().splitlines()]
    assert rows


def test_every_parser_has_a_fixture() -> None:
    assert {log.name.partition("--")[0] for log in LOGS} == set(PARSERS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12000ms", 12000),
        ("60s", 60_000),
        ("901", 901_000),
        ("0:30:00", 1_800_000),
        ("1 day, 0:00:01", 86_401_000),
        ("x", None),
    ],
)
def test_milliseconds(text: str, expected: int | None) -> None:
    assert milliseconds(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SIGTERM", 15),
        ("Signals.SIGKILL", 9),
        ("15", 15),
        ("-9", 9),
        ("Segmentation fault", 11),
        ("Killed.", 9),
        ("SIGX", None),
    ],
)
def test_signal_number(text: str, expected: int | None) -> None:
    assert signal_number(text) == expected


def test_rank_list() -> None:
    assert rank_list("[4, 5, 12]") == "4,5,12"


def test_report_of_old_versions() -> None:
    text = (
        "***************************************\n"
        "              train.py FAILED          \n"
        "=======================================\n"
        "Root Cause:\n"
        "[0]:\n"
        "  time: 2021-05-01_07:40:18\n"
        "  rank: 9 (local_rank: 1)\n"
        "  exitcode: -9 (pid: 4711)\n"
        "  error_file: <N/A>\n"
        '  msg: "Signal 9 (SIGKILL) received by PID 4711"\n'
        "=======================================\n"
        "Other Failures:\n"
        "[1]:\n"
        "  time: 2021-05-01_07:40:19\n"
        "  rank: 8 (local_rank: 0)\n"
        "  exitcode: 1 (pid: 4710)\n"
        "  error_file: <N/A>\n"
        '  msg: "Process failed with exitcode 1"\n'
        "***************************************"
    )
    lines = text.split("\n")
    assert torchrun.REPORT_ENTRY.block is not None
    (root,) = torchrun.REPORT_ENTRY.block(lines[3:])
    (other,) = torchrun.REPORT_ENTRY.block(lines[3 + root.last + 1 :])
    assert (root.fields["rank"], root.fields["exit_code"], root.fields["is_root"]) == ("9", "-9", "true")
    assert (other.fields["rank"], other.fields["exit_code"], other.fields["is_root"]) == ("8", "1", "false")


def test_report_that_is_cut_off_keeps_the_entries_that_are_whole() -> None:
    lines = torchrun.REPORT_ENTRY.sample.split("\n")[:9]
    assert torchrun.REPORT_ENTRY.block is not None
    (entry,) = torchrun.REPORT_ENTRY.block(lines)
    assert entry.fields["exit_code"] == "-9" and entry.last == 8
