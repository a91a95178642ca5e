"""The fields that Python loggers print behind the time stamp: level, logger name, file, process, rank."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from correlator.events import Severity

if TYPE_CHECKING:
    from correlator.envelopes.peeled import Peeled

_SEVERITIES: dict[str, Severity] = {
    "TRACE": "info", "DEBUG": "info", "INFO": "info", "NOTICE": "info", "WARN": "warning", "WARNING": "warning",
    "ERROR": "error", "ERR": "error", "EXCEPTION": "error", "CRITICAL": "fatal", "FATAL": "fatal",
}  # fmt: skip
_LETTERS: dict[str, Severity] = {"E": "error", "W": "warning", "I": "info", "F": "fatal"}
_LEVEL = r"(TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|EXCEPTION|CRITICAL|FATAL)"
_FILE = r"[\w./<>-]+(?::\d+|\.py)"


def severity_of(level: str) -> Severity | None:
    """The severity that a logger's level word stands for."""
    return _SEVERITIES.get(level.strip().upper())


#: In the order tried, each behind a stamp; named groups: level, logger, rank, local, pid, node.
_FORMATS = [
    re.compile(form)
    for form in (
        #  - name - LEVEL - text
        rf"\s*-\s*(?P<logger>[\w.\-/]+)\s+-\s*(?P<level>{_LEVEL})\s*-\s?",
        #  - LEVEL - name - text          (Hugging Face examples)
        rf"\s*-\s*(?P<level>{_LEVEL})\s*-\s*(?:(?P<logger>[\w.]+)\s+-\s)?",
        #  | LEVEL    | module:function:line - text          (loguru)
        rf"\s*\|\s*(?P<level>{_LEVEL})\s*\|\s*(?P<logger>[^|]{{0,80}}?)\s+-\s",
        # \thost:local\tmodule:line\tLEVEL\ttext          (OLMo)
        rf"\t(?P<node>[\w.-]+):(?P<local>\d+)\t(?P<logger>[\w.]+:\d+)\t(?P<level>{_LEVEL})\t",
        # : rank3[4711][MainThread]: LEVEL: name: text          (Composer)
        rf":\s*rank(?P<rank>\d+)\[(?P<pid>\d+)\]\[[^\]]*\]:\s*(?P<level>{_LEVEL}):\s*(?P<logger>[\w.]+):\s?",
        #  [LEVEL] [host] [workload:4(0) infra:1(0)] file.py:190 text          (resiliency extension: rank, local rank)
        rf"\s*\[(?P<level>{_LEVEL})\] \[(?P<node>[\w.-]+)\] "
        rf"\[workload:(?P<rank>\d+)\((?P<local>\d+)\) infra:[^\]]*\] (?P<logger>{_FILE}) ",
        # : E external/xla/….cc:123] text
        r":\s(?P<letter>[EWIF])\s(?P<logger>[\w./-]+:\d+)\]\s?",
        #  torch.distributed.run: [LEVEL] text          (torch 2.1 and 2.2)
        rf"\s(?P<logger>[\w.]+): \[(?P<level>{_LEVEL})\] ?",
        #  LEVEL file.py:123 -- text ·  LEVEL [file.py:12] text ·  LEVEL file.py:12] text
        rf"[\s|:-]+(?P<level>{_LEVEL})\s+\[?(?P<logger>{_FILE})\]?\s?(?:--\s|>>\s|:\s|\|\s|-\s)?",
        #  LEVEL:name:text
        rf"[\s|:-]*(?P<level>{_LEVEL}):(?P<logger>[\w.]+):\s?",
        #  LEVEL text ·  [LEVEL] text ·  LEVEL: text ·  | LEVEL | text
        rf"[\s|:-]*\[?(?P<level>{_LEVEL})\s*\]?(?:\s*[:|-]\s|\s|(?=\[)|$)",
    )
]

_BRACKET = re.compile(r"\s?\[([^\[\]]{1,80})\]")
_SOURCE = re.compile(r"([\w./<>-]+\.\w{1,4})(?::\d+|\s\(\d+\))?(?::[\w<>.]+)?$")
_PID = re.compile(r"(?:PID|pid)[:=\s]*(\d+)$")
_RANK = re.compile(r"(?:RANK|rank)[:=\s]*(\d+)$")
_ROLE_RANK = re.compile(r"[\w-]+ (\d+) / \d+$")
_SCOPE_RANK = re.compile(r"\s?\[Rank (\d+)\]")
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.\w+)+$|HYDRA$|MainThread$|__main__$|root$")
_FILE_THEN_SPACE = re.compile(r"\s(?P<logger>[\w./-]+\.(?:py|cc|cpp):\d+)\]?:?\s(?:>>\s)?")


# Two words, the first in small letters: no format begins so, and many messages do.
_WORDS = re.compile(r" +[a-z]+ ")
_GAP = re.compile(r"\s(?:>>|-|\|)\s|[:,]\s|\s+(?=\[)|\s|\t")


def after_stamp(rest: str, p: Peeled) -> str:
    """The message behind a stamp; its level, logger, process and rank go into ``p``. One space is removed, not more."""
    for form in () if _WORDS.match(rest) else _FORMATS:
        match = form.match(rest)
        if match:
            _take(match.groupdict(), p)
            rest = rest[match.end() :]
            break
    else:
        if match := _GAP.match(rest):
            rest = rest[match.end() :]
    return _brackets(rest, p)


def _take(groups: dict[str, str | None], p: Peeled) -> None:
    if level := groups.get("level"):
        p.severity = severity_of(level)
    if letter := groups.get("letter"):
        p.severity = _LETTERS[letter]
    if logger := groups.get("logger"):
        p.logger = logger
    if node := groups.get("node"):
        p.node = node
        if node not in p.identity:
            p.identity.append(node)
    if (local := groups.get("local")) is not None:
        p.local_rank = int(local)
        if p.identity[-1:] != [local]:
            p.identity.append(local)
    if (rank := groups.get("rank")) is not None:
        p.claim_rank(int(rank))
        p.identity.append(f"rank{rank}")
    if (pid := groups.get("pid")) is not None:
        p.pid = int(pid)


def _brackets(rest: str, p: Peeled) -> str:
    """Remove the chain ``[LEVEL] [file.py:12:main] [PID:4711] [RANK:3]``; stop at the first bracket of the message."""
    removed = False
    while match := _BRACKET.match(rest):
        inner = match[1].strip()
        if (severity := severity_of(inner)) is not None:
            p.severity = severity
        elif found := _PID.match(inner):
            p.pid = int(found[1])
        elif rest.startswith(":", match.end()):
            break  # a label of its own: [rank3]:
        elif found := _RANK.match(inner) or _ROLE_RANK.match(inner):
            p.claim_rank(int(found[1]))
            p.identity.append(f"rank{found[1]}")
        elif _SOURCE.match(inner) or _DOTTED.match(inner):
            p.logger = inner
        else:
            break
        rest = rest[match.end() :]
        removed = True
    if removed:
        rest = re.sub(r"^(?: - |: | )", "", rest, count=1)
        if p.rank is None and (scope := _SCOPE_RANK.match(rest)) and (p.logger or "").startswith("logging.py"):
            p.claim_rank(int(scope[1]))  # DeepSpeed's log_dist: a global rank; it stays in the text
    elif match := _FILE_THEN_SPACE.match(" " + rest):
        p.logger = match["logger"]
        rest = rest[match.end() - 1 :]
    return rest
