"""Multi-line texts of the elastic agent: the failure report, the rendezvous result, the launch configuration."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from correlator.events import BODY_LIMIT, Found
from parsers._tracebacks import read_stacks

_ENTRY = re.compile(r"^\s*\[(?P<index>\d+)\]:\s*$")
_FIELD = re.compile(r"^\s*(?P<name>time|host|rank|exitcode|error_file|traceback|msg)\s*: ?(?P<value>.*)$")
_RULE = re.compile(r"^\s*[-=*]{8,}\s*$")
_SECTION = re.compile(
    r"^\s*(?:(?:Other )?Failures:|Root Cause(?: \(first observed failure\))?:|<NO_OTHER_FAILURES>)\s*$"
)
_RANK = re.compile(r"(?P<rank>\d+) \(local_rank: (?P<local_rank>\d+)\)")
_EXIT = re.compile(r"(?P<exit_code>-?\d+) \(pid: (?P<pid>\d+)\)")
_ASSIGNMENT = re.compile(r"^\s+(?P<name>\w+)=(?P<value>.*)$")
_SETTING = re.compile(r"^\s+(?P<name>\w+)\s*: (?P<value>.*)$")
_CHILD_FAILED = re.compile(r"^\s*(?:torch\.distributed\.elastic\.multiprocessing\.errors\.)?ChildFailedError:")
_TITLE = re.compile(r"^\s*(?P<script>\S.*?) FAILED\s*$")
#: Lines of other programs that may stand between two lines of a report.
_PATIENCE = 40


@dataclass(slots=True)
class _Entry:
    first: int
    last: int
    index: int | None
    values: dict[str, list[str]] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)  # of the last line that is not empty of each field
    done: bool = False


def read_report(lines: Sequence[str]) -> list[Found]:
    """One event per entry of a failure report, or of several reports that were woven into each other.

    Entry 0 is the one that the agent calls the root cause; the place of each is its signal, exception or exit code. A
    woven report is told apart by its fields alone: a field goes to the oldest entry that lacks it.
    """
    if not _SECTION.match(lines[0]):
        return []
    entries: list[_Entry] = []
    pending: list[tuple[int, int]] = []
    closed_at = foreign = 0
    for position, text in enumerate(lines):
        entry, value = _ENTRY.match(text), _FIELD.match(text)
        in_traceback = bool(entries) and not entries[-1].done and "traceback" in entries[-1].values
        if entry:
            pending.append((position, int(entry["index"])))
            _finish(entries)
        elif _RULE.match(text):
            _finish(entries)
            closed_at = position
            if text.strip().startswith(("=", "*")) and _complete(entries):
                break
        elif value and not (in_traceback and _indent(text) > 2 and value["name"] != "time"):
            _add(entries, pending, position, value["name"], value["value"])
        elif in_traceback and (text.startswith("  ") or not text.strip()):
            entries[-1].values["traceback"].append(text[2:])
            entries[-1].last = position
            if text.strip():
                entries[-1].places["traceback"] = position
        elif not _SECTION.match(text) and text.strip():
            foreign += 1
            if foreign > _PATIENCE:
                break
            continue
        foreign = 0
    found = [_found(entry) for entry in entries if len(entry.values) > 1]
    if found and closed_at > found[-1].last:
        found[-1] = replace(found[-1], last=closed_at)
    return found


def _add(entries: list[_Entry], pending: list[tuple[int, int]], position: int, name: str, value: str) -> None:
    name = "traceback" if name == "msg" else name
    lacking = next((e for e in entries if not e.done and name not in e.values), None)
    if name == "time" or lacking is None:
        start, index = pending.pop(0) if pending else (position, None)
        lacking = _Entry(start, position, index)
        entries.append(lacking)
    lacking.values[name] = [value]
    lacking.last = lacking.places[name] = position


def _finish(entries: Sequence[_Entry]) -> None:
    for entry in entries:
        entry.done = entry.done or "traceback" in entry.values


def _complete(entries: Sequence[_Entry]) -> bool:
    return any(e.index == 0 for e in entries) and all(e.done for e in entries)


def _found(entry: _Entry) -> Found:
    values = {name: parts[0].strip() for name, parts in entry.values.items()}
    fields: dict[str, object] = {"is_root": "true" if entry.index == 0 else "false"}
    if rank := _RANK.search(values.get("rank", "")):
        fields |= {"rank": rank["rank"], "local_rank": rank["local_rank"]}
    if status := _EXIT.search(values.get("exitcode", "")):
        fields |= {"exit_code": status["exit_code"], "pid": status["pid"]}
    for source, name in (("host", "node"), ("time", "time"), ("error_file", "error_file")):
        value = values.get(source, "")
        if value and value != "<N/A>":
            fields[name] = value
    told = "\n".join(entry.values.get("traceback", [])).strip()
    if told:
        fields["traceback"] = told[:BODY_LIMIT]
    stacks = read_stacks(told.splitlines()) if told.startswith("Traceback (") else []
    if stacks:
        root = stacks[0].root()
        fields |= {"type": root.type, "message": root.message[:1000]}
    order = ("time", "host", "rank", "exitcode", "error_file")
    body = ", ".join(f"{name} {values[name]}" for name in order if values.get(name))
    telling = "traceback" if stacks or told.startswith("Signal ") else "exitcode"
    at = entry.places.get(telling, entry.first)
    return Found(entry.first, entry.last, fields, body=f"{body}, traceback {told}"[:BODY_LIMIT], at=at)


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def read_child_failed(lines: Sequence[str]) -> list[Found]:
    """The launcher's exception, with the script that its report is titled by."""
    if not _CHILD_FAILED.match(lines[0]):
        return []
    for position, text in enumerate(islice(lines, 1, 4), 1):
        title = _TITLE.match(text)
        if title:
            return [Found(0, position, {"script": title["script"]}, body=lines[0].strip())]
    return [Found(0, 0)]


def read_rendezvous(lines: Sequence[str]) -> list[Found]:
    """The result of a rendezvous as this agent saw it: its ranks, the store's address, the restart number."""
    values, last = _block(lines, _ASSIGNMENT)
    if not values:
        return []
    fields: dict[str, object] = dict(values)
    if "restart_count" in values:
        fields["attempt"] = values["restart_count"]
    sizes = re.findall(r"\d+", values.get("global_world_sizes", ""))
    if sizes:
        fields["world_size"] = sizes[0]
    return [Found(0, last, fields)]


def read_launch_config(lines: Sequence[str]) -> list[Found]:
    """What the launcher was asked for, by the names it prints; ``nnodes`` is ``min:max``, or one number."""
    values, last = _block(lines, _SETTING)
    if not values:
        return []
    low, high = values.get("min_nodes", ""), values.get("max_nodes", "")
    if low and high:
        values["nnodes"] = high if low == high else f"{low}:{high}"
    return [Found(0, last, values)]


def _block(lines: Sequence[str], shape: re.Pattern[str]) -> tuple[dict[str, str], int]:
    values: dict[str, str] = {}
    last = 0
    for position, text in enumerate(islice(lines, 1, None), 1):
        line = shape.match(text)
        if not line:
            break
        values[line["name"]] = line["value"].strip()
        last = position
    return values, last
