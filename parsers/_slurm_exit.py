"""Patterns for how a Slurm job, a step or its tasks ended, and for lost nodes.

Emitted by: SchedMD/slurm ``src/srun/task_state.c``, ``src/srun/libsrun``, ``src/slurmd``, ``src/slurmctld``; read at
14.11 to 25.05. ``srun`` lines carry no time. Host and task lists stay compressed (``correlator.hostlist`` expands
them). A notice about a lost node is printed by a node that lives.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from correlator.events import Pattern
from parsers._lines import named, one_line, signal_number

_TASK_EXIT = (
    r"srun: error: (?P<nodes>[\w.-]{1,255}(?:\[[\d,-]+\])?[\w.,\[\]-]*): tasks? (?P<tasks>\d[\d,-]*): "
    r"(?P<how>Exited with exit code (?P<exit_code>\d+)|[A-Z][\w /]*)(?P<core> \(core dumped\))?"
)


def _task_exit(match: re.Match[str]) -> Mapping[str, object]:
    """``node`` where one host is named, else ``nodes``; ``task`` where one task is; ``signal`` from words."""
    fields = named(match)
    how = str(fields["how"]).strip()
    if not match["exit_code"]:
        fields["how"] = how
        if (number := signal_number(how)) is not None:
            fields["signal"] = number
    if fields.pop("core", None):
        fields["core_dumped"] = "true"
    if not re.search(r"[,\[]", match["nodes"]):
        fields["node"] = fields.pop("nodes")
    if match["tasks"].isdecimal():
        fields["task"] = match["tasks"]
    return fields


_CANCELLED = (
    r"\*\*\* (?P<kind>STEP|JOB|StepId=|JobId=)? ?(?P<job>\d+)(?P<step_id>[_.+]\S+)?(?: ON (?P<node>\S+))? "
    r"CANCELLED AT (?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?: DUE [Tt][Oo] (?P<reason>[^*,]*?)(?:,[^*]*)?)? ?\*\*\*"
)


def _cancelled(match: re.Match[str]) -> Mapping[str, object]:
    """``reason`` is empty where none is printed: a person, ``--kill-on-bad-exit``, or a dependency."""
    return {**named(match), "reason": match["reason"] or ""}


TASK_EXIT = Pattern(
    event="slurm.task_exit",
    literals=("srun: error: ",),
    block=one_line(_TASK_EXIT, _task_exit),
    block_lines=0,
    sample="srun: error: node[012-013]: tasks 32-39: Exited with exit code 1",
    not_samples=("srun: error: Task launch for StepId=123.0 failed on node node012: Communication connection failure",),
)

TASK_STATE = Pattern(
    event="slurm.task_state",
    literals=("srun: StepId=", "srun: error: StepId=", "srun: step:"),
    regex=r"srun: (?:error: )?(?:StepId=|step:)(?P<job>\d+)(?P<step_id>\.\S+)? tasks? (?P<tasks>\d[\d,-]*): "
    r"(?P<state>exited abnormally|running|exited|unknown)$",
    sample="srun: StepId=123.0 task 37: exited abnormally",
    severity="warning",
)

CANCELLED = Pattern(
    event="slurm.cancelled",
    literals=(" CANCELLED AT ",),
    block=one_line(_CANCELLED, _cancelled),
    block_lines=0,
    sample="slurmstepd: error: *** STEP 123.0 ON node012 CANCELLED AT 2024-05-01T07:40:18 DUE TO NODE FAILURE, SEE "
    "SLURMCTLD LOG FOR DETAILS ***",
)

OOM_KILL = Pattern(
    event="slurm.oom_kill",
    literals=(
        "oom-kill event(s)",
        "oom_kill event",
        "exceeded memory limit (",
        "xceeded job memory limit",
        "xceeded step memory limit",
    ),
    regex=r"(?:Detected (?P<events>\d+) oom[_-]kill events?(?:\(s\))? in (?:StepId=|step "
    r")(?P<job>\d+)(?P<step_id>\.[^\s.]+)?|"
    r"(?:[Jj]ob|[Ss]tep) (?P<over>[\d.]+) exceeded memory limit \((?P<used_kb>\d+) > (?P<limit_kb>\d+)\)|"
    r"[Ee]xceeded (?:job|step) memory limit)",
    sample="slurmstepd: error: Detected 1 oom_kill event in StepId=123.0. Some of the step tasks have been OOM Killed.",
)

NODE_FAILURE = Pattern(
    event="slurm.node_failure",
    literals=("Node failure on ", "step missing and io error on node"),
    regex=r"(?:Node failure on (?P<node>[\w.-]+)$|Node failure on (?P<nodes>\S+)|"
    r"step missing and io error on node (?P<node_index>\d+))",
    sample="srun: error: Node failure on node012",
)

_NODE_DOWN = (
    r"(?:error: Nodes (?P<silent>\S+) not responding(?P<down>, setting DOWN)?|"
    r"Killing (?:JobId=)?(?P<job>\d+) on failed node (?P<failed>\S+)|"
    r"update_node: node (?P<updated>\S+) (?:reason set to: (?P<reason>.*)|state set to "
    r"(?P<state>DOWN\S*|DRAIN\S*|FAIL\S*))|"
    r"JobId=(?P<lost_job>\d+) missing from batch node (?P<missing>[\w.-]+))"
)


def _node_down(match: re.Match[str]) -> Mapping[str, object]:
    """``node`` where one is named, else ``down_nodes``: a controller's list may name nodes of other jobs."""
    fields = named(match)
    fields["what"] = next(key for key in ("silent", "failed", "updated", "missing") if key in fields)
    hosts = str(fields.pop(str(fields["what"])))
    fields["down_nodes" if re.search(r"[,\[]", hosts) else "node"] = hosts
    if fields.pop("down", None):
        fields["state"] = "DOWN"
    return fields


