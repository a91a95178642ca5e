"""Patterns of ProcessGroupNCCL: watchdog, heartbeat monitor, dump signals, communicator set-up.

Texts of torch 1.13 to 2.14 (``csrc/distributed/c10d/{ProcessGroupNCCL,NCCLUtils}.cpp``, ``TraceUtils.h``) and of the
``nccl2`` back end of 2.14. ``group_rank`` is the rank inside ``process_group``, which equals the global rank only in
the default group. The watchdog reports who waited, never who failed; last enqueued or completed -1 means none yet.
"""

from __future__ import annotations

import re

from correlator.events import Pattern
from parsers._lines import message, named, one_line

#: Where a message begins: at the start, behind a head (``file.cpp:475] ``), or as the message of an exception; never
#: behind another message that quotes it (``... terminated with exception: [Rank 1] Watchdog caught ...``), nor in JSON.
BEGIN = r"^(?:[^{]*?(?::\d+\] ?|Error: |Exception: |\[c10d[^\]]*\] ))?\s*"
#: ``[Rank 3] ``, ``[PG 3 Rank 1] ``, ``[PG 3 (DESC) Rank 1] ``, ``[PG ID 2 PG GUID 14(DESC) Rank 1] ``, or two of them.
SCOPE = (
    r"(?:\[(?:PG (?:ID \d+ PG GUID )?(?P<process_group>[^\s()\]]+)(?: ?\((?P<pg_desc>[^)]*)\))? )?"
    r"Rank (?P<group_rank>\d+)\] *)*"
)
#: ``[comm=dp] [rank=3] [name=dp]`` of the nccl2 back end.
_SCOPE2 = r"(?:\[comm=(?P<comm>[^\]]*)\] ?|\[rank=(?P<comm_rank>\d+)\] ?|\[name=(?P<comm_name>[^\]]*)\] ?)*"
WORK = (
    r"Work\w*\((?:SeqNum=(?P<seq>\d+), )?OpType=(?P<op>\w+)"
    r"(?:.*?NumelIn=(?P<numel_in>\d+), NumelOut=(?P<numel_out>\d+))?(?:.*?Timeout\(ms\)=(?P<timeout_ms>\d+))?"
)
_STATUS = (
    r"last enqueued(?: NCCL)? work: (?P<last_enqueued>-?\d+), last completed(?: NCCL)? work: (?P<last_completed>-?\d+)"
)


def _nccl2(match: re.Match[str]) -> dict[str, object]:
    """Columns of the nccl2 scope; its ``rank`` is that of the communicator."""
    fields = named(match)
    for source, column in (("comm_rank", "group_rank"), ("comm_name", "process_group"), ("comm", "process_group")):
        value = fields.pop(source, None)
        if value:
            fields[column] = value
    return fields


WATCHDOG_TIMEOUT = Pattern(
    event="c10d.watchdog_timeout",
    literals=("Watchdog caught collective operation timeout", "Caught collective operation timeout"),
    regex=rf"{BEGIN}{SCOPE}(?:Watchdog c|C)aught collective operation timeout: {WORK}"
    r"(?:.*? ran for (?P<elapsed_ms>\d+) milliseconds)?",
    sample="[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4711, OpType=ALLREDUCE, "
    "NumelIn=8192, NumelOut=8192, Timeout(ms)=600000) ran for 600033 milliseconds before timing out.",
    not_samples=(
        "[PG 3 Rank 1] Process group watchdog thread terminated with exception: [Rank 1] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=4711, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600033 milliseconds",
    ),
)

WATCHDOG_TIMEOUT_2 = Pattern(
    event="c10d.watchdog_timeout",
    literals=(
        "timeout - collective operation timed out",
        "timeout watchdog detected operation timeout",
        "NCCL operation timed out",
        "Work timed out during finalize",
    ),
    block=one_line(
        rf"{_SCOPE2}.*?(?P<what>collective operation timed out|watchdog detected operation timeout|"
        r"NCCL operation timed out|Work timed out during finalize)",
        _nccl2,
    ),
    block_lines=0,
    sample="[comm=TENSOR_MODEL_PARALLEL_GROUP] [rank=1] timeout - collective operation timed out",
)

