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


# --- a machine and the pod on it ------------------------------------------------------------------------------------


def not_ready(kind, name, message):
    return f"12m         Warning   NodeNotReady       {kind}/{name}           {message}"


def test_a_pod_whose_node_is_not_ready_is_on_that_node(tmp_path):
    events = [
        not_ready("node", "pool-7f", "Node pool-7f status is now: NodeNotReady"),
        not_ready("pod", "llm-worker-3", "Node is not ready"),
    ]
    found = diagnose(tmp_path, {"events.txt": events, "rank_0.log": iterations(30)})
    assert found.verdict.class_ == "infrastructure"
    assert found.initiator.nodes == ["pool-7f"]


def test_with_two_nodes_not_ready_a_pod_is_placed_on_neither(tmp_path):
    events = [
        *(not_ready("node", n, f"Node {n} status is now: NodeNotReady") for n in ("pool-7f", "pool-8a")),
        not_ready("pod", "llm-worker-3", "Node is not ready"),
    ]
    found = diagnose(tmp_path, {"events.txt": events, "rank_0.log": iterations(30)})
    assert set(found.initiator.nodes) == {"pool-7f", "pool-8a", "llm-worker-3"}


# --- ranks that are taken twice -------------------------------------------------------------------------------------


def registers(task, ranks, total=8):
    return [f"{task}: Initializing distributed: GLOBAL_RANK: {r}, MEMBER: {r + 1}/{total}" for r in ranks]


def test_two_launchers_that_number_their_processes_from_zero_were_not_told_their_place(tmp_path):
    lines = [*registers(0, range(4)), *registers(1, range(4))]
    found = diagnose(tmp_path, {"slurm-77.out": lines})
    assert (found.verdict.class_, found.verdict.signature) == ("configuration", "ranks-taken-twice")
    assert found.initiator.ranks == []


def test_ranks_that_register_once_each_are_no_mistake(tmp_path):
    lines = [*registers(0, range(4)), *registers(1, range(4, 8))]
    assert diagnose(tmp_path, {"slurm-77.out": lines}).verdict.signature != "ranks-taken-twice"


def test_a_log_that_was_collected_twice_takes_no_rank_twice(tmp_path):
    files = {name: registers(0, range(8)) for name in ("slurm-77.out", "slurm-77-copy.out")}
    assert diagnose(tmp_path, files).verdict.signature != "ranks-taken-twice"


# --- Lightning's launcher -------------------------------------------------------------------------------------------


def lightning(ranks, dead, code=-9):
    lines = [f"Initializing distributed: GLOBAL_RANK: {r}, MEMBER: {r + 1}/8" for r in ranks]
    died = f"[rank: {dead}] Child process with PID 4102 terminated with code {code}. Forcefully terminating all other"
    return [*lines, f"{died} processes to avoid zombies"]


def test_lightnings_dead_child_is_numbered_within_the_ranks_of_its_file(tmp_path):
    found = diagnose(tmp_path, {"first.log": lightning(range(4), 1)[:-1], "second.log": lightning(range(4, 8), 2)})
    assert found.initiator.ranks == [6]
    assert found.verdict.class_ == "unknown"


def test_lightnings_dead_child_names_no_rank_where_two_files_state_none(tmp_path):
    files = {"gpu-a017.log": iterations(30), "gpu-a018.log": [*iterations(30), lightning((), 2)[-1]]}
    assert diagnose(tmp_path, files).initiator.ranks == []


# --- lines that stand for others' -----------------------------------------------------------------------------------

NO_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79 GiB"
)


def ray(rank, text):
    """Four ranks on two nodes; the driver's own node is not named."""
    return f"(RayWorkerWrapper pid={5000 + rank}{', ip=10.0.0.18' if rank > 1 else ''}) {text}"


def vllm(*lines):
    state = "DEBUG 08-09 07:31:40 parallel_state.py:803] world_size=4 rank={} local_rank={} "
    method = "distributed_init_method=tcp://10.0.0.17:38141 backend=nccl"
    return [*(ray(r, state.format(r, r % 2) + method) for r in range(4)), *lines]


def test_as_many_lines_as_a_node_has_ranks_are_those_ranks(tmp_path):
    lines = [ray(3, f"[rank3]: {NO_MEMORY}"), ray(2, f"[rank2]: {NO_MEMORY} [repeated 1x across cluster]")]
    assert diagnose(tmp_path, {"head.log": vllm(*lines)}).initiator.ranks == [2, 3]


