"""Which finding is the answer: trust first, then time as far as the clocks allow it, then agreement."""

import pytest
from joblogs import (
    arguments,
    clock,
    diagnose,
    escalates,
    findings,
    gloo_timeout,
    gpu_off_the_bus,
    iterations,
    kernel,
    nccl_init,
    oom_kill,
    peer_closed,
    phase,
    pid,
    raises,
    report,
    restarts,
    save_started,
    srun_exit,
    stops,
    torchrun,
    watchdog,
    worker_failed,
    xid,
)

BAD_TOKEN = "ValueError: token 50312 is outside of the vocabulary of 50304"
NO_SPACE = "OSError: [Errno 28] No space left on device"


def stamped(at, lines, form="%Y-%m-%dT%H:%M:%S"):
    """Lines as a container runtime stores them, each with its time."""
    return [f"{clock(at, form)}.500000000Z stderr F {line}" for line in lines]


# --- time, as far as the clocks allow it ----------------------------------------------------------------------------


def two_errors(*, first_at, second_at, skew=0.0, anchors=True):
    """Rank 0 on gpu-a017 and rank 1 on gpu-a018 fail of different things; the second node's clock is ``skew`` ahead."""
    steps = iterations(30)
    return {
        "gpu-a017.log": [*stamped(0, ["rank 0 starts"]), *steps, *stamped(first_at, raises(BAD_TOKEN, rank=0))],
        "gpu-a018.log": [
            *stamped(skew, ["rank 1 starts"]),
            *(iterations(30, at=skew) if anchors else []),
            *stamped(second_at + skew, raises(NO_SPACE, rank=1)),
        ],
    }


@pytest.mark.parametrize("skew", [0, 80, -80])
def test_the_earlier_of_two_own_errors_is_found_by_clocks_that_step_lines_put_right(tmp_path, skew):
    found = diagnose(tmp_path, two_errors(first_at=32, second_at=62, skew=skew))
    assert found.initiator.ranks == [0]


@pytest.mark.parametrize("skew", [0, 80, -80])
def test_the_same_two_errors_the_other_way_round_give_the_other_rank(tmp_path, skew):
    found = diagnose(tmp_path, two_errors(first_at=62, second_at=32, skew=skew))
    assert found.initiator.ranks == [1]


def test_without_an_anchor_no_order_is_claimed_between_the_nodes(tmp_path):
    """By the stamps rank 0 is 50 s earlier, but nothing says how far its clock is off; the answer must not turn with it."""
    early = diagnose(tmp_path / "a", two_errors(first_at=32, second_at=62, skew=20, anchors=False))
    late = diagnose(tmp_path / "b", two_errors(first_at=32, second_at=62, skew=-120, anchors=False))
    assert early.initiator.ranks == late.initiator.ranks
    assert early.document.alternatives


def test_two_own_errors_within_the_clocks_bound_are_both_shown_and_lower_the_confidence(tmp_path):
    single = diagnose(tmp_path / "a", {"gpu-a017.log": [*iterations(30), *stamped(32, raises(BAD_TOKEN, rank=0))]})
    files = {
        "gpu-a017.log": [*iterations(30), *raises(BAD_TOKEN, rank=0)],
        "gpu-a018.log": [*iterations(30), *raises("KeyError: 'input_ids'", rank=1)],
    }
    double = diagnose(tmp_path / "b", files)
    assert double.verdict.confidence < single.verdict.confidence
    told = {double.verdict.signature} | {a.signature for a in double.document.alternatives}
    assert told == {"python-key-error", "python-value-error"}


def test_in_one_stream_the_order_of_the_lines_decides_what_the_clock_leaves_open(tmp_path):
    lines = [*iterations(30), *raises("KeyError: 'input_ids'", rank=2), *raises(NO_SPACE, rank=1)]
    assert diagnose(tmp_path, {"train.log": lines}).initiator.ranks == [2]


def test_the_order_of_files_by_name_decides_nothing(tmp_path):
    """The same two errors under swapped names: the answer follows the rank, not the name."""
    one, two = raises("KeyError: 'input_ids'", rank=0), raises(NO_SPACE, rank=1)
    plain = diagnose(tmp_path / "a", {"a.log": [*iterations(30), *one], "b.log": [*iterations(30), *two]})
    swapped = diagnose(tmp_path / "b", {"b.log": [*iterations(30), *one], "a.log": [*iterations(30), *two]})
    assert plain.initiator.ranks == swapped.initiator.ranks


def test_a_fault_while_the_job_already_goes_down_is_the_second_one(tmp_path):
    """Rank 2's error; three seconds later the kernel of another node kills a process."""
    files = torchrun({0: [], 1: peer_closed(1), 2: stamped(31, raises(BAD_TOKEN, rank=2)), 3: peer_closed(3)}, {0: -9}, head={0: iterations(30), 2: iterations(30)})  # fmt: skip
    files["journal/gpu-a017.log"] = oom_kill(34.5, "gpu-a017", pid(0))
    found = diagnose(tmp_path, files)
    assert found.initiator.ranks == [2]
    assert found.verdict.class_ == "application"


