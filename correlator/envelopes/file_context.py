"""What a file's prefixes mean, decided from its first and last lines and from the other files of the job.

``7: `` is an ``srun -l`` label only where it recurs; ``node1: `` is a host only where nearly every line has one;
``[rank3]:`` is a launcher's tag where it stands on lines that torch would not mark. Year-less stamps get their year
from dated ones: of the same file, else of the job; else from the paths, else from modification times.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo

from correlator.envelopes.layouts import Layout, learn_layout
from correlator.envelopes.peel import outer_layers, peel
from correlator.envelopes.peeled import FileContext, strip_ansi
from correlator.timestamps import Clock, dated_stamps_ns


@dataclass(frozen=True, slots=True)
class JobContext:
    """What all files of the job share: see ``Clock`` and ``FileContext`` for the fields."""

    zone: tzinfo = UTC
    reference_ns: int | None = None
    reference_is_latest: bool = False
    tee_rank: str = "torch"
    tee_space: bool = False


@dataclass(slots=True)
class RankTags:
    """How ``[rankN]:`` is used in the samples: evidence for a launcher's tag or torch's own prefix."""

    lines: int = 0
    foreign: int = 0
    doubled: int = 0
    doubled_unequal: int = 0
    spaced: int = 0
    groups: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))


_TASK = re.compile(r" {0,6}(?:P\d+ )?(\d{1,6}):(?: |$)")
_HOST = re.compile(r"([A-Za-z0-9][\w.-]*):(?: |$)")
# pdsh@head: node012: ssh exited with exit code 2
_PDSH_EXIT = re.compile(r"pdsh@[\w.-]+: ([\w.-]+): \w+ exited with exit code ")
_HYDRA = re.compile(r"\[(\d{1,6})\] ")
_STERN = re.compile(r"([a-z0-9][a-z0-9.-]*-[a-z0-9.-]+) ([a-z][\w-]*) ")
_STERN_OF_SPACES = re.compile(r"[a-z0-9][a-z0-9-]* ([a-z0-9][a-z0-9.-]*-[a-z0-9.-]+) ([a-z][\w-]*) ")
_RANK = re.compile(r"\[rank(\d{1,6})\]:( ?)(.*)", re.S)
_TORCH_LINE = re.compile(
    r"\s|$|\[[FEWIV](?:\d| [\w./-]+:\d)|[FEWICVD]\d{4} |Traceback |[\w.]*(?:Error|Exception|Interrupt|Exit|Warning)\b"
    r"|The above|During handling"
)
_NO_HOST = re.compile(
    r"(?!gpu-?0\d)(?:[A-Z]+|\d+|.*(?:Error|Exception|Warning|Interrupt|Exit)|(?:rank|gpu|cuda|step|epoch|iter\w*|layer|loss|lr|proc\w*"
    r"|local_rank|device|train\w*|eval\w*|val\w*|test\w*|time|srun|sbatch|slurmstepd|slurmd|mpirun|mpiexec|mpiexec\.hydra|prterun"
    r"|orterun|torchrun|python[\d.]*|bash|sh|ssh|pdsh|sudo|error|warning|warn|info|note|usage|wandb|hint|kernel|fatal"
    r"|nvidia-\w+|git|pip|make|ninja|ray|hosts|nodes|name|version|date|total|from|file|line)[-_]?\d*|host|node)$",
    re.I,
)


def sample_lines(head: bytes, tail: bytes) -> tuple[list[str], list[str]]:
    """Lines of a file's first and last bytes; lines cut at the samples' inner edges are left out."""
    first = head.decode("utf-8", "replace").split("\n")
    if tail and len(first) > 1:
        first.pop()
    last = tail.decode("utf-8", "replace").split("\n")[1:] if tail else []
    clean = [[strip_ansi(line.rsplit("\r", 1)[0][:2000]) for line in lines if line.strip()] for lines in (first, last)]
    return clean[0], clean[1]


def _tasks(lines: Sequence[str]) -> bool:
    counts = Counter(m[1] for line in lines if (m := _TASK.match(line)))
    total = counts.total()
    if total < 3 or max(counts.values()) < 2:
        return False
    share = total / len(lines)
    # With several labels a fifth of the lines is enough: unlabelled output of the launcher may surround them.
    return share >= (0.2 if len(counts) > 1 else 0.5)


def _hosts(lines: Sequence[str]) -> frozenset[str]:
    """Names that stand in front of lines: those of pdsh, which says of some that they failed, and frequent ones."""
    failed = frozenset(m[1] for line in lines if (m := _PDSH_EXIT.match(line)))
    return failed | _frequent_hosts(lines)


def _frequent_hosts(lines: Sequence[str]) -> frozenset[str]:
    counts = Counter(m[1] for line in lines if (m := _HOST.match(line)) and not _NO_HOST.match(m[1]))
    named = {name: n for name, n in counts.items() if n >= 3 and (re.search(r"\d|\.|-", name))}
    plain = {name: n for name, n in counts.items() if n >= 5 and name not in named}
    shapes = {re.sub(r"\d+", "0", name) for name in named}
    share = sum(named.values()) / len(lines)
    if share >= 0.4 or (share >= 0.25 and len(named) > 1 and len(shapes) == 1):
        # Hosts with few lines in the samples are told by their likeness to the others.
        return frozenset(named) | {name for name in counts if re.sub(r"\d+", "0", name) in shapes}
    if len(plain) >= 2 and sum(plain.values()) >= len(lines) * 0.6:
        return frozenset(plain)
    return frozenset()


def _hydra(lines: Sequence[str]) -> bool:
    counts = Counter(m[1] for line in lines if (m := _HYDRA.match(line)))
    return len(counts) >= 2 and counts.total() >= len(lines) * 0.6 and counts.total() >= 3 * len(counts)


def _stern(lines: Sequence[str]) -> tuple[bool, bool]:
    """Whether pod and container stand in front of nearly all lines, and whether a namespace does before them."""
    for form in (_STERN, _STERN_OF_SPACES):
        counts = Counter(m[0] for line in lines if (m := form.match(line)) and any(c.isdigit() for c in m[1]))
        if counts.total() >= max(5, len(lines) * 0.9) and counts.total() >= 3 * len(counts):
            return True, form is _STERN_OF_SPACES
    return False, False


def collect_rank_tags(lines: Iterable[str], context: FileContext, file: str, tags: RankTags) -> None:
    """Add what the FIRST lines of a file tell about ``[rankN]:`` to ``tags``."""
    raised: set[tuple[str, int]] = set()
    for line in lines:
        if "[rank" not in line:
            continue
        outer = outer_layers(line, context)
        group, match = outer.key, _RANK.match(outer.text)
        if not match:
            continue
        number, rest = int(match[1]), match[3]
        tags.lines += 1
        tags.spaced += bool(match[2])
        tags.groups[f"{file}/{group}"].add(number)
        if inner := _RANK.match(rest):
            tags.doubled += 1
            tags.doubled_unequal += int(inner[1]) != number
        elif rest.startswith("Traceback "):
            raised.add((group, number))
        elif (group, number) not in raised and not _TORCH_LINE.match(rest):
            tags.foreign += 1


def decide_rank_tags(tags: RankTags) -> tuple[str, bool]:
    """``tee_rank`` and ``tee_space`` of a FileContext, from the samples of all files.

    A tee tag of role "rank" repeats the same numbers on every node and stands on every line; a template may make it
    the global rank instead, and then the nodes' numbers are disjoint and always equal torch's own.
    """
    if not tags.lines or not (tags.doubled or (tags.foreign >= 3 and tags.foreign > 0.3 * tags.lines)):
        return "torch", False
    space = tags.spaced > 0.9 * tags.lines
    if tags.doubled_unequal:
        return "local", space
    groups = [numbers for numbers in tags.groups.values() if numbers]
    if len(groups) > 1:
        overlap = any(a & b for i, a in enumerate(groups) for b in groups[i + 1 :])
        return ("local" if overlap else "global"), space
    return ("global" if tags.doubled else "local"), space


def detect_layers(head: Sequence[str], tail: Sequence[str], clock: Clock) -> FileContext:
    """The labels in front of a file's lines."""
    base = FileContext(clock=clock)
    peeled = [outer_layers(line, base) for line in (*head, *tail)]
    lines = [p.text for p in peeled if p.text.strip()]
    if len({p.logger for p in peeled}) > 1:  # the messages of several programs have no label in common
        lines = [line for line in (*head, *tail) if line.strip()]
    if not lines:
        return base
    tasks = _tasks(lines)
    stern, namespaces = _stern(lines)
    return replace(
        base,
        task_label=tasks,
        hosts=frozenset() if tasks else _hosts(lines),
        rank_label=_hydra(lines),
        stern=stern,
        namespaces=namespaces,
    )


