"""Kubernetes: events and pod states, as ``kubectl get events|pods|nodes``, ``kubectl describe``, JSON and YAML print
them.

Emitted by: kubernetes/kubernetes ``pkg/kubelet/events``, ``pkg/controller``,
``staging/src/k8s.io/kubectl/pkg/describe``. Gives ``k8s.event`` (reason, object, message; node where the object is
one), ``k8s.pod_status`` (pod, reason, exit_code), ``k8s.node_status``, ``k8s.exec_exit``. Ages ("6m1s") count back
from the moment of the query, which is not in the text, so these rows have no time of their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from correlator.events import Found, Parser, Pattern
from parsers._k8s_documents import read_event
from parsers._lines import named, one_line

#: Reasons that tell why a pod or a node ended.
_DECISIVE = (
    *(
        "Evicted",
        "OOMKilled",
        "OOMKilling",
        "SystemOOM",
        "NodeNotReady",
        "Preempted",
        "Preempting",
        "PreemptedByScheduler",
    ),
    *(
        "TaintManagerEviction",
        "EvictionByEvictionAPI",
        "DeletionByTaintManager",
        "TerminationByKubelet",
        "NodeShutdown",
    ),
    *("DeadlineExceeded", "NodeLost", "Rebooted", "UnexpectedAdmissionError", "ContainerStatusUnknown", "NodeAffinity"),
    *("EvictionThresholdMet", "NodeHasDiskPressure", "NodeHasInsufficientMemory", "Shutdown", "KernelDeadlock"),
)
_CRUCIAL = "|".join(_DECISIVE)
#: Those that an object carries itself; a container's reason stands beside its exit code and is read with it.
_OF_OBJECTS = tuple(reason for reason in _DECISIVE if reason != "OOMKilled")

#: Normal ones beside them that say what became of an object.
_TELLING = r"Killing|\w*Restarting|\w*Preempt\w*|\w*Evict\w*|NodeReady|\w*Suspended"

# get events:  [NAMESPACE] LAST SEEN  TYPE  REASON  OBJECT  [SUBOBJECT SOURCE]  MESSAGE
# describe:      TYPE  REASON  AGE  FROM  MESSAGE
_TABLE = (
    r"^(?:(?P<namespace>[a-z][\w-]*) +)?(?P<age>\d[\dsmhdy]*|<unknown>) +(?P<type>TYPE) +(?P<reason>REASON) +"
    r"(?P<object>[a-z.]+/[\w.-]+) +(?P<message>.*?) *$|"
    r"^ +(?P<type2>TYPE) +(?P<reason2>REASON) +(?P<age2>\d[\dsmhdy]*(?: \([^)]*\))?|<unknown>) "
    r"+(?P<source>[\w.-]+(?:, \S+)?) {2,}"
    r"(?P<message2>.*?) *$"
)


def _table(type_: str, reason: str) -> str:
    return _TABLE.replace("TYPE", type_).replace("REASON", reason)


def _event(match: re.Match[str]) -> Mapping[str, object]:
    fields = {name.rstrip("2"): text for name, text in named(match).items()}
    kind, _, name = str(fields.get("object", "")).partition("/")
    return {**fields, "node": name} if kind == "node" else fields


# describe pod, in order: Name, Node, then for every container State or Last State with Reason and Exit Code
_NAME = re.compile(r"^Name: {5,}(?P<pod>[\w.-]+)$")
_NODE = re.compile(r"^Node: {5,}(?P<node>[\w.-]+)/")
_TERMINATED = re.compile(r"^ +(?P<which>State|Last State): +Terminated$")
_DETAIL = re.compile(r"^ +(?P<key>Reason|Exit Code|Signal|Message): +(?P<text>.*)$")
_POD_REASON = re.compile(r"^(?P<key>Status|Reason|Message): {3,}(?P<text>.*)$")


def _read_description(lines: Sequence[str]) -> list[Found]:
    """Every terminated container of one described pod, and the pod's own reason where it has one (Evicted)."""
    pod: dict[str, object] = {}
    found: list[Found] = []
    index = 0
    while index < len(lines):
        line = lines[index]
        if match := _NAME.match(line):
            if pod.get("pod"):
                break
            pod |= named(match)
        elif match := _NODE.match(line):
            pod |= named(match)
        elif (match := _POD_REASON.match(line)) and match["key"] == "Reason":
            found.append(Found(index, index, {**pod, "reason": match["text"]}))
        elif match := _TERMINATED.match(line):
            fields: dict[str, object] = {**pod, "which": match["which"]}
            first = index
            while index + 1 < len(lines) and (detail := _DETAIL.match(lines[index + 1])):
                key = {"Exit Code": "exit_code", "Signal": "signal"}.get(detail["key"], detail["key"].lower())
                fields[key] = detail["text"].strip()
                index += 1
            if fields.get("reason") != "Completed":
                found.append(Found(first, index, fields, body="\n".join(lines[first : index + 1])))
        elif pod and index and not line.strip() and not found and index > 3:
            break
        index += 1
    return found


