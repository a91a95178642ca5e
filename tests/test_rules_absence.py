"""Causes that show only in what is not there: a hung process, a silent rank, a node without a last word.

The look-alikes are ranks that could not speak: not collected, stopped before their turn, or busy elsewhere.
"""

from joblogs import (
    DATA_SUM,
    TENSOR_BATCH,
    arguments,
    death_signal,
    diagnose,
    escalates,
    findings,
    gloo_timeout,
    iterations,
    labelled,
    mismatch,
    nccl_init,
    nccl_peer_gone,
    peer_closed,
    phase,
    raises,
    rendezvous_lost,
    report,
    save_finished,
    save_started,
    srun_aborts,
    srun_exit,
    stops,
    torchrun,
    training_done,
    watchdog,
    worker_failed,
)

BAD_TOKEN = "ValueError: token 50312 is outside of the vocabulary of 50304"


def silent(rank, *, waiting=gloo_timeout, ranks=4, **words):
    """One file a rank; all wait but one, whose last words may be given."""
    files = {f"rank_{r}.log": [] if r == rank else list(waiting(r)) for r in range(ranks)}
    files[f"rank_{ranks - 1}.log"] = [*iterations(30), *files[f"rank_{ranks - 1}.log"]]
    files[f"rank_{rank}.log"] += words.get("last", [])
    return files


def test_a_rank_stopped_because_its_sibling_met_a_contradiction_is_not_silent(tmp_path):
    words = {0: peer_closed(0), 1: mismatch(1, (0, 1600), (1, 800)), 2: [], 3: mismatch(3, (1, 800), (0, 1600))}
    head = {0: [*arguments(world=4, tp=2), *phase(-5)], 3: iterations(30)}
    found = diagnose(tmp_path, torchrun(words, {2: -15}, head=head))
    assert found.verdict.class_ == "application"
    assert "silent while its peers report" not in findings(found)


# --- did not stop on SIGTERM ----------------------------------------------------------------------------------------


