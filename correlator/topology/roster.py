"""The roster itself: processes, devices, world size, last signs of life, and rows that name a process or a device."""

from __future__ import annotations

import signal
from collections import defaultdict
from collections.abc import Container, Sequence

from correlator.hostlist import expand_ranges
from correlator.ingest import FileSummary, Writer
from correlator.records import Row
from correlator.topology.model import HIGHEST_SEEN, Rank, Topology, is_name
from correlator.topology.ranks import ABOUT_A_WORKER
from correlator.untrusted import is_rank, read_number

#: Events that state a rank with its process id.
_PROCESS_EVENTS = ("ray.worker_rank", "vllm.parallel_rank", "slurm.process")
#: The last words of a process that a library aborts (SIGABRT).
_ABORTING = frozenset({"cpp.terminate", "cpp.heap_corruption", "gpu.hsa_fault"})
#: Attributes in which launchers and schedulers state the number of nodes.
_NODE_COUNTS = ("group_world_size", "nnodes", "NNODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES")
#: Events whose bus id may be a switch, a bridge or an adapter.
_OTHER_DEVICES = frozenset({"kernel.sxid", "kernel.aer", "kernel.pcie_link"})


#: Attributes that state a world size, the most trusted with the smallest number.
_SIZE_TRUST = {"world_size": 0, "dist_world_size": 0, "nranks": 3, "WORLD_SIZE": 4, "total": 9}


def _base_in_file(rows: Sequence[Row], file: str) -> int | None:
    """The first of the ranks that the children of Lightning's launcher state in its file, if they are a block."""
    stated = {r.rank for r in rows if r.event == "lightning.init" and r.file == file and r.rank is not None}
    return min(stated) if stated and max(stated) - min(stated) + 1 == len(stated) else None


def pids_and_gpus(top: Topology, rows: Sequence[Row]) -> None:
    """Fills the maps from processes and devices to ranks."""
    sizes = [read_number(r.attr("nranks")) or 0 for r in rows if r.event == "nccl.init"]
    largest = max((size for size in sizes if is_rank(size - 1)), default=0)
    _pids_in_spawn_order(top, rows)
    for row in rows:
        rank = row.rank
        if row.event in (
            "torchrun.worker_failed",
            "torchrun.report_entry",
            "deepspeed.spawned",
            "composer.rank_crashed",
            "lightning.child_died",
            "python.exception",  # of a process that torch.multiprocessing.spawn numbered
            "spawn.process_exited",
            *_PROCESS_EVENTS,
        ):
            if rank is None and row.local_rank is not None and row.event != "composer.rank_crashed":
                base = top.base_of_node.get(row.node) if row.node else (0 if len(top.collected_nodes) <= 1 else None)
                if row.event == "lightning.child_died" and (stated := _base_in_file(rows, row.file)) is not None:
                    base = stated
                rank = base + row.local_rank if base is not None else None
                row.rank, row.rank_basis = rank, "node and local rank"
        elif row.event == "nccl.init":
            number = read_number(row.attr("comm_rank"))
            if row.attr("nranks") == str(largest) and number is not None and number < largest:
                rank = row.rank = number
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
    """DeepSpeed's launcher lists all its children, in the order in which it spawned them, when it kills them.

    A list that is shorter than the command which it then prints tells was torn, and numbers nobody.
    """
    killed: dict[tuple[str, str | None], list[Row]] = defaultdict(list)  # of pdsh's stream, those of each node
    least: dict[tuple[str, str | None], int] = {}
    for row in rows:
        if row.event == "deepspeed.return_code" and (last := read_number(row.attr("last_local_rank"))) is not None:
            least[row.file, row.node] = last + 1
        if row.event == "deepspeed.kill" and row.pid is not None:
            killed[row.file, row.node].append(row)
    for place, found in killed.items():
        pids = list(dict.fromkeys(r.pid for r in sorted(found, key=lambda r: r.byte_offset)))
        node = found[0].node
        base = top.base_of_node.get(node) if node else (0 if len(top.collected_nodes) <= 1 else None)
        if base is None or len(pids) < least.get(place, 0):
            continue
        for local, pid in enumerate(pids):
            assert pid is not None
            top.rank_of_pid.setdefault((node, pid), base + local)
            top.ranks.setdefault(base + local, Rank(base + local)).pids.add(pid)


def ranks_of_files(top: Topology, files: Sequence[FileSummary], writers: Sequence[Writer]) -> None:
    """Ranks that a file's name or its lines state, also where they printed nothing of note or nothing at all."""
    for rank in {f.claims.rank for f in files} | {w.rank for w in writers}:
        if rank is not None:
            top.ranks.setdefault(rank, Rank(rank)).collected = True


