"""Builders of small log directories of a made-up job, in the words the real programs print.

Each function gives the lines of one program for one event; ``write`` puts them into files. ``at`` is seconds after
``START``. Hosts, addresses, pids and paths are invented; pid 4700 is the first node's launcher, and ``pid(rank)`` gives
one for every rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import correlator
from correlator.cascade.model import Finding
from correlator.cascade.rules import find_initiators
from correlator.pipeline import Diagnosis

START = datetime(2025, 3, 14, 10, 0, 0)
HOSTS = ("gpu-a017", "gpu-a018", "gpu-b021", "gpu-b022")
ADDRESSES = ("10.0.0.17", "10.0.0.18", "10.0.0.21", "10.0.0.22")

Lines = list[str]

#: Source lines of a training program that end in a collective: (line number, function, text, collective).
DATA_SUM = (44, "sum_gradients", "dist.all_reduce(bucket, group=mpu.DP)", "all_reduce")
TENSOR_BATCH = (68, "get", "dist.broadcast(tokens, src=first, group=mpu.TP)", "broadcast")
PIPELINE_NEXT = (83, "forward_backward", "dist.send(out.detach(), mpu.pipeline_peer(+1))", "send")
PIPELINE_PREVIOUS = (77, "forward_backward", "dist.recv(state, mpu.pipeline_peer(-1))", "recv")
WORLD_BARRIER = (120, "before_save", "dist.barrier()", "barrier")
Call = tuple[int, str, str, str]


def pid(rank: int) -> int:
    """The process of a rank, the same in all builders."""
    return 4800 + 7 * rank


def clock(at: float, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    return (START + timedelta(seconds=at)).strftime(form)


def write(folder: Path, files: Mapping[str, Sequence[str]]) -> Path:
    """Writes the files of a log directory, in the order given, and returns the directory."""
    for name, lines in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


def diagnose(folder: Path, files: Mapping[str, Sequence[str]]) -> Diagnosis:
    return correlator.diagnose(write(folder, files), workers=1)


def findings(diagnosis: Diagnosis) -> dict[str, Finding]:
    """What every rule found, by the rule's name; of several findings of one rule the strongest."""
    found = sorted(find_initiators(diagnosis.facts), key=lambda f: f.strength)
    return {finding.rule: finding for finding in found}


# --- the training program -------------------------------------------------------------------------------------------


def iterations(last: int, *, first: int = 1, at: float = 0.0, every: float = 1.0, total: int = 1000) -> Lines:
    """Megatron's step lines ``first`` to ``last``; step n is printed at ``at + n * every``."""
    return [
        f" [{clock(at + step * every)}.250000] iteration {step:8}/{total:8} | consumed samples: {step * 16:12} | "
        f"elapsed time per iteration (ms): {every * 1000:.1f} | learning rate: 1.000000E-04 | global batch size:    16 | "
        f"lm loss: 4.483864E+00 | loss scale: 1.0 | grad norm: 0.640 | number of skipped iterations:   0 | "
        f"number of nan iterations:   0 |"
        for step in range(first, last + 1)
    ]


def arguments(*, world: int, tp: int = 1, pp: int = 1) -> Lines:
    """The part of Megatron's argument dump that states the parallel grid."""
    return [
        "------------------------ arguments ------------------------",
        f"  pipeline_model_parallel_size .................... {pp}",
        f"  tensor_model_parallel_size ...................... {tp}",
        f"  world_size ...................................... {world}",
        "-------------------- end of arguments ---------------------",
    ]


def phase(at: float, name: str = "after megatron is initialized") -> Lines:
    return [f"[{name}] datetime: {clock(at)}.000000 "]


def save_started(step: int, at: float) -> Lines:
    return [f"[{clock(at)}.100000] saving checkpoint at iteration {step:7} to /mnt/ckpt in torch format"]


def save_finished(step: int, at: float) -> Lines:
    return [
        f"  [{clock(at)}.200000] successfully saved checkpoint from iteration {step:7} to /mnt/ckpt [ t 1/1, p 1/1 ]"
    ]


def training_done(at: float) -> Lines:
    return [f"[after training is done] datetime: {clock(at)}.000000 "]


def torch_prefix(lines: Iterable[str], rank: int | None) -> Lines:
    """Lines as torch's excepthook prints them after the process group exists: with ``[rankN]:``."""
    return list(lines) if rank is None else [f"[rank{rank}]: {line}" for line in lines]


