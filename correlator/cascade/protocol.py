"""Causes read from the state of the collectives: who ran something else, who is missing, who waits for whom.

Keyed by process group and attempt throughout: sequence numbers of different groups say nothing about each other.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from math import prod

import networkx as nx

from correlator.cascade.findings import STACK_CONTROL, finding_for
from correlator.cascade.model import Facts, Finding
from correlator.cascade.stands import Stand, axes_of, deviants, left_its_group, outside_collective, stands, wait_graph
from correlator.hostlist import expand_ranges, fold_ranges
from correlator.records import Row

#: Events that name members which never came.
_NAMES_MISSING = (
    "c10d.barrier_missing",
    "c10d.desync_report",
    "c10d.unique_id_failed",
    "nccl.ras_missing",
    "horovod.stalled",
    "jax.task_unhealthy",
    "jax.barrier_timeout",
    "vllm.worker_died",
)


def mismatched_collective(facts: Facts) -> Iterator[Finding]:
    """The ranks of a group run different collectives: the fingerprints' majority, sister groups included."""
    rows = facts.judged("c10d.collective_mismatch")
    if not rows:
        return
    prints: dict[int, str] = {}
    groups: dict[tuple[str, ...], set[int]] = defaultdict(set)
    for row in rows:
        pair = tuple(sorted((row.attr("fingerprint_a"), row.attr("fingerprint_b"))))
        if row.rank is not None:
            groups[pair].add(row.rank)
    for row in rows:
        group = _group_of_printer(facts, row, groups)
        for side in ("a", "b"):
            number = row.attr(f"rank_{side}")
            if number.isdecimal() and int(number) < len(group):
                prints[group[int(number)]] = row.attr(f"fingerprint_{side}")
    told_by = "the majority of its peers"
    odd = _minority({rank: _essence(text) for rank, text in prints.items()})
    if not odd and facts.topology.grid is None:
        # The same call all over: then the number of calls before it tells, where nothing says that there are groups.
        odd = _minority(prints)
    if not odd and (odd := _unlike_the_model(facts, prints)):
        told_by = "its peers, whose size is that of the model"
    what = "Ranks of one process group ran different collectives"
    yield finding_for(
        facts,
        "operation mismatch",
        odd,
        [r for r in rows if r.rank in odd] + [r for r in rows if r.rank not in odd],
        trust="protocol",
        strength=0.85 if len(odd) == 1 else 0.6,
        what=what,
        why=(
            f"rank {odd[0]} ran another operation or shape than {told_by}"
            if len(odd) == 1
            else "the ranks contradict each other and no majority tells which one is wrong"
        ),
        class_="application",
        subclass="desync",
        signature=rows[0].signature or "collective-mismatch",
        control="Compare the program paths and input shapes of the two ranks at this step.",
    )


def _group_of_printer(facts: Facts, row: Row, groups: dict[tuple[str, ...], set[int]]) -> list[int]:
    """The members of the group in which a fingerprint report numbers its ranks."""
    grid = facts.topology.grid
    largest = max((int(row.attr(f"rank_{s}")) for s in "ab" if row.attr(f"rank_{s}").isdecimal()), default=0)
    if row.rank is not None and grid is not None:
        fitting = [g for axes in (("dp",), ("tp",), ("pp",)) if len(g := grid.group(row.rank, axes)) > largest]
        pair = tuple(sorted((row.attr("fingerprint_a"), row.attr("fingerprint_b"))))
        told = groups.get(pair, set())
        best = max(fitting, key=lambda g: len(told & set(g)), default=None)
        if best:
            return list(best)
    return facts.expected_ranks()


def _minority(texts: dict[int, str]) -> list[int]:
    """The ranks whose text is not the one that most have; nobody where none is the most frequent."""
    counts = Counter(texts.values())
    if len(counts) < 2 or len(texts) < 3:
        return []
    (common, most), *rest = counts.most_common()
    if rest[0][1] == most:
        return []
    return sorted(rank for rank, text in texts.items() if text != common)


_SHAPE = re.compile(r"TensorShape=\[([\d, ]{1,200})\]")


def _unlike_the_model(facts: Facts, prints: dict[int, str]) -> list[int]:
    """Where only some ranks' calls have as many elements as the program printed for its model: the others.

    A sum of all gradients has that size.
    """
    stated = (r.attr("parameters") for r in facts.events("megatron.param_count"))
    counts = {int(n) for n in stated if n.isdecimal()}
    shapes = {rank: _SHAPE.search(text) for rank, text in prints.items()}
    sizes = {rank: prod(int(n) for n in shape[1].split(",") if n.strip()) for rank, shape in shapes.items() if shape}
    unlike = sorted(rank for rank, size in sizes.items() if size not in counts)
    return unlike if len(unlike) < len(sizes) == len(prints) else []


