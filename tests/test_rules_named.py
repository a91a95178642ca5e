"""Whom the survivors name: hosts where a process ended, ranks that waiters wait for, ranks that did not come.

The look-alikes name several, or somebody who waits for another himself.
"""

from joblogs import diagnose, findings, iterations, raises

# --- one host that all reports name ---------------------------------------------------------------------------------


def ray_death(address, pid, repeated=""):
    return [
        f"(raylet, ip={address}) A worker died or was killed while executing a task by an unexpected system error. To "
        f"troubleshoot the problem, check the logs for the dead worker. Worker IP address: {address} Worker port: 10230 "
        f"Worker PID: {pid} Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a "
        f"connection error code 2. End of file.{repeated}"
    ]


RAY_STEP = ["(Trainer pid=4811, ip=192.0.2.17) step 12 loss 2.31"]


def test_a_worker_that_ray_lost_is_placed_on_the_host_of_the_report(tmp_path):
    found = diagnose(tmp_path, {"driver.log": [*RAY_STEP, *ray_death("192.0.2.18", 4911)]})
    assert found.initiator.nodes == ["192.0.2.18"]
    assert found.verdict.class_ == "unknown"


def test_workers_that_ray_lost_on_two_hosts_accuse_neither(tmp_path):
    lost = [*ray_death("192.0.2.18", 4911), *ray_death("192.0.2.17", 4811)]
    assert diagnose(tmp_path, {"driver.log": [*RAY_STEP, *lost]}).initiator.nodes == []


def test_a_report_that_stands_for_others_that_were_dropped_accuses_no_host(tmp_path):
    lost = ray_death("192.0.2.18", 4911, " [repeated 3x across cluster]")
    assert diagnose(tmp_path, {"driver.log": [*RAY_STEP, *lost]}).initiator.nodes == []


def test_a_worker_that_had_lost_a_peer_itself_did_not_go_first(tmp_path):
    own = [
        "(Trainer pid=4911, ip=192.0.2.18) [rank1]:[E1224 13:23:05.483840160 ProcessGroupNCCL.cpp:542] [Rank 1] "
        "Collective WorkNCCL(SeqNum=1, OpType=BROADCAST, NumelIn=7, NumelOut=7, Timeout(ms)=1800000) raised the "
        "following async exception: NCCL error: remote process exited or there was a network error, NCCL version 2.21.5"
    ]
    found = diagnose(tmp_path, {"driver.log": [*RAY_STEP, *own, *ray_death("192.0.2.18", 4911)]})
    assert "death reported at one host" not in findings(found)


def node_dropped(named):
    return [
        "[2024-05-01 07:40:18,401] torch.distributed.elastic.rendezvous.dynamic_rendezvous: [DEBUG] As part of the sync "
        f"operation the node(s) {named} have been removed from the rendezvous 'exp7' since they had no heartbeat."
    ]


def test_the_launcher_whose_heartbeat_stopped_is_named_also_when_its_log_was_not_collected(tmp_path):
    found = diagnose(tmp_path, {f"gpu-a01{n}.log": [*iterations(9), *node_dropped("'gpu-b021_398_0'")] for n in (7, 8)})
    assert found.initiator.nodes == ["gpu-b021"]
    assert found.verdict.class_ == "infrastructure"


def test_two_launchers_whose_heartbeats_stopped_together_are_not_one_culprit(tmp_path):
    both = node_dropped("'gpu-b021_398_0', 'gpu-b022_401_0'")
    assert diagnose(tmp_path, {"gpu-a017.log": [*iterations(9), *both]}).initiator.nodes == []


# --- a crash after a lost peer --------------------------------------------------------------------------------------


def peer_disconnected(host, pid, peer):
    return [
        "-" * 74,
        "An MPI communication peer process has unexpectedly disconnected.  This",
        "usually indicates a failure in the peer process (e.g., a crash or",
        "otherwise exiting without calling MPI_FINALIZE first).",
        "",
        f"  Local host: {host}",
        f"  Local PID:  {pid}",
        f"  Peer host:  {peer}",
        "-" * 74,
    ]


def noticed(rank, pid, host):
    return [
        f"mpirun noticed that process rank {rank} with PID {pid} on node {host} exited on signal 11 (Segmentation fault)."
    ]


def test_who_crashes_of_a_lost_peer_is_not_the_one_that_went_first(tmp_path):
    found = diagnose(
        tmp_path, {"job.out": [*peer_disconnected("gpu-a017", 7720, "gpu-a018"), *noticed(7, 7720, "gpu-a017")]}
    )
    assert found.initiator.nodes == ["gpu-a018"]


def test_the_crash_of_another_process_than_the_one_that_lost_its_peer_stands(tmp_path):
    found = diagnose(
        tmp_path, {"job.out": [*peer_disconnected("gpu-a018", 8810, "gpu-a017"), *noticed(7, 7720, "gpu-a017")]}
    )
    assert (found.initiator.ranks, found.initiator.nodes) == ([7], ["gpu-a017"])


# --- time-outs that name whom they wait for -------------------------------------------------------------------------


