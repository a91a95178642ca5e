"""What one line states by itself: the scheduler's word, a signal from outside, an error of one's own, an exit status.

Each rule has an example where it holds and look-alikes where it must not win.
"""

import pytest
from joblogs import (
    arguments,
    death_signal,
    diagnose,
    dump_signal,
    escalates,
    findings,
    gloo_timeout,
    gpu_off_the_bus,
    iterations,
    labelled,
    logs_handled,
    nccl_init,
    oom_kill,
    peer_closed,
    phase,
    pid,
    raises,
    rendezvous,
    report,
    slurm_cancelled,
    srun_aborts,
    srun_exit,
    stops,
    torchrun,
    watchdog,
    worker_failed,
    xid,
)

OUT_OF_VOCABULARY = "ValueError: token 50312 is outside of the vocabulary of 50304"
OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.11 GiB of "
    "which 1.52 GiB is free. Process 4807 has 77.58 GiB memory in use."
)


# --- an end that is everybody's -------------------------------------------------------------------------------------


def test_where_all_ranks_die_of_one_signal_none_is_singled_out(tmp_path):
    lines = [*phase(0, "launching"), *report("gpu-a017", 31, *((r, r, -11) for r in range(4)))]
    found = diagnose(tmp_path, {"gpu-a017.log": lines})
    assert found.initiator.scope == "all"
    assert found.initiator.ranks == [0, 1, 2, 3]


def test_the_rank_that_alone_dies_of_a_signal_is_the_one(tmp_path):
    lines = [*phase(0, "launching"), *report("gpu-a017", 31, (2, 2, -11), *((r, r, -15) for r in (0, 1, 3)))]
    assert diagnose(tmp_path, {"gpu-a017.log": lines}).initiator.ranks == [2]


NAN_LIMIT = "RuntimeError: number of nan iterations (6) exceeds the limit at iteration 23"


@pytest.mark.parametrize(
    ("error", "why"), [(NAN_LIMIT, "whose it was is not told"), (OUT_OF_VOCABULARY, "no single rank is to blame")]
)
def test_a_bad_number_that_all_ranks_report_may_be_one_ranks_and_another_error_is_everybodys(tmp_path, error, why):
    words = {rank: raises(error, rank=rank) for rank in range(4)}
    found = diagnose(tmp_path, torchrun(words, head={3: iterations(22)}))
    assert found.initiator.scope == "all"
    assert why in found.verdict.summary


# --- the scheduler's word about the whole job -----------------------------------------------------------------------


def test_a_time_limit_is_the_schedulers_doing_and_accuses_neither_a_rank_nor_a_node(tmp_path):
    lines = [
        *iterations(40),
        *slurm_cancelled(41, "TIME LIMIT"),
        *srun_aborts(),
        *srun_exit("gpu-a017", "0-3", "Terminated"),
        *srun_exit("gpu-a018", "4-7", "Terminated"),
    ]
    found = diagnose(tmp_path, {"slurm-4242.out": lines})
    assert found.verdict.class_ == "infrastructure"
    assert found.verdict.signature == "slurm-time-limit"
    assert found.initiator.ranks == []
    assert found.initiator.nodes == []
    assert found.initiator.scope == "none"


def test_the_node_that_failed_is_named_and_not_the_one_on_which_the_notice_is_printed(tmp_path):
    notice = slurm_cancelled(41, "NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS", host="gpu-a017")
    lines = [*iterations(40), *notice, "srun: error: Node failure on gpu-a018"]
    found = diagnose(tmp_path, {"slurm-4242.out": lines})
    assert found.verdict.class_ == "infrastructure"
    assert found.initiator.nodes == ["gpu-a018"]


def test_a_time_limit_that_ends_a_job_stalled_by_an_earlier_own_error_is_not_the_cause(tmp_path):
    lines = [
        *iterations(20, at=0),
        *labelled(1, raises(OUT_OF_VOCABULARY, rank=1)),
        *slurm_cancelled(7200, "TIME LIMIT"),
        *srun_exit("gpu-a017", "0-3", "Terminated"),
    ]
    found = diagnose(tmp_path, {"slurm-4242.out": lines})
    assert found.initiator.ranks == [1]
    assert found.verdict.class_ == "application"


