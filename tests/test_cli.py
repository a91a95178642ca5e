"""The command line: exit codes, where text goes, result files, and what it refuses."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from documents import graph_of, hardware_document, neighbourhood, none_document

from correlator import pipeline
from correlator.attribution import standing
from correlator.cli import main
from correlator.cli._progress import progress_on_stderr
from correlator.diagnosis import Document, FailureClass, json_schema
from correlator.errors import NothingReadable, SignatureError
from correlator.event_export import event_writer
from correlator.events import SCHEMA
from correlator.ingest import Ingested, as_part
from correlator.signatures import CLASSES, load_signatures
from correlator.worker_pool import WorkerPool

Capture = pytest.CaptureFixture[str]
COMMAND = [sys.executable, "-m", "correlator"]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "rank0.log").write_text("a line\n")
    return folder


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[[Document], list[dict[str, Any]]]:
    """Makes the pipeline give a document; gives the arguments that it was called with."""

    def give(document: Document) -> list[dict[str, Any]]:
        calls: list[dict[str, Any]] = []

        def diagnose(*paths: str, **options: Any) -> SimpleNamespace:
            calls.append({"paths": paths, **options})
            return SimpleNamespace(document=document, graph=graph_of(document), neighbourhood=neighbourhood, facts=None)

        monkeypatch.setattr(pipeline, "diagnose", diagnose)
        monkeypatch.setattr(standing, "life_of", lambda facts, rank: standing.Life(rank, "on gpu-a017", "heard"))
        return calls

    return give


def failing(monkeypatch: pytest.MonkeyPatch, fault: BaseException) -> None:
    def diagnose(*paths: str, **options: Any) -> None:
        raise fault

    monkeypatch.setattr(pipeline, "diagnose", diagnose)


def stream_of(data: bytes) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8")


def event_table(**values: list[Any]) -> pa.Table:
    count = len(next(iter(values.values())))
    columns = [pa.array(values.get(field.name, [None] * count), field.type) for field in SCHEMA]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


# --- diagnose


def test_text_goes_to_standard_output_and_nothing_else(logs: Path, answer: Any, capsys: Capture) -> None:
    answer(hardware_document())
    assert main(["diagnose", str(logs)]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("HARDWARE FAILURE: GPU has fallen off the bus")
    assert err == ""


def test_json_is_what_the_schema_says(logs: Path, answer: Any, capfdbinary: Any) -> None:
    answer(hardware_document())
    assert main(["diagnose", str(logs), "--format", "json"]) == 0
    out, err = capfdbinary.readouterr()
    jsonschema.validate(json.loads(out), json_schema())
    assert err == b"correlator: files: 2 skipped, 1 damaged; `inputs` in the JSON names them\n"


def test_options_reach_the_library(logs: Path, answer: Any) -> None:
    calls = answer(none_document())
    assert (
        main(["diagnose", str(logs), "b", "--checkpoints", "c", "--timezone", "Europe/Berlin", "--workers", "3"]) == 0
    )
    wanted = {
        "paths": (str(logs), "b"),
        "checkpoints": "c",
        "timezone": "Europe/Berlin",
        "workers": 3,
        "executor": None,
        "progress": None,
    }
    assert calls == [wanted]


@pytest.mark.parametrize(
    ("class_", "code"),
    [
        ("none", 0),
        ("configuration", 10),
        ("application", 11),
        ("hardware", 12),
        ("infrastructure", 13),
        ("unknown", 14),
    ],
)
def test_exit_code_by_class(logs: Path, answer: Any, class_: FailureClass, code: int) -> None:
    document = hardware_document()
    document.verdict.class_ = class_
    answer(document)
    assert main(["diagnose", str(logs), "--exit-code"]) == code
    assert main(["diagnose", str(logs)]) == 0


# --- errors


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["frobnicate"],
        ["diagnose"],
        ["diagnose", "logs", "--format", "pdf"],
        ["diagnose", "logs", "--workers", "0"],
        ["diagnose", "logs", "--timezone", "Mars/Olympus"],
        ["diagnose", "logs", "--timezone", "/etc/passwd"],
        ["diagnose", "logs", "--timezone", "+25:00"],
        ["diagnose", "logs", "-o", "missing-folder/x.txt"],
        ["ingest", "logs"],
        ["ingest", "logs", "-o", "events.xlsx"],
        ["graph", "logs"],
        ["graph", "logs", "--rank", "-1"],
        ["graph", "logs", "-o", "cascade.png"],
        ["signatures", "--class", "gremlins"],
        ["explain", "nothing that any log ever said"],
    ],
)
def test_wrong_usage_is_one_sentence_and_2(arguments: list[str], capsys: Capture) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert (out == "" and err.startswith("correlator: ") and err.count("\n") == 1) or (not arguments and out)
    assert "Traceback" not in err


def test_nothing_readable_is_2(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    failing(monkeypatch, NothingReadable("no log at \x1b[2J"))
    assert main(["diagnose", "x"]) == 2
    assert capsys.readouterr() == ("", "correlator: no log at \\x1b[2J\n")


class Panic(BaseException):
    """As a panic in a native library arrives: not an Exception."""


@pytest.mark.parametrize("fault", [ValueError("a\nb"), Panic("index out of bounds"), SignatureError("x.toml: id: bad")])
def test_an_internal_error_is_one_line_and_1(
    fault: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.delenv("CORRELATOR_DEBUG", raising=False)
    failing(monkeypatch, fault)
    assert main(["diagnose", "x"]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and "Traceback" not in err
    assert " ".join(str(fault).split()) in err


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, ValueError("deep inside"))
    monkeypatch.setenv("CORRELATOR_DEBUG", "1")
    with pytest.raises(ValueError, match="deep inside"):
        main(["diagnose", "x"])


def test_ctrl_c_says_one_line() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "correlator", "diagnose", "-"],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as run:  # fmt: skip
        assert run.stdin is not None
        run.stdin.write("[rank3]: ValueError: x\n" * 100_000)  # more than a pipe holds: it is being read then
        os.killpg(run.pid, signal.SIGINT)
        _, said = run.communicate(timeout=60)
    assert (said, run.returncode) == ("interrupted\n", 130)


def test_ctrl_c_does_not_wait_for_the_workers() -> None:
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), WorkerPool(2) as pool:
        for _ in range(4):
            pool.submit(time.sleep, 120)
        raise KeyboardInterrupt
    assert time.monotonic() - began < 60


def test_interrupted_is_130(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    failing(monkeypatch, KeyboardInterrupt())
    assert main(["diagnose", "x"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_a_reader_that_goes_away_is_no_error() -> None:
    # More than a pipe holds, and a reader that takes one line of it.
    code = (
        "import sys\nfrom correlator.cli._output import write_stdout\n"
        "write_stdout('x\\n' * 1_000_000)\nwrite_stdout('more')\nsys.exit(12)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout and process.stderr
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(30) == 12
    assert process.stderr.read() == b""
    process.stderr.close()


# --- result files


def test_a_result_file_replaces_the_old_one_whole(logs: Path, tmp_path: Path, answer: Any, capsys: Capture) -> None:
    answer(hardware_document())
    target = tmp_path / "out.json"
    target.write_text("old")
    assert main(["diagnose", str(logs), "-o", str(target)]) == 0
    assert json.loads(target.read_bytes())["verdict"]["class"] == "hardware"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs", "out.json"]
    assert capsys.readouterr().out == ""


def test_a_text_file_is_plain_whatever_the_terminal_is(
    logs: Path, tmp_path: Path, answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(hardware_document())
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert main(["diagnose", str(logs), "-o", str(tmp_path / "report.txt")]) == 0
    assert "\x1b" not in (tmp_path / "report.txt").read_text()


def test_what_fails_while_writing_leaves_the_old_file(
    logs: Path, tmp_path: Path, answer: Any, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    answer(hardware_document())
    target = tmp_path / "out.json"
    target.write_text("old")

    def refuse(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    assert main(["diagnose", str(logs), "-o", str(target)]) == 2
    assert target.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs", "out.json"]
    assert capsys.readouterr().err == f"correlator: cannot write {target}: No space left on device\n"


@pytest.mark.parametrize("command", ["diagnose", "graph", "ingest"])
@pytest.mark.parametrize("way", ["direct", "link", "hard link", "relative"])
def test_a_log_is_never_overwritten(
    command: str, way: str, logs: Path, answer: Any, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    calls = answer(hardware_document())
    suffix = {"diagnose": ".json", "graph": ".json", "ingest": ".csv"}[command]
    log = logs / f"events{suffix}"
    log.write_text("precious\n")
    target, source = log, logs
    if way == "link":
        target = logs.parent / f"link{suffix}"
        target.symlink_to(log)
    elif way == "hard link":
        target, source = logs.parent / f"hard{suffix}", log
        target.hardlink_to(log)
    elif way == "relative":
        monkeypatch.chdir(logs)
        target, source = Path(f"../logs/events{suffix}"), Path()
    assert main([command, str(source), "-o", str(target)]) == 2
    assert "is one of the inputs" in capsys.readouterr().err
    assert log.read_text() == "precious\n"
    assert calls == []


def test_graph_says_why_a_rank_has_its_role(logs: Path, answer: Any, capsys: Capture) -> None:
    answer(hardware_document())
    assert main(["graph", str(logs), "--rank", "30"]) == 0
    assert capsys.readouterr().out.startswith("rank 30: suffered: ")
    assert main(["graph", str(logs), "--rank", "32"]) == 2
    assert capsys.readouterr() == ("", "correlator: --rank 32: the job has ranks 0 to 31\n")


def test_a_device_is_written_and_not_replaced(logs: Path, answer: Any) -> None:
    answer(hardware_document())
    assert main(["diagnose", str(logs), "-o", os.devnull]) == 0
    assert not Path(os.devnull).is_file()


# --- the event table as a file


TABLE = event_table(
    timestamp=[1_700_000_000_123_456_789, None, None, None],
    body=["=cmd|' /C calc'!A0", "+1 \x1b[2J", 'plain, with "quotes"\nand a line', "-@ü\u202e"],
    exit_code=[-9, None, 1, None],
    attributes=[[("b", "=1"), ("a", "x")], None, [], None],
    node=["@SUM(A1)", "\tgpu-a017", "\rgpu-a017", None],
)


def test_csv_is_harmless_and_complete() -> None:
    text = event_writer(".csv")(TABLE).decode()
    rows = pl.read_csv(io.StringIO(text), infer_schema=False)
    assert rows.columns == [name for name in SCHEMA.names if name != "attributes"] + ["attributes"]
    assert rows["body"].to_list() == [
        "'=cmd|' /C calc'!A0",
        "'+1 \\x1b[2J",
        'plain, with "quotes"\nand a line',
        "'-@ü\\u202e",
    ]
    assert rows["node"].to_list() == ["'@SUM(A1)", "'\tgpu-a017", "'\\x0dgpu-a017", None]
    assert rows["timestamp"].to_list() == ["2023-11-14T22:13:20.123456789Z", None, None, None]
    assert rows["exit_code"].to_list() == ["-9", None, "1", None]  # a number is no formula
    assert json.loads(rows["attributes"][0]) == {"a": "x", "b": "=1"}


def test_parquet_and_arrow_hold_the_table_whole() -> None:
    assert pa.parquet.read_table(io.BytesIO(event_writer(".parquet")(TABLE))).equals(TABLE)
    assert pa.feather.read_table(io.BytesIO(event_writer(".arrow")(TABLE))).equals(TABLE)


@pytest.mark.parametrize("name", ["events.parquet", "events.arrow", "events.csv"])
def test_ingest_writes_the_table(
    name: str, logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    read = Ingested(events=TABLE, writers=[], files=[], skipped=[], warnings=[], bytes=0, lines=0)
    monkeypatch.setattr(pipeline, "read_events", lambda *paths, **options: read)
    target = tmp_path / name
    assert main(["ingest", str(logs), "-o", str(target)]) == 0
    assert target.read_bytes() == event_writer(target.suffix)(as_part(read))
    assert capsys.readouterr() == ("", f"4 events written to {target}\n")


# --- signatures and explain


def test_signatures_are_listed_and_filtered(capsys: Capture) -> None:
    assert main(["signatures"]) == 0
    every = capsys.readouterr().out.splitlines()
    assert main(["signatures", "--class", "hardware", "--role", "cause", "xid", "bus"]) == 0
    some = capsys.readouterr().out.splitlines()
    assert len(every) > 50 > len(some) > 0
    assert {line.split()[0] for line in some} < {line.split()[0] for line in every}
    assert all(line.split()[1:3] == ["hardware", "cause"] for line in some)
    assert any(line.split()[0] == "xid-79" for line in some)
    assert main(["signatures", "no-such-word"]) == 0
    assert capsys.readouterr() == ("", "no signature fits\n")


def test_explain_by_id_by_text_and_from_standard_input(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["explain", "xid-79"]) == 0
    by_id = capsys.readouterr().out
    for part in ("xid-79: hardware", "WHAT HAPPENS", "IT IS THIS IF", "FIX", "FIXED WHEN", "SOURCES"):
        assert part in by_id
    line = "kernel: NVRM: Xid (PCI:0000:cb:00): 79, pid=88105, name=python3, GPU has fallen off the bus."
    assert main(["explain", line]) == 0
    assert "xid-79: hardware" in capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", stream_of(f"some line\n{line}\n".encode()))
    assert main(["explain", "-"]) == 0
    assert "xid-79: hardware" in capsys.readouterr().out


def test_a_mistyped_id_gets_a_hint(capsys: Capture) -> None:
    assert main(["explain", "xid-97x"]) == 2
    assert "no such signature: xid-97x; near: xid-" in capsys.readouterr().err


def terminal_output(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", terminal)
        assert main(list(arguments)) == 0
        shown = os.read(ours, 100_000).decode()
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;]*m", "", shown)


def test_a_terminal_gets_the_counts_and_the_list_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    every = load_signatures()
    shown = terminal_output(monkeypatch, "signatures")
    assert f"{len(every)} failures" in shown and "xid-79" not in shown
    for class_ in CLASSES:
        assert re.search(rf"(?m)^{class_} +{sum(s.class_ == class_ for s in every)} ", shown)
    assert "xid-79" in terminal_output(monkeypatch, "signatures", "xid-79")


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("[rank3]: Traceback (most recent call last):\n[rank3]: IndexError: index out of range in self", "embedding-index-out-of-range"),
        ("[default1]:[rank3]: ModuleNotFoundError: No module named 'toytrain'", "python-module-not-found"),
        ("NVRM: Xid (PCI:0000:2c:00): 79, pid=4711, name=python3, GPU has fallen off the bus.", "xid-79"),
        ("RuntimeError: Checkpoint tensor parallel size mismatch", "checkpoint-tp-mismatch"),
        ("AssertionError: Pipeline parallel rank mismatch during initialization", "world-size-not-divisible"),
        ("DataLoader worker (pid 12) is killed by signal: Killed.", "dataloader-worker-killed"),
    ],
)  # fmt: skip
def test_a_whole_line_gets_its_page(text: str, first: str, capsys: Capture) -> None:
    assert main(["explain", text]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith(f"{first}: ")


@pytest.mark.parametrize("spelling", [str, str.upper, lambda text: f"  {text.replace(' ', '   ')}\n"])
def test_a_title_or_another_text_of_one_entry_gets_its_page(spelling: Callable[[str], str], capsys: Capture) -> None:
    for text, first in (
        ("Watchdog caught collective operation timeout", "c10d-watchdog-timeout"),
        ("Megatron Sequence Parallel requires Tensor Parallel size > 1", "sequence-parallel-without-tp"),
    ):
        assert main(["explain", spelling(text)]) == 0
        assert capsys.readouterr().out.splitlines()[1].startswith(f"{first}: ")


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("Watchdog caught collective operation", "c10d-watchdog-timeout"),
        ("exitcode: -9", "worker-exit-sigkill"),
        ("Megatron Sequence Parallel requires Tensor Parallel size", "sequence-parallel-without-tp"),
        ("NVRM: Xid (PCI:0000:dc:00): 149, pid=1", "xid-149"),
        ("xid 144", "xid-144-fatal"),
    ],
)
def test_part_of_a_line_gets_near_matches_and_says_so(text: str, first: str, capsys: Capture) -> None:
    assert main(["explain", text]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "Near matches" in lines[0]
    assert lines[1].split()[0] == first
    assert any(line.startswith(f"{first}: ") for line in lines)


def test_a_phrase_of_many_entries_finds_them(capsys: Capture) -> None:
    assert main(["explain", "Segmentation fault"]) == 0
    listed, _, _ = capsys.readouterr().out.partition("The nearest:")
    assert listed.count("segfault") >= 2 and "worker-exit-sigsegv" in listed


@pytest.mark.parametrize("text", ["zorgle frobnicate", "the weather is fine"])
def test_text_that_nothing_is_near_to_is_2(text: str, capsys: Capture) -> None:
    assert main(["explain", text]) == 2
    assert "no signature fits that text or is near it" in capsys.readouterr().err


def test_empty_text_is_2(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", stream_of(b"\n"))
    assert main(["explain", "-"]) == 2
    assert "no text to explain" in capsys.readouterr().err


def test_text_that_is_no_utf8_and_text_without_an_end(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    line = b"\xff\xfe kernel: NVRM: Xid (PCI:0000:cb:00): 79, pid=88105, name=python3, GPU has fallen off the bus.\n"
    monkeypatch.setattr(sys, "stdin", stream_of(line))
    assert main(["explain", "-"]) == 0
    assert "xid-79: hardware" in capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", stream_of(b"x" * (5 << 20)))
    assert main(["explain", "-"]) == 2
    assert "more than 4 MiB to explain" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("what", "id_", "said"),
    [
        ("xid-14", "xid-other", "Xid 14: ROBUST_CHANNEL_FAKE_ERROR; Unused"),
        ("xid-9999", "xid-other", "Xid 9999: not listed"),
        ("XID 66", "xid-38", "Xid 66: ROBUST_CHANNEL_FECS_ERR_REG_ACCESS_VIOLATION; Illegal access by driver"),
        ("NVRM: Xid (PCI:0000:2c:00): 14, pid=4711", "xid-other", "Xid 14: ROBUST_CHANNEL_FAKE_ERROR"),
    ],
)
def test_an_xid_without_an_entry_of_its_own_shows_the_catalog(what: str, id_: str, said: str, capsys: Capture) -> None:
    assert main(["explain", what]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert f" {id_}: " in out and said in out


def test_commands_of_a_page_name_what_to_fill_in(capsys: Capture) -> None:
    assert main(["explain", "xid-149"]) == 0
    out = capsys.readouterr().out
    assert "Put your own values for PCI_BUS_ID, NODE." in out
    assert "nvidia-smi nvlink -s -i PCI_BUS_ID" in out and "{" not in out


# --- as a process


def test_every_command_has_help() -> None:
    listed = subprocess.run([*COMMAND, "--help"], capture_output=True, text=True, check=True).stdout
    assert "..." not in listed.partition("Commands:")[2]  # no summary is cut
    for command in ("diagnose", "ingest", "graph", "checkpoints", "schema", "signatures", "explain"):
        assert f"\n  {command} " in listed
        done = subprocess.run([*COMMAND, command, "--help"], capture_output=True, text=True, check=True)
        assert "Usage: correlator" in done.stdout
        assert done.stderr == ""


def test_version() -> None:
    done = subprocess.run([*COMMAND, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("correlator 0.")


def test_a_missing_folder_is_2_and_no_traceback(tmp_path: Path) -> None:
    done = subprocess.run([*COMMAND, "diagnose", str(tmp_path / "none")], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == "" and "Traceback" not in done.stderr and done.stderr.count("\n") == 1


# --- the whole way, from log files

LOG = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "/srv/train/loader.py", line 31, in read
[rank0]:     raise ValueError("bad sample \x1b[2J\x1b]0;owned\x07 \u202egnp \x9b31m =cmd")
[rank0]: ValueError: bad sample \x1b[2J\x1b]0;owned\x07 \u202egnp \x9b31m =cmd
E0507 17:29:16.048000 3102 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 0 (pid: 3140) of binary: /usr/bin/python3
"""


