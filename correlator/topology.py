"""Who was there: ranks, nodes, GPUs, parallel grid, and which log belongs to whom.

Every identity in the result carries the source it was taken from. Names of one machine are folded to its short name.
A rank that nothing was collected from is in the roster with ``collected`` false; that is not the same as silent.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from correlator.grid import Grid
from correlator.hostlist import expand_hostlist, expand_ranges
from correlator.ingest import FileSummary, Ingested, Writer
from correlator.records import Row

#: Emitters whose lines state the host of the process that wrote them (others, like srun, speak about other hosts).
_OWN_HOST_EVENTS = ("torchrun.report_entry", "nccl.", "megatron.nan", "nvrx.", "kernel.")
#: Events whose bus id may be a switch, a bridge or an adapter.
_OTHER_DEVICES = frozenset({"kernel.sxid", "kernel.aer", "kernel.pcie_link"})
_NOT_A_NODE = re.compile(
    r"^(?:ranks?[-_.]?\d+.*|local[-_]?ranks?.*|global[-_]?rank.*|proc\d+|task\d+|attempt[-_]\d+|std(?:out|err)|"
    r"slurm[-_]?\d+.*|job[-_]?\d+.*|logs?\d*|run[-_]?\d+|pods?|agents?|v\d+|\d+|iter_\d+|events?\d*|[a-z]*\.?e\d+|"
    r"(?:none|\d+)_[a-z0-9_]{8}|part[-_]?\d+|train\d*|[a-z]+_\d{4}-?\d\d-?\d\d.*|\d{4}-?\d\d-?\d\d.*|dmesg\d*|gpt\d)$"
)
_LOOKS_LIKE_A_NODE = re.compile(r"^[a-z][a-z0-9]*(?:[-_.]?[a-z0-9]+)*$", re.IGNORECASE)
_LOCAL_NAMES = frozenset({"localhost", "localhost.localdomain", "127.0.0.1", "::1", "(none)", ""})


def short_name(host: str) -> str:
    """The short name of a host (``gpu-a017.example.net`` -> ``gpu-a017``); an address stays whole."""
    host = host.strip().strip("[]()'\",")
    return host if re.fullmatch(r"[\d.]+|[\da-fA-F:]*:[\da-fA-F:.]*", host) else host.split(".")[0]


@dataclass(slots=True)
class Rank:
    """One global rank of the roster. ``collected``: some writer of the logs is this rank or its node's launcher."""

    rank: int
    node: str | None = None
    local_rank: int | None = None
    pids: set[int] = field(default_factory=set)
    gpu: int | None = None
    pci_bus_id: str | None = None
    collected: bool = False
    heard: bool = False
    last_ns: int | None = None
    last_step: int | None = None
    last_place: tuple[str, int, int, str] | None = None


@dataclass
class Topology:
    """The roster and the maps the later stages join on."""

    world_size: int | None = None
    world_size_basis: str = ""
    nodes: list[str] = field(default_factory=list)
    ranks: dict[int, Rank] = field(default_factory=dict)
    nproc_per_node: int | None = None
    grid: Grid | None = None
    node_of_file: dict[str, str] = field(default_factory=dict)
    base_of_node: dict[str, int] = field(default_factory=dict)
    rank_of_pid: dict[tuple[str | None, int], int] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    collected_nodes: set[str] = field(default_factory=set)
    tasks_are_ranks: bool = False
    contradictions: list[str] = field(default_factory=list)
    gpu_uuid: dict[tuple[str | None, str], str] = field(default_factory=dict)
    gpu_serial: dict[tuple[str | None, str], str] = field(default_factory=dict)

    def ranks_on(self, node: str) -> list[int]:
        """The global ranks on a node, in order."""
        return sorted(r.rank for r in self.ranks.values() if r.node == node)

    def node_of_rank(self, rank: int) -> str | None:
        """The node of a rank, if known."""
        known = self.ranks.get(rank)
        return known.node if known else None

    def nodes_of(self, ranks: Iterable[int]) -> list[str]:
        """The distinct known nodes of some ranks, sorted."""
        return sorted({n for r in ranks if (n := self.node_of_rank(r))})

    def node_named(self, name: str | None) -> str | None:
        """The node that a host name, address or alias means, if it is one of this job's."""
        if not name:
            return None
        name = short_name(name)
        name = self.aliases.get(name, name)
        return name if name in self.nodes else None

    def rank_for_pid(self, node: str | None, pid: int | None) -> int | None:
        """The rank with this pid on this node; without a node only if the pid is the same rank everywhere."""
        if pid is None:
            return None
        if (node, pid) in self.rank_of_pid:
            return self.rank_of_pid[node, pid]
        same = {r for (n, p), r in self.rank_of_pid.items() if p == pid and (node is None or n is None)}
        return same.pop() if len(same) == 1 else None

    def rank_for_gpu(self, node: str | None, pci_bus_id: str | None) -> int | None:
        """The rank that drives this device; without a node only if the job has one node."""
        if not pci_bus_id:
            return None
        found = {r.rank for r in self.ranks.values() if r.pci_bus_id == pci_bus_id and (node is None or r.node == node)}
        return found.pop() if len(found) == 1 else None