def _essence(fingerprint: str) -> str:
    """A fingerprint without its sequence number, which differs between sister groups by chance."""
    return fingerprint.partition("OpType=")[2] or fingerprint


def named_as_missing(facts: Facts) -> Iterator[Finding]:
    """A barrier or a desync report names the members that never came; the numbers are ranks of that group."""
    votes: dict[int, list[Row]] = defaultdict(list)
    for row in facts.judged(*_NAMES_MISSING):
        stated = row.attr("missing_ranks") or row.attr("lagging_ranks") or row.attr("tasks") or row.attr("root")
        if row.event == "c10d.unique_id_failed" and "imeout" not in row.attr("reason"):
            continue  # the store went away, which says nothing about the group's root
        listed = expand_ranges(stated.replace(" ", ""))
        if ready := expand_ranges(row.attr("ready_ranks")):
            listed = [r for r in facts.expected_ranks() if r not in ready]
        for rank in global_ranks(facts, row, listed):
            votes[rank].append(row)
    if not votes:
        return
    # A rank whose own group contradicts itself raised that and left; the barrier of a wider group only follows.
    contradicted = {r.rank for r in facts.judged("c10d.collective_mismatch")}
    if votes.keys() <= contradicted:
        return
    # A rank that itself reports missing members waited, so it is not the one they wait for.
    waiting = {r.rank for r in facts.judged("c10d.barrier_missing") if r.rank is not None}
    silent = {r: rows for r, rows in votes.items() if r not in waiting} or votes
    rows = [row for found in silent.values() for row in found]
    unique = list({(r.file, r.byte_offset): r for r in rows}.values())
    who = sorted(silent)
    yield finding_for(
        facts,
        "named as missing",
        who,
        unique,
        trust="protocol",
        strength=0.75,
        what=f"Rank{'s' if len(who) > 1 else ''} {fold_ranges(who)} never reached the collective",
        why="the waiting ranks name the members that did not come",
        signature=_missing_signature(facts, who),
        silent=True,
        control="A stack dump of the missing rank while it hangs (py-spy dump --pid PID) shows where it stands.",
    )


def _missing_signature(facts: Facts, who: Sequence[int]) -> str:
    collected = all(facts.topology.ranks[r].collected for r in who if r in facts.topology.ranks)
    return "rank-hang" if collected else "ranks-missing-at-barrier"


def global_ranks(facts: Facts, row: Row, group_ranks: Sequence[int]) -> list[int]:
    """Global ranks of group ranks. The printer's own group rank tells which group it is where a grid is known."""
    grid = facts.topology.grid
    axes = axes_of(row.process_group or "") or axes_of(row.attr("pg_desc"))
    printer = 0 if row.event == "c10d.barrier_missing" else row.group_rank
    # A printer whose number in the group is not its own rank speaks of a smaller group than that of all ranks.
    worldwide = printer is None or row.rank is None or printer == row.rank
    as_they_are = [r for r in group_ranks if worldwide and r in facts.topology.ranks]
    if grid is None or row.rank is None:
        return as_they_are
    if axes is None:
        stand = stands(facts).get(row.rank)
        by_call = axes_of(stand.text) if stand else None
        choices = [by_call] if by_call else [("tp",), ("dp",), ("pp",), ("tp", "pp"), tuple(grid.axes)]
        fitting = [
            g
            for a in choices
            if len(g := grid.group(row.rank, a)) > max([*group_ranks, 0])
            and (printer is None or g[printer] == row.rank)
        ]
        if not fitting:
            return as_they_are
        group = fitting[0]
    else:
        group = grid.group(row.rank, axes)
    return [group[r] for r in group_ranks if r < len(group)]


_NAMED = re.compile(r"\b[Rr]ank[ =:]*(\d+)\b")
_DISAGREES = re.compile(r"differ|mismatch|inconsisten|disagree|not (?:equal|the same)|diverge|unequal", re.IGNORECASE)


def named_by_all(facts: Facts) -> Iterator[Finding]:
    """Every rank raises the same text, and the text names one rank as the one that differs."""
    texts: dict[str, dict[int, Row]] = defaultdict(dict)
    for row in facts.judged("python.exception"):
        if row.rank is not None and _DISAGREES.search(row.body):
            texts[row.body].setdefault(row.rank, row)
    for text, raised in texts.items():
        named = {int(n) for n in _NAMED.findall(text)}
        if len(raised) >= 2 and len(named) == 1 and named <= set(facts.expected_ranks()):
            (rank,) = named
            yield finding_for(
                facts,
                "named by all",
                [rank],
                list(raised.values()),
                trust="local",
                strength=0.72,
                what=f"Rank {rank} differs from its peers",
                why="all ranks raise the same text, which names this one",
                class_="application",
                subclass="desync",
                signature="collective-mismatch",
                control="Compare the state of that rank with a peer's at this step.",
            )


