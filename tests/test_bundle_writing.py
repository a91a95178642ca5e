"""A bag is there whole or not at all, equal input gives an equal payload, and no changed byte goes unseen."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from returns import HOST, write_complete

from correlator.bundle import bag as bag_module
from correlator.bundle.custody import Chain, read_chain
from correlator.bundle.verify import verify_bundle
from correlator.cli import main
from correlator.errors import UsageError


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the logs, a bag ``rma`` and the same as ``rma.zip``."""
    place = tmp_path_factory.mktemp("made")
    write_complete(place / "logs")
    for name in ("rma", "rma.zip"):
        assert main(["bundle", str(place / "logs"), "-o", str(place / name), "--operator", "night shift"]) == 0
    return place


def payload(bag: Path) -> dict[str, bytes]:
    return {str(p.relative_to(bag)): p.read_bytes() for p in sorted((bag / "data").rglob("*")) if p.is_file()}


def test_equal_input_gives_an_equal_payload(made: Path, tmp_path: Path) -> None:
    write_complete(tmp_path / "logs")
    assert main(["bundle", str(tmp_path / "logs"), "-o", str(tmp_path / "again")]) == 0
    first, again = payload(made / "rma"), payload(tmp_path / "again")
    assert list(first) == list(again)
    assert [name for name in first if first[name] != again[name]] == []
    assert (made / "rma/manifest-sha256.txt").read_bytes() == (tmp_path / "again/manifest-sha256.txt").read_bytes()