def test_a_line_that_stands_for_others_pins_not_the_one_that_is_shown(tmp_path):
    line = ray(3, f"[rank3]: {NO_MEMORY} [repeated 3x across cluster]")
    assert diagnose(tmp_path, {"head.log": vllm(line)}).initiator.ranks != [3]


def test_a_line_that_stands_for_itself_names_its_rank(tmp_path):
    assert diagnose(tmp_path, {"head.log": vllm(ray(3, f"[rank3]: {NO_MEMORY}"))}).initiator.ranks == [3]


# --- kernel logs ----------------------------------------------------------------------------------------------------

XID = "[Mon Feb  2 22:52:45 2026] NVRM: Xid (PCI:0000:4c:00): 79, pid=4711, name=python3, GPU has fallen off the bus."


def test_a_kernel_log_without_host_names_is_of_the_host_that_its_file_is_named_after(tmp_path):
    assert diagnose(tmp_path / "a", {"hgx-31.dmesg": [XID]}).initiator.nodes == ["hgx-31"]
    assert diagnose(tmp_path / "b", {"dmesg-hgx-31.txt": [XID]}).initiator.nodes == ["hgx-31"]
    other = "[Mon Feb  2 22:52:44 2026] nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context"
    assert diagnose(tmp_path / "c", {"hgx-31.dmesg": [other, XID]}).initiator.nodes == ["hgx-31"]


def test_a_kernel_log_that_is_named_after_no_host_gives_none(tmp_path):
    assert diagnose(tmp_path / "a", {"dmesg-2026-02-02.txt": [XID]}).initiator.nodes == []
    assert diagnose(tmp_path / "b", {"dmesg.log": [XID]}).initiator.nodes == []
    assert diagnose(tmp_path / "c", {"train-31.log": [XID]}).initiator.nodes == []


# --- pods that were started anew ------------------------------------------------------------------------------------

RESET = "[pair.cc:589] Read error [192.0.2.17]:31022: Connection reset by peer"


def pods(**restarts):
    listed = [f"{n.replace('_', '-'):<18} 1/1     Running   {count}          3h2m" for n, count in restarts.items()]
    reset = f"RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/{RESET[1:]}"
    logs = {f"llm-worker-{n}.log": [*iterations(20), *raises(reset)] for n in (0, 1)}
    return {"pods.txt": ["NAME               READY   STATUS    RESTARTS   AGE", *listed], **logs}


def test_the_only_pod_of_a_job_that_was_restarted_is_the_one_that_died(tmp_path):
    found = diagnose(tmp_path, pods(llm_worker_0=0, llm_worker_1=0, llm_worker_2=1, minio_0=14))
    assert found.initiator.nodes == ["llm-worker-2"]
    assert found.verdict.class_ == "unknown"


def test_pods_of_other_jobs_may_have_restarted_as_often_as_they_like(tmp_path):
    found = diagnose(tmp_path, pods(llm_worker_0=0, llm_worker_1=0, llm_worker_2=0, minio_0=14))
    assert "restarted alone" not in findings(found)


def test_pods_that_were_all_restarted_name_nobody(tmp_path):
    found = diagnose(tmp_path, pods(llm_worker_0=2, llm_worker_1=2, llm_worker_2=2))
    assert "restarted alone" not in findings(found)


# --- a fabric that no node can open ---------------------------------------------------------------------------------


def not_opened(host):
    head = f"{host}:4711:4890 [0]"
    return [
        f"{head} nccl_net_ofi_domain_get_ep:969 NCCL WARN NET/OFI Creating new endpoint for domain 0x7f9b failed: x"
    ]


def test_a_fabric_that_every_node_is_refused_is_a_set_up_error_of_all(tmp_path):
    found = diagnose(tmp_path, {f"{host}.log": not_opened(host) for host in ("gpu-a017", "gpu-a018")})
    assert found.verdict.class_ == "configuration"
    assert found.initiator.scope == "all"


def test_a_fabric_that_one_node_is_refused_is_that_nodes(tmp_path):
    fine = ["gpu-a018:4711:4890 [0] NCCL INFO NET/OFI Selected Provider is efa (found 4 nics)"]
    found = diagnose(tmp_path, {"gpu-a017.log": not_opened("gpu-a017"), "gpu-a018.log": fine})
    assert found.initiator.scope == "node"
    assert found.initiator.nodes == ["gpu-a017"]
