"""`correlator checkpoints`: what it lists, which one it offers, what fits the run to come, and its exit codes."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from correlator.cli import main

FIXTURES = Path(__file__).parents[1] / "fixtures" / "checkpoints"
Capture = pytest.CaptureFixture[str]


def test_text_lists_all_and_offers_one(capsys: Capture) -> None:
    assert main(["checkpoints", str(FIXTURES / "megatron_legacy")]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"2 checkpoints in {FIXTURES / 'megatron_legacy'}\n")
    assert "NOT FINITE step 20  iter_0000020\n           megatron-legacy, tp=2 pp=2" in out
    assert "NaN in 1 of 64 values" in out
    assert "complete   step 10  iter_0000010\n" in out
    assert f"Resume: safe\n  from {FIXTURES / 'megatron_legacy' / 'iter_0000010'}\n" in out
    assert "to resume: --load" in out


def test_json_holds_the_same(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["checkpoints", str(FIXTURES / "hf_trainer"), "--format", "json"]) == 0
    found = json.loads(capfdbinary.readouterr().out)
    assert found["schema"] == "correlator.checkpoints/1"
    assert [(one["iteration"], one["complete"], one["fits"]) for one in found["checkpoints"]] == [
        (20, True, None),
        (10, True, None),
    ]
    assert (found["resume"]["status"], found["resume"]["iteration"]) == ("safe", 20)


@pytest.mark.parametrize(
    ("layout", "sizes", "fits", "status"),
    [
        ("megatron_legacy", ["--tp", "2", "--pp", "2"], True, "safe"),
        ("megatron_legacy", ["--tp", "4"], False, "unsafe"),
        ("megatron_legacy", ["--dp", "4"], True, "safe"),
        ("megatron_dist", ["--tp", "4"], True, "safe"),
        ("deepspeed", ["--world-size", "2"], True, "safe"),
        ("deepspeed", ["--dp", "4"], False, "unsafe"),
        ("hf_trainer", ["--tp", "4"], True, "safe"),
        ("deepspeed_universal", ["--world-size", "6"], True, "safe"),
        ("orbax", ["--world-size", "64", "--tp", "4"], True, "safe"),
        ("dcp", ["--cp", "2"], True, "safe"),
        ("lightning_file", ["--tp", "2"], None, "safe"),
        ("deepspeed", ["--tp", "2"], None, "safe"),
        ("deepspeed", ["--ep", "2"], None, "safe"),
        ("megatron_core", ["--tp", "4", "--pp", "2", "--world-size", "16"], True, "safe"),
        ("megatron_legacy", ["--tp", "2", "--pp", "2", "--world-size", "16"], True, "safe"),
        ("composer_ranks", ["--world-size", "4"], False, "unsafe"),
    ],
)
def test_sizes_of_the_run_to_come(
    layout: str, sizes: list[str], fits: bool | None, status: str, tmp_path: Path
) -> None:
    file = tmp_path / "found.json"
    assert main(["checkpoints", str(FIXTURES / layout), *sizes, "-o", str(file)]) == 0
    found = json.loads(file.read_bytes())
    assert {one["fits"] for one in found["checkpoints"]} == {fits}
    assert found["resume"]["status"] == status


@pytest.mark.parametrize(
    ("sizes", "why"),
    [
        (["--world-size", "10", "--tp", "4", "--pp", "2"], "10 ranks cannot be split into tp 4 x pp 2"),
        (["--world-size", "16", "--tp", "4", "--pp", "2", "--cp", "1", "--dp", "1"], "make 8 ranks and not 16"),
    ],
)
def test_sizes_that_no_run_has(sizes: list[str], why: str, capsys: Capture) -> None:
    assert main(["checkpoints", str(FIXTURES / "dcp"), *sizes]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert why in said.err


def test_a_size_that_the_files_do_not_tell_is_named(capsys: Capture) -> None:
    assert main(["checkpoints", str(FIXTURES / "lightning_file"), "--tp", "2"]) == 0
    assert "its files do not tell tp; it does not load with another" in capsys.readouterr().out
    assert main(["checkpoints", str(FIXTURES / "orbax"), "--tp", "2"]) == 0
    assert "loads under any sizes" in capsys.readouterr().out


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("name", sorted(folder.name for folder in FIXTURES.iterdir()))
def test_lines_fit_the_terminal(
    name: str, width: int, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(FIXTURES / name, tmp_path / "saves")
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.chdir(tmp_path)
    assert main(["checkpoints", "saves", "--world-size", "64", "--tp", "4", "--pp", "8"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= width


def test_a_broken_newest_one_is_passed_over(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "ckpt"
    shutil.copytree(FIXTURES / "hf_trainer", folder)
    (folder / "checkpoint-20" / "trainer_state.json").unlink()
    assert main(["checkpoints", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "INCOMPLETE step 20" in out
    assert f"from {folder / 'checkpoint-10'}" in out


def test_an_empty_folder_and_none_at_all(tmp_path: Path, capsys: Capture) -> None:
    assert main(["checkpoints", str(tmp_path)]) == 0
    assert capsys.readouterr().out == (
        f"0 checkpoints in {tmp_path}\n\nResume: there is nothing to resume from here\n  - no checkpoint in {tmp_path}\n"
    )
    assert main(["checkpoints", str(tmp_path / "missing")]) == 2
    assert "no checkpoint directory" in capsys.readouterr().err


def test_a_name_cannot_steer_the_terminal(tmp_path: Path, capsys: Capture) -> None:
    shutil.copytree(FIXTURES / "hf_trainer", tmp_path / "a\x1b[2Jb")
    assert main(["checkpoints", str(tmp_path)]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_what_other_sizes_mean_is_told(capsys: Capture) -> None:
    assert main(["checkpoints", str(FIXTURES / "deepspeed_zero2"), "--world-size", "4"]) == 0
    out = capsys.readouterr().out
    assert "saved with world=2, asked for world=4: does not load as it is" in out
    assert "launch with world=2, or ds_to_universal.py" in out


def test_size_and_commit_mark_are_listed(capsys: Capture) -> None:
    assert main(["checkpoints", str(FIXTURES / "megatron_core")]) == 0
    out = capsys.readouterr().out
    assert re.search(r"world=2, \d+\.\d kB, metadata.json is there\n", out)


@pytest.mark.skipif(sys.platform != "linux", reason="names of any bytes are Linux's")
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_folder_whose_name_is_no_text(form: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff\x1b[31m")
    shutil.copytree(FIXTURES / "dlrover", folder)
    assert main(["checkpoints", folder, "--format", form]) == 0
    out = capfdbinary.readouterr().out
    assert b"\x1b" not in out
    assert "udcff" in out.decode()


def test_what_was_not_looked_at_is_listed(tmp_path: Path, capsys: Capture) -> None:
    folder = shutil.copytree(FIXTURES / "dlrover", tmp_path / "saves")
    (folder / "30").symlink_to("/etc")
    assert main(["checkpoints", str(folder)]) == 0
    assert "Not looked at:\n  - 30 is a link that leaves the directory" in capsys.readouterr().out
