"""What watchdogs, transports and launchers say together: who is behind, who is odd, which attempt is judged."""

import pytest
from joblogs import (
    arguments,
    barrier_missing,
    death_signal,
    diagnose,
    findings,
    gloo_timeout,
    iterations,
    mismatch,
    nccl_init,
    old_watchdog,
    peer_closed,
    phase,
    raises,
    report,
    restarts,
    slurm_cancelled,
    stops,
    watchdog,
    watchdog_status,
    worker_failed,
)

from correlator.attribution.standing import life_of
from correlator.report import layout
from correlator.report.standing import render_life

LOST_SHARD = "OSError: could not read shard 118 of the stream"


def told(rank, at, *, enqueued, sender=3, group="0(default_pg)"):
    """The dump signal with the counters of the default group, as a rank prints it that did not time out itself."""
    (line,) = watchdog_status(rank, at, seq=1, enqueued=enqueued, completed=enqueued, group=group)
    head = line.partition(" failure detected")[0]
    return [
        f"{head} Received a dump signal due to a collective timeout from  rank {sender} and we will try our best to dump the "
        f"debug info. Last enqueued NCCL work: {enqueued}, last completed NCCL work: {enqueued}.This is most likely caused by "
        "incorrect usages of collectives"
    ]


def waits(rank, at, seq=31, **words):
    return [*watchdog(rank, at, seq=seq, **words), *watchdog_status(rank, at, seq=seq, enqueued=seq, completed=seq - 1)]


# --- who is behind --------------------------------------------------------------------------------------------------


def test_a_rank_that_was_only_told_of_the_time_out_and_enqueued_less_is_the_one_waited_for(tmp_path):
    files = {f"rank_{r}.log": waits(r, 630) for r in (1, 2, 3)}
    files["rank_0.log"] = [*iterations(30), *told(0, 630.4, enqueued=30)]
    found = diagnose(tmp_path, files)
    assert found.initiator.ranks == [0]
    assert found.verdict.class_ == "unknown"


def test_counters_of_another_group_do_not_say_that_a_told_rank_is_behind(tmp_path):
    """The signal holds the counters of the default group; the others wait in a group of their own."""
    files = {
        f"rank_{r}.log": watchdog_status(r, 630, seq=31, enqueued=31, completed=30, group="7(TP)", group_rank=r - 1)
        for r in (1, 2, 3)
    }
    files["rank_0.log"] = [*iterations(30), *told(0, 630.4, enqueued=3)]
    assert "told but not waiting" not in findings(diagnose(tmp_path, files))


def test_ranks_that_were_told_and_are_as_far_as_the_others_are_not_behind(tmp_path):
    files = {f"rank_{r}.log": waits(r, 630) for r in (1, 2, 3)}
    files["rank_0.log"] = [*iterations(30), *told(0, 630.4, enqueued=31)]
    assert "told but not waiting" not in findings(diagnose(tmp_path, files))


# --- who is odd -----------------------------------------------------------------------------------------------------


def test_the_one_rank_that_stands_in_another_call_at_the_same_number_went_another_way(tmp_path):
    files = {f"rank_{r}.log": watchdog(r, 630, seq=31) for r in (0, 1, 3)}
    files["rank_2.log"] = watchdog(2, 630, seq=31, op="BROADCAST", numel=1)
    found = diagnose(tmp_path, files)
    assert found.initiator.ranks == [2]
    assert found.verdict.class_ == "application"


@pytest.mark.parametrize(
    "odd",
    [
        {"seq": 30, "op": "BROADCAST"},  # another number: either side may be the one that is wrong
        {"seq": 31, "op": "ALLTOALL_BASE", "numel": 77},  # sizes that differ by design
    ],
)
def test_nobody_is_named_where_the_calls_cannot_be_compared(tmp_path, odd):
    op = "ALLREDUCE" if odd["seq"] == 30 else odd["op"]
    files = {f"rank_{r}.log": watchdog(r, 630, seq=31, op=op) for r in (0, 1, 3)}
    files["rank_2.log"] = watchdog(2, 630, **odd)
    assert diagnose(tmp_path, files).initiator.ranks == []


# --- who did not time out -------------------------------------------------------------------------------------------


