"""What a confined diagnosis reads: nothing but what lies below the places that it was given."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from correlator.cli import main
from correlator.pipeline import Diagnosis, diagnose

CHECKPOINTS = Path(__file__).parents[1] / "fixtures/checkpoints/composer_ranks"
XID = "2024-05-01T10:00:00 gpu-a017 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"
SAVED = "  [2024-05-01 09:59:00] successfully saved checkpoint from iteration       4 to {} [ t 1/1, p 1/1 ]\n"


def put(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "a.log").write_text(text)
    return folder


def looked_into(found: Diagnosis) -> bool:
    """Whether saves are told of that only their folder shows: the log speaks of another iteration."""
    return bool({10, 20} & {one.iteration for one in found.resume.candidates})


def test_a_folder_that_only_a_log_names_is_not_looked_into(tmp_path: Path) -> None:
    saves = shutil.copytree(CHECKPOINTS, tmp_path / "elsewhere")
    logs = put(tmp_path / "logs", SAVED.format(saves) + XID)
    assert looked_into(diagnose(logs))
    assert not looked_into(diagnose(logs, confined=True))
    (logs / "saves").symlink_to(saves)  # nor through a link beside the logs
    (logs / "a.log").write_text(SAVED.format("/mnt/saves") + XID)
    assert looked_into(diagnose(logs))
    assert not looked_into(diagnose(logs, confined=True))


def test_saves_among_the_logs_are_still_found(tmp_path: Path) -> None:
    logs = put(tmp_path / "logs", SAVED.format("/mnt/saves") + XID)
    shutil.copytree(CHECKPOINTS, logs / "saves")
    assert looked_into(diagnose(logs, confined=True))


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_part_cannot_have_other_files_quoted(tmp_path: Path, ending: str) -> None:
    outside = put(tmp_path / "outside", XID)
    parts = tmp_path / "parts"
    parts.mkdir()
    assert main(["ingest", str(outside), "-o", str(parts / f"one.{ending}")]) == 0
    (outside / "a.log").write_text("the secret\n" * 40)
    assert "the secret" in "".join(diagnose(parts).neighbourhood("a.log", 1))
    confined = diagnose(parts, confined=True)
    assert confined.verdict.signature == "xid-79"
    assert confined.neighbourhood("a.log", 1) == [""]
    assert all("the secret" not in entry.text for entry in confined.document.evidence)


def test_no_link_to_a_log_is_followed(tmp_path: Path) -> None:
    outside = put(tmp_path / "outside", XID)
    logs = put(tmp_path / "logs", "step 1\n")
    (logs / "b.log").symlink_to(outside / "a.log")
    found = diagnose(logs, confined=True)
    assert found.verdict.signature != "xid-79"
    assert [(skip.file, skip.why) for skip in found.document.inputs.files_skipped] == [
        ("b.log", "a link, which is not followed here")
    ]