WATCHDOG_EXCEPTION = Pattern(
    event="c10d.watchdog_exception",
    literals=("watchdog thread terminated with ",),
    block=message(
        rf"{BEGIN}{SCOPE}(?:Process group|NCCL) watchdog thread terminated with (?:unknown )?exception"
        r"(?:: (?P<wrapped>.*))?"
    ),
    sample="[PG ID 2 PG GUID 14 Rank 1] Process group watchdog thread terminated with exception: CUDA error: "
    "uncorrectable ECC error encountered",
    not_samples=(
        "  what():  [PG ID 2 PG GUID 14 Rank 1] Process group watchdog thread terminated with exception: CUDA error: "
        "uncorrectable ECC error encountered",
    ),
)

WATCHDOG_EXCEPTION_2 = Pattern(
    event="c10d.watchdog_exception",
    literals=("Timeout watchdog caught exception: ",),
    block=one_line(rf"{_SCOPE2}.*?Timeout watchdog caught exception: (?P<wrapped>.*)", _nccl2),
    block_lines=0,
    sample="[comm=default_pg] [rank=3] Timeout watchdog caught exception: CUDA error: unspecified launch failure",
)

WATCHDOG_STATUS = Pattern(
    event="c10d.watchdog_status",
    literals=(
        "failure detected by watchdog at work sequence id",
        "detected by watchdog at work: ",
        "Timeout at NCCL work: ",
    ),
    regex=rf"{BEGIN}{SCOPE} ?(?:Timeout at NCCL work|Exception \(either an error or timeout\) detected by watchdog at "
    rf"work|"
    rf"failure detected by watchdog at work sequence id): (?P<seq>\d+),? (?:PG status: )?{_STATUS}",
    sample="[PG ID 2 PG GUID 14(TENSOR_MODEL_PARALLEL_GROUP) Rank 1]  failure detected by watchdog at work sequence "
    "id: "
    "4711 PG status: last enqueued work: 4713, last completed work: 4710",
)

BLOCKING_WAIT_TIMEOUT = Pattern(
    event="c10d.blocking_wait_timeout",
    literals=("timed out in blocking wait", "timed out in call to wait()"),
    regex=rf"{BEGIN}{SCOPE}(?:Work )?(?:{WORK}.*?)?timed out in (?:blocking wait|call to wait)",
    sample="[Rank 3] Work WorkNCCL(SeqNum=12, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=60000) timed out in "
    "blocking wait (TORCH_NCCL_BLOCKING_WAIT=1).",
)

ASYNC_ERROR = Pattern(
    event="c10d.async_error",
    literals=(
        "found async exception when checking for NCCL errors",
        "raised the following async exception",
        "Received NCCL errors for communicators in the cache",
        "error - nccl hit async error",
        "timeout watchdog detected operation error",
    ),
    block=message(
        rf"{BEGIN}{SCOPE}(?:Collective {WORK}.*?)?(?:found async exception when checking for NCCL errors|"
        r"raised the following async exception|Received NCCL errors for communicators in the cache|"
        r"error - nccl hit async error|error - timeout watchdog detected operation error)(?:: (?P<wrapped>.*))?"
    ),
    sample="[Rank 3] Collective WorkNCCL(SeqNum=12, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) "
    "raised "
    "the following async exception: NCCL error: remote process exited or there was a network error, NCCL version "
    "2.21.5",
)

WATCHDOG_HANG = Pattern(
    event="c10d.watchdog_hang",
    literals=(
        "watchdog got stuck for ",
        "monitoring thread detects no heartbeat",
        "NCCL monitor thread timeout. Basically",
        "Heartbeat monitor timed out! Process will be terminated",
        "detected no heartbeat of its watchdog",
        "due to ProcessGroupNCCL watchdog hang",
        "Monitor Thread is disabled, but would have killed this job",
        "monitor thread is disabled, but would have terminated the process",
    ),
    regex=rf"{BEGIN}{SCOPE}(?P<what>[^\[\]]*(?:watchdog got stuck for (?P<stuck_s>\d+) seconds|"
    r"detects no heartbeat|"
    r"NCCL monitor thread timeout|Heartbeat monitor timed out|detected no heartbeat of its watchdog|"
    r"due to ProcessGroupNCCL watchdog hang|[Tt]hread is disabled, but would have))",
    sample="[PG ID 0 PG GUID 0(default_pg) Rank 2] ProcessGroupNCCL's watchdog got stuck for 480 seconds without "
    "making "
    "progress in monitoring enqueued collectives.",
)

