"""What the state of the collectives tells: who ran something else, who never came, who waits for whom.

Numbers count within a process group and an attempt; the look-alikes here mix them up.
"""

import pytest
from joblogs import (
    DATA_SUM,
    PIPELINE_NEXT,
    PIPELINE_PREVIOUS,
    TENSOR_BATCH,
    WORLD_BARRIER,
    arguments,
    barrier_missing,
    barrier_victim,
    cannot_connect,
    diagnose,
    findings,
    gloo_timeout,
    iterations,
    labelled,
    mismatch,
    peer_closed,
    phase,
    raises,
    rendezvous_timeout,
    stack_dump,
    torchrun,
    watchdog,
    watchdog_status,
)


def per_rank(words, *, grid=(), last_steps=30):
    """One file a rank; rank 0 prints the arguments, the last rank the steps."""
    last = max(words)
    files = {f"rank_{r}.log": list(lines) for r, lines in words.items()}
    files["rank_0.log"] = [*grid, *files["rank_0.log"]] if 0 in words else list(grid)
    files[f"rank_{last}.log"] = [*iterations(last_steps), *files[f"rank_{last}.log"]]
    return files


# --- the root of a communicator --------------------------------------------------------------------------------------


def no_id(rank, reason):
    return raises(
        f"RuntimeError: [{rank}] is setting up NCCL communicator and retreiving ncclUniqueId from [0] via c10d key-value "
        f"store by key '0', but store->get('0') got error: {reason}",
        rank=rank,
    )


def test_the_root_that_never_wrote_the_communicators_id_is_missing(tmp_path):
    late = "Timeout waiting for key: default_pg/0/0 after 1800000 ms"
    found = diagnose(tmp_path, {f"rank_{r}.log": no_id(r, late) for r in (1, 2)})
    assert found.initiator.ranks == [0]
    assert found.verdict.class_ == "unknown"


def test_a_store_that_went_away_says_nothing_about_the_root(tmp_path):
    found = diagnose(tmp_path, {f"rank_{r}.log": no_id(r, "Connection reset by peer") for r in (1, 2)})
    assert found.initiator.ranks == []


def test_a_mismatch_that_nccl_saw_explains_the_error_that_it_raises(tmp_path):
    seen = "gpu-a017:4711:4890 [7] init.cc:1247 NCCL WARN Mismatched collective detected, please check your collective calls"
    error = "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:400, invalid usage, NCCL version 2.4.8"
    found = diagnose(tmp_path, {"gpu-a017.log": [f"{seen} at and around rank 39.", *raises(error)]})
    assert (found.verdict.class_, found.verdict.signature) == ("application", "nccl-mismatched-collective")
    alone = diagnose(tmp_path / "alone", {"gpu-a017.log": raises(error)})
    assert alone.verdict.signature != "nccl-mismatched-collective"


# --- versions -------------------------------------------------------------------------------------------------------


NCCL_ERROR = "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1691, invalid argument"


def loads(host, version, *, fails=True):
    lines = [f"NCCL version {version}", f"{host}:4711:4890 [0] NCCL INFO NET/IB : No device found."]
    return [*lines, *raises(NCCL_ERROR)] if fails else lines


def test_the_node_that_loaded_another_nccl_release_is_wrong_and_not_those_that_complain(tmp_path):
    files = {f"{host}.log": loads(host, "2.19.3+cuda12.3") for host in ("gpu-a018", "gpu-b021")}
    found = diagnose(tmp_path, {"gpu-a017.log": loads("gpu-a017", "2.20.5+cuda12.4", fails=False), **files})
    assert found.verdict.class_ == "configuration"
    assert found.initiator.nodes == ["gpu-a017"]


def test_of_two_nodes_with_different_releases_none_is_named(tmp_path):
    files = {"gpu-a017.log": loads("gpu-a017", "2.20.5"), "gpu-a018.log": loads("gpu-a018", "2.19.3")}
    found = diagnose(tmp_path, files)
    assert found.verdict.signature == "nccl-version-mismatch"
    assert found.initiator.nodes == []


def test_two_builds_of_one_release_are_no_mismatch(tmp_path):
    files = {"gpu-a017.log": loads("gpu-a017", "2.20.5+cuda12.4"), "gpu-a018.log": loads("gpu-a018", "2.20.5+cuda12.3")}
    assert diagnose(tmp_path, files).verdict.signature != "nccl-version-mismatch"


