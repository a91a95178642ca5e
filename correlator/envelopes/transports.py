"""Envelopes that collectors put around lines: container runtimes, syslog on the wire, JSON records.

Their stamps say when a line was collected (``transport``), save where the record is the emitter's own.
"""

from __future__ import annotations

import re
from typing import Any

from correlator.envelopes.heads import severity_of
from correlator.envelopes.peeled import FileContext, Peeled, strip_ansi
from correlator.timestamps import Stamp, match_stamp
from correlator.untrusted import read_json, read_number, shorten_runs

# 2024-05-01T05:40:18.123456789Z stderr F text
_CRI = re.compile(r"(?=\d{4}-\d\d-\d\dT)(\S+) (stdout|stderr) ([FP])(?: |$)")
# <34>1 2024-05-01T07:40:18.123456+02:00 node012 app 4711 msgid [id@1 name="value"] text, of which any part may be "-";
# on a TCP connection the message's length stands in front, and some collectors drop the priority.
_PARAMETER = r'[^\s=\]"]{1,64}="(?:[^"\\]|\\.)*"'
_RFC5424 = re.compile(
    r"(?:\d{1,6} (?=<))?(?:<\d{1,3}>)?1 (-|\d{4}-\d\d-\d\dT\S+) (\S+) (\S+) (\S+) \S+ "
    rf"(?:-|(?:\[[^\s=\]\"]{{1,64}}(?: {_PARAMETER})*\])+)(?: \ufeff?|$)"
)
_PRIORITY = re.compile(r"(?:\d{1,6} )?<\d{1,3}>(?=[\[A-Z]|\d{4}-\d\d-\d\dT)")
# <stdout rank="3">text</stdout>
_XML = re.compile(r'<(stdout|stderr) rank="(\d+)">(.*?)(?:</\1>)?$')


def cri(text: str, p: Peeled, ctx: FileContext) -> str | None:
    """A container runtime's log line."""
    match = _CRI.match(text)
    if not match:
        return None
    if stamp := match_stamp(match[1], 0, ctx.clock):
        p.stamp(stamp, "transport")
    p.stream, p.partial = match[2], match[3] == "P"
    return text[match.end() :]


def angle(text: str, p: Peeled, ctx: FileContext) -> str | None:
    """What begins with ``<``: syslog with its priority, dmesg with its level, Open MPI's XML."""
    if (rest := syslog(text, p, ctx)) is not None:
        return rest
    if match := _XML.match(text):
        p.stream = match[1]
        p.claim_rank(int(match[2]))
        p.identity.append(match[2])
        return match[3]
    return None


def syslog(text: str, p: Peeled, ctx: FileContext) -> str | None:
    """Syslog on the wire: all of RFC 5424's head, or the priority in front of an older one."""
    if match := None if p.headed else _RFC5424.match(text):
        if stamp := match_stamp(match[1], 0, ctx.clock):
            p.stamp(stamp)
        if match[2] != "-":
            p.claim_node(match[2])
        p.logger, p.headed = match[3], match[3] == "kernel"
        if (pid := read_number(match[4])) is not None:
            p.pid = pid
        return p.take_uptime(text[match.end() :])
    match = _PRIORITY.match(text)
    return text[match.end() :] if match else None


def json_record(text: str, p: Peeled, ctx: FileContext) -> str | None:
    """Docker json-file, journald JSON, Fluent Bit, Loki export, structured loggers: one object a line."""
    if not text.startswith(('{"', "[")):
        return None
    record = _paired(text) if text[0] == "[" else read_json(text)
    if not isinstance(record, dict):
        return None
    inner = _record_text(record)
    if inner is None:
        return None
    basis = "printed" if "__REALTIME_TIMESTAMP" in record or "level" in record or "levelname" in record else "transport"
    for name in ("__REALTIME_TIMESTAMP", "_SOURCE_REALTIME_TIMESTAMP"):
        if (micros := read_number(str(record.get(name, "")))) is not None:
            p.stamp(Stamp(micros * 1000, 0, 1000, True), basis)
    for name in ("time", "@timestamp", "timestamp", "ts", "date", "asctime"):
        if stamp := _stated(record.get(name), ctx):
            p.stamp(stamp, basis)
    if isinstance(record.get("stream"), str):
        p.stream = record["stream"]
    _record_identity(record, p)
    if inner.endswith("\n"):
        inner = inner[:-1]
    elif "log" in record and "time" in record and "stream" in record:
        p.partial = True
    # escapes may have hidden both from the line's own check
    return strip_ansi(shorten_runs(inner.removesuffix("\r")))