def raises(
    error: str, *, rank: int | None = None, function: str = "train_step", text: str = "loss = model(batch)"
) -> Lines:
    """A traceback of the program's own; ``error`` is its last line, or lines."""
    return torch_prefix(
        [
            "Traceback (most recent call last):",
            '  File "/opt/job/pretrain.py", line 44, in <module>',
            "    main()",
            f'  File "/opt/job/training.py", line 94, in {function}',
            f"    {text}",
            *error.split("\n"),
        ],
        rank,
    )


def logs_handled(at: float, error: str, *, function: str = "fetch_metric") -> Lines:
    """An exception that the program caught and logged: the traceback begins where it was caught."""
    return [
        f"{clock(at)},250 - ERROR - trainer - could not fetch the metric, going on without it",
        "Traceback (most recent call last):",
        f'  File "/opt/job/metrics.py", line 31, in {function}',
        "    value = source[name]",
        *error.split("\n"),
    ]


def raises_in(call: Call, error: str, *, rank: int | None = None) -> Lines:
    """A traceback that ends inside a collective."""
    line, function, text, collective = call
    return torch_prefix(
        [
            "Traceback (most recent call last):",
            '  File "/opt/job/pretrain.py", line 44, in <module>',
            "    main()",
            f'  File "/opt/job/training.py", line {line}, in {function}',
            f"    {text}",
            '  File "/opt/env/lib/python3.11/site-packages/torch/distributed/c10d_logger.py", line 83, in wrapper',
            "    return func(*args, **kwargs)",
            f'  File "/opt/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 3252, in {collective}',
            "    work.wait()",
            *error.split("\n"),
        ],
        rank,
    )


_GLOO = "/pytorch/third_party/gloo/gloo/transport/tcp"


def peer_closed(rank: int, address: str = ADDRESSES[0], call: Call = DATA_SUM) -> Lines:
    """Gloo on a rank whose peer's process has ended."""
    return raises_in(
        call,
        f"RuntimeError: [{_GLOO}/pair.cc:553] Connection closed by peer [{address}]:391. This is typically caused by a "
        "remote worker crashing. Check the logs of the remote worker before reporting an error.",
        rank=rank,
    )


def gloo_timeout(rank: int, call: Call = DATA_SUM, ms: int = 60000, direction: str = "recv") -> Lines:
    """Gloo on a rank that waited in vain."""
    return raises_in(
        call,
        f"RuntimeError: [{_GLOO}/unbound_buffer.cc:78] Timed out waiting {ms}ms for {direction} operation to complete",
        rank=rank,
    )


def stack_dump(call: Call | None, *, where: tuple[int, str] = (210, "evaluate")) -> Lines:
    """faulthandler's dump of a rank that stands in a collective, or in ``where`` outside of one."""
    inside = []
    if call is None:
        line, function = where
    else:
        line, function, _, collective = call
        inside = [
            f'  File "/opt/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 3252 in {collective}',
            '  File "/opt/env/lib/python3.11/site-packages/torch/distributed/c10d_logger.py", line 83 in wrapper',
        ]
    return [
        "Timeout (0:00:06)!",
        "Thread 0x00007f6eb13e8b80 (most recent call first):",
        *inside,
        f'  File "/opt/job/training.py", line {line} in {function}',
        '  File "/opt/job/pretrain.py", line 44 in <module>',
    ]


def nccl_init(host: str, rank: int, *, world: int, bus: str, gpu: int = 0, comm: str = "0x8f3a91c2") -> Lines:
    return [
        f"{host}:{pid(rank)}:{pid(rank) + 90} [{gpu}] NCCL INFO ncclCommInitRank comm 0x55d1c0 rank {rank} nranks {world} "
        f"cudaDev {gpu} nvmlDev {gpu} busId {bus} commId {comm} - Init COMPLETE"
    ]


def nccl_peer_gone(host: str, rank: int, peer: str, gpu: int = 0) -> Lines:
    return [
        f"{host}:{pid(rank)}:{pid(rank) + 99} [{gpu}] misc/socket.cc:550 NCCL WARN socketProgress: Connection closed by "
        f"remote peer {peer}<45982>"
    ]


# --- c10d's watchdog ------------------------------------------------------------------------------------------------


def _cpp(at: float, letter: str = "E") -> str:
    moment = START + timedelta(seconds=at)
    return (
        f"[{letter}{moment.month}{moment.day:02} {moment:%H:%M:%S}.{moment.microsecond:06}000 ProcessGroupNCCL.cpp:629]"
    )


def _group(group: str, number: int) -> str:
    """``14(NAME)``: global id and description, as since torch 2.4; a bare number: torch 2.3, where each process counts."""
    return f"[PG {group} Rank {number}]" if group.isdigit() else f"[PG ID {group[0]} PG GUID {group} Rank {number}]"


