"""Did anything fail at all? A run is clean on positive evidence, and a dead one is never called clean."""

import pytest
from joblogs import (
    barrier_missing,
    cannot_connect,
    death_signal,
    diagnose,
    gpu_off_the_bus,
    iterations,
    kernel,
    logs_handled,
    peer_closed,
    phase,
    raises,
    report,
    restarts,
    save_finished,
    save_started,
    slurm_cancelled,
    srun_exit,
    stops,
    training_done,
    watchdog,
    worker_failed,
)

BAD_TOKEN = "ValueError: token 50312 is outside of the vocabulary of 50304"


def test_a_closing_line_and_no_bad_exit_is_a_clean_run(tmp_path):
    found = diagnose(tmp_path, {"rank_0.log": [*phase(0), *iterations(1000, first=995), *training_done(1001)]})
    assert found.verdict.class_ == "none"
    assert found.initiator.ranks == []
    assert found.document.alternatives == []


def test_the_last_step_of_all_is_an_orderly_end_too(tmp_path):
    found = diagnose(tmp_path, {"rank_0.log": iterations(1000, first=995)})
    assert found.verdict.class_ == "none"


def test_handled_tracebacks_do_not_make_a_clean_run_fail(tmp_path):
    lines = [
        *iterations(20, total=40),
        *logs_handled(20.5, "KeyError: 'optional_metric'"),
        *logs_handled(20.7, "ConnectionResetError: [Errno 104] Connection reset by peer"),
        *iterations(40, first=21, total=40),
        *training_done(41),
    ]
    found = diagnose(
        tmp_path,
        {"rank_0.log": lines, "rank_1.log": [*phase(0), *logs_handled(10, "OSError: [Errno 5] Input/output error")]},
    )
    assert found.verdict.class_ == "none"
    assert found.initiator.ranks == []


def test_the_launchers_ordinary_farewell_is_not_a_failure(tmp_path):
    lines = [*iterations(40, total=40), *training_done(41), *stops(42)]
    assert diagnose(tmp_path, {"gpu-a017.log": lines}).verdict.class_ == "none"


def test_an_error_after_the_closing_line_is_a_failure(tmp_path):
    lines = [
        *iterations(40, total=40),
        *training_done(41),
        *raises("OSError: [Errno 28] No space left on device", rank=0),
    ]
    assert diagnose(tmp_path, {"rank_0.log": lines}).verdict.class_ not in ("none",)


def test_a_bandwidth_test_that_prints_its_mean_came_to_its_end(tmp_path):
    warning = 'gpu-a017:4711:4711 [0] init.cc:125 NCCL WARN Missing "iommu=pt" from kernel command line'
    mean = ["# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 18.2112"]
    assert diagnose(tmp_path / "whole", {"test.log": [warning, *mean]}).verdict.class_ == "none"
    assert diagnose(tmp_path / "cut", {"test.log": [warning]}).verdict.class_ != "none"


def test_an_undecided_answer_shows_how_a_node_ended_and_not_whom_its_launcher_stopped(tmp_path):
    stopped = [
        f"[2025-03-14 10:00:33,{n}00] [INFO] [launch.py:319:sigkill_handler] Killing subprocess {601 + n}"
        for n in range(8)
    ]
    ended = "['/usr/bin/python3', '-u', 'train.py', '--local_rank=7'] exits with return code = -6"
    lines = [*stopped, f"[2025-03-14 10:00:34,000] [ERROR] [launch.py:325:sigkill_handler] {ended}"]
    found = diagnose(tmp_path, {"train.log": lines})
    assert found.verdict.class_ == "unknown"
    assert "return code = -6" in found.document.evidence[0].text


def accounted(*states):
    head = ["JobID           JobName  Partition    Account  AllocCPUS      State ExitCode"]
    return head + [
        f"{job:<12} python3        gpu       acct         64  {state}      {code}" for job, state, code in states
    ]


def test_a_job_that_the_accounting_calls_completed_is_clean(tmp_path):
    rows = accounted(("77", "COMPLETED", "0:0"), ("77.0", "COMPLETED", "0:0"))
    assert diagnose(tmp_path, {"rank_0.log": iterations(30), "sacct.txt": rows}).verdict.class_ == "none"


def test_a_completed_step_of_a_job_is_not_the_jobs_end(tmp_path):
    rows = accounted(("77.extern", "COMPLETED", "0:0"))
    assert diagnose(tmp_path, {"rank_0.log": iterations(30), "sacct.txt": rows}).verdict.class_ != "none"


def test_a_job_that_failed_is_not_clean_for_its_completed_step(tmp_path):
    rows = accounted(("77", "FAILED   ", "1:0"), ("77.extern", "COMPLETED", "0:0"))
    assert diagnose(tmp_path, {"rank_0.log": iterations(30), "sacct.txt": rows}).verdict.class_ != "none"


@pytest.mark.parametrize("how", ["Segmentation fault (core dumped)", "Exited with exit code 1"])
def test_a_closing_line_of_one_rank_does_not_hide_the_bad_exit_of_another(tmp_path, how):
    lines = [*iterations(40, total=40), *training_done(41), *srun_exit("gpu-a018", "3", how)]
    assert diagnose(tmp_path, {"slurm-4242.out": lines}).verdict.class_ != "none"


def test_neither_error_nor_end_is_unknown_and_accuses_nobody(tmp_path):
    found = diagnose(tmp_path, {"rank_0.log": iterations(30)})
    assert found.verdict.class_ == "unknown"
    assert found.verdict.title == "Ended without an error"
    assert found.initiator.ranks == []