_EXIT_CODE = re.compile(r'"?exitCode"?: ?(?P<exit_code>\d+)')
_STATE_REASON = re.compile(r'"?reason"?: ?"?(?P<reason>\w+)')


def _read_container_state(lines: Sequence[str]) -> list[Found]:
    """A terminated state in JSON or YAML: keys come sorted, so ``reason`` follows ``exitCode`` within a few lines."""
    match = _EXIT_CODE.search(lines[0])
    if match is None or match["exit_code"] == "0":
        return []
    for index, line in enumerate([lines[0][match.end() :], *lines[1:6]]):
        if reason := _STATE_REASON.search(line):
            return [Found(0, index, {**named(match), **named(reason)})]
    return [Found(0, 0, named(match))]


_OBJECT_REASON = one_line(
    rf'"?reason"?: ?"?(?P<reason>{"|".join(_OF_OBJECTS)})"?(?:,|$|\s)',
    named,
)
_CRUCIAL_REASON, _TELLING_REASON = re.compile(_CRUCIAL), re.compile(_TELLING)


def _read_object(lines: Sequence[str]) -> Sequence[Found]:
    """An event in JSON or YAML, or the reason that an object itself states."""
    if "involvedObject" in lines[0]:
        return read_event(lines, _CRUCIAL_REASON, _TELLING_REASON)
    return _OBJECT_REASON(lines)


_BAD_STATUS = (
    *(
        "OOMKilled",
        "Evicted",
        "Error",
        "CrashLoopBackOff",
        "ContainerStatusUnknown",
        "NodeLost",
        "Unknown",
        "Terminating",
    ),
    *("DeadlineExceeded", "ImagePullBackOff", "ErrImagePull", "UnexpectedAdmissionError", "Preempted", "NodeShutdown"),
    *("ContainerCannotRun", "CreateContainerConfigError", "CreateContainerError", "RunContainerError"),
)