@pytest.fixture
def crashed(logs: Path) -> Path:
    (logs / "rank0.log").write_text(LOG, encoding="utf-8")
    (logs / "core.77").write_bytes(b"\x7fELF" + bytes(400))
    return logs


def test_from_a_log_to_the_report(crashed: Path, capsys: Capture) -> None:
    assert main(["diagnose", str(crashed), "--exit-code", "--workers", "1"]) == 11
    out = capsys.readouterr().out
    assert out.startswith("APPLICATION FAILURE: ")
    assert "  > 4 [rank0]: ValueError: bad sample \\x1b[2J\\x1b]0;owned\\x07 \\u202egnp \\x9b31m =cmd\n" in out
    assert "skipped core.77" in out
    assert all(c.isprintable() or c == "\n" for c in out)


def test_from_a_log_to_the_json(crashed: Path, capfdbinary: Any) -> None:
    assert main(["diagnose", str(crashed), "--format", "json", "--workers", "1"]) == 0
    out = capfdbinary.readouterr().out
    printed = json.loads(out)
    jsonschema.validate(printed, json_schema())
    assert printed["initiator"]["ranks"] == [0]
    assert "\u202egnp" in printed["initiator"]["first_error"]["text"]
    assert all(c.isprintable() or c == "\n" for c in out.decode())


