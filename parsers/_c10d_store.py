"""Patterns of c10d beside NCCL: the store and its sockets, barriers, collective fingerprints.

Texts of torch 1.13 to 2.14 (``csrc/distributed/c10d/{TCPStore,socket,ProcessGroupGloo,ProcessGroupWrapper}.cpp``,
``distributed/distributed_c10d.py``). The store lives at MASTER_ADDR:MASTER_PORT, so a client's complaint about it says
that the store's host died, left first, or cannot be reached.
"""

from __future__ import annotations

import re

from correlator.events import Pattern
from parsers._lines import milliseconds, named, one_line, rank_list

#: Addresses in these texts can be garbage (an IPv6 made of unrelated bytes), so only names and IPv4 count as a peer.
_REMOTE = r"remote=\[(?:::ffff:)?(?P<peer>[\w.-]+)\]:(?P<peer_port>\d+)"


def _timed(match: re.Match[str]) -> dict[str, object]:
    """Named groups, with ``after`` (a printed duration) as ``timeout_ms`` and host and port as ``peer``."""
    fields = named(match)
    after = next((fields.pop(g) for g in ("after", "after2") if g in fields), None)
    if after is not None:
        fields["timeout_ms"] = milliseconds(str(after))
    host = next((str(fields.pop(g)) for g in ("host", "host2") if g in fields), "")
    port = next((str(fields.pop(g)) for g in ("port", "port2") if g in fields), "")
    if host:
        fields["peer"] = f"{host}:{port}" if port else host
    return fields


def _barrier(match: re.Match[str]) -> dict[str, object]:
    fields = _timed(match)
    missing = next((str(fields.pop(g)) for g in ("missing", "timed_out", "absent") if g in fields), "")
    fields["missing_ranks"] = rank_list(missing)
    return fields


def _bind(match: re.Match[str]) -> dict[str, object]:
    fields = named(match)
    port = fields.pop("listen_port", None)
    return {**fields, "port": port} if port else fields


STORE_ERROR = Pattern(
    event="c10d.store_error",
    literals=(
        " failed on SocketImpl(",
        'Failed to check the "should dump" flag on TCPStore',
        "TCPStore check for dump key",
        "Failed to get exception dump flag from the global store",
        "Failed to set dump signal in tcpstore",
        "Store is down while updating #",
        "Store is down while getting key",
        "NCCL_DESYNC_DEBUG report",
        "Write to client failed. code",
        "Connection was likely closed. Did the remote server shutdown or crash",
    ),
    regex=rf"(?P<what>(?:recv|send)\w+ failed on SocketImpl)\(.*?(?:{_REMOTE}|\)).*?(?:: (?P<reason>.*))?$|"
    r"(?P<dump>Failed to check the \"should dump\" flag|TCPStore check for dump key|Failed to get exception dump flag|"
    r"Failed to set dump signal in tcpstore|Store is down while|Failed to retrieve (?:TORCH_)?NCCL_DESYNC_DEBUG report|"
    r"Write to client failed\. code|[Ff]ailed to recv, got 0 bytes)",
    severity="warning",
    sample="[c10d] recvValue failed on SocketImpl(fd=73, addr=[gpu-a018.example.net]:40422, "
    "remote=[gpu-a017.example.net]:29500): Connection reset by peer",
)

BARRIER_TIMEOUT = Pattern(
    event="c10d.store_timeout",
    literals=("in store based barrier on rank",),
    block=one_line(
        r"in store based barrier on rank:? (?P<rank>\d+), for key: (?P<key>\S+) \(world_size=(?P<world_size>\d+), "
        r"(?:worker_count|num_workers_joined)=(?P<worker_count>\d+), timeout=(?P<after>(?:\d+ days?, )?[\d:.]+)",
        _timed,
    ),
    block_lines=0,
    sample="RuntimeError: Timed out initializing process group in store based barrier on rank: 5, for key: "
    "store_based_barrier_key:1 (world_size=16, worker_count=8, timeout=0:30:00)",
)

STORE_TIMEOUT = Pattern(
    event="c10d.store_timeout",
    literals=("wait timeout after ", "Socket Timeout", "barrier timeout after ", "waitForInput: socket SocketImpl("),
    block=one_line(
        r"wait timeout after (?P<after>\d+ ?m?s), keys?: (?P<key>\S+)|barrier timeout after (?P<timeout_ms>\d+)ms, "
        r"key: (?P<barrier_key>\S+)|(?:^|: |\] ?)(?P<what>Socket Timeout)\b|"
        rf"waitForInput: socket SocketImpl\((?:.*?{_REMOTE})?.* timed out after (?P<after2>\d+ms)",
        _timed,
    ),
    block_lines=0,
    sample="torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /default_pg/0//cuda//0/2",
    not_samples=("NCCL_SOCKET_TIMEOUT Socket Timeouts are set",),
)

CLIENTS_MISSING = Pattern(
    event="c10d.clients_missing",
    literals=(" clients joined",),
    block=one_line(
        r"Timed out after (?P<after>\d+) seconds waiting for clients\. (?P<joined>\d+)/(?P<expected>\d+) clients "
        r"joined",
        _timed,
    ),
    block_lines=0,
    sample="torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. 8/16 clients joined.",
    not_samples=("12 clients joined the broker",),
)