def with_escalation(*hung, codes):
    """Two nodes, ranks 0 and 1 lost their peers; on the second node the launcher had to kill some workers."""
    files = torchrun({0: peer_closed(0), 1: peer_closed(1), 3: peer_closed(3), 2: []}, codes, head={3: iterations(30)})
    for host, lines in files.items():
        here = [r for r in hung if r // 2 == int(host == "gpu-a018.log")]
        files[host] = [*lines[:-30], *stops(32, *here), *(x for r in here for x in escalates(62, r)), *lines[-30:]]
    return files


def test_the_worker_that_ignored_sigterm_hung_though_its_sibling_is_the_launchers_root_cause(tmp_path):
    found = diagnose(tmp_path, with_escalation(2, codes={2: -9}))
    assert found.initiator.ranks == [2]
    assert found.initiator.silent
    assert findings(found)["did not stop on SIGTERM"].incident.ranks == (2,)
    assert any("Root Cause" in r.what for r in found.document.ruled_out)


def test_of_several_workers_that_ignored_sigterm_the_one_that_said_nothing_hung(tmp_path):
    found = diagnose(tmp_path, with_escalation(2, 3, codes={2: -9, 3: -9}))
    assert findings(found)["did not stop on SIGTERM"].incident.ranks == (2,)


def test_workers_that_ignore_sigterm_everywhere_say_nothing_about_one(tmp_path):
    files = {
        host + ".log": [*iterations(30), *stops(32, *ranks), *(x for r in ranks for x in escalates(62, r)), *worker_failed(62, ranks[0], 0, -9), *report(host, 62, (ranks[0], 0, -9), (ranks[1], 1, -9))]
        for host, ranks in (("gpu-a017", (0, 1)), ("gpu-a018", (2, 3)))
    }  # fmt: skip
    found = diagnose(tmp_path, files)
    assert "did not stop on SIGTERM" not in findings(found)
    assert found.initiator.ranks == []


# --- silent while its peers report ----------------------------------------------------------------------------------


def test_the_only_collected_rank_without_an_error_hung(tmp_path):
    found = diagnose(tmp_path, silent(1))
    assert found.initiator.ranks == [1]
    assert found.initiator.silent
    assert found.verdict.class_ == "unknown"


def test_a_rank_that_was_not_collected_is_not_silent(tmp_path):
    files = silent(1)
    del files["rank_1.log"]
    files["rank_0.log"] = [*arguments(world=4), *files["rank_0.log"]]
    found = diagnose(tmp_path, files)
    assert found.initiator.ranks == []
    assert "silent while its peers report" not in findings(found)


def test_a_sibling_that_was_stopped_by_sigterm_is_not_the_silent_one(tmp_path):
    """Both ranks of the second node are silent; one was stopped by the launcher before its time-out, the other hung."""
    files = torchrun({0: gloo_timeout(0), 1: gloo_timeout(1), 2: [], 3: []}, {2: -15, 3: -9}, head={3: iterations(30)})
    files["gpu-a018.log"] = [
        *iterations(30),
        *stops(95, 2, 3),
        *escalates(125, 3),
        *report("gpu-a018", 125, (3, 1, -9), (2, 0, -15)),
    ]
    assert diagnose(tmp_path, files).initiator.ranks == [3]


def test_a_rank_that_ended_by_a_status_of_its_own_died_and_did_not_hang(tmp_path):
    files = torchrun(
        {0: peer_closed(0), 1: peer_closed(1), 2: [], 3: peer_closed(3)}, {2: -11}, head={3: iterations(30)}
    )
    found = diagnose(tmp_path, files)
    assert "silent while its peers report" not in findings(found)
    assert found.initiator.ranks == [2]
    assert found.verdict.signature != "rank-hang"


def test_a_rank_that_was_saving_when_it_went_silent_was_slow_at_that(tmp_path):
    found = diagnose(tmp_path, silent(0, last=save_started(30, 31)))
    assert found.initiator.ranks == [0]
    assert found.verdict.subclass == "checkpoint"
    assert "saving" in found.verdict.title


def test_a_save_that_was_finished_is_not_what_the_silent_rank_was_busy_with(tmp_path):
    done = [*save_started(20, 20), *save_finished(20, 21), "loss scale window reset"]
    found = diagnose(tmp_path, silent(0, last=done))
    assert found.initiator.ranks == [0]
    assert found.verdict.subclass != "checkpoint"


def test_of_several_silent_ranks_the_one_that_others_wait_for_hung(tmp_path):
    """Tensor groups 0-1 and 2-3; rank 1 hangs in its batch, rank 0 waits for it, and rank 3 was merely not reached."""
    files = {
        "rank_0.log": [*arguments(world=4, tp=2), *gloo_timeout(0, TENSOR_BATCH)],
        "rank_1.log": ["loading batch 31"],
        "rank_2.log": gloo_timeout(2, DATA_SUM),
        "rank_3.log": iterations(30),
    }
    found = diagnose(tmp_path, files)
    assert found.initiator.ranks == [1]


def test_half_of_the_ranks_being_silent_singles_out_none(tmp_path):
    files = {f"rank_{r}.log": gloo_timeout(r) if r < 4 else ["loading batch 31"] for r in range(8)}
    files["rank_7.log"] = iterations(30)
    found = diagnose(tmp_path, files)
    assert len(found.initiator.ranks) != 1


# --- a node without a last word -------------------------------------------------------------------------------------


def quiet_node(host, ranks, world):
    """A node that starts and then says nothing more."""
    return [
        *phase(0),
        *(x for i, r in enumerate(ranks) for x in nccl_init(host, r, world=world, bus=("1b000", "43000")[i], gpu=i)),
    ]


def node_gone(*, words=(), world=6):
    """Three nodes; the second one's files just end."""
    files = torchrun({r: peer_closed(r, "10.0.0.18") for r in (0, 1, 4, 5)}, head={5: iterations(30)})
    files["gpu-a018.log"] = [*quiet_node("gpu-a018", (2, 3), world), *words]
    return files


def test_the_node_whose_files_just_end_while_all_others_report_is_gone(tmp_path):
    found = diagnose(tmp_path, node_gone())
    assert found.initiator.nodes == ["gpu-a018"]
    assert found.initiator.ranks == [2, 3]
    assert found.initiator.scope == "node"
    assert found.verdict.class_ == "infrastructure"


def test_a_node_that_was_not_collected_is_not_gone(tmp_path):
    files = node_gone()
    del files["gpu-a018.log"]
    found = diagnose(tmp_path, files)
    assert found.initiator.nodes != ["gpu-a018"]
    assert "node without a last word" not in findings(found)


def test_a_node_whose_ranks_lost_their_peers_is_not_gone(tmp_path):
    found = diagnose(tmp_path, node_gone(words=[*peer_closed(2), *peer_closed(3)]))
    assert "node without a last word" not in findings(found)


def test_nodes_that_srun_stopped_after_a_bad_exit_are_not_gone(tmp_path):
    """With one step of four launchers, srun kills the rest before they can write their reports."""
    first = [*raises(BAD_TOKEN, rank=1), *worker_failed(31, 1, 1, 1), *report("gpu-a017", 31, (1, 1, 1), (0, 0, -15))]
    lines = [
        *labelled(0, [*nccl_init("gpu-a017", 0, world=4, bus="1b000"), *nccl_init("gpu-a017", 1, world=4, bus="43000")]),
        *labelled(1, [*nccl_init("gpu-a018", 2, world=4, bus="1b000"), *nccl_init("gpu-a018", 3, world=4, bus="43000"), *iterations(30)]),
        *labelled(0, first),
        *srun_exit("gpu-a017", "0", "Exited with exit code 1"),
        *srun_aborts(),
        *srun_exit("gpu-a018", "1", "Killed"),
    ]  # fmt: skip
    found = diagnose(tmp_path, {"slurm-4242.out": lines})
    assert "node without a last word" not in findings(found)
    assert found.initiator.ranks == [1]


def test_two_nodes_without_a_last_word_accuse_neither(tmp_path):
    files = node_gone(world=8)
    files["gpu-b022.log"] = quiet_node("gpu-b022", (6, 7), 8)
    assert "node without a last word" not in findings(diagnose(tmp_path, files))


# --- a silent node --------------------------------------------------------------------------------------------------


def without_launcher_lines(*, quiet="gpu-a018"):
    """Three nodes without a launcher's report; the ranks of all but one lost their peers."""
    hosts = ("gpu-a017", "gpu-a018", "gpu-b021")
    files = {f"{h}.log": quiet_node(h, (2 * n, 2 * n + 1), 6) for n, h in enumerate(hosts)}
    for n, host in enumerate(hosts):
        files[f"{host}.log"] += [] if host == quiet else [*iterations(5), *peer_closed(2 * n), *peer_closed(2 * n + 1)]
    return files


def test_the_only_collected_node_of_which_no_rank_says_anything_fell_silent_first(tmp_path):
    found = diagnose(tmp_path, without_launcher_lines())
    assert found.initiator.nodes == ["gpu-a018"]
    assert found.initiator.ranks == [2, 3]
    assert findings(found)["silent node"].incident.nodes == ("gpu-a018",)


def test_a_silent_node_that_was_not_collected_is_not_accused(tmp_path):
    files = without_launcher_lines()
    del files["gpu-a018.log"]
    found = diagnose(tmp_path, files)
    assert found.initiator.nodes != ["gpu-a018"]
    assert found.initiator.ranks == []
    assert "silent node" not in findings(found)


def test_of_two_nodes_a_silent_one_is_not_singled_out_by_that(tmp_path):
    """With one node that speaks and one that does not, each could be the other's loss."""
    files = without_launcher_lines()
    del files["gpu-b021.log"]
    assert "silent node" not in findings(diagnose(tmp_path, files))


# --- the host of the store ------------------------------------------------------------------------------------------


def store_lost(*, first=(), second=()):
    """Two nodes; the second one's launcher loses the store, which the first hosts."""
    return {
        "gpu-a017.log": [*phase(0), *nccl_init("gpu-a017", 0, world=4, bus="1b000"), *nccl_init("gpu-a017", 1, world=4, bus="43000"), *first],
        "gpu-a018.log": [*iterations(30), *nccl_init("gpu-a018", 2, world=4, bus="1b000"), *nccl_init("gpu-a018", 3, world=4, bus="43000"), *second, *rendezvous_lost(32, "gpu-a018"), *stops(32, 2, 3)],
    }  # fmt: skip


def test_when_all_other_launchers_lose_the_store_its_host_went_first(tmp_path):
    found = diagnose(tmp_path, store_lost())
    assert found.initiator.nodes == ["gpu-a017"]
    assert found.verdict.class_ == "infrastructure"


def test_a_store_that_goes_because_a_rank_failed_is_not_the_cause(tmp_path):
    failed = [*raises(BAD_TOKEN, rank=1), *worker_failed(31, 1, 1, 1), *report("gpu-a017", 31, (1, 1, 1), (0, 0, -15))]
    found = diagnose(tmp_path, store_lost(first=failed))
    assert found.initiator.ranks == [1]
    assert "store host accused by all others" not in findings(found)


def test_a_store_that_everybody_loses_has_no_host_to_accuse(tmp_path):
    found = diagnose(tmp_path, store_lost(first=[*rendezvous_lost(32, "gpu-a017"), *stops(32, 0, 1)]))
    assert "store host accused by all others" not in findings(found)


def test_the_stores_host_may_be_gone_before_it_could_say_which_ranks_it_has(tmp_path):
    files = {f"{host}.log": [*phase(0), *rendezvous_lost(31, host)] for host in ("gpu-a018", "gpu-b021")}
    files["gpu-b021.log"] += [*peer_closed(4), *peer_closed(5)]
    found = diagnose(tmp_path, {**files, "gpu-a017.log": arguments(world=6, tp=2)})
    assert (found.verdict.class_, found.initiator.nodes) == ("infrastructure", ["gpu-a017"])


def test_a_node_without_rank_0_does_not_host_the_store(tmp_path):
    files = store_lost()
    swapped = {
        "gpu-a017.log": [x.replace("gpu-a018", "gpu-a017") for x in files["gpu-a018.log"]],
        "gpu-a018.log": [x.replace("gpu-a017", "gpu-a018") for x in files["gpu-a017.log"]],
    }
    swapped = {name: [x.replace("rank 0 ", "rank 9 ").replace("rank 2 ", "rank 0 ").replace("rank 9 ", "rank 2 ") for x in lines] for name, lines in swapped.items()}  # fmt: skip
    assert "store host accused by all others" not in findings(diagnose(tmp_path, swapped))


# --- accused by its peers -------------------------------------------------------------------------------------------


def accusations(pairs):
    """NCCL's complaints as (host, rank, lost peer); every host has two ranks."""
    hosts = ("gpu-a017", "gpu-a018", "gpu-b021")
    files = {
        f"{host}.log": [*nccl_init(host, 2 * n, world=6, bus="1b000"), *nccl_init(host, 2 * n + 1, world=6, bus="43000", gpu=1), *iterations(5)]
        for n, host in enumerate(hosts)
    }  # fmt: skip
    for host, rank, peer in pairs:
        files[f"{host}.log"] += nccl_peer_gone(host, rank, peer)
    return files


def test_a_host_that_several_survivors_lost_and_that_accuses_nobody_went_first(tmp_path):
    pairs = [("gpu-a017", 0, "gpu-b021"), ("gpu-a018", 2, "gpu-b021"), ("gpu-a018", 3, "gpu-b021")]
    found = diagnose(tmp_path, accusations(pairs))
    assert found.initiator.nodes == ["gpu-b021"]


def test_an_accused_host_that_itself_lost_a_peer_is_a_link_of_the_chain(tmp_path):
    """gpu-a018 dies of losing gpu-b021 and is then lost by gpu-a017."""
    pairs = [
        ("gpu-a018", 2, "gpu-b021"), ("gpu-a018", 3, "gpu-b021"),
        ("gpu-a017", 0, "gpu-a018"), ("gpu-a017", 1, "gpu-a018"),
    ]  # fmt: skip
    found = diagnose(tmp_path, accusations(pairs))
    assert findings(found)["accused and accusing nobody"].incident.nodes == ("gpu-b021",)


def test_accusations_in_both_directions_point_to_the_link_and_accuse_no_host(tmp_path):
    pairs = [
        ("gpu-a017", 0, "gpu-a018"), ("gpu-a017", 1, "gpu-a018"), ("gpu-a018", 2, "gpu-a017"), ("gpu-a018", 3, "gpu-a017"),
    ]  # fmt: skip
    assert "accused and accusing nobody" not in findings(diagnose(tmp_path, accusations(pairs)))


def test_a_single_accuser_is_not_enough(tmp_path):
    found = diagnose(tmp_path, accusations([("gpu-a017", 0, "gpu-b021")]))
    assert "accused and accusing nobody" not in findings(found)


def test_an_accused_host_of_unknown_ranks_is_named_all_the_same(tmp_path):
    pairs = [("gpu-a017", 0, "gpu-b022"), ("gpu-a018", 2, "gpu-b022"), ("gpu-b021", 4, "gpu-b022")]
    files = accusations(pairs) | {"console/gpu-b022.log": ["boot complete", "login:"]}
    assert findings(diagnose(tmp_path, files))["accused and accusing nobody"].incident.nodes == ("gpu-b022",)


# --- late -----------------------------------------------------------------------------------------------------------


def test_who_finds_closed_connections_among_time_outs_came_late(tmp_path):
    files = silent(2, last=peer_closed(2))
    found = diagnose(tmp_path, files)
    assert found.initiator.ranks == [2]
    assert findings(found)["came after the others had given up"].incident.ranks == (2,)


def test_a_few_time_outs_among_many_closed_connections_make_nobody_late(tmp_path):
    """Two ranks of the first node timed out; all four of the second lost their peers, as they would of any death."""
    words = {r: gloo_timeout(r) if r < 2 else [] if r < 4 else peer_closed(r) for r in range(8)}
    files = torchrun(words, {2: -15, 3: -15}, per_node=4)
    assert "came after the others had given up" not in findings(diagnose(tmp_path, files))


def test_several_latecomers_of_different_nodes_are_no_one_rank(tmp_path):
    files = torchrun({r: peer_closed(r) if r in (1, 2) else gloo_timeout(r) for r in range(8)})
    assert "came after the others had given up" not in findings(diagnose(tmp_path, files))


# --- output that ends early -----------------------------------------------------------------------------------------


def launchers_below_srun(*ends):
    """Two launchers that label the output of their two workers; then what srun says of the launchers."""
    words = {0: [[], phase(0)], 1: [phase(0), iterations(30)]}
    lines = [labelled(t, [f"[default{n}]:{x}" for x in said[n]]) for t, said in words.items() for n in (0, 1)]
    return {"slurm-4242.out": [line for part in (*lines, *ends) for line in part]}


def test_a_launcher_that_srun_saw_killed_first_stopped_though_no_rank_complains(tmp_path):
    found = diagnose(tmp_path, launchers_below_srun(srun_exit("gpu-a018", "1", "Killed")))
    assert (found.verdict.class_, found.verdict.signature) == ("infrastructure", "agent-killed")
    assert (found.initiator.nodes, found.initiator.ranks) == (["gpu-a018"], [])


def test_a_launcher_that_srun_killed_after_another_had_failed_is_not_the_first(tmp_path):
    ends = (srun_exit("gpu-a017", "0", "Exited with exit code 1"), srun_exit("gpu-a018", "1", "Killed"))
    assert "launcher killed" not in findings(diagnose(tmp_path, launchers_below_srun(*ends)))


def test_a_nodes_output_that_stops_while_later_steps_are_saved_lost_its_launcher(tmp_path):
    files = {
        "gpu-a017.log": [
            *phase(0),
            *save_started(10, 10),
            *save_finished(10, 11),
            *save_started(20, 20),
            *save_finished(20, 21),
        ],
        "gpu-a018.log": iterations(14),
    }
    found = diagnose(tmp_path, files)
    assert findings(found)["output ended early"].incident.nodes == ("gpu-a018",)
    assert found.initiator.ranks == []


def test_output_that_ends_with_the_last_step_did_not_end_early(tmp_path):
    files = {
        "gpu-a017.log": [
            *phase(0),
            *save_started(10, 10),
            *save_finished(10, 11),
            *save_started(20, 20),
            *save_finished(20, 21),
        ],
        "gpu-a018.log": iterations(20),
    }
    assert "output ended early" not in findings(diagnose(tmp_path, files))


def test_output_before_an_error_did_not_end_early(tmp_path):
    files = {
        "gpu-a017.log": [
            *save_started(10, 10),
            *save_finished(10, 11),
            *save_started(20, 20),
            *raises(BAD_TOKEN, rank=0),
        ],
        "gpu-a018.log": iterations(14),
    }
    assert "output ended early" not in findings(diagnose(tmp_path, files))


# --- behind in steps ------------------------------------------------------------------------------------------------


def test_the_one_process_that_stopped_a_step_earlier_hung(tmp_path):
    files = {f"rank_{r}.log": iterations(29 if r == 2 else 30) for r in range(4)}
    found = diagnose(tmp_path, files)
    assert found.initiator.ranks == [2]
    assert found.initiator.silent


def test_steps_that_only_some_ranks_print_say_nothing_about_the_others(tmp_path):
    files = {f"rank_{r}.log": iterations(30) if r == 3 else phase(0) for r in range(4)}
    assert diagnose(tmp_path, files).initiator.ranks == []


def test_half_of_the_ranks_a_step_ahead_accuse_nobody(tmp_path):
    files = {f"rank_{r}.log": iterations(30 if r < 2 else 29) for r in range(4)}
    assert "behind in steps" not in findings(diagnose(tmp_path, files))


# --- everybody waits in company -------------------------------------------------------------------------------------


def test_complete_groups_that_wait_across_nodes_point_to_the_network(tmp_path):
    files = torchrun({r: gloo_timeout(r) for r in range(4)}, head={0: arguments(world=4), 3: iterations(30)})
    found = diagnose(tmp_path, files)
    assert found.verdict.class_ == "infrastructure"
    assert found.verdict.subclass == "fabric"
    assert found.initiator.ranks == []
    assert found.verdict.confidence < 0.6


def test_a_group_that_is_not_complete_is_waiting_for_its_member_and_not_for_the_network(tmp_path):
    files = torchrun(
        {r: gloo_timeout(r) if r != 1 else [] for r in range(4)},
        {1: -15},
        head={0: arguments(world=4), 3: iterations(30)},
    )
    found = diagnose(tmp_path, files)
    assert "every group is complete" not in findings(found)


def test_complete_groups_within_one_node_say_nothing_about_the_network(tmp_path):
    files = torchrun(
        {r: gloo_timeout(r, TENSOR_BATCH) for r in range(4)}, head={0: arguments(world=4, tp=2), 3: iterations(30)}
    )
    assert "every group is complete" not in findings(diagnose(tmp_path, files))


# --- nothing to find ------------------------------------------------------------------------------------------------


def test_a_run_that_ends_well_has_no_silent_ranks(tmp_path):
    files = {f"rank_{r}.log": phase(0) for r in range(4)}
    files["rank_3.log"] += [*iterations(1000, first=990), *training_done(1001)]
    found = diagnose(tmp_path, files)
    assert found.verdict.class_ == "none"
    assert found.initiator.ranks == []


def test_a_death_signal_stops_ranks_before_they_can_speak(tmp_path):
    files = {
        "gpu-a017.log": [*phase(0), *gloo_timeout(0), *gloo_timeout(1)],
        "gpu-a018.log": [*iterations(30), *watchdog(2, 630), *death_signal(631, 2, 3)],
    }
    assert findings(diagnose(tmp_path, files)).get("silent while its peers report") is None
