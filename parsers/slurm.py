"""Slurm: how steps and tasks ended, lost nodes, host lists, accounting output, and submitit's launcher.

Emitted by: SchedMD/slurm (see ``_slurm_exit``), ``scontrol show job``, ``sacct``, ``squeue``;
facebookincubator/submitit. Gives ``slurm.*``. The leading ``srun: error: `` or ``slurmstepd: error: `` belongs to
the text. ``slurm.nodelist`` has the hosts in the order in which Slurm numbers the nodes of the job.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from correlator.events import Found, Parser, Pattern
from parsers._lines import named, one_line, signal_number
from parsers._slurm_exit import EXIT_PATTERNS
from parsers._slurm_listings import STATES, read_job, read_json_job, read_node, read_reasons

# squeue: "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)"
_QUEUE_ROW = re.compile(
    r"^\s*(?P<job>\d{1,12})\S* +\S+ +(?P<name>\S+) +\S+ +(?P<state>[A-Z]{1,2}) +(?P<elapsed>[\d:-]+) +"
    r"(?P<num_nodes>\d+) +(?P<nodes>\S+)$"
)


def _read_queue(lines: Sequence[str]) -> list[Found]:
    found: list[Found] = []
    for index, line in enumerate(lines[1:], start=1):
        match = _QUEUE_ROW.match(line)
        if match is None:
            break
        if not match["nodes"].startswith("("):
            found.append(Found(index, index, named(match)))
    return found


# sacct cuts words at the column's width and marks the cut: "OUT_OF_ME+"; "CANCELLED by 1001" names a user id.
_ACCOUNT_ROW = (
    rf"^\s*(?P<job>\d+)(?:_\d+)?(?P<step_id>\.\w+)?[ |].*?[ |](?P<state>{STATES}|OUT_OF_ME\+|CANCELLED\+|NODE_FAIL\+)"
    r"(?: by \d+)?[ |]+(?:.*?[ |])??(?P<exit_status>\d+):(?P<exit_signal>\d+)(?:[ |]|$)"
)


def _account_row(match: re.Match[str]) -> Mapping[str, object]:
    fields = named(match)
    status, signal = int(match["exit_status"]), int(match["exit_signal"])  # "0:125" is the mark of an OOM kill
    fields["state"] = {"OUT_OF_ME+": "OUT_OF_MEMORY"}.get(match["state"], match["state"].rstrip("+"))
    if 0 < signal < 65:
        fields["signal"] = signal
    elif not signal:
        fields["exit_code"] = status
    return fields


_SIGNAL = (
    r"submitit.*?(?:(?P<what>Bypassing|Caught) signal (?P<word>\w+)(?: on (?P<node>[\w.-]+): (?P<reason>.*))?|"
    r"(?P<text>Job (?:has|is) .*tim.*))$"
)


def _signal(match: re.Match[str]) -> Mapping[str, object]:
    fields = named(match)
    if (number := signal_number(str(fields.pop("word", "")))) is not None:
        fields["signal"] = number
    return fields


PARSER = Parser(
    name="slurm",
    patterns=(
        *EXIT_PATTERNS,
        Pattern(
            event="slurm.nodelist",
            literals=("NODELIST(REASON)",),
            block=_read_queue,
            block_lines=100,
            sample="             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n"
            "            771201       gpu     train    alice  R    9:31:44      4 node[004-007]",
            severity="info",
        ),
        Pattern(
            event="slurm.job_state",
            literals=("JobState=",),
            block=read_job,
            block_lines=40,
            sample="   JobState=NODE_FAIL Reason=NodeDown Dependency=(null)",
            severity="warning",
        ),
        Pattern(
            event="slurm.job_state",
            literals=('"job_id":',),
            block=read_json_job,
            block_lines=400,
            sample='      "job_id": 123,\n      "nodes": "node[001-004]",\n      "state": {\n        "current": [\n'
            '          "NODE_FAIL"\n        ],\n        "reason": "None"\n      },\n      "steps": [',
            severity="warning",
            not_samples=(
                '      "job_id": 123,\n      "state": {\n        "current": ["RUNNING"],',
                '{"job_id": 7, "loss": 2}',
            ),
        ),
        Pattern(
            event="slurm.node_down",
            literals=("NodeName=",),
            block=read_node,
            block_lines=40,
            sample="NodeName=node012 Arch=x86_64 CoresPerSocket=32\n   State=DOWN*+DRAIN ThreadsPerCore=2\n"
            "   Reason=Not responding [slurm@2024-05-01T07:40:18]",
            severity="warning",
            not_samples=(
                "NodeName=node013 Arch=x86_64\n   State=IDLE ThreadsPerCore=2",
                "NodeName=node[001-004] Gres=gpu:8",
            ),
        ),
        Pattern(
            event="slurm.node_down",
            literals=("REASON               USER ",),
            block=read_reasons,
            block_lines=200,
            sample="REASON               USER      TIMESTAMP           NODELIST\n"
            "Not responding       slurm     2024-05-01T07:40:18 node012",
            severity="warning",
        ),
        Pattern(
            event="slurm.nodelist",
            literals=("NodeList=",),
            regex=r"(?:^|\s)NodeList=(?P<nodes>[\w.-]+\S*)",
            sample="   NodeList=node[001-004]",
            severity="info",
            not_samples=("   ReqNodeList=(null) ExcNodeList=(null)", "   NodeList=(null)"),
        ),
        Pattern(
            event="slurm.job_state",
            literals=(
                "OUT_OF_ME",
                "NODE_FAIL",
                " TIMEOUT",
                "|TIMEOUT",
                "PREEMPTED",
                "CANCELLED",
                "BOOT_FAIL",
                "FAILED ",
                "FAILED|",
                " COMPLETED ",
                "|COMPLETED|",
            ),
            block=one_line(_ACCOUNT_ROW, _account_row),
            block_lines=0,
            sample="123.0            python3        gpu       acct         64  OUT_OF_ME+    0:125",
            severity="warning",
            not_samples=("slurmstepd: error: *** STEP 123.0 ON node012 CANCELLED AT 2024-05-01T07:40:18 ***",),
        ),
        Pattern(
            event="slurm.launch_failed",
            literals=(
                "Task launch for StepId=",
                "Task launch for ",
                "slurmstepd: error: execve(): ",
                "Unable to create step for job",
                "Unable to allocate resources",
                "Batch job submission failed",
                "Application launch failed",
                "Unable to confirm allocation",
                "error: couldn't chdir to",
            ),
            regex=r"(?:srun|sbatch|salloc|slurmstepd): (?:error: )?(?P<reason>Task launch for (?:StepId=)?\S+ failed "
            r"on node "
            r"(?P<node>[^\s:]+): .*|execve\(\): .*|Unable to (?:create step|allocate resources|confirm allocation).*|"
            r"Batch job submission failed.*|Application launch failed.*|couldn't chdir to.*)$",
            sample="srun: error: Task launch for StepId=123.0 failed on node node012: Communication connection failure",
        ),
        Pattern(
            event="slurm.admin_reason",
            literals=("*** REASON: ",),
            regex=r"\*\*\* REASON: (?P<reason>.*?) \*\*\*",
            sample="slurmstepd: error: *** REASON: maintenance of rack 4 ***",
            severity="warning",
        ),
        Pattern(
            event="slurm.requeue",
            literals=(
                "Handling auto-requeue signal",
                "equeuing job ",
                "equeing job ",
                "Requeued SLURM job",
                "equeuing SLURM job ",
            ),
            # Lightning writes "requeing"
            regex=r"(?P<text>Handling auto-requeue signal: \d+|"
            r"[Rr]eque(?:u?ing|ued) (?:SLURM )?job:? (?P<job>\d+).*)",
            sample="Requeuing job 123",
            severity="info",
            not_samples=("SLURM auto-requeueing enabled. Setting signal handlers.",),
        ),
        Pattern(
            event="slurm.process",
            literals=("Starting with JobEnvironment(",),
            regex=r"Starting with JobEnvironment\(job_id=(?P<job>\d+)\S*, hostname=(?P<node>[\w.-]+), "
            r"local_rank=(?P<local_rank>\d+)\((?P<nproc_per_node>\d+)\), node=(?P<node_rank>\d+)\((?P<nnodes>\d+)\), "
            r"global_rank=(?P<rank>\d+)\((?P<world_size>\d+)\)\)",
            sample="submitit INFO (2024-05-01 07:40:18,310) - Starting with JobEnvironment(job_id=123, "
            "hostname=node012, "
            "local_rank=3(8), node=1(2), global_rank=11(16))",
            severity="info",
        ),
        Pattern(
            event="slurm.signal",
            literals=("Bypassing signal ", "Caught signal ", "Job has timed out", "Job is about to time"),
            block=one_line(_SIGNAL, _signal),
            block_lines=0,
            sample="submitit WARNING (2024-05-01 07:40:18,310) - Caught signal SIGUSR1 on node012: this job is "
            "preempted.",
            severity="warning",
        ),
        Pattern(
            event="slurm.error",
            literals=("srun: error: ", "slurmstepd: error: ", "sbatch: error: ", "slurmstepd-", "slurmd: error: "),
            regex=r"(?P<source>srun|slurmstepd|sbatch|slurmd)(?:-[\w.-]+)?: error: (?P<text>.*)$",
            sample="slurmstepd: error: mpi/pmix_v4: _errhandler: node012 [1]: Error handler invoked: status = -25",
            severity="warning",
        ),
    ),
)
