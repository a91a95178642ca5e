"""Lines of Ray, vLLM and SGLang about dead workers, actors and nodes.

Emitted by: Ray 2.9 to 2.46 (driver output, raylet, GCS; ``python/ray/exceptions.py``), vLLM 0.5 to 0.11 (``executor/``,
``v1/engine/core.py``), SGLang 0.5 (``managers/scheduler.py``). Ray drops copies of a message (``[repeated 7x across
cluster]``), so a rank's missing line proves nothing. ``peer`` is the address of the node that the message is about;
``pid`` the process there. Lines about actors are written by their callers: they point, they are not the cause.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from correlator.events import BlockParser, Found, Parser, Pattern

_FACTS = {
    "peer": re.compile(r"(?:Worker IP address|\bip|address|\bIP)\s?[:=]? ?:? ?(\d+\.\d+\.\d+\.\d+)"),
    "pid": re.compile(r"(?:Worker PID|\bpid)\s?[:=] ?(\d+)"),
    "exit_type": re.compile(r"(?:Worker exit type: |exit_type = )(\w+)"),
    "exit_detail": re.compile(r"(?:Worker exit detail: |exit_detail = )(.*)"),
    "class_name": re.compile(r"class_name: ([\w.]+)"),
    "node_id": re.compile(r"(?:Node ID|Node Id|node id|node with node id): ?([0-9a-f]{6,})"),
    "used": re.compile(r"was ([\d.]+GB / [\d.]+GB)"),
}


def _facts(head: str) -> BlockParser:
    """Collects pid, address, exit type and detail from the message and its indented continuation lines."""
    wanted = re.compile(head)

    def block(lines: Sequence[str]) -> list[Found]:
        if not wanted.search(lines[0]):
            return []
        last = 0
        for index, text in enumerate(lines[1:], 1):
            if not re.match(r"\s+\w+: |\t|Memory on the node|The actor is dead|The worker died|Worker exit", text):
                break
            last = index
        text = "\n".join(lines[: last + 1])
        found = {name: match[1] for name, pattern in _FACTS.items() if (match := pattern.search(text))}
        return [Found(0, last, found, body=text)]

    return block


PARSER = Parser(
    name="ray_serving",
    patterns=(
        Pattern(
            event="ray.oom",
            literals=("killed due to the node running low on memory", "killed due to memory pressure (OOM)"),
            block=_facts(r"killed due to (?:the node running low on memory|memory pressure)"),
            block_lines=4,
            sample="Task was killed due to the node running low on memory.\nMemory on the node (IP: 10.0.0.18, ID: "
            "90efe99b) "
            "where the task (actor ID: 0a1b2c, name=Trainer.step, pid=4711, memory used=120.10GB) was running was "
            "503.92GB / "
            "503.93GB (0.999), which exceeds the memory usage threshold of 0.95.",
        ),
        Pattern(
            event="ray.worker_died",
            literals=("A worker died or was killed while executing", "The worker died unexpectedly while executing"),
            block=_facts(r"[Tt]he worker died unexpectedly|A worker died or was killed while executing"),
            block_lines=4,
            sample="A worker died or was killed while executing a task by an unexpected system error. To "
            "troubleshoot the "
            "problem, check the logs for the dead worker. Worker IP address: 10.0.0.18 Worker port: 10003 Worker "
            "PID: 4711 "
            "Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error "
            "code 2. "
            "End of file.",
        ),
        Pattern(  # the control service; INTENDED_… exits are left out
            event="ray.worker_died",
            literals=("Reporting worker exit, worker id = ",),
            block=_facts(r"Reporting worker exit, .*exit_type = (?:SYSTEM_ERROR|USER_ERROR|NODE_OUT_OF_MEMORY)"),
            block_lines=2,
            sample="Reporting worker exit, worker id = 1c42378b, node id = 90efe99b, address = 10.0.0.18, exit_type = "
            "SYSTEM_ERROR, exit_detail = Worker unexpectedly exits with a connection error code 2.",
            not_samples=(
                "Reporting worker exit, worker id = 1c42378b, node id = 90efe99b, address = 10.0.0.18, exit_type = "
                "INTENDED_SYSTEM_EXIT, exit_detail = Worker exits because it was idle.",
            ),
        ),
        Pattern(
            event="ray.node_died",
            literals=("has been marked dead because", "The task's local raylet died", "its node has died"),
            block=_facts(
                r"has been marked dead because|The task's local raylet died|"
                r"The actor (?:is dead|died) because its node has died"
            ),
            block_lines=4,
            sample="The node with node id: 90efe99b01 and address: 10.0.0.18 and node name: 10.0.0.18 has been "
            "marked dead "
            "because the detector has missed too many heartbeats from it.",
        ),
        Pattern(  # Ray Train 2.50 on
            event="ray.node_preempted",
            literals=("the actor's node was preempted",),
            regex=r"the actor's node was preempted(?:: (?P<reason>.+))?",
            sample="the actor's node was preempted: spot instance reclaimed",
        ),
        Pattern(
            event="ray.actor_died",
            literals=("The actor died unexpectedly before finishing", "its worker process has died"),
            block=_facts(
                r"The actor died unexpectedly before finishing|The actor is dead because its worker process has died"
            ),
            block_lines=14,
            sample="The actor died unexpectedly before finishing this task.\n\tclass_name: Trainer\n\tactor_id: "
            "0a1b2c\n\t"
            "pid: 4711\n\tip: 10.0.0.18\nThe actor is dead because its worker process has died. Worker exit type: "
            "SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file.",
        ),
        Pattern(
            event="vllm.worker_died",
            literals=(" died unexpectedly, shutting down executor",),
            regex=r"(?:Worker proc (?P<worker>\w+?-(?P<missing_ranks>\d+)|\S+)|"
            r"RayWorkerProc rank=\[?(?P<rank>\d+)[\d, ]*\]?) died unexpectedly",
            sample="Worker proc VllmWorker-1 died unexpectedly, shutting down executor.",
        ),
        Pattern(  # Ray Train's table of its workers
            event="ray.worker_rank",
            literals=(" world_rank=",),
            regex=r"ip=(?P<node>[\d.]+), pid=(?P<pid>\d+)\) world_rank=(?P<rank>\d+), local_rank=(?P<local_rank>\d+)",
            severity="info",
            sample="- (node_id=0a1b2c, ip=10.0.0.18, pid=4711) world_rank=3, local_rank=1, node_rank=1",
        ),
        Pattern(
            event="vllm.worker_died",
            literals=(" died, exit code: ",),
            regex=r"Worker (?P<worker>\S+) pid (?P<pid>\d+) died, exit code: (?P<exit_code>-?\d+)",
            sample="Worker VllmWorkerProcess pid 4711 died, exit code: -9",
        ),
        Pattern(
            event="vllm.worker_exception",
            literals=("WorkerProc hit an exception", "Error executing method "),
            regex=r"(?:WorkerProc hit an exception|Error executing method '?(?P<method>\w+)'?\. This might cause "
            r"deadlock)",
            sample="WorkerProc hit an exception.",
        ),
        Pattern(
            event="vllm.engine_dead",
            literals=(
                "EngineCore encountered a fatal error",
                "EngineCore failed to start",
                "got fatal signal from worker processes",
            ),
            regex=r"EngineCore (?:encountered a fatal error|failed to start)|got fatal signal from worker processes",
            severity="warning",
            sample="EngineCore encountered a fatal error.",
        ),
        Pattern(  # a reader or the writer of the broadcast queue is stuck
            event="vllm.broadcast_stalled",
            literals=("No available shared memory broadcast block found in", "No available block found in"),
            regex=r"No available (?:shared memory broadcast )?block found in (?P<waited_s>\d+) ?second",
            severity="warning",
            sample="No available shared memory broadcast block found in 60 seconds. This typically happens when "
            "some processes "
            "are hanging or doing some time-consuming work (e.g. compilation).",
        ),
        Pattern(
            event="vllm.parallel_rank",
            literals=(" is assigned as DP rank",),
            regex=r"rank (?P<rank>\d+) in world size (?P<world_size>\d+) is assigned as DP rank (?P<dp>\d+), PP rank "
            r"(?P<pp>\d+), TP rank (?P<tp>\d+)",
            severity="info",
            sample="rank 2 in world size 8 is assigned as DP rank 0, PP rank 0, TP rank 2, EP rank 2",
        ),
        Pattern(
            event="vllm.parallel_rank",
            literals=(" distributed_init_method=",),
            regex=r"world_size=(?P<world_size>\d+) rank=(?P<rank>\d+) local_rank=(?P<local_rank>\d+) "
            r"distributed_init_method=(?P<init_method>\S+)",
            severity="info",
            sample="world_size=16 rank=11 local_rank=3 distributed_init_method=tcp://10.0.0.17:38141 backend=nccl",
        ),
        Pattern(
            event="sglang.exception",
            literals=("Scheduler hit an exception", "Client hit an exception"),
            regex=r"(?:TP(?P<tp>\d+)[^\]]*\] )?(?P<who>Scheduler|\w{1,40}Client) hit an exception",
            sample="Scheduler hit an exception: Traceback (most recent call last):",
        ),
        Pattern(
            event="sglang.watchdog_timeout",
            literals=("Watchdog timeout (self.watchdog_timeout=",),
            regex=r"Watchdog timeout \(self\.watchdog_timeout=(?P<timeout_s>[\d.]+)\)",
            sample="Watchdog timeout (self.watchdog_timeout=300)",
        ),
        Pattern(
            event="sglang.child_failed",
            literals=("Received sigquit from a child process",),
            regex=r"Received sigquit from a child process",
            severity="warning",
            sample="Received sigquit from a child process. It usually means the child failed.",
        ),
    ),
)