_RANK_BYTES = re.compile(rb"\[rank(\d+)\]:")
_TAG_BYTES = re.compile(rb"^(?:[\w.-]+: )?\[[A-Za-z_]+\d+\]:", re.M)


def is_one_process(sample: bytes) -> bool:
    """True when nothing in the sample contradicts a file name that says: one process wrote this."""
    return len(set(_RANK_BYTES.findall(sample))) <= 1 and len(set(_TAG_BYTES.findall(sample))) <= 1


def file_clock(job: JobContext, head: bytes, tail: bytes, mtime_ns: int) -> Clock:
    """The clock for a file's stamps: years from its own dated stamps, else from the job's, else from ``mtime_ns``."""
    clock = Clock(zone=job.zone)
    own = sorted(dated_stamps_ns(head, clock, 4) + dated_stamps_ns(tail, clock, 4))
    if own:
        return replace(clock, reference_ns=own[len(own) // 2])
    if job.reference_ns is not None:
        return replace(clock, reference_ns=job.reference_ns, reference_is_latest=job.reference_is_latest)
    return replace(clock, reference_ns=mtime_ns, reference_is_latest=True)


def file_context(
    job: JobContext, head: bytes, tail: bytes, mtime_ns: int, *, single_process: bool, complete: bool
) -> FileContext:
    """The context of one file from its samples; ``complete``: the samples are all of it."""
    clock = file_clock(job, head, tail, mtime_ns)
    if single_process and is_one_process(head) and is_one_process(tail):
        # The common case of thousands of rank files: no need to look at line after line.
        context = FileContext(
            clock=clock, split_ranks=False, several=False, tee_rank=job.tee_rank, tee_space=job.tee_space
        )
        return replace(context, layout=_unlisted_layout(sample_lines(head[:4096], b"")[0], context))
    first, last = sample_lines(head, tail)
    context = detect_layers(first, last, clock)
    context = replace(context, tee_rank=job.tee_rank, tee_space=job.tee_space, split_ranks=False)
    context = replace(context, layout=_unlisted_layout(first or last, context))
    ranks: dict[str, set[int]] = defaultdict(set)
    keys: set[tuple[str, str | None]] = set()
    for line in (*first, *last):
        p = peel(line, context)
        keys.add((p.key, p.stream))
        if p.inner_rank is not None:
            ranks[p.key].add(p.inner_rank)
    labelled = any(key for key, _ in keys)
    split = any(len(found) > 1 for found in ranks.values())
    # Nothing seen: believe a complete sample, or a label that owns exactly one rank everywhere.
    unsure = not split and not complete and not (labelled and ranks)
    return replace(context, split_ranks=split or unsure, several=len(keys) > 1 or split, unsure=unsure)


_CLOCK_TIME = re.compile(r"\d[:.h]\d\d[:.m]\d\d")


def _unlisted_layout(lines: Sequence[str], context: FileContext) -> Layout | None:
    """The layout of the file's stamps when they are not built in."""
    timed = [line for line in lines if _CLOCK_TIME.search(line, 0, 80)]
    if len(timed) < 3 or any(peel(line, context).timestamp_basis for line in timed[:20]):
        return None
    return learn_layout([outer_layers(line, context).text for line in timed])