def test_releases_that_trained_together_are_not_what_failed(tmp_path):
    files = {
        "gpu-a017.log": [*loads("gpu-a017", "2.20.5", fails=False), *iterations(30)],
        "gpu-a018.log": loads("gpu-a018", "2.19.3"),
    }
    assert diagnose(tmp_path, files).verdict.signature != "nccl-version-mismatch"


# --- rendezvous -----------------------------------------------------------------------------------------------------


def test_the_node_that_knocks_at_another_port_is_wrong_and_not_the_one_that_waits(tmp_path):
    files = {
        "gpu-a017.log": [*phase(0, "launching"), *rendezvous_timeout()],
        "gpu-a018.log": cannot_connect(60, "gpu-a017", 29511),
    }
    found = diagnose(tmp_path, files)
    assert found.verdict.class_ == "configuration"
    assert found.initiator.nodes == ["gpu-a018"]
    assert found.initiator.scope == "node"


def test_where_every_node_knocks_in_vain_none_is_singled_out(tmp_path):
    files = {host: cannot_connect(60, "gpu-a017", 29500) for host in ("gpu-a018.log", "gpu-b021.log")}
    found = diagnose(tmp_path, files)
    assert found.verdict.class_ == "configuration"
    assert found.initiator.nodes == []


def test_too_few_nodes_accuse_none_of_those_that_came(tmp_path):
    files = {f"{host}.log": [*phase(0, "launching"), *rendezvous_timeout()] for host in ("gpu-a017", "gpu-a018")}
    found = diagnose(tmp_path, files)
    assert found.verdict.class_ == "configuration"
    assert found.initiator.ranks == []
    assert found.initiator.nodes == []


def test_a_taken_port_points_to_the_node_that_could_not_bind_it(tmp_path):
    taken = "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"
    files = {
        "gpu-a017.log": raises(taken, function="launch", text="store = TCPStore(host, port)"),
        "gpu-a018.log": phase(0, "launching"),
    }
    found = diagnose(tmp_path, files)
    assert found.verdict.class_ == "configuration"
    assert found.initiator.nodes == ["gpu-a017"]


def test_a_connection_that_fails_after_training_has_begun_is_no_bad_address(tmp_path):
    files = {
        "gpu-a017.log": [*iterations(30), *raises("ValueError: bad token", rank=0)],
        "gpu-a018.log": [*iterations(30), *cannot_connect(60, "gpu-a017", 29500)],
    }
    found = diagnose(tmp_path, files)
    assert "cannot reach the rendezvous" not in findings(found)
    assert found.initiator.ranks == [0]


# --- mismatch -------------------------------------------------------------------------------------------------------


def test_the_minority_in_a_mismatch_is_named_by_its_global_rank(tmp_path):
    """Ranks 1, 3, 5 are one data-parallel group, in which rank 3 is number 1."""
    words = {
        0: [], 2: [], 4: [],
        1: mismatch(1, (0, 1600), (1, 2401)),
        3: mismatch(3, (1, 2401), (2, 1600)),
        5: mismatch(5, (2, 1600), (1, 2401)),
    }  # fmt: skip
    found = diagnose(tmp_path, per_rank(words, grid=arguments(world=6, tp=2)))
    assert found.initiator.ranks == [3]
    assert found.verdict.class_ == "application"
    assert found.verdict.subclass == "desync"


def ahead(rank, behind, *, calls=30):
    """Fingerprints of one call all over, in which ``rank`` counts more calls than ``behind``, as each of them sees it."""
    words = {r: mismatch(r, (r, 1), (rank, 1), op="BROADCAST", seqs=(28, calls)) for r in behind}
    return words | {rank: mismatch(rank, (rank, 1), (behind[0], 1), op="BROADCAST", seqs=(calls, 28))}


def test_where_all_run_the_same_call_the_one_that_counted_more_of_them_is_odd(tmp_path):
    found = diagnose(tmp_path, per_rank(ahead(0, [1, 2, 3]), last_steps=0))
    assert found.initiator.ranks == [0]


def test_the_numbers_of_calls_name_nobody_where_groups_count_their_own(tmp_path):
    """With tensor parallelism the numbers are those of four groups, which differ by chance."""
    words = {2 * r: lines for r, lines in ahead(0, [1, 2, 3]).items()}
    found = diagnose(tmp_path, per_rank(words, grid=arguments(world=8, tp=2)))
    assert found.initiator.ranks == []


