"""Lines of JAX's distributed service (XLA's coordination service) and of JAX start-up.

Emitted by: ``xla/tsl/distributed_runtime/coordination/``, ``jax/_src/distributed.py``. Versions checked: jaxlib 0.4.38
and 0.7.2 string tables, flax's and MaxText's start lines. A task is a process; its number is ``jax.process_index()``
and is given as attribute ``tasks``. Most of these lines are written by survivors about the tasks that went silent
(defaults: heartbeat 100 s, initialisation 300 s, shutdown 300 s).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from correlator.events import BlockParser, Found, Parser, Pattern

_TASK = re.compile(r"/job:\w+/replica:\d+/task:(\d+)")


def _tasks_below(head: str) -> BlockParser:
    """The tasks named on the candidate line behind ``head`` and on the lines of the list below it."""
    wanted = re.compile(head)

    def block(lines: Sequence[str]) -> list[Found]:
        match = wanted.search(lines[0])
        if match is None:
            return []
        tasks = _TASK.findall(lines[0][match.end() :])
        last = 0
        for index, text in enumerate(lines[1:], 1):
            named = _TASK.findall(text)
            if not named or not text.lstrip().startswith("/job:"):
                break
            tasks += named
            last = index
        fields: dict[str, object] = {k: v for k, v in match.groupdict().items() if v}
        if tasks:
            fields["tasks"] = ",".join(dict.fromkeys(tasks))
        return [Found(0, last, fields)]

    return block


PARSER = Parser(
    name="jax",
    patterns=(
        Pattern(
            event="jax.task_unhealthy",
            literals=("tasks are unhealthy",),
            block=_tasks_below(r"tasks are unhealthy \(stopped sending heartbeats\):?"),
            block_lines=64,
            sample="The following tasks are unhealthy (stopped sending heartbeats):\n/job:jax_worker/replica:0/task:5\n"
            "/job:jax_worker/replica:0/task:6",
        ),
        Pattern(
            event="jax.task_unhealthy",
            literals=("heartbeat timeout. This indicates",),
            regex=r"/task:(?P<tasks>\d+) heartbeat timeout\. This indicates that the remote task has failed",
            sample="/job:jax_worker/replica:0/task:5 heartbeat timeout. This indicates that the remote task has "
            "failed, got "
            "preempted, or crashed unexpectedly. Check the task logs for more details.",
        ),
        Pattern(
            event="jax.barrier_timeout",
            literals=("Barrier timed out. Id: ",),
            block=_tasks_below(r"Barrier timed out\. Id: (?P<barrier>\S+?)\.?(?:\s.*[Tt]imed out task names:|\s|$)"),
            block_lines=64,
            sample="Barrier timed out. Id: [Init]Wait_for_all_tasks_to_register::0. This usually happens because a "
            "task "
            "triggered the barrier too early or too slowly. Some timed out task "
            "names:\n/job:jax_worker/replica:0/task:3",
        ),
        Pattern(  # before jaxlib 0.4.31: all tasks that are missing, not some
            event="jax.barrier_timeout",
            literals=("Barrier timed out. Barrier_id: ",),
            block=_tasks_below(r"Barrier timed out\. Barrier_id: (?P<barrier>\S+?)\.? Timed out task names:"),
            block_lines=64,
            sample="Barrier timed out. Barrier_id: PjRT_Client_Connect. Timed out task names:\n"
            "/job:jax_worker/replica:0/task:1\n/job:jax_worker/replica:0/task:6",
            not_samples=('"grpc_message":"Barrier timed out. Barrier_id: sync0. Timed out tasks were not listed',),
        ),
        Pattern(
            event="jax.barrier_timeout",
            literals=("Some timed out task names:",),
            block=_tasks_below(r"[Ss]ome timed out task names:"),
            block_lines=64,
            sample="Some timed out task names:\n/job:jax_worker/replica:0/task:3",
        ),
        Pattern(
            event="jax.barrier_timeout",
            literals=("Shutdown barrier has failed", "Shutdown barrier in coordination service has failed"),
            regex=r"Shutdown barrier (?:in coordination service )?has failed",
            severity="warning",
            fields={"barrier": "shutdown"},
            sample="Shutdown barrier has failed.",
        ),
        Pattern(
            event="jax.fatal",
            literals=(
                "Terminating process because the JAX distributed service",
                "Terminating process because the coordinator",
            ),
            regex=r"Terminating process because the (?:JAX distributed service detected fatal errors|coordinator "
            r"detected "
            r"missing heartbeats)",
            sample="Terminating process because the JAX distributed service detected fatal errors. This most likely "
            "indicates "
            "that another task died; see the other task logs for more details.",
        ),
        Pattern(
            event="jax.fatal",
            literals=("Failed to send RPC to coordination service",),
            regex=r"Failed to send RPC to coordination service",
            fields={"tasks": "0"},
            sample="Failed to send RPC to coordination service. Either the leader task was preempted/died/restarted "
            "unexpectedly or this task is experiencing network issues.",
        ),
        Pattern(
            event="jax.fatal",
            literals=("Leader incarnation ID mismatch",),
            regex=r"Leader incarnation ID mismatch",
            fields={"tasks": "0"},
            sample="Leader incarnation ID mismatch: leader task has restarted",
        ),
        Pattern(
            event="jax.polled_error",
            literals=(
                "Polled an error from coordination service",
                "Sending the error as a response to all error polling",
            ),
            regex=r"Polled an error from coordination service|Sending the error as a response to all error polling "
            r"requests",
            severity="warning",
            sample="Polled an error from coordination service (this can be an error from this or another task).",
        ),
        Pattern(
            event="jax.connect",
            literals=("Connecting to JAX distributed service on",),
            regex=r"Connecting to JAX distributed service on (?P<peer>\S+:\d+)",
            severity="info",
            sample="Connecting to JAX distributed service on 10.0.0.17:1234",
        ),
        Pattern(  # flax's examples, and loops that print the same two numbers with the devices
            event="jax.process",
            literals=("JAX process: ", " local devices"),
            regex=r"(?:JAX process: |\bprocess )(?P<rank>\d+) ?(?:/|of) ?(?P<world_size>\d+)\b",
            severity="info",
            sample="JAX process: 2 / 4",
        ),
        Pattern(
            event="jax.preemption",
            literals=("reemption sync protocol", "SIGTERM caught at "),
            regex=r"[Pp]reemption sync protocol|SIGTERM caught at ",
            severity="warning",
            sample="Preemption sync protocol cancelled by notifier: SIGTERM caught at 2024-05-01T07:40:18+00:00",
        ),
    ),
)
