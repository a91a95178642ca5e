"""Python's own reports: tracebacks, faulthandler and py-spy stack dumps, and torchelastic's error file.

Emitted by: CPython ``Lib/traceback.py``, ``Python/traceback.c``, ``Modules/faulthandler.c`` (3.7 to 3.14); rich's
``traceback.py``; py-spy's ``dump``; torch ``distributed/elastic/multiprocessing/errors/error_handler.py``.
Gives: python.exception (one per chain of exceptions), python.fatal, python.stack_dump, python.error_json. A handled
exception that a program logs looks the same as one that ends it; which of the two it was is not decided here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from correlator.events import BODY_LIMIT, Found, Parser, Pattern
from parsers._frames import describe, in_launcher, site
from parsers._stack_dumps import read_dump, read_fatal
from parsers._tracebacks import Stack, read_stacks

#: Tracebacks of eight ranks woven into one stream need about this many lines.
_TRACEBACK_LINES = 2000
_MESSAGE_LIMIT = 1000
_PREFACE = re.compile(r"Exception ignored (?:in|on)\b|Exception in thread (?P<thread>[^\s:(]+)")
_LAUNCHER_TYPES = re.compile(r"(?:^|\.)(?:ChildFailedError|SignalException)$")
_STARTS_RANKS = re.compile(r"^Command '?\[?.*python.*(?:--local[-_]rank|\.py\b)")
_WORKER = re.compile(r"^Caught \w+ in DataLoader worker process (\d+)")
_CHECKPOINT_RANKS = re.compile(r"ranks:dict_keys\(\[([\d, ]*)\]\)")


def _parse_traceback(lines: Sequence[str]) -> list[Found]:
    preface = _PREFACE.search(lines[0])
    skip = 0
    if preface:
        skip = next((i for i, text in enumerate(lines[1:4], 1) if "Traceback (most recent call last)" in text), 0)
        if not skip:
            return []
    # A stack without its final line is news only where the log ends; elsewhere the rest may follow the window.
    whole = len(lines) < _TRACEBACK_LINES
    found = []
    for head in read_stacks(lines[skip:]):
        if head.final < 0 and not whole:
            continue
        fields = _exception_fields(head)
        if preface:
            if preface["thread"]:
                fields["thread"] = preface["thread"]
            else:
                fields |= {"ignored": "true", "severity": "warning"}
        stacks = head.below()
        root, outer = head.root(), _outer(head)
        final = root.final if root.final >= 0 else root.last
        body = "\n".join([*root.lines, *(outer.lines if outer else ())])
        last = max(s.last for s in stacks)
        found.append(
            Found(head.start + skip if found else 0, last + skip, fields, body=body[:BODY_LIMIT], at=final + skip)
        )
    return found


def _outer(head: Stack) -> Stack | None:
    """The exception that the process ended with, where it is not the one that was raised first."""
    after = [s for s in head.below() if s.link == "after"]
    if after:
        return after[-1]
    return head if head.root() is not head else None


def _exception_fields(head: Stack) -> dict[str, object]:
    stacks = head.below()
    root, outer = head.root(), _outer(head)
    fields: dict[str, object] = {"type": root.type or "unknown", "message": root.message[:_MESSAGE_LIMIT]}
    if outer is not None:
        fields |= {"outer_type": outer.type or "unknown", "outer_message": outer.message[:_MESSAGE_LIMIT]}
    fields |= describe(root.frames, message=root.message)
    if outer is not None and (site(root.frames) is None or "site" not in fields):
        # A chained block only has the frames below the `try`; the job's own code is in the later block.
        fields |= {k: v for k, v in describe(outer.frames).items() if k in ("site", "code")}
    worker = next((m for s in stacks if (m := _WORKER.match(s.message))), None)
    if worker:
        fields["worker"] = worker[1]
    ranks = next((m for s in stacks if (m := _CHECKPOINT_RANKS.search(s.message))), None)
    if ranks:
        fields["remote_ranks"] = ",".join(re.findall(r"\d+", ranks[1]))
    frames = [frame for s in stacks if s.link != "inside" for frame in s.frames]
    last = outer or root
    starts_ranks = last.type.endswith("CalledProcessError") and _STARTS_RANKS.search(last.message)
    if in_launcher(frames) or _LAUNCHER_TYPES.search(last.type) or starts_ranks:
        fields["launcher"] = "true"
    return fields


def _parse_error_file(lines: Sequence[str]) -> list[Found]:
    """The content of an error file; ``timestamp`` is in whole seconds since the epoch, of the node's own clock."""
    try:
        content = json.loads(lines[0])
    except ValueError:
        return []
    message = content.get("message") if isinstance(content, dict) else None
    extra = message.get("extraInfo", {}) if isinstance(message, dict) else {}
    text = message.get("message", "") if isinstance(message, dict) else message
    if not isinstance(text, str) or not isinstance(extra, dict):
        return []
    kind, _, rest = text.partition(": ")
    fields: dict[str, object] = {"type": kind, "message": rest[:_MESSAGE_LIMIT]} if rest else {"message": text}
    stack = str(extra.get("py_callstack", "")).splitlines()
    chains = read_stacks(stack) if stack else []
    if chains:
        fields |= _exception_fields(chains[0])
    stamp = extra.get("timestamp", content.get("timestamp"))
    if stamp is not None:
        fields["error_time"] = str(stamp)
    return [Found(0, 0, fields, body=text[:BODY_LIMIT])]


