"""The temporary folder of a server: a killed one's is removed by the next, and nobody else's is."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from correlator.web.lodging import Lodging, remove_left_over

HOLDER = """
from correlator.web.lodging import Lodging
print(Lodging().folder, flush=True)
input()
"""


@pytest.fixture(autouse=True)
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's temporary folder, for this process and those it starts."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def other() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another server's process and its folder, in which it was at work."""
    command = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().rstrip("\n"))
        (folder / "a1b2" / "sent").mkdir(parents=True)
        (folder / "a1b2" / "sent" / "rank0.log").write_text("Traceback\n")
        yield process, folder
        process.kill()


def test_a_killed_servers_folder_is_removed(other: tuple[subprocess.Popen[str], Path]) -> None:
    process, folder = other
    process.kill()
    process.wait()
    assert folder.is_dir()
    remove_left_over()
    assert not folder.exists()


def test_a_live_servers_folder_stays(other: tuple[subprocess.Popen[str], Path]) -> None:
    _, folder = other
    before = sorted(folder.rglob("*"))
    remove_left_over()
    assert sorted(folder.rglob("*")) == before


def test_a_closed_lodging_leaves_nothing(top: Path) -> None:
    Lodging().close()
    assert not [*top.iterdir()]


def without_lock(folder: Path) -> None:
    folder.mkdir()


def lock_is_a_folder(folder: Path) -> None:
    (folder / "lock").mkdir(parents=True)


def lock_is_a_pipe(folder: Path) -> None:
    folder.mkdir()
    os.mkfifo(folder / "lock")


def lock_is_a_link(folder: Path) -> None:
    folder.mkdir()
    (folder.parent / "elsewhere").touch()
    (folder / "lock").symlink_to(folder.parent / "elsewhere")


def link_to_a_folder(folder: Path) -> None:
    (folder.parent / "elsewhere").mkdir()
    (folder.parent / "elsewhere" / "lock").touch()
    folder.symlink_to(folder.parent / "elsewhere")


def a_file(folder: Path) -> None:
    folder.touch()


@pytest.mark.parametrize(
    "made", [without_lock, lock_is_a_folder, lock_is_a_pipe, lock_is_a_link, link_to_a_folder, a_file]
)
def test_what_no_server_made_stays(made: object, top: Path) -> None:
    assert callable(made)
    made(top / "correlator-serve-x")
    before = sorted(top.rglob("*"))
    remove_left_over()
    assert sorted(top.rglob("*")) == before


def test_another_users_folder_stays(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = top / "correlator-serve-x"
    folder.mkdir()
    (folder / "lock").touch()
    monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
    remove_left_over()
    assert folder.is_dir()
