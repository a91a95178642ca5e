"""Who was there: which machine and which rank a log belongs to, and what must not be taken for either."""

import pytest
from joblogs import (
    arguments,
    diagnose,
    gpu_off_the_bus,
    iterations,
    kernel,
    labelled,
    nccl_init,
    old_watchdog,
    peer_closed,
    phase,
    pid,
    raises,
    rendezvous,
    report,
    srun_exit,
    stops,
    torchrun,
    watchdog,
    worker_failed,
    xid,
)

ERROR = "ValueError: token 50312 is outside of the vocabulary of 50304"


def rank_of_error(found):
    """The rank to which the one error of its own was given."""
    (row,) = [r for r in found.facts.events("python.exception") if ERROR in r.body]
    return row.rank


# --- machines -------------------------------------------------------------------------------------------------------


def test_the_full_and_the_short_name_of_a_machine_are_one_node(tmp_path):
    files = {
        "a.log": [*iterations(3), *nccl_init("gpu-a017.example.net", 0, world=2, bus="1b000")],
        "b.log": nccl_init("gpu-a017", 1, world=2, bus="43000"),
    }
    assert diagnose(tmp_path, files).job.nodes == ["gpu-a017"]


def test_localhost_is_no_node(tmp_path):
    files = {"train.log": [*iterations(3), *nccl_init("localhost", 0, world=1, bus="1b000")]}
    assert diagnose(tmp_path, files).job.nodes == []


def test_sibling_files_named_after_hosts_give_the_nodes(tmp_path):
    files = {"gpu-a017.log": iterations(3), "gpu-a018.log": raises(ERROR)}
    found = diagnose(tmp_path, files)
    assert found.job.nodes == ["gpu-a017", "gpu-a018"]
    assert found.topology.node_of_file == {"gpu-a017.log": "gpu-a017", "gpu-a018.log": "gpu-a018"}


@pytest.mark.parametrize("folder", ["run1-51877", "version_0", "trial-3", "epoch_12", "exp07", "checkpoint-400"])
def test_folders_that_number_runs_and_saves_are_no_nodes(tmp_path, folder):
    other = folder.replace("1", "2").replace("0", "9").replace("3", "4")
    files = {f"{folder}/train.log": iterations(3), f"{other}/train.log": raises(ERROR)}
    assert diagnose(tmp_path, files).job.nodes == []


def test_folders_of_ranks_attempts_and_jobs_are_no_nodes(tmp_path):
    files = {
        f"job-4242/run-1/attempt_0/rank_{r}/stderr.log": raises(ERROR, rank=r) if r else iterations(3) for r in range(2)
    }
    assert diagnose(tmp_path, files).job.nodes == []


def test_the_random_names_of_run_folders_are_no_nodes(tmp_path):
    files = {
        "none_a1b2c3d4/attempt_0/0/stdout.log": iterations(3),
        "none_e5f6g7h8/attempt_0/0/stderr.log": raises(ERROR),
    }
    assert diagnose(tmp_path, files).job.nodes == []


def test_hosts_that_srun_speaks_about_are_not_the_host_of_its_file(tmp_path):
    lines = [
        *labelled(0, iterations(3)),
        *labelled(1, raises(ERROR)),
        *srun_exit("gpu-a018", "1", "Exited with exit code 1"),
    ]
    found = diagnose(tmp_path, {"slurm-4242.out": lines})
    assert found.topology.node_of_file == {}
    assert found.topology.node_of_rank(1) == "gpu-a018"
    assert found.topology.node_of_rank(0) is None


def test_a_line_that_states_its_host_places_the_other_lines_of_its_label(tmp_path):
    lines = [
        *labelled(0, nccl_init("gpu-a017", 0, world=2, bus="1b000")),
        *labelled(1, nccl_init("gpu-a018", 1, world=2, bus="1b000")),
        *labelled(0, iterations(3)),
        *labelled(1, raises(ERROR)),
    ]
    found = diagnose(tmp_path, {"slurm-4242.out": lines})
    assert found.initiator.nodes == ["gpu-a018"]


# --- numbers of a launcher: ranks or nodes? -------------------------------------------------------------------------


def test_srun_labels_number_ranks_where_each_task_is_a_process(tmp_path):
    lines = [
        *labelled(0, iterations(3)),
        *labelled(1, iterations(3)),
        *labelled(2, iterations(3)),
        *labelled(3, raises(ERROR)),
    ]
    found = diagnose(tmp_path, {"slurm-4242.out": [*lines, *labelled(3, ["exiting"])]})
    assert found.topology.tasks_are_ranks
    assert rank_of_error(found) == 3


