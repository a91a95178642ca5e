"""Causes that lie in the cluster around the job: lost nodes, closed networks, unlike set-ups, killed pods.

The look-alikes are the same lines at a time or in a company in which they mean something else.
"""

from joblogs import (
    clock,
    diagnose,
    findings,
    iterations,
    labelled,
    nccl_init,
    nccl_peer_gone,
    peer_closed,
    raises,
    save_finished,
    srun_exit,
    torchrun,
    training_done,
)


def controller(*texts):
    return [f"[{clock(40, '%Y-%m-%dT%H:%M:%S')}.114] {text}" for text in texts]


# --- nodes that the controller lost ---------------------------------------------------------------------------------


def two_of_four_nodes_silent():
    files = torchrun({0: peer_closed(0), 1: peer_closed(1), 2: peer_closed(2), 3: peer_closed(3)})
    return {**files, "rack9n01.log": iterations(20), "rack9n02.log": iterations(20)}


def test_nodes_that_the_controller_lost_and_that_say_nothing_are_the_cause(tmp_path):
    down = controller("error: Nodes rack9n[01-02] not responding, setting DOWN")
    found = diagnose(tmp_path, {**two_of_four_nodes_silent(), "slurmctld.log": down})
    assert found.verdict.class_ == "infrastructure"
    assert found.initiator.nodes == ["rack9n01", "rack9n02"]
    assert found.initiator.silent


def test_a_lost_node_of_another_job_is_no_cause(tmp_path):
    down = controller("error: Nodes rack7n[01-02] not responding, setting DOWN")
    found = diagnose(tmp_path, {**two_of_four_nodes_silent(), "slurmctld.log": down})
    assert "lost by the controller" not in findings(found)


def test_a_node_that_an_administrator_set_down_is_not_lost(tmp_path):
    down = controller("update_node: node rack9n01 state set to DOWN")
    found = diagnose(tmp_path, {**two_of_four_nodes_silent(), "slurmctld.log": down})
    assert "lost by the controller" not in findings(found)


# --- networks that let nothing through ------------------------------------------------------------------------------


def refused(host):
    return [
        f"{host}:239:240 [0] misc/socket.cc:533 NCCL WARN socketPollConnect: Connect to 192.0.2.4<56813> returned "
        "113(No route to host) errno 115(Operation now in progress)"
    ]


def test_no_route_before_any_step_is_the_network_of_the_node_that_says_so(tmp_path):
    files = {f"gpu-a01{n}.log": nccl_init(f"gpu-a01{n}", n, world=2, bus="1b000") for n in (7, 8)}
    files["gpu-a018.log"] += refused("gpu-a018")
    found = diagnose(tmp_path, files)
    assert (found.verdict.class_, found.verdict.signature) == ("infrastructure", "no-route-at-start")
    assert found.initiator.nodes == ["gpu-a018"]


def test_no_route_after_training_only_says_that_the_other_host_is_gone(tmp_path):
    files = {"gpu-a018.log": [*iterations(20), *nccl_peer_gone("gpu-a018", 1, "gpu-a017"), *refused("gpu-a018")]}
    assert "no route at start" not in findings(diagnose(tmp_path, files))


# --- ranks that do not fit together ---------------------------------------------------------------------------------


def versions(rank, host):
    peer = (rank + 2) % 4
    return [
        *nccl_init(host, rank, world=4, bus="1b000", gpu=rank % 2),
        f"{host}:{4711 + rank}:5012 [0] init.cc:917 NCCL WARN Mismatched NCCL version detected : rank {peer} version 22705 "
        f"rank {rank} version 22703",
        *raises("torch.distributed.DistBackendError: Mismatched NCCL version detected : rank 0 rank 2", rank=rank),
    ]


def test_unlike_versions_are_a_matter_of_all_ranks(tmp_path):
    files = {
        f"gpu-a01{7 + n}.log": [line for r in (2 * n, 2 * n + 1) for line in versions(r, f"gpu-a01{7 + n}")]
        for n in (0, 1)
    }
    found = diagnose(tmp_path, files)
    assert (found.verdict.class_, found.verdict.signature) == ("configuration", "nccl-version-mismatch")
    assert (found.initiator.scope, found.initiator.ranks) == ("all", [0, 1, 2, 3])