def watchdog(
    rank: int, at: float, *, seq: int = 4711, op: str = "ALLREDUCE", numel: int = 8192, group: str = "0(default_pg)",
    group_rank: int | None = None, seconds: int = 600,
) -> Lines:  # fmt: skip
    """The time-out of one rank's collective, which began ``seconds`` before ``at``; ``group``: GUID and description."""
    return [
        f"[rank{rank}]:{_cpp(at)} {_group(group, rank if group_rank is None else group_rank)} Watchdog caught collective operation "
        f"timeout: WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn={numel}, NumelOut={numel}, Timeout(ms)={seconds * 1000}) "
        f"ran for {seconds * 1000 + 33} milliseconds before timing out."
    ]


def old_watchdog(number: int, *, seq: int = 4711, op: str = "ALLREDUCE", seconds: int = 600) -> Lines:
    """The time-out as torch before 2.3 printed it: no group, no global rank."""
    return [
        f"[E ProcessGroupNCCL.cpp:475] [Rank {number}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, "
        f"OpType={op}, NumelIn=8192, NumelOut=8192, Timeout(ms)={seconds * 1000}) ran for {seconds * 1000 + 33} milliseconds "
        "before timing out."
    ]


def watchdog_status(
    rank: int, at: float, *, seq: int, enqueued: int, completed: int, group: str = "0(default_pg)",
    group_rank: int | None = None,
) -> Lines:  # fmt: skip
    """The counters that the watchdog prints of a group when it gives up."""
    return [
        f"[rank{rank}]:{_cpp(at)} {_group(group, rank if group_rank is None else group_rank)}  failure detected by watchdog at work "
        f"sequence id: {seq} PG status: last enqueued work: {enqueued}, last completed work: {completed}"
    ]


def abort_notice(rank: int, at: float) -> Lines:
    return [
        f"[rank{rank}]:{_cpp(at)} [Rank {rank}] To avoid data inconsistency, we are taking the entire process down."
    ]


def dump_signal(rank: int, at: float, sender: int) -> Lines:
    return [
        f"[rank{rank}]:{_cpp(at)} [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Received a dump signal due to a collective "
        f"timeout from  rank {sender} and we will try our best to dump the debug info."
    ]


def barrier_missing(rank: int, at: float, missing: Sequence[int], *, group_rank: int = 0, ms: int = 60000) -> Lines:
    """``monitored_barrier`` on the first rank of a group; the missing are numbered within the group."""
    moment = START + timedelta(seconds=at)
    numbers = ", ".join(map(str, missing))
    return [
        f"[rank{rank}]:[E{moment.month}{moment.day:02} {moment:%H:%M:%S}.540661638 ProcessGroupGloo.cpp:67] [Rank "
        f"{group_rank}]: Ranks {numbers} failed to pass monitoredBarrier in {ms} ms"
    ]


def barrier_victim(rank: int, at: float, *, group_rank: int) -> Lines:
    moment = START + timedelta(seconds=at)
    return [
        f"[rank{rank}]:[E{moment.month}{moment.day:02} {moment:%H:%M:%S}.704521837 ProcessGroupGloo.cpp:67] Rank {group_rank} "
        "successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0. Please check "
        "rank 0 logs for faulty rank."
    ]


def _fingerprint(shape: int, op: str, seq: int) -> str:
    return (
        f"CollectiveFingerPrint(SequenceNumber={seq}, OpType={op}, TensorShape=[{shape}], TensorDtypes=Float, "
        "TensorDeviceTypes=TensorOptions(dtype=float (default), device=cpu, memory_format=(nullopt)))"
    )


def mismatch(
    rank: int, own: tuple[int, int], other: tuple[int, int], *, op: str = "ALLREDUCE", seqs: tuple[int, int] = (28, 28)
) -> Lines:
    """DETAIL mode's report on a rank: ``own`` and ``other`` are (rank within the group, shape), ``seqs`` their calls."""
    return raises_in(
        DATA_SUM,
        f"RuntimeError: Detected mismatch between collectives on ranks. Rank {own[0]} is running collective: "
        f"{_fingerprint(own[1], op, seqs[0])}, but Rank {other[0]} is running collective: {_fingerprint(other[1], op, seqs[1])}."
        "Collectives differ in the following aspects: \t Tensor Tensor shapes",
        rank=rank,
    )


# --- torchrun's agent -----------------------------------------------------------------------------------------------


