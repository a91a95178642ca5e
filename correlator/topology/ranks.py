"""Which global rank each log belongs to: labels, launcher reports, group numbers, node and local rank."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from math import gcd

from correlator.hostlist import expand_hostlist, expand_ranges
from correlator.ingest import FileSummary, Writer
from correlator.records import Row
from correlator.topology.model import LOCAL_NAMES, Rank, Topology, short_name
from correlator.untrusted import is_rank, read_number

#: Launcher lines that name a worker by its pid.
ABOUT_A_WORKER = frozenset(
    {"torchrun.worker_failed", "torchrun.report_entry", "torchrun.signal_sent", "torchrun.kill_escalation"}
)


def release_shared_streams(writers: Sequence[Writer], rows: Sequence[Row]) -> None:
    """Takes the rank from a stream of a whole node in which only one rank happens to prefix its lines.

    Such a stream also holds the launcher's lines about several workers, or NCCL lines of several processes; what
    carries no prefix there may be anybody's.
    """
    workers: dict[str, set[int]] = defaultdict(set)
    shared: set[str] = set()
    for row in rows:
        if row.event in ABOUT_A_WORKER or row.emitter == "nccl":
            workers[row.writer] |= {row.pid} if row.pid is not None else set()
            if len(workers[row.writer]) > 1 or (row.event in ABOUT_A_WORKER and row.local_rank):
                shared.add(row.writer)
    for writer in writers:
        if (
            writer.key in shared
            and writer.rank_basis == "envelope"
            and writer.task is None
            and writer.local_rank is None
        ):
            writer.rank = writer.rank_basis = None


def read_task_numbers(top: Topology, writers: Sequence[Writer], rows: Sequence[Row]) -> None:
    """Decides whether launcher labels (``3: ``) number ranks or nodes: under a per-node launcher they number nodes.

    A number in a file's name is read like a label, unless that file holds lines of several ranks.
    """
    ranks_in_file: dict[str, set[int]] = defaultdict(set)
    things: list[Writer | Row] = [*writers, *rows]
    for thing in things:
        if thing.rank is not None and thing.rank_basis in ("line", "envelope"):
            ranks_in_file[thing.file].add(thing.rank)
    by_name = {f: len(ranks) > 1 for f, ranks in ranks_in_file.items()}
    labels = {w.task for w in writers if w.task is not None and not (by_name.get(w.file) and _task_from_name(w))}
    exits = {t for r in rows if r.event == "slurm.task_exit" for t in expand_ranges(r.attr("tasks"))}
    if not labels | exits:
        return
    locals_of_task: dict[int, set[int]] = defaultdict(set)
    for writer in writers:
        if writer.task is not None and writer.local_rank is not None:
            locals_of_task[writer.task].add(writer.local_rank)
    # A program may print its own local rank; only a launcher has several below one label.
    launcher_inside = any(r.event.startswith("torchrun.") for r in rows) or any(
        len(found) > 1 for found in locals_of_task.values()
    )
    disagree = any(w.task is not None and w.rank not in (None, w.task) and not by_name.get(w.file) for w in writers)
    top.tasks_are_ranks = not launcher_inside and not disagree and not _tasks_number_nodes(rows)
    if not top.tasks_are_ranks:
        return
    for writer in writers:
        if (
            writer.rank is None
            and writer.task is not None
            and not (by_name.get(writer.file) and _task_from_name(writer))
        ):
            writer.rank, writer.rank_basis = writer.task, "label"
    for row in rows:
        if row.event == "slurm.task_exit" and row.node and not row.attr("nodes"):
            for task in expand_ranges(row.attr("tasks")):
                top.ranks.setdefault(task, Rank(task)).node = row.node
        if row.event == "slurm.task_exit" and row.rank is None and row.task is not None:
            row.rank, row.rank_basis = row.task, "label"


def _host_list(rows: Sequence[Row]) -> list[str]:
    """The job's hosts in the order in which its scheduler lists them; empty when none is printed."""
    listed = [r.attr("nodes") for r in rows if r.event == "slurm.nodelist"]
    return [short_name(h) for h in expand_hostlist(listed[0])] if listed else []


def _tasks_number_nodes(rows: Sequence[Row]) -> bool:
    """Whether task numbers are those of the host list while ranks go further: one task a node, each with many ranks."""
    hosts = _host_list(rows)
    ends = [(r.node, r.task) for r in rows if r.event == "slurm.task_exit" and r.task is not None and r.node]
    highest = max((r.rank for r in rows if r.rank is not None and r.rank_basis in ("line", "envelope")), default=-1)
    return (
        bool(ends)
        and 1 < len(hosts) <= highest
        and all(t < len(hosts) and hosts[t] == n for n, t in ends if t is not None)
    )


def _task_from_name(writer: Writer) -> bool:
    return writer.rank is None and writer.task is not None and f"{writer.task}" in writer.file.rpartition("/")[2]