GIL_BLOCKED = Pattern(
    event="c10d.gil_blocked",
    literals=("Could not acquire GIL within ",),
    regex=rf"{BEGIN}{SCOPE}Could not acquire GIL within (?P<timeout_ms>\d+) ms on exit",
    severity="warning",
    sample="Could not acquire GIL within 300 ms on exit, possible GIL induced hang",
)

ABORT_NOTICE = Pattern(
    event="c10d.abort_notice",
    literals=(
        "Some NCCL operations have failed or timed out",
        "we are taking the entire process down",
        "due to collective timeout or exception",
        "Aborting communicators that received errors",
    ),
    regex=rf"{BEGIN}{SCOPE}(?P<what>[^\[\]]*(?:operations have failed or timed out|taking the entire process down|"
    r"due to collective timeout or exception|Aborting communicators that received errors))",
    severity="warning",
    sample="[Rank 9] To avoid data inconsistency, we are taking the entire process down.",
)

DUMP_SIGNAL = Pattern(
    event="c10d.dump_signal",
    literals=(
        "Received a timeout signal from this local rank",
        "Received a global timeout from another rank",
        "Received a dump signal ",
        "Received a global dump signal",
        "watchdog detected a collective timeout from the",
        "watchdog detected a collective timeout on some",
        "watchdog detected a dump signal",
        "First watchdog to set the dump signal",
        "First PG on this rank detecting the dump signal",
        "First PG on this rank to signal dumping",
        "Observed flight recorder dump signal",
        "Broadcasting flight-recorder dump signal",
        "Broadcasting flight recorder dump signal",
        "to other ranks via TCPStore",
    ),
    regex=rf"{BEGIN}{SCOPE}(?P<what>(?:Received a|ProcessGroupNCCL's watchdog detected a) [a-z ]*?"
    r"(?:timeout|dump signal)[a-z ]*? (?:from +(?:this local rank|the local rank|another rank|rank (?P<from_rank>\d+))|"
    r"on some other rank)|First (?:watchdog to set|PG on this rank (?:detecting|to signal))|"
    r"Observed flight recorder dump signal|Broadcasting (?:flight|signal))"
    r"(?:.*?[Ll]ast enqueued NCCL work: (?P<last_enqueued>-?\d+), last completed NCCL work: "
    r"(?P<last_completed>-?\d+))?",
    severity="warning",
    sample="[PG ID 0 PG GUID 0(default_pg) Rank 5] Received a dump signal due to a collective timeout from  rank 2 "
    "and we "
    "will try our best to dump the debug info.",
)

REMOTE_ERROR = Pattern(
    event="c10d.remote_error",
    literals=("remote error detected from rank: ",),
    regex=rf"{BEGIN}{SCOPE} ?remote error detected from rank: (?P<peer>\d+)",
    sample="[PG ID 0 PG GUID 0(default_pg) Rank 5]  remote error detected from rank: 2",
)

COMM_ABORTED = Pattern(
    event="c10d.comm_aborted",
    literals=(
        "NCCL communicator was aborted",
        "NCCL communicator encountered error set by ProcessGroupNCCL",
        "has aborted its NCCL communicators previously",
    ),
    regex=r"^[^{]*?(?:NCCL communicator was aborted(?: on rank (?P<group_rank>\d+)\.?| after a previous error)"
    r"(?:\s+Original reason for failure was: (?P<reason>.*))?|"
    r"encountered error set by ProcessGroupNCCL: (?P<stored_reason>.*)|"
    r"rank (?P<peer>\d+)?.{0,120}has aborted its NCCL communicators previously)",
    sample="NCCL communicator was aborted on rank 3.  Original reason for failure was: [Rank 3] Watchdog caught "
    "collective "
    "operation timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE, Timeout(ms)=600000)",
)