# --- the back-dated beginning of the stall --------------------------------------------------------------------------

INITS = [x for r in range(4) for x in nccl_init("gpu-a017", r, world=4, bus=f"{r + 1}b000", gpu=r)]


def stalled(*others):
    """Four ranks on one node; all but rank 3 time out at 10:10:30 after ten minutes of waiting."""
    return {
        "gpu-a017.log": [*INITS, *iterations(30), *(x for r in range(3) for x in watchdog(r, 630 + r / 10))],
        "dmesg/gpu-a017.log": [x for o in others for x in o],
    }


def test_a_device_error_at_the_stalls_beginning_is_the_cause_though_the_time_outs_come_ten_minutes_later(tmp_path):
    found = diagnose(tmp_path, stalled(gpu_off_the_bus(29.5, "gpu-a017", "0000:4b:00", 3)))
    assert found.initiator.ranks == [3]
    assert found.verdict.class_ == "hardware"


def test_a_device_error_minutes_after_the_stall_began_is_not_what_the_others_wait_for(tmp_path):
    found = diagnose(tmp_path, stalled(xid(400, "gpu-a017", "0000:1b:00", 79, "GPU has fallen off the bus.")))
    assert found.initiator.ranks == [3]
    assert found.verdict.class_ != "hardware"


# --- agreement and rivals -------------------------------------------------------------------------------------------


def test_independent_evidence_for_one_rank_raises_the_confidence(tmp_path):
    words = {0: peer_closed(0), 1: peer_closed(1), 2: [], 3: peer_closed(3)}
    alone = diagnose(
        tmp_path / "a", {f"rank_{r}.log": w if r != 3 else [*iterations(30), *w] for r, w in words.items()}
    )
    files = torchrun(words, {2: -9}, head={3: iterations(30)})
    lines = files["gpu-a018.log"]
    failed = lines.index(*worker_failed(32, 3, 1, 1)) if worker_failed(32, 3, 1, 1)[0] in lines else len(lines)
    files["gpu-a018.log"] = [*lines[:failed], *stops(32, 2), *escalates(62, 2), *lines[failed:]]
    agreed = diagnose(tmp_path / "b", files)
    assert alone.initiator.ranks == agreed.initiator.ranks == [2]
    assert agreed.verdict.confidence > alone.verdict.confidence


def test_confidence_stays_between_never_and_always(tmp_path):
    files = torchrun(
        {0: peer_closed(0), 1: peer_closed(1), 2: [], 3: peer_closed(3)}, {2: -9}, head={3: iterations(30)}
    )
    files["journal/gpu-a018.log"] = oom_kill(31, "gpu-a018", pid(2))
    sure = diagnose(tmp_path / "a", files).verdict.confidence
    unsure = diagnose(tmp_path / "b", {"train.log": [*iterations(30), *peer_closed(0)]}).verdict.confidence
    assert 0.05 <= unsure < sure <= 0.97


def test_what_a_missing_rank_was_busy_with_says_more_than_that_it_is_missing(tmp_path):
    files = {f"rank_{r}.log": gloo_timeout(r) for r in (1, 2)}
    files |= {"rank_0.log": save_started(30, 31), "rank_3.log": [*iterations(30), *gloo_timeout(3)]}
    found = diagnose(tmp_path, files)
    assert "everybody waits for it" in findings(found)
    assert found.verdict.subclass == "checkpoint"


def test_that_a_rank_died_says_more_than_that_it_is_missing(tmp_path):
    words = {0: gloo_timeout(0), 1: gloo_timeout(1), 2: [], 3: gloo_timeout(3)}
    files = torchrun(words, {2: -11}, head={0: arguments(world=4), 3: iterations(30)})
    found = diagnose(tmp_path, files)
    assert found.initiator.ranks == [2]
    assert found.verdict.signature != "rank-hang"


# --- a cause without a rank -----------------------------------------------------------------------------------------


def test_a_nodes_memory_killer_takes_the_rank_that_died_there(tmp_path):
    """In a container the kernel's pid is another one than the launcher's."""
    files = torchrun(
        {0: peer_closed(0), 1: peer_closed(1), 2: [], 3: peer_closed(3)}, {2: -9}, head={3: iterations(30)}
    )
    files["journal/gpu-a018.log"] = oom_kill(31, "gpu-a018", 1481)
    assert diagnose(tmp_path, files).initiator.ranks == [2]


def test_a_nodes_error_takes_no_rank_that_died_on_another_node(tmp_path):
    files = torchrun(
        {0: peer_closed(0), 1: peer_closed(1), 2: [], 3: peer_closed(3)}, {2: -9}, head={3: iterations(30)}
    )
    files["journal/gpu-a017.log"] = oom_kill(31, "gpu-a017", 1481)
    found = diagnose(tmp_path, files)
    assert not (found.verdict.subclass == "memory" and found.initiator.ranks == [2])


