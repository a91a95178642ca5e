"""Where to resume, from whole logs: what taints a save, when there is surely none, and the lines it rests on."""

from __future__ import annotations

from pathlib import Path

import pytest
from joblogs import (
    HOSTS,
    arguments,
    clock,
    diagnose,
    iterations,
    raises,
    save_finished,
    save_started,
    watchdog,
    worker_failed,
    xid,
)

from correlator.attribution.runs import spread
from correlator.pipeline import Diagnosis

DIED = raises("RuntimeError: the job stops here", rank=0)
BUS = "0000:3b:00"


def job(folder: Path, *, xids: dict[int, float], restart: bool = False) -> Diagnosis:
    """Saves at steps 20 and 40, step lines to 55, and Xids at the steps given."""
    lines = [
        *iterations(20),
        *save_started(20, 20.3),
        *save_finished(20, 21),
        *iterations(40, first=21),
        *save_started(40, 40.3),
        *save_finished(40, 42),
        *iterations(55, first=41),
    ]
    if restart:
        lines += [
            f" [{clock(70)}.100000] successfully loaded checkpoint from /mnt/ckpt [ t 1/1, p 1/1 ] at iteration 40"
        ]
        lines += [*iterations(60, first=41, at=40), *save_started(60, 100.3), *save_finished(60, 102)]
    kernel = [
        line
        for number, at in sorted(xids.items(), key=lambda item: item[1])
        for line in xid(at, HOSTS[0], BUS, number, "Row Remapper: an event")
    ]
    files = {f"{HOSTS[0]}/rank0.log": [*lines, *DIED]}
    return diagnose(folder, files | ({f"{HOSTS[0]}/kernel.log": kernel} if kernel else {}))


@pytest.mark.parametrize("number", [48, 64, 94, 95])
def test_a_save_behind_a_memory_error_is_not_safe(number: int, tmp_path: Path) -> None:
    found = job(tmp_path, xids={number: 30})
    assert (found.resume.status, found.resume.iteration) == ("unsafe", 20)
    assert any(f"Xid {number} on {HOSTS[0]}" in reason for reason in found.resume.reasons)
    resting = [e for e in found.document.evidence if e.supports == "resume"]
    assert "from iteration      20" in resting[0].text
    assert f": {number}, " in resting[1].text
    assert (resting[0].file, resting[0].line) == (f"{HOSTS[0]}/rank0.log", 22)


@pytest.mark.parametrize("xids", [{63: 30.0}, {94: 50.0}, {64: -500.0}, {}])
def test_a_save_that_was_over_before_or_a_repair_that_worked(xids: dict[int, float], tmp_path: Path) -> None:
    found = job(tmp_path, xids=xids)
    assert (found.resume.status, found.resume.iteration) == ("safe", 40)


def test_a_save_under_way_when_the_error_came(tmp_path: Path) -> None:
    found = job(tmp_path, xids={64: 41})
    assert (found.resume.status, found.resume.iteration) == ("unsafe", 20)


def test_a_new_run_leaves_the_doubt_behind(tmp_path: Path) -> None:
    found = job(tmp_path, xids={94: 56}, restart=True)
    assert (found.resume.status, found.resume.iteration) == ("safe", 60)


# nothing saved


def test_silence_about_saves_is_not_their_absence(tmp_path: Path) -> None:
    steps = [f"{clock(n)} INFO step {n}/9000 loss 2.1" for n in range(300, 340)]
    found = diagnose(tmp_path, {"rank0.log": [*steps, *DIED]})
    assert found.resume.status == "unknown"
    assert "--checkpoints DIR" in found.resume.reasons[0]
    dead = diagnose(tmp_path / "b", {"agent.log": worker_failed(5, 1, 1, -9)})
    assert dead.resume.status == "unknown"


def test_a_start_that_failed_left_nothing(tmp_path: Path) -> None:
    error = "ModuleNotFoundError: No module named 'flash_attn'"
    found = diagnose(tmp_path, {"rank0.log": raises(error, rank=0)})
    assert found.resume.status == "no-checkpoint"
    assert "before its first training step" in found.resume.reasons[0]


def test_the_whole_run_of_a_framework_that_announces_saves(tmp_path: Path) -> None:
    found = diagnose(tmp_path, {"rank0.log": [*arguments(world=1), *iterations(30), *DIED]})
    assert found.resume.status == "no-checkpoint"
    late = diagnose(tmp_path / "b", {"rank0.log": [*arguments(world=1), *iterations(90, first=60), *DIED]})
    assert late.resume.status == "unknown"


@pytest.mark.parametrize(
    "lines",
    [
        [
            "slurmstepd: error: pyxis:     Write failed because No space left on device",
            "slurmstepd: error: pyxis: couldn't start container",
        ],
        raises("OSError: bad header", rank=0, function="load_state_dict", text="return load_file(path)"),
        raises(
            "FileExistsError: [Errno 17] File exists: '/run7_locals'", rank=0, function="__init__", text="shm = make()"
        ),
    ],
)
def test_signs_of_a_start(lines: list[str], tmp_path: Path) -> None:
    assert diagnose(tmp_path, {"rank0.log": lines}).resume.status == "no-checkpoint"


@pytest.mark.parametrize(("seq", "status"), [(1, "no-checkpoint"), (4711, "unknown")])
def test_the_first_collective_of_all_comes_before_any_save(seq: int, status: str, tmp_path: Path) -> None:
    waits = {f"rank_{r}.log": watchdog(r, 700, seq=seq) for r in range(3)}
    assert diagnose(tmp_path, waits).resume.status == status


def test_the_first_collective_of_a_group_that_is_made_later_shows_no_start(tmp_path: Path) -> None:
    waits = {f"rank_{r}.log": watchdog(r, 700, seq=1, group="12(expert_pg)") for r in range(3)}
    assert diagnose(tmp_path, waits).resume.status == "unknown"


def test_runs_that_fail_alike_from_one_checkpoint(tmp_path: Path) -> None:
    nan = "found NaN in local forward loss calculation. Device: 3, node: gpu-a017"
    lines = []
    for at in (0, 100, 200):
        lines += [f"[{clock(at)}] loaded checkpoint iteration 20", *iterations(22, first=21, at=at)]
        lines += [
            f"[{clock(at + 30)}] ERROR: Unexpected result nan on rank 0 at iteration #23 invocation #1 (message='{nan}')"
        ]
    found = diagnose(tmp_path, {"rank0.log": [*lines, *DIED]})
    assert found.resume.status == "unsafe"
    assert "met non-finite numbers again" in found.resume.reasons[0]


def test_a_bad_number_in_a_job_whose_step_lines_were_not_collected_is_in_its_only_run():
    assert spread([], 0, 12) == [(12, None)]
