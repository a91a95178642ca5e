"""Where to resume, from logs and directory together: what only both tell, and saves that are whole and yet not safe."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from joblogs import arguments, diagnose, iterations, raises, save_finished, save_started, write

import correlator
from correlator.cli import main

FIXTURES = Path(__file__).parents[1] / "fixtures" / "checkpoints"
DIED = raises("RuntimeError: the job stops here", rank=0)
Lines = list[str]


def saved(step: int, at: float, folder: str = "/mnt/ckpt") -> Lines:
    return [line.replace("/mnt/ckpt", folder) for line in (*save_started(step, at), *save_finished(step, at + 1))]


def with_losses(lines: Sequence[str], losses: dict[int, str]) -> Lines:
    """The step lines with other losses, by their place in the row."""
    return [line.replace("4.483864E+00", losses.get(at, "4.483864E+00")) for at, line in enumerate(lines, 1)]


def two_saves(losses: dict[int, str]) -> Lines:
    """Saves at steps 10 and 30, step lines to 35."""
    steps = with_losses(iterations(35), losses)
    return [*steps[:10], *saved(10, 10.3), *steps[10:30], *saved(30, 30.3), *steps[30:], *DIED]


# numbers that went wrong without being NaN


def test_a_loss_that_jumped_and_stayed(tmp_path: Path) -> None:
    found = diagnose(tmp_path, {"rank0.log": two_saves(dict.fromkeys(range(22, 36), "1.1E+01"))})
    assert (found.resume.status, found.resume.iteration) == ("safe", 10)
    (why,) = (reason for reason in found.resume.reasons if "step 30" in reason)
    assert "the loss rose from about 4.48 to 11 and stayed there (rank0.log:24)" in why


@pytest.mark.parametrize("losses", [{22: "1.1E+01", 23: "9.9E+00"}, dict.fromkeys(range(22, 36), "4.9E+00"), {}])
def test_a_spike_that_passed_and_a_small_rise_are_no_reason(losses: dict[int, str], tmp_path: Path) -> None:
    assert diagnose(tmp_path, {"rank0.log": two_saves(losses)}).resume.iteration == 30


def test_a_loss_scale_that_fell_to_the_end(tmp_path: Path) -> None:
    lines = two_saves({})
    scale = 65536.0
    for at, line in enumerate(lines):
        step = line.partition("iteration ")[2].partition("/")[0].strip()
        if step.isdecimal() and int(step) >= 25 and "lm loss" in line:
            scale /= 2
            lines[at] = line.replace("loss scale: 1.0", f"loss scale: {scale}").replace(
                "skipped iterations:   0", "skipped iterations:   1"
            )
    found = diagnose(tmp_path, {"rank0.log": lines})
    assert found.resume.iteration == 10
    assert any("the loss scale fell from" in reason for reason in found.resume.reasons)


@pytest.mark.parametrize(
    ("steps", "iteration"),
    [(range(15, 25), 10), (range(5, 25), None), (range(22, 25), 20), (range(15, 18), 20), (range(24, 25), 20)],
)
def test_weights_without_nan_are_no_excuse_where_no_step_was_finite_any_more(
    steps: range, iteration: int | None, tmp_path: Path
) -> None:
    """The fixture's weights are finite; a state from which every step gives NaN is no place to resume from."""
    lines = iterations(24)
    for step in steps:
        line = lines[step - 1].replace(" lm loss: 4.483864E+00 |", "")
        lines[step - 1] = line.replace("nan iterations:   0", "nan iterations:   1")
    shutil.copytree(FIXTURES / "megatron_core", tmp_path / "ckpt")
    write(tmp_path, {"rank0.log": [*lines[:10], *saved(10, 10.3), *lines[10:20], *saved(20, 20.3), *lines[20:], *DIED]})
    resume = correlator.diagnose(tmp_path, workers=1).resume
    assert (resume.status, resume.iteration) == ("unsafe" if iteration is None else "safe", iteration)


# two runs and one directory


def test_a_save_begun_again_and_not_finished_is_half_overwritten(tmp_path: Path) -> None:
    first = [*arguments(world=1), *iterations(20), *saved(10, 10.5), *saved(20, 20.3)]
    again = [*iterations(20, first=11, at=40), *save_started(20, 70)]
    found = diagnose(tmp_path, {"rank0.log": [*first, *again, *DIED]})
    assert (found.resume.status, found.resume.iteration) == ("safe", 10)
    assert any("began to write it anew and did not finish" in reason for reason in found.resume.reasons)
    whole = diagnose(tmp_path / "b", {"rank0.log": [*first, *again, *save_finished(20, 71), *DIED]})
    assert whole.resume.iteration == 20


