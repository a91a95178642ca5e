"""Prefix layers of a log line: what they claim, and the text that the emitter itself wrote.

One physical line may carry a collector's stamp, a fan-in label, a launcher's tag, a rank prefix and a logger head, in
any order and depth (``2: [default0]:[rank4]:[E501 …``). ``peel`` removes them from the left until nothing matches and
keeps every identity claim. Layers disagree on purpose: a tee tag is a LOCAL rank, ``[rank4]:`` a global one, an
``srun -l`` label a task. What a line cannot tell by itself (is ``7: `` a label? is ``node1: `` a host?) comes from the
``FileContext`` of its file.

Heads of NCCL lines and message scopes (``[Rank 3]``, ``[PG …]``) stay in the text: the emitter parsers read them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from correlator.events import Severity
from correlator.heads import after_stamp, severity_of
from correlator.layouts import Layout
from correlator.timestamps import (
    MONTHS,
    SECOND,
    Clock,
    Stamp,
    announced_stamp,
    fraction,
    hms_s,
    match_stamp,
    match_time_of_day,
)


@dataclass(frozen=True, slots=True)
class FileContext:
    """What the lines of one file mean together.

    ``hosts``: names that stand as ``name: `` in front of (nearly) all lines (pdsh). ``task_label``: lines start with
    ``7: `` (srun -l). ``rank_label``: they start with ``[7] `` (Hydra). ``stern``: they start with ``pod container ``.
    ``tee_rank``: what an outermost ``[rankN]:`` is: ``torch`` (a global rank, printed by torch), or a launcher's tag
    that states the ``local`` or the ``global`` rank. ``tee_space``: that tag is followed by a space of its own.
    ``split_ranks``: several ranks write behind one outer label, so that ``[rankN]:`` tells writers apart.
    ``several``: lines of several writers may alternate in the file. ``layout``: of stamps that are not built in.
    """

    clock: Clock = field(default_factory=Clock)
    hosts: frozenset[str] = frozenset()
    task_label: bool = False
    rank_label: bool = False
    stern: bool = False
    tee_rank: str = "torch"
    tee_space: bool = False
    split_ranks: bool = True
    several: bool = True
    layout: Layout | None = None


@dataclass(slots=True)
class Peeled:
    """A line without its envelopes, and what they claimed.

    ``timestamp_ns`` is UTC; ``timestamp_basis`` is one of ``events.TIMESTAMP_BASES`` or None without a stamp.
    ``boot_ns`` is a kernel's time since boot. ``key`` names the process that wrote the line within its file, by
    everything that tells processes apart; ``stream`` is not part of it. ``partial``: the collector cut the line here.
    ``repeats``: how many equal lines the printer says this one stands for.
    """

    text: str
    timestamp_ns: int | None = None
    timestamp_basis: str | None = None
    resolution_ns: int | None = None
    boot_ns: int | None = None
    node: str | None = None
    rank: int | None = None
    rank_basis: str | None = None
    local_rank: int | None = None
    task: int | None = None
    pod: str | None = None
    container: str | None = None
    stream: str | None = None
    pid: int | None = None
    severity: Severity | None = None
    logger: str | None = None
    partial: bool = False
    repeats: int = 1
    headed: bool = False
    tagged: bool = False
    dated: bool = False
    identity: list[str] = field(default_factory=list)
    inner_rank: int | None = None

    @property
    def key(self) -> str:
        """Identity of the writer within its file; empty when the line says nothing about it."""
        return "/".join(self.identity)

    def stamp(self, stamp: Stamp, basis: str = "printed") -> None:
        """Take a stamp; a printed one outranks the collector's, and an inner one the outer one."""
        if basis == "transport" and self.timestamp_basis == "printed":
            return
        if self.timestamp_basis == "printed" and self.dated and not stamp.dated and stamp.resolution_ns == SECOND:
            return  # a finer, dated stamp is already there: an external stamper in front of a whole-second head
        self.timestamp_ns, self.resolution_ns, self.timestamp_basis = stamp.ns, stamp.resolution_ns, basis
        self.dated = stamp.dated

    def claim_rank(self, rank: int) -> None:
        """Take a global rank that an envelope states."""
        self.rank, self.rank_basis = rank, "envelope"


Rule = Callable[[str, Peeled, FileContext], str | None]

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")

# --- transports ------------------------------------------------------------------------------------------------------

