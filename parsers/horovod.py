"""Lines of Horovod: stalled tensors with the ranks that did not submit them, and process ends.

Emitted by: ``horovod/common/stall_inspector.cc`` (before 0.17 ``operations.cc``), ``horovod/runner/gloo_run.py``.
Versions checked: 0.13 to 0.28. The stall report is written by the coordinator (rank 0), which waits: the ranks below
``Missing ranks`` (older: ``Stalled ranks``) are those that are behind. ``missing_ranks`` are global ranks. 0.13
lists those that did come instead: ``ready_ranks`` are all that offered any of the tensors.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from correlator.events import Found, Parser, Pattern

_RANK_LINE = re.compile(r"^\s*(\d+)(!?): \[")
_IN_OPERATION = re.compile(r"\[missing ranks: ([\d, ]+)\]")
_READY = re.compile(r"\[ready ranks: ([\d, ]+)\]")


def _numbers(pattern: re.Pattern[str], text: str) -> set[int]:
    """All ranks of the lists that ``pattern`` finds in a line."""
    return {int(n) for listed in pattern.findall(text) for n in re.findall(r"\d{1,7}", listed)}


def _stall(lines: Sequence[str]) -> list[Found]:
    """The whole report: who is missing, whether Horovod gives up, and after how long."""
    match = re.search(r"One or more tensors were submitted to be reduced", lines[0])
    if match is None:
        return []
    waited = re.search(r"for more than (\d+) seconds", " ".join(lines[:3]))
    missing: list[str] = []
    ready = _numbers(_READY, lines[0])
    shutdown = False
    last = 0
    for index, text in enumerate(lines[1:], 1):
        if there := _numbers(_READY, text):
            ready |= there
            last = index
        elif re.match(r"(?:Missing|Stalled) (?:ranks|ops):", text):
            last = index
        elif found := _RANK_LINE.match(text):
            missing.append(found[1])
            last = index
        elif within := _IN_OPERATION.search(text):  # before 0.17: "op [missing ranks: 1, 2]"
            missing += re.findall(r"\d+", within[1])
            last = index
        elif "Will shutdown" in text:
            shutdown, last = True, index
        elif index - last > 2:
            break
    fields: dict[str, object] = {"missing_ranks": ",".join(dict.fromkeys(missing))}
    if ready and not missing:
        fields = {"ready_ranks": ",".join(map(str, sorted(ready)))}
    if waited:
        fields["timeout_ms"] = int(waited[1]) * 1000
    if shutdown:
        fields["shutdown"] = "true"
    return [Found(0, last, fields, body="\n".join(lines[: last + 1]))]


PARSER = Parser(
    name="horovod",
    patterns=(
        Pattern(
            event="horovod.stalled",
            literals=("One or more tensors were submitted to be reduced",),
            block=_stall,
            block_lines=80,
            sample="One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks "
            "and are "
            "waiting for remainder of ranks for more than 60 seconds. This may indicate that different ranks are "
            "trying to "
            "submit different tensors or that only subset of ranks is submitting tensors, which will cause deadlock. \n"
            "Missing ranks:\n3: [allreduce.grad_0, allreduce.grad_1 ...]\n5!: [allreduce.grad_0]\n"
            'One or more rank (marked by "!") is stalled for longer than 120 seconds. Will shutdown.',
        ),
        Pattern(
            event="horovod.shut_down",
            literals=("Horovod has been shut down. This was caused by",),
            regex=r"Horovod has been shut down\. This was caused by an exception on one of the ranks",
            severity="warning",
            sample="Horovod has been shut down. This was caused by an exception on one of the ranks or an attempt "
            "to allreduce, "
            "allgather or broadcast a tensor after one of the ranks finished execution.",
        ),
        Pattern(
            event="horovod.process_exited",
            literals=(" exit with status code ",),
            regex=r"^Process (?P<rank>\d+) exit with status code (?P<exit_code>-?\d+)\.",
            sample="Process 3 exit with status code 1.",
        ),
        Pattern(
            event="horovod.terminating",
            literals=("Terminating remaining workers after failure of Process ",),
            regex=r"Terminating remaining workers after failure of Process (?P<rank>\d+)",
            severity="info",
            sample="Terminating remaining workers after failure of Process 3.",
        ),
        Pattern(
            event="horovod.blacklisted",
            literals=("blacklist failing host: ",),
            regex=r"blacklist failing host: (?P<peer>[\w.-]+)",
            severity="warning",
            sample="blacklist failing host: gpu-a018",
        ),
    ),
)