def test_half_of_the_ranks_may_be_the_silent_ones_where_their_own_logs_are_there(tmp_path):
    files = {f"rank_{r}.log": [*phase(r), *(watchdog(r, 630) if r % 2 else [])] for r in range(4)}
    found = diagnose(tmp_path, files)
    assert found.initiator.ranks == [0, 2]
    assert found.verdict.confidence < 0.5


def test_ranks_that_the_launcher_stopped_before_they_could_speak_are_not_the_silent_ones(tmp_path):
    lines = [*watchdog(0, 630), *watchdog(1, 630), *stops(631, 2, 3), *worker_failed(631, 0, 0, -6)]
    lines += report("gpu-a017", 631, (0, 0, -6), (1, 1, -6), (2, 2, -15), (3, 3, -15))
    found = diagnose(tmp_path, {"gpu-a017.log": lines, "rank_2.log": phase(2), "rank_3.log": phase(3)})
    assert not {2, 3} & set(found.initiator.ranks)


# --- attempts -------------------------------------------------------------------------------------------------------


def restarted(*second, ranks=(0, 1, 2, 3)):
    """Rank 1 fails in the first attempt; ``second``: what the ranks say in the second, which trains on."""
    lines = [
        *iterations(30), *raises(LOST_SHARD, rank=1), *stops(31, 0, 2, 3), *worker_failed(31, 1, 1, 1), *restarts(31),
        *iterations(90, first=21, at=60), *(line for words in second for line in words),
    ]  # fmt: skip
    return {"gpu-a017.log": lines}


def test_a_rank_that_failed_in_an_earlier_attempt_can_be_the_silent_one_of_the_last(tmp_path):
    found = diagnose(tmp_path, restarted(*(gloo_timeout(r) for r in (0, 2, 3))))
    assert found.initiator.ranks == [1]
    assert found.initiator.silent
    assert found.verdict.signature == "rank-hang"


def test_exits_of_an_earlier_attempt_say_nothing_of_the_last(tmp_path):
    found = diagnose(tmp_path, restarted(watchdog(0, 760), watchdog(1, 760), watchdog(2, 760)))
    assert {rank: [e.code for e in ends] for rank, ends in found.facts.exits.items()} == {}
    assert [e.code for e in found.facts.all_exits[1]] == [1]


def test_the_error_of_an_earlier_attempt_is_listed_and_not_the_answer(tmp_path):
    found = diagnose(tmp_path, restarted(raises("KeyError: 'labels'", rank=2), worker_failed(151, 2, 2, 1)))
    assert found.initiator.ranks == [2]
    assert any("shard 118" in str(entry.evidence) for entry in found.document.cascade)


# --- both ends of a path --------------------------------------------------------------------------------------------


def unanswered(host, rank, gpu, peer):
    return [
        f"{host}:{4800 + 7 * rank}:{4900 + rank} [{gpu}] transport/net_ib.cc:2301 NCCL WARN NET/IB: Got completion from peer "
        f"{peer}<41234> with status=12 opcode=0 len=0 vendor err 129 (Send) localGid fe80::1 remoteGids fe80::2 hca mlx5_1"
    ]


def pair(*complaints):
    files = {}
    for number, host in enumerate(("gpu-a017", "gpu-a018", "gpu-b021")):
        lines = [
            line
            for r in (2 * number, 2 * number + 1)
            for line in nccl_init(host, r, world=6, bus=f"{r + 1}b000", gpu=r % 2)
        ]
        files[f"{host}.log"] = [
            *lines,
            *(x for own, peer in complaints if own == host for x in unanswered(host, 2 * number, 0, peer)),
        ]
    return files


def test_where_both_ends_complain_the_path_between_them_is_cut(tmp_path):
    found = diagnose(tmp_path, pair(("gpu-a017", "gpu-b021"), ("gpu-b021", "gpu-a017")))
    assert found.initiator.nodes == ["gpu-a017", "gpu-b021"]
    assert (found.verdict.class_, found.initiator.ranks) == ("infrastructure", [])


def test_the_node_that_all_cut_paths_share_is_the_one(tmp_path):
    cuts = [("gpu-a017", "gpu-b021"), ("gpu-b021", "gpu-a017"), ("gpu-a018", "gpu-b021"), ("gpu-b021", "gpu-a018")]
    assert diagnose(tmp_path, pair(*cuts)).initiator.nodes == ["gpu-b021"]