def test_a_start_from_random_weights_is_told(tmp_path: Path) -> None:
    fresh = [
        "WARNING: could not find the metadata file /mnt/ckpt/latest_checkpointed_iteration.txt",
        "    will not load any checkpoints and will start from random",
    ]
    lines = [*arguments(world=1), *fresh, *iterations(10), *saved(10, 10.5), *iterations(15, first=11), *DIED]
    found = diagnose(tmp_path, {"rank0.log": lines})
    assert any("began at random weights" in reason for reason in found.resume.reasons)
    shutil.copytree(FIXTURES / "megatron_core", tmp_path / "ckpt")
    found = correlator.diagnose(tmp_path, workers=1)
    assert found.resume.path == str(tmp_path / "ckpt/iter_0000020")
    assert any("began at random weights" in reason for reason in found.resume.reasons)


# the directory is found by itself


@pytest.mark.parametrize("place", ["ckpt", "mnt/ckpt", "elsewhere/run7"])
def test_a_directory_collected_with_the_logs(place: str, tmp_path: Path) -> None:
    write(tmp_path, {"rank0.log": [*iterations(24), *saved(20, 20.4), *DIED]})
    shutil.copytree(FIXTURES / "megatron_core", tmp_path / place)
    resume = correlator.diagnose(tmp_path, workers=1).resume
    assert (resume.status, resume.iteration) == ("safe", 20)
    assert resume.path == str(tmp_path / place / "iter_0000020")


def test_the_directory_that_the_logs_name(tmp_path: Path) -> None:
    store = tmp_path / "store"
    shutil.copytree(FIXTURES / "megatron_core", store)
    (store / "iter_0000020/__0_0.distcp").unlink()
    write(tmp_path / "logs", {"rank0.log": [*iterations(24), *saved(20, 20.4, str(store)), *DIED]})
    resume = correlator.diagnose(tmp_path / "logs", workers=1).resume
    assert (resume.status, resume.path) == ("safe", str(store / "iter_0000010"))


def test_a_path_that_climbs_out_is_not_followed(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "megatron_core", tmp_path / "outside")
    write(tmp_path / "logs", {"rank0.log": [*iterations(24), *saved(20, 20.4, "../outside"), *DIED]})
    resume = correlator.diagnose(tmp_path / "logs", workers=1).resume
    assert any("the files were not looked at" in reason for reason in resume.reasons)


# sizes: the launch, the log line and the directory


def mismatch(tp: int) -> Lines:
    error = f"AssertionError: tensor_model_parallel_size value from checkpoint (2) is not equal to the input argument value ({tp})."
    return [*arguments(world=4, tp=tp), *raises(error, rank=0)]


def test_a_mismatch_in_the_log_and_on_disk_is_one_verdict(tmp_path: Path) -> None:
    write(tmp_path, {"rank0.log": mismatch(4)})
    found = correlator.diagnose(tmp_path, checkpoints=FIXTURES / "megatron_legacy", workers=1)
    assert (found.verdict.class_, found.verdict.signature) == ("configuration", "checkpoint-tp-mismatch")
    assert "is of tp=2 pp=2" in found.verdict.summary
    assert "this launch is world=4 tp=4 pp=1" in found.verdict.summary
    assert found.resume.status == "safe"
    reasons = "\n".join(found.resume.reasons)
    assert "this launch: saved with tp=2, asked for tp=4: does not load as it is" in reasons
    assert "launch with tp=2 pp=2, or tools/checkpoint/convert.py" in reasons


def test_without_a_directory_nothing_is_claimed_of_it(tmp_path: Path) -> None:
    assert "On disk" not in diagnose(tmp_path, {"rank0.log": mismatch(4)}).verdict.summary


def test_a_launch_of_fitting_sizes_needs_no_word(tmp_path: Path) -> None:
    lines = [*arguments(world=2, tp=2), *iterations(24), *saved(20, 20.4), *DIED]
    write(tmp_path, {"rank0.log": lines})
    resume = correlator.diagnose(tmp_path, checkpoints=FIXTURES / "megatron_core", workers=1).resume
    assert not any("this launch" in reason for reason in resume.reasons)


def test_a_size_that_follows_from_the_logs_at_hand_is_not_that_of_the_launch(tmp_path: Path) -> None:
    """Only the log of rank 0 was collected and none states the size: that does not make it a run of one rank."""
    write(tmp_path, {"rank0.log": [*iterations(24), *saved(20, 20.4), *DIED]})
    shutil.copytree(FIXTURES / "megatron_core", tmp_path / "ckpt")
    resume = correlator.diagnose(tmp_path, workers=1).resume
    assert resume.iteration == 20
    assert not any("this launch" in reason for reason in resume.reasons)


def test_what_is_said_of_a_save_names_the_line(tmp_path: Path) -> None:
    found = diagnose(tmp_path, {"rank0.log": [*iterations(24), *saved(20, 20.4), *DIED]})
    assert "step 20: the logs say that it was saved (rank0.log:26)" in found.resume.reasons[0]


def test_the_command_reports_every_file_it_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    from correlator.checkpoints import scan

    seen: list[tuple[int, int]] = []
    scan(FIXTURES / "megatron_legacy", progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (8, 8)
    assert all(done <= total for done, total in seen)
    assert main(["checkpoints", str(FIXTURES / "megatron_legacy")]) == 0