def test_a_cancel_because_of_a_failed_task_is_no_word_from_outside(tmp_path):
    lines = [
        *iterations(20),
        *srun_exit("gpu-a018", "5", "Killed"),
        *slurm_cancelled(21, "TASK FAILURE"),
        *srun_exit("gpu-a017", "0-3", "Terminated"),
        *srun_exit("gpu-a018", "4,6-7", "Terminated"),
    ]
    found = diagnose(tmp_path, {"slurm-4242.out": lines})
    assert found.initiator.ranks == [5]
    assert "scheduler ended the step" not in findings(found)


def test_a_preemption_is_infrastructure_and_accuses_no_rank(tmp_path):
    lines = [*iterations(40), *slurm_cancelled(41, "PREEMPTION"), *srun_exit("gpu-a017", "0-3", "Terminated")]
    found = diagnose(tmp_path, {"slurm-4242.out": lines})
    assert found.verdict.class_ == "infrastructure"
    assert found.initiator.ranks == []


# --- a launcher that was told to stop -------------------------------------------------------------------------------


def test_a_death_signal_on_one_node_while_the_others_lose_their_peers_points_to_that_node(tmp_path):
    files = torchrun({0: peer_closed(0, "10.0.0.18"), 1: peer_closed(1, "10.0.0.18")})
    start = rendezvous(0, "gpu-a018", [2, 3], group_rank=1, world=4)
    files["gpu-a018.log"] = [*start, *iterations(30), *death_signal(31, 2, 3)]
    found = diagnose(tmp_path, files)
    assert found.verdict.class_ == "infrastructure"
    assert found.initiator.nodes == ["gpu-a018"]
    assert found.initiator.scope == "node"
    assert found.initiator.ranks == [2, 3]


def test_a_death_signal_on_all_nodes_singles_out_none(tmp_path):
    files = {
        "gpu-a017.log": [*phase(0), *death_signal(31, 0, 1)],
        "gpu-a018.log": [*iterations(30), *death_signal(31, 2, 3)],
    }
    found = diagnose(tmp_path, files)
    assert found.verdict.class_ == "infrastructure"
    assert found.initiator.ranks == []
    assert found.initiator.nodes == []


def two_nodes_that_are_both_told(first_loses):
    """Rank 2 and 3 are stopped on the second node; the first one's ranks say ``first_loses`` and are stopped later."""
    words = [line for rank in (0, 1) for line in first_loses(rank)]
    return {
        "gpu-a017.log": [*rendezvous(0, "gpu-a017", [0, 1], group_rank=0, world=4), *words, *death_signal(35, 0, 1)],
        "gpu-a018.log": [
            *rendezvous(0, "gpu-a018", [2, 3], group_rank=1, world=4),
            *iterations(30),
            *death_signal(31, 2, 3),
        ],
    }


def test_a_death_signal_that_comes_to_ranks_which_had_lost_their_peers_is_not_the_first(tmp_path):
    found = diagnose(tmp_path, two_nodes_that_are_both_told(peer_closed))
    assert found.verdict.class_ == "infrastructure"
    assert (found.initiator.nodes, found.initiator.ranks) == (["gpu-a018"], [2, 3])


def test_a_job_that_hung_and_was_then_stopped_everywhere_was_not_stopped_on_the_quiet_node_first(tmp_path):
    found = diagnose(tmp_path, two_nodes_that_are_both_told(gloo_timeout))
    assert findings(found)["launcher was signalled from outside"].incident.nodes == ()


