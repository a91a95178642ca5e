"""What the path of a log file claims about its writer: rank, node, attempt, stream."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from correlator.untrusted import is_rank

Stream = Literal["stdout", "stderr"]


_DAY = re.compile(r"(?<!\d)(20\d\d)(?:([-_./]?)(0[1-9]|1[0-2])\2(0[1-9]|[12]\d|3[01])(?!\d)|/)")


def path_day_ns(name: str) -> int | None:
    """The start of the day (UTC ns) that a path names, ``2025-11-02/``, ``20251102``, ``2025/11/02/``; of ``2025/`` the
    middle of the year; None for a path without either."""
    for match in _DAY.finditer(name):
        try:
            day = datetime(int(match[1]), int(match[3] or 7), int(match[4] or 1), tzinfo=UTC)
        except ValueError:
            continue
        return int(day.timestamp()) * 1_000_000_000
    return None


@dataclass(frozen=True, slots=True)
class PathClaims:
    """What a file's path says about its writer.

    ``node`` is set only where the naming scheme states one. ``tokens`` are all parts that might be a node name; the
    topology stage decides. ``task`` is a launcher's number that is not yet a rank.
    """

    rank: int | None = None
    local_rank: int | None = None
    task: int | None = None
    attempt: int | None = None
    node: str | None = None
    stream: Stream | None = None
    tokens: tuple[str, ...] = ()
    pid: int | None = None

    @property
    def single_process(self) -> bool:
        """True when the name says that one process wrote the file."""
        return self.rank is not None or self.local_rank is not None or self.pid is not None


_TORCHRUN = re.compile(r"(?:^|/)attempt_(\d{1,4})/(\d{1,6})/(?:(?:filtered_)?(stdout|stderr)\.log|error\.json)$")
_ATTEMPT = re.compile(r"(?:^|[._/-])(?:attempt|restart|retry)[._-]?(\d{1,4})(?=[._/-]|$)", re.I)
_LOCAL_RANK = re.compile(r"(?:^|[._/-])local_?rank[._-]?(\d{1,5})(?!\d)", re.I)
_OTHER_RANK = r"(?<!local)(?<!local[_-])(?<!node)(?<!node[_-])(?<!group)(?<!group[_-])"
_RANK = re.compile(rf"(?:^|[^a-z]|global_?){_OTHER_RANK}rank[._=-]?(\d{{1,6}})(?!\d)", re.I)
_PROC = re.compile(r"(?:^|/)(?:jax_)?proc(?:ess)?[._-]?(\d{1,6})(?=_of_\d|\.|/|$)", re.I)
_TASK = re.compile(r"(?:^|[._/-])task[._-]?(\d{1,6})(?=[._/-]|$)", re.I)
# nccl.%h.%p.log, debugfile.%h.%p: the host may have dots, the process id is the last number; behind an underscore it
# has at least three digits, and the host one too
_NCCL_FILE = re.compile(
    r"(?:^|/)(?:nccl|debugfile)(?:[._-]?(?:debug|debugfile|info|log))*[._-]"
    r"(?:([\w-]+(?:\.[\w-]*[a-z][\w-]*)*)\.(\d{1,8})|([a-z-]+\d[a-z0-9-]*(?:\.[\w-]*[a-z][\w-]*)*)_(\d{3,8}))"
    r"(?:\.(?:log|txt|out))?$",
    re.I,
)
# A process id, by who writes such names: anyone (pid-4711), py-spy, Ray's workers and their core library, Ascend's plog
_PID = re.compile(
    r"(?:(?:^|[._/-])pid[._=-]?(\d{1,8})(?=[._/-]|$)|(?:^|/)(?:py-?spy[._-](\d{1,8})|"
    r"worker-[0-9a-f]{6,}-[0-9a-f]{8}-(\d{1,8})\.(?:out|err)|python-core-worker-[0-9a-f]{6,}_(\d{1,8})\.log|"
    r"plog-(\d{1,8})_\d{14,}\.log))"
)
# nvrx_log_<node>.log (resiliency extension)
_NVRX = re.compile(r"(?:^|/)nvrx_log_([\w.-]+?)\.log$")
# PBS: train.o4711, 4711.pbs01.OU
_PBS_STREAM = re.compile(r"(?:\.(?:o|e)(?=\d{2,}$)|\.(?:OU|ER)$)")
_K8S_FILE = re.compile(r"(?:^|/)([a-z0-9][a-z0-9.-]*)_([a-z0-9-]+)_([a-z0-9][a-z0-9.-]*)-([0-9a-f]{64})\.log")
_K8S_PODS = re.compile(
    r"(?:^|/)([a-z0-9-]+)_([a-z0-9][a-z0-9.-]*)_([0-9a-f][0-9a-f-]{5,})/([a-z0-9.-]+)/(\d{1,4})\.log"
)
# a pod's number, or the five characters that Kubernetes makes up: no vowels, no digits that look like letters
_POD_DIR = re.compile(
    r"(?:^|/)([a-z0-9][a-z0-9.-]*-\d+|[a-z0-9.-]+-[bcdfghjklmnpqrstvwxz2456789]{5})/([a-z][a-z0-9.-]*)/(\d{1,4})\.log"
)
_SUBMITIT = re.compile(r"(?:^|/)\d+(?:_\d+)?_(\d{1,5})_log\.(?:out|err)$")
_STREAM = re.compile(r"(?:^|[._/-])(stdout|stderr|out|err)(?=[._/-]|$)(?!.*/)", re.I)
_EXTENSIONS = re.compile(r"(?:\.(?:log|txt|out|err|json|jsonl|xml|gz|bz2|xz|zst|lz4|journal|stdout|stderr))+$", re.I)
_ROTATION = re.compile(r"(?<=\.(?:log|out|err|txt))\.\d{1,3}$")

# What the file of an archive or a compressed log is called beside its own name: `run7.tar.gz!/rank0.log.gz`
_ARCHIVE = re.compile(r"(?:\.(?:tar|tgz|tbz2?|txz|tzst|zip|gz|bz2|xz|zst|lz4))*!/")
_PACKED = re.compile(r"\.(?:gz|bz2|xz|zst|lz4)$")
# sosreport-<host>[-<label>][-<case number>]-<date>-<seven random letters>[-obfuscated]
_SOSREPORT = re.compile(r"(?:^|/)sosreport-([\w.-]+?)(-\d{5,})?-\d{4}-\d{2}-\d{2}-[a-z]{7}(?:-obfuscated)?(?=[./]|$)")
# What tools that are asked about a machine are called; `sel-<node>.txt`, `<node>-ibstat.txt`
_TOOL = (
    r"(?:nvidia-smi|dcgmi?(?:-diag)?|fieldiag|partnerdiag|rocm-smi|amd-smi|ipmi(?:tool)?|sel|redfish|bmc|fru|dmidecode|"
    r"ibstat|mlxlink|fabric-?manager|dmesg|kern(?:el)?|journal|lspci)"
)
_TOOL_FIRST = re.compile(rf"^{_TOOL}[-_.](.+)$", re.I)
_TOOL_LAST = re.compile(rf"^(.+?)[-_.]{_TOOL}(?:[-_.][a-z]+)*$", re.I)
# nvidia-bug-report-<node>-<date>-<time>.log (log collectors), nvidia-bug-report_<node>.log (gpu-operator)
_BUG_REPORT = re.compile(r"(?:^|/)nvidia-bug-report[-_]([a-z0-9][\w.-]*?)(?:-\d{8}-\d{6})?\.log$")


def path_claims(name: str) -> PathClaims:
    """What a path relative to LOGDIR claims, sibling files left aside.

    >>> path_claims("none_x1/attempt_0/3/stderr.log").local_rank
    3
    """
    name = _PACKED.sub("", _ARCHIVE.sub("/", name)).removeprefix("-/")
    parts = name.split("/")
    stem = _EXTENSIONS.sub("", _ROTATION.sub("", parts[-1]))
    tokens = dict.fromkeys([*parts[:-1], stem])
    for part in [*parts[:-1], stem]:
        if "_" in part or "." in part:
            tokens |= dict.fromkeys(piece for piece in re.split(r"[._]", part) if piece)
    if match := _TOOL_FIRST.match(stem):
        words = match[1].split("-")
        tokens |= dict.fromkeys("-".join(words[at:]) for at in range(len(words)))
    elif match := _TOOL_LAST.match(stem):
        words = match[1].split("-")
        tokens |= dict.fromkeys("-".join(words[:at]) for at in range(1, len(words) + 1))
    rank = local_rank = task = attempt = pid = None
    node: str | None = None
    stream: Stream | None = None
    if match := _STREAM.search(name):
        stream = "stderr" if match[1].lower().endswith("err") else "stdout"
    elif match := _PBS_STREAM.search(name):
        stream = "stderr" if match[0][1] in "eE" else "stdout"
    if match := _ATTEMPT.search(name):
        attempt = int(match[1])
    if match := _TORCHRUN.search(name):
        attempt, local_rank = int(match[1]), int(match[2])
    if match := _LOCAL_RANK.search(name):
        local_rank = int(match[1])
    if (match := _RANK.search(name)) or (match := _PROC.search(name)):
        rank = int(match[1])
    if match := _NCCL_FILE.search(name):
        node, pid = match[1] or match[3], int(match[2] or match[4])
    elif match := _PID.search(name):
        pid = int(next(filter(None, match.groups())))
    if match := _NVRX.search(name):
        node = match[1]
    if match := _SOSREPORT.search(name):
        if match[2] is None:
            node = match[1]
        else:  # a case number, or the end of the node's name
            tokens |= {match[1]: None, match[1] + match[2]: None}
    elif match := _BUG_REPORT.search(name):
        node = match[1]
    if match := _SUBMITIT.search(name) or _TASK.search(name):
        task = int(match[1])
    if match := _K8S_FILE.search(name):
        node = match[1]
    elif match := _K8S_PODS.search(name):
        node, attempt = match[2], int(match[5])
    elif match := _POD_DIR.search(name):
        node, attempt = match[1], int(match[3])
    if node:
        tokens = {node: None, **tokens}
    rank, local_rank, task = (n if n is None or is_rank(n) else None for n in (rank, local_rank, task))
    return PathClaims(rank, local_rank, task, attempt, node, stream, tuple(tokens), pid)