# 2024-05-01T05:40:18.123456789Z stderr F text
_CRI = re.compile(r"(?=\d{4}-\d\d-\d\dT)(\S+) (stdout|stderr) ([FP])(?: |$)")
# <34>1 2024-05-01T07:40:18.123456+02:00 node012 app 4711 msgid [sd] text
_RFC5424 = re.compile(r"<\d{1,3}>1 (?=\d)(\S+) (\S+) (\S+) (\S+) \S+ (?:-|(?:\[[^\]]*\])+) ?")
_PRIORITY = re.compile(r"<\d{1,3}>(?=[\[A-Z])")
# <stdout rank="3">text</stdout>
_XML = re.compile(r'<(stdout|stderr) rank="(\d+)">(.*?)(?:</\1>)?$')


def _cri(text: str, p: Peeled, ctx: FileContext) -> str | None:
    match = _CRI.match(text)
    if not match:
        return None
    if stamp := match_stamp(match[1], 0, ctx.clock):
        p.stamp(stamp, "transport")
    p.stream, p.partial = match[2], match[3] == "P"
    return text[match.end() :]


def _angle(text: str, p: Peeled, ctx: FileContext) -> str | None:
    if match := _RFC5424.match(text):
        if stamp := match_stamp(match[1], 0, ctx.clock):
            p.stamp(stamp)
        _node(p, match[2])
        p.logger, p.headed = match[3], True
        if match[4].isdigit():
            p.pid = int(match[4])
        return _uptime(text[match.end() :], p)
    if match := _XML.match(text):
        p.stream = match[1]
        p.claim_rank(int(match[2]))
        p.identity.append(match[2])
        return match[3]
    if match := _PRIORITY.match(text):
        return text[match.end() :]
    return None


def _node(p: Peeled, name: str) -> None:
    p.node = name
    p.identity.append(name)


def _json(text: str, p: Peeled, ctx: FileContext) -> str | None:
    """Docker json-file, journald JSON, Fluent Bit, Loki export, structured loggers: one object a line."""
    if not text.startswith('{"'):
        return None
    try:
        record = json.loads(text)
    except ValueError:
        return None
    if not isinstance(record, dict):
        return None
    inner = _record_text(record)
    if inner is None:
        return None
    basis = "printed" if "__REALTIME_TIMESTAMP" in record or "level" in record or "levelname" in record else "transport"
    for name in ("__REALTIME_TIMESTAMP", "_SOURCE_REALTIME_TIMESTAMP"):
        if str(record.get(name, "")).isdigit():
            p.stamp(Stamp(int(record[name]) * 1000, 0, 1000, True), basis)
    for name in ("time", "@timestamp", "timestamp", "ts", "date", "asctime"):
        value = record.get(name)
        if isinstance(value, int | float) and 1e9 < value < 4e9:
            p.stamp(Stamp(int(value * 1e6) * 1000, 0, 1000, True), basis)
        elif isinstance(value, str) and (stamp := match_stamp(value, 0, ctx.clock)):
            p.stamp(stamp, basis)
    if isinstance(record.get("stream"), str):
        p.stream = record["stream"]
    _record_identity(record, p)
    if inner.endswith("\n"):
        inner = inner[:-1]
    elif "log" in record and "time" in record and "stream" in record:
        p.partial = True
    return inner.removesuffix("\r")


def _record_text(record: dict[str, Any]) -> str | None:
    for name in ("log", "MESSAGE", "message", "msg"):
        value = record.get(name)
        if isinstance(value, str):
            return value
        if name == "MESSAGE" and isinstance(value, list):  # not clean text: an array of byte values
            return bytes(b for b in value if isinstance(b, int) and 0 <= b < 256).decode(errors="replace")
    values = record.get("values")
    if isinstance(values, list) and isinstance(record.get("stream"), dict) and values and len(values[0]) == 2:
        return "\n".join(str(v[1]) for v in values)
    return None


def _record_identity(record: dict[str, Any], p: Peeled) -> None:
    kubernetes = record.get("kubernetes")
    stream = record.get("stream")
    labels: dict[str, Any] = {**record}
    if isinstance(kubernetes, dict):
        labels = {**kubernetes, "nodeName": kubernetes.get("host")}
    elif isinstance(stream, dict):
        labels = {**stream}
        first = record["values"][0][0]
        if str(first).isdigit():
            p.stamp(Stamp(int(first), 0, 1, True), "transport")
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
        p.headed = True
        p.logger = record.get("SYSLOG_IDENTIFIER") if isinstance(record.get("SYSLOG_IDENTIFIER"), str) else None
        if str(record.get("_PID", "")).isdigit():
            p.pid = int(record["_PID"])
    level = record.get("level", record.get("levelname"))
    if isinstance(level, str):
        p.severity = severity_of(level)
    if isinstance(record.get("rank"), int) and not isinstance(record.get("rank"), bool):
        p.claim_rank(record["rank"])
        p.identity.append(f"rank{record['rank']}")