def test_a_launcher_that_is_told_to_stop_while_it_waits_for_a_hung_worker_did_not_begin_it(tmp_path):
    """Rank 0 hangs; its sibling and the other node time out; then somebody stops the launcher that waits for rank 0."""
    files = torchrun({0: [], 1: gloo_timeout(1), 2: gloo_timeout(2), 3: gloo_timeout(3)})
    start = rendezvous(0, "gpu-a017", [0, 1], group_rank=0, world=4)
    files["gpu-a017.log"] = [*start, *phase(0), *gloo_timeout(1), *stops(92, 0), *death_signal(110, 0)]
    found = diagnose(tmp_path, files)
    assert found.verdict.signature == "rank-hang"
    assert found.initiator.ranks == [0]


def test_the_signals_that_the_scheduler_sends_are_explained_by_what_it_says(tmp_path):
    streams = [*labelled(0, death_signal(40, 0, 1)), *labelled(1, death_signal(40, 2, 3))]
    found = diagnose(tmp_path, {"slurm-4242.out": [*streams, *slurm_cancelled(41, "TIME LIMIT")]})
    assert found.verdict.signature == "slurm-time-limit"
    assert "TIME LIMIT" in found.initiator.first_error.text


def test_a_death_signal_is_not_one_nodes_alone_where_the_other_nodes_were_not_collected(tmp_path):
    start = rendezvous(0, "gpu-a017", [0, 1], group_rank=0, world=4)
    found = diagnose(tmp_path, {"gpu-a017.log": [*start, *iterations(30), *death_signal(31, 0, 1)]})
    assert found.verdict.class_ == "infrastructure"
    assert found.initiator.ranks == []
    assert found.initiator.nodes == []


def test_siblings_stopped_by_their_own_launcher_were_not_told_from_outside(tmp_path):
    files = torchrun(
        {0: peer_closed(0), 1: [], 2: raises(OUT_OF_VOCABULARY, rank=2), 3: []}, {1: -15, 3: -15}
    )  # fmt: skip
    found = diagnose(tmp_path, files)
    assert "launcher was signalled from outside" not in findings(found)
    assert found.initiator.ranks == [2]


def test_death_signals_that_srun_sends_after_a_bad_exit_do_not_hide_that_exit(tmp_path):
    first = [
        *raises(OUT_OF_VOCABULARY, rank=1),
        *worker_failed(31, 1, 1, 1),
        *report("gpu-a017", 31, (1, 1, 1), (0, 0, -15)),
    ]
    lines = [
        *labelled(1, iterations(30)),
        *labelled(0, first),
        *srun_exit("gpu-a017", "0", "Exited with exit code 1"),
        *srun_aborts(),
        *labelled(1, death_signal(34, 2, 3)),
        *srun_exit("gpu-a018", "1", "Exited with exit code 1"),
    ]
    found = diagnose(tmp_path, {"slurm-4242.out": lines})
    assert found.initiator.ranks == [1]
    assert found.verdict.class_ == "application"


def test_ctrl_c_is_named_as_a_persons_doing(tmp_path):
    found = diagnose(tmp_path, {"gpu-a017.log": [*iterations(30), *death_signal(31, 0, 1, number=2)]})
    assert "SIGINT" in found.verdict.title


# --- an error of one's own ------------------------------------------------------------------------------------------


def test_the_rank_with_an_error_of_its_own_wins_over_those_that_lost_their_peers(tmp_path):
    files = torchrun({0: peer_closed(0), 1: peer_closed(1), 3: raises(OUT_OF_VOCABULARY, rank=3), 2: peer_closed(2)})
    found = diagnose(tmp_path, files)
    assert found.initiator.ranks == [3]
    assert found.initiator.nodes == ["gpu-a018"]
    assert not found.initiator.silent
    assert found.document.collateral.ranks == [0, 1, 2]


def test_the_first_to_report_is_a_victim_even_if_its_clock_says_earlier(tmp_path):
    files = torchrun(
        {0: peer_closed(0), 1: peer_closed(1), 3: raises(OUT_OF_VOCABULARY, rank=3), 2: peer_closed(2)},
        late={"gpu-a017": 0.0, "gpu-a018": 80.0},
    )
    found = diagnose(tmp_path, files)
    assert found.initiator.ranks == [3]


