"""The parsers of torch, its launcher, Python and the C++ runtime: the spots where one regular expression is not enough."""

from __future__ import annotations

import pytest

from parsers import torchrun
from parsers._lines import milliseconds, rank_list, signal_number


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
