"""Gloo's transport over TCP, as torch passes its messages on.

Emitted by: facebookincubator/gloo ``transport/tcp/{pair,unbound_buffer}.cc`` and torch
``csrc/distributed/c10d/ProcessGroupGloo.cpp``, 1.13 to 2.14.
Gives: gloo.* with ``peer`` = the address that the line names (the port is ephemeral and kept as ``peer_port``). The
printer survived longer than what it reports: all but the size mismatch speak about the other side.
"""

from __future__ import annotations

from correlator.events import Parser, Pattern

#: What may stand before the text on its line. Indented exceptions and JSON are reports that quote it once more.
_BEGIN = r"^ ?(?:[^\s{][^{]*?|\s*(?:what|\[)[^{]*?)?"
_PEER = r"\[(?:::ffff:)?(?P<peer>[^\]\s]+)\]:(?P<peer_port>\d+)"

PEER_CLOSED = Pattern(
    event="gloo.peer_closed",
    literals=("Connection closed by peer [", "Socket unexpectedly closed"),
    regex=rf"{_BEGIN}(?:Connection closed by peer {_PEER}|"
    r"Socket unexpectedly closed(?: \[(?P<address>[^\]\s]+)\])?)",
    sample="RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer "
    "[10.0.0.18]:21643. This is typically caused by a remote worker crashing.",
    not_samples=(
        "socketProgress: Connection closed by remote peer node012<41077>",
        "  RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer "
        "[10.0.0.18]:1",
        '{"message": {"message": "RuntimeError: [pair.cc:553] Connection closed by peer [10.0.0.18]:21643.',
    ),
)

PEER_RESET = Pattern(
    event="gloo.peer_reset",
    literals=(": Connection reset by peer", ": Broken pipe"),
    regex=rf"{_BEGIN}\b(?P<call>[Rr]ead|[Ww]rite|readv|writev|recv|send)(?: error)? {_PEER}: "
    r"(?P<reason>Connection reset by peer|Broken pipe)",
    sample="RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:537] Read error [10.0.0.18]:65174: "
    "Connection reset by peer",
    not_samples=(
        "ssh: Connection reset by peer",
        "Call to recv from 10.0.0.18<41077> failed : Connection reset by peer",
    ),
)

PEER_UNREACHABLE = Pattern(
    event="gloo.peer_unreachable",
    literals=(": Connection timed out", ": No route to host", ": Network is unreachable"),
    regex=rf"{_BEGIN}\b(?P<call>[Rr]ead|[Ww]rite|readv|writev|recv|send)(?: error)? {_PEER}: "
    r"(?P<reason>Connection timed out|No route to host|Network is unreachable)",
    sample="RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:538] Read error [10.0.0.18]:65174: "
    "Connection timed out",
    not_samples=("ssh: connect to host 10.0.0.18 port 22: Connection timed out",),
)

TIMEOUT = Pattern(
    event="gloo.timeout",
    literals=(" operation to complete", "Read timeout [", "Write timeout [", "Application timeout caused pair closure"),
    regex=rf"{_BEGIN}(?:Timed out waiting (?P<timeout_ms>\d+)ms for (?P<direction>send|recv) operation to complete|"
    rf"(?:Read|Write) timeout {_PEER}|Application timeout caused pair closure)",
    sample="RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting "
    "600000ms "
    "for recv operation to complete",
    not_samples=("waiting for the copy operation to complete",),
)

CONNECT_FAILED = Pattern(
    event="gloo.connect_failed",
    literals=("Gloo connectFullMesh failed with", "gloo/transport/tcp/"),
    regex=rf"{_BEGIN}(?:Gloo connectFullMesh failed with (?P<reason>.+)|"
    rf"gloo/transport/tcp/\w+\.cc:\d+\] (?:connect|Connect) (?:timeout )?{_PEER}(?:: (?P<error>.+))?)",
    sample="Gloo connectFullMesh failed with [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:144] no error",
    not_samples=("[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:446] op.preamble.length <= op.nbytes. 8 vs 4",),
)

SIZE_MISMATCH = Pattern(
    event="gloo.size_mismatch",
    literals=("op.preamble.length <= op.nbytes",),
    regex=rf"{_BEGIN}op\.preamble\.length <= op\.nbytes\. (?P<got>\d+) vs (?P<expected>\d+)",
    sample="[enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:446] op.preamble.length <= "
    "op.nbytes. "
    "1600 vs 4",
)

LOOPBACK_FALLBACK = Pattern(
    event="gloo.loopback_fallback",
    literals=("Using the loopback address as fallback",),
    regex=r"Unable to resolve hostname to a \(local\) address\. Using the loopback address as fallback",
    severity="warning",
    sample="Warning: Unable to resolve hostname to a (local) address. Using the loopback address as fallback. Manually "
    "set the network interface to bind to with GLOO_SOCKET_IFNAME. (function operator())",
)

PARSER = Parser(
    "gloo", (PEER_CLOSED, PEER_RESET, PEER_UNREACHABLE, TIMEOUT, SIZE_MISMATCH, CONNECT_FAILED, LOOPBACK_FALLBACK)
)
