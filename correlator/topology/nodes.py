"""Which machine each log belongs to: names on lines, on labels, in paths; one machine has one name."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from correlator.hostlist import expand_hostlist, expand_ranges
from correlator.ingest import FileSummary, Ingested, Writer
from correlator.records import Row
from correlator.topology.model import LOCAL_NAMES, Topology, is_name, short_name

#: Emitters whose lines state the host of the process that wrote them (others, like srun, speak about other hosts).
_OWN_HOST_EVENTS = ("torchrun.report_entry", "nccl.", "megatron.nan", "nvrx.", "kernel.")
_NOT_A_NODE = re.compile(
    r"^(?:ranks?[-_.]?\d+.*|local[-_]?ranks?.*|global[-_]?rank.*|proc[-_]?\d+|task[-_]?\d+|attempt[-_]\d+|std(?:out|err)|"
    r"(?:runs?|exp|experiment|trial|version|epoch|step|checkpoint|ckpt|seed|fold|shard|retry|restart)[-_.]?\d+(?:[-_]\d+)*|"
    r"slurm[-_]?\d+.*|job[-_]?\d+.*|logs?\d*|pods?|agents?|v\d+|\d+|iter_\d+|events?\d*|[a-z]*\.[eo]\d+|"
    r"(?:none|\d+)_[a-z0-9_]{8}|part[-_]?\d+|train\d*|[a-z]+_\d{4}-?\d\d-?\d\d.*|\d{4}-?\d\d-?\d\d.*|dmesg\d*)$"
)
#: hgx-31.dmesg · dmesg-hgx-31.txt: a kernel log that bears the name of its host
_HOST_OF_KERNEL_LOG = re.compile(
    r"(?:(?P<before>[\w-]+)[._-])?(?:dmesg|kern|kernel|messages|syslog|journal|journalctl)(?:[._-](?P<behind>[\w-]+))?"
)
#: The replica types of training operators in Kubernetes, as they stand in the names of pods.
_REPLICA = re.compile(r"(?<![a-z0-9])(?:master|worker|launcher|chief|head)(?![a-z])")
_ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}$")
_LOOKS_LIKE_A_NODE = re.compile(r"^[a-z][a-z0-9]*(?:[-_.]?[a-z0-9]+)*$", re.IGNORECASE)


def fold_node_names(writers: Iterable[Writer], rows: Iterable[Row]) -> None:
    """Folds every stated host to its short name, and names that tell nothing to None."""
    things: list[Writer | Row] = [*writers, *rows]
    for thing in things:
        if thing.node:
            name = short_name(thing.node)
            thing.node = name if is_name(name) and name.lower() not in LOCAL_NAMES else None


def _states_own_host(row: Row) -> bool:
    return bool(row.node) and any(row.event.startswith(e) for e in _OWN_HOST_EVENTS)


def fold_addresses(writers: Sequence[Writer], rows: Sequence[Row]) -> None:
    """Replaces an address by the host name that the processes labelled with it state, where both are one to one."""
    label = {w.key: w.node for w in writers if w.node and _ADDRESS.match(w.node)}
    names: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row.node and _states_own_host(row) and row.writer in label and not _ADDRESS.match(row.node):
            names[label[row.writer]].add(row.node)
    folded = {address: min(found) for address, found in names.items() if len(found) == 1}
    if len(set(folded.values())) < len(folded):
        return
    things: list[Writer | Row] = [*writers, *rows]
    for thing in things:
        thing.node = folded.get(thing.node, thing.node) if thing.node else thing.node


def nodes_of_writers(top: Topology, ingested: Ingested, rows: Sequence[Row]) -> None:
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
    numbered = {f.name: f.claims.task for f in ingested.files}
    labelled = {
        w.file
        for w in ingested.writers
        if w.pod or (w.task is not None and w.task != numbered[w.file]) or (w.node and w.node_basis == "envelope")
    }
    for writer in ingested.writers:
        writer.node = writer.node or (short_name(writer.pod) if writer.pod and is_name(writer.pod) else None)
        hosts = {writer.node} if writer.node else own_hosts.get(writer.key, set())
        if len(hosts) == 1:
            writer.node = next(iter(hosts))
            writer.node_basis = writer.node_basis or "line"
            by_label[writer.file, writer.task].add(writer.node)
        by_file[writer.file] |= hosts
    for row in rows:
        if row.event == "slurm.task_exit" and row.node:
            for task in expand_ranges(row.attr("tasks")):
                by_label[row.file, task].add(row.node)
    _labels_left_over(ingested.writers, rows, by_label)
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
    # One file of a whole step may bear the name of its first node; several files of different nodes hold their own.
    one_each = len({top.node_of_file[f] for f in labelled if f in top.node_of_file}) > 1
    for writer in ingested.writers:
        if writer.node is None and writer.file in top.node_of_file and (one_each or writer.file not in labelled):
            writer.node, writer.node_basis = top.node_of_file[writer.file], "path"
    for row in rows:
        if row.event == "nccl.address" and row.node and row.attr("address"):
            top.aliases.setdefault(row.attr("address"), row.node)
    for row in rows:
        if row.emitter == "fr" and row.node is None and row.file in from_path:
            row.node, row.node_basis = from_path[row.file], "path"
    top.collected_nodes = {w.node for w in ingested.writers if w.node} | set(top.node_of_file.values())
    top.nodes = sorted(top.collected_nodes | {r.node for r in rows if r.node} | set(known))


def _labels_left_over(
    writers: Sequence[Writer], rows: Sequence[Row], by_label: dict[tuple[str, object], set[str]]
) -> None:
    """In a launcher's stream that names one host more than its labels have, that host is the labels' that have none.

    As many of them must be left as each other host has, so that nothing of another, unnamed host is among them.
    """
    named: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row.event in ("slurm.task_exit", "slurm.node_failure") and row.node:
            named[row.file].add(row.node)
    for file, hosts in named.items():
        labels = {w.task for w in writers if w.file == file and w.task is not None}
        placed = {task: next(iter(by_label[file, task])) for task in labels if len(by_label[file, task]) == 1}
        left, free = labels - placed.keys(), hosts - set(placed.values())
        if len(free) == 1 and set(Counter(placed.values()).values()) == {len(left)}:
            for task in left:
                by_label[file, task] = set(free)


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
    text = row.attr("nodes") if row.event.startswith(("slurm.", "deepspeed.", "lsf.")) else ""
    if row.event == "deepspeed.world":
        found = re.findall(r"'([\w.-]+)': ?\[", row.attr("mapping"))
        return [h for h in found if h.lower() not in LOCAL_NAMES and is_name(h)]
    return [name for h in expand_hostlist(text) if is_name(name := short_name(h))] if text else []


def _nodes_from_paths(
    files: Sequence[FileSummary], by_file: Mapping[str, set[str]], known: Mapping[str, int]
) -> dict[str, str]:
    """Node names in paths: a component that is a known host, or one of a family of host-like names."""
    short_known = {short_name(k): k for k in known}
    written = set(known)
    found: dict[str, str] = {}
    rest: list[tuple[str, list[tuple[tuple[int, int], str]]]] = []
    for summary in files:
        if summary.claims.node and is_name(short_name(summary.claims.node)):
            found[summary.name] = short_name(summary.claims.node)
            continue
        parts = _parts(summary.claims.tokens)
        hits = [short_known[t] for _, t in parts if t in short_known]
        hits = hits or [name for _, t in parts for name in re.findall(r"[\w-]+", t) if name in written]
        named = _host_of_kernel_log(summary)
        if hits:
            found[summary.name] = hits[-1]
        elif named and not by_file.get(summary.name):
            found[summary.name] = named
        elif not by_file.get(summary.name):
            dump = summary.emitters == ("fr",)  # its own name numbers ranks
            rest.append((summary.name, _parts(_components(summary.name)[: -1 if dump else None])))
    # No line anywhere confirms these names, so only host-like ones count: where siblings differ, where they look like a
    # known host, or where a folder gathers several files.
    families: dict[tuple[tuple[int, int], str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, parts in rest:
        for slot, token in parts:
            shape = _host_shape(token)
            if shape:
                families[slot, shape][token].append(name)
    shapes = {_host_shape(short_name(n)) for n in found.values()}
    for (_, shape), members in sorted(families.items()):
        folder = all(f"/{token}/" in f"/{name}" for token, names in members.items() for name in names)
        if len(members) > 1 or shape in shapes or (folder and any(len(names) > 1 for names in members.values())):
            for token, names in sorted(members.items()):
                for name in names:
                    found.setdefault(name, token)
    hosts = set(found.values())
    for name, parts in rest:
        hits = [t for _, t in parts if t in hosts]
        if hits:
            found.setdefault(name, hits[-1])
    return found


def _host_of_kernel_log(summary: FileSummary) -> str | None:
    """The host in the name of a file that the kernel alone writes, where one part of the name looks like a host's.

    Lines of no known emitter that merely sound like an error may stand in it, too.
    """
    last = re.sub(r"(?:\.(?:log|txt|gz|zst|xz|bz2))+$", "", summary.name.rpartition("/")[2])
    match = _HOST_OF_KERNEL_LOG.fullmatch(last)
    if not {"kernel"} <= set(summary.emitters) <= {"kernel", "log"} or match is None:
        return None
    hosts = [t for t in match.groups() if t and re.search(r"\d", t) and _host_shape(t)]
    return hosts[0] if len(hosts) == 1 else None


def _components(name: str) -> list[str]:
    """Folders of a path, and the file's name without its endings."""
    *folders, last = name.split("/")
    return [*folders, re.sub(r"(?:\.(?:log|out|err|txt|gz|zst|xz|bz2|journal|dmesg|syslog|jsonl?))+$", "", last)]


def _parts(tokens: Sequence[str]) -> list[tuple[tuple[int, int], str]]:
    """Path components and what dots separate in them, each with its place."""
    return [((depth, i), part) for depth, t in enumerate(tokens) for i, part in enumerate(t.split(".")) if part]


def _host_shape(token: str) -> str | None:
    """The shape that hosts of one naming scheme share (``gpu-a017`` -> ``gpu-a0``); None for what is hardly a host."""
    lower = token.lower()
    if not _LOOKS_LIKE_A_NODE.match(token) or _NOT_A_NODE.match(lower) or not re.search(r"[a-z]", lower):
        return None
    lower = _REPLICA.sub("worker", lower)
    if re.search(r"\d", lower):
        return re.sub(r"\d+", "0", re.sub(r"[a-z](?=\d)", "a", lower))
    return re.sub(r"[a-z]$", "a", lower) if re.fullmatch(r"[a-z]{2,}[-_][a-z]", lower) else None


def place_rows(writers: Iterable[Writer], rows: Iterable[Row]) -> None:
    """Gives rows the node, rank and local rank of their writer where they state none."""
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