def test_srun_labels_number_nodes_where_each_task_is_a_launcher(tmp_path):
    second = [*raises(ERROR, rank=3), *worker_failed(32, 3, 1, 1), *report("gpu-a018", 32, (3, 1, 1), (2, 0, -15))]
    first = [
        *peer_closed(0),
        *peer_closed(1),
        *worker_failed(33, 0, 0, 1),
        *report("gpu-a017", 33, (0, 0, 1), (1, 1, 1)),
    ]
    found = diagnose(
        tmp_path, {"slurm-4242.out": [*labelled(0, iterations(30)), *labelled(1, second), *labelled(0, first)]}
    )
    assert not found.topology.tasks_are_ranks
    assert found.initiator.ranks == [3]


def test_a_task_exit_names_no_rank_where_tasks_are_launchers(tmp_path):
    second = [*raises(ERROR, rank=3), *worker_failed(32, 3, 1, 1), *report("gpu-a018", 32, (3, 1, 1), (2, 0, -15))]
    lines = [*labelled(0, iterations(30)), *labelled(1, second), *srun_exit("gpu-a018", "1", "Killed")]
    found = diagnose(tmp_path, {"slurm-4242.out": lines})
    assert 1 not in found.facts.exits


def test_tasks_number_nodes_where_they_follow_the_host_list_and_ranks_go_further(tmp_path):
    lines = [
        "   NodeList=gpu-a[017-018]",
        *iterations(3),
        *(x for r in (1, 2, 3) for x in peer_closed(r)),
        *srun_exit("gpu-a017", "0", "Exited with exit code 1"),
        *srun_exit("gpu-a018", "1", "Killed"),
    ]
    found = diagnose(tmp_path, {"slurm-4242.out": lines})
    assert not found.topology.tasks_are_ranks
    assert found.initiator.ranks != [1]


def test_numbered_sibling_files_are_read_like_labels(tmp_path):
    files = {f"slurm-4242_{task}.out": raises(ERROR) if task == 2 else iterations(3) for task in range(4)}
    assert rank_of_error(diagnose(tmp_path, files)) == 2


def test_a_numbered_file_with_lines_of_several_ranks_is_not_that_ranks(tmp_path):
    files = {
        "slurm-4242_0.out": [*iterations(3), *peer_closed(0), *peer_closed(1)],
        "slurm-4242_1.out": [*raises(ERROR), *peer_closed(2), *peer_closed(3)],
    }
    assert rank_of_error(diagnose(tmp_path, files)) != 1


# --- group ranks ----------------------------------------------------------------------------------------------------


def test_the_watchdogs_rank_number_is_global_where_every_number_reports_once(tmp_path):
    files = {"train.log": [*iterations(3), *(x for n in (0, 1, 3) for x in old_watchdog(n))]}
    found = diagnose(tmp_path, files)
    assert {r.rank for r in found.facts.events("c10d.watchdog_timeout")} == {0, 1, 3}


def test_the_watchdogs_rank_number_is_a_groups_where_one_number_reports_twice(tmp_path):
    files = {
        "gpu-a017.log": [*iterations(3), *old_watchdog(0), *old_watchdog(1)],
        "gpu-a018.log": [*old_watchdog(0), *old_watchdog(1)],
    }
    found = diagnose(tmp_path, files)
    assert {r.rank for r in found.facts.events("c10d.watchdog_timeout")} == {None}


def test_the_prefix_names_the_global_rank_and_the_bracket_the_rank_within_the_group(tmp_path):
    lines = [*iterations(3), *watchdog(5, 630, group="14(TENSOR_MODEL_PARALLEL_GROUP)", group_rank=1)]
    (row,) = diagnose(tmp_path, {"train.log": lines}).facts.events("c10d.watchdog_timeout")
    assert (row.rank, row.group_rank) == (5, 1)


# --- from local rank to global rank ---------------------------------------------------------------------------------