# --- fan-in labels ---------------------------------------------------------------------------------------------------

_HOST = re.compile(r"([A-Za-z0-9][\w.-]*):(?: |$)")
_TASK = re.compile(r" {0,6}(?:P(\d+) )?(\d{1,6}):(?: |$)")
_HYDRA = re.compile(r"\[(\d{1,6})\] ")
_STERN = re.compile(r"([\w.-]+) ([\w.-]+) ")
# [pod/llm-worker-3/pytorch] text
_KUBECTL = re.compile(r"\[pod/([\w.-]+)/([\w.-]+)\] ")
# [1,37]<stderr>:text · [prterun-node1-77@1,37]<stderr>: text · [ns,37][node1:4711]<stderr>: text
_MPI_TAG = re.compile(r"\[([\w.@-]+),(\d+)\](?:\[([\w.-]+):(\d+)\])?<(stdout|stderr|stddiag)>: ?")
_MPI_STAMP = re.compile(r"<(stdout|stderr|stddiag)>: ?")
# nid003871:0 out: text
_HOST_SLOT = re.compile(r"([A-Za-z][\w.-]*\d[\w.-]*):(\d{1,4}) (out|err): ?")
# i.pretrain/0 text (torchx role and replica)
_ROLE = re.compile(r"(?:i\.)?[\w-]+/(\d+) (?=\[|\S*:)")
# run.host.nolog [stderr] text
_NOLOG = re.compile(r"[\w-]+\.([\w.-]+)\.nolog \[(stdout|stderr)\] ")
_STREAM_TAG = re.compile(r"\[(stdout|stderr)\] ")


def _fan_in(text: str, p: Peeled, ctx: FileContext) -> str | None:
    """Labels that mean something only because they recur in this file."""
    if p.headed:
        return None
    if ctx.task_label and (match := _TASK.match(text)) and p.task is None:
        p.task = int(match[2])
        p.identity.append(f"{match[1]}.{match[2]}" if match[1] else match[2])
        return text[match.end() :]
    if ctx.hosts and (match := _HOST.match(text)) and match[1] in ctx.hosts:
        _node(p, match[1])
        return text[match.end() :]
    if ctx.rank_label and (match := _HYDRA.match(text)) and p.task is None:
        p.task = int(match[1])
        p.identity.append(match[1])
        return text[match.end() :]
    if ctx.stern and p.pod is None and (match := _STERN.match(text)):
        p.pod, p.container = match[1], match[2]
        p.identity.append(match[1])
        return text[match.end() :]
    return None


def _host_slot(text: str, p: Peeled, ctx: FileContext) -> str | None:
    if (" out:" in text or " err:" in text) and (match := _HOST_SLOT.match(text)):
        _node(p, match[1])
        p.local_rank = int(match[2])
        p.identity.append(match[2])
        p.stream = "stdout" if match[3] == "out" else "stderr"
        return text[match.end() :]
    if text.startswith("i.") and (match := _ROLE.match(text)):
        p.identity.append(text[: match.end() - 1])
        return text[match.end() :]
    if ".nolog [" in text and (match := _NOLOG.match(text)):
        _node(p, match[1])
        p.stream = match[2]
        return text[match.end() :]
    return None


def _kubectl(text: str, p: Peeled, ctx: FileContext) -> str | None:
    match = _KUBECTL.match(text) if text.startswith("[pod/") else None
    if not match:
        return None
    p.pod, p.container = match[1], match[2]
    p.identity.append(match[1])
    return text[match.end() :]


def _mpi(text: str, p: Peeled, ctx: FileContext) -> str | None:
    match = _MPI_TAG.match(text) if ">:" in text else None
    if not match:
        return None
    p.task = int(match[2])
    p.claim_rank(p.task)
    p.identity.append(match[2])
    if match[3]:
        p.node, p.pid = match[3], int(match[4])
    p.stream = "stdout" if match[5] == "stdout" else "stderr"
    return text[match.end() :]


