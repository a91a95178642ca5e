"""MPI launchers: Open MPI (ORTE), PRRTE, Hydra (MPICH, Intel MPI), and the UCX lines that occur under them.

Emitted by: open-mpi/ompi v4.1 ``orte/**`` and ``opal/mca/btl``, openpmix/prrte, pmodels/mpich ``src/pm/hydra``,
openucx/ucx; IBM's jsrun. ``rank`` is the MPI rank in the launcher's world. A launcher names the process that it noticed
first, which need not be the first that failed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from correlator.events import Found, Parser, Pattern
from parsers._lines import named, one_line, signal_number

_NOTICED = re.compile(
    r"noticed that process rank (?P<rank>\d+) with PID (?P<pid>\d+) on node (?P<node>[\w.-]+) exited on\s+"
    r"signal (?P<signal>\d+)"
)


def _read_noticed(lines: Sequence[str]) -> list[Found]:
    """PRRTE breaks the sentence after "exited on"."""
    match = _NOTICED.search(lines[0])
    last = 0
    if match is None and len(lines) > 1:
        match, last = _NOTICED.search(f"{lines[0]} {lines[1]}"), 1
    if match is None:
        return []
    fields = named(match)
    if match["pid"] == "0":  # printed where the launcher did not know it
        del fields["pid"]
    return [Found(0, last, fields)]


_PROCESS_NAME = re.compile(r"Process name: +(?:\S*[,@.])?(?P<rank>\d+)\]?\s*$")
_EXIT_CODE = re.compile(r"Exit code: +(?P<exit_code>-?\d+)")


def _read_first_exit(lines: Sequence[str]) -> list[Found]:
    fields: dict[str, object] = {}
    for index, line in enumerate(lines[:8]):
        for regex in (_PROCESS_NAME, _EXIT_CODE):
            if match := regex.search(line):
                fields |= named(match)
        if "exit_code" in fields:
            return [Found(0, index, fields)]
    return [Found(0, 0, fields)] if fields else []


_ABORT = re.compile(
    r"MPI_ABORT was invoked on rank (?P<rank>\d+)|"
    r"application called MPI_Abort\([^,]*, (?P<code>-?\d+)\) - process (?P<process>\d+)|"
    r"Abort\((?P<abort_code>\d+)\) on node \d+ \(rank (?P<world_rank>\d+) in comm \d+\): (?P<text>.*)"
)
_ERROR_CODE = re.compile(r"[Ee]rror ?code:? (-?\d+)")


def _read_abort(lines: Sequence[str]) -> list[Found]:
    match = _ABORT.search(lines[0])
    if match is None:
        return []
    fields: dict[str, object] = {"rank": match["rank"] or match["process"] or match["world_rank"]}
    if match["text"]:
        fields["text"] = match["text"]
    code = match["code"] or match["abort_code"]
    later = _ERROR_CODE.search(" ".join(lines[:4])) if match["rank"] else None
    if code or later:
        fields["exit_code"] = code or (later[1] if later else None)
    return [Found(0, 0, fields)]


_NAMED_VALUES = re.compile(
    r"^\s{2,}(Local host|Remote host|Peer host|PID|Local PID|Message|Error|Remote daemon|HNP daemon|System call): "
    r"+(.*)$"
)
_ADDRESS = re.compile(r"connect\(\) to ([\d.a-f:]+):\d+ failed")
_ON_NODE = re.compile(r" on node (\S+)$")


def _named_values(lines: Sequence[str]) -> tuple[dict[str, str], int]:
    """The "  Name: value" lines of a help message, and its last line: the one before the dashes."""
    values: dict[str, str] = {}
    for index, line in enumerate(lines):
        if line.startswith("-----"):
            return values, max(index - 1, 0)
        if match := _NAMED_VALUES.match(line):
            values[match[1]] = match[2].strip()
    return values, 0


def _read_connect_failed(lines: Sequence[str]) -> list[Found]:
    values, last = _named_values(lines)
    fields: dict[str, object] = {}
    for column, name in (("node", "Local host"), ("pid", "PID"), ("message", "Message"), ("error", "Error")):
        if name in values:
            fields[column] = values[name]
    if address := _ADDRESS.search(values.get("Message", "")):
        fields["peer"] = address[1]
    return [Found(0, last, fields)]


def _read_daemon_lost(lines: Sequence[str]) -> list[Found]:
    values, last = _named_values(lines)
    host = _ON_NODE.search(values.get("Remote daemon", ""))
    return [Found(0, last, {"node": host[1]} if host else {})]


def _read_peer_disconnected(lines: Sequence[str]) -> list[Found]:
    values, last = _named_values(lines)
    names = (("node", "Local host"), ("pid", "Local PID"), ("peer", "Peer host"))
    return [Found(0, last, {column: values[name] for column, name in names if name in values})]


_JOB_ABORTED = re.compile(r"[Pp]rimary job +terminated normally, but (?P<processes>\d+) process")


def _read_job_aborted(lines: Sequence[str]) -> list[Found]:
    """Two lines of one sentence, about an end that another message names."""
    match = _JOB_ABORTED.search(lines[0])
    return [Found(0, min(1, len(lines) - 1), named(match))] if match else []


_CALL_ERROR = re.compile(r"\[(?P<node>[\w.-]+):(?P<pid>\d+)\] \*\*\* An error occurred in (?P<function>\w+)")


def _read_call_error(lines: Sequence[str]) -> list[Found]:
    match = _CALL_ERROR.search(lines[0])
    if match is None:
        return []
    fields = named(match)
    last = 0
    for index, line in enumerate(lines[1:8], start=1):
        if not line.startswith(f"[{match['node']}:{match['pid']}] ***"):
            break
        last = index
        if reporter := re.search(r"\*\*\* reported by process \[\d+,(\d+)\]", line):
            fields["rank"] = reporter[1]
        if error := re.search(r"\*\*\* (MPI_ERR_\w+): ?(.*)$", line):
            fields["error"], fields["text"] = error[1], error[2]
    return [Found(0, last, fields)]


_HYDRA_PROCESS = re.compile(r"=\s+(?:RANK (?P<rank>\d+) )?PID (?P<pid>\d+) RUNNING AT (?P<node>[\w.-]+)")
_HYDRA_EXIT = re.compile(r"=\s+EXIT CODE: (?P<exit_code>\d+)|=\s+KILLED BY SIGNAL: (?P<signal>\d+)")
_HYDRA_STRING = re.compile(r"EXIT STRING: (?P<how>.*?) \(signal (?P<signal>\d+)\)")


def _read_hydra(lines: Sequence[str]) -> list[Found]:
    fields: dict[str, object] = {}
    last = 0
    for index, line in enumerate(lines[:12]):
        for regex in (_HYDRA_PROCESS, _HYDRA_EXIT, _HYDRA_STRING):
            if match := regex.search(line):
                fields |= named(match)
                last = index
        if "EXIT STRING" in line:
            break
    return [Found(0, last, fields)]


def _received_signal(match: re.Match[str]) -> Mapping[str, object]:
    fields = named(match)
    fields["signal"] = match["number"] or signal_number(match["how"])
    fields.pop("number", None)
    return fields


PARSER = Parser(
    name="mpi",
    patterns=(
        Pattern(
            event="mpi.rank_exited",
            literals=("noticed that process rank ",),
            block=_read_noticed,
            block_lines=1,
            sample="mpirun noticed that process rank 37 with PID 4711 on node node012 exited on signal 9 (Killed).",
        ),
        Pattern(  # jsrun of LSF
            event="mpi.rank_exited",
            literals=("(first noticed rank ",),
            regex=r"\(first noticed rank (?P<rank>\d+)\) terminated with "
            r"(?:signal (?P<signal>\d+)|exit code (?P<exit_code>\d+))",
            sample="ERROR:  One or more process (first noticed rank 7) terminated with signal 11 (core dumped)",
        ),
        Pattern(
            event="mpi.rank_exited",
            literals=("The first process to do so was",),
            block=_read_first_exit,
            block_lines=8,
            sample="the job to be terminated. The first process to do so was:\n\n  Process name: [[12345,1],37]\n"
            "  Exit code:    1",
        ),
        Pattern(
            event="mpi.abort",
            literals=("MPI_ABORT was invoked on rank", "application called MPI_Abort(", "Abort("),
            block=_read_abort,
            block_lines=4,
            sample="MPI_ABORT was invoked on rank 37 in communicator MPI_COMM_WORLD\nwith errorcode 1.",
        ),
        Pattern(
            event="mpi.daemon_lost",
            literals=("has lost communication with a remote daemon",),
            block=_read_daemon_lost,
            block_lines=12,
            sample="ORTE has lost communication with a remote daemon.\n\n  HNP daemon   : [[51247,0],0] on node "
            "node001\n"
            "  Remote daemon: [[51247,0],2] on node node012",
        ),
        Pattern(
            event="mpi.peer_disconnected",
            literals=("An MPI communication peer process has unexpectedly disconnected",),
            block=_read_peer_disconnected,
            block_lines=18,
            sample="An MPI communication peer process has unexpectedly disconnected.  This\n"
            "usually indicates a failure in the peer process (e.g., a crash or\n"
            "otherwise exiting without calling MPI_FINALIZE first).\n\n"
            "  Local host: node011\n  Local PID:  4711\n  Peer host:  node012",
        ),
        Pattern(
            event="mpi.connect_failed",
            literals=("failed to TCP connect to a peer MPI process",),
            block=_read_connect_failed,
            block_lines=12,
            sample="WARNING: Open MPI failed to TCP connect to a peer MPI process.  This\nshould not happen.\n\n"
            "  Local host: node012\n  PID:        4711\n  Message:    connect() to 192.0.2.1:1027 failed\n"
            "  Error:      Connection refused (111)",
        ),
        Pattern(
            event="mpi.unexpected_peer",
            literals=("received unexpected process identifier",),
            regex=r"\[(?P<node>[\w.-]+)\]\[\[\d+,\d+\],(?P<rank>\d+)\]\[.*received unexpected process identifier "
            r"\[\[\d+,\d+\],(?P<peer_rank>\d+)\]",
            sample="[node012][[9183,1],1][btl_tcp_endpoint.c:626:mca_btl_tcp_endpoint_recv_connect_ack] received "
            "unexpected "
            "process identifier [[9183,1],0]",
        ),
        Pattern(
            event="mpi.transport_error",
            literals=("[btl_tcp_",),
            regex=r"\[(?P<node>[\w.-]+)\]\[\[\d+,\d+\],(?P<rank>\d+)\]\[btl_tcp_\w+\.c:\d+:\w+\] (?P<text>.*)$",
            sample="[node012][[9183,1],3][btl_tcp_frag.c:241:mca_btl_tcp_frag_recv] mca_btl_tcp_frag_recv: readv "
            "failed: "
            "Connection reset by peer (104)",
        ),
        Pattern(
            event="mpi.error",
            literals=("*** An error occurred in ",),
            block=_read_call_error,
            block_lines=7,
            sample="[node012:4711] *** An error occurred in MPI_Allreduce\n[node012:4711] *** reported by process "
            "[601817089,3]\n[node012:4711] *** on communicator MPI_COMM_WORLD\n[node012:4711] *** MPI_ERR_OTHER: "
            "known error",
        ),
        Pattern(
            event="mpi.process_signal",
            literals=("] Signal: ",),
            block=one_line(
                r"\[(?P<node>[\w.-]+):(?P<pid>\d+)\] Signal: (?P<how>[\w ]+?)(?: \((?P<number>\d+)\))?$",
                _received_signal,
            ),
            block_lines=0,
            sample="[node012:4711] Signal: Segmentation fault (11)",
        ),
        Pattern(
            event="mpi.launch_failed",
            literals=(
                "There are not enough slots available",
                "was unable to reliably start one or more daemons",
                "daemon has unexpectedly failed after launch",
                "unable to launch the specified application",
                "was unable to find the specified executable",
            ),
            regex=r"(?P<reason>There are not enough slots available|unable to reliably start one or more daemons|"
            r"daemon has unexpectedly failed after launch|unable to launch the specified application|"
            r"unable to find the specified executable)",
            sample="An ORTE daemon has unexpectedly failed after launch and before communicating back to mpirun.",
        ),
        Pattern(
            event="mpi.job_aborted",
            literals=("Primary job  terminated normally", "primary job terminated normally"),
            block=_read_job_aborted,
            block_lines=1,
            sample="Primary job  terminated normally, but 1 process returned",
            severity="info",
        ),
        Pattern(
            # the launcher folds equal help messages of several processes into one
            event="mpi.note",
            literals=("sent help message ", "base_help_aggregate"),
            regex=r"(?P<processes>\d{1,9}) more process(?:es)? ha(?:s|ve) sent help message (?P<topic>.*)$|"
            r"Set MCA parameter \"\w+_base_help_aggregate\"",
            sample="[node001:4700] 1 more process has sent help message help-mpi-btl-tcp.txt / client connect fail",
            severity="info",
        ),
        Pattern(
            event="hydra.bad_termination",
            literals=("BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",),
            block=_read_hydra,
            block_lines=12,
            sample="=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 4711 RUNNING AT node012\n"
            "=   EXIT CODE: 9\n=   CLEANING UP REMAINING PROCESSES",
        ),
        Pattern(
            event="hydra.proxy_error",
            literals=("[proxy:", "[mpiexec@"),
            regex=r"\[(?:proxy:[\d:]+|mpiexec)@(?P<node>[\w.-]+)\] (?P<text>.*(?:assert|failed|error|bad fd|timed "
            r"out).*)$",
            sample="[proxy:0:1@node012] HYD_pmcd_pmip_control_cmd_cb (proxy/pmip_cb.c:480): assert (!closed) failed",
            severity="warning",
        ),
        Pattern(
            event="ucx.error",
            literals=("UCX  ERROR", "UCX ERROR"),
            regex=r"\[(?P<node>[\w.-]+):(?P<pid>\d+) ?:\d+\] +(?P<source>[\w.]+):\d+ +UCX +ERROR (?P<text>.*)$",
            sample="[node012:4711 :0] ib_mlx5_log.c:171  UCX  ERROR Transport retry count exceeded on mlx5_0:1/IB "
            "(synd 0x15)",
        ),
    ),
)
