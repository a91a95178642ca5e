"""Patterns for NCCL's transports: InfiniBand/RoCE verbs, sockets, and the proxy threads.

Emitted by: NVIDIA/nccl ``src/transport/net_ib*``, ``src/misc/socket.cc`` (from 2.30 ``src/os``), ``src/proxy.cc``; the
SHARP/UCX plug-in prints the verbs lines from ``ib_plugin.c``. Versions read: 2.6 to 2.30. The address in a line is that
of the OTHER side: such a line is evidence about the peer or the path, written by a survivor. Only asynchronous events
and failed verbs calls speak of the writer's own adapter.
"""

from __future__ import annotations

from correlator.events import Pattern
from parsers._nccl_head import INFO, WARN

IB_ERROR = Pattern(
    event="nccl.ib_error",
    literals=("Got completion", "Got CQE with error"),
    # 2.6: no peer; to 2.19: "with error 12, opcode 0"; 2.20: "with status=12 opcode=0"; 2.28: "status=IBV_WC_…(12)"
    regex=WARN + r"NET/IBP?(?:/GIN)? ?: Got (?:completion|CQE)(?: from peer (?P<peer>[^\s<]+)\S*)? with "
    r"(?:error \((?P<request>[^)]*\)[^)]*)\)|"
    r"(?:error |status=)(?:(?P<status_name>IBV_\w+)\()?(?P<status>\d+)\)?"
    r"[, ]+opcode[ =](?:(?P<opcode_name>IBV_\w+)\()?(?P<opcode>\d+)\)?.*?"
    r"vendor[ _]err[ =](?P<vendor_err>\d+)(?:.*? hca (?P<hca>[\w.-]+))?)",
    sample="gpu-a017:4711:5012 [1] transport/net_ib.cc:2301 NCCL WARN NET/IB: Got completion from peer "
    "10.0.0.18<41234> "
    "with status=12 opcode=0 len=0 vendor err 129 (Send) localGid fe80::1 remoteGids fe80::2 hca mlx5_1",
    not_samples=("gpu-a017:4711:5012 [1] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.17<0>",),
)

IB_ASYNC_EVENT = Pattern(
    event="nccl.ib_async_event",
    literals=("async event", "async fatal event"),
    regex=WARN + r"NET/IB ?: (?:(?P<hca>[\w.-]+):(?P<port>\d+) )?"
    r"(?P<kind>Got async(?: fatal)? event|Got non-fatal async event|async fatal event)"
    r"(?: on (?P<object>[A-Z]+)\b)?.*?: (?P<what>[^:]*)$",
    sample="gpu-a017:4711:5012 [1] transport/net_ib.cc:91 NCCL WARN NET/IB : mlx5_1:1 Got async event : port error",
)

IB_SETUP_FAILED = Pattern(
    event="nccl.ib_setup_failed",
    literals=(
        "Call to ibv_",
        "Call to mlx5dv_",
        "ibv_post_send() failed",
        "ibv_post_recv() failed",
        "Unable to open device",
    ),
    # "failed with error Connection timed out errno 110"; 2.27: "failed with 110 Connection timed out, on dev mlx5_0:1"
    regex=WARN + r"(?:NET/\w+ ?: )?(?:Call to )?(?P<call>(?:ibv|mlx5dv)_\w+|Unable to open device)(?:\(\))? ?"
    r"(?:failed)?(?: with)?(?: error)? ?(?:(?P<code>\d+) )?(?P<reason>.*?)(?: errno (?P<errno>\d+))?"
    r"(?:, on dev (?P<hca>[\w.-]+):\d+,.*? remote GID (?P<peer>[\w.:]+))?$",
    sample="gpu-a017:4711:4890 [1] misc/ibvwrap.cc:298 NCCL WARN Call to ibv_modify_qp failed with error "
    "Connection timed out errno 110",
)

CONNECT_RETRY = Pattern(
    event="nccl.connect_retry",
    literals=("connect returned", "returned Connection refused, retrying", "returned Connection timed out, retrying"),
    regex=INFO + r".*?connect (?:to (?P<peer>[^\s<]+)\S* )?returned (?P<reason>[^,]*), retrying",
    sample="gpu-a017:4711:4890 [1] NCCL INFO Call to connect returned Connection refused, retrying",
    severity="info",
    sparse=True,
)

SOCKET_ERROR = Pattern(
    event="nccl.socket_error",
    literals=(
        "Connection closed by remote peer",
        "NCCL WARN Net : ",
        "NCCL WARN socket",
        "NCCL WARN ncclSocket",
        "NCCL WARN ncclOsSocket",
    ),
    regex=WARN + r"(?:(?:Net|[\w/]+) ?: )?"
    r"(?P<what>Connection closed by remote peer|Call to (?:recv from|send to)|[Cc]onnect to|\w*PollConnect to) "
    r"(?P<peer>[^\s<]+)(?:<\d+>)? ?(?:failed|returned)?(?: with error)?[ :]*(?P<reason>.*)$",
    sample="gpu-a017:4711:5012 [1] misc/socket.cc:550 NCCL WARN socketProgress: Connection closed by remote peer "
    "gpu-a018.example.net<45982>",
)

SOCKET_STATE = Pattern(
    event="nccl.socket_error",
    literals=("exceeded retries", "exceeded timeouts", "exceeded error retry count", "wrong magic", "wrong type"),
    regex=WARN + r"(?P<what>\w*[sS]ocket\w*)(?: from (?P<peer>[^\s<:]+)\S*)? ?: (?P<reason>(?:exceeded|wrong) .*)$",
    sample="gpu-a017:4711:4890 [1] misc/socket.cc:484 NCCL WARN socketFinalizeAccept: wrong magic 0x1 != 0x2",
)

LOCAL_PEER_LEFT = Pattern(
    event="nccl.proxy_error",
    literals=("Connection closed by localRank",),
    regex=INFO + r"\[(?P<what>Service thread)\] (?P<text>Connection closed by localRank (?P<peer_local_rank>\d+).*)$",
    sample="gpu-a017:4711:4901 [1] NCCL INFO [Service thread] Connection closed by localRank 3",
    severity="info",
)

PROXY_ERROR = Pattern(
    event="nccl.proxy_error",
    literals=(
        "NCCL WARN [Proxy",
        "NCCL WARN [Service thread]",
        "Proxy Call to rank",
        "Socket recv failed while polling",
        "is in abort state",
        "call to tpRank",
        "socketTryAccept",
    ),
    regex=WARN + r"(?P<text>(?:\[(?P<what>Proxy [^\]]*|Service thread)\]|Proxy Call to rank (?P<peer_rank>\d+)|"
    r"Socket recv failed while polling|Comm \S+ is in abort state|ncclProxy\w+ call to|socketTryAccept).*?"
    r"(?:localRank (?P<peer_local_rank>\d+).*|from rank (?P<from_rank>\d+).*)?)$",
    sample="gpu-a017:4711:4901 [1] proxy.cc:1521 NCCL WARN [Service thread] Could not receive type from localRank 2, "
    "res=3, closed=0",
)

NETWORK_PATTERNS: tuple[Pattern, ...] = (
    IB_ERROR,
    IB_ASYNC_EVENT,
    IB_SETUP_FAILED,
    CONNECT_RETRY,
    SOCKET_ERROR,
    SOCKET_STATE,
    LOCAL_PEER_LEFT,
    PROXY_ERROR,
)
