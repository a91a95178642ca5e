"""The head of an NCCL line as a piece of a regular expression.

    gpu-a017:4711:4890 [1] NCCL INFO <text>
    [2024-05-01 07:40:18] gpu-a017:4711:4890 [1] transport/net_ib.cc:2301 (ncclIbTest) NCCL WARN <text>

``<host>:<pid>:<tid> [<index of the thread's current CUDA device>]``; the host is cut at its first dot. From 2.26 on a
stamp comes before it (WARN only, by default), from 2.30 on the function after the source line. The head is optional in
the patterns: excerpts often lack it, and another process's text can stand before it on the same line.
The bound on the host keeps the search linear in lines without spaces.
Source: NVIDIA/nccl ``src/debug.cc``, tags 2.6 to 2.30.
"""

from __future__ import annotations

HEAD = r"(?:\b(?P<node>[\w.-]{1,255}):(?P<pid>\d{1,19}):(?P<tid>\d{1,19}) \[(?:(?P<gpu>\d{1,19})|-\d{1,19})\] )?"

#: Up to the text of a warning.
WARN = HEAD + r"(?:(?P<source>[\w./-]{1,255}):\d{1,9} (?:\((?P<function>[^)]*)\) )?)?NCCL WARN "

#: Up to the text of an information line.
INFO = HEAD + r"NCCL INFO "