# --- attempts -------------------------------------------------------------------------------------------------------


def test_what_a_restarted_attempt_met_before_its_first_step_is_not_the_cause(tmp_path):
    lines = [
        *iterations(30), *raises("KeyError: 'input_ids'", rank=1), *worker_failed(31, 1, 1, 1), *restarts(31),
        *raises(NO_SPACE, rank=0), *worker_failed(40, 0, 0, 1), *report("gpu-a017", 40, (0, 0, 1), (1, 1, -15)),
    ]  # fmt: skip
    assert diagnose(tmp_path, {"gpu-a017.log": lines}).initiator.ranks == [1]


def test_a_kernel_line_belongs_to_the_attempt_in_whose_time_it_lies(tmp_path):
    """The device fails in the second attempt; the kernel's log knows nothing of attempts."""
    lines = [
        *INITS, *iterations(30), *raises(BAD_TOKEN, rank=1), *worker_failed(31, 1, 1, 1), *restarts(31),
        *iterations(90, first=21, at=60), *worker_failed(151, 3, 3, -6), *report("gpu-a017", 151, (3, 3, -6), (0, 0, -15)),
    ]  # fmt: skip
    files = {"gpu-a017.log": lines, "dmesg/gpu-a017.log": gpu_off_the_bus(150, "gpu-a017", "0000:4b:00", 3)}
    found = diagnose(tmp_path, files)
    assert found.initiator.ranks == [3]
    assert found.verdict.class_ == "hardware"


def test_time_outs_of_an_earlier_attempt_do_not_date_the_stall_of_the_last_one(tmp_path):
    lines = [
        *INITS, *iterations(30), *watchdog(0, 630), *worker_failed(631, 0, 0, -6), *restarts(631),
        *iterations(90, first=21, at=700), *raises(BAD_TOKEN, rank=1), *worker_failed(791, 3, 3, -6), *report("gpu-a017", 791, (3, 3, -6), (0, 0, -15)),
    ]  # fmt: skip
    files = {"gpu-a017.log": lines, "dmesg/gpu-a017.log": gpu_off_the_bus(790.6, "gpu-a017", "0000:4b:00", 3)}
    assert diagnose(tmp_path, files).initiator.ranks == [3]


# --- what is said of the answer -------------------------------------------------------------------------------------


def test_the_launchers_root_cause_is_ruled_out_when_it_names_a_victim(tmp_path):
    files = torchrun({0: peer_closed(0), 1: peer_closed(1), 3: raises(BAD_TOKEN, rank=3), 2: peer_closed(2)})
    found = diagnose(tmp_path, files)
    assert any("rank 0" in r.what and "Root Cause" in r.what for r in found.document.ruled_out)


def test_a_collected_kernel_log_without_a_fault_rules_the_device_out(tmp_path):
    files = torchrun({0: peer_closed(0), 1: peer_closed(1), 3: raises(BAD_TOKEN, rank=3), 2: peer_closed(2)})
    harmless = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.133.20  Release Build  (builder@host)"
    files["journal/gpu-a018.log"] = kernel(1, "gpu-a018", harmless)
    found = diagnose(tmp_path, files)
    assert any("device" in r.what and "gpu-a018" in r.what for r in found.document.ruled_out)


def test_the_place_in_the_parallel_grid_is_told(tmp_path):
    files = torchrun(
        {0: peer_closed(0), 1: peer_closed(1), 3: raises(BAD_TOKEN, rank=3), 2: peer_closed(2)},
        head={0: arguments(world=4, tp=2)},
    )
    assert "tp 1" in diagnose(tmp_path, files).verdict.summary


def test_the_last_completed_step_is_the_step_of_the_fault(tmp_path):
    files = torchrun(
        {0: peer_closed(0), 1: peer_closed(1), 3: raises(BAD_TOKEN, rank=3), 2: peer_closed(2)},
        head={3: iterations(30)},
    )
    assert diagnose(tmp_path, files).initiator.step == 30


def test_every_alternative_comes_with_the_experiment_that_would_separate_it(tmp_path):
    found = diagnose(tmp_path, two_errors(first_at=32, second_at=32))
    assert found.document.alternatives
    assert all(a.control for a in found.document.alternatives)
    assert sum(a.confidence for a in found.document.alternatives) + found.verdict.confidence <= 1.3


def test_a_sudden_death_of_several_ranks_of_one_node_is_not_pinned_on_one(tmp_path):
    lines = [*iterations(30), *srun_exit("gpu-a018", "2-3", "Killed"), *srun_exit("gpu-a017", "0-1", "Terminated")]
    found = diagnose(tmp_path, {"slurm-4242.out": lines, "other.log": phase(0)})
    assert found.initiator.ranks == [2, 3]
    assert found.initiator.scope == "ranks"
