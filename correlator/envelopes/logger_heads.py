"""Heads that the emitter itself prints: kernel and syslog heads, c10, glog, Python loggers."""

from __future__ import annotations

import re

from correlator.envelopes.heads import after_stamp, severity_of
from correlator.envelopes.labels import MPI_STAMP, MPI_TAG
from correlator.envelopes.peeled import FileContext, Peeled
from correlator.events import Severity
from correlator.timestamps import MONTHS, SECOND, Stamp, fraction, hms_s, match_stamp, match_time_of_day

# `` node012 kernel: ``, and with facility and level in between, as busybox and some templates of rsyslog print them
_SYSLOG_TAG = re.compile(
    r" ([\w.-]+) (?:(?:kern|user|daemon|syslog|auth|authpriv|cron|local[0-7])\.([a-z]{3,7}) )?"
    r"([\w./@() -]{1,48}?)(?:\[(\d+)\])?: "
)
_NOT_HOSTS = frozenset(
    {"DEBUG", "INFO", "WARN", "WARNING", "ERROR", "CRITICAL", "FATAL", "NOTICE", "TRACE", "-", "UTC"}
)
_FACILITY = re.compile(
    r"(?:kern|user|daemon|syslog|auth)\s*:(emerg|alert|crit|err|warn|notice|info|debug)\s*: (?=\[|\d{4}-)"
)
_DMESG_E = re.compile(rf"\[({'|'.join(MONTHS)}) ?(\d\d?) (\d\d):(\d\d)\] ")
_DMESG_DELTA = re.compile(r"\[ {1,6}\+\d+\.\d{6}\] ")


def _syslog_tail(rest: str, p: Peeled, strict: bool) -> str | None:
    """`` node012 kernel: [123.456] text`` behind a syslog stamp; None when the words are not host and tag."""
    match = _SYSLOG_TAG.match(rest)
    if not match or match[1] in _NOT_HOSTS or (strict and match[3] != "kernel" and not match[2] and not match[4]):
        return None
    p.claim_node(match[1])
    p.logger, p.headed = match[3], match[3] == "kernel"
    if match[4]:
        p.pid = int(match[4])
    return p.take_uptime(rest[match.end() :])


def bracket_kernel(text: str, p: Peeled, ctx: FileContext) -> str | None:
    """Kernel lines of ``dmesg`` and ``journalctl -o short-monotonic``: seconds since boot, or minutes."""
    rest = p.take_uptime(text)
    if rest is not text:
        if match := re.match(r"([\w.-]+) (kernel|[\w-]+\[\d+\]): ", rest):  # journalctl short-monotonic
            p.claim_node(match[1])
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


# [E909 09:55:46.996672294 file.cpp:607] · [E ProcessGroupNCCL.cpp:475]
_C10 = re.compile(
    r"\[([FEWIV])(?:(\d{3,4}) (\d\d):(\d\d):(\d\d)\.\d{6,9})? ([\w./+-]+\.(?:cpp|cc|cu|cuh|hpp|h|c|mm)):\d+\] ?"
)
# E0501 07:40:18.123456 4711 file.cpp:616] · W20240501 … · W0909 07:40:18.123000 4711 torch/…/run.py:779]
_GLOG = re.compile(r"([FEWICVD])(\d{4}|\d{8}) (\d\d):(\d\d):(\d\d)\.(\d{3,6})\s+(?:(\d+) )?([\w./<>-]+):(\d+)\] ?")
_BASIC = re.compile(r"(DEBUG|INFO|WARNING|ERROR|CRITICAL|FATAL):([\w.\-/]+):")
# INFO 05-01 07:40:18 [file.py:69] · INFO 08-09 07:31:22 api_server.py:219]
_LEVEL_FIRST = re.compile(r"(DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)\s+(?=\d)")
_LEVEL_NEXT = re.compile(r"\s[\s\[|-]{0,3}(?:DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)\b")
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
# dmesg -T -d: "[Wed May  1 07:40:18 2024 <    0.000123>] "
_SINCE_LAST = re.compile(r" <[ \d.]{1,20}>(?=\])")
# [2024-05-01 07:40:18 DP0 TP5 EP0 PP0]
_SGLANG = re.compile(r"((?: (?:DP|TP|EP|PP)\d+)+)\]")
# Where nothing but tensors and experts is split, the tensor rank is the rank.
_ONLY_TENSOR = re.compile(r" TP(\d+)(?: EP\d+)?")
# NCCL: node and pid are claimed, the head stays
_NCCL = re.compile(r"([\w.-]+):(\d+):\d+ (?:\[\d+\] )?(?:[\w./-]+:\d+ (?:\(\w+\) )?)?NCCL ")
# [node1:4711] text (Open MPI's own messages): claimed, kept
_OMPI_HOST = re.compile(r"\[([A-Za-z][\w.-]*):(\d+)\] (?=\S)")