def owners_of_error_files(
    top: Topology, files: Sequence[FileSummary], writers: Sequence[Writer], rows: Sequence[Row]
) -> None:
    """A launcher report names the folder of the rank's own files: that ties an anonymous folder to rank and node."""
    folders = {f.name.rpartition("/")[0] for f in files}
    owners: dict[str, Row] = {}
    for row in rows:
        if row.event != "torchrun.report_entry":
            continue
        parts = row.attr("error_file").replace("\\", "/").split("/")[:-1]
        for start in range(len(parts)):
            tail = "/".join(parts[start:])
            if len(parts) - start >= 2 and tail in folders:
                owners[tail] = row
                break
    run_nodes = {folder.split("/attempt_")[0]: row.node for folder, row in owners.items() if row.node}
    for writer in writers:
        folder = writer.file.rpartition("/")[0]
        owner = owners.get(folder)
        if owner is not None and writer.rank is None and owner.rank is not None:
            writer.rank, writer.rank_basis = owner.rank, "launcher report"
        run = folder.split("/attempt_")[0]
        if writer.node is None and run_nodes.get(run):
            writer.node, writer.node_basis = run_nodes[run], "launcher report"


def ranks_of_default_group(rows: Sequence[Row]) -> None:
    """Reads ``[Rank n]`` as global where it can only be the default group's number.

    Before torch 2.3 the watchdog names no group. In a job of several groups equal numbers of different processes report
    one collective; where every number reports a collective once, the group spans all reporting ranks.
    """
    unnamed = [
        r for r in rows if r.rank is None and r.group_rank is not None and r.emitter == "c10d" and _is_default_group(r)
    ]
    reports: Counter[tuple[object, ...]] = Counter()
    for row in unnamed:
        if row.event == "c10d.watchdog_timeout":
            reports[row.group_rank, row.seq, row.op, row.attempt] += row.count
    if any(n > 1 for n in reports.values()):
        return
    for row in unnamed:
        row.rank, row.rank_basis = row.group_rank, "rank in the default group"


def _is_default_group(row: Row) -> bool:
    return row.process_group in (None, "", "0", "default_pg") or row.attr("pg_desc") == "default_pg"


def _plain(text: str) -> list[int]:
    """The number that the text is, if a rank can have it."""
    return _ranks_in(text) if text.isdecimal() else []


def _ranks_in(text: str) -> list[int]:
    """The numbers in a text that ranks can have."""
    return [n for found in re.findall(r"[0-9]+", text) if (n := read_number(found)) is not None and is_rank(n)]


#: Lines that Megatron-LM prints by its first rank only (``print_rank_0``), and by its last one (``print_rank_last``).
_BY_FIRST_RANK = frozenset({"megatron.arguments", "megatron.phase", "megatron.from_scratch"})
_BY_LAST_RANK = frozenset({"megatron.iteration", "megatron.evaluation"})


def _only_printer(rows: Sequence[Row], events: frozenset[str]) -> tuple[str, int] | None:
    """The node and local rank of the one process that printed such lines; None where it is not known, or not one."""
    printers = {(r.node, r.local_rank) for r in rows if r.event in events}
    (node, local), *others = printers or {(None, None)}
    return (node, local) if node and local is not None and not others else None


def _bases_by_printers(top: Topology, rows: Sequence[Row]) -> None:
    """Bases of the nodes of the first and the last rank, told by what only these print.

    The last one has a number only where the size of the world is stated: a node whose log is missing counts too.
    """
    first, last = _only_printer(rows, _BY_FIRST_RANK), _only_printer(rows, _BY_LAST_RANK)
    if first and first[1] == 0:
        top.base_of_node.setdefault(first[0], 0)
    stated = [n for r in rows for n in _plain(r.attr("world_size"))]
    if last and stated and last[1] + 1 == top.nproc_per_node:
        base = max(stated) - top.nproc_per_node
        if base >= 0 and base not in top.base_of_node.values():
            top.base_of_node.setdefault(last[0], base)


