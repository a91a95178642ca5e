"""Labels in front of lines: of fan-in tools, launchers, actor runtimes, and torch's own rank prefix."""

from __future__ import annotations

import re

from correlator.envelopes.peeled import FileContext, Peeled

_HOST = re.compile(r"([A-Za-z0-9][\w.-]*):(?: |$)")
_TASK = re.compile(r" {0,6}(?:P(\d+) )?(\d{1,6}):(?: |$)")
_HYDRA = re.compile(r"\[(\d{1,6})\] ")
_STERN = re.compile(r"([\w.-]+) ([\w.-]+) ")
_STERN_OF_SPACES = re.compile(r"[\w.-]+ ([\w.-]+) ([\w.-]+) ")
# [pod/llm-worker-3/pytorch] text
_KUBECTL = re.compile(r"\[pod/([\w.-]+)/([\w.-]+)\] ")
# [1,37]<stderr>:text · [prterun-node1-77@1,37]<stderr>: text · [ns,37][node1:4711]<stderr>: text
# [1,mpirank:37,algo-5]<stderr>:text (SageMaker)
MPI_TAG = re.compile(
    r"\[([\w.@-]+),(?:mpirank:)?(\d+)(?:,([\w.-]+))?\](?:\[([\w.-]+):(\d+)\])?<(stdout|stderr|stddiag)>:"
)
MPI_STAMP = re.compile(r"<(stdout|stderr|stddiag)>: ?")
# Wed Aug 14 16:00:50 2019[3]<stderr>:text (horovodrun without MPI)
_HOROVOD_TAG = re.compile(r"\[(\d{1,6})\]<(stdout|stderr)>:")
# nid003871:0 out: text
_HOST_SLOT = re.compile(r"([A-Za-z][\w.-]*\d[\w.-]*):(\d{1,4}) (out|err): ?")
# i.pretrain/0 text (torchx role and replica)
_ROLE = re.compile(r"(?:i\.)?[\w-]+/(\d+) (?=\[|\S*:)")
# run.host.nolog [stderr] text · run.host [stderr] text; run.D0 numbers a device
_HARNESS = re.compile(r"[\w-]+\.(?!D\d+ )([\w.-]*?[A-Za-z0-9])(?:\.nolog)? \[(stdout|stderr)\] ")


def fan_in(text: str, p: Peeled, ctx: FileContext) -> str | None:
    """Labels that mean something only because they recur in this file."""
    if p.headed:
        return None
    if ctx.task_label and (match := _TASK.match(text)) and p.task is None:
        p.task = int(match[2])
        p.identity.append(f"{match[1]}.{match[2]}" if match[1] else match[2])
        return text[match.end() :]
    if ctx.hosts and (match := _HOST.match(text)) and match[1] in ctx.hosts:
        p.claim_node(match[1])
        return text[match.end() :]
    if ctx.rank_label and (match := _HYDRA.match(text)) and p.task is None:
        p.task = int(match[1])
        p.identity.append(match[1])
        return text[match.end() :]
    if ctx.stern and p.pod is None and (match := (_STERN_OF_SPACES if ctx.namespaces else _STERN).match(text)):
        p.pod, p.container = match[1], match[2]
        p.identity.append(match[1])
        return text[match.end() :]
    return None


def host_slot(text: str, p: Peeled, ctx: FileContext) -> str | None:
    """``node:slot out: ``, a torchx role, or a benchmark harness in front of the line."""
    if (" out:" in text or " err:" in text) and (match := _HOST_SLOT.match(text)):
        p.claim_node(match[1])
        p.local_rank = int(match[2])
        p.identity.append(match[2])
        p.stream = "stdout" if match[3] == "out" else "stderr"
        return text[match.end() :]
    if text.startswith("i.") and (match := _ROLE.match(text)):
        p.identity.append(text[: match.end() - 1])
        return text[match.end() :]
    if " [std" in text and (match := _HARNESS.match(text)):
        p.claim_node(match[1])
        p.stream = match[2]
        return text[match.end() :]
    return None


def kubectl(text: str, p: Peeled, ctx: FileContext) -> str | None:
    """``[pod/NAME/CONTAINER] `` of ``kubectl logs --prefix``."""
    match = _KUBECTL.match(text) if text.startswith("[pod/") else None
    if not match:
        return None
    p.pod, p.container = match[1], match[2]
    p.identity.append(match[1])
    return text[match.end() :]


def mpi(text: str, p: Peeled, ctx: FileContext) -> str | None:
    """Open MPI's tag: job and rank, with host and pid where it is detailed. Horovod's own: the rank alone."""
    if ">:" in text and (own := _HOROVOD_TAG.match(text)):
        p.claim_rank(int(own[1]))
        p.identity.append(own[1])
        p.stream = own[2]
        return text[own.end() :]
    match = MPI_TAG.match(text) if ">:" in text else None
    if not match:
        return None
    p.task = int(match[2])
    p.claim_rank(p.task)
    p.identity.append(match[2])
    if match[3]:
        p.claim_node(match[3])
    if match[4]:
        p.node, p.pid = match[4], int(match[5])
    p.stream = "stdout" if match[6] == "stdout" else "stderr"
    rest = text[match.end() :]
    # Open MPI 5 adds a space of its own; version 4, whose job is a bare number, does not.
    return rest[1:] if rest.startswith(" ") and not match[1].isdecimal() else rest