UNIQUE_ID_FAILED = Pattern(
    event="c10d.unique_id_failed",
    literals=("is setting up NCCL communicator",),
    regex=r"^[^{]*?\[(?P<group_rank>\d+)\] is setting up NCCL communicators? and retr?(?:ie|ei)ving ncclUniqueIds? "
    r"from "
    r"(?:\[(?P<root>\d+)\]|roots) via (?:c10d key-value store|TCPStore) by key.*?got error: (?P<reason>.*)",
    sample="[9] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key "
    "'0', "
    "but store->get('0') got error: Socket Timeout",
)

INIT_TIMEOUT = Pattern(
    event="c10d.comm_init_failed",
    literals=(
        "Health check failure: Failed to initialize NCCL communicator",
        "NCCL timeout in communicator initialization",
        "NCCL timeout when waiting for nonblocking call",
    ),
    regex=r"Failed to initialize NCCL communicator on rank (?P<group_rank>\d+)|"
    r"NCCL timeout (?:in communicator initialization|when waiting for nonblocking call)",
    sample="ProcessGroupNCCL: Health check failure: Failed to initialize NCCL communicator on rank 3",
)

INIT_OPTIONS = Pattern(
    event="c10d.init_options",
    literals=("initialization options: size: ",),
    regex=rf"{BEGIN}{SCOPE}ProcessGroupNCCL initialization options: size: (?P<world_size>\d+), global rank: "
    rf"(?P<rank>\d+)"
    r"(?:, TIMEOUT\(ms\): (?P<timeout_ms>\d+))?",
    severity="info",
    sample="[PG ID 0 PG GUID 0 Rank 9] ProcessGroupNCCL initialization options: size: 64, global rank: 9, TIMEOUT(ms): "
    "600000, USE_HIGH_PRIORITY_STREAM: 0",
)

DEVICE_GUESS = Pattern(
    event="c10d.device_guess",
    literals=("to perform barrier as devices used by this process are currently unknown",),
    regex=rf"{BEGIN}{SCOPE} ?using GPU (?P<gpu>\d+) (?:to perform barrier|as device used by this process)",
    severity="info",
    sample="[PG ID 0 PG GUID 0 Rank 3]  using GPU 3 to perform barrier as devices used by this process are currently "
    "unknown. This can potentially cause a hang if this rank to GPU mapping is incorrect.",
)

FLIGHT_RECORD = Pattern(
    event="c10d.flight_record",
    literals=(
        "Finished writing Flight Recorder debug info to",
        "Finished writing NCCLPG debug info to",
        "ProcessGroupNCCL dumping nccl trace to",
    ),
    regex=r"(?:debug info to|dumping nccl trace to) (?P<path>\S+)",
    severity="info",
    sample="Finished writing Flight Recorder debug info to /tmp/nccl_trace_rank_9",
)

TEARDOWN_NOTE = Pattern(
    event="c10d.teardown_note",
    literals=(
        "destroy_process_group() was not called before program exit",
        "process group has NOT been destroyed before",
        "main process destroyed cuda before watchdog loop exited",
        "NCCL communicator hasn't been destroyed",
    ),
    regex=r"(?P<what>destroy_process_group\(\) was not called|process group has NOT been destroyed|"
    r"main process destroyed cuda before watchdog|NCCL communicator hasn't been destroyed)",
    severity="info",
    sample="WARNING: destroy_process_group() was not called before program exit, which can leak resources.",
)

NCCL_PATTERNS = (
    WATCHDOG_EXCEPTION,
    WATCHDOG_EXCEPTION_2,
    WATCHDOG_STATUS,
    COMM_ABORTED,
    ASYNC_ERROR,
    WATCHDOG_TIMEOUT,
    WATCHDOG_TIMEOUT_2,
    BLOCKING_WAIT_TIMEOUT,
    WATCHDOG_HANG,
    GIL_BLOCKED,
    ABORT_NOTICE,
    DUMP_SIGNAL,
    REMOTE_ERROR,
    UNIQUE_ID_FAILED,
    INIT_TIMEOUT,
    INIT_OPTIONS,
    DEVICE_GUESS,
    FLIGHT_RECORD,
    TEARDOWN_NOTE,
)