def test_the_zip_holds_the_same_payload(made: Path) -> None:
    with zipfile.ZipFile(made / "rma.zip") as archive:
        members = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    folder = payload(made / "rma")
    assert {name: data for name, data in members.items() if name.startswith("data/")} == folder


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_changed_byte_of_a_bag_is_found(made: Path, data: st.DataObject) -> None:
    files = sorted(p for p in (made / "rma").rglob("*") if p.is_file() and p.stat().st_size)
    path = data.draw(st.sampled_from(files))
    original = path.read_bytes()
    at = data.draw(st.integers(0, len(original) - 1))
    change = data.draw(st.integers(1, 255))
    try:
        path.write_bytes(original[:at] + bytes([original[at] ^ change]) + original[at + 1 :])
        assert not verify_bundle(made / "rma").is_sound
    finally:
        path.write_bytes(original)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_changed_byte_of_a_zip_is_found(made: Path, data: st.DataObject) -> None:
    original = (made / "rma.zip").read_bytes()
    at = data.draw(st.integers(0, len(original) - 1))
    change = data.draw(st.integers(1, 255))
    changed = made / "changed.zip"
    changed.write_bytes(original[:at] + bytes([original[at] ^ change]) + original[at + 1 :])
    assert not verify_bundle(changed).is_sound


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("file gone", ["data/excerpts/E001.txt is gone"]),
        ("file more", ["data/notes.txt is not in manifest-sha256.txt"]),
        ("tag file more", ["note.txt is not in tagmanifest-sha256.txt"]),
        ("cut", ["data/excerpts/E001.txt was changed"]),
        ("renamed", ["data/excerpts/E001.txt is gone", "data/excerpts/E001b.txt is not in manifest-sha256.txt"]),
        ("row of custody gone", ["custody.jsonl was changed"]),
        ("manifest in another order", ["manifest-sha256.txt is not written as this tool writes it"]),
    ],
)
def test_other_changes_are_found_and_the_file_is_named(
    made: Path, tmp_path: Path, change: str, said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    bag = tmp_path / "rma"
    shutil.copytree(made / "rma", bag)
    excerpt, custody, manifest = bag / "data/excerpts/E001.txt", bag / "custody.jsonl", bag / "manifest-sha256.txt"
    if change == "file gone":
        excerpt.unlink()
    elif change == "file more":
        (bag / "data/notes.txt").write_text("smuggled\n")
    elif change == "tag file more":
        (bag / "note.txt").write_text("smuggled\n")
    elif change == "cut":
        excerpt.write_bytes(excerpt.read_bytes()[:-3])
    elif change == "renamed":
        excerpt.rename(bag / "data/excerpts/E001b.txt")
    elif change == "row of custody gone":
        custody.write_bytes(b"".join(custody.read_bytes().splitlines(keepends=True)[1:]))
    else:
        manifest.write_bytes(b"".join(reversed(manifest.read_bytes().splitlines(keepends=True))))
    assert main(["bundle", "verify", str(bag)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [text for text in said if f"WRONG: {text}" not in lines] == []


def test_a_folder_with_another_name_is_the_same_bag(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "rma", tmp_path / "case 4711")
    assert main(["bundle", "verify", str(tmp_path / "case 4711")]) == 0


def test_excerpts_are_compared_with_the_logs(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = tmp_path / "case"
    shutil.copytree(made, case)
    kernel_log = case / f"logs/kern-{HOST}.log"
    arguments = ["bundle", "verify", str(case / "rma"), "--logs", str(case / "logs")]
    assert main(arguments) == 0
    kernel_log.write_text(kernel_log.read_text().replace("Xid (PCI:0000:cb:00): 64", "Xid (PCI:0000:cb:00): 63"))
    assert main(arguments) == 1
    assert f"kern-{HOST}.log is another than then" in capsys.readouterr().out
    shutil.rmtree(case / "logs")
    (case / "rma.private-map.json").unlink()
    assert main(["bundle", "verify", str(case / "rma")]) == 0
    assert "not checked: the excerpts against the logs" in capsys.readouterr().out


def test_a_full_disk_leaves_nothing_and_says_so(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real, calls = os.fsync, 0

    def full(handle: int) -> None:
        nonlocal calls
        calls += 1
        if calls > 5:
            raise OSError(28, "No space left on device")
        real(handle)

    monkeypatch.setattr(bag_module.os, "fsync", full)
    for name in ("rma", "rma.zip"):
        calls = 5 if name == "rma.zip" else 0
        assert main(["bundle", str(made / "logs"), "-o", str(tmp_path / name)]) == 2
        assert "No space left on device" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_kill_9_leaves_no_half_bundle(made: Path, tmp_path: Path) -> None:
    """Killed at several moments while it writes: the name is not there, or the bag behind it is sound."""
    slow = (
        "import os, sys, time\nimport correlator.bundle.bag as bag\nreal = os.fsync\n"
        "def slow(handle):\n    print('writing', flush=True)\n    time.sleep(0.05)\n    real(handle)\n"
        "bag.os.fsync = slow\nfrom correlator.cli import main\nsys.exit(main(sys.argv[1:]))"
    )
    for number, delay in enumerate((0.0, 0.3, 0.9)):
        target = tmp_path / f"rma{number}"
        command = [sys.executable, "-c", slow, "bundle", str(made / "logs"), "-o", str(target)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout is not None and process.stdout.readline() == b"writing\n"
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
        assert not target.exists() or verify_bundle(target).is_sound


def test_an_unreadable_source_is_said_and_the_rest_is_packed(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import correlator

    shutil.copytree(made / "logs", tmp_path / "logs")
    diagnosis = correlator.diagnose(tmp_path / "logs")
    (tmp_path / f"logs/sel-{HOST}.txt").unlink()  # gone between reading and packing
    made_bundle = diagnosis.bundle(tmp_path / "rma")
    assert any(f"sel-{HOST}.txt cannot be read any more" in text for text in made_bundle.problems)
    assert verify_bundle(tmp_path / "rma").is_sound
    assert f"sel-{HOST}.txt cannot be read any more" in (tmp_path / "rma/data/report.html").read_text()


def test_a_size_budget_leaves_out_what_matters_least_and_says_so(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(made / "logs", tmp_path / "logs")
    report = tmp_path / f"logs/nvidia-bug-report-{HOST}.log"
    report.write_text(report.read_text() + "\n".join(f"filler {n}" for n in range(100_000)))
    bag = tmp_path / "rma"
    assert main(["bundle", str(tmp_path / "logs"), "-o", str(bag), "--max-size", "1M"]) == 0
    said = capsys.readouterr().err
    assert "left out" in said and report.name in said
    assert sum(p.stat().st_size for p in bag.rglob("*") if p.is_file()) < 1_000_000
    assert "--max-size leaves" in (bag / "data/report.html").read_text()
    assert list((bag / "data/attachments").glob("fieldiag*"))
    assert main(["bundle", str(made / "logs"), "-o", str(tmp_path / "small"), "--max-size", "1k"]) == 2
    assert "--max-size is too small" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--max-size", "many"], "is no size"),
        (["--redact", "much"], "no redaction level"),
        (["--node", "gpu-z999"], "no node 'gpu-z999'"),
        (["--pci", "north"], "is no PCI address"),
        (["--node", HOST, "--pci", "0000:ff:00"], "no line of these logs is about GPU 0000:ff:00"),
        (["--serial", "1"], "no line of these logs is about"),
    ],
)
def test_wrong_usage_is_one_sentence(
    made: Path, tmp_path: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bundle", str(made / "logs"), "-o", str(tmp_path / "rma"), *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert not (tmp_path / "rma").exists()


def test_nothing_is_replaced_and_nothing_is_put_among_the_logs(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for target in (made / "rma.zip", made / "logs/rma"):
        assert main(["bundle", str(made / "logs"), "-o", str(target)]) == 2
    assert not (made / "logs/rma").exists()
    assert main(["bundle", "verify", str(made / "nowhere")]) == 2
    assert main(["bundle", "verify", str(made / f"logs/sel-{HOST}.txt")]) == 2


def test_a_chain_that_was_touched_does_not_hold() -> None:
    chain = Chain("night shift", "host", "tool")
    chain.add("read", {"a.log": "1" * 64})
    chain.add("packed", {"b": "2" * 64})
    rows = chain.to_bytes()
    assert read_chain(rows)[1] == []
    assert read_chain(rows.replace(b"a.log", b"c.log"))[1]
    assert read_chain(b"")[1]


def test_the_operator_is_named_and_the_others_are_not(made: Path) -> None:
    rows = [json.loads(line) for line in (made / "rma/custody.jsonl").read_text().splitlines()]
    assert {row["who"] for row in rows} == {"night shift"}
    assert [row["step"] for row in rows] == ["read", "cut", "attach", "decide", "packed"]


def test_a_zip_that_would_leave_its_folder_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "evil.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../outside.txt", "x")
    report = verify_bundle(path)
    assert not report.is_sound and not (tmp_path / "outside.txt").exists()
    with pytest.raises(UsageError):
        verify_bundle(tmp_path / "nothing")