def agent(
    at: float, text: str, *, level: str = "W", source: str = "torch/distributed/elastic/multiprocessing/api.py:1028"
) -> Lines:
    """One line of a node's launcher."""
    return [f"{level}{clock(at, '%m%d %H:%M:%S')}.402000 4700 {source}] {text}"]


def worker_failed(at: float, rank: int, local: int, code: int) -> Lines:
    return agent(
        at,
        f"failed (exitcode: {code}) local_rank: {local} (pid: {pid(rank)}) of binary: /opt/env/bin/python3",
        level="E",
    )


def stops(at: float, *ranks: int) -> Lines:
    """The agent stops the siblings of a worker that failed."""
    return [line for r in ranks for line in agent(at, f"Sending process {pid(r)} closing signal SIGTERM")]


def escalates(at: float, rank: int) -> Lines:
    return agent(at, f"Unable to shutdown process {pid(rank)} via 15, forcefully exiting via 9")


def death_signal(at: float, *ranks: int, number: int = 15) -> Lines:
    """The agent itself is told to stop, stops its workers and ends."""
    return [
        *agent(at, f"Received {number} death signal, shutting down workers", source="torch/distributed/elastic/agent/server/api.py:753"),
        *stops(at, *ranks),
        "Traceback (most recent call last):",
        '  File "/opt/env/bin/torchrun", line 8, in <module>',
        "    sys.exit(main())",
        '  File "/opt/env/lib/python3.11/site-packages/torch/distributed/elastic/multiprocessing/api.py", line 86, in _terminate_process_handler',
        '    raise SignalException(f"Process {os.getpid()} got signal: {sigval}", sigval=sigval)',
        f"torch.distributed.elastic.multiprocessing.api.SignalException: Process 4700 got signal: {number}",
    ]  # fmt: skip


def report(
    host: str, at: float, root: tuple[int, int, int], *others: tuple[int, int, int], error_file: str = "<N/A>"
) -> Lines:
    """The agent's closing report; entries are (rank, local rank, exit code), the root cause as the agent sees it first."""

    def entry(index: int, which: tuple[int, int, int]) -> Lines:
        rank, local, code = which
        name = {-9: "  (SIGKILL)", -15: "  (SIGTERM)", -6: "  (SIGABRT)", -11: "  (SIGSEGV)"}.get(code, " ")
        told = f"Signal {-code}{name[1:]} received by PID {pid(rank)}" if code < 0 else "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"  # fmt: skip
        return [
            f"[{index}]:",
            f"  time      : {clock(at, '%Y-%m-%d_%H:%M:%S')}",
            f"  host      : {host}",
            f"  rank      : {rank} (local_rank: {local})",
            f"  exitcode  : {code} (pid: {pid(rank)}){name}",
            f"  error_file: {error_file.format(local=local)}",
            f"  traceback : {told}",
        ]

    failures = [line for i, other in enumerate(others, 1) for line in entry(i, other)] or ["  <NO_OTHER_FAILURES>"]
    return [
        "Traceback (most recent call last):",
        '  File "/opt/env/bin/torchrun", line 8, in <module>',
        "    sys.exit(main())",
        '  File "/opt/env/lib/python3.11/site-packages/torch/distributed/launcher/api.py", line 383, in launch_agent',
        "    raise ChildFailedError(",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "============================================================",
        "pretrain.py FAILED",
        "------------------------------------------------------------",
        "Failures:",
        *failures,
        "------------------------------------------------------------",
        "Root Cause (first observed failure):",
        *entry(0, root),
        "============================================================",
    ]


def rendezvous(at: float, host: str, ranks: Sequence[int], *, group_rank: int, world: int, restart: int = 0) -> Lines:
    """The agent's start-up block: which ranks this node's launcher was given."""
    locals_ = list(range(len(ranks)))
    return [
        *agent(at, "[default] Rendezvous complete for workers. Result:", level="I", source="torch/distributed/elastic/agent/server/api.py:525"),
        f"  restart_count={restart}",
        "  master_addr=gpu-a017",
        "  master_port=29500",
        f"  group_rank={group_rank}",
        f"  group_world_size={world // len(ranks)}",
        f"  local_ranks={locals_}",
        f"  role_ranks={list(ranks)}",
        f"  global_ranks={list(ranks)}",
        f"  role_world_sizes={[world] * len(ranks)}",
        f"  global_world_sizes={[world] * len(ranks)}",
    ]  # fmt: skip


def restarts(at: float, left: int = 2) -> Lines:
    return agent(
        at,
        f"[default] Worker group FAILED. {left}/3 attempts left; will restart worker group",
        level="I",
        source="torch/distributed/elastic/agent/server/api.py:879",
    )