def test_unlike_models_accuse_nobody_where_nothing_tells_the_odd_one(tmp_path):
    text = "RuntimeError: DDP expects same model across all ranks, but Rank 0 has 62 params, while rank 1 has inconsistent 60 params."
    found = diagnose(tmp_path, {f"rank_{r}.log": raises(text, rank=r) for r in range(2)})
    assert found.verdict.class_ == "application"
    assert found.verdict.confidence < 0.8


# --- one cause, several signs ---------------------------------------------------------------------------------------


def describe(pod, *events):
    return [
        f"Name:             {pod}",
        "    Last State:     Terminated",
        "      Reason:       Error",
        "      Exit Code:    137",
        "Events:",
        "  Type     Reason     Age    From     Message",
        "  ----     ------     ----   ----     -------",
        *events,
    ]


def test_a_probe_that_had_the_pod_killed_explains_its_exit_code(tmp_path):
    killing = "  Normal   Killing    2m10s  kubelet  Container pytorch failed liveness probe, will be restarted"
    files = {"llm-worker-0.log": peer_closed(0), "llm-worker-1.describe": describe("llm-worker-1", killing)}
    found = diagnose(tmp_path, files)
    assert (found.verdict.class_, found.verdict.signature) == ("configuration", "k8s-liveness-killed")


def test_an_exit_code_of_137_alone_leaves_the_reason_open(tmp_path):
    files = {"llm-worker-0.log": peer_closed(0), "llm-worker-1.describe": describe("llm-worker-1")}
    assert diagnose(tmp_path, files).verdict.class_ == "unknown"


def rerun(verdict):
    return [
        "ERROR:megatron.core.rerun_state_machine:Unexpected result nan on rank 1 at iteration #31 invocation #3 "
        "(message='found NaN in local grad norm')",
        f"WARNING:megatron.core.rerun_state_machine:Rank 1, node gpu-a018, device 1, iteration #31: {verdict}",
    ]


def test_the_frameworks_own_test_of_a_bad_result_outranks_the_bad_result(tmp_path):
    files = {"rank_0.log": iterations(30), "rank_1.log": rerun("Possible transient error!!")}
    found = diagnose(tmp_path, files)
    assert (found.verdict.class_, found.verdict.signature) == ("hardware", "megatron-rerun-transient")


def test_a_bad_result_without_that_test_is_a_matter_of_the_program(tmp_path):
    files = {"rank_0.log": iterations(30), "rank_1.log": rerun("")[:1]}
    assert diagnose(tmp_path, files).verdict.class_ == "application"


def test_a_cause_of_the_node_takes_the_ranks_that_failed_of_it(tmp_path):
    missing = "/tmp/tmpk08/main.c:4:10: fatal error: Python.h: No such file or directory"
    failed = "torch._inductor.exc.InductorError: CalledProcessError: Command '['/usr/bin/gcc']' returned non-zero exit status 1."
    files = torchrun({0: peer_closed(0), 1: peer_closed(1), 2: raises(failed, rank=2), 3: raises(failed, rank=3)})
    files["gpu-a018.log"] = [missing, *files["gpu-a018.log"]]
    found = diagnose(tmp_path, files)
    assert (found.verdict.class_, found.verdict.signature) == ("configuration", "compiler-headers-missing")
    assert (found.initiator.ranks, found.initiator.nodes) == ([2, 3], ["gpu-a018"])


def test_a_death_without_a_place_takes_the_only_node_that_was_lost(tmp_path):
    lines = [
        *iterations(20),
        "command terminated with exit code 137",
        "--------------------------------------------------------------------------",
        "ORTE has lost communication with a remote daemon.",
        "",
        "  HNP daemon   : [[11377,0],0] on node llm-launcher",
        "  Remote daemon: [[11377,0],1] on node llm-worker-0",
    ]
    assert diagnose(tmp_path, {"launcher.log": lines}).initiator.nodes == ["llm-worker-0"]


# --- who is who -----------------------------------------------------------------------------------------------------