def build_topology(ingested: Ingested, rows: Sequence[Row]) -> Topology:
    """The topology stated by all sources together; also fills ``node`` and ``rank`` of rows and writers in place."""
    top = Topology()
    _fold_node_names(ingested.writers, rows)
    _nodes_of_writers(top, ingested, rows)
    _place_rows(ingested.writers, rows)
    _tasks(top, ingested.writers, rows)
    _error_files(top, ingested.files, ingested.writers, rows)
    _default_group_ranks(rows)
    _ranks_from_rows(top, ingested.writers, rows)
    _ranks_of_writers(top, ingested.writers)
    _place_rows(ingested.writers, rows)
    _pids_and_gpus(top, rows)
    _world_size(top, rows)
    top.grid = Grid.from_rows(rows, top.world_size)
    _fill_roster(top, ingested.writers, rows)
    _join_rows(top, rows)
    return top


# -- nodes ------------------------------------------------------------------------------------------------------------


def _fold_node_names(writers: Iterable[Writer], rows: Iterable[Row]) -> None:
    for thing in (*writers, *rows):
        if thing.node:
            name = short_name(thing.node)
            thing.node = None if name.lower() in _LOCAL_NAMES else name


def _states_own_host(row: Row) -> bool:
    return bool(row.node) and any(row.event.startswith(e) for e in _OWN_HOST_EVENTS)


def _nodes_of_writers(top: Topology, ingested: Ingested, rows: Sequence[Row]) -> None:
    """Gives each writer its node: stated on its lines, by its label's other lines, by its file, or by its path."""
    known: Counter[str] = Counter()
    own_hosts: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row.node:
            known[row.node] += 1
            if _states_own_host(row):
                own_hosts[row.writer].add(row.node)
        for host in _hosts_named(row):
            known[host] += 1
    known.update(w.node for w in ingested.writers if w.node)
    by_label: dict[tuple[str, object], set[str]] = defaultdict(set)
    by_file: dict[str, set[str]] = defaultdict(set)
    labelled = {
        w.file for w in ingested.writers if w.task is not None or w.pod or (w.node and w.node_basis == "envelope")
    }
    for writer in ingested.writers:
        writer.node = writer.node or (short_name(writer.pod) if writer.pod else None)
        hosts = {writer.node} if writer.node else own_hosts.get(writer.key, set())
        if len(hosts) == 1:
            writer.node = next(iter(hosts))
            writer.node_basis = writer.node_basis or "line"
            by_label[writer.file, writer.task].add(writer.node)
        by_file[writer.file] |= hosts
    for writer in ingested.writers:
        if writer.node is None and writer.task is not None and len(by_label[writer.file, writer.task]) == 1:
            writer.node, writer.node_basis = next(iter(by_label[writer.file, writer.task])), "label"
    from_path = _nodes_from_paths(ingested.files, by_file, known) | _one_host_a_file(rows, by_file)
    for summary in ingested.files:
        hosts = by_file.get(summary.name, set())
        name = from_path.get(summary.name) or (
            next(iter(hosts)) if len(hosts) == 1 and summary.name not in labelled else None
        )
        if name:
            top.node_of_file[summary.name] = name
    for writer in ingested.writers:
        if writer.node is None and writer.file in top.node_of_file and writer.file not in labelled:
            writer.node, writer.node_basis = top.node_of_file[writer.file], "path"
    for row in rows:
        if row.event == "nccl.address" and row.node and row.attr("address"):
            top.aliases.setdefault(row.attr("address"), row.node)
    top.nodes = sorted({w.node for w in ingested.writers if w.node} | {r.node for r in rows if r.node} | set(known))
    top.collected_nodes = {w.node for w in ingested.writers if w.node}