def test_the_rendezvous_block_gives_the_first_rank_of_a_node(tmp_path):
    files = {
        "gpu-a018/none_x7k2m9qp/attempt_0/1/stderr.log": raises(ERROR),
        "gpu-a017/none_c4w8r1tz/attempt_0/0/stdout.log": iterations(3),
        "agents/gpu-a017.log": rendezvous(0, "gpu-a017", [2, 3], group_rank=1, world=4),
        "agents/gpu-a018.log": rendezvous(0, "gpu-a018", [0, 1], group_rank=0, world=4),
    }
    assert rank_of_error(diagnose(tmp_path, files)) == 1


def test_a_local_rank_alone_is_no_global_rank_where_the_nodes_order_is_not_stated(tmp_path):
    files = {
        "gpu-a018/none_x7k2m9qp/attempt_0/1/stderr.log": raises(ERROR),
        "gpu-a017/none_c4w8r1tz/attempt_0/0/stdout.log": iterations(3),
    }
    assert rank_of_error(diagnose(tmp_path, files)) is None


def test_on_a_single_node_the_local_rank_is_the_global_one(tmp_path):
    files = {
        "none_x7k2m9qp/attempt_0/1/stderr.log": raises(ERROR),
        "none_x7k2m9qp/attempt_0/0/stdout.log": iterations(3),
    }
    assert rank_of_error(diagnose(tmp_path, files)) == 1


def test_the_last_node_without_a_stated_place_takes_the_one_that_is_left(tmp_path):
    files = {
        "gpu-a018/none_x7k2m9qp/attempt_0/1/stderr.log": raises(ERROR),
        "gpu-a017/none_c4w8r1tz/attempt_0/0/stdout.log": iterations(3),
        "agents/gpu-a017.log": rendezvous(0, "gpu-a017", [0, 1], group_rank=0, world=4),
    }
    assert rank_of_error(diagnose(tmp_path, files)) == 3


def test_contradicting_places_of_a_node_are_told(tmp_path):
    files = {
        "gpu-a017.log": [*iterations(3), *report("gpu-a017", 30, (1, 1, 1), (0, 0, -15))],
        "gpu-a018.log": [
            *rendezvous(0, "gpu-a018", [2, 3], group_rank=1, world=4),
            *report("gpu-a018", 30, (7, 1, 1), (6, 0, -15)),
        ],
    }
    found = diagnose(tmp_path, files)
    assert any("gpu-a018" in w.why and "first global rank" in w.why for w in found.document.inputs.warnings)


def test_deepspeeds_map_of_global_ranks_places_the_nodes(tmp_path):
    files = {
        "gpu-a017.log": [
            "global_rank_mapping=defaultdict(<class 'list'>, {'gpu-a018': [0, 1], 'gpu-a017': [2, 3]})",
            *iterations(3),
        ],
        "gpu-a018.log": peer_closed(1),
    }
    found = diagnose(tmp_path, files)
    assert found.topology.ranks_on("gpu-a018") == [0, 1]
    assert found.topology.ranks_on("gpu-a017") == [2, 3]


# --- the launcher's report ------------------------------------------------------------------------------------------


def test_the_reports_error_file_names_the_owner_of_an_anonymous_folder(tmp_path):
    where = "/var/log/job/none_q5h1v0xy/attempt_0/{local}/error.json"
    files = {
        "agents/gpu-a017.log": [*phase(0), *report("gpu-a017", 33, (1, 1, 1), (0, 0, 1))],
        "agents/gpu-a018.log": report("gpu-a018", 32, (3, 1, 1), (2, 0, -15), error_file=where),
        "none_q5h1v0xy/attempt_0/1/stderr.log": raises(ERROR),
        "none_q5h1v0xy/attempt_0/0/stderr.log": ["loading data"],
        "none_q5h1v0xy/attempt_0/0/stdout.log": iterations(30),
    }
    found = diagnose(tmp_path, files)
    assert rank_of_error(found) == 3
    assert found.initiator.nodes == ["gpu-a018"]


def test_the_reports_pid_names_the_rank_of_the_launchers_other_lines(tmp_path):
    lines = [
        *iterations(30),
        *stops(31, 2),
        *worker_failed(31, 3, 1, 1),
        *report("gpu-a018", 31, (3, 1, 1), (2, 0, -15)),
    ]
    (row,) = diagnose(tmp_path, {"gpu-a018.log": lines}).facts.events("torchrun.signal_sent")
    assert row.rank == 2