# --- launcher tags, actors and rank prefixes ---------------------------------------------------------------------------

_TEE = re.compile(r"\[([A-Za-z_]+?)(\d{1,5})\]:")
# [rank9]: text (torch's excepthook) and [rank9]:[E909 … (its C++ logger)
_RANK = re.compile(r"\[rank(\d{1,6})\]:( ?)")
_RANK_COLON = re.compile(r"\[rank: ?(\d{1,6})\] ")  # Lightning; the number is a LOCAL rank in its SIGTERM lines
_RANK_WORD = re.compile(r"[Rr]ank (\d{1,6})(: | (?=step|iter|epoch)|/\d+ )")
# (RayTrainWorker pid=4711, ip=10.0.0.18) · (Worker_TP2 pid=907) · (worker1, rank=1, pid=44, ip=…) · (raylet)
_ACTOR = re.compile(r"\(([\w.-]+)((?:,? (?:pid|ip|rank|task_name|actor)=[^\s,)]*)*)(?:, [\w.=-]+)*\) ?")
_ACTOR_PLAIN = re.compile(r"\((?:raylet|autoscaler \+[\dhms]+)(?:, ip=[\w.:]+)?\) ")
_PAIR = re.compile(r"(\w+)=([^\s,)]*)")


def _rank_prefix(text: str, p: Peeled, ctx: FileContext) -> str | None:
    match = _RANK.match(text) if text.startswith("[rank") else None
    if not match:
        return _tee(text, p, ctx)
    number = int(match[1])
    if ctx.tee_rank != "torch" and p.local_rank is None and not p.tagged:
        p.tagged = True
        p.identity.append(f"tee{number}")
        if ctx.tee_rank == "local":
            p.local_rank = number
        else:
            p.claim_rank(number)
        return text[match.end() if ctx.tee_space else match.end() - len(match[2]) :]
    p.claim_rank(number)
    p.inner_rank = number
    return text[match.end() :]


def _tee(text: str, p: Peeled, ctx: FileContext) -> str | None:
    match = None if p.headed or "]:" not in text[:40] else _TEE.match(text)
    if not match:
        return None
    p.local_rank = int(match[2])
    p.identity.append(match[1] + match[2])
    return text[match.end() :]


def _rank_colon(text: str, p: Peeled, ctx: FileContext) -> str | None:
    match = _RANK_COLON.match(text) if text.startswith("[rank:") else None
    if not match:
        return None
    rest = text[match.end() :]
    if rest.startswith(("Received SIG", "Child process")):
        p.local_rank = int(match[1])
        return None  # the parser of these lines reads the number itself
    p.claim_rank(int(match[1]))
    p.identity.append(f"rank{match[1]}")
    return rest


def _actor(text: str, p: Peeled, ctx: FileContext) -> str | None:
    if match := _ACTOR_PLAIN.match(text):
        p.identity.append(text[1 : match.end() - 2])
        return text[match.end() :]
    match = _ACTOR.match(text)
    if not match or "pid=" not in match[2]:
        return None
    pairs = dict(_PAIR.findall(match[2]))
    p.identity.append(text[1 : match.end()].rstrip(" )"))
    if pairs.get("pid", "").isdigit():
        p.pid = int(pairs["pid"])
    if pairs.get("ip"):
        p.node = pairs["ip"]
    if pairs.get("rank", "").isdigit():
        p.claim_rank(int(pairs["rank"]))
    return text[match.end() :]


# --- kernel and syslog -----------------------------------------------------------------------------------------------

_SYSLOG_TAG = re.compile(r" ([\w.-]+) ([\w./@() -]{1,48}?)(?:\[(\d+)\])?: ")
_NOT_HOSTS = frozenset("DEBUG INFO WARN WARNING ERROR CRITICAL FATAL NOTICE TRACE - UTC".split())
_UPTIME = re.compile(r"\[ *(\d+)\.(\d{6})(?: <[ \d.]+>)?\] ?")
_FACILITY = re.compile(r"(?:kern|user|daemon|syslog|auth)\s*:(emerg|alert|crit|err|warn|notice|info|debug)\s*: (?=\[)")
_DMESG_E = re.compile(rf"\[({'|'.join(MONTHS)}) ?(\d\d?) (\d\d):(\d\d)\] ")
_DMESG_DELTA = re.compile(r"\[ {1,6}\+\d+\.\d{6}\] ")