def test_one_end_alone_may_have_lost_a_process_that_died(tmp_path):
    assert "both ends of a path" not in findings(diagnose(tmp_path, pair(("gpu-a017", "gpu-b021"))))


# --- lines that stand for others ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tail", "ranks"), [("", [2]), (" [repeated 2x across cluster]", [])])
def test_ranks_whose_equal_lines_were_dropped_are_not_silent(tmp_path, tail, ranks):
    lines = [f"(WorkerDict pid={100 + r}, ip=10.0.0.17) [rank{r}]: model built" for r in range(4)]
    for rank in (0, 1, 3):
        lines += [f"(WorkerDict pid={100 + rank}, ip=10.0.0.17) {line}{tail}" for line in watchdog(rank, 630)]
    assert diagnose(tmp_path, {"driver.log": lines}).initiator.ranks == ranks


# --- who was there --------------------------------------------------------------------------------------------------


def test_ranks_beyond_the_processes_of_the_only_collected_launcher_are_on_a_node_that_was_not_collected(tmp_path):
    lines = [*barrier_missing(0, 30, [2, 3]), *stops(31, 1), *worker_failed(31, 0, 0, 1)]
    found = diagnose(tmp_path, {"train.log": [*lines, *report("gpu-a017", 31, (0, 0, 1), (1, 1, -15))]})
    assert found.initiator.ranks == [2, 3]
    assert found.initiator.nodes == []
    assert found.verdict.signature == "ranks-missing-at-barrier"


def test_pods_of_the_replica_types_of_one_job_are_nodes_of_one_family(tmp_path):
    files = {"ai-master-0.log": report("ai-master-0", 31, (0, 0, 1)), "ai-worker-0.log": death_signal(20, 1, number=2)}
    found = diagnose(tmp_path, files)
    assert found.topology.nodes == ["ai-master-0", "ai-worker-0"]
    assert found.initiator.nodes == ["ai-worker-0"]


def test_a_rank_that_printed_nothing_has_its_place_in_its_nodes_block(tmp_path):
    """Ranks 1 to 3 speak on the first node and 4 to 7 on the second, so the first has rank 0 as well."""
    old = {r: old_watchdog(r) for r in range(1, 8)}
    files = {
        "train-a.log": ["run.sh: line 9: 18811 Killed                  python train.py", *old[1], *old[2], *old[3]],
        "train-b.log": [line for r in range(4, 8) for line in old[r]],
    }
    found = diagnose(tmp_path, files)
    assert found.topology.node_of_rank(0) == "train-a"
    assert found.initiator.ranks == [0]


def test_who_came_late_is_not_to_blame_where_another_left_no_log(tmp_path):
    files = {f"rank_{r}.log": gloo_timeout(r) for r in (0, 2)}
    files |= {"rank_1.log": peer_closed(1), "launch.log": [*arguments(world=4), *phase(0)]}
    assert "came after the others had given up" not in findings(diagnose(tmp_path, files))


# --- what a call's size tells ---------------------------------------------------------------------------------------


def test_of_two_sizes_the_one_that_the_model_has_is_right(tmp_path):
    files = {
        "rank_0.log": [
            " > number of parameters on (tensor, pipeline) model parallel rank (0, 0): 1600",
            *mismatch(0, (0, 1600), (1, 2401)),
        ],
        "rank_1.log": mismatch(1, (1, 2401), (0, 1600)),
    }
    found = diagnose(tmp_path, files)
    assert found.initiator.ranks == [1]
    del files["rank_0.log"][0]
    assert diagnose(tmp_path / "without", files).initiator.ranks == []


# --- files that end early -------------------------------------------------------------------------------------------


def test_a_traceback_cut_inside_a_collective_is_no_cause(tmp_path):
    """Its last frame is the wrapper of all collectives; what was raised is not in the file."""
    files = {f"rank_{r}.log": gloo_timeout(r) for r in range(4)}
    whole = files["rank_1.log"]
    files["rank_1.log"] = whole[: next(n for n, line in enumerate(whole) if "c10d_logger" in line) + 2]
    found = diagnose(tmp_path, files)
    assert not any(i.role == "initiator" for i in found.facts.incidents)
    assert "own error" not in findings(found)