def test_equal_pids_on_two_nodes_are_two_processes(tmp_path):
    def node(host, ranks):
        def same(line):
            return line.replace(str(pid(ranks[0])), "4711").replace(str(pid(ranks[1])), "4712")

        lines = [
            *stops(31, ranks[0]),
            *worker_failed(31, ranks[1], 1, 1),
            *report(host, 31, (ranks[1], 1, 1), (ranks[0], 0, -15)),
        ]
        return [same(line) for line in lines]

    files = {"gpu-a017.log": [*iterations(30), *node("gpu-a017", (0, 1))], "gpu-a018.log": node("gpu-a018", (2, 3))}
    sent = diagnose(tmp_path, files).facts.events("torchrun.signal_sent")
    assert {(r.node, r.pid, r.rank) for r in sent} == {("gpu-a017", 4711, 0), ("gpu-a018", 4711, 2)}


def test_a_lone_prefix_in_a_nodes_file_says_nothing_about_the_lines_without_one(tmp_path):
    files = torchrun({0: peer_closed(0), 1: peer_closed(1), 3: raises(ERROR), 2: peer_closed(2)})
    assert rank_of_error(diagnose(tmp_path, files)) != 2


def test_a_lone_prefix_names_the_owner_of_a_file_that_one_process_wrote(tmp_path):
    files = {"worker-x.log": [*raises(ERROR), *peer_closed(2)], "worker-y.log": [*iterations(30), *peer_closed(0)]}
    assert rank_of_error(diagnose(tmp_path, files)) == 2


def test_deepspeed_kills_its_children_in_the_order_in_which_it_spawned_them(tmp_path):
    lines = [
        *iterations(30),
        *raises(ERROR),
        *(f"[2025-03-14 10:00:33,{n}00] [INFO] [launch.py:319:sigkill_handler] Killing subprocess {p}" for n, p in enumerate((6010, 6003, 6044))),
        "[2025-03-14 10:00:33,900] [ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python3', '-u', 'train.py', '--local_rank=2'] exits with return code = 1",
    ]  # fmt: skip
    found = diagnose(tmp_path, {"train.log": lines})
    assert [found.topology.rank_for_pid(None, p) for p in (6010, 6003, 6044)] == [0, 1, 2]


def test_a_list_of_children_shorter_than_the_last_command_tells_numbers_nobody(tmp_path):
    lines = [
        *iterations(30),
        *raises(ERROR),
        "[2025-03-14 10:00:33,800] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 6044",
        "[2025-03-14 10:00:33,900] [ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python3', '-u', 'train.py', '--local_rank=2'] exits with return code = 1",
    ]  # fmt: skip
    found = diagnose(tmp_path, {"train.log": lines})
    assert found.topology.rank_for_pid(None, 6044) is None
    assert found.initiator.ranks == []


def test_the_children_of_each_node_in_pdshs_one_stream_are_that_nodes(tmp_path):
    nodes = ("node1", "node2")
    world = "WORLD INFO DICT: {'node1': [0, 1], 'node2': [0, 1]}"
    lines = [f"{n}: [2025-03-14 10:00:00,100] [INFO] [launch.py:145:main] {world}" for n in nodes]
    lines += [
        f"{n}: [2025-03-14 10:00:00,200] [INFO] [launch.py:151:main] nnodes=2, num_local_procs=2, node_rank={i}"
        for i, n in enumerate(nodes)
    ]
    lines += [
        f"{n}: [2025-03-14 10:00:33,{k}00] [INFO] [launch.py:315:sigkill_handler] Killing subprocess {6000 + 10 * i + k}"
        for k in (1, 2)
        for i, n in enumerate(nodes)
    ]
    found = diagnose(tmp_path, {"launch.log": lines})
    assert sorted(found.topology.ranks) == [0, 1, 2, 3]
    assert [found.topology.rank_for_pid("node2", p) for p in (6011, 6012)] == [2, 3]


def test_the_spawn_order_gives_no_ranks_where_the_nodes_place_is_unknown(tmp_path):
    kill = "[2025-03-14 10:00:33,000] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 6010"
    files = {"gpu-a017.log": [*iterations(30), kill], "gpu-a018.log": [*raises(ERROR), kill.replace("6010", "6011")]}
    found = diagnose(tmp_path, files)
    assert found.topology.rank_for_pid("gpu-a018", 6011) is None


# --- devices --------------------------------------------------------------------------------------------------------


def identity(host, bus, number):
    return kernel(1, host, f"NVRM: GPU at PCI:{bus}: GPU-0c5e9a17-0000-41b9-a3c7-90e1f1b2c3d{number}")