def test_an_exception_after_which_the_same_process_trains_on_is_not_the_cause(tmp_path):
    files = torchrun(
        {0: peer_closed(0), 1: [], 2: raises(OUT_OF_VOCABULARY, rank=2), 3: peer_closed(3)}, {1: -15},
        head={0: [*logs_handled(2, "KeyError: 'optional_metric'"), *iterations(30)]},
    )  # fmt: skip
    found = diagnose(tmp_path, files)
    assert found.initiator.ranks == [2]


def test_a_lost_connection_to_a_peer_is_never_an_error_of_ones_own(tmp_path):
    found = diagnose(tmp_path, torchrun({r: peer_closed(r) for r in range(4)}))
    assert "own error" not in findings(found)
    assert found.verdict.class_ == "unknown"
    assert found.initiator.ranks == []


def test_the_launchers_closing_traceback_is_not_an_error_of_its_own(tmp_path):
    files = {
        "gpu-a017.log": [
            *iterations(30),
            *worker_failed(31, 1, 1, -9),
            *report("gpu-a017", 31, (1, 1, -9), (0, 0, -15)),
        ]
    }
    assert "own error" not in findings(diagnose(tmp_path, files))


def test_teardown_exceptions_of_the_others_do_not_compete_with_the_cause(tmp_path):
    interrupted = raises("KeyboardInterrupt", rank=0)
    reader = raises("RuntimeError: DataLoader worker (pid 4991) is killed by signal: Terminated.", rank=1)
    files = torchrun({0: interrupted, 1: reader, 2: raises(OUT_OF_VOCABULARY, rank=2), 3: peer_closed(3)})
    assert diagnose(tmp_path, files).initiator.ranks == [2]


def test_the_same_error_on_every_rank_before_the_first_step_accuses_no_single_rank(tmp_path):
    missing = "FileNotFoundError: [Errno 2] No such file or directory: '/mnt/data/corpus.idx'"
    found = diagnose(tmp_path, torchrun({r: raises(missing, function="main", text="open(path)") for r in range(4)}))
    assert found.initiator.scope == "all"
    assert found.verdict.class_ == "configuration"


def test_the_same_kind_of_error_on_one_rank_after_many_steps_accuses_that_rank(tmp_path):
    missing = raises("FileNotFoundError: [Errno 2] No such file or directory: '/mnt/data/part-0031.bin'", rank=1)
    files = torchrun({0: peer_closed(0), 1: missing, 2: peer_closed(2), 3: peer_closed(3)}, head={0: iterations(30)})
    found = diagnose(tmp_path, files)
    assert found.initiator.ranks == [1]
    assert found.initiator.scope == "rank"


def test_an_error_without_a_rank_takes_the_rank_that_the_launcher_names_first(tmp_path):
    files = torchrun({0: peer_closed(0), 1: peer_closed(1), 3: raises(OUT_OF_VOCABULARY), 2: []}, {2: -15})
    assert diagnose(tmp_path, files).initiator.ranks == [3]


def test_an_error_without_a_rank_stays_with_its_node_where_the_launcher_leaves_a_choice(tmp_path):
    files = torchrun({0: peer_closed(0), 1: peer_closed(1), 3: raises(OUT_OF_VOCABULARY), 2: []}, {2: -15})
    files["gpu-a018.log"] = [line for line in files["gpu-a018.log"] if line in raises(OUT_OF_VOCABULARY)]
    found = diagnose(tmp_path, files)
    assert found.initiator.ranks == []
    assert found.initiator.nodes == ["gpu-a018"]


def test_far_apart_occurrences_of_one_error_are_not_blamed_together(tmp_path):
    def xids(at, bus):
        return xid(at, "gpu-a017", bus, 79, "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")

    inits = [line for r in range(2) for line in nccl_init("gpu-a017", r, world=2, bus=("1b000", "43000")[r], gpu=r)]
    files = {
        "gpu-a017.log": [*inits, *iterations(100), *watchdog(0, 700, seconds=600)],
        "dmesg/gpu-a017.log": [*xids(100.5, "0000:43:00"), *xids(5000, "0000:1b:00")],
    }
    assert diagnose(tmp_path, files).initiator.ranks == [1]


