"""Reports of several lines that ProcessGroupNCCL adds to a timeout: the desync report, the stack of the waiting call.

Texts of torch 1.13 to 2.14 (``csrc/distributed/c10d/TraceUtils.h``, ``ProcessGroupNCCL.cpp``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from correlator.events import BODY_LIMIT, Found, Pattern
from parsers._frames import Frame, describe
from parsers._lines import named, rank_list

_LAGGING = re.compile(
    r"ranks \[(?P<never>[\d, ]+)\] are the lagging ranks|\[(?P<behind>[\d, ]+)\] (?:joined but didn't finish|finished) "
    r"collective #\d+"
)
_REPORT_LINE = re.compile(r"^\s*(?:-|\[|#\d)|^\s+\S|Timeout at collective: ")


def _parse_desync(lines: Sequence[str]) -> list[Found]:
    """The report, with the ranks that it calls lagging, dead or mismatched (group ranks)."""
    last = 0
    for position, text in enumerate(islice(lines, 1, None), 1):
        if not _REPORT_LINE.match(text):
            break
        last = position
    report = [text.strip() for text in lines[: last + 1]]
    lagging = ",".join(found["never"] or found["behind"] for line in report for found in _LAGGING.finditer(line))
    text = "\n".join(report)
    if not lagging:
        return []
    fields: dict[str, object] = {"lagging_ranks": rank_list(lagging), "report": text[:BODY_LIMIT]}
    if waited := re.search(r"\[(?P<group_rank>\d+)\] Timeout at collective: (?P<op>\w+), #(?P<seq>\d+)", text):
        fields |= named(waited)
    return [Found(0, last, fields, body=text[:BODY_LIMIT])]


DESYNC_REPORT = Pattern(
    event="c10d.desync_report",
    literals=("] Timeout at collective: ", "To our best knowledge, "),
    block=_parse_desync,
    block_lines=200,
    sample="\t - [1] Timeout at collective: ALLREDUCE, #5\n"
    "\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:\n"
    "\t   - [2] joined but didn't finish collective #4 (count from 1)\n"
    "\t     [3] finished collective #4, but didn't join collective #5 (count from 1)",
    not_samples=("To our best knowledge, this is the first run",),
)

_STACK_FRAME = re.compile(r"^\s*#(?P<index>\d+) (?P<func>\S+) from (?P<file>.+):(?P<line>\d+)\s*$")


def _parse_collective_stack(lines: Sequence[str]) -> list[Found]:
    frames: list[Frame] = []
    last = 0
    for position, text in enumerate(islice(lines, 1, None), 1):
        frame = _STACK_FRAME.match(text)
        if frame:
            frames.append(Frame(frame["func"], frame["file"], int(frame["line"])))
            last = position
        elif text.strip():
            break
    if not frames:
        return []
    if frames[0].func != "<module>":
        frames.reverse()
    return [Found(0, last, describe(frames), body="\n".join(lines[: last + 1])[:BODY_LIMIT])]


COLLECTIVE_STACK = Pattern(
    event="c10d.collective_stack",
    literals=("Stack trace of the failed collective: ",),
    block=_parse_collective_stack,
    block_lines=120,
    severity="info",
    sample="Stack trace of the failed collective: \n"
    "#0 all_reduce from /opt/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py:2806\n"
    "#1 wrapper from /opt/env/lib/python3.11/site-packages/torch/distributed/c10d_logger.py:81\n"
    "#2 sum_gradients from /opt/job/training.py:44\n"
    "#3 <module> from /opt/job/train.py:88",
    not_samples=("Stack trace of the failed collective not found, potentially because FlightRecorder is disabled.",),
)

NO_COLLECTIVE_STACK = Pattern(
    event="c10d.no_collective_stack",
    literals=("Stack trace of the failed collective not found",),
    regex=r"Stack trace of the failed collective not found",
    severity="info",
    sample="Stack trace of the failed collective not found, potentially because FlightRecorder is disabled.",
)

REPORT_PATTERNS = (DESYNC_REPORT, COLLECTIVE_STACK, NO_COLLECTIVE_STACK)