def test_nccls_init_lines_join_the_kernels_bus_id_to_its_rank(tmp_path):
    inits = [x for r in range(2) for x in nccl_init("gpu-a017", r, world=2, bus=("43000", "1b000")[r], gpu=r)]
    files = {
        "gpu-a017.log": [*inits, *iterations(30)],
        "dmesg-gpu-a017.log": gpu_off_the_bus(31, "gpu-a017", "0000:43:00", 99),
    }
    found = diagnose(tmp_path, files)
    assert found.initiator.ranks == [0]
    assert found.initiator.gpus[0].index == 0


def test_devices_count_like_local_ranks_where_all_of_a_node_are_named(tmp_path):
    buses = ("0000:1b:00", "0000:43:00")
    files = torchrun(
        {0: peer_closed(0), 1: peer_closed(1), 2: [], 3: peer_closed(3)}, {2: -15}, head={3: iterations(30)}
    )
    files["journal/gpu-a018.log"] = [
        *(x for n, bus in enumerate(buses) for x in identity("gpu-a018", bus, n)),
        *xid(31, "gpu-a018", buses[0], 79, "GPU has fallen off the bus."),
    ]
    assert diagnose(tmp_path, files).initiator.ranks == [2]


def test_devices_do_not_count_like_local_ranks_where_only_some_are_named(tmp_path):
    files = torchrun(
        {0: peer_closed(0), 1: peer_closed(1), 2: [], 3: peer_closed(3)}, {2: -15}, head={3: iterations(30)}
    )
    files["journal/gpu-a018.log"] = xid(31, "gpu-a018", "0000:43:00", 79, "GPU has fallen off the bus.")
    found = diagnose(tmp_path, files)
    (row,) = found.facts.events("kernel.xid")
    assert row.rank is None
    assert found.initiator.nodes == ["gpu-a018"]


# --- ranks that say nothing -----------------------------------------------------------------------------------------


def test_a_rank_between_two_of_one_node_is_on_that_node(tmp_path):
    files = {
        "gpu-a017.log": [*iterations(30), *peer_closed(0), *peer_closed(2)],
        "gpu-a018.log": [*peer_closed(3), *peer_closed(5)],
    }
    found = diagnose(tmp_path, files)
    assert found.topology.node_of_rank(1) == "gpu-a017"
    assert found.topology.node_of_rank(4) == "gpu-a018"


def test_nothing_lies_between_where_the_nodes_take_turns(tmp_path):
    files = {
        "gpu-a017.log": [*iterations(30), *peer_closed(0), *peer_closed(4)],
        "gpu-a018.log": [*peer_closed(1), *peer_closed(5)],
    }
    found = diagnose(tmp_path, files)
    assert found.topology.node_of_rank(2) is None


def test_a_rank_whose_node_was_not_collected_is_in_the_roster_and_not_collected(tmp_path):
    lines = [
        *rendezvous(0, "gpu-a017", [0, 1], group_rank=0, world=4),
        *iterations(30),
        *peer_closed(0),
        *peer_closed(1),
    ]
    found = diagnose(
        tmp_path, {"gpu-a017.log": [*lines, *worker_failed(31, 0, 0, 1), *report("gpu-a017", 31, (0, 0, 1), (1, 1, 1))]}
    )
    assert found.job.world_size == 4
    assert [found.topology.ranks[r].collected for r in range(4)] == [True, True, False, False]


def test_all_ranks_are_on_the_only_node_where_nothing_speaks_of_another(tmp_path):
    inits = [x for r in range(2) for x in nccl_init("gpu-a017", r, world=4, bus=("1b000", "43000")[r], gpu=r)]
    found = diagnose(tmp_path, {"gpu-a017.log": [*inits, *iterations(30)]})
    assert found.topology.ranks_on("gpu-a017") == [0, 1, 2, 3]


def test_a_rank_that_speaks_in_a_shared_file_is_heard(tmp_path):
    found = diagnose(tmp_path, torchrun({0: peer_closed(0), 1: peer_closed(1), 2: peer_closed(2), 3: []}, {3: -15}))
    assert found.job.ranks_seen == 3


# --- the world size -------------------------------------------------------------------------------------------------


def test_the_stated_world_size_counts_and_not_the_highest_rank_that_spoke(tmp_path):
    lines = [*arguments(world=16), *iterations(3), *peer_closed(3)]
    assert diagnose(tmp_path, {"train.log": lines}).job.world_size == 16


