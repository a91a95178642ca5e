"""HCCL, the collective library of Ascend accelerators: what its heartbeat says of other ranks, and its time-outs.

Emitted by: CANN ``hccl`` (``heartbeat.cc``, ``task_exception_handler.cc``, ``cluster_monitor.cc``; texts of CANN 8.0 to
8.5) into the ``plog`` files of each process and, through torch_npu's exceptions, into the job's own output. Each
process watches the others; it publishes whom it lost, who is stuck, whose network card reports errors, so that every
rank prints the same finding: ``peer`` is the server the finding is about, ``peer_device`` its device there,
``discoverer`` who saw it first. A lost heartbeat proves that a process ended OR cannot be reached. Gives
``hccl.heartbeat`` (one event a notice) and ``hccl.error`` (error codes EI0001 to EI0020, EJ0001 and the like).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from correlator.events import Parser, Pattern
from parsers._lines import named, one_line

#: How the notices of the two logs name the same finding.
_WHAT = {
    "heartbeat lost": "lost", "lost": "lost", "stuck": "stuck", "error cqe": "cqe error", "cqe err": "cqe error",
    "cqe error": "cqe error", "error": "cqe error",
}  # fmt: skip
_PLACE = r"(?P<{0}>[\w.:%-]{{1,64}})/(?P<{0}_device>\d{{1,4}})"
_LOCATION = (
    rf"Cluster Exception Location\[IP/ID\]:\[{_PLACE.format('peer')}\]"
    r"(?:, Arrival Time:\[(?P<arrived>[^\]]{1,40})\])?"
    rf"(?:, Discoverer:\[{_PLACE.format('discoverer')}\])?, ExceptionType:\[(?P<what>[\w ]{{1,40}}?) Occurred\]"
)
_STATUS = (
    rf"rank ?\[{_PLACE.format('peer')}\] ?status ?\[(?P<what>[\w ]{{1,20}})\] ?by (?:informer )?rank ?"
    rf"\[{_PLACE.format('discoverer')}\]"
)
#: Whom the printer waits for and who it is itself, as numbers of the group; "unknown", "local" and -1 name nobody.
_REMOTE = re.compile(r"from remote rank:? ?\[(\d{1,7})\]")
_GROUP_RANK = re.compile(r"\brankId\[(\d{1,7})\]")
_ERROR = (
    r"^(?:\[PID: (?P<pid>\d+)\] \S{10,30} )?(?:\w{1,60}\()?(?P<code>E[IJ]00\d\d)\)?: "
    r"(?:\[PID: (?P<later_pid>\d+)\] \S{10,30} )?(?P<text>\S.*)$"
)


def _error(match: re.Match[str]) -> Mapping[str, object]:
    fields = named(match)
    if "later_pid" in fields:
        fields["pid"] = fields.pop("later_pid")
    remote, own = _REMOTE.search(match["text"]), _GROUP_RANK.search(match["text"])
    if remote and own:
        fields |= {"waits_for": remote[1], "group_rank": own[1]}
    return fields


def _notice(match: re.Match[str]) -> Mapping[str, object] | None:
    fields = named(match)
    what = _WHAT.get(match["what"].lower())
    return None if what is None else fields | {"what": what}


PARSER = Parser(
    name="hccl",
    patterns=(
        Pattern(
            event="hccl.heartbeat",
            literals=("Cluster Exception Location[IP/ID]:[",),
            block=one_line(_LOCATION, _notice),
            block_lines=0,
            sample="[ERROR] HCCL(4711,python3):2024-05-01-07:40:18.049.385 [task_exception_handler.cc:610] [4802]"
            "[TaskExecStage][HeartbeatAbnormal]Cluster Exception Location[IP/ID]:[192.0.2.18/3], Arrival Time:[Wed May"
            "  1 07:38:10 2024], Discoverer:[192.0.2.17/2], ExceptionType:[Heartbeat Lost Occurred], Possible Reason:1."
            " Process has exited, 2. Network Disconnected",
            severity="warning",
            not_samples=('ERROR_ROOT = "Cluster Exception Location[IP/ID]:["',),
        ),
        Pattern(
            event="hccl.heartbeat",
            literals=("]status[", "] status["),
            block=one_line(_STATUS, _notice),
            block_lines=0,
            sample="[INFO] HCCL(4711,python3):2024-05-01-07:38:10.191.363 [heartbeat.cc:951] [4802][TaskExecStage]"
            "[HeartbeatAbnormal]local rank [192.0.2.17/2]: crimer rank [192.0.2.18/3] status[LOST] by informer rank "
            "[192.0.2.17/2]",
            severity="warning",
            not_samples=("link [192.0.2.17/2] status[OK] by rank [192.0.2.17/2]",),
        ),
        Pattern(
            # a code in front of the text it stands for, or behind the name that newer versions print
            event="hccl.error",
            literals=("EI00", "EJ00"),
            block=one_line(_ERROR, _error),
            block_lines=0,
            sample="EI0002: [PID: 4711] 2024-05-01-07:40:18.645.648 The wait execution of the Notify register times "
            "out. Reason: The Notify register has not received the Notify record from remote rank [unknown].",
            not_samples=("RuntimeError: EI0006: Getting socket times out.", "sample EI0002"),
        ),
    ),
)