# --- the device's own error -----------------------------------------------------------------------------------------

INITS = [
    line
    for rank, bus in enumerate(("1b000", "43000", "1b000", "43000"))
    for line in nccl_init(("gpu-a017", "gpu-a018")[rank // 2], rank, world=4, bus=bus, gpu=rank % 2)
]


def four_that_wait(waiting=(0, 1, 2), at=630.0):
    """Two nodes, four ranks with named devices; some ranks time out ``at`` after ten minutes."""
    return {
        "gpu-a017.log": [*INITS[:2], *phase(0), *(x for r in waiting if r < 2 for x in watchdog(r, at + r / 10))],
        "gpu-a018.log": [*INITS[2:], *iterations(30), *(x for r in waiting if r > 1 for x in watchdog(r, at + r / 10))],
    }


def test_a_lost_gpu_before_the_stall_is_joined_to_its_rank_by_the_bus_id(tmp_path):
    files = four_that_wait() | {"journal/gpu-a018.log": gpu_off_the_bus(30.6, "gpu-a018", "0000:43:00", 3)}
    found = diagnose(tmp_path, files)
    assert found.verdict.class_ == "hardware"
    assert found.initiator.ranks == [3]
    assert found.initiator.gpus[0].pci_bus_id == "0000:43:00"


def test_the_same_bus_id_on_another_node_is_another_gpu(tmp_path):
    files = four_that_wait((1, 2, 3)) | {
        "journal/gpu-a017.log": xid(30.6, "gpu-a017", "0000:1b:00", 79, "GPU has fallen off the bus.")
    }
    assert diagnose(tmp_path, files).initiator.ranks == [0]


def test_a_device_error_after_the_stall_began_did_not_cause_it(tmp_path):
    after = xid(635, "gpu-a018", "0000:1b:00", 79, f"pid={pid(2)}, name=python3, GPU has fallen off the bus.")
    found = diagnose(tmp_path, four_that_wait() | {"journal/gpu-a018.log": after})
    assert found.initiator.ranks != [2]


def test_a_teardown_xid_is_no_cause(tmp_path):
    teardown = xid(633, "gpu-a018", "0000:1b:00", 45, f"pid={pid(2)}, name=python3, Ch 00000010")
    found = diagnose(tmp_path, four_that_wait() | {"journal/gpu-a018.log": teardown})
    assert found.initiator.ranks != [2]
    assert found.verdict.class_ != "hardware"


def test_an_application_xid_that_returns_on_one_device_points_to_the_device(tmp_path):
    again = [
        x for n in range(3) for x in xid(n * 4000.0, "gpu-a018", "0000:43:00", 31, f"pid={5000 + n}, name=python3, Ch 00000008, intr 10000000. MMU Fault: ENGINE GRAPHICS GPC3")
    ]  # fmt: skip
    found = diagnose(tmp_path, {"journal/gpu-a018.log": again, "gpu-a018.log": [*INITS[2:], *iterations(5)]})
    assert found.verdict.class_ == "hardware"


def test_an_application_xid_that_moves_between_devices_points_to_the_program(tmp_path):
    moving = [
        x for n, bus in enumerate(("0000:43:00", "0000:1b:00", "0000:43:00"))
        for x in xid(n * 4000.0, "gpu-a018", bus, 31, f"pid={5000 + n}, name=python3, Ch 00000008, intr 10000000. MMU Fault: ENGINE GRAPHICS GPC3")
    ]  # fmt: skip
    found = diagnose(tmp_path, {"journal/gpu-a018.log": moving, "gpu-a018.log": [*INITS[2:], *iterations(5)]})
    assert found.verdict.class_ != "hardware"


def test_the_oom_killer_is_joined_to_its_rank_by_the_pid(tmp_path):
    files = torchrun(
        {0: peer_closed(0), 1: peer_closed(1), 2: [], 3: peer_closed(3)}, {2: -9}, head={3: iterations(30)}
    )
    files["journal/gpu-a018.log"] = oom_kill(31, "gpu-a018", pid(2))
    found = diagnose(tmp_path, files)
    assert found.initiator.ranks == [2]
    assert "memory" in found.verdict.title


# --- an exit status that no chain of orderly events produces --------------------------------------------------------


@pytest.mark.parametrize("code", [-9, -11, -7, 3])
def test_a_process_that_ends_abruptly_and_says_nothing_is_the_initiator(tmp_path, code):
    files = torchrun(
        {0: peer_closed(0), 1: peer_closed(1), 2: [], 3: peer_closed(3)}, {2: code}, head={3: iterations(30)}
    )
    found = diagnose(tmp_path, files)
    assert found.initiator.ranks == [2]
    assert found.initiator.silent


def test_a_lone_sigkill_does_not_tell_whose_fault_it_is(tmp_path):
    files = torchrun(
        {0: peer_closed(0), 1: peer_closed(1), 2: [], 3: peer_closed(3)}, {2: -9}, head={3: iterations(30)}
    )
    assert diagnose(tmp_path, files).verdict.class_ == "unknown"


def test_sigkill_after_the_launchers_escalation_is_a_hang(tmp_path):
    files = torchrun(
        {0: peer_closed(0), 1: peer_closed(1), 3: peer_closed(3), 2: []}, {2: -9}, head={3: iterations(30)}
    )
    lines = files["gpu-a018.log"]
    failed = lines.index(*worker_failed(32, 3, 1, 1))
    files["gpu-a018.log"] = [*lines[:failed], *stops(32, 2), *escalates(62, 2), *lines[failed:]]
    found = diagnose(tmp_path, files)
    assert found.initiator.ranks == [2]
    assert found.verdict.signature == "rank-hang"
    assert "ended with a status of its own" not in findings(found)


def test_sigterm_and_sigabrt_of_the_others_are_explained_exits(tmp_path):
    files = torchrun({0: peer_closed(0), 1: [], 2: raises(OUT_OF_VOCABULARY, rank=2), 3: []}, {1: -15, 3: -6})
    found = diagnose(tmp_path, files)
    assert "ended with a status of its own" not in findings(found)
    assert found.initiator.ranks == [2]


def test_what_srun_kills_after_a_bad_exit_is_no_sudden_death(tmp_path):
    lines = [
        *labelled(7, iterations(30)),
        *labelled(2, raises(OUT_OF_VOCABULARY, rank=2)),
        *srun_exit("gpu-a017", "2", "Exited with exit code 1"),
        *srun_exit("gpu-a017", "0-1,3", "Killed"),
        *srun_exit("gpu-a018", "4-7", "Killed"),
    ]
    found = diagnose(tmp_path, {"slurm-4242.out": lines})
    assert found.initiator.ranks == [2]
    assert "ended with a status of its own" not in findings(found)


def test_what_srun_kills_after_its_abort_notice_is_no_sudden_death(tmp_path):
    lines = [
        *labelled(3, iterations(30)),
        *srun_aborts(),
        *slurm_cancelled(31, "TIME LIMIT"),
        *srun_exit("gpu-a017", "0-3", "Killed"),
    ]
    found = diagnose(tmp_path, {"slurm-4242.out": lines})
    assert "ended with a status of its own" not in findings(found)
    assert found.initiator.ranks == []


def test_the_dump_signals_sender_is_only_the_first_observer(tmp_path):
    told = [x for r in (0, 1, 3) for x in dump_signal(r, 632, sender=0)]
    files = {
        "gpu-a017.log": [*arguments(world=4), *phase(0), *watchdog(0, 630), *told[:2]],
        "gpu-a018.log": [*iterations(30), *raises(OUT_OF_MEMORY, rank=3), *told[2:]],
    }
    assert diagnose(tmp_path, files).initiator.ranks == [3]