def test_of_two_ranks_none_is_odd_for_its_number_of_calls(tmp_path):
    assert diagnose(tmp_path, per_rank(ahead(0, [1]), last_steps=0)).initiator.ranks == []


def test_two_ranks_that_contradict_each_other_are_not_told_apart(tmp_path):
    words = {0: mismatch(0, (0, 1600), (1, 2401)), 1: mismatch(1, (1, 2401), (0, 1600))}
    found = diagnose(tmp_path, per_rank(words))
    assert len(found.initiator.ranks) != 1
    assert found.verdict.subclass == "desync"


def test_a_tie_between_two_shapes_singles_out_nobody(tmp_path):
    words = {r: mismatch(r, (r, (1600, 2401)[r % 2]), ((r + 1) % 4, (2401, 1600)[r % 2])) for r in range(4)}
    assert len(diagnose(tmp_path, per_rank(words)).initiator.ranks) != 1


# --- named as missing -----------------------------------------------------------------------------------------------


def test_members_that_a_contradiction_kept_away_from_the_next_barrier_did_not_hang(tmp_path):
    """Ranks 1 and 3 raise the contradiction of their own group; ranks 0 and 2 then wait for them in that of all."""
    words = {
        0: barrier_missing(0, 90, [1, 3]),
        1: mismatch(1, (0, 1600), (1, 800)),
        2: barrier_victim(2, 90, group_rank=2),
        3: mismatch(3, (1, 800), (0, 1600)),
    }
    found = diagnose(tmp_path, per_rank(words, grid=arguments(world=4, tp=2)))
    assert "named as missing" not in findings(found)
    assert found.verdict.class_ == "application"


def test_a_barriers_missing_member_is_a_number_within_its_group(tmp_path):
    """Ranks 4 and 5 are one tensor-parallel group: its number 1 is rank 5."""
    words = {
        0: [], 1: [], 2: [], 3: [],
        4: [*barrier_missing(4, 90, [1]), *gloo_timeout(4, TENSOR_BATCH)],
        5: [], 6: barrier_victim(6, 91, group_rank=1), 7: barrier_victim(7, 91, group_rank=1),
    }  # fmt: skip
    found = diagnose(tmp_path, per_rank(words, grid=arguments(world=8, tp=2, pp=2)))
    assert found.initiator.ranks == [5]
    assert found.initiator.silent


def test_a_member_that_itself_waits_for_others_is_not_the_one_they_wait_for(tmp_path):
    """Rank 2 is missing for rank 0's group, but stands at a barrier of its own group and waits for rank 3."""
    words = {0: barrier_missing(0, 90, [1]), 1: [], 2: barrier_missing(2, 90, [1]), 3: []}
    words[0] += gloo_timeout(0, DATA_SUM)
    words[2] += gloo_timeout(2, TENSOR_BATCH)
    found = diagnose(tmp_path, per_rank(words, grid=arguments(world=4, tp=2)))
    assert found.initiator.ranks == [3]
    assert findings(found)["named as missing"].incident.ranks == (3,)


def test_a_number_within_an_unknown_group_is_no_global_rank(tmp_path):
    """Rank 4 is number 0 of the group it speaks for, so that group's number 1 is not rank 1."""
    words = {r: barrier_missing(4, 90, [1]) if r == 4 else [] for r in range(8)}
    assert 1 not in diagnose(tmp_path, per_rank(words)).initiator.ranks


def test_missing_members_whose_logs_were_not_collected_are_missing_and_not_hung(tmp_path):
    words = {
        r: barrier_missing(r, 90, [4, 5, 6, 7]) if r == 0 else barrier_victim(r, 91, group_rank=r) for r in range(4)
    }
    files = {f"rank_{r}.log": lines for r, lines in words.items()}
    found = diagnose(tmp_path, files)
    assert found.initiator.ranks == [4, 5, 6, 7]
    assert found.verdict.signature != "rank-hang"
    assert found.verdict.class_ == "unknown"


def test_who_passed_the_barrier_and_lost_rank_0_does_not_accuse_rank_0(tmp_path):
    words = {
        0: barrier_missing(0, 90, [3]),
        1: barrier_victim(1, 91, group_rank=1),
        2: barrier_victim(2, 91, group_rank=2),
        3: [],
    }
    assert diagnose(tmp_path, per_rank(words)).initiator.ranks == [3]


# --- missing from the time-outs -------------------------------------------------------------------------------------


