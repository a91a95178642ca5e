"""Python's own reports: tracebacks, faulthandler and py-spy stack dumps.

Emitted by: CPython ``Lib/traceback.py``, ``Python/traceback.c``, ``Modules/faulthandler.c`` (3.7 to 3.14); rich's
``traceback.py``; py-spy's ``dump``.
Gives: python.exception (one per chain of exceptions), python.fatal, python.stack_dump. A handled exception that a
program logs looks the same as one that ends it; which of the two it was is not decided here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from correlator.events import BODY_LIMIT, Found, Parser, Pattern
from parsers._exceptions import exception_fields, outer_exception
from parsers._stack_dumps import read_dump, read_fatal
from parsers._tracebacks import read_stacks

#: Tracebacks of a hundred ranks woven into one stream need about this many lines; they are read as needed.
_TRACEBACK_LINES = 8000
_PREFACE = re.compile(r"Exception ignored (?:in|on)\b|Exception in thread (?P<thread>[^\s:(]+)")


def _parse_traceback(lines: Sequence[str]) -> list[Found]:
    preface = _PREFACE.search(lines[0])
    skip = 0
    if preface:
        skip = next((i for i, text in enumerate(lines[:4]) if "Traceback (most recent call last)" in text), 0)
        if not skip:
            return []
        lines = lines[skip:_TRACEBACK_LINES]
    found = []
    for head in read_stacks(lines):
        # A stack without its final line is news only where the log ends; elsewhere the rest may follow the window.
        if head.final < 0 and len(lines) >= _TRACEBACK_LINES - skip:
            continue
        fields = exception_fields(head)
        if preface:
            fields |= {"thread": preface["thread"]} if preface["thread"] else {"ignored": "true", "severity": "warning"}
        root, outer = head.root(), outer_exception(head)
        found.append(
            Found(
                head.start and head.start + skip,
                max(s.last for s in head.below()) + skip,
                fields,
                body="\n".join([*root.lines, *(outer.lines if outer else ())])[:BODY_LIMIT],
                at=(root.final if root.final >= 0 else root.last) + skip,
            )
        )
    return found


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
    # The second literal keeps the stacks of the report from being read once more as a dump of their own.
    literals=("Fatal Python error: ", "(most recent call first):"),
    block=read_fatal,
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
    block=read_dump,
    block_lines=1000,
    severity="info",
    sample="Timeout (0:00:06)!\n"
    "Thread 0x00007f0ffac4eb80 (most recent call first):\n"
    '  File "/opt/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 3252 in all_reduce\n'
    '  File "/opt/env/lib/python3.11/site-packages/torch/distributed/c10d_logger.py", line 83 in wrapper\n'
    '  File "/opt/job/training.py", line 44 in sum_gradients\n'
    '  File "/opt/job/train.py", line 88 in <module>',
    not_samples=(
        "Exception raised from recvBytes at /pytorch/torch/csrc/distributed/c10d/Utils.hpp:758 (most recent call "
        "first):",
    ),
)

PARSER = Parser("python_tracebacks", (EXCEPTION, FATAL, STACK_DUMP))