def _uptime(text: str, p: Peeled) -> str:
    match = _UPTIME.match(text)
    if not match:
        return text
    p.boot_ns = int(match[1]) * SECOND + int(match[2]) * 1000
    p.headed = True
    if p.timestamp_basis is None:
        p.timestamp_basis, p.resolution_ns = "boot-relative", 1000
    return text[match.end() :]


def _syslog_tail(rest: str, p: Peeled, strict: bool) -> str | None:
    """`` node012 kernel: [123.456] text`` behind a syslog stamp; None when the words are not host and tag."""
    match = _SYSLOG_TAG.match(rest)
    if not match or match[1] in _NOT_HOSTS or (strict and match[2] != "kernel" and not match[3]):
        return None
    _node(p, match[1])
    p.logger, p.headed = match[2], True
    if match[3]:
        p.pid = int(match[3])
    return _uptime(rest[match.end() :], p)


def _bracket_kernel(text: str, p: Peeled, ctx: FileContext) -> str | None:
    if _UPTIME.match(text):
        rest = _uptime(text, p)
        if match := re.match(r"([\w.-]+) (kernel|[\w-]+\[\d+\]): ", rest):  # journalctl short-monotonic
            _node(p, match[1])
            return rest[match.end() :]
        return rest
    if match := _DMESG_E.match(text):
        seconds = hms_s(match[3], match[4], "0")
        ns = ctx.clock.resolve(None, MONTHS[match[1]], int(match[2]), seconds, 0)
        if ns is not None:
            p.stamp(Stamp(ns, 0, 60 * SECOND, False))
        p.headed = True
        return text[match.end() :]
    if match := _DMESG_DELTA.match(text):
        p.headed = True
        return text[match.end() :]
    return None


# --- logger heads ----------------------------------------------------------------------------------------------------

# [E909 09:55:46.996672294 file.cpp:607] · [E ProcessGroupNCCL.cpp:475]
_C10 = re.compile(
    r"\[([FEWIV])(?:(\d{3,4}) (\d\d):(\d\d):(\d\d)\.\d{6,9})? ([\w./+-]+\.(?:cpp|cc|cu|cuh|hpp|h|c|mm)):\d+\] ?"
)
# E0501 07:40:18.123456 4711 file.cpp:616] · W20240501 … · W0909 07:40:18.123000 4711 torch/…/run.py:779]
_GLOG = re.compile(
    r"([FEWICVD])(\d{4}|\d{8}) (\d\d):(\d\d):(\d\d)\.(\d{3,6})\s+(?:(\d+) )?([\w./<>-]+):(\d+)\] ?"
)
_BASIC = re.compile(r"(DEBUG|INFO|WARNING|ERROR|CRITICAL|FATAL):([\w.\-/]+):")
# INFO 05-01 07:40:18 [file.py:69] · INFO 08-09 07:31:22 api_server.py:219]
_LEVEL_FIRST = re.compile(r"(DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)\s+(?=\d)")
_LEVEL_FILE = re.compile(r" \[?([\w./-]+:\d+)\] ?")
# [INFO|trainer.py:2519] 2024-05-01 07:40:18,123 >> · [INFO|2025-08-18 07:33:47] module:143 >>
_HF = re.compile(r"\[(DEBUG|INFO|WARNING|ERROR|CRITICAL)\|")
_HF_FILE = re.compile(r"([\w./<>-]+:\d+)\] (?=\d)")
_HF_END = re.compile(r"(?:\] ([\w./<>-]+:\d+))? >> ?")
# [NeMo I 2024-05-01 07:40:18 exp_manager:380] · [NeMo W 2024-05-01 07:40:18 nemo_logging:349 rank:9]
_NEMO = re.compile(r"\[NeMo ([DIWEC]) (?=\d)")
_NEMO_END = re.compile(r" ([\w./<>-]+:\d+)(?: rank:(\d+))?\] ?")
_TITAN = re.compile(r"\[(titan)\] (?=\d)")
_OPEN_BRACKET = re.compile(r"\s{0,2}\[(?=[\dJFMASONDTW])")
# [2024-05-01 07:40:18 DP0 TP5 EP0 PP0]
_SGLANG = re.compile(r"((?: (?:DP|TP|EP|PP)\d+)+)\]")
# NCCL: node and pid are claimed, the head stays
_NCCL = re.compile(r"([\w.-]+):(\d+):\d+ (?:\[\d+\] )?(?:[\w./-]+:\d+ (?:\(\w+\) )?)?NCCL ")
# [node1:4711] text (Open MPI's own messages): claimed, kept
_OMPI_HOST = re.compile(r"\[([A-Za-z][\w.-]*):(\d+)\] (?=\S)")