def test_the_only_rank_without_a_time_out_is_the_one_the_others_wait_for(tmp_path):
    words = {r: [] if r == 2 else watchdog(r, 630 + r / 10) for r in range(8)}
    found = diagnose(tmp_path, per_rank(words))
    assert found.initiator.ranks == [2]
    assert found.initiator.silent
    assert found.verdict.class_ == "unknown"


def test_a_rank_whose_file_is_missing_is_not_silent(tmp_path):
    words = {r: watchdog(r, 630 + r / 10) for r in (0, 1, 3, 4, 5, 6, 7)}
    found = diagnose(tmp_path, per_rank(words, grid=arguments(world=8)))
    assert found.initiator.ranks == []


def test_the_lowest_last_enqueued_number_of_a_group_marks_the_rank_behind(tmp_path):
    words = {
        r: watchdog_status(r, 630, seq=4711, enqueued=4709 if r == 1 else 4712, completed=4709 if r == 1 else 4710) for r in range(4)
    }  # fmt: skip
    found = diagnose(tmp_path, per_rank(words))
    assert found.initiator.ranks == [1]
    assert findings(found)["lowest sequence number"].incident.ranks == (1,)


def test_counters_of_different_groups_are_not_compared(tmp_path):
    words = {
        r: watchdog_status(r, 630, seq=(4711, 88)[r // 2], enqueued=(4712, 89)[r // 2], completed=(4710, 87)[r // 2], group=("14(DATA_PARALLEL_GROUP)", "15(DATA_PARALLEL_GROUP)")[r // 2], group_rank=r % 2) for r in range(4)
    }  # fmt: skip
    found = diagnose(tmp_path, per_rank(words))
    assert "lowest sequence number" not in findings(found)


def test_counters_of_groups_that_each_process_numbers_for_itself_are_not_compared(tmp_path):
    """Torch 2.3 names groups by a number of the own process: ranks 0-3 and 4-7 have a group 3 each."""
    words = {
        r: watchdog_status(r, 630, seq=4711 if r < 4 else 88, enqueued=4712 if r < 4 else 89, completed=80, group="3", group_rank=r % 4)
        for r in range(8)
    }  # fmt: skip
    words[7] = []
    found = diagnose(tmp_path, per_rank(words))
    assert "lowest sequence number" not in findings(found)


def test_a_majority_that_is_late_does_not_make_the_minority_guilty(tmp_path):
    """Three of four never enqueued what one waits for: the one is ahead, and nothing tells who is wrong."""
    words = {r: watchdog_status(r, 630, seq=4711, enqueued=4711 if r == 1 else 4710, completed=4710) for r in range(4)}
    found = diagnose(tmp_path, per_rank(words))
    assert found.initiator.ranks != [1]
    assert "lowest sequence number" not in findings(found)


def test_in_a_job_of_subgroups_the_ranks_without_a_time_out_are_not_all_suspects(tmp_path):
    """Three of four tensor-parallel groups time out; the ranks of the fourth are merely further away."""
    group = "14(TENSOR_MODEL_PARALLEL_GROUP)"
    words = {r: watchdog(r, 630, group=group, group_rank=r % 2) if r < 6 else [] for r in range(8)}
    found = diagnose(tmp_path, per_rank(words, grid=arguments(world=8, tp=2)))
    assert "missing from the time-outs" not in findings(found)


def test_a_rank_that_lost_its_peer_waited_too(tmp_path):
    words = {r: watchdog(r, 630 + r / 10) for r in range(4)}
    words[2] = peer_closed(2)
    assert "missing from the time-outs" not in findings(diagnose(tmp_path, per_rank(words)))


# --- divergent collectives ------------------------------------------------------------------------------------------


def test_ranks_of_one_group_that_wait_in_different_operations_went_apart(tmp_path):
    words = {r: watchdog(r, 630, seq=4711, op="ALLREDUCE" if r < 3 else "ALLGATHER") for r in range(4)}
    found = diagnose(tmp_path, per_rank(words))
    assert found.verdict.class_ == "application"
    assert found.verdict.subclass == "desync"


def test_different_groups_may_wait_in_different_operations(tmp_path):
    words = {
        r: watchdog(r, 630, seq=(4711, 88)[r // 3], op=("ALLREDUCE", "ALLGATHER")[r // 3], group=("14(DATA_PARALLEL_GROUP)", "22(TENSOR_MODEL_PARALLEL_GROUP)")[r // 3], group_rank=r % 3) for r in range(6)
    }  # fmt: skip
    assert "waits in different collectives" not in findings(diagnose(tmp_path, per_rank(words)))


def test_groups_that_each_process_numbers_for_itself_may_wait_in_different_operations(tmp_path):
    words = {
        r: watchdog(
            r, 630, seq=4711 if r < 4 else 88, op="ALLREDUCE" if r < 4 else "ALLGATHER", group="3", group_rank=r % 4
        )
        for r in range(8)
    }
    assert "waits in different collectives" not in findings(diagnose(tmp_path, per_rank(words)))


# --- sizes that disagree --------------------------------------------------------------------------------------------


def test_who_receives_a_wrong_size_is_not_the_one_at_fault_by_that(tmp_path):
    enforce = "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n  what():  [enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:446] op.preamble.length <= op.nbytes. 1600 vs 4"
    words = {0: enforce.split("\n"), 1: peer_closed(1), 2: peer_closed(2), 3: peer_closed(3)}
    found = diagnose(tmp_path, torchrun(words, {0: -6}, head={3: iterations(30)}))
    assert found.verdict.class_ == "application"
    assert found.verdict.subclass == "desync"
    assert found.initiator.ranks == []
    assert "sizes disagree" in findings(found)


# --- named by all ---------------------------------------------------------------------------------------------------


def test_the_rank_that_everybodys_text_names_as_different_is_the_initiator(tmp_path):
    text = "RuntimeError: optimizer state of rank 2 differs from its peers"
    found = diagnose(tmp_path, per_rank({r: raises(text, rank=r) for r in range(4)}))
    assert found.initiator.ranks == [2]


def test_a_text_that_names_two_ranks_does_not_say_which_one_is_wrong(tmp_path):
    text = "RuntimeError: state of rank 2 differs from rank 0"
    assert "named by all" not in findings(diagnose(tmp_path, per_rank({r: raises(text, rank=r) for r in range(4)})))


def test_one_ranks_word_about_another_is_not_everybodys(tmp_path):
    words = {r: peer_closed(r) for r in range(4)}
    words[1] = raises("RuntimeError: optimizer state of rank 2 differs from mine", rank=1)
    found = diagnose(tmp_path, per_rank(words))
    assert "named by all" not in findings(found)


# --- who waits for whom ---------------------------------------------------------------------------------------------

#: Two tensor ranks, two pipeline stages, two data-parallel replicas: ranks 0-3 are the first stage, 4-7 the second.
GRID = arguments(world=8, tp=2, pp=2)


def stuck_before_rank_3():
    """Rank 3 never sends: its tensor peer and its next stage wait for it, the rest for those."""
    return {
        0: gloo_timeout(0, DATA_SUM), 1: gloo_timeout(1, DATA_SUM), 2: gloo_timeout(2, TENSOR_BATCH), 3: [],
        4: gloo_timeout(4, DATA_SUM), 5: gloo_timeout(5, DATA_SUM), 6: gloo_timeout(6, TENSOR_BATCH), 7: gloo_timeout(7, PIPELINE_PREVIOUS),
    }  # fmt: skip


def test_the_sink_of_who_waits_for_whom_is_the_initiator(tmp_path):
    found = diagnose(tmp_path, per_rank(stuck_before_rank_3(), grid=GRID))
    assert found.initiator.ranks == [3]
    assert found.initiator.silent
    assert findings(found)["everybody waits for it"].incident.ranks == (3,)


def test_a_stack_dump_outside_of_any_collective_is_the_proof_of_the_sink(tmp_path):
    words = {
        r: [*(stack_dump(DATA_SUM) if r else stack_dump(None)), *(gloo_timeout(r, DATA_SUM) if r else [])]
        for r in range(4)
    }
    found = diagnose(tmp_path, per_rank(words, grid=arguments(world=4)))
    assert found.initiator.ranks == [0]
    proof = findings(found)["everybody waits for it"].incident.first
    assert proof.attr("site").startswith("evaluate@")


def test_a_rank_in_a_call_that_nobody_follows_is_the_odd_one(tmp_path):
    words = {r: gloo_timeout(r, WORLD_BARRIER if r == 2 else DATA_SUM) for r in range(4)}
    found = diagnose(tmp_path, per_rank(words, grid=arguments(world=4)))
    assert found.initiator.ranks == [2]
    assert found.verdict.subclass == "desync"


def test_a_sibling_that_sigterm_reached_before_it_could_speak_is_a_weak_sink(tmp_path):
    """Rank 2 says nothing because its launcher stopped it; rank 3, on the same node, failed of its own."""
    words = {0: peer_closed(0), 1: peer_closed(1), 3: raises("ValueError: bad token", rank=3), 2: []}
    found = diagnose(tmp_path, torchrun(words, {2: -15}, head={0: arguments(world=4), 3: iterations(30)}))
    assert found.initiator.ranks == [3]


def test_where_every_group_is_complete_nobody_is_the_sink(tmp_path):
    words = {r: gloo_timeout(r, DATA_SUM) for r in range(4)}
    found = diagnose(tmp_path, per_rank(words, grid=arguments(world=4)))
    assert not {"everybody waits for it", "waits where nobody follows"} & set(findings(found))
    assert found.initiator.ranks == []


@pytest.mark.parametrize(
    ("call", "waiting", "partner"), [(PIPELINE_NEXT, 0, 2), (PIPELINE_PREVIOUS, 2, 0)], ids=["next", "previous"]
)
def test_a_point_to_point_call_waits_for_its_one_partner(tmp_path, call, waiting, partner):
    """Two stages, ranks 0-1 and 2-3: one rank waits for its partner in the other stage, their replicas wait for both."""
    words = {r: gloo_timeout(r, DATA_SUM) for r in (1, 3)} | {waiting: gloo_timeout(waiting, call), partner: []}
    found = diagnose(tmp_path, per_rank(words, grid=arguments(world=4, pp=2)))
    assert found.initiator.ranks == [partner]
    assert findings(found)["everybody waits for it"].incident.ranks == (partner,)


def test_the_srun_label_of_a_stack_dump_is_the_rank_that_stands_there(tmp_path):
    lines = [*labelled(0, arguments(world=4)), *labelled(3, iterations(30))]
    lines += [x for r in (0, 1, 2) for x in labelled(r, stack_dump(DATA_SUM))]
    lines += [x for r in (0, 1, 2) for x in labelled(r, gloo_timeout(r, DATA_SUM))]
    assert diagnose(tmp_path, {"slurm-4242.out": lines}).initiator.ranks == [3]


# --- passing each other ---------------------------------------------------------------------------------------------

NORM_OF_ALL = (85, "global_grad_norm", "dist.all_reduce(square)", "all_reduce")


def test_the_rank_that_left_a_peer_in_their_call_and_stands_in_that_of_all_went_on_without_it(tmp_path):
    """Rank 1 waits for rank 3 in the sum of the two; rank 3 is where ranks 0 and 2 are, who had finished theirs."""
    calls = {0: NORM_OF_ALL, 1: DATA_SUM, 2: NORM_OF_ALL, 3: NORM_OF_ALL}
    words = {rank: gloo_timeout(rank, call) for rank, call in calls.items()}
    found = diagnose(tmp_path, per_rank(words, grid=arguments(world=4, tp=2)))
    assert found.initiator.ranks == [3]
    assert "rank 1 still waits" in found.verdict.summary


def test_a_rank_that_alone_stands_in_a_call_of_all_is_still_the_odd_one_of_a_larger_circle(tmp_path):
    calls = {0: WORLD_BARRIER, 1: NORM_OF_ALL, 2: DATA_SUM, 3: NORM_OF_ALL}
    words = {rank: gloo_timeout(rank, call) for rank, call in calls.items()}
    found = diagnose(tmp_path, per_rank(words, grid=arguments(world=4, tp=2)))
    assert found.initiator.ranks == [0]


def sends_to_its_next_stage(receiver):
    """Four stages' worth of ranks in two: 0 and 1 send on, 2 and 3 are at ``receiver``."""
    words = {rank: gloo_timeout(rank, PIPELINE_NEXT, direction="send") for rank in (0, 1)}
    words |= {rank: gloo_timeout(rank, receiver) for rank in (2, 3)}
    head = {0: [*arguments(world=4, tp=2, pp=2), *phase(-5)], 3: iterations(30)}
    return torchrun(words, head=head)


def test_a_message_whose_sender_and_receiver_both_wait_for_it_is_lost_on_its_way(tmp_path):
    found = diagnose(tmp_path, sends_to_its_next_stage(PIPELINE_PREVIOUS))
    assert (found.verdict.class_, found.verdict.signature) == ("infrastructure", "link-down")


def test_a_receiver_that_stands_elsewhere_keeps_its_sender_waiting(tmp_path):
    assert "every group is complete" not in findings(diagnose(tmp_path, sends_to_its_next_stage(TENSOR_BATCH)))
