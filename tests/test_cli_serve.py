"""`correlator serve` before it serves: addresses, tokens, folders, and what is missing."""

from __future__ import annotations

import re
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from correlator.cli import main

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def served(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The settings of servers that were started; none of them runs."""
    started: list[Any] = []
    monkeypatch.delenv("CORRELATOR_TOKEN", raising=False)
    monkeypatch.setattr("correlator.web.app.make_app", lambda settings: started.append(settings))
    monkeypatch.setattr(uvicorn.Server, "run", lambda self, sockets: [one.close() for one in sockets])
    return started


def serve(*arguments: str) -> int:
    return main(["serve", "--port", "0", *arguments])


def test_loopback_needs_no_token_and_answers_to_its_own_names_only(served: list[Any], capsys: Capture) -> None:
    assert serve() == 0
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\n", capsys.readouterr().out)
    (settings,) = served
    assert settings.token is None and settings.hosts == {"localhost", "127.0.0.1", "[::1]"}


@pytest.mark.parametrize("arguments", [["--host", "0.0.0.0"], ["--token"]])
def test_a_token_is_made_where_one_is_needed_or_wanted(
    arguments: list[str], served: list[Any], capsys: Capture
) -> None:
    assert serve(*arguments) == 0
    said = capsys.readouterr()
    assert f"token: {served[0].token}\n" in said.out
    assert len(served[0].token) >= 32
    assert ("not encrypted" in said.err) == ("--host" in arguments)


def test_a_token_that_is_stated_is_not_printed(
    served: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("CORRELATOR_TOKEN", "stated-by-the-environment")
    assert serve("--host", "0.0.0.0") == 0
    assert served[0].token == "stated-by-the-environment"
    assert "stated" not in capsys.readouterr().out


def test_links_to_a_named_folder_are_resolved_once(tmp_path: Path, served: list[Any]) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "logs")
    assert serve(str(tmp_path / "link")) == 0
    assert served[0].roots == (tmp_path / "logs",)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "nowhere is no folder"),
        ([""], "an empty path is no folder"),
        (["--keep", "nowhere"], "nowhere is no folder"),
        (["--host", "no such host"], "cannot listen on no such host"),
        (["--certificate", "nowhere.pem"], "is no file"),
        (["--max-upload", "0"], "max-upload"),
    ],
)
def test_what_cannot_be_served_is_2(arguments: list[str], said: str, capsys: Capture) -> None:
    assert serve(*arguments) == 2
    assert said in capsys.readouterr().err


def test_a_port_that_is_taken_and_a_token_that_is_short_are_2(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["serve", "--port", str(taken.getsockname()[1])]) == 2
    assert "--port 0 takes any free one" in capsys.readouterr().err
    monkeypatch.setenv("CORRELATOR_TOKEN", "short")
    assert serve() == 2
    assert "shorter than 16" in capsys.readouterr().err


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert serve() == 2
    assert "rank-correlator[web]" in capsys.readouterr().err