def test_the_rank_that_a_pod_states_is_its_own(tmp_path):
    bus = "RuntimeError: DataLoader worker (pid 211) is killed by signal: Bus error."
    files = {f"det-worker-{n}.log": [f"RANK={n + 1} WORLD_SIZE=3 MASTER_ADDR=det-master-0"] for n in (0, 1)}
    files["det-master-0.log"] = [
        "RANK=0 WORLD_SIZE=3 MASTER_ADDR=det-master-0",
        *raises("NCCL error: remote process exited"),
    ]
    files["det-worker-1.log"] += raises(bus)
    assert diagnose(tmp_path, files).initiator.ranks == [2]


def test_a_local_rank_that_the_program_prints_does_not_turn_tasks_into_nodes(tmp_path):
    failed = raises("RuntimeError: CUDA error: uncorrectable ECC error encountered")
    lines = [f"{clock(5)} mixtral-n0:{task % 2}\tolmo.train:120\tINFO\t[step={task}]" for task in range(4)]
    labelled_lines = [x for task, text in enumerate(lines) for x in labelled(task, [text])]
    found = diagnose(
        tmp_path,
        {
            "slurm-448.out": [
                *labelled_lines,
                *labelled(3, failed),
                *srun_exit("nid0022", "3", "Exited with exit code 1"),
            ]
        },
    )
    assert (found.initiator.ranks, found.initiator.nodes) == ([3], ["nid0022"])


def test_a_label_that_is_an_address_gets_the_name_that_its_processes_state(tmp_path):
    files = torchrun(
        {0: peer_closed(0), 1: peer_closed(1), 2: raises("ValueError: bad token", rank=2), 3: peer_closed(3)}
    )
    address = {"gpu-a017.log": "192.0.2.17", "gpu-a018.log": "192.0.2.18"}
    lines = [x for name, text in files.items() for x in labelled(address[name], text)]
    assert diagnose(tmp_path, {"pdsh.txt": lines}).initiator.nodes == ["gpu-a018"]


# --- a job that failed and was done in the end ----------------------------------------------------------------------


def test_a_requeued_job_that_ends_well_did_not_fail(tmp_path):
    lines = [
        *iterations(20),
        *save_finished(20, 21),
        "srun: error: Node failure on gpu-a018",
        *iterations(40, first=21, at=60),
        *training_done(110),
        "== exit 0 ==",
    ]
    assert diagnose(tmp_path, {"pretrain.out": lines}).verdict.class_ == "none"


def test_fan_in_labels_may_be_called_node(tmp_path):
    files = torchrun(
        {0: peer_closed(0), 1: peer_closed(1), 2: raises("ValueError: bad token", rank=2), 3: peer_closed(3)}
    )
    names = {"gpu-a017": "node01", "gpu-a018": "node02"}
    lines = []
    for file, text in files.items():
        host = file.removesuffix(".log")
        lines += [x.replace(host, names[host]) for x in labelled(names[host], text)]
    assert diagnose(tmp_path, {"pdsh.txt": lines}).initiator.nodes == ["node02"]


# --- ends that nothing explains -------------------------------------------------------------------------------------


def test_an_abort_without_a_word_is_a_death_like_any_other(tmp_path):
    words = {0: peer_closed(0), 1: [*iterations(20)], 2: peer_closed(2), 3: peer_closed(3)}
    found = diagnose(tmp_path, torchrun(words, {1: -6}))
    assert found.initiator.ranks == [1]


def test_an_abort_that_an_error_explains_is_not_a_cause_of_its_own(tmp_path):
    words = {0: peer_closed(0), 1: peer_closed(1), 2: raises("ValueError: bad token", rank=2), 3: peer_closed(3)}
    found = diagnose(tmp_path, torchrun(words, {1: -6}))
    assert found.initiator.ranks == [2]


def test_ranks_that_lost_a_peer_do_not_agree_with_those_that_raised(tmp_path):
    damaged = "OSError: [Errno 22] Invalid argument"
    words = {0: peer_closed(0), 1: raises(damaged, rank=1), 2: peer_closed(2), 3: raises(damaged, rank=3)}
    found = diagnose(tmp_path, torchrun(words, {0: -15, 2: -15}))
    assert found.initiator.ranks == [1, 3]
