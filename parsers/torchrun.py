"""The elastic agent of torchrun: one per node, without a rank of its own.

Emitted by: torch ``distributed/elastic/{agent/server,multiprocessing,rendezvous}/*.py``,
``distributed/launcher/api.py`` and ``distributed/run.py``, 1.9 to 2.14.
Gives: torchrun.*. Pids and local ranks are those of the agent's node; ``time`` of a report entry is the agent's
local clock in whole seconds. "Root Cause" is what this agent polled first on its node, not the cause of the job's end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from correlator.events import Parser, Pattern
from parsers._lines import one_line, signal_number
from parsers._torchrun_blocks import read_child_failed, read_launch_config, read_rendezvous, read_report


def _signal_fields(match: re.Match[str]) -> Mapping[str, object]:
    fields = {k: v for k, v in match.groupdict().items() if v is not None and k not in ("signal", "got")}
    name = match.groupdict().get("signal") or match.groupdict().get("got")
    return {**fields, "signal": signal_number(name), "signal_name": name} if name else fields


WORKER_FAILED = Pattern(
    event="torchrun.worker_failed",
    literals=("failed (exitcode: ",),
    regex=r"failed \(exitcode: (?P<exit_code>-?\d+)\) local_rank: (?P<local_rank>\d+) \(pid: (?P<pid>\d+)\)",
    sample="failed (exitcode: -9) local_rank: 1 (pid: 31966) of binary: /opt/env/bin/python3",
    not_samples=("download failed (exitcode: 7)",),
)

REPORT_ENTRY = Pattern(
    event="torchrun.report_entry",
    literals=("Failures:", "Root Cause (first observed failure):", "Root Cause:"),
    block=read_report,
    block_lines=4000,
    sample="Failures:\n"
    "  <NO_OTHER_FAILURES>\n"
    "------------------------------------------------------------\n"
    "Root Cause (first observed failure):\n"
    "[0]:\n"
    "  time      : 2024-05-01_07:40:18\n"
    "  host      : gpu-a017.example.net\n"
    "  rank      : 9 (local_rank: 1)\n"
    "  exitcode  : -9 (pid: 4711)\n"
    "  error_file: <N/A>\n"
    "  traceback : Signal 9 (SIGKILL) received by PID 4711\n"
    "============================================================",
    not_samples=("Test Failures: 0", "Root Cause: unknown"),
)

CHILD_FAILED = Pattern(
    event="torchrun.child_failed",
    literals=("ChildFailedError:",),
    block=read_child_failed,
    block_lines=3,
    severity="info",
    sample="torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    "============================================================\n"
    "train.py FAILED",
    not_samples=("    raise ChildFailedError(",),
)

SIGNAL_SENT = Pattern(
    event="torchrun.signal_sent",
    literals=("Sending process ", "Closing process "),
    block=one_line(
        r"(?:Sending|Closing) process (?P<pid>\d+) (?:closing|via) signal (?P<signal>(?:Signals\.)?\w+)", _signal_fields
    ),
    block_lines=0,
    severity="info",
    sample="Sending process 4712 closing signal SIGTERM",
    not_samples=("Sending process group state to the monitor",),
)

DEATH_SIGNAL = Pattern(
    event="torchrun.death_signal",
    literals=(" death signal, shutting down workers", "SignalException: Process "),
    block=one_line(
        r"Received (?P<signal>(?:Signals\.)?\w+) death signal|"
        r"SignalException: Process (?P<pid>\d+) got signal: (?P<got>(?:Signals\.)?\w+)",
        _signal_fields,
    ),
    block_lines=0,
    severity="warning",
    sample="Received 15 death signal, shutting down workers",
)

KILL_ESCALATION = Pattern(
    event="torchrun.kill_escalation",
    literals=("Unable to shutdown process ",),
    regex=r"Unable to shutdown process (?P<pid>\d+) via (?:Signals\.)?(?P<asked>\w+), forcefully exitt?ing via",
    severity="warning",
    sample="Unable to shutdown process 4712 via Signals.SIGTERM, forcefully exiting via Signals.SIGKILL",
)

RENDEZVOUS_COMPLETE = Pattern(
    event="torchrun.rendezvous_complete",
    literals=("Rendezvous complete for workers. Result:",),
    block=read_rendezvous,
    block_lines=24,
    severity="info",
    sample="[default] Rendezvous complete for workers. Result:\n"
    "  restart_count=0\n"
    "  master_addr=gpu-a017.example.net\n"
    "  master_port=29500\n"
    "  group_rank=1\n"
    "  group_world_size=2\n"
    "  local_ranks=[0, 1]\n"
    "  role_ranks=[2, 3]\n"
    "  global_ranks=[2, 3]\n"
    "  role_world_sizes=[4, 4]\n"
    "  global_world_sizes=[4, 4]",
)

RESTART = Pattern(
    event="torchrun.restart",
    literals=(" attempts left; will restart worker group", "; will restart worker group"),
    regex=r"Worker group (?P<state>\w+)\. (?P<attempts_left>\d+)/(?P<max_restarts>\d+) attempts left|"
    r"Detected (?P<new_nodes>\d+) new nodes from group_rank=(?P<group_rank>\d+)",
    severity="warning",
    sample="[default] Worker group FAILED. 2/3 attempts left; will restart worker group",
)

RENDEZVOUS_ERROR = Pattern(
    event="torchrun.rendezvous_error",
    literals=(
        "has failed to send a keep-alive heartbeat to the rendezvous",
        "has failed to shutdown the rendezvous",
        "RendezvousConnectionError: The connection to the C10d store has failed",
    ),
    regex=r"The node '(?P<node_desc>(?P<node>[^']+?)_(?P<pid>\d+)_\d+)' has failed to (?P<doing>send a keep-alive "
    r"heartbeat|"
    r"shutdown the rendezvous).*? of type (?P<type>\w+)|"
    r"^\s*(?:[\w.]+\.)?RendezvousConnectionError: The connection",
    severity="warning",
    sample="The node 'gpu-a017.example.net_4700_0' has failed to send a keep-alive heartbeat to the rendezvous 'none' "
    "due "
    "to an error of type RendezvousConnectionError.",
)

NODE_DROPPED = Pattern(
    event="torchrun.node_dropped",
    literals=("since they had no heartbeat",),
    regex=r"the node\(s\) '(?P<peer>[^']+?)_\d+_\d+'(?P<more>, '[^)]*?')? have been removed from the rendezvous "
    r"'(?P<run_id>[^']*)' since they had no heartbeat",
    severity="warning",
    sample="As part of the sync operation the node(s) 'gpu-a018.example.net_4700_0' have been removed from the "
    "rendezvous 'exp7' since they had no heartbeat.",
)

RENDEZVOUS_TIMEOUT = Pattern(
    event="torchrun.rendezvous_timeout",
    literals=("RendezvousTimeoutError", "RendezvousClosedError"),
    regex=r"^(?:[\w.]+\.)?(?P<type>Rendezvous(?:Timeout|Closed)Error)(?::\s*(?P<message>.*))?$",
    sample="torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
    not_samples=("    raise RendezvousTimeoutError", "due to an error of type RendezvousTimeoutError."),
)

LAUNCH_CONFIG = Pattern(
    event="torchrun.launch_config",
    literals=("with launch configs:",),
    block=read_launch_config,
    block_lines=40,
    severity="info",
    sample="Starting elastic_operator with launch configs:\n"
    "  entrypoint       : train.py\n"
    "  min_nodes        : 2\n"
    "  max_nodes        : 2\n"
    "  nproc_per_node   : 8\n"
    "  run_id           : none\n"
    "  rdzv_backend     : c10d\n"
    "  rdzv_endpoint    : gpu-a017:29500\n"
    "  max_restarts     : 0\n"
    "  log_dir          : /tmp/torchelastic_ab12cd34/none_ef56gh78",
)

USAGE_NOTE = Pattern(
    event="torchrun.usage_note",
    literals=(
        "Local worker group finished",
        "Error waiting on exit barrier",
        "Stopping worker group",
        "worker group successfully finished",
        "Done waiting for other agents",
    ),
    regex=r"(?P<what>Local worker group finished \((?:WorkerState\.)?(?P<state>\w+)\)|Error waiting on exit barrier|"
    r"Stopping worker group|worker group successfully finished|Done waiting for other agents)",
    severity="info",
    sample="Local worker group finished (WorkerState.FAILED). Waiting 300 seconds for other agents to finish",
)

PARSER = Parser(
    "torchrun",
    (
        WORKER_FAILED,
        REPORT_ENTRY,
        CHILD_FAILED,
        SIGNAL_SENT,
        DEATH_SIGNAL,
        KILL_ESCALATION,
        RENDEZVOUS_COMPLETE,
        RESTART,
        RENDEZVOUS_ERROR,
        NODE_DROPPED,
        RENDEZVOUS_TIMEOUT,
        LAUNCH_CONFIG,
        USAGE_NOTE,
    ),
)
