"""Where results go: what -o never touches, what a failure leaves behind, and standard streams that are shut or full."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from correlator.cli import main

Capture = pytest.CaptureFixture[str]
XID = "2024-05-01T10:00:00 gpu-a017 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"
ENDINGS = {"diagnose": ".json", "ingest": ".csv", "graph": ".json", "checkpoints": ".json"}


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "rank0.log").write_text(XID)
    return folder


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    folder = tmp_path / "ckpt" / "iter_0000005"
    folder.mkdir(parents=True)
    (folder.parent / "latest_checkpointed_iteration.txt").write_text("5")
    return folder.parent


def run(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    """The command as a process; neither a traceback nor an internal error is ever an answer."""
    command = [sys.executable, "-m", "correlator", *map(str, arguments)]
    done = subprocess.run(command, text=True, errors="replace", timeout=60, **{"capture_output": True, **options})  # type: ignore[call-overload]
    assert "Traceback" not in (done.stderr or "") and "internal error" not in (done.stderr or "")
    return done  # type: ignore[no-any-return]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# --- what -o never touches


def reading(command: str, logs: Path, saved: Path) -> list[str]:
    if command == "checkpoints":
        return [command, str(saved)]
    return [command, str(logs), *(["--checkpoints", str(saved)] if command == "diagnose" else [])]


def by_link(folder: Path, target: Path) -> None:
    (folder / "linked").symlink_to(target)


def by_hard_link(folder: Path, target: Path) -> None:
    (folder / "linked").hardlink_to(target)


def by_folder_link(folder: Path, target: Path) -> None:
    (folder / "linked").symlink_to(target.parent)


def by_link_behind_a_folder_link(folder: Path, target: Path) -> None:
    beside = folder.parent / "beside"
    beside.mkdir()
    (beside / "linked").symlink_to(target)
    (folder / "linked").symlink_to(beside)


@pytest.mark.parametrize("link", [by_link, by_hard_link, by_folder_link, by_link_behind_a_folder_link])
@pytest.mark.parametrize("command", ENDINGS)
def test_a_file_that_is_read_through_a_link_is_not_replaced(
    command: str, link: Callable[[Path, Path], None], logs: Path, saved: Path, tmp_path: Path, capsys: Capture
) -> None:
    target = tmp_path / "elsewhere" / f"kept{ENDINGS[command]}"
    target.parent.mkdir()
    target.write_text("precious")
    link(saved if command == "checkpoints" else logs, target)
    before = contents(tmp_path)
    assert main([*reading(command, logs, saved), "-o", str(target)]) == 2
    assert "is one of the inputs and would be overwritten" in capsys.readouterr().err
    assert contents(tmp_path) == before


@pytest.mark.parametrize("link", [by_link, by_hard_link, by_folder_link])
def test_a_file_behind_a_link_of_the_checkpoints_is_not_replaced(
    link: Callable[[Path, Path], None], logs: Path, saved: Path, tmp_path: Path
) -> None:
    target = tmp_path / "elsewhere" / "kept.txt"
    target.parent.mkdir()
    target.write_text("precious")
    link(saved, target)
    assert main(["diagnose", str(logs), "--checkpoints", str(saved), "-o", str(target)]) == 2
    assert target.read_text() == "precious"


@pytest.mark.parametrize("name", ["latest_checkpointed_iteration.txt", "new.txt", "iter_0000005/new.txt"])
@pytest.mark.parametrize("command", ["diagnose", "checkpoints"])
def test_nothing_is_written_among_the_checkpoints(
    command: str, name: str, logs: Path, saved: Path, tmp_path: Path, capsys: Capture
) -> None:
    before = contents(tmp_path)
    assert main([*reading(command, logs, saved), "-o", str(saved / name)]) == 2
    said = "is one of the inputs" if name.startswith("latest") else f"lies in {saved}, which is read"
    assert said in capsys.readouterr().err
    assert contents(tmp_path) == before


@pytest.mark.parametrize("way", ["direct", "below", "relative", "folder link", "file link", "file://"])
@pytest.mark.parametrize("command", ["diagnose", "ingest", "graph"])
def test_nothing_is_written_among_the_logs(
    command: str, way: str, logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    (logs / "node1").mkdir()
    name, source = f"out{ENDINGS[command]}", str(logs)
    target = logs / name
    if way == "below":
        target = logs / "node1" / name
    elif way == "relative":
        monkeypatch.chdir(logs / "node1")
        target, source = Path(name), ".."
    elif way == "folder link":
        (tmp_path / "other").symlink_to(logs)
        target = tmp_path / "other" / name
    elif way == "file link":  # a link that leads nowhere yet
        target = tmp_path / name
        target.symlink_to(logs / name)
    elif way == "file://":
        source = logs.as_uri()
    before = contents(tmp_path)
    assert main([command, source, "-o", str(target)]) == 2
    assert "which is read; choose a place outside of it" in capsys.readouterr().err
    assert contents(tmp_path) == before


def test_a_report_beside_a_log_that_is_named_itself_is_fine(logs: Path) -> None:
    before = contents(logs)
    assert main(["diagnose", str(logs / "rank0.log"), "-o", str(logs / "report.txt"), "--workers", "1"]) == 0
    assert set(contents(logs)) == {*before, str(logs / "report.txt")}
    assert (logs / "rank0.log").read_text() == XID


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("", "-o names no file"),
        (".", "is a folder; name a file"),
        ("no-folder/x.txt", "does not exist"),
        ("a" * 5000, "File name too long"),
        ("a" * 5000 + ".json", "File name too long"),
        ("loop", "cannot write loop: "),
        ("x\0y", "cannot write x"),
    ],
    ids=lambda value: value[:12],
)
@pytest.mark.parametrize("command", ENDINGS)
def test_a_place_that_is_none_is_said_before_anything_is_read(
    command: str, output: str, said: str, logs: Path, saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(logs.parent)
    Path("loop").symlink_to("loop")
    assert main([*reading(command, logs, saved), "-o", output]) == 2
    out, err = capsys.readouterr()
    assert out == "" and said in err and err.count("\n") == 1 and len(err) < 700


# --- what a failure leaves behind


@pytest.mark.parametrize("command", ENDINGS)
def test_a_failure_leaves_the_old_file_and_nothing_else(
    command: str, logs: Path, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    target = tmp_path / f"out{ENDINGS[command]}"
    target.write_text("old")
    before = contents(tmp_path)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert main([*reading(command, logs, saved), "-o", str(target)]) == 2
    assert capsys.readouterr().err.endswith(f"correlator: cannot write {target}: No space left on device\n")
    assert contents(tmp_path) == before


def test_a_new_file_takes_over_the_mode_of_the_old_one(logs: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.txt"
    target.write_text("old")
    target.chmod(0o640)
    assert main(["diagnose", str(logs), "-o", str(target), "--workers", "1"]) == 0
    assert target.stat().st_mode & 0o777 == 0o640 and target.read_text() != "old"


def test_a_name_as_long_as_can_be_is_written(logs: Path, tmp_path: Path) -> None:
    target = tmp_path / ("r" * 251 + ".txt")
    assert main(["diagnose", str(logs), "-o", str(target), "--workers", "1"]) == 0
    assert target.read_text()


# --- standard streams


@pytest.mark.parametrize("closed", [0, 1, 2])
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["diagnose", "logs"], 0),
        (["diagnose", "none"], 2),
        (["--help"], 0),
        (["signatures", "xid"], 0),
        (["schema"], 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_closed_stream_is_like_the_null_device(arguments: list[str], code: int, closed: int, logs: Path) -> None:
    done = run(*arguments, cwd=logs.parent, preexec_fn=lambda: os.close(closed))
    assert done.returncode == code
    if closed != (2 if code else 1):
        assert done.stderr if code else done.stdout


@pytest.mark.parametrize("arguments", [["explain", "-"], ["diagnose", "-"]], ids=" ".join)
def test_a_closed_standard_input_holds_nothing(arguments: list[str]) -> None:
    done = run(*arguments, preexec_fn=lambda: os.close(0))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_with_all_streams_closed_a_file_still_gets_only_the_report(logs: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.json"

    def close_all() -> None:
        os.closerange(0, 3)

    done = run("diagnose", logs, "-o", target, preexec_fn=close_all, capture_output=False)
    assert done.returncode == 0
    assert target.read_text().startswith("{") and target.read_text().rstrip().endswith("}")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize(
    "arguments",
    [
        ["diagnose", "logs"],
        ["diagnose", "logs", "--format", "json"],
        ["diagnose", "logs", "-o", "-"],
        ["checkpoints", "ckpt"],
        ["graph", "logs", "--rank", "0"],
        ["explain", "xid-79"],
        ["signatures"],
        ["schema"],
        ["--help"],
        ["--version"],
        ["diagnose", "--help"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_standard_output_is_said_like_a_full_file(
    arguments: list[str], unbuffered: str, logs: Path, saved: Path
) -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("w") as full:
        (logs / "rank0.log").write_text(f"[rank0]: {XID}")
        done = run(
            *arguments, cwd=logs.parent, env=environment, capture_output=False, stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode == 2
    assert done.stderr == "correlator: cannot write standard output: No space left on device\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_device_as_the_file_is_2(logs: Path) -> None:
    done = run("diagnose", logs, "-o", "/dev/full")
    assert (done.returncode, done.stderr) == (2, "correlator: cannot write /dev/full: No space left on device\n")


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["schema"], ["signatures", "--all"]], ids=" ".join)
def test_a_pipe_without_a_reader_is_silent(arguments: list[str]) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    done = run(*arguments, capture_output=False, stdout=theirs, stderr=subprocess.PIPE)
    os.close(theirs)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_what_the_terminal_cannot_show_is_escaped(encoding: str, saved: Path) -> None:
    saved.rename(saved.with_name("ckpt-\u65e5"))
    done = run("checkpoints", saved.with_name("ckpt-\u65e5"), env={**os.environ, "PYTHONIOENCODING": encoding})
    assert done.returncode == 0 and "ckpt-\\u65e5" in done.stdout


@pytest.mark.parametrize("variable", ["COLUMNS", "LINES"])
@pytest.mark.parametrize("value", ["\u00b2", "\u0663", "0", "-5", "9" * 5000, "many", ""], ids=lambda value: value[:8])
def test_whatever_the_size_of_the_terminal_is_said_to_be(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv(variable, value)
    assert main(["explain", "xid-79"]) == 0
    assert all(len(line) <= 120 for line in capsys.readouterr().out.splitlines())


# --- nothing to read


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"a.log": b""}, "a.log: empty"),
        ({"a.log": bytes(100_000)}, "a.log: nothing but blanks or NUL bytes"),
        ({"a.log": b" \r\n\t\n\n"}, "a.log: nothing but blanks or NUL bytes"),
        ({"a.log.gz": gzip.compress(b"")}, "a.log.gz: nothing but blanks or NUL bytes"),
        ({"a.log.gz": b"\x1f\x8b\x08\0\0\0"}, "a.log.gz: damaged"),
        ({"a.log": b"", "b.log": b"", "c.log": bytes(9)}, "3 files: 2 empty, 1 nothing but blanks or NUL bytes"),
        ({"a.log": b"", "core.7": b"\x7fELF" + bytes(400)}, "a.log: empty; 1 more skipped"),
        ({}, ""),
    ],
    ids=["empty", "nuls", "blanks", "gz-of-nothing", "gz-header", "several", "beside-a-core", "no-file"],
)
@pytest.mark.parametrize("command", ["diagnose", "ingest", "graph"])
def test_logs_without_a_word_are_2_and_say_what_was_found(
    command: str, files: dict[str, bytes], said: str, tmp_path: Path, capsys: Capture
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    target = tmp_path / f"out{ENDINGS[command]}"
    assert main([command, str(folder), "-o", str(target), "--workers", "1"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and not target.exists()
    assert str(folder) in err and said in err


def test_one_word_is_enough_for_an_answer(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "a.log").write_bytes(bytes(5_000) + b"\nhello\n")
    (tmp_path / "b.log").touch()
    assert main(["diagnose", str(tmp_path), "--workers", "1", "--exit-code"]) == 14
    assert capsys.readouterr().out.startswith("UNDECIDED")


def test_an_empty_share_of_many_is_a_part_like_the_others(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "a.log").write_text(XID)
    for index in range(3):
        shard = ["--shard", f"{index}/3", "--workers", "1"]
        assert main(["ingest", str(logs), "-o", str(tmp_path / f"{index}.parquet"), *shard]) == 0


# --- what is asked for and cannot be


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["diagnose", "logs", "--workers", "x"], "'--workers'"),
        (["diagnose", "logs", "--workers", "9" * 25], "'--workers'"),
        (["diagnose", "logs", "--format", "f" * 5000], "'--format'"),
        (["diagnose", "logs", "--formt", "json"], "--formt"),
        (["diagnose", "logs", "--timezone", "z" * 5000], "unknown time zone"),
        (["diagnose", "logs", "--timezone", ""], "unknown time zone"),
        (["diagnose", "logs", "--scheduler", "nowhere"], "no Dask scheduler answers at nowhere"),
        (["diagnose", "n" * 5000], "nnn"),
        (["diagnose", "logs", "--checkpoints", "n" * 5000], "no checkpoint directory"),
        (["ingest", "logs", "-o", "x.csv", "--shard", "2/2"], "--shard 2/2"),
        (["ingest", "logs", "-o", "x.csv", "--shard", "a"], "--shard a"),
        (["graph", "logs", "--rank", "x"], "'--rank'"),
        (["graph", "logs", "--rank", "9" * 20], "--rank 99999999999999999999: the job has"),
        (["checkpoints", "n" * 5000], "no checkpoint directory"),
        (["checkpoints", ""], "an empty path"),
        (["diagnose", "logs", "--checkpoints", ""], "an empty path"),
        (["preflight", "--script", ""], "an empty path"),
        (["preflight", "--config", ""], "an empty path"),
        (["preflight", "--checkpoint", "", "--", "torchrun", "x.py"], "an empty path"),
        (["checkpoints", "ckpt", "--tp", "0"], "'--tp'"),
        (["checkpoints", "ckpt", "-o", "x.pdf"], "no form of the answer has the ending '.pdf'"),
        (["signatures", "--role", "villain"], "--role 'villain' is none of cause"),
        (["explain", "n" * 5000], "no such signature"),
        (["n" * 5000], "No such command"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_what_cannot_be_is_one_short_sentence(
    arguments: list[str], said: str, logs: Path, saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(logs.parent)
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and said in err and err.count("\n") == 1 and len(err) < 700
    assert "Value error" not in err and "unable to parse" not in err


@pytest.mark.parametrize(
    ("log", "good", "bad", "said"),
    [
        (XID, None, 0, "the logs name no rank"),
        (
            "[rank3]: Traceback (most recent call last):\n[rank3]: ValueError: bad sample\n",
            3,
            4,
            "the job has ranks 0 to 3",
        ),
    ],
    ids=["no rank", "some rank"],
)
def test_a_rank_that_the_job_does_not_have(
    log: str, good: int | None, bad: int, said: str, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "job.log").write_text(log)
    for rank in (bad, 10**20):
        assert main(["graph", str(tmp_path), "--rank", str(rank)]) == 2
        assert capsys.readouterr() == ("", f"correlator: --rank {rank}: {said}\n")
    if good is not None:
        assert main(["graph", str(tmp_path), "--rank", str(good)]) == 0
        assert capsys.readouterr().out.startswith(f"rank {good}: ")


@pytest.mark.parametrize("zone", ["+02:00", "-0330", "UTC+2", "-2", "Europe/Berlin", "utc"])
def test_zones_and_offsets(zone: str, logs: Path) -> None:
    assert main(["diagnose", str(logs), "--timezone", zone, "--workers", "1"]) == 0
