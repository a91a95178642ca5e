"""What Slurm's client commands print over several lines: one job, one node, jobs as JSON, nodes with a reason.

Emitted by: ``scontrol show job|node``, ``sinfo -R``, ``sacct --json`` (data parsers 0.0.37 to 0.0.43, in which a state
became a list), ``squeue --json``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from correlator.events import Found
from correlator.untrusted import read_json
from parsers._lines import named

STATES = "BOOT_FAIL|CANCELLED|COMPLETED|DEADLINE|FAILED|NODE_FAIL|OUT_OF_MEMORY|PREEMPTED|REQUEUED|REVOKED|TIMEOUT"
_ENDED = frozenset(STATES.split("|"))

_JOB_STATE = re.compile(r"(?:^|\s)JobState=(?P<state>\w+) Reason=(?P<reason>\S+)")
_JOB_NODES = re.compile(r"(?:^|\s)NodeList=(?P<nodes>[\w.-]+\S*)")
_JOB_END = re.compile(r"(?:^|\s)EndTime=(?P<ended_at>\d\S+)")


def read_job(lines: Sequence[str]) -> list[Found]:
    """``scontrol show job`` from the state on; with ``--oneliner`` the nodes stand in the same line."""
    state = _JOB_STATE.search(lines[0])
    if state is None:
        return []
    fields = named(state)
    for index, line in enumerate(lines):
        if index and (not line.startswith("   ") or _JOB_STATE.search(line)):
            break
        if end := _JOB_END.search(line):
            fields |= named(end)
            break
    found = [Found(0, 0, fields)]
    if nodes := _JOB_NODES.search(lines[0]):
        found.append(Found(0, 0, named(nodes) | {"severity": "info"}, nodes[0].strip(), "slurm.nodelist"))
    return found


_NODE = re.compile(r"^NodeName=(?P<node>[\w.-]+) ")
_NODE_STATE = re.compile(r"(?:^|\s)State=(?P<state>\S+)")
_NODE_REASON = re.compile(r"(?:^|\s)Reason=(?P<reason>.*?)(?: \[(?P<by>\S+)@(?P<at>[\dT:-]+)\])?\s*$")
_BAD_STATE = re.compile(r"DOWN|DRAIN|FAIL|NOT_RESPONDING|\*")


def read_node(lines: Sequence[str]) -> list[Found]:
    """``scontrol show node``: a node that is down, drained or does not answer."""
    fields: dict[str, object] = {}
    last = 0
    for index, line in enumerate(lines):
        match = _NODE.match(line)
        if match and not index:
            fields |= named(match)
        elif match or not line.startswith("   "):
            break
        for regex in (_NODE_STATE, _NODE_REASON):
            if found := regex.search(line):
                fields |= named(found)
                last = index
    if "node" not in fields or not _BAD_STATE.search(str(fields.get("state", ""))):
        return []
    return [_bad_node(0, last, fields)]


_REASON_ROW = re.compile(
    r"^(?P<reason>\S.{0,80}?) +(?P<by>\S+) +(?P<at>\d{4}-\d\d-\d\dT[\d:]+) +(?P<nodes>[\w.,\[\]-]+)\s*$"
)


def read_reasons(lines: Sequence[str]) -> list[Found]:
    """``sinfo -R``: nodes by the reason why they are out."""
    found: list[Found] = []
    for index, line in enumerate(lines[1:], start=1):
        match = _REASON_ROW.match(line)
        if match is None:
            break
        fields = named(match)
        hosts = str(fields.pop("nodes"))
        fields["down_nodes" if "[" in hosts or "," in hosts else "node"] = hosts
        found.append(_bad_node(index, index, fields))
    return found


def _bad_node(first: int, last: int, fields: dict[str, object]) -> Found:
    """``what``: silent where the controller got no answer, updated where somebody took the node out."""
    reason = str(fields.get("reason", ""))
    silent = reason.startswith("Not responding") or bool(re.search(r"\*|NOT_RESPONDING", str(fields.get("state", ""))))
    told = " ".join(
        f"{name}={fields[key]}" for name, key in (("State", "state"), ("Reason", "reason")) if fields.get(key)
    )
    return Found(first, last, {**fields, "what": "silent" if silent else "updated"}, body=told or None)


_KEY = re.compile(r'^(?P<indent>\s*)"(?P<key>\w+)" ?: ?(?P<value>.*?),?$')


def read_json_job(lines: Sequence[str]) -> list[Found]:
    """A job of ``sacct --json`` that ended, from its number on; a document of one line with all its jobs."""
    if lines[0].startswith("{"):
        document = read_json(lines[0])
        jobs = document.get("jobs") if isinstance(document, dict) else None
        return [found for job in jobs or [] if isinstance(job, dict) for found in _json_job(job, 0, 0)]
    start = _KEY.match(lines[0])
    if start is None or start["key"] != "job_id":
        return []
    job: dict[str, object] = {"job_id": start["value"]}
    state: dict[str, object] = {}
    for index, line in enumerate(lines[1:], start=1):
        match = _KEY.match(line)
        if match and match["indent"] == start["indent"]:
            if match["key"] in ("job_id", "steps") or (state and match["key"] > "state"):
                break
            if match["key"] in ("nodes", "failed_node"):
                job[match["key"]] = match["value"].strip('"')
        elif match and match["key"] in ("current", "reason") and len(match["indent"]) > len(start["indent"]):
            value = match["value"] if match["value"] != "[" else lines[index + 1] if index + 1 < len(lines) else ""
            state.setdefault(match["key"], value.strip('[]", '))
            job["state"] = state
            last = index
    return list(_json_job(job, 0, last)) if state else []


def _json_job(job: dict[str, object], first: int, last: int) -> Iterator[Found]:
    state = job.get("state")
    current = state.get("current") if isinstance(state, dict) else job.get("job_state")
    if isinstance(current, list):
        current = current[0] if current else None
    if current not in _ENDED:
        return
    fields: dict[str, object] = {"job": job.get("job_id"), "state": current}
    if isinstance(state, dict) and state.get("reason") not in (None, "", "None"):
        fields["reason"] = state["reason"]
    if job.get("failed_node"):
        fields["failed_node"] = job["failed_node"]
    yield Found(first, last, fields, body=f"job {job.get('job_id')}: {current}")
    if isinstance(job.get("nodes"), str) and job["nodes"] not in ("", "None assigned"):
        yield Found(first, last, {"nodes": job["nodes"], "severity": "info"}, event="slurm.nodelist")