PARSER = Parser(
    name="kubernetes",
    patterns=(
        Pattern(
            event="k8s.event",
            literals=("Warning  ", "Normal  "),
            block=one_line(_table("Normal|Warning", _CRUCIAL), _event),
            block_lines=0,
            sample="6m1s        Warning   Evicted                 pod/llm-worker-2        The node was low on "
            "resource: "
            "ephemeral-storage.",
            not_samples=("21m         Normal    Pulled                  pod/llm-master-0       Image already present",),
        ),
        Pattern(
            event="k8s.event",
            literals=("Warning  ",),
            block=one_line(_table("Warning", r"[A-Z]\w+"), _event),
            block_lines=0,
            sample="  Warning  FailedScheduling  3m    default-scheduler  0/16 nodes are available: 16 Insufficient "
            "nvidia.com/gpu.",
            severity="warning",
        ),
        Pattern(
            event="k8s.event",
            literals=("Normal  ",),
            block=one_line(_table("Normal", _TELLING), _event),
            block_lines=0,
            sample="6m1s        Normal    Killing                 pod/llm-worker-2        Stopping container main",
            severity="info",
        ),
        Pattern(  # one event a line with the kind of its object, as custom columns and event exporters print it
            event="k8s.event",
            literals=tuple(f" {reason} " for reason in _DECISIVE),
            regex=rf"^(?:Normal|Warning) (?P<reason>{_CRUCIAL}) (?P<object>[a-z]+/[\w.-]+) (?P<message>.*)",
            sample="Warning NodeNotReady pod/llm-worker-2 Node is not ready",
            not_samples=("Normal Pulled pod/llm-worker-2 Container image already present",),
        ),
        Pattern(
            event="k8s.event",
            literals=(
                "involvedObject",
                *(f"{key}{reason}" for reason in _OF_OBJECTS for key in ("reason: ", 'reason":"', 'reason": "')),
            ),
            block=_read_object,
            block_lines=60,
            sample='        "reason": "Evicted",',
            not_samples=(
                "  involvedObject:\n    kind: Pod\n    name: llm-worker-1\n  message: Assigned\n  reason: Scheduled\n"
                "  type: Normal",
            ),
        ),
        Pattern(
            event="k8s.pod_status",
            literals=("Name:      ", "State:          Terminated", "Last State:     Terminated"),
            block=_read_description,
            block_lines=150,
            sample="Name:             llm-worker-1\nNamespace:        train\nNode:             node012/192.0.2.12\n"
            "Status:           Running\nContainers:\n  pytorch:\n    Last State:     Terminated\n"
            "      Reason:       OOMKilled\n      Exit Code:    137\n",
        ),
        Pattern(
            event="k8s.pod_status",
            literals=("exitCode: ", 'exitCode":'),
            block=_read_container_state,
            block_lines=6,
            sample='      exitCode: 137\n      finishedAt: "2024-05-01T05:40:18Z"\n      reason: OOMKilled',
            not_samples=("      exitCode: 0\n      reason: Completed",),
        ),
        Pattern(
            event="k8s.pod_status",
            literals=(*(f"  {status}  " for status in _BAD_STATUS), "  Init:"),
            regex=r"^(?:(?P<namespace>[a-z][\w-]*) +)?(?P<pod>[a-z0-9][\w.-]*) +\d+/\d+ +"
            rf"(?P<reason>{'|'.join(_BAD_STATUS)}|Init:[A-Z]\w*) +(?P<restarts>\d+)",
            sample="llm-worker-1   0/1     OOMKilled   1 (5m ago)   2h",
            not_samples=("llm-worker-1   1/1     Running     0            2h",),
        ),
        Pattern(  # Kubeflow's training operator
            event="k8s.pod_status",
            literals=("Pod: ",),
            regex=r"\bPod: (?P<namespace>[a-z0-9-]+)\.(?P<pod>[a-z0-9][\w.-]*) exited with code (?P<exit_code>\d+)",
            sample='time="2024-05-01T05:40:18Z" level=info msg="Pod: train.llm-worker-1 exited with code 1"',
        ),
        Pattern(  # a pod that runs; how often its containers were started anew tells pods of one job apart
            event="k8s.pod_listed",
            literals=("  Running  ",),
            regex=r"^(?:(?P<namespace>[a-z][\w-]*) +)?(?P<pod>[a-z0-9][\w.-]*) +\d+/\d+ +Running +(?P<restarts>\d+)\b",
            severity="info",
            sample="llm-worker-1   1/1     Running     1 (12m ago)  2h",
            not_samples=("State:          Running      ",),
        ),
        Pattern(
            event="k8s.node_status",
            literals=("NotReady",),
            regex=r"^(?P<node>[\w.-]+) +(?P<status>NotReady(?:,\w+)?) +\S+ +\S+ +v\d",
            sample="node012   NotReady   <none>   12d   v1.28.3",
        ),
        Pattern(
            event="k8s.exec_exit",
            literals=("command terminated with exit code ",),
            regex=r"^command terminated with exit code (?P<exit_code>\d+)",
            sample="command terminated with exit code 137",
            severity="warning",
        ),
    ),
)