def ranks_whose_own_file_is_missing(
    top: Topology, files: Sequence[FileSummary], writers: Sequence[Writer], damaged: Container[str] = ()
) -> None:
    """Marks ranks as not collected where each rank of their node writes a file of its own and theirs is not there.

    An empty file is there; a damaged one of which nothing could be read is not. Where errors go to a stream of their
    own (``stderr.log``) that one is asked for; lines of the rank in a stream that others share will do.
    """
    claims = {f.name: f.claims for f in files}
    own: dict[int, set[str | None]] = defaultdict(set)
    for summary in files:
        if summary.name in damaged and not summary.lines:
            continue
        rank, local = summary.claims.rank, summary.claims.local_rank
        base = top.base_of_node.get(top.node_of_file.get(summary.name, ""))
        if rank is None and local is not None and base is not None:
            rank = base + local
        if rank is not None:
            own[rank].add(summary.claims.stream)
    elsewhere = set()
    for writer in writers:
        if writer.rank is None:
            continue
        if claims[writer.file].rank is None and claims[writer.file].local_rank is None:
            elsewhere.add(writer.rank)
        else:
            own[writer.rank].add(claims[writer.file].stream)
    split = any("stderr" in streams for streams in own.values())
    there = {rank for rank, streams in own.items() if not split or streams - {"stdout"}} | elsewhere
    nodes = {top.ranks[rank].node for rank in own if rank in top.ranks} - {None}
    for known in top.ranks.values():
        if known.node in nodes and known.rank not in there:
            known.collected = False


def find_world_size(top: Topology, rows: Sequence[Row]) -> None:
    """The world size, from the most trusted source that states one."""
    sources: list[tuple[int, str, int]] = []
    for row in rows:
        for name in _SIZE_TRUST.keys() & row.attributes.keys():
            trust = _SIZE_TRUST[name]
            if value := read_number(row.attr(name)):
                if name == "total" and row.event != "lightning.init":
                    continue
                if name == "world_size" and row.event in ("c10d.store_timeout", "c10d.clients_missing"):
                    continue
                sources.append((1 if name == "total" else trust, f"{row.event} {name}", value))
    for size in sorted({v for _, _, v in sources if not is_rank(v - 1)}):
        top.contradictions.append(f"world size {size} is stated, which no job has")
    sources = [source for source in sources if is_rank(source[2] - 1)]
    if sources:
        trust = min(t for t, _, _ in sources)
        top.world_size, top.world_size_basis = max((v, b) for t, b, v in sources if t == trust)
    seen = {r.rank for r in rows if r.rank is not None} | set(top.ranks)
    seen |= {n for r in rows for n in expand_ranges(r.attr("missing_ranks"))}
    seen |= {n for r in rows if r.event.startswith("jax.") for n in expand_ranges(r.attr("tasks"))}
    seen = set(filter(is_rank, seen))
    if seen and (top.world_size is None or max(seen) >= top.world_size):
        if top.world_size is not None and top.world_size_basis != "":
            top.contradictions.append(f"world size {top.world_size} is stated, but rank {max(seen)} speaks")
        top.world_size, top.world_size_basis = max(seen) + 1, HIGHEST_SEEN


def _equal_blocks(top: Topology) -> None:
    """Bases of nodes whose known ranks lie in equal blocks of the world, one each: a launcher's block distribution.

    A lone node must have rank 0: others may be there that nothing names.
    """
    blocks: dict[str, set[int]] = defaultdict(set)
    size, rest = divmod(top.world_size or 0, len(top.nodes) or 1)
    if top.nproc_per_node or not size or rest:
        return
    for known in top.ranks.values():
        if known.node:
            blocks[known.node].add(known.rank // size)
    if len(blocks) == 1 and not top.ranks[0].node:
        return
    if set(blocks) == set(top.nodes) and sorted(map(sorted, blocks.values())) == [[n] for n in range(len(blocks))]:
        top.nproc_per_node = size
        for node, (block,) in blocks.items():
            top.base_of_node.setdefault(node, block * size)


def fill_roster(top: Topology, writers: Sequence[Writer], rows: Sequence[Row]) -> None:
    """Completes the roster: every rank up to the world size, its node, and its last sign of life."""
    for number in range(top.world_size or 0):
        top.ranks.setdefault(number, Rank(number))
    _equal_blocks(top)
    _place_by_bases(top)
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
            and row.event.startswith(("torchrun.", "python.", "nccl.", "c10d.", "fr.", "megatron.nan"))
        ):
            known = top.ranks.setdefault(row.rank, Rank(row.rank))
            known.node = known.node or row.node
            known.heard = known.heard or row.rank_basis == "envelope"
    if not top.base_of_node:
        _equal_blocks(top)
        _place_by_bases(top)
    if len(top.nodes) == 1 and not _has_other_nodes(top, rows) and not _only_in_cluster_events(top.nodes[0], rows):
        for known in top.ranks.values():
            known.node = known.node or top.nodes[0]
    _nodes_between_neighbours(top)
    for known in top.ranks.values():
        known.collected = known.collected or (known.node in top.collected_nodes)
    _gpus_by_bus_order(top, rows)


