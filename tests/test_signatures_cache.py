"""The kept copy of the signatures: the same values, used only for the same files, and never trusted blindly."""

from __future__ import annotations

from pathlib import Path

import pytest

from correlator.signatures import cache, model

FOLDER = "rank-correlator"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cache.sys, "platform", "linux")
    monkeypatch.delenv("CORRELATOR_CACHE", raising=False)
    return tmp_path / FOLDER


def load() -> tuple[model.Signature, ...]:
    return model.load_signatures.__wrapped__()


def test_a_kept_copy_gives_the_same_signatures_without_reading_toml(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load()
    monkeypatch.setattr(model, "read_signatures", lambda folder: pytest.fail("the kept copy was not used"))
    assert load() == first


@pytest.mark.parametrize("spoil", [b"", b"{", b"[]x", b'[{"id": "x"}]'])
def test_a_damaged_copy_is_made_anew(folder: Path, spoil: bytes) -> None:
    first = load()
    (kept,) = folder.iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(whole.partition(b"\n")[0] + b"\n" + spoil)
    assert load() == first
    assert kept.read_bytes() == whole


def test_a_copy_of_other_files_is_not_used(folder: Path) -> None:
    first = load()
    (kept,) = folder.iterdir()
    kept.write_bytes(b"0" * 64 + b"\n[]")
    assert load() == first


def test_a_folder_that_cannot_be_written_is_no_error(folder: Path) -> None:
    folder.write_text("a file stands where the folder should be")
    assert load()


def test_the_cache_can_be_turned_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORRELATOR_CACHE", "0")
    assert load()
    assert not folder.exists()
