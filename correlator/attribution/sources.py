"""What kinds of log were read, and which usual ones were not among them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from correlator.cascade.model import Facts
from correlator.diagnosis import MissingSource, Source, SourceKind
from correlator.hostlist import fold_ranges

#: Emitters and single events that are no part of the training processes themselves.
_KINDS: dict[str, SourceKind] = {
    "kernel": "kernel", "fabric_manager": "device", "gpu": "device", "nic": "device",
    "bmc": "device", "host": "device", "bug_report": "device", "fr": "flight-recorder",
    "pbs": "scheduler", "lsf": "scheduler", "gridengine": "scheduler", "k8s": "scheduler", "slurm": "scheduler",
    "torchrun": "launcher", "mpi": "launcher", "hydra": "launcher", "horovod": "launcher", "composer": "launcher",
    "pdsh": "launcher", "ssh": "launcher", "slurm.task_exit": "launcher", "slurm.step_aborted": "launcher",
    "slurm.launch_failed": "launcher", "deepspeed.spawned": "launcher", "deepspeed.kill": "launcher",
    "deepspeed.return_code": "launcher", "deepspeed.world": "launcher", "deepspeed.exited": "launcher",
    "deepspeed.signal": "launcher", "slurm.env": "training", "slurm.process": "training", "slurm.nodelist": "training",
}  # fmt: skip
#: Emitters whose lines stand in logs of all kinds.
_ANYWHERE = frozenset({"log", "os", "shell", "env", "config", "python"})
_ORDER: tuple[SourceKind, ...] = ("training", "launcher", "scheduler", "kernel", "device", "flight-recorder", "other")
# System logs, in which the kernel's lines may stand anywhere.
_SYSTEM_LOG = re.compile(r"(?:^|[/._-])(?:dmesg|kern|kernel|messages|syslog|journal(?:ctl)?)(?=[/._-]|$)")
_NODES_NAMED = 3
_RANKS_LENGTH = 32


def sources_of(facts: Facts) -> list[Source]:
    """How many files of each kind were read; a file of several kinds counts for each."""
    counts = Counter(kind for kinds in _kinds_by_file(facts).values() for kind in kinds)
    return [Source(kind, counts[kind]) for kind in _ORDER if counts[kind]]


def missing_of(facts: Facts) -> list[MissingSource]:
    """The usual sources that were not collected. A quiet log that is there is not missing."""
    by_file = _kinds_by_file(facts)
    found = {kind for kinds in by_file.values() for kind in kinds}
    missing = [*_kernel_logs(facts), *_ranks(facts, by_file)]
    if "scheduler" not in found:
        missing.append(MissingSource("scheduler", "scheduler records"))
    if "launcher" not in found and facts.topology.world_size != 1:
        missing.append(MissingSource("launcher", "launcher output"))
    return missing


def _kinds_by_file(facts: Facts) -> dict[str, set[SourceKind]]:
    ranked = {writer.file for writer in facts.ingested.writers if writer.rank is not None}
    events = facts.events_of_file
    kinds: dict[str, set[SourceKind]] = {}
    for file in facts.ingested.files:
        own = {
            _KINDS.get(event) or _KINDS.get(emitter, "training")
            for event in events.get(file.name, ())
            if (emitter := event.partition(".")[0]) not in _ANYWHERE
        }
        if "kernel" in file.emitters or _SYSTEM_LOG.search(file.name.lower()):
            own.add("kernel")
        if file.name in ranked or file.claims.single_process or (not own and file.name in events):
            own.add("training")
        kinds[file.name] = own or {"other"}
    return kinds


#: Who speaks about ranks from outside of them.
_OBSERVERS = ("torchrun", "slurm", "mpi", "hydra", "kernel", "composer", "k8s", "deepspeed", "ray", "lightning")


def heard_ranks(facts: Facts) -> set[int]:
    """Ranks of which any line is known to be their own, by its prefix or by what it states."""
    heard = {number for number, rank in facts.topology.ranks.items() if rank.heard}
    lines = (row for row in (*facts.rows, *facts.progress) if row.rank is not None)
    return heard | {row.rank for row in lines if row.rank is not None and row.emitter not in _OBSERVERS}


def kernel_log_nodes(facts: Facts) -> tuple[set[str], int]:
    """Nodes whose kernel log was read, quiet ones included, and how many such logs say of no node that it is theirs."""
    placed: dict[str, set[str]] = {file: set() for file, kinds in _kinds_by_file(facts).items() if "kernel" in kinds}
    for writer in facts.ingested.writers:
        if writer.file in placed and writer.node:
            placed[writer.file].add(writer.node)
    for row in facts.rows:
        if row.emitter == "kernel" and row.node:
            placed.setdefault(row.file, set()).add(row.node)
    nodes = {facts.topology.node_named(node) or node for nodes in placed.values() for node in nodes}
    return nodes, sum(not nodes for nodes in placed.values())


def _kernel_logs(facts: Facts) -> Iterator[MissingSource]:
    """Kernel logs of the job's nodes; a log of an unknown node may be that of any."""
    seen, unplaced = kernel_log_nodes(facts)
    without = [node for node in facts.topology.nodes if node not in seen]
    pods = {writer.pod for writer in facts.ingested.writers if writer.pod}
    if not seen and not unplaced and pods >= set(without):
        yield MissingSource("kernel", "kernel logs")  # the machines' names are not known
    elif len(without) > unplaced:
        if unplaced:
            yield MissingSource("kernel", f"kernel logs of {len(without) - unplaced:,} of {_nodes(without)}")
        else:
            yield MissingSource(
                "kernel", f"kernel log{'s' if len(without) > 1 else ''} of {_nodes(without)}", nodes=without
            )


def _nodes(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NODES_NAMED:,} more nodes" if len(names) > _NODES_NAMED + 1 else ""
    return ", ".join(names[:_NODES_NAMED] if more else names) + more


def _ranks(facts: Facts, by_file: Mapping[str, set[SourceKind]]) -> Iterator[MissingSource]:
    """Ranks of which nothing was collected: in a file of several ranks one may be there and quiet."""
    heard = heard_ranks(facts)
    ranks, collected = facts.topology.ranks, facts.topology.collected_nodes
    names = {file.name: file.claims for file in facts.ingested.files}
    shared = any("training" in kinds and not names[file].single_process for file, kinds in by_file.items())
    absent = [rank for rank in facts.expected_ranks() if rank not in heard and not ranks[rank].collected]
    if shared:
        absent = [rank for rank in absent if ranks[rank].node and ranks[rank].node not in collected]
    if absent and heard:
        named = fold_ranges(absent)
        if len(named) > _RANKS_LENGTH:
            named = named[:_RANKS_LENGTH].rpartition(",")[0] + ", …"
        yield MissingSource("training", f"logs of {len(absent):,} of {len(ranks):,} ranks ({named})", ranks=absent)