def _parse_fatal(lines: Sequence[str]) -> list[Found]:
    return read_fatal(lines)


def _parse_dump(lines: Sequence[str]) -> list[Found]:
    return read_dump(lines)


ERROR_FILE = Pattern(
    event="python.error_json",
    literals=('"py_callstack":', '{"message": "', '{"message": {"message": '),
    block=_parse_error_file,
    block_lines=1,
    sample='{"message": {"message": "ValueError: bad shard", "extraInfo": {"py_callstack": "Traceback (most recent call '
    'last):\\n  File \\"/opt/job/train.py\\", line 88, in main\\n    load(shard)\\nValueError: bad shard\\n", '
    '"timestamp": "1714549218"}}}',
    not_samples=('{"message": 3, "level": "info"}', 'INFO payload {"message": {"message": "ValueError: bad shard"'),
)

EXCEPTION = Pattern(
    event="python.exception",
    literals=("Traceback (most recent call last)", "Exception ignored in", "Exception in thread "),
    block=_parse_traceback,
    block_lines=_TRACEBACK_LINES,
    sample="Traceback (most recent call last):\n"
    '  File "/opt/job/train.py", line 88, in <module>\n'
    "    main()\n"
    '  File "/opt/job/train.py", line 61, in main\n'
    "    batch = next(batches)\n"
    "            ^^^^^^^^^^^^^\n"
    "ValueError: bad shard",
    not_samples=(
        "  traceback : Traceback (most recent call last):",
        "Exception ignored in atexit callback: <function clean_up at 0x7f21c0>",
        'print("Traceback (most recent call last)")',
    ),
)

FATAL = Pattern(
    event="python.fatal",
    literals=("Fatal Python error: ",),
    block=_parse_fatal,
    block_lines=1000,
    severity="fatal",
    sample="Fatal Python error: Segmentation fault\n"
    "\n"
    "Current thread 0x00007f0a1c2b3740 (most recent call first):\n"
    '  File "/opt/job/kernels.py", line 31 in fused\n'
    '  File "/opt/job/train.py", line 88 in <module>\n'
    "\n"
    "Extension modules: numpy.core._multiarray_umath (total: 1)",
    not_samples=("a fatal Python error was reported",),
)

STACK_DUMP = Pattern(
    event="python.stack_dump",
    literals=("(most recent call first):", ' "MainThread"'),
    block=_parse_dump,
    block_lines=1000,
    severity="info",
    sample="Timeout (0:00:06)!\n"
    "Thread 0x00007f0ffac4eb80 (most recent call first):\n"
    '  File "/opt/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 3252 in all_reduce\n'
    '  File "/opt/env/lib/python3.11/site-packages/torch/distributed/c10d_logger.py", line 83 in wrapper\n'
    '  File "/opt/job/training.py", line 44 in sum_gradients\n'
    '  File "/opt/job/train.py", line 88 in <module>',
    not_samples=(
        "Exception raised from recvBytes at /pytorch/torch/csrc/distributed/c10d/Utils.hpp:758 (most recent call first):",
    ),
)

PARSER = Parser("python_tracebacks", (ERROR_FILE, EXCEPTION, FATAL, STACK_DUMP))