def sizes_disagree(facts: Facts) -> Iterator[Finding]:
    """A receiver got more or less than it expected: two ranks called one collective with different sizes.

    Who prints it has the smaller buffer, which tells nothing about who is wrong, so nobody is named.
    """
    rows = facts.judged("gloo.size_mismatch")
    if rows:
        yield finding_for(
            facts,
            "sizes disagree",
            [],
            rows,
            trust="protocol",
            strength=0.62,
            what="Two ranks called one collective with different sizes or types",
            why="a receiver got a message of another size than it expects; the printer is not the one at fault by that",
            class_="application",
            subclass="desync",
            scope="none",
            signature="collective-mismatch",
            control="Run once with TORCH_DISTRIBUTED_DEBUG=DETAIL: it names the ranks and their shapes.",
        )


def wait_for(facts: Facts) -> Iterator[Finding]:
    """The sink of the wait-for graph: the one everybody waits for and who waits for nobody."""
    places = stands(facts)
    if len(places) < 2:
        return
    graph = wait_graph(facts, places)
    if not graph.number_of_edges():
        return
    order = nx.condensation(graph)
    ends = [set(order.nodes[n]["members"]) for n in order if order.out_degree(n) == 0]
    quiet = sorted(r for end in ends if len(end) == 1 for r in end if r not in places and graph.in_degree(r))
    # Who aborted saw something of its own; it is neither silent nor known to be outside of the call.
    quiet = [r for r in quiet if not any(e.code == -6 for e in facts.exits.get(r, ()))]
    if any(not facts.topology.ranks[r].collected for r in quiet):
        # Not collected is not silent: the one they wait for may stand in a call of its own and say so elsewhere.
        quiet = []
    nodes = facts.topology.nodes_of(quiet)
    whole_node = len(nodes) == 1 and quiet == facts.topology.ranks_on(nodes[0])
    if len(quiet) == 1 or whole_node:
        yield _waited_for(facts, quiet, places, graph)
    for cycle in ends:
        ahead = left_its_group(facts, places, cycle) if len(cycle) == 2 else []
        odd = ahead or (deviants(facts, places, cycle) if len(cycle) > 1 else [])
        if len(odd) == 1:
            left = places[next(iter(cycle - set(ahead)))] if ahead else None
            yield _deviant(facts, places[odd[0]], left)


def _waited_for(facts: Facts, quiet: Sequence[int], places: dict[int, Stand], graph: nx.DiGraph) -> Finding:
    idle = outside_collective(facts)
    rows = [idle[r] for r in quiet if r in idle]
    rows = rows or [places[r].row for r in sorted({p for q in quiet for p in graph.predecessors(q)})]
    # A sibling's failure makes the launcher stop a rank before it can speak; then its silence says little.
    stopped = any(e.code == -15 for r in quiet for e in facts.exits.get(r, ())) and not set(quiet) & set(idle)
    # Where the other nodes' launchers say how their ranks ended and this one's words are not there, nobody knows.
    untold = bool(facts.nodes_with_epitaph) and not set(facts.topology.nodes_of(quiet)) & facts.nodes_with_epitaph
    who = f"Rank{'s' if len(quiet) > 1 else ''} {fold_ranges(quiet)}"
    return finding_for(
        facts,
        "everybody waits for it",
        quiet,
        rows,
        trust="protocol",
        strength=0.5 if stopped else 0.45 if untold and len(quiet) > 1 else 0.72,
        what=f"{who} never entered the call that the peers wait in",
        why="the chain of ranks that wait for each other ends at this one",
        silent=True,
        signature="rank-hang",
        control=STACK_CONTROL,
    )


def _deviant(facts: Facts, stand: Stand, left: Stand | None) -> Finding:
    """The rank of a cycle that stands where it should not; ``left``: the one whose call it passed without entering."""
    place = stand.site.rpartition("/")[2]
    return finding_for(
        facts,
        "went on without its group" if left else "waits where nobody follows",
        [stand.rank],
        [stand.row, left.row] if left else [stand.row],
        trust="protocol",
        strength=0.5 if left else 0.62,
        what=f"Rank {stand.rank} "
        + ("went past a call of its group" if left else "waits in a call that no other member of its group entered"),
        why=f"it stands at {place} while rank {left.rank} still waits for it at {left.site.rpartition('/')[2]}"
        if left
        else f"it stands at {place} while its sister ranks stand elsewhere",
        silent=True,
        class_="application",
        subclass="desync",
        signature="collective-desync",
        control="Run once with TORCH_DISTRIBUTED_DEBUG=DETAIL: it compares the calls of all ranks before each one.",
    )
