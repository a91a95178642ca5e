"""From lines to incidents: what is one occurrence, which part it plays, and what was survived."""

from pathlib import Path

import pytest
from joblogs import (
    agent,
    clock,
    diagnose,
    gloo_timeout,
    gpu_off_the_bus,
    iterations,
    kernel,
    labelled,
    logs_handled,
    peer_closed,
    raises,
    report,
    restarts,
    stops,
    torchrun,
    watchdog,
    worker_failed,
)

BAD_TOKEN = "ValueError: token 50312 is outside of the vocabulary of 50304"


def incidents(found, role):
    return [i for i in found.facts.incidents if i.role == role]


# --- one occurrence -------------------------------------------------------------------------------------------------


def test_what_one_rank_repeats_is_one_incident(tmp_path):
    found = diagnose(tmp_path, {"rank_0.log": [*iterations(3), *raises(BAD_TOKEN, rank=0), *raises(BAD_TOKEN, rank=0)]})
    (incident,) = incidents(found, "initiator")
    assert incident.ranks == (0,)


def test_the_same_error_on_two_ranks_is_two_incidents(tmp_path):
    files = {f"rank_{r}.log": [*iterations(3), *raises(BAD_TOKEN, rank=r)] for r in range(2)}
    found = diagnose(tmp_path, files)
    assert sorted(i.ranks for i in incidents(found, "initiator")) == [(0,), (1,)]


def test_time_outs_of_one_rank_in_two_groups_are_two_incidents(tmp_path):
    lines = [
        *iterations(3),
        *watchdog(0, 630, group="14(TENSOR_MODEL_PARALLEL_GROUP)"),
        *watchdog(0, 640, group="22(DATA_PARALLEL_GROUP)"),
    ]
    found = diagnose(tmp_path, {"rank_0.log": lines})
    assert len([i for i in incidents(found, "collateral") if i.event == "c10d.watchdog_timeout"]) == 2


def test_an_incident_is_dated_by_a_line_with_a_stamp_of_its_own(tmp_path):
    lines = [*iterations(3), *(x for at in (630, 640) for x in watchdog(0, at))]
    (incident,) = incidents(diagnose(tmp_path, {"rank_0.log": lines}), "collateral")
    assert not incident.inherited
    assert incident.bound is not None


def test_a_traceback_without_a_time_is_not_before_the_line_above_it_and_has_no_bound(tmp_path):
    found = diagnose(tmp_path, {"rank_0.log": [*iterations(3), *raises(BAD_TOKEN, rank=0)]})
    (incident,) = incidents(found, "initiator")
    assert incident.inherited
    assert incident.bound is None
    assert found.initiator.time_uncertainty_s is None


# --- which part it plays --------------------------------------------------------------------------------------------


def test_own_errors_initiate_lost_peers_are_collateral_and_what_the_launcher_does_is_teardown(tmp_path):
    files = torchrun({0: peer_closed(0), 1: [], 2: raises(BAD_TOKEN, rank=2), 3: gloo_timeout(3)}, {1: -15})
    found = diagnose(tmp_path, files)
    assert {i.ranks for i in incidents(found, "initiator")} == {(2,)}
    assert {(0,), (3,)} <= {i.ranks for i in incidents(found, "collateral")}
    assert "torchrun.signal_sent" in {i.event for i in incidents(found, "teardown")}
    assert not [i for i in incidents(found, "initiator") if i.event.startswith("torchrun.")]


def test_a_kernels_fatal_line_about_a_device_initiates_and_a_harmless_one_is_no_incident(tmp_path):
    lines = [
        *kernel(
            1,
            "gpu-a017",
            "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.133.20  Release Build  (builder@host)",
        ),
        *gpu_off_the_bus(31, "gpu-a017", "0000:43:00", 0),
    ]
    found = diagnose(tmp_path, {"gpu-a017.log": iterations(30), "dmesg/gpu-a017.log": lines})
    (incident,) = [i for i in found.facts.incidents if i.event.startswith("kernel.")]
    assert incident.role == "initiator"


def test_warnings_that_every_healthy_run_prints_are_no_incidents(tmp_path):
    lines = [
        "[W314 10:00:00.123456789 socket.cpp:207] [c10d] The hostname of the client socket cannot be retrieved. err=-3",
        "WARNING: could not find the metadata file /mnt/ckpt/latest_checkpointed_iteration.txt",
        *iterations(30),
    ]
    assert diagnose(tmp_path, {"rank_0.log": lines}).facts.incidents == []


# --- survived -------------------------------------------------------------------------------------------------------


def test_an_error_after_which_its_process_made_steps_is_no_incident(tmp_path):
    found = diagnose(
        tmp_path, {"rank_0.log": [*iterations(3), *logs_handled(4, "KeyError: 'loss'"), *iterations(9, first=4)]}
    )
    assert incidents(found, "initiator") == []