def _stated(value: Any, ctx: FileContext) -> Stamp | None:
    """A record's time: a text, or a number of seconds, milliseconds, microseconds or nanoseconds since the epoch."""
    if isinstance(value, str):
        return match_stamp(value, 0, ctx.clock)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 1e9 < value < 4e18:
        return None
    for unit_ns in (10**9, 10**6, 10**3, 1):
        if 1e9 < value * (unit_ns / 1e9) < 4e9:
            if isinstance(value, int):
                return Stamp(value * unit_ns, 0, unit_ns, True)
            return Stamp(int(value * unit_ns / 1e3) * 1000, 0, 1000, True)
    return None


# [1714542018.123456789, {"log": "text"}] · [[1714542018.123456789, {}], {"log": "text"}]
_PAIR = re.compile(r"\[(?:\[(\d{10}(?:\.\d{1,9})?), ?\{[^{}]*\}\]|(\d{10}(?:\.\d{1,9})?)), ?(?=\{)")


def _paired(text: str) -> Any:
    """The record of Fluent Bit's pair of time and record, with that time in it."""
    match = _PAIR.match(text)
    record = read_json(text[match.end() :].rstrip()[:-1]) if match and text.rstrip().endswith("}]") else None
    return {"date": float(match[1] or match[2]), **record} if match and isinstance(record, dict) else None


# 2024-05-01T05:40:18Z {pod="llm-worker-3", node_name="node012"} text (logcli)
_LABELS = re.compile(r'\{((?:\w{1,80}="(?:[^"\\]|\\.){0,400}"(?:, ?)?){1,60})\} ')
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def labelled(text: str, p: Peeled, ctx: FileContext) -> str | None:
    """A Loki stream's labels as logcli prints them behind its stamp."""
    match = _LABELS.match(text) if p.timestamp_basis == "transport" else None
    if not match:
        return None
    _record_identity({"labels": dict(_LABEL.findall(match[1]))}, p)
    return text[match.end() :]


def _record_text(record: dict[str, Any]) -> str | None:
    for name in ("log", "MESSAGE", "message", "msg", "line"):
        value = record.get(name)
        if isinstance(value, str):
            return value
        if name == "MESSAGE" and isinstance(value, list):  # not clean text: an array of byte values
            return bytes(b for b in value if isinstance(b, int) and 0 <= b < 256).decode(errors="replace")
    values = _stream_values(record)
    return "\n".join(str(value[1]) for value in values) if values and isinstance(record.get("stream"), dict) else None


def _stream_values(record: dict[str, Any]) -> list[list[Any]]:
    """Pairs of time and line, as Loki exports them; empty for a record of another form."""
    values = record.get("values")
    fine = isinstance(values, list) and all(isinstance(value, list) and len(value) == 2 for value in values)
    return values if fine and values else []


def _record_identity(record: dict[str, Any], p: Peeled) -> None:
    kubernetes, stream, host = record.get("kubernetes"), record.get("stream"), record.get("host")
    labels: dict[str, Any] = {**record}
    if isinstance(host, dict):  # Elastic's field names
        labels["hostname"] = host.get("hostname", host.get("name"))
    if isinstance(kubernetes, dict):
        labels = {**kubernetes, "nodeName": kubernetes.get("host")}
    elif isinstance(record.get("labels"), dict):  # logcli -o jsonl
        labels = {**record["labels"]}
    elif isinstance(stream, dict):
        labels = {**stream}
        for first in _stream_values(record)[:1]:
            if (nanos := read_number(str(first[0]))) is not None:
                p.stamp(Stamp(nanos, 0, 1, True), "transport")
    for name in ("pod_name", "podName", "pod"):
        if isinstance(labels.get(name), str):
            p.pod = labels[name]
            p.identity.append(labels[name])
            break
    for name in ("container_name", "containerName", "container"):
        if isinstance(labels.get(name), str):
            p.container = labels[name]
            break
    for name in ("_HOSTNAME", "hostname", "nodeName", "node_name"):
        if isinstance(labels.get(name), str):
            p.node = labels[name]
            if p.pod is None:
                p.identity.append(labels[name])
            break
    if "_HOSTNAME" in record:
        p.logger = record.get("SYSLOG_IDENTIFIER") if isinstance(record.get("SYSLOG_IDENTIFIER"), str) else None
        p.headed = p.logger == "kernel"
        if (pid := read_number(str(record.get("_PID", "")))) is not None:
            p.pid = pid
    level = record.get("level", record.get("levelname"))
    if isinstance(level, str):
        p.severity = severity_of(level)
    if isinstance(record.get("rank"), int) and not isinstance(record.get("rank"), bool):
        p.claim_rank(record["rank"])
        p.identity.append(f"rank{record['rank']}")