def test_an_unexplained_end_says_which_files_would_settle_it(tmp_path):
    found = diagnose(tmp_path, {"gpu-a017.log": iterations(30), "gpu-a018.log": phase(0)})
    assert any("dmesg" in action.title for action in found.document.actions)


def test_a_run_stopped_by_sigterm_in_good_order_is_no_clean_end(tmp_path):
    lines = [
        *iterations(30),
        *save_started(30, 31),
        *save_finished(30, 32),
        "[exiting program after receiving SIGTERM.] datetime: 2025-03-14 10:00:33 ",
    ]
    found = diagnose(tmp_path, {"gpu-a017.log": [*lines, *death_signal(34, 0, 1)]})
    assert found.verdict.class_ == "infrastructure"


def test_a_restart_that_recovers_leaves_the_fault_it_recovered_from_as_the_only_one(tmp_path):
    lines = [
        *iterations(30, total=60), *raises(BAD_TOKEN, rank=1), *worker_failed(31, 1, 1, 1), *restarts(31),
        *iterations(60, first=21, at=60, total=60), *training_done(121),
    ]  # fmt: skip
    found = diagnose(tmp_path, {"gpu-a017.log": lines})
    assert found.initiator.ranks == [1]
    assert found.verdict.class_ == "application"


def test_the_fault_that_ended_the_job_is_the_answer_and_not_the_one_it_recovered_from(tmp_path):
    """Rank 1 fails, the launcher restarts all, sixty more steps are made, then rank 0 fails and nothing restarts."""
    lines = [
        *iterations(30), *raises(BAD_TOKEN, rank=1), *worker_failed(31, 1, 1, 1), *restarts(31),
        *iterations(90, first=21, at=60), *raises("IndexError: index 8 is out of bounds for axis 0 with size 8", rank=0),
        *worker_failed(151, 0, 0, 1), *report("gpu-a017", 151, (0, 0, 1), (1, 1, -15)),
    ]  # fmt: skip
    assert diagnose(tmp_path, {"gpu-a017.log": lines}).initiator.ranks == [0]


@pytest.mark.parametrize(
    "lines",
    [
        peer_closed(0),
        watchdog(0, 630),
        barrier_missing(0, 630, [3]),
        cannot_connect(630, "gpu-a017", 29500),
        raises(BAD_TOKEN, rank=0),
        slurm_cancelled(630, "TIME LIMIT"),
        srun_exit("gpu-a018", "3", "Killed"),
        death_signal(630, 0, 1),
        kernel(630, "gpu-a017", "NVRM: Xid (PCI:0000:43:00): 79, pid=4800, name=python3, GPU has fallen off the bus."),
    ],
    ids=[
        "lost peer",
        "time-out",
        "barrier",
        "no rendezvous",
        "own error",
        "time limit",
        "killed",
        "told to stop",
        "lost gpu",
    ],
)
def test_nothing_that_ends_a_job_is_taken_for_a_clean_run(tmp_path, lines):
    assert diagnose(tmp_path, {"train.log": [*iterations(30), *lines]}).verdict.class_ != "none"


def test_a_device_error_after_the_orderly_end_of_the_run_did_not_end_it(tmp_path):
    files = {
        "gpu-a017.log": [*iterations(40, total=40), *training_done(41)],
        "dmesg/gpu-a017.log": gpu_off_the_bus(9000, "gpu-a017", "0000:43:00", 0),
    }
    found = diagnose(tmp_path, files)
    assert found.initiator.ranks == []


def test_a_job_that_is_stopped_after_its_training_was_done_hung_at_its_exit(tmp_path):
    files = {
        "gpu-a017.log": [*iterations(40, total=40), *training_done(41), *death_signal(900, 0, 1)],
        "gpu-a018.log": [*phase(0), *death_signal(900, 2, 3)],
    }
    found = diagnose(tmp_path, files)
    assert found.verdict.class_ == "unknown"
    assert "did not end by itself" in found.verdict.title
    assert (found.initiator.ranks, found.initiator.nodes) == ([], [])


def test_an_end_elsewhere_is_later_only_beyond_what_the_clocks_leave_open(tmp_path):
    """Nothing ties the two clocks together: the error may as well lie behind the other node's last step."""
    files = {
        "gpu-a017.log": [*iterations(40, total=40), *training_done(41)],
        "gpu-a018.log": [*phase(20), *logs_handled(21, "KeyError: 'x'"), *raises(BAD_TOKEN, rank=2)],
    }
    assert diagnose(tmp_path, files).verdict.class_ == "application"


@pytest.mark.parametrize(
    "last",
    [
        "[2025-03-14 10:00:40,000] [INFO] [launch.py:350:main] Process 4800 exits successfully.",
        "I0314 10:00:40.000000 4700 torch/distributed/elastic/agent/server/api.py:879] [default] worker group successfully "
        "finished. Waiting 300 seconds for other agents to finish.",
    ],
)
def test_a_launchers_word_that_all_ended_well_is_an_orderly_end(tmp_path, last):
    assert diagnose(tmp_path, {"train.log": [*phase(0), last]}).verdict.class_ == "none"


def test_a_traceback_that_the_end_of_its_file_cuts_accuses_weakly(tmp_path):
    lines = raises("RuntimeErr", rank=1)
    found = diagnose(tmp_path, {"rank_0.log": iterations(30), "rank_1.log": lines})
    assert found.verdict.confidence < 0.5
