"""A bundle for the vendor's desk: made from logs, checked, and refused where the logs accuse no hardware."""

from __future__ import annotations

import csv
import json
import stat
from pathlib import Path

import pytest
from joblogs import HOSTS, diagnose, gpu_off_the_bus, iterations, kernel, raises, torchrun, write

from correlator.cli import main

BUS = "0000:cb:00"
UUID, SERIAL = "GPU-0c5e9a17-0000-41b9-a3c7-90e1f1b2c3d4", "1650000000000"


def off_the_bus() -> dict[str, list[str]]:
    """Two nodes; a GPU of the second falls off the bus under rank 3, which is seen to die."""
    host = HOSTS[1]
    return {
        **torchrun({0: iterations(30), 1: [], 2: [], 3: []}, {3: -6}),
        f"journal/{host}.journal": [
            *kernel(31.0, host, f"NVRM: GPU at PCI:{BUS}: {UUID}"),
            *kernel(31.0, host, f"NVRM: GPU Board Serial Number: {SERIAL}"),
            *gpu_off_the_bus(31.0, host, BUS, 3),
        ],
    }


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return write(tmp_path / "logs", off_the_bus())


def case_of(bag: Path) -> dict[str, object]:
    found = json.loads((bag / "data/case.json").read_text())
    assert isinstance(found, dict)
    return found


def test_a_bundle_is_made_and_is_sound(logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bag = tmp_path / "rma"
    assert main(["bundle", str(logs), "-o", str(bag)]) == 0
    assert "insufficient" in capsys.readouterr().out
    case = json.dumps(case_of(bag))
    assert SERIAL in case and UUID in case and BUS in case
    assert main(["bundle", "verify", str(bag)]) == 0
    assert "against the logs" in capsys.readouterr().out
    private = tmp_path / "rma.private-map.json"
    assert stat.S_IMODE(private.stat().st_mode) == 0o600


def test_a_part_that_nothing_accuses_needs_force(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs = write(tmp_path / "logs", {"gpu-a017.log": ["ValueError: bad flag", *iterations(3)]})
    bag = tmp_path / "rma"
    assert main(["bundle", str(logs), "-o", str(bag)]) == 2
    assert "--force" in capsys.readouterr().err
    assert not bag.exists()
    assert main(["bundle", str(logs), "-o", str(bag), "--force"]) == 0
    assert "insisted" in (bag / "data/report.html").read_text()


def test_the_timeline_gives_no_time_to_a_line_without_a_stamp(tmp_path: Path) -> None:
    """It may have been written hours after the last stamped line: a stranger would take it for what came first."""
    files = off_the_bus()
    files["gpu-a017.log"] = [
        "W0314 10:00:20.000000 4700 torch/distributed/run.py:793] a line with a stamp",
        *raises("torch.distributed.DistBackendError: the peer is gone"),
    ]
    diagnose(tmp_path / "logs", files).bundle(tmp_path / "rma")
    with (tmp_path / "rma/data/timeline.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    known = [row["event"] for row in rows if row["time"]]
    assert known[:1] == ["kernel.gpu_identity"] and "kernel.xid" in known
    assert [row["event"] for row in rows][: len(known)] == known, "rows without a time stand last"
    assert {row["timestamp_basis"] for row in rows[len(known) :]} == {"inherited"}


def test_from_python(logs: Path, tmp_path: Path) -> None:
    diagnosis = diagnose(logs, {})
    made = diagnosis.bundle(tmp_path / "rma.zip")
    assert made.path.is_file() and made.decision.status == "insufficient"
    assert main(["bundle", "verify", str(made.path)]) == 0