_LEVELS = frozenset("FEWIV")
_HF_FIRST = frozenset("DIWEC")
_LEVEL_FIRSTS = frozenset("DIWECF")
_LETTERS = {"D": "info", "V": "info", "I": "info", "W": "warning", "E": "error", "C": "fatal", "F": "fatal"}


def _c10(text: str, p: Peeled, ctx: FileContext) -> str | None:
    match = _C10.match(text) if text[1:2] in _LEVELS else None
    if not match:
        return None
    p.severity, p.logger, p.headed = _LETTERS[match[1]], match[6], True  # type: ignore[assignment]
    if match[2]:
        # The seconds are wall clock, the nine digits behind them monotonic clock: they do not belong together.
        number = int(match[2])
        ns = ctx.clock.resolve(None, number // 100, number % 100, hms_s(match[3], match[4], match[5]), 0)
        if ns is not None:
            p.stamp(Stamp(ns, 0, SECOND, False))
    return text[match.end() :]


def _glog(text: str, p: Peeled, ctx: FileContext) -> str | None:
    match = _GLOG.match(text) if text[1:5].isdigit() else None
    if not match:
        return None
    p.severity, p.logger, p.headed = _LETTERS[match[1]], match[8], True  # type: ignore[assignment]
    date = match[2]
    year, month, day = (int(date[:4]), int(date[4:6]), int(date[6:])) if len(date) == 8 else (
        None, int(date[:2]), int(date[2:]),
    )  # fmt: skip
    nanos, resolution = fraction(match[6])
    if match[8].endswith(".py") and match[6].endswith("000"):
        resolution = max(resolution, 1_000_000)  # torch's Python logger prints milliseconds and three zeros
        # From 2.5 the number is the process id, before it a thread identifier far above any pid.
    if match[7] and match[8].endswith(".py") and int(match[7]) < 1 << 23:
        p.pid = int(match[7])
    ns = ctx.clock.resolve(year, month, day, hms_s(match[3], match[4], match[5]), nanos)
    if ns is not None:
        p.stamp(Stamp(ns, 0, resolution, year is not None))
    return text[match.end() :]


def _bracket_head(text: str, p: Peeled, ctx: FileContext) -> str | None:
    """Heads that begin with ``[``, most specific first; ``text`` may have up to two spaces in front of it."""
    second = text[1:2]
    if second in _HF_FIRST and (match := _HF.match(text)):
        p.severity, p.headed = severity_of(match[1]), True
        pos = match.end()
        if file := _HF_FILE.match(text, pos):
            p.logger, pos = file[1], file.end()
        if stamp := match_stamp(text, pos, ctx.clock):
            p.stamp(stamp)
            if end := _HF_END.match(text, stamp.end):
                p.logger = end[1] or p.logger
                return text[end.end() :]
        return None
    if second == "N" and (match := _NEMO.match(text)) and (stamp := match_stamp(text, match.end(), ctx.clock)):
        p.stamp(stamp)
        p.severity, p.headed = _LETTERS[match[1]], True  # type: ignore[assignment]
        if end := _NEMO_END.match(text, stamp.end):
            p.logger = end[1]
            if end[2]:
                p.claim_rank(int(end[2]))
            return text[end.end() :]
        return None
    if second == "t" and (match := _TITAN.match(text)):
        p.logger = match[1]
        return text[match.end() :]
    if not (match := _OPEN_BRACKET.match(text)):
        return None
    stamp = match_stamp(text, match.end(), ctx.clock)
    if stamp is None:
        stamp = match_time_of_day(text, match.end(), ctx.clock, ctx.clock.reference_ns)
    if stamp is None:
        return None
    rest = text[stamp.end :]
    if dims := _SGLANG.match(rest):
        p.identity.append(dims[1].strip())
        rest = rest[dims.end() - 1 :]
    if not rest.startswith("]"):
        return None
    p.stamp(stamp)
    p.headed = True
    return after_stamp(rest[1:], p)


def _level_first(text: str, p: Peeled, ctx: FileContext) -> str | None:
    if text[0] not in _LEVEL_FIRSTS:
        return None
    if match := _BASIC.match(text):
        p.severity, p.logger, p.headed = severity_of(match[1]), match[2], True
        return text[match.end() :]
    match = _LEVEL_FIRST.match(text)
    if not match or not (stamp := match_stamp(text, match.end(), ctx.clock)):
        return None
    p.stamp(stamp)
    p.severity, p.headed = severity_of(match[1]), True
    rest = text[stamp.end :]
    if file := _LEVEL_FILE.match(rest):
        p.logger = file[1]
        return rest[file.end() :]
    return rest[1:] if rest.startswith(" ") else rest


def _bare_stamp(text: str, p: Peeled, ctx: FileContext) -> str | None:
    """A stamp without brackets at the very start, with whatever logger fields follow it."""
    stamp = match_stamp(text, 0, ctx.clock)
    if stamp is None:
        if p.headed or not (stamp := match_time_of_day(text, 0, ctx.clock, p.timestamp_ns or ctx.clock.reference_ns)):
            return None
        if p.timestamp_basis == "printed" or not text[stamp.end : stamp.end + 1].isspace():
            return None
    rest = text[stamp.end :]
    if rest and rest[0] not in " \t|:-<[,]":
        return None
    if stamp.resolution_ns == SECOND and stamp.dated and text[:10].isdigit() and not rest.startswith(" "):
        return None  # a bare number of ten digits is an epoch only in front of a syslog host
    letters = not text[0].isdigit()
    if "." in text[:12] and text[:10].isdigit():  # journalctl short-unix
        tail = _syslog_tail(rest, p, strict=True)
        if tail is None:
            return None
        p.stamp(stamp)
        return tail
    if _MPI_STAMP.match(rest) or _MPI_TAG.match(rest):
        p.stamp(stamp, "transport")
        match = _MPI_STAMP.match(rest)
        return rest[match.end() :] if match else rest
    if (letters or "T" in text[:11]) and (tail := _syslog_tail(rest, p, strict=not letters)) is not None:
        p.stamp(stamp)
        return tail
    if "T" in text[:11] and text[: stamp.end].endswith("Z") and p.timestamp_basis is None and not p.headed:
        # kubectl logs --timestamps and stern: the collector's stamp, another head may follow.
        p.stamp(stamp, "transport")
        return rest[1:] if rest.startswith(" ") else rest
    p.stamp(stamp)
    p.headed = True
    return after_stamp(rest, p)


def _claims(text: str, p: Peeled, ctx: FileContext) -> str | None:
    """Identity that the emitter's own head states; nothing is removed."""
    match = _OMPI_HOST.match(text) if text[0] == "[" else _NCCL.match(text) if " NCCL " in text else None
    if match:
        p.node = p.node or match[1]
        p.pid = p.pid or int(match[2])
    return None


def _rank_word(text: str, p: Peeled, ctx: FileContext) -> str | None:
    if p.rank is not None or not text.startswith(("rank ", "Rank ")):
        return None
    match = _RANK_WORD.match(text)
    if not match:
        return None
    if match[2] == ": " or p.headed:
        p.claim_rank(int(match[1]))
        p.identity.append(f"rank{match[1]}")
        return text[match.end() :] if match[2] == ": " else None
    return None


def _facility(text: str, p: Peeled, ctx: FileContext) -> str | None:
    if not text.startswith(("kern", "user", "daemon", "syslog", "auth")):
        return None
    match = _FACILITY.match(text)
    return text[match.end() :] if match else None


_BRACKET: tuple[Rule, ...] = (
    _kubectl, _rank_prefix, _c10, _mpi, _fan_in, _bracket_kernel, _bracket_head, _rank_colon, _claims,
)  # fmt: skip
_DIGIT: tuple[Rule, ...] = (_cri, _fan_in, _bare_stamp, _claims)
_UPPER: tuple[Rule, ...] = (_glog, _level_first, _fan_in, _bare_stamp, _host_slot, _rank_word, _claims)
_LOWER: tuple[Rule, ...] = (_fan_in, _facility, _host_slot, _rank_word, _claims)
_RULES: dict[str, tuple[Rule, ...]] = {
    "[": _BRACKET,
    "{": (_json,),
    "(": (_actor,),
    "<": (_angle,),
    " ": (_fan_in, _bracket_head),
    **dict.fromkeys("0123456789", _DIGIT),
    **dict.fromkeys("ABCDEFGHIJKLMNOPQRSTUVWXYZ", _UPPER),
    **dict.fromkeys("abcdefghijklmnopqrstuvwxyz", _LOWER),
}

#: More layers than any real line has; ends the loop on adversarial input.
MAX_LAYERS = 16

# A head behind something that is not an envelope, such as a progress bar without a line end.
_MIDDLE = re.compile(
    r"(?:\[rank\d+\]:)?\[[FEWI](?:\d{3,4} \d\d:\d\d:\d\d\.\d{6,9})? [\w./-]+\.(?:cpp|cc|cu|hpp|h):\d+\] "
    r"|(?<![\w/])[FEWI]\d{4} \d\d:\d\d:\d\d\.\d{6}\s+\d+ [\w./-]+:\d+\] "
    r"|\[rank\d+\]: |\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] "
    rf"|(?:{'|'.join(MONTHS)}) [ \d]\d \d\d:\d\d:\d\d [\w.-]+ kernel: "
    r"|(?<=[\]|%])Traceback \(most recent call last\):"
)
#: One of these stands in whatever _MIDDLE can find; the check is ten times cheaper than the search.
_MIDDLE_SIGNS = (".cpp:", ".py:", "[rank", " kernel: ", "Traceback (most", "] [")


def strip_ansi(text: str) -> str:
    """The text without terminal escapes."""
    return _ANSI.sub("", text) if "\x1b" in text else text


# Ray: "… [repeated 7x across cluster]"; syslog: "message repeated 3 times: [ … ]"
_RAY_REPEAT = re.compile(r" ?\[repeated (\d+)x across cluster\](?: \(Ray deduplicates logs.*)?$")
_SYSLOG_REPEAT = re.compile(r"message repeated (\d+) times: \[ ?(.*)\]$")


def _unrepeated(text: str, p: Peeled) -> str:
    if "repeated " in text:
        if match := _RAY_REPEAT.search(text):
            p.repeats = int(match[1])
            return text[: match.start()]
        if match := _SYSLOG_REPEAT.match(text):
            p.repeats = int(match[1])
            return match[2]
    return text


def _peel_layers(text: str, p: Peeled, ctx: FileContext) -> str:
    for _ in range(MAX_LAYERS):
        if not text:
            break
        for rule in _RULES.get(text[0], ()):
            rest = rule(text, p, ctx)
            if rest is not None:
                text = rest
                break
        else:
            break
    return text


_OUTER: dict[str, tuple[Rule, ...]] = {
    "[": (_kubectl, _mpi, _fan_in),
    "{": (_json,),
    "<": (_angle,),
    " ": (_fan_in,),
    **dict.fromkeys("0123456789", (_cri, _fan_in)),
    **dict.fromkeys("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", (_fan_in, _host_slot)),
}
_COLLECTOR_STAMP = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z ")


def outer_text(line: str, context: FileContext) -> tuple[str, str]:
    """The text behind transports and fan-in labels, and the label's identity; heads of loggers stay."""
    p = Peeled("")
    text = line
    for _ in range(MAX_LAYERS):
        if not text:
            break
        for rule in _OUTER.get(text[0], ()):
            rest = rule(text, p, context)
            if rest is not None:
                text = rest
                break
        else:
            match = _COLLECTOR_STAMP.match(text)
            if not match:
                break
            text = text[match.end() :]
    return text, p.key


def peel(line: str, context: FileContext) -> Peeled:
    """The emitter's text of one line and everything that the layers in front of it claim.

    >>> p = peel("2: [default0]:[rank4]: ValueError: bad", FileContext(task_label=True))
    >>> p.text, p.task, p.local_rank, p.rank
    ('ValueError: bad', 2, 0, 4)
    """
    p = Peeled("")
    text = _peel_layers(strip_ansi(line).strip("\x00"), p, context)
    if (not p.headed or p.logger is None) and any(sign in text for sign in _MIDDLE_SIGNS):
        middle = _MIDDLE.search(text, 1)
        if middle and "] " not in text[: middle.start()].replace("it/s] ", ""):
            text = _peel_layers(text[middle.start() :], p, context)
    if context.layout is not None and p.timestamp_basis is None and (stamp := context.layout.match(text, context.clock)):
        p.stamp(stamp)
        p.headed = True
        text = after_stamp(text[stamp.end :], p)
    if p.timestamp_ns is None or p.timestamp_basis == "transport":
        stamp = announced_stamp(text, context.clock)
        if stamp is not None:
            p.stamp(stamp)
    if p.inner_rank is not None and context.split_ranks:
        p.identity.append(f"rank{p.inner_rank}")
    p.text = _unrepeated(text, p)
    return p
