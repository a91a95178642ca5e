"""How ``torch.multiprocessing.spawn`` reports a process that ended without an exception.

Emitted by: pytorch/pytorch ``torch/multiprocessing/spawn.py`` (1.0 to 2.9). Gives ``spawn.process_exited``: its number
among the processes of this node, and its exit status, negative for a signal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from correlator.events import Parser, Pattern
from parsers._lines import one_line, signal_number


def _ended(match: re.Match[str]) -> Mapping[str, object] | None:
    number = signal_number(match["signal"]) if match["signal"] else None
    code = match["code"] or (None if number is None else -number)
    return None if code is None else {"local_rank": match["process"], "exit_code": code}


PARSER = Parser(
    name="spawn",
    patterns=(
        Pattern(
            event="spawn.process_exited",
            literals=(" terminated with signal ", " terminated with exit code "),
            block=one_line(
                r"(?:Exception|ProcessExitedException): process (?P<process>\d+) terminated with "
                r"(?:signal (?P<signal>SIG\w+)|exit code (?P<code>\d+))",
                _ended,
            ),
            block_lines=0,
            sample="torch.multiprocessing.spawn.ProcessExitedException: process 3 terminated with signal SIGKILL",
            not_samples=("the process 3 terminated with exit code 0, as it should",),
        ),
    ),
)