# [ERROR] HCCL(4711,python3):2024-05-01-07:40:18.049.385 [file.cc:610] [4802] (CANN); torch_npu's, without the file:
# [ERROR] 2024-05-01-07:40:18 (PID:4711, Device:2, RankID:-1) ERR02200
_CANN = re.compile(
    r"\[(ERROR|WARNING|INFO|EVENT|DEBUG)\] ?(?:([A-Z_]{2,20})\((\d{1,19}),[^)]{0,80}\):)?(\d{4}-\d\d-\d\d)-"
    r"(\d\d:\d\d:\d\d)(?:\.(\d{3})\.(\d{3}))? ?(?:\[[\w./-]{1,80}:\d+\] ?(?:\[\d+\] ?)?)?"
    r"(?:\(PID:(\d{1,19}), Device:-?\d{1,9}, RankID:(-?\d{1,9})\) )?"
)

_LEVELS = frozenset("FEWIV")
_HF_FIRST = frozenset("DIWEC")
_LEVEL_FIRSTS = frozenset("DIWECF")
_LETTERS: dict[str, Severity] = {
    "D": "info", "V": "info", "I": "info", "W": "warning", "E": "error", "C": "fatal", "F": "fatal",
}  # fmt: skip


def c10(text: str, p: Peeled, ctx: FileContext) -> str | None:
    """torch's C++ logger, with a stamp from 2.4 on."""
    match = _C10.match(text) if text[1:2] in _LEVELS else None
    if not match:
        return None
    p.severity, p.logger, p.headed = _LETTERS[match[1]], match[6], True
    if match[2]:
        # The seconds are wall clock, the nine digits behind them monotonic clock: they do not belong together.
        number = int(match[2])
        ns = ctx.clock.resolve(None, number // 100, number % 100, hms_s(match[3], match[4], match[5]), 0)
        if ns is not None:
            p.stamp(Stamp(ns, 0, SECOND, False))
    return text[match.end() :]


def glog(text: str, p: Peeled, ctx: FileContext) -> str | None:
    """glog, and torch's Python logger from 2.3 on, which has the same shape."""
    match = _GLOG.match(text) if text[1:5].isdecimal() else None
    if not match:
        return None
    p.severity, p.logger, p.headed = _LETTERS[match[1]], match[8], True
    date = match[2]
    year = int(date[:4]) if len(date) == 8 else None
    month, day = int(date[-4:-2]), int(date[-2:])
    nanos, resolution = fraction(match[6])
    if match[8].endswith(".py") and match[6].endswith("000"):
        resolution = max(resolution, 1_000_000)  # torch's Python logger prints milliseconds and three zeros
    # From torch 2.5 on the number is the process id, before it a thread identifier far above any pid.
    if match[7] and match[8].endswith(".py") and int(match[7]) < 1 << 23:
        p.pid = int(match[7])
    ns = ctx.clock.resolve(year, month, day, hms_s(match[3], match[4], match[5]), nanos)
    if ns is not None:
        p.stamp(Stamp(ns, 0, resolution, year is not None))
    return text[match.end() :]


def bracket_head(text: str, p: Peeled, ctx: FileContext) -> str | None:
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
        p.severity, p.headed = _LETTERS[match[1]], True
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
    if since := _SINCE_LAST.match(rest):
        rest = rest[since.end() :]
    if dims := _SGLANG.match(rest):
        p.identity.append(dims[1].strip())
        if alone := _ONLY_TENSOR.fullmatch(dims[1]):
            p.claim_rank(int(alone[1]))
        rest = rest[dims.end() - 1 :]
    if not rest.startswith("]"):
        return None
    p.stamp(stamp)
    p.headed = True
    return after_stamp(rest[1:], p)


def cann(text: str, p: Peeled, ctx: FileContext) -> str | None:
    """Ascend's runtime and its libraries (``plog`` files), and torch_npu."""
    match = _CANN.match(text)
    if not match or not (match[2] or match[8]):
        return None
    stamp = match_stamp(f"{match[4]} {match[5]}" + (f".{match[6]}{match[7]}" if match[6] else ""), 0, ctx.clock)
    if stamp is None:
        return None
    p.stamp(stamp)
    p.severity, p.logger, p.headed = severity_of(match[1]), match[2], True
    p.pid = int(match[3] or match[8])
    if match[9] and int(match[9]) >= 0:
        p.claim_rank(int(match[9]))
        p.identity.append(f"rank{match[9]}")
    return text[match.end() :]


def level_first(text: str, p: Peeled, ctx: FileContext) -> str | None:
    """Loggers that print the level first: Python's ``WARNING:name:``, vLLM's ``INFO 05-01 07:40:18 file.py:69]``."""
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


def syslog_head(text: str, p: Peeled, ctx: FileContext) -> str | None:
    """Stamp, host and tag as syslog daemons and ``journalctl`` print them."""
    stamp = match_stamp(text, 0, ctx.clock)
    if stamp is None:
        return None
    letters = not text[0].isdecimal()
    unix = "." in text[:12] and text[:10].isdecimal()  # journalctl short-unix
    if not (letters or unix or "T" in text[:11]):
        return None
    tail = _syslog_tail(text[stamp.end :], p, strict=not letters)
    if tail is not None:
        p.stamp(stamp)
    return tail


def bare_stamp(text: str, p: Peeled, ctx: FileContext) -> str | None:
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
    if stamp.resolution_ns == SECOND and stamp.dated and text[:10].isdecimal() and (p.headed or rest[:1] != " "):
        return None  # a bare number of ten digits is an epoch only in front of a syslog host
    if "." in text[:12] and text[:10].isdecimal() and not _LEVEL_NEXT.match(rest):
        return None  # of syslog, of a logger, or a number
    if MPI_STAMP.match(rest) or MPI_TAG.match(rest):
        p.stamp(stamp, "transport")
        match = MPI_STAMP.match(rest)
        return rest[match.end() :] if match else rest
    if "T" in text[:11] and text[: stamp.end].endswith("Z") and p.timestamp_basis is None and not p.headed:
        # kubectl logs --timestamps and stern: the collector's stamp, another head may follow.
        p.stamp(stamp, "transport")
        return rest[1:] if rest.startswith(" ") else rest
    p.stamp(stamp)
    p.headed = True
    return after_stamp(rest, p)


def claims(text: str, p: Peeled, ctx: FileContext) -> str | None:
    """Identity that the emitter's own head states; nothing is removed."""
    match = _OMPI_HOST.match(text) if text[0] == "[" else _NCCL.match(text) if " NCCL " in text else None
    if match:
        p.node = p.node or match[1]
        p.pid = p.pid or int(match[2])
    return None


def kmsg(text: str, p: Peeled, ctx: FileContext) -> str | None:
    """A record as ``cat /dev/kmsg`` gives it."""
    return None if p.headed else p.take_kmsg(text)


# (3) May01 07:40:18 Main [App] >> text
_BEEGFS = re.compile(rf"\(\d\) ({'|'.join(MONTHS)})(\d\d) (\d\d):(\d\d):(\d\d) (\S{{1,64}}) \[([^\]]{{1,80}})\] >> ")
# 05/01/2024 07:40:18;0008;pbs_mom;Job;4711.pbs01;text (six fields; servers on other hosts write Server@host)
_PBS = re.compile(
    r"(\d\d/\d\d/\d{4} \d\d:\d\d:\d\d(?:\.\d{1,6})?);[\da-fA-F]{4};([\w@.-]{1,80});(\w{1,20});([^;]{0,200});"
)


def beegfs(text: str, p: Peeled, ctx: FileContext) -> str | None:
    """The log of BeeGFS's daemons."""
    match = _BEEGFS.match(text)
    if not match:
        return None
    seconds = hms_s(match[3], match[4], match[5])
    ns = ctx.clock.resolve(None, MONTHS[match[1]], int(match[2]), seconds, 0)
    if ns is not None:
        p.stamp(Stamp(ns, 0, SECOND, False))
    p.logger, p.headed = f"beegfs {match[7]}", True
    return text[match.end() :]


def pbs(text: str, p: Peeled, ctx: FileContext) -> str | None:
    """The logs of PBS's daemons: date, event mask, daemon, kind and name of what it is about, text."""
    match = _PBS.match(text)
    stamp = match_stamp(match[1], 0, ctx.clock) if match else None
    if match is None or stamp is None:
        return None
    p.stamp(stamp)
    p.logger, p.headed = match[2].partition("@")[0], True
    if match[3] == "Node":
        p.node = match[4] or None
    return text[match.end() :]


def facility(text: str, p: Peeled, ctx: FileContext) -> str | None:
    """``dmesg -x``: facility and level in words."""
    if not text.startswith(("kern", "user", "daemon", "syslog", "auth")):
        return None
    match = _FACILITY.match(text)
    return text[match.end() :] if match else None