def notify_timeout(rank, remote, size=8):
    failed = "RuntimeError: npuSynchronizeDevice:torch_npu/npu.cpp:479 NPU function error: AclrtSynchronizeDeviceWithTimeout, error code is 507048"
    return [
        f"[rank{rank}]: {failed}",
        f"[rank{rank}]: EI0002: [PID: {2969 + rank}] 2024-05-01-07:40:18.713.335 The wait execution of the Notify register "
        f"times out. Reason: The Notify register has not received the Notify record from remote rank: [{remote}]. base "
        f"information: [streamID:[109]]. group information: [group:[hccl_world_group], rankSize[{size}], rankId[{rank}]]",
    ]


def ring(*waiting, size=8):
    return [line for rank in waiting for line in notify_timeout(rank, (rank - 1) % size, size)]


def test_a_ring_of_waiters_ends_at_the_rank_that_waits_for_nobody(tmp_path):
    found = diagnose(tmp_path, {"train.log": ["[rank4]: step 88 done", *ring(0, 1, 2, 3, 5, 6, 7)]})
    assert found.initiator.ranks == [4]
    assert found.verdict.class_ == "unknown"


def test_a_closed_ring_of_waiters_accuses_nobody(tmp_path):
    assert diagnose(tmp_path, {"train.log": ring(*range(8))}).initiator.ranks == []


def test_two_ends_of_waiting_accuse_nobody(tmp_path):
    found = diagnose(tmp_path, {"train.log": ring(0, 1, 3, 5, 6, 7)})
    assert "end of the waiting" not in findings(found)


def test_a_device_error_of_the_awaited_rank_says_more_than_that_it_is_awaited(tmp_path):
    own = raises("ValueError: sample 812 has no label", rank=4)
    found = diagnose(tmp_path, {"train.log": [*own, *ring(0, 1, 2, 3, 5, 6, 7)]})
    assert (found.initiator.ranks, found.verdict.class_) == ([4], "application")


# --- lists of those that came, or did not ---------------------------------------------------------------------------

STALLED = (
    "WARNING: One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting "
    "for remainder of ranks for more than 60 seconds. "
)


def horovod(*ready):
    there = [f"[1,{r}]<stdout>:Running on rank {r} of 8" for r in range(8)]
    ops = ", ".join(f"allreduce.grad_{n} [ready ranks: {ranks}]" for n, ranks in enumerate(ready))
    return [*there, f"[1,0]<stderr>:{STALLED}", f"[1,0]<stderr>:Stalled ops: {ops}"]


def test_where_the_ready_ranks_are_listed_the_others_are_missing(tmp_path):
    found = diagnose(tmp_path, {"job.log": horovod("5, 1, 4, 7, 2, 3", "5, 1, 4, 7, 2, 3")})
    assert found.initiator.ranks == [0, 6]


def test_ranks_that_are_ready_for_different_tensors_are_all_there(tmp_path):
    assert diagnose(tmp_path, {"job.log": horovod("3", "0, 1, 2, 4, 5, 6, 7")}).initiator.ranks == []


def test_tasks_that_an_old_jax_barrier_lists_never_came(tmp_path):
    head = "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: PjRT_Client_Connect. Timed out task names:"
    tasks = [f"/job:jax_worker/replica:0/task:{n}" for n in (1, 3, 2)]
    assert diagnose(tmp_path, {"process0.log": [head, *tasks]}).initiator.ranks == [1, 2, 3]


# --- who cannot reach its adapter -----------------------------------------------------------------------------------


def verbs(host, reason):
    return [f"{host}:4711:5012 [0] misc/ibvwrap.cc:284 NCCL WARN Call to ibv_modify_qp failed with error {reason}"]


def test_a_verbs_call_without_a_device_is_the_callers_own_fault(tmp_path):
    found = diagnose(tmp_path, {"gpu-a017.log": verbs("gpu-a017", "No such device"), "gpu-a018.log": iterations(1)})
    assert found.initiator.nodes == ["gpu-a017"]


def test_a_verbs_call_that_times_out_may_be_either_ends_fault(tmp_path):
    found = diagnose(
        tmp_path, {"gpu-a017.log": verbs("gpu-a017", "Connection timed out errno 110"), "gpu-a018.log": iterations(1)}
    )
    assert found.initiator.nodes == []


def test_a_peer_that_does_not_answer_is_not_the_error_of_who_reads_from_it(tmp_path):
    text = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:538] Read error [192.0.2.17]:20817: Connection timed out"
    found = diagnose(tmp_path, {"rank_0.log": iterations(9), "rank_1.log": raises(text, rank=1)})
    assert (found.verdict.class_, found.initiator.ranks) != ("application", [1])


# --- cluster events beside logs --------------------------------------------------------------------------------------


def test_a_node_of_cluster_events_alone_is_not_the_node_of_the_logs_beside_them(tmp_path):
    events = [
        "LAST SEEN   TYPE      REASON         OBJECT               MESSAGE",
        "2m          Normal    NodeNotReady   node/gpu-node-11     Node gpu-node-11 status is now: NodeNotReady",
    ]
    found = diagnose(
        tmp_path, {"events.txt": events, "llm-worker-0.log": [f"[rank0]: {line}" for line in iterations(3)]}
    )
    assert (found.initiator.nodes, found.initiator.ranks) == (["gpu-node-11"], [])