def test_the_highest_rank_counts_even_if_it_printed_nothing_of_note(tmp_path):
    files = {
        "rank_0.log": iterations(3),
        "rank_1.log": peer_closed(1),
        "rank_2.log": ["loading data"],
        "rank_3.log": [],
    }
    found = diagnose(tmp_path, files)
    assert found.job.world_size == 4
    assert found.topology.ranks[3].collected


def test_a_rank_beyond_the_stated_world_size_is_a_contradiction_that_is_told(tmp_path):
    lines = [*nccl_init("gpu-a017", 0, world=4, bus="1b000"), *iterations(3), *peer_closed(5)]
    found = diagnose(tmp_path, {"gpu-a017.log": lines})
    assert found.job.world_size == 6
    assert any("world size 4" in w.why for w in found.document.inputs.warnings)


def test_the_size_of_a_subgroup_is_not_the_world_size(tmp_path):
    lines = [
        *nccl_init("gpu-a017", 0, world=8, bus="1b000", comm="0x1111"),
        *nccl_init("gpu-a017", 0, world=2, bus="1b000", comm="0x2222"),
        *iterations(3),
    ]
    assert diagnose(tmp_path, {"gpu-a017.log": lines}).job.world_size == 8


def test_the_count_in_a_stale_stores_time_out_is_not_the_world_size(tmp_path):
    error = (
        "RuntimeError: Timed out initializing process group in store based barrier on rank: 1, for key: "
        "store_based_barrier_key:1 (world_size=4, worker_count=16, timeout=0:30:00)"
    )
    dump = ["WORLD_SIZE=2 RANK=1 MASTER_ADDR=gpu-a017 MASTER_PORT=29500"]
    assert diagnose(tmp_path, {"train.log": [*dump, *raises(error)]}).job.world_size == 2


# --- pods -----------------------------------------------------------------------------------------------------------


def pods(events):
    files = {f"pods/llm-worker-{n}.log": peer_closed(n) for n in range(3)}
    files["pods/llm-worker-0.log"] = [*iterations(30), *peer_closed(0)]
    files["events.txt"] = ["LAST SEEN   TYPE      REASON     OBJECT             MESSAGE", *events]
    return files


def test_an_event_about_a_pod_is_joined_to_the_pods_log(tmp_path):
    evicted = "6m1s        Warning   Evicted    pod/llm-worker-2   The node was low on resource: ephemeral-storage."
    found = diagnose(tmp_path, pods([evicted]))
    assert found.initiator.ranks == [2]
    assert found.verdict.class_ == "infrastructure"


def test_an_event_about_a_pod_of_another_job_accuses_none_of_this_one(tmp_path):
    evicted = "6m1s        Warning   Evicted    pod/web-frontend-7   The node was low on resource: ephemeral-storage."
    assert diagnose(tmp_path, pods([evicted])).initiator.ranks == []


def srun_stream(*ends):
    """Three launchers below one srun; what was collected of the second ended before it could say anything of itself."""
    lines = [*labelled(0, report("gpu-a017", 31, (0, 0, 1), (1, 1, 1))), *labelled(1, iterations(3))]
    return [*lines, *labelled(2, report("gpu-b021", 31, (4, 0, 1), (5, 1, 1))), *ends]


def test_the_one_host_that_no_label_has_is_that_of_the_one_label_that_has_none(tmp_path):
    ends = [
        *srun_exit("gpu-a017", "0", "Exited with exit code 1"),
        *srun_exit("gpu-b021", "2", "Exited with exit code 1"),
    ]
    found = diagnose(tmp_path, {"slurm-4242.out": srun_stream(*ends, "srun: error: Node failure on gpu-a018")})
    assert {writer.task: writer.node for writer in found.facts.ingested.writers if writer.task is not None}[
        1
    ] == "gpu-a018"


def test_of_two_hosts_that_no_label_has_neither_is_given_away(tmp_path):
    ends = [*srun_exit("gpu-a017", "0", "Exited with exit code 1"), "srun: error: Node failure on gpu-b099"]
    found = diagnose(tmp_path, {"slurm-4242.out": srun_stream(*ends, "srun: error: Node failure on gpu-a018")})
    assert {writer.task: writer.node for writer in found.facts.ingested.writers if writer.task is not None}[1] is None