_TEE = re.compile(r"\[([A-Za-z_]+?)(\d{1,5})\]:")
# [rank9]: text (torch's excepthook) and [rank9]:[E909 … (its C++ logger)
_RANK = re.compile(r"\[rank(\d{1,6})\]:( ?)")
# [rank: 3] of Lightning, where the number is a LOCAL rank in its SIGTERM lines; [rank 3] of many a program's logger
_RANK_COLON = re.compile(
    r"\[[Rr]ank(?:: ?| )(\d{1,6})\]:? (?!Watchdog|Collective|NCCL|Some|To avoid|Timeout|Caught|Process)"
)
# rank 3: text · rank 3 step 12 · rank 0/64 on node1: said by the program itself
_LEVEL_THEN_RANK = re.compile(
    r"(?:INFO|WARN|WARNING|ERROR|DEBUG|CRITICAL|[IWEFD](?: \d\d:\d\d:\d\d(?:[.,]\d+)?)?)(?: \|)? "
    r"\[?[Rr]ank:? ?(\d{1,6})\b"
)
_RANK_WORD = re.compile(r"[Rr]ank (\d{1,6})(?:: | (?=step|iter|epoch)|/\d+ | of \d+ )")
# (RayTrainWorker pid=4711, ip=10.0.0.18) · (ActorWorker(train-1) pid=4711, ip=…) · (Worker_TP2 pid=907)
# (worker1, rank=1, pid=44, ip=…) · (raylet)
_ACTOR = re.compile(
    r"\(([\w.-]+(?:\([\w.-]{1,80}\))?)((?:,? (?:pid|ip|rank|task_name|actor)=[^\s,)]*)*)(?:, [\w.=-]+)*\) ?"
)
_ACTOR_PLAIN = re.compile(r"\((?:raylet|autoscaler \+[\dhms]+)(?:, ip=[\w.:]+)?\) ")
# vLLM: only where tensor parallelism is all that a label names is its number the rank.
_TENSOR_WORKER = re.compile(r"Worker_TP(\d{1,5})(?:_EP\d+)?")
_PAIR = re.compile(r"(\w+)=([^\s,)]*)")


def rank_prefix(text: str, p: Peeled, ctx: FileContext) -> str | None:
    """``[rankN]:`` of torch, or a tee tag (``[default3]:``), which may look the same."""
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


def rank_colon(text: str, p: Peeled, ctx: FileContext) -> str | None:
    """Lightning's ``[rank: N] ``; in its SIGTERM lines the number is a LOCAL rank."""
    match = _RANK_COLON.match(text) if text.startswith(("[rank:", "[rank ")) else None
    if not match:
        return None
    rest = text[match.end() :]
    if rest.startswith(("Received SIG", "Child process")):
        p.local_rank = int(match[1])
        return None  # the parser of these lines reads the number itself
    p.claim_rank(int(match[1]))
    p.identity.append(f"rank{match[1]}")
    return rest


# 8f3a2b1c [rank=3] || text · [rank=3] || text · 8f3a2b1c || text: Determined's container and rank
_DETERMINED = re.compile(r"(?:([0-9a-f]{8}) )?(?:\[rank=(\d{1,6})\] )?\|\| ")


def determined(text: str, p: Peeled, ctx: FileContext) -> str | None:
    """The container and the rank that Determined puts in front of a trial's lines."""
    match = _DETERMINED.match(text) if " || " in text[:40] else None
    if not match:
        return None
    if match[1]:
        p.identity.append(match[1])
    if match[2]:
        p.claim_rank(int(match[2]))
        p.identity.append(f"rank{match[2]}")
    return text[match.end() :]


def actor(text: str, p: Peeled, ctx: FileContext) -> str | None:
    """Ray's and vLLM's ``(Actor pid=…, ip=…)``; the driver's own node is not named."""
    if match := _ACTOR_PLAIN.match(text):
        p.identity.append(text[1 : match.end() - 2])
        return text[match.end() :]
    match = _ACTOR.match(text)
    if not match or "pid=" not in match[2]:
        return None
    pairs = dict(_PAIR.findall(match[2]))
    p.identity.append(text[1 : match.end()].rstrip(" )"))
    if pairs.get("pid", "").isdecimal():
        p.pid = int(pairs["pid"])
    if pairs.get("ip"):
        p.node = pairs["ip"]
    if pairs.get("rank", "").isdecimal():
        p.claim_rank(int(pairs["rank"]))
    elif worker := _TENSOR_WORKER.fullmatch(match[1]):
        p.claim_rank(int(worker[1]))
    return text[match.end() :]


def rank_word(text: str, p: Peeled, ctx: FileContext) -> str | None:
    """A message that begins with the program's own rank: claimed, but left in the text."""
    if p.rank is not None:
        return None
    match = _RANK_WORD.match(text) if text.startswith(("rank ", "Rank ")) else None
    match = match or (_LEVEL_THEN_RANK.match(text) if text[:1].isupper() and "ank" in text[:40] else None)
    if match:
        p.claim_rank(int(match[1]))
        p.identity.append(f"rank{match[1]}")
    return None