def _one_host_a_file(rows: Sequence[Row], by_file: Mapping[str, set[str]]) -> dict[str, str]:
    """Nodes of files that say nothing of their own host, where each names one host and no two the same."""
    named: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row.node and not by_file.get(row.file):
            named[row.file].add(row.node)
    single = {file: next(iter(hosts)) for file, hosts in named.items() if len(hosts) == 1}
    return single if len(single) > 1 and len(set(single.values())) == len(single) == len(named) else {}


def _hosts_named(row: Row) -> list[str]:
    """Hosts that a line names as members of the job (host lists, launcher maps, task exits)."""
    text = row.attr("nodes") if row.event.startswith(("slurm.", "deepspeed.")) else ""
    if row.event == "deepspeed.world":
        return [h for h in re.findall(r"'([\w.-]+)': ?\[", row.attr("mapping")) if h.lower() not in _LOCAL_NAMES]
    return [short_name(h) for h in expand_hostlist(text)] if text else []


def _nodes_from_paths(
    files: Sequence[FileSummary], by_file: Mapping[str, set[str]], known: Mapping[str, int]
) -> dict[str, str]:
    """Node names in paths: a component that is a known host, or one of a family of host-like siblings."""
    short_known = {short_name(k): k for k in known}
    found: dict[str, str] = {}
    rest: list[tuple[str, list[str]]] = []
    for summary in files:
        if summary.claims.node:
            found[summary.name] = short_name(summary.claims.node)
            continue
        tokens = [short_name(t) for t in summary.claims.tokens]
        hits = [short_known[t] for t in tokens if t in short_known]
        hits = hits or [
            k for t in tokens for k in short_known.values() if re.search(rf"(?<![\w-]){re.escape(k)}(?![\w-])", t)
        ]
        if hits:
            found[summary.name] = hits[-1]
        else:
            rest.append((summary.name, tokens))
    # No line anywhere confirms these names, so only host-like names with digits count, and only where siblings differ.
    families: dict[tuple[int, str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, tokens in rest:
        if by_file.get(name):
            continue
        for depth, token in enumerate(tokens):
            plausible = _LOOKS_LIKE_A_NODE.match(token) and not _NOT_A_NODE.match(token.lower())
            if plausible and re.search(r"[a-zA-Z]", token) and re.search(r"\d", token):
                families[depth, re.sub(r"\d+", "0", re.sub(r"[a-z](?=\d)", "a", token.lower()))][token].append(name)
    siblings = {short_name(n) for n in found.values()}
    for (_, mask), members in sorted(families.items()):
        kin = any(re.sub(r"\d+", "0", re.sub(r"[a-z](?=\d)", "a", s.lower())) == mask for s in siblings)
        if len(members) > 1 or kin:
            for token, names in sorted(members.items()):
                for name in names:
                    found.setdefault(name, token)
    return found


def _place_rows(writers: Iterable[Writer], rows: Iterable[Row]) -> None:
    by_key = {w.key: w for w in writers}
    for row in rows:
        writer = by_key.get(row.writer)
        if writer is None:
            continue
        if row.node is None and writer.node:
            row.node, row.node_basis = writer.node, writer.node_basis or "topology"
        if (
            row.rank is None
            and writer.rank is not None
            and not row.event.startswith(("torchrun.", "slurm.", "kernel."))
        ):
            row.rank, row.rank_basis = writer.rank, writer.rank_basis or "topology"
        if row.local_rank is None:
            row.local_rank = writer.local_rank


# -- ranks ------------------------------------------------------------------------------------------------------------


def _tasks(top: Topology, writers: Sequence[Writer], rows: Sequence[Row]) -> None:
    """Decides whether launcher labels (``3: ``) number ranks or nodes: under a per-node launcher they number nodes.

    A number in a file's name is read like a label, unless that file holds lines of several ranks.
    """
    ranks_in_file: dict[str, set[int]] = defaultdict(set)
    for thing in (*writers, *rows):
        if thing.rank is not None and thing.rank_basis in ("line", "envelope"):
            ranks_in_file[thing.file].add(thing.rank)
    by_name = {f: len(ranks) > 1 for f, ranks in ranks_in_file.items()}
    labels = {w.task for w in writers if w.task is not None and not (by_name.get(w.file) and _task_from_name(w))}
    exits = {t for r in rows if r.event == "slurm.task_exit" for t in expand_ranges(r.attr("tasks"))}
    if not labels | exits:
        return
    launcher_inside = any(r.event.startswith("torchrun.") for r in rows) or any(
        w.task is not None and w.local_rank is not None for w in writers
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


def _error_files(top: Topology, files: Sequence[FileSummary], writers: Sequence[Writer], rows: Sequence[Row]) -> None:
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


def _default_group_ranks(rows: Sequence[Row]) -> None:
    """Reads ``[Rank n]`` as global where it can only be the default group's number.

    Before torch 2.3 the watchdog names no group. In a job of several groups equal numbers of different processes report
    one collective; where every number reports a collective once, the group spans all reporting ranks.
    """
    unnamed = [r for r in rows if r.rank is None and r.group_rank is not None and _is_default_group(r)]
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


def _ranks_from_rows(top: Topology, writers: Sequence[Writer], rows: Sequence[Row]) -> None:
    """Base rank of every node (global minus local rank) and processes per node."""
    votes: dict[str, Counter[int]] = defaultdict(Counter)
    locals_seen: set[int] = set()
    for thing in (*writers, *rows):
        if thing.local_rank is not None:
            locals_seen.add(thing.local_rank)
            if thing.rank is not None and thing.node and thing.rank >= thing.local_rank:
                votes[thing.node][thing.rank - thing.local_rank] += 1
    for row in rows:
        if row.event == "torchrun.rendezvous_complete" and row.node:
            ranks = [int(x) for x in re.findall(r"\d+", row.attr("global_ranks"))]
            local = [int(x) for x in re.findall(r"\d+", row.attr("local_ranks"))]
            if ranks:
                votes[row.node][min(ranks) - (min(local) if local else 0)] += 3
                locals_seen.update(local)
        if row.event == "deepspeed.world":
            for host, listed in re.findall(r"'([\w.-]+)': ?\[([\d, ]*)\]", row.attr("mapping")):
                ranks = [int(x) for x in re.findall(r"\d+", listed)]
                if ranks and "global_rank" in row.body and host.lower() not in _LOCAL_NAMES:
                    votes[short_name(host)][min(ranks)] += 3
    for node, count in votes.items():
        (base, _), *others = count.most_common()
        top.base_of_node[node] = base
        if others:
            top.contradictions.append(f"{node}: first global rank {base}, but also {others[0][0]} is stated")
    if locals_seen:
        top.nproc_per_node = max(locals_seen) + 1
    stated = [int(v) for r in rows for v in (r.attr("nproc_per_node"), r.attr("num_local_procs")) if v.isdigit()]
    if stated:
        top.nproc_per_node = max(stated[0], top.nproc_per_node or 0)
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
        if row.node and number.isdigit():
            top.base_of_node.setdefault(row.node, int(number) * per_node)
    hosts = _host_list(rows)
    if all(top.base_of_node.get(h, i * per_node) == i * per_node for i, h in enumerate(hosts)):
        for i, host in enumerate(hosts):
            top.base_of_node.setdefault(host, i * per_node)
    collected = sorted(n for n in top.collected_nodes if n not in top.base_of_node)
    taken = set(top.base_of_node.values())
    free = [b for b in range(0, (len(top.collected_nodes) + 1) * per_node, per_node) if b not in taken]
    if len(collected) == 1 and free and len(taken) + 1 == len(top.collected_nodes):
        top.base_of_node[collected[0]] = free[0]
    elif not taken and top.collected_nodes:
        # Nothing states an order; the launchers' usual one is that of the names. It is a guess, so it gives no ranks
        # of its own, except on a single node, where there is nothing to guess.
        if len(top.collected_nodes) == 1:
            top.base_of_node[next(iter(top.collected_nodes))] = 0


def _ranks_of_writers(top: Topology, writers: Iterable[Writer]) -> None:
    single = len(top.collected_nodes) <= 1 and not top.base_of_node
    for writer in writers:
        if writer.rank is not None or writer.local_rank is None:
            continue
        base = top.base_of_node.get(writer.node) if writer.node else (0 if single else None)
        if base is not None:
            writer.rank, writer.rank_basis = base + writer.local_rank, "node and local rank"


def _pids_and_gpus(top: Topology, rows: Sequence[Row]) -> None:
    largest = max((int(r.attr("nranks") or 0) for r in rows if r.event == "nccl.init"), default=0)
    _pids_in_spawn_order(top, rows)
    for row in rows:
        rank = row.rank
        if row.event in (
            "torchrun.worker_failed",
            "torchrun.report_entry",
            "deepspeed.spawned",
            "composer.rank_crashed",
        ):
            if rank is None and row.local_rank is not None and row.event != "composer.rank_crashed":
                base = top.base_of_node.get(row.node) if row.node else (0 if len(top.collected_nodes) <= 1 else None)
                rank = base + row.local_rank if base is not None else None
                row.rank, row.rank_basis = rank, "node and local rank"
        elif row.event == "nccl.init":
            if rank is None and row.attr("nranks") == str(largest) and row.attr("comm_rank").isdigit():
                rank = row.rank = int(row.attr("comm_rank"))
                row.rank_basis = "NCCL world communicator"
            if rank is not None and row.pci_bus_id:
                known = top.ranks.setdefault(rank, Rank(rank))
                known.pci_bus_id, known.gpu = row.pci_bus_id, row.gpu
        elif row.event in ("kernel.gpu_identity", "gpu.identity") and row.pci_bus_id:
            if row.attr("uuid"):
                top.gpu_uuid[row.node, row.pci_bus_id] = row.attr("uuid")
            if row.attr("serial"):
                top.gpu_serial[row.node, row.pci_bus_id] = row.attr("serial")
            continue
        else:
            continue
        if rank is not None and row.pid is not None:
            top.rank_of_pid[row.node, row.pid] = rank
            top.ranks.setdefault(rank, Rank(rank)).pids.add(row.pid)


def _pids_in_spawn_order(top: Topology, rows: Sequence[Row]) -> None:
    """DeepSpeed's launcher lists all its children, in the order in which it spawned them, when it kills them."""
    killed: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.event == "deepspeed.kill" and row.pid is not None:
            killed[row.file].append(row)
    for found in killed.values():
        pids = list(dict.fromkeys(r.pid for r in sorted(found, key=lambda r: r.byte_offset)))
        node = found[0].node
        base = top.base_of_node.get(node) if node else (0 if len(top.collected_nodes) <= 1 else None)
        if base is None:
            continue
        for local, pid in enumerate(pids):
            assert pid is not None
            top.rank_of_pid.setdefault((node, pid), base + local)
            top.ranks.setdefault(base + local, Rank(base + local)).pids.add(pid)


def _world_size(top: Topology, rows: Sequence[Row]) -> None:
    """The world size, from the most trusted source that states one."""
    sources: list[tuple[int, str, int]] = []
    for row in rows:
        for name, trust in (("world_size", 0), ("dist_world_size", 0), ("total", 9), ("WORLD_SIZE", 4), ("nranks", 3)):
            value = row.attr(name)
            if value.isdigit() and int(value) > 0:
                if name == "total" and row.event != "lightning.init":
                    continue
                if name == "world_size" and row.event in ("c10d.store_timeout", "c10d.clients_missing"):
                    continue
                sources.append((1 if name == "total" else trust, f"{row.event} {name}", int(value)))
    if sources:
        trust = min(t for t, _, _ in sources)
        value, basis = max((v, b) for t, b, v in sources if t == trust)
        top.world_size, top.world_size_basis = value, basis
    seen = {r.rank for r in rows if r.rank is not None} | set(top.ranks)
    seen |= {n for r in rows if r.event == "c10d.barrier_missing" for n in expand_ranges(r.attr("missing_ranks"))}
    if seen and (top.world_size is None or max(seen) >= top.world_size):
        if top.world_size is not None and top.world_size_basis != "":
            top.contradictions.append(f"world size {top.world_size} is stated, but rank {max(seen)} speaks")
        top.world_size, top.world_size_basis = max(seen) + 1, "highest rank seen"


def _fill_roster(top: Topology, writers: Sequence[Writer], rows: Sequence[Row]) -> None:
    for number in range(min(top.world_size or 0, 1 << 20)):
        top.ranks.setdefault(number, Rank(number))
    node_by_base = {base: node for node, base in top.base_of_node.items()}
    for known in top.ranks.values():
        if known.node is None and top.nproc_per_node:
            base = known.rank - known.rank % top.nproc_per_node
            known.node = node_by_base.get(base)
        if known.node and known.local_rank is None and known.node in top.base_of_node:
            known.local_rank = known.rank - top.base_of_node[known.node]
    for writer in writers:
        if writer.rank is None:
            continue
        known = top.ranks.setdefault(writer.rank, Rank(writer.rank))
        known.heard = known.collected = True
        known.node = known.node or writer.node
        if writer.last_ns is not None and (known.last_ns is None or writer.last_ns > known.last_ns):
            known.last_ns = writer.last_ns
        if writer.last_step is not None and writer.last_step > (known.last_step or -1):
            known.last_step = writer.last_step
        if known.last_place is None or (writer.file, writer.last_line) > known.last_place[:2]:
            known.last_place = (writer.file, writer.last_line, writer.last_byte_offset, writer.last_text)
    for row in rows:
        if (
            row.rank is not None
            and row.node
            and row.event.startswith(("torchrun.", "python.", "nccl.", "c10d.", "megatron.nan"))
        ):
            known = top.ranks.setdefault(row.rank, Rank(row.rank))
            known.node = known.node or row.node
    if len(top.nodes) == 1:
        for known in top.ranks.values():
            known.node = known.node or top.nodes[0]
    _nodes_between_neighbours(top)
    for known in top.ranks.values():
        known.collected = known.collected or (known.node in top.collected_nodes)
    _gpus_by_bus_order(top, rows)


def _nodes_between_neighbours(top: Topology) -> None:
    """A rank between two ranks of one node is on that node: launchers give a node consecutive ranks.

    Left out where the nodes' ranges overlap, which says that this launch did not number so.
    """
    spans: dict[str, tuple[int, int]] = {}
    for known in top.ranks.values():
        if known.node:
            low, high = spans.get(known.node, (known.rank, known.rank))
            spans[known.node] = (min(low, known.rank), max(high, known.rank))
    for known in top.ranks.values():
        if known.node is None:
            around = [node for node, (low, high) in spans.items() if low < known.rank < high]
            if len(around) == 1:
                known.node = around[0]


def _gpus_by_bus_order(top: Topology, rows: Sequence[Row]) -> None:
    """Local rank of a device by bus order, only where the node's devices are all named and as many as its ranks."""
    named: dict[str | None, set[str]] = defaultdict(set)
    for row in rows:
        if row.event.startswith(("kernel.", "gpu.")) and row.event not in _OTHER_DEVICES:
            if row.pci_bus_id:
                named[row.node].add(row.pci_bus_id)
            named[row.node].update(row.attr("devices").split())
    for node, devices in named.items():
        where = node if node else (top.nodes[0] if len(top.nodes) == 1 else None)
        ranks = top.ranks_on(where) if where else sorted(top.ranks) if len(top.nodes) <= 1 else []
        if len(ranks) == len(devices):
            for rank, device in zip(ranks, sorted(devices), strict=True):
                if top.ranks[rank].pci_bus_id is None:
                    top.ranks[rank].pci_bus_id = device
                    top.ranks[rank].gpu = rank - ranks[0]


def _join_rows(top: Topology, rows: Sequence[Row]) -> None:
    """Ranks of rows that name a process, a device or a host instead of a rank."""
    for row in rows:
        if row.event.startswith("k8s.") and row.rank is None:
            named = top.node_named((row.attr("object") or row.attr("pod")).rpartition("/")[2])
            if named:
                row.node, row.node_basis = named, "pod name"
                ranks = top.ranks_on(named)
                row.rank, row.rank_basis = (ranks[0], "pod name") if len(ranks) == 1 else (None, None)
        if row.rank is None and row.pid is not None:
            row.rank = top.rank_for_pid(row.node, row.pid)
            row.rank_basis = "pid" if row.rank is not None else None
        if row.rank is None and row.pci_bus_id and row.event.startswith(("kernel.", "gpu.")):
            row.rank = top.rank_for_gpu(row.node, row.pci_bus_id)
            row.rank_basis = "PCI bus id" if row.rank is not None else None
        if row.rank is not None and row.node is None:
            row.node, row.node_basis = top.node_of_rank(row.rank), "topology"