def bases_of_nodes(top: Topology, writers: Sequence[Writer], rows: Sequence[Row]) -> None:
    """Base rank of every node (global minus local rank) and processes per node."""
    votes: dict[str, Counter[int]] = defaultdict(Counter)
    locals_seen: set[int] = set()
    things: list[Writer | Row] = [*writers, *rows]
    for thing in things:
        if thing.local_rank is not None:
            locals_seen.add(thing.local_rank)
            if thing.rank is not None and thing.node and thing.rank >= thing.local_rank:
                votes[thing.node][thing.rank - thing.local_rank] += 1
    for row in rows:
        if row.event == "torchrun.rendezvous_complete" and row.node:
            ranks = _ranks_in(row.attr("global_ranks"))
            local = _ranks_in(row.attr("local_ranks"))
            if ranks:
                votes[row.node][min(ranks) - (min(local) if local else 0)] += 3
                locals_seen.update(local)
        if row.event == "deepspeed.world":
            for host, listed in re.findall(r"'([\w.-]+)': ?\[([\d, ]*)\]", row.attr("mapping")):
                ranks = _ranks_in(listed)
                if ranks and "global_rank" in row.body and host.lower() not in LOCAL_NAMES:
                    votes[short_name(host)][min(ranks)] += 3
                    locals_seen.update(range(len(ranks)))
                    top.ranks.update({r: Rank(r) for r in ranks if r not in top.ranks})
    for node, count in votes.items():
        (base, _), *others = count.most_common()
        top.base_of_node[node] = base
        if others:
            top.contradictions.append(f"{node}: first global rank {base}, but also {others[0][0]} is stated")
    labelled: dict[str, set[int]] = defaultdict(set)
    for thing in things:
        if thing.rank is not None and thing.node and thing.node_basis == "envelope":
            labelled[thing.node].add(thing.rank)
    if locals_seen:
        top.nproc_per_node = max(locals_seen) + 1
        # A launcher may speak of some of its workers only; a node has no fewer than speak under its label.
        top.nproc_per_node = max(top.nproc_per_node, *map(len, labelled.values()), 0)
        if any(base % top.nproc_per_node for base in top.base_of_node.values()):  # not all local ranks spoke
            top.nproc_per_node = max(top.nproc_per_node, gcd(*top.base_of_node.values()))
    stated = [n for r in rows for a in ("nproc_per_node", "num_local_procs") for n in _plain(r.attr(a))]
    if stated:
        top.nproc_per_node = max(stated[0], top.nproc_per_node or 0)
    for node, own in labelled.items():
        first = min(own)
        if top.nproc_per_node == len(own) == max(own) - first + 1 and first % len(own) == 0:
            top.base_of_node.setdefault(node, first)
    hosts = _host_list(rows)
    highest = max((r.rank for r in rows if r.rank is not None), default=-1)
    if top.nproc_per_node is None and hosts and not top.tasks_are_ranks and (highest + 1) % len(hosts) == 0:
        top.nproc_per_node = (highest + 1) // len(hosts)
    _bases_by_order(top, rows)


def _bases_by_order(top: Topology, rows: Sequence[Row]) -> None:
    """Bases of nodes that state none, where an ordered host list or the gaps between stated ones leave one choice."""
    per_node = top.nproc_per_node
    if not per_node:
        return
    for row in rows:
        number = row.attr("node_rank") or row.attr("NODE_RANK") or row.attr("SLURM_NODEID") or row.attr("GROUP_RANK")
        base = (read_number(number) or 0) * per_node
        if row.node and number.isdecimal() and is_rank(base):
            top.base_of_node.setdefault(row.node, base)
    hosts = _host_list(rows)
    if all(top.base_of_node.get(h, i * per_node) == i * per_node for i, h in enumerate(hosts)):
        for i, host in enumerate(hosts):
            top.base_of_node.setdefault(host, i * per_node)
    _bases_by_printers(top, rows)
    collected = sorted(n for n in top.collected_nodes if n not in top.base_of_node)
    taken = set(top.base_of_node.values())
    # A node that nothing was collected from may have one of several places that are left.
    free = [b for b in range(0, max(taken, default=0) + 1, per_node) if b not in taken]
    free = free or [max(taken, default=0) + per_node]
    if len(collected) == len(free) == 1 and taken:
        top.base_of_node[collected[0]] = free[0]
    elif not taken and len(top.collected_nodes) == 1:
        # Nothing states an order. Only on a single node is there nothing to guess.
        top.base_of_node[next(iter(top.collected_nodes))] = 0


#: Events in which a process states its own place in the job.
OWN_RANK_EVENTS = frozenset({"jax.process", "slurm.process", "lightning.init", "c10d.init_options"})


def ranks_by_own_words(writers: Sequence[Writer], rows: Sequence[Row]) -> None:
    """A file in which one process states its rank, and no other rank speaks, is that rank's."""
    stated: dict[str, set[int]] = defaultdict(set)
    spoken: dict[str, set[int]] = defaultdict(set)
    # Where a launcher or several local ranks run below it, a pod's RANK numbers nodes.
    processes_are_pods = not any(r.event.startswith("torchrun.") or (r.local_rank or 0) > 0 for r in rows)
    for row in rows:
        if row.rank is not None:
            (stated if row.event in OWN_RANK_EVENTS else spoken)[row.file].add(row.rank)
        if row.event == "slurm.env" and processes_are_pods:
            stated[row.file].update(_plain(row.attr("RANK")))
    labelled = {w.file for w in writers if w.task is not None or w.local_rank is not None}
    for writer in writers:
        own = stated.get(writer.file, set())
        if writer.rank is None and len(own) == 1 and spoken[writer.file] <= own and writer.file not in labelled:
            writer.rank, writer.rank_basis = next(iter(own)), "stated by the process"


def ranks_of_writers(top: Topology, writers: Iterable[Writer]) -> None:
    """Global ranks of writers that are known by node and local rank."""
    single = len(top.collected_nodes) <= 1 and not top.base_of_node
    for writer in writers:
        if writer.rank is not None or writer.local_rank is None:
            continue
        base = top.base_of_node.get(writer.node) if writer.node else (0 if single else None)
        if base is not None:
            writer.rank, writer.rank_basis = base + writer.local_rank, "node and local rank"