def _place_by_bases(top: Topology) -> None:
    """Node and local rank of ranks that state none, from the bases of the nodes."""
    node_by_base = {base: node for node, base in top.base_of_node.items()}
    for known in top.ranks.values():
        if known.node is None and top.nproc_per_node:
            base = known.rank - known.rank % top.nproc_per_node
            known.node = node_by_base.get(base)
        if known.node and known.local_rank is None and known.node in top.base_of_node:
            known.local_rank = known.rank - top.base_of_node[known.node]


def _only_in_cluster_events(node: str, rows: Sequence[Row]) -> bool:
    """Whether nothing but the cluster's own events names a node: they are about any node, not the one of these logs."""
    emitters = {row.emitter for row in rows if row.node == node}
    return emitters == {"k8s"}


def _has_other_nodes(top: Topology, rows: Sequence[Row]) -> bool:
    """Whether the job has more nodes than the one that is named: ranks that nothing places may be on those.

    That holds where a launcher states so, where the node does not begin with rank 0, where its launcher had fewer
    processes than the job has ranks, and where only the scheduler's lines about the ends of single tasks name the node.
    """
    counts = [r.attr(name) for r in rows for name in _NODE_COUNTS]
    if top.base_of_node.get(top.nodes[0], 0) or any(c.isdecimal() and int(c) > 1 for c in counts):
        return True
    # A launcher names all its processes when it stops: those that failed and those that it had to stop.
    workers = {r.pid for r in rows if r.event in ABOUT_A_WORKER and r.pid is not None}
    if top.nproc_per_node and len(workers) == top.nproc_per_node < (top.world_size or 0):
        return True
    about = [r for r in rows if r.node == top.nodes[0]]
    return bool(about) and all(r.event == "slurm.task_exit" or r.node_basis == "label" for r in about)


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


def _not_ready(row: Row) -> bool:
    return row.attr("reason") == "NodeNotReady"


def join_rows(top: Topology, rows: Sequence[Row]) -> None:
    """Ranks of rows that name a process, a device or a host instead of a rank."""
    lost = {r.node for r in rows if r.event == "k8s.event" and r.attr("object").startswith("node/") and _not_ready(r)}
    for row in rows:
        if row.event.startswith("k8s.") and row.rank is None:
            kind, _, name = (row.attr("object") or f"pod/{row.attr('pod')}").rpartition("/")
            named = top.node_named(name)
            if kind == "pod" and is_name(name):
                # A pod that never ran has no log of its own and is named all the same.
                row.node, row.node_basis = named or name, "pod name"
                ranks = top.ranks_on(named or name)
                row.rank, row.rank_basis = (ranks[0], "pod name") if len(ranks) == 1 else (None, None)
                if len(lost) == 1 and _not_ready(row):  # what is said of the pod is about the machine that it runs on
                    row.node, row.node_basis = next(iter(lost)), "event of its node"
        if row.rank is None and row.pid is not None:
            row.rank = top.rank_for_pid(row.node, row.pid)
            row.rank_basis = "pid" if row.rank is not None else None
        if row.rank is None and row.pci_bus_id and row.event.startswith(("kernel.", "gpu.")):
            row.rank = top.rank_for_gpu(row.node, row.pci_bus_id)
            row.rank_basis = "PCI bus id" if row.rank is not None else None
        if row.rank is not None and row.node is None:
            row.node, row.node_basis = top.node_of_rank(row.rank), "topology"
    _last_words(rows)


def _last_words(rows: Sequence[Row]) -> None:
    """What C and C++ libraries print when they abort names no rank; it is of the one that its launcher saw abort."""
    aborted: dict[tuple[str, int | None], set[int]] = defaultdict(set)
    for row in rows:
        if row.event in ABOUT_A_WORKER and row.rank is not None and row.exit_code == -signal.SIGABRT:
            aborted[row.file, row.attempt].add(row.rank)
    for row in rows:
        ranks = aborted.get((row.file, row.attempt), set())
        if row.event in _ABORTING and row.rank is None and len(ranks) == 1:
            row.rank, row.rank_basis = next(iter(ranks)), "launcher report"