def in_a_container(at, lines):
    """Lines as a container runtime stores them, each with the time at which it was written."""
    return [f"{clock(at, '%Y-%m-%dT%H:%M:%S')}.250000000Z stderr F {line}" for line in lines]


def test_an_error_long_before_later_steps_of_the_whole_job_was_survived(tmp_path):
    lines = in_a_container(4, logs_handled(4, "KeyError: 'loss'"))
    found = diagnose(tmp_path, {"rank_0.log": lines, "rank_1.log": iterations(30)})
    assert incidents(found, "initiator") == []


def test_an_error_just_before_the_last_step_line_of_another_rank_was_not_survived(tmp_path):
    """Rank 1 prints the step that rank 0 had finished a moment before it failed."""
    lines = in_a_container(29, raises("KeyError: 'loss'"))
    found = diagnose(tmp_path, {"rank_0.log": lines, "rank_1.log": iterations(30)})
    assert [i.ranks for i in incidents(found, "initiator")] == [(0,)]


def test_an_error_of_unknown_time_is_not_survived_by_other_ranks_steps(tmp_path):
    found = diagnose(tmp_path, {"rank_0.log": raises(BAD_TOKEN, rank=0), "rank_1.log": iterations(30)})
    assert [i.ranks for i in incidents(found, "initiator")] == [(0,)]


def test_the_last_error_of_a_process_that_ended_badly_was_not_survived(tmp_path):
    """A framework logs the error and ends; step lines that a buffer held back until then come last."""
    files = {
        "rank_0.log": peer_closed(0),
        "rank_1.log": [*logs_handled(30, BAD_TOKEN, function="fit"), *iterations(30)],
        "agents/gpu-a017.log": [*worker_failed(31, 1, 1, 1), *report("gpu-a017", 31, (1, 1, 1), (0, 0, -15))],
    }
    found = diagnose(tmp_path, files)
    assert found.initiator.ranks == [1]
    assert found.verdict.class_ == "application"


def test_step_lines_that_a_buffer_held_back_do_not_outlive_the_traceback_that_ended_the_program(tmp_path):
    """Standard output goes to a file through a buffer, the traceback does not: the last steps follow it."""
    found = diagnose(
        tmp_path,
        {"rank_0.log": [*iterations(25), *raises(BAD_TOKEN), *iterations(30, first=26)], "rank_1.log": peer_closed(1)},
    )
    assert found.initiator.ranks == [0]


def test_steps_after_a_restart_do_not_make_the_first_fault_harmless(tmp_path):
    lines = [
        *iterations(30), *raises(BAD_TOKEN, rank=1), *worker_failed(31, 1, 1, 1), *restarts(31),
        *raises("RuntimeError: Gloo connectFullMesh failed with [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:144] no error", rank=0),
        *worker_failed(40, 0, 0, 1), *report("gpu-a017", 40, (0, 0, 1), (1, 1, -15)),
    ]  # fmt: skip
    assert diagnose(tmp_path, {"gpu-a017.log": lines}).initiator.ranks == [1]


def test_labels_keep_the_steps_of_one_rank_apart_from_the_error_of_another(tmp_path):
    """In one stream rank 1's step line arrives after rank 0's traceback."""
    lines = [
        *labelled(1, iterations(29)),
        *labelled(0, raises(BAD_TOKEN)),
        *labelled(1, iterations(30, first=30)),
        *labelled(0, ["bye"]),
    ]
    found = diagnose(tmp_path, {"slurm-4242.out": lines})
    assert [i.ranks for i in incidents(found, "initiator")] == [(0,)]


def test_a_stop_by_the_launcher_is_nobodys_error(tmp_path):
    lines = [*iterations(30), *stops(31, 0, 1), *agent(31, "Stopping worker group", level="I")]
    assert incidents(diagnose(tmp_path, {"gpu-a017.log": lines}), "initiator") == []


@pytest.mark.parametrize(("year", "class_"), [("2022", "application"), ("2025", "hardware")])
def test_a_record_of_the_machine_from_before_the_job_is_history(tmp_path: Path, year: str, class_: str) -> None:
    """A board controller's log holds years; only what it says of the time of the job is part of the failure."""
    words = {0: iterations(3), 1: raises("ValueError: bad sample", rank=1), 2: [], 3: []}
    files = torchrun(words, {1: 1}) if year == "2022" else torchrun({0: iterations(3), 1: [], 2: [], 3: []}, {3: -9})
    files["sel-gpu-a018.txt"] = [f" 1a5 | 03/14/{year} | 10:00:31 | Memory DIMM_A3 | Uncorrectable ECC | Asserted"]
    diagnosis = diagnose(tmp_path / "logs", files)
    assert diagnosis.verdict.class_ == class_
    assert diagnosis.topology.node_of_file["sel-gpu-a018.txt"] == "gpu-a018"