def test_the_schedulers_word_takes_no_rank_from_an_error_beside_it(tmp_path):
    lines = [*iterations(30), *slurm_cancelled(40, "PREEMPTION"), *raises("RuntimeError: closed", rank=0)]
    found = diagnose(tmp_path, {"slurm-4242.out": lines})
    assert found.verdict.signature == "slurm-preempted"
    assert found.initiator.ranks == []


@pytest.mark.parametrize(("code", "telling"), [(1, "exitcode  : 1"), (-9, "Signal 9 (SIGKILL) received by PID")])
def test_what_only_the_report_tells_is_cited_by_its_telling_line_and_timed_by_the_ranks_own(tmp_path, code, telling):
    """The rank wrote until second 30; ten minutes later the others timed out and the launcher reported its exit code."""
    files = {f"rank_{r}.log": [*iterations(30), *watchdog(r, 630)] for r in (0, 2, 3)}
    files["rank_1.log"] = iterations(30)
    files["launcher.log"] = [*stops(640, 0, 2, 3), *report("gpu-a017", 641, (1, 1, code))]
    first = diagnose(tmp_path, files).initiator
    assert first.ranks == [1] and telling in first.first_error.text
    half = first.time_uncertainty_s
    assert half == pytest.approx(305, abs=6) and first.time.minute == 5


# --- one rank's life ------------------------------------------------------------------------------------------------


def test_a_ranks_life_has_its_place_its_lines_its_last_sign_and_its_end(tmp_path):
    lines = [*arguments(world=2, tp=2), *iterations(30), *peer_closed(0), *worker_failed(31, 0, 0, 1)]
    found = diagnose(tmp_path, {"gpu-a017.log": [*lines, *report("gpu-a017", 31, (0, 0, 1), (1, 1, -9))]})
    life = life_of(found.facts, 0)
    assert "on gpu-a017" in life.where and "tp 0" in life.where
    assert any("Connection closed by peer" in line.text for line in life.events)
    assert life.last is not None
    assert life.ended.startswith("1 (gpu-a017.log:")
    page = layout.render_plain(render_life(life))
    assert "last sign of life" in page and "ended with status 1" in page


def test_of_a_rank_without_a_log_nothing_is_concluded(tmp_path):
    found = diagnose(tmp_path, {"rank_0.log": [*arguments(world=2), *watchdog(0, 630)]})
    assert "proves nothing" in life_of(found.facts, 1).collected


def harness(host, lines):
    """A benchmark harness's label in front of every line."""
    return [f"bench-nodes.{host} [stderr] {line}" for line in lines]


def test_the_node_whose_ranks_are_all_missing_from_the_time_outs_is_named(tmp_path):
    """Both nodes write into one stream; nobody says which ranks are those of the first."""
    waits = [line for rank in range(8, 16) for line in watchdog(rank, 700 + rank / 10, seq=2070)]
    lines = [*harness("node11", iterations(30)), *harness("node12", [*waits, *worker_failed(710, 13, 5, -6)])]
    found = diagnose(tmp_path, {"bench.log": lines})
    assert found.initiator.ranks == list(range(8))
    assert found.initiator.nodes == ["node11"]


def test_a_launcher_that_speaks_of_its_sixth_worker_may_have_more(tmp_path):
    waits = [line for rank in range(8, 16) for line in watchdog(rank, 700 + rank / 10, seq=2070)]
    found = diagnose(tmp_path, {"bench.log": harness("node12", [*waits, *worker_failed(710, 13, 5, -6)])})
    assert found.topology.nproc_per_node == 8


def stuck(rank, at):
    """The heartbeat monitor's words about a watchdog that does not return."""
    head = watchdog(rank, at)[0].partition(" Watchdog caught")[0]
    return [
        f"{head} ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued"
    ]


def test_watchdogs_that_hang_after_a_time_out_waited_for_the_same_peer(tmp_path):
    lines = [*watchdog(2, 700), *(line for r in (0, 1, 3) for line in stuck(r, 1180))]
    found = diagnose(tmp_path, {"gpu-a017.log": [*iterations(20), *lines]})
    assert found.verdict.signature != "c10d-watchdog-hang"


def test_a_watchdog_that_hangs_before_anyone_gave_up_is_that_ranks(tmp_path):
    lines = [*stuck(2, 500), *(line for r in (0, 1, 3) for line in watchdog(r, 700))]
    found = diagnose(tmp_path, {"gpu-a017.log": [*iterations(20), *lines]})
    assert found.initiator.ranks == [2]