def rendezvous_lost(at: float, host: str) -> Lines:
    return agent(
        at,
        f"The node '{host}_4700_0' has failed to send a keep-alive heartbeat to the rendezvous '4242' due to an error of type "
        "RendezvousConnectionError.",
        source="torch/distributed/elastic/rendezvous/dynamic_rendezvous.py:1341",
    )


def cannot_connect(at: float, host: str, port: int) -> Lines:
    return agent(
        at,
        f"[c10d] The client socket has timed out after 40000ms while trying to connect to ({host}, {port}).",
        level="E",
        source="socket.cpp:1028",
    )


def rendezvous_timeout() -> Lines:
    return [
        "Traceback (most recent call last):",
        '  File "/opt/env/bin/torchrun", line 8, in <module>',
        "    sys.exit(main())",
        '  File "/opt/env/lib/python3.11/site-packages/torch/distributed/elastic/rendezvous/dynamic_rendezvous.py", line 672, in run',
        "    raise RendezvousTimeoutError",
        "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
    ]


def torchrun(
    words: Mapping[int, Sequence[str]], codes: Mapping[int, int] | None = None, *, per_node: int = 2, at: float = 32.0,
    late: Mapping[str, float] | None = None, head: Mapping[int, Sequence[str]] | None = None,
) -> dict[str, Lines]:  # fmt: skip
    """One file a node: what its ranks say, in the order of ``words``, and how its launcher saw them end.

    ``codes``: exit codes by rank, 1 where none is given; the launcher names the first rank of the node that did not end
    by SIGTERM as its root cause. ``late``: by how much a node's launcher lines are later than ``at``. ``head``: lines of
    ranks that come before all words.
    """
    codes, late, head = codes or {}, late or {}, head or {}
    files: dict[str, Lines] = {}
    for number, host in enumerate(HOSTS[: max(words) // per_node + 1]):
        ranks = [r for r in words if r // per_node == number]
        ends = {r: codes.get(r, 1) for r in ranks}
        when = at + late.get(host, 0.0)
        lines = [line for r in sorted(ranks) for line in head.get(r, ())]
        lines += [line for r in ranks for line in words[r]]
        root = next((r for r in ranks if ends[r] != -15), None)
        if root is not None and any(ends.values()):
            others = [r for r in ranks if r != root]
            lines += stops(when, *[r for r in others if ends[r] == -15])
            lines += worker_failed(when, root, root % per_node, ends[root])
            lines += report(host, when, *[(r, r % per_node, ends[r]) for r in (root, *others)])
        files[f"{host}.log"] = lines
    return files


# --- Slurm ----------------------------------------------------------------------------------------------------------


def labelled(task: int, lines: Iterable[str]) -> Lines:
    """Lines as ``srun -l`` prints them."""
    return [f"{task}: {line}" for line in lines]


def srun_exit(host: str, tasks: str, how: str) -> Lines:
    """``how``: ``Killed``, ``Terminated``, ``Exited with exit code 1`` …"""
    return [f"srun: error: {host}: task{'s' if any(c in tasks for c in '-,') else ''} {tasks}: {how}"]


def srun_aborts() -> Lines:
    return ["srun: Job step aborted: Waiting up to 32 seconds for job step to finish."]


def slurm_cancelled(at: float, why: str, host: str = HOSTS[0]) -> Lines:
    return [
        f"slurmstepd: error: *** STEP 4242.0 ON {host} CANCELLED AT {clock(at, '%Y-%m-%dT%H:%M:%S')}{why and ' DUE TO '}{why} ***"
    ]


# --- the kernel -----------------------------------------------------------------------------------------------------


def kernel(at: float, host: str, text: str) -> Lines:
    """One line of a node's journal."""
    return [f"{clock(at, '%b %d %H:%M:%S')} {host} kernel: {text}"]


def xid(at: float, host: str, bus: str, number: int, text: str) -> Lines:
    return kernel(at, host, f"NVRM: Xid (PCI:{bus}): {number}, {text}")


def gpu_off_the_bus(at: float, host: str, bus: str, rank: int) -> Lines:
    return xid(at, host, bus, 79, f"pid={pid(rank)}, name=python3, GPU has fallen off the bus.")


def oom_kill(at: float, host: str, process: int) -> Lines:
    return kernel(
        at,
        host,
        f"Memory cgroup out of memory: Killed process {process} (python3) total-vm:812345678kB, anon-rss:512345678kB, "
        "file-rss:0kB, shmem-rss:0kB, UID:1001 pgtables:1234kB oom_score_adj:0",
    )
