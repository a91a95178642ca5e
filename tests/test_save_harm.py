"""Storage errors while a save was written that the program reported as done (rule R14)."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from joblogs import HOSTS, diagnose, iterations, kernel, raises, save_finished, save_started, write, xid

import correlator
from correlator.signatures.model import load_signatures

FIXTURE = Path(__file__).parents[1] / "fixtures" / "checkpoints" / "megatron_dist"
DIED = raises("RuntimeError: the job stops here", rank=0)
LOST = "Buffer I/O error on dev dm-0, logical block 1308098575, lost async page write"


def job(errors: list[str], host: str = HOSTS[0], *, again: bool = False) -> dict[str, list[str]]:
    """Saves at steps 10 and 20, from -89.9 s to -87.8 s and from 20.1 s to 23.2 s, on one node; errors of a node."""
    lines = [*iterations(10, at=-100), *save_started(10, -90), *save_finished(10, -88), *iterations(20, first=11)]
    lines += [*save_started(20, 20), *save_finished(20, 23), *iterations(27, first=21, at=4)]
    if again:
        lines += [*save_started(20, 90), *save_finished(20, 92), *iterations(97, first=91)]
    return {f"{HOSTS[0]}/rank0.log": [*lines, *DIED], f"{host}/kernel.log": errors}


def resume(folder: Path, files: dict[str, list[str]], checkpoints: Path | None = None) -> correlator.diagnosis.Resume:
    return correlator.diagnose(write(folder, files), checkpoints=checkpoints, workers=1).resume


@pytest.mark.parametrize(
    "text",
    [
        LOST,
        "I/O error, dev nvme0n1, sector 1308098575 op 0x1:(WRITE) flags 0x103000 phys_seg 1 prio class 2",
        "LustreError: 167-0: scratch-OST0004-osc-ffff9a1b2c3d4000: This client was evicted by scratch-OST0004; in "
        "progress operations using this service will fail.",
        "EXT4-fs (md0): Remounting filesystem read-only",
    ],
)
@pytest.mark.parametrize("at", [21, 23, 50])
def test_the_newest_save_is_not_safe_without_a_deep_look(text: str, at: float, tmp_path: Path) -> None:
    found = resume(tmp_path, job(kernel(at, HOSTS[0], text)))
    assert (found.status, found.iteration) == ("safe", 10)
    (why,) = (reason for reason in found.reasons if "step 20" in reason)
    assert f"a storage error came on {HOSTS[0]} while it was written" in why
    assert f"{HOSTS[0]}/kernel.log:1" in why


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (0, LOST.replace("lost async page write", "async page read")),
        (21, "I/O error, dev nvme0n1, sector 1308098575 op 0x0:(READ) flags 0x80700 phys_seg 1 prio class 2"),
        (21, "Lustre: scratch-OST0004-osc-ffff9a1b2c3d4000: Connection restored to 10.0.1.4@o2ib (at 10.0.1.4@o2ib)"),
        (21, "nfs: server nas01 not responding, still trying"),
        (70, LOST),
        (-140, LOST),
    ],
)
def test_what_loses_nothing_or_comes_at_another_time_is_no_reason(at: float, text: str, tmp_path: Path) -> None:
    found = resume(tmp_path, job(kernel(at, HOSTS[0], text)))
    assert (found.status, found.iteration) == ("safe", 20)
    assert not any("storage error" in reason for reason in found.reasons)


def test_a_node_that_is_none_of_the_job_is_no_reason(tmp_path: Path) -> None:
    files = job(kernel(21, "login01", LOST), "login01")
    files |= {f"{HOSTS[0]}/kernel.log": xid(5, HOSTS[0], "0000:3b:00", 13, "Graphics Exception")}
    assert resume(tmp_path, files).iteration == 20


def test_a_save_that_was_written_once_more_afterwards_is_whole(tmp_path: Path) -> None:
    assert resume(tmp_path, job(kernel(21, HOSTS[0], LOST), again=True)).iteration == 20


def test_when_every_save_met_errors_none_is_called_safe(tmp_path: Path) -> None:
    errors = [*kernel(-89, HOSTS[0], LOST), *kernel(21, HOSTS[0], LOST.replace("8575", "8576"))]
    found = resume(tmp_path, job(errors))
    assert (found.status, found.iteration) == ("unknown", None)


def test_on_disk_the_older_one_is_taken_and_alone_it_is_not_called_safe(tmp_path: Path) -> None:
    shutil.copytree(FIXTURE, tmp_path / "ckpt")
    found = resume(tmp_path / "logs", job(kernel(21, HOSTS[0], LOST)), tmp_path / "ckpt")
    assert (found.status, found.iteration) == ("safe", 10)
    assert any("iteration 20 is newer, but a storage error came" in r and "--deep" in r for r in found.reasons)
    shutil.rmtree(tmp_path / "ckpt" / "iter_0000010")
    found = resume(tmp_path / "logs", job(kernel(21, HOSTS[0], LOST)), tmp_path / "ckpt")
    assert (found.status, found.iteration) == ("unknown", 20)
    assert any("--deep" in reason for reason in found.reasons)


def test_what_the_clocks_leave_open_is_told_and_does_not_decide(tmp_path: Path) -> None:
    files = job(kernel(21, HOSTS[1], LOST), HOSTS[1])
    files[f"{HOSTS[1]}/rank1.log"] = [line for line in files[f"{HOSTS[0]}/rank0.log"] if " iteration " in line]
    found = diagnose(tmp_path, files)
    (clock,) = (one for one in found.document.clocks if one.node == HOSTS[1])
    reasons = [reason for reason in found.resume.reasons if "storage error" in reason]
    assert len(reasons) == 1
    if clock.bound_s is None or clock.bound_s > 1:
        assert found.resume.iteration == 20
        assert "may have come" in reasons[0]
    else:
        assert found.resume.iteration == 10


def test_the_entries_that_lose_writes_find_it_in_their_own_samples() -> None:
    entries = [entry for entry in load_signatures() if entry.loses_writes]
    assert len(entries) > 10
    for entry in entries:
        lines = [sample.line for sample in entry.samples if sample.hit]
        assert entry.subclass == "storage", entry.id
        assert any(re.search(entry.loses_writes, line) for line in lines) or entry.id in NOT_IN_SAMPLES, entry.id


#: Entries of which only a part loses writes, and none of the samples is of that part.
NOT_IN_SAMPLES = frozenset({"lustre-connection-lost", "lustre-operation-failed", "gpfs-error", "beegfs-error"})