NODE_DOWN = Pattern(
    event="slurm.node_down",
    literals=("error: Nodes ", "on failed node ", "update_node: node ", "missing from batch node "),
    block=one_line(_NODE_DOWN, _node_down),
    block_lines=0,
    sample="error: Nodes node012 not responding, setting DOWN",
    not_samples=("nfs: server fs01 not responding, still trying",),
)

MEMORY_ERROR = Pattern(
    event="slurm.memory_error",
    literals=("UNCORRECTABLE MEMORY ERROR",),
    regex=r"\*\*\* (?:STEP|JOB) (?P<job>\d+)(?P<step_id>\.\S+)?(?: ON (?P<node>\S+))?.*UNCORRECTABLE MEMORY ERROR AT "
    r"(?P<at>\S+)",
    sample="slurmstepd: error: *** STEP 123.0 ON node012 CANCELLED DUE TO UNCORRECTABLE MEMORY ERROR AT "
    "2024-05-01T07:40:18 ***",
)

STUCK = Pattern(
    event="slurm.stuck",
    literals=("JOB NOT ENDING WITH SIGNALS", "JOB NOT RUNNING", "processes not ended yet"),
    regex=r"(?:\*\*\* (?:STEP|JOB) (?P<job>\d+)(?P<step_id>\.\S+)? STEPD TERMINATED ON (?P<node>\S+) AT (?P<at>\S+) "
    r"DUE TO (?P<reason>[^*]*?) \*\*\*|Unable to send SIGKILL to step (?P<pending>\S+), (?P<text>processes not ended "
    r"yet))",
    sample="slurmstepd: error: *** STEP 123.0 STEPD TERMINATED ON node012 AT 2024-05-01T07:40:18 DUE TO JOB NOT ENDING "
    "WITH SIGNALS ***",
    severity="warning",
)

STEP_ABORTED = Pattern(
    event="slurm.step_aborted",
    literals=(
        "Job step aborted: Waiting up to",
        "FAILED (non-zero exit code or other failure mode)",
        "Force Terminated StepId=",
        "Force Terminated job",
        ": Terminating StepId=",
        "srun: Job has been cancelled",
        " has been revoked",
        "First task exited",
        "Timed out waiting for job step to complete",
        "Failed to send MESSAGE_TASK_EXIT",
    ),
    regex=r"(?P<what>Job step aborted|FAILED \(non-zero exit code|Force Terminated|Terminating StepId=|"
    r"Job has been cancelled|Job allocation \d+ has been revoked|First task exited|"
    r"Timed out waiting for job step to complete|Failed to send MESSAGE_TASK_EXIT)",
    sample="srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
    severity="warning",
)

EXIT_PATTERNS: tuple[Pattern, ...] = (
    TASK_EXIT,
    TASK_STATE,
    MEMORY_ERROR,
    CANCELLED,
    OOM_KILL,
    NODE_FAILURE,
    NODE_DOWN,
    STUCK,
    STEP_ABORTED,
)