CONNECT_RETRY = Pattern(
    event="c10d.connect_retry",
    literals=("TCP client failed to connect/validate to host", "client socket has failed to connect to ["),
    block=one_line(
        r"TCP client failed to connect/validate to host (?P<host>\S+):(?P<port>\d+) - retrying \(try=(?P<try>\d+), "
        r"timeout=(?P<timeout_ms>\d+)ms|"
        r"client socket has failed to connect to \[(?P<host2>[^\]]+)\]:(?P<port2>\d+) \(errno: (?P<errno>\d+) - "
        r"(?P<reason>[^)]+)\)",
        _timed,
    ),
    block_lines=0,
    severity="info",
    sample="[c10d] TCP client failed to connect/validate to host gpu-a017:29511 - retrying (try=0, timeout=40000ms, "
    "delay=27896ms): The client socket has timed out after 40000ms while trying to connect to (gpu-a017, 29511).",
    not_samples=(
        "[c10d] TCP client failed to connect/validate to host gpu-a017:29511 - timed out (try=1, timeout=40000ms): The "
        "client socket has timed out after 40000ms while trying to connect to (gpu-a017, 29511).",
    ),
)

CONNECT_FAILED = Pattern(
    event="c10d.connect_failed",
    literals=(
        "TCP client failed to connect/validate to host",
        "The client socket has timed out after ",
        "client socket has failed to connect to any network address",
    ),
    block=one_line(
        r"TCP client failed to connect/validate to host (?P<host>\S+):(?P<port>\d+) - timed out \(try=(?P<try>\d+), "
        r"timeout=(?P<timeout_ms>\d+)ms|"
        r"client socket has (?:timed out after (?P<after>\d+ ?\w*) while trying to connect to|failed to connect to any "
        r"network address of) \((?P<host2>[^,]+), (?P<port2>\d+)\)",
        _timed,
    ),
    block_lines=0,
    sample="[c10d] The client socket has timed out after 60s while trying to connect to (10.0.0.17, 29500).",
)

BIND_FAILED = Pattern(
    event="c10d.bind_failed",
    literals=(
        "server socket has failed to bind to ",
        "server socket has failed to listen on any local network address",
        "EADDRINUSE",
    ),
    block=one_line(
        r"server socket has failed to bind to \S*:(?P<port>\d+) \(errno: (?P<errno>\d+) - (?P<reason>[^)]+)\)|"
        r"failed to listen on any local network address(?:\. port: (?P<listen_port>\d+))?|\bEADDRINUSE\b",
        _bind,
    ),
    block_lines=0,
    sample="[c10d] The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).",
    not_samples=(
        "The server socket on {} has failed to bind. TORCHELASTIC_USE_AGENT_STORE is enabled so ignoring the error.",
    ),
)

COLLECTIVE_MISMATCH = Pattern(
    event="c10d.collective_mismatch",
    literals=("Detected mismatch between collectives on ranks",),
    regex=r"^[^{]*?Detected mismatch between collectives on ranks\. Rank (?P<rank_a>\d+) is running collective: "
    r"(?P<fingerprint_a>CollectiveFingerPrint\(.*?\)), but Rank (?P<rank_b>\d+) is running collective: "
    r"(?P<fingerprint_b>CollectiveFingerPrint\(.*?\))(?:\.|$)(?:\s*Collectives differ in the following aspects:\s*"
    r"(?P<aspects>.*))?",
    sample="RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: "
    "CollectiveFingerPrint(SequenceNumber=28, OpType=ALLREDUCE, TensorShape=[1600], TensorDtypes=Float, "
    "TensorDeviceTypes=TensorOptions(dtype=float (default), device=cpu, memory_format=(nullopt))), but Rank 1 is "
    "running "
    "collective: CollectiveFingerPrint(SequenceNumber=28, OpType=ALLREDUCE, TensorShape=[2401], TensorDtypes=Float, "
    "TensorDeviceTypes=TensorOptions(dtype=float (default), device=cpu, memory_format=(nullopt))).Collectives differ "
    "in "
    "the following aspects: \t Tensor Tensor shapes: 1600vs 2401",
)

BARRIER_MISSING = Pattern(
    event="c10d.barrier_missing",
    literals=(
        "failed to pass monitoredBarrier in ",
        "barrier failed -- missing ranks",
        "timed out in monitoredBarrier after",
    ),
    block=one_line(
        r"\[Rank (?P<group_rank>\d+)\]: Ranks? (?P<missing>[\d, ]+) failed to pass monitoredBarrier in "
        r"(?P<timeout_ms>\d+) ?ms|barrier failed -- missing ranks:? ?(?P<absent>[\[\]{}\d, ]+)|"
        r"Rank (?P<timed_out>\d+) timed out in monitoredBarrier after (?P<after>\d+ ?\w*)",
        _barrier,
    ),
    block_lines=0,
    sample="RuntimeError: [Rank 0]: Ranks 4, 5 failed to pass monitoredBarrier in 60000 ms",
)

BARRIER_VICTIM = Pattern(
    event="c10d.barrier_victim",
    literals=("successfully reached monitoredBarrier, but received errors",),
    regex=r"^[^{]*?Rank (?P<group_rank>\d+) successfully reached monitoredBarrier, but received errors while waiting "
    r"for "
    r"send/recv from rank (?P<peer>\d+)",
    severity="warning",
    sample="RuntimeError: Rank 2 successfully reached monitoredBarrier, but received errors while waiting for "
    "send/recv "
    "from rank 0. Please check rank 0 logs for faulty rank.",
)

STORE_PATTERNS = (
    STORE_ERROR,
    BARRIER_TIMEOUT,
    STORE_TIMEOUT,
    CLIENTS_MISSING,
    CONNECT_RETRY,
    CONNECT_FAILED,
    BIND_FAILED,
    COLLECTIVE_MISMATCH,
    BARRIER_MISSING,
    BARRIER_VICTIM,
)