@pytest.mark.parametrize(
    ("command", "name", "said"),
    [
        ("graph", "c.graphml", "ValueError: bad sample"),
        ("graph", "c.json", "ValueError: bad sample"),
        ("graph", "c.dot", "rank 0"),
        ("graph", "c.svg", "rank 0"),
        ("ingest", "e.csv", "ValueError: bad sample"),
    ],
)
def test_from_a_log_to_every_file(command: str, name: str, said: str, crashed: Path, tmp_path: Path) -> None:
    assert main([command, str(crashed), "-o", str(tmp_path / name), "--workers", "1"]) == 0
    text = (tmp_path / name).read_text(encoding="utf-8")
    assert said in text
    assert all(c.isprintable() or c == "\n" for c in text)


# --- progress


def test_progress_is_for_watchers_and_for_what_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    with progress_on_stderr() as progress:
        assert progress is None  # standard error is no terminal here
    ours, theirs = pty.openpty()
    shown = ""
    with os.fdopen(theirs, "w") as terminal, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", terminal)
        patch.setenv("TERM", "xterm-256color")
        with progress_on_stderr() as progress:
            assert progress is not None
            progress(1_000, 10_000)  # too early to be worth a bar
            now = time.monotonic()
            patch.setattr(time, "monotonic", lambda: now + 2)
            progress(5_000, 10_000, 3)
            shown += os.read(ours, 100_000).decode()
    os.close(ours)
    assert "reading, 3 files done" in shown and "5.0/10.0 kB" in shown and "/s" in shown
    assert "1.0/10.0 kB" not in shown
