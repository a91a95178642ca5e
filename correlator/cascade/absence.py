"""Causes that show only in what is not there: a hung process, a silent rank, a node without a last word.

"Not collected" is never "silent": only ranks whose own logs, or whose launcher's, were read can be silent.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from correlator.cascade.findings import STACK_CONTROL, finding_for, spoken
from correlator.cascade.model import Facts, Finding
from correlator.cascade.stands import stands, wait_graph
from correlator.diagnosis import FailureClass
from correlator.hostlist import expand_hostlist, fold_ranges
from correlator.records import Row
from correlator.topology.model import Rank, short_name

_TIMEOUTS = ("c10d.watchdog_timeout", "c10d.blocking_wait_timeout", "gloo.timeout", "c10d.store_timeout")
PEER_LOST = ("gloo.peer_closed", "gloo.peer_reset", "gloo.peer_unreachable", "nccl.socket_error")


@dataclass(frozen=True, slots=True)
class Activity:
    """What a busy rank was doing, and what follows from it."""

    name: str
    words: re.Pattern[str]
    class_: FailureClass
    subclass: str
    signature: str


@lru_cache(maxsize=1)
def activities() -> tuple[Activity, ...]:
    """The known activities, from the data file beside this module."""
    data = tomllib.loads(files("correlator.cascade").joinpath("activities.toml").read_text(encoding="utf-8"))
    return tuple(
        Activity(a["name"], re.compile(a["words"]), a["class"], a["subclass"], a["signature"]) for a in data["activity"]
    )


def loss_of(facts: Facts, row: Row) -> str | None:
    """How the rank that printed a row lost the others: ``timeout``, ``peer``, or None where it says neither."""
    if row.event in _TIMEOUTS:
        return "timeout"
    if row.event in PEER_LOST:
        return "peer"
    signature = facts.signature(row) if row.event == "python.exception" else None
    return signature.loss if signature else None


def wave_kind(facts: Facts) -> str:
    """How the waiting ranks lost: ``timeout`` (a hang), ``peer`` (a death), or empty."""
    counts = Counter(loss for row in facts.rows if facts.is_judged(row) and (loss := loss_of(facts, row)))
    return max(sorted(counts), key=lambda k: counts[k]) if counts else ""


def did_not_stop_on_sigterm(facts: Facts) -> Iterator[Finding]:
    """The launcher had to kill one process with SIGKILL: it hung in a call that no signal interrupts."""
    found: dict[int, list[Row]] = defaultdict(list)
    for row in facts.judged("torchrun.kill_escalation"):
        if row.rank is not None:
            found[row.rank].append(row)
    talkers = spoken(facts)
    quiet = {r: rows for r, rows in found.items() if r not in talkers} or found
    if not quiet or len(quiet) > max(1, len(facts.expected_ranks()) // 4):
        return
    who = sorted(quiet)
    yield finding_for(
        facts,
        "did not stop on SIGTERM",
        who,
        [r for rows in quiet.values() for r in rows],
        trust="silence",
        strength=0.8 if len(who) == 1 else 0.55,
        what=f"Rank {fold_ranges(who)} hung and had to be killed",
        silent=True,
        why="it ignored SIGTERM until the launcher killed it, and printed no error while its peers did",
        signature="rank-hang",
        control=STACK_CONTROL,
    )


def silent_rank(facts: Facts) -> Iterator[Finding]:
    """Among collected ranks whose peers all printed errors, the one that did not."""
    talkers = spoken(facts)
    ranks = facts.topology.ranks
    collected = [r for r in facts.expected_ranks() if ranks[r].collected]
    quiet = [r for r in collected if r not in talkers]
    if not quiet or len(talkers) < 2 or len(quiet) == len(collected) or not facts.silence_counts:
        return
    if facts.judged("gloo.size_mismatch", "c10d.collective_mismatch"):
        return  # two ranks contradict each other; who is stopped in the wake of that may be quiet
    stopped = {r for r in quiet if any(e.code == -15 for e in facts.exits.get(r, ()))}
    failed = {r for r in quiet if any(e.code not in (0, -15) for e in facts.exits.get(r, ()))}
    if failed - stopped:
        return
    rule, strength = "silent while its peers report", 0.66
    if len(quiet) > 1:
        narrowed = _waited_for(facts, quiet)
        if len(narrowed) != 1:
            return
        quiet, strength = narrowed, 0.55
    rank = quiet[0]
    busy = doing(facts, ranks[rank])
    activity = busy[0] if busy else None
    kind = wave_kind(facts)
    rows = [*([busy[1]] if busy else []), *own_complaints(facts, rank)[:2], *list(talkers.values())[:3]]
    what = (
        f"Rank {rank} was still {activity.name} while the others waited"
        if activity
        else f"Rank {rank} is the only one without an error of its own"
    )
    yield finding_for(
        facts,
        rule,
        [rank],
        rows,
        trust="silence",
        strength=strength + (0.08 if activity else 0),
        what=what,
        silent=True,
        why=f"all other ranks report {'a time-out' if kind == 'timeout' else 'a lost peer'}, this one nothing",
        class_=activity.class_ if activity else "unknown",
        subclass=activity.subclass if activity else None,
        signature=activity.signature if activity else "rank-hang",
        control=STACK_CONTROL,
    )


def own_complaints(facts: Facts, rank: int) -> list[Row]:
    """What a rank that is silent about its end complained of before, last first."""
    return [r for r in facts.judged("log.error") if r.rank == rank][::-1]


def _waited_for(facts: Facts, quiet: Sequence[int]) -> list[int]:
    """Of several silent ranks, those that ranks with a known place wait for directly, most waited for first."""
    graph = wait_graph(facts, stands(facts))
    waited = Counter({r: graph.in_degree(r) for r in quiet if r in graph and graph.in_degree(r)})
    if not waited:
        return []
    best = max(waited.values())
    return sorted(r for r, n in waited.items() if n == best)


def doing(facts: Facts, rank: Rank) -> tuple[Activity, Row] | None:
    """What the rank was busy with by its last line, by a save it had begun, or by an unfinished bar on its node."""
    last = _last_line(facts, rank)
    rows = [last] if last is not None else []
    finished = {r.step for r in facts.judged("checkpoint.save_finished")}
    rows += [r for r in facts.judged("checkpoint.save_started") if r.rank == rank.rank and r.step not in finished]
    bars = [
        r
        for r in facts.judged("trainer.activity")
        if r.rank in (None, rank.rank) and r.node in (None, rank.node) and r.attr("percent") != "100"
    ]
    rows += bars[-1:]
    return next(((a, row) for row in rows for a in activities() if a.words.search(row.body)), None)


def _last_line(facts: Facts, rank: Rank) -> Row | None:
    if rank.last_place is None:
        return None
    file, line, offset, text = rank.last_place
    return Row(-1, "last.sign_of_life", "info", text, file, line, offset, "", node=rank.node, rank=rank.rank)


def node_without_last_word(facts: Facts) -> Iterator[Finding]:
    """All launchers report their workers' ends but one node's, whose files just end: the node is gone."""
    told = facts.nodes_with_epitaph
    top = facts.topology
    silent = sorted(n for n in top.collected_nodes if n not in told and top.ranks_on(n))
    launcherless = _nodes_without_launcher(facts)
    silent = [n for n in silent if n not in launcherless]
    if not silent or len(told) < 1 or len(silent) > max(1, len(told)):
        return
    talkers = spoken(facts)
    gone = [n for n in silent if not any(r in talkers for r in top.ranks_on(n))]
    if len(gone) != 1 or facts.judged("slurm.step_aborted"):
        return
    ranks = top.ranks_on(gone[0])
    rows = list(talkers.values())[:3] or facts.judged("torchrun.worker_failed")[:2]
    if not rows:
        return
    yield finding_for(
        facts,
        "node without a last word",
        ranks,
        rows,
        trust="silence",
        strength=0.72,
        what=f"Node {gone[0]} went away without a word",
        silent=True,
        class_="infrastructure",
        subclass="host",
        why="neither its ranks nor its launcher printed anything when all other nodes reported lost peers",
        signature="node-lost",
        scope="node",
        control="Whether the node answers now without a reboot, and its console log, separate power from network.",
    )


def _nodes_without_launcher(facts: Facts) -> set[str]:
    """Nodes of which no launcher's words would be there: all their files are those of single ranks."""
    places = facts.topology.node_of_file
    files = [(places[f.name], f.claims) for f in facts.ingested.files if f.name in places]
    return {node for node, _ in files} - {n for n, own in files if own.rank is None and own.local_rank is None}


def silent_node(facts: Facts) -> Iterator[Finding]:
    """Ranks of all other nodes report lost peers, and one collected node's ranks say nothing at all."""
    top, talkers = facts.topology, spoken(facts)
    with_ranks = [n for n in sorted(top.collected_nodes) if top.ranks_on(n)]
    silent = [n for n in with_ranks if talkers.keys().isdisjoint(top.ranks_on(n))]
    explained = facts.nodes_with_epitaph or facts.judged("slurm.step_aborted")
    if len(with_ranks) < 3 or len(silent) != 1 or explained or not facts.silence_counts:
        return
    host = silent[0]
    rows = [row for rank, row in sorted(talkers.items()) if top.node_of_rank(rank) != host]
    named = {node for row in facts.rows if facts.is_judged(row) and (node := top.node_named(row.peer))}
    if named and host not in named:
        return  # the others name each other as the peers they lost
    yield finding_for(
        facts,
        "silent node",
        top.ranks_on(host),
        rows[:3],
        trust="silence",
        strength=0.62,
        scope="node",
        silent=True,
        what=f"Node {host} fell silent before the others lost their peers",
        signature="node-lost",
        why="ranks of all other nodes report lost peers; nothing on this node says anything",
        control="The kernel log and the console of that node say whether it died or was cut off.",
    )


def lost_by_the_controller(facts: Facts) -> Iterator[Finding]:
    """The scheduler's controller reports nodes of this job as not responding, and they say nothing themselves."""
    top, talkers = facts.topology, spoken(facts)
    named: dict[str, list[Row]] = defaultdict(list)
    for row in facts.events("slurm.node_down"):
        if row.attr("what") != "updated":  # that is an administrator's doing
            for host in expand_hostlist(row.attr("down_nodes")) or [row.node or ""]:
                named[short_name(host)].append(row)
    lost = sorted(n for n in named if n in top.nodes and n not in facts.nodes_with_epitaph)
    lost = [n for n in lost if talkers.keys().isdisjoint(top.ranks_on(n))]
    if not lost:
        return
    finding = finding_for(
        facts,
        "lost by the controller",
        [r for n in lost for r in top.ranks_on(n)],
        list({(r.file, r.byte_offset): r for n in lost for r in named[n]}.values())[:3],
        trust="silence",
        strength=0.78,
        scope="node" if len(lost) == 1 else "ranks",
        silent=True,
        what=f"Node{'s' if len(lost) > 1 else ''} {', '.join(lost)} stopped answering",
        class_="infrastructure",
        subclass="host",
        signature="node-lost",
        why="the controller lost them, and none of their processes says anything about the end",
        control="Console logs and power records of these nodes at that time say why.",
    )
    finding.incident.nodes = tuple(lost)
    yield finding


def behind_in_steps(facts: Facts) -> Iterator[Finding]:
    """No error anywhere, but one process stopped a step before all others: a silent hang."""
    last: dict[int, Row] = {}
    for row in facts.progress:
        if row.rank is not None and row.step is not None:
            known = last.get(row.rank)
            if known is None or (row.step, row.byte_offset) >= (known.step or 0, known.byte_offset):
                last[row.rank] = row
    if len(last) < 3 or len(last) < len([r for r in facts.topology.ranks.values() if r.heard]):
        return
    furthest = max(r.step or 0 for r in last.values())
    behind = {r: row for r, row in last.items() if (row.step or 0) < furthest}
    if not behind or len(behind) > max(1, len(last) // 4):
        return
    waiters = [row for r, row in last.items() if r not in behind]
    yield finding_for(
        facts,
        "behind in steps",
        behind,
        [*behind.values(), *waiters[:2]],
        trust="silence",
        strength=0.6,
        silent=True,
        what=f"Rank {fold_ranges(sorted(behind))} stopped before step {furthest} that all others entered",
        why="its last sign of life is a step behind that of every other process",
        signature="rank-hang",
        control=STACK_CONTROL,
    )


def output_ended_early(facts: Facts) -> Iterator[Finding]:
    """A node's output stops while later steps are reported elsewhere: its launcher died, the ranks may have gone on.

    No more than a hint: a log that was copied before it was written to its end looks the same.
    """
    steps: dict[str, Row] = {}
    for row in (*facts.progress, *facts.judged("checkpoint.save_started", "checkpoint.save_finished")):
        if row.node and row.step is not None and row.step >= (steps.get(row.node, row).step or 0):
            steps[row.node] = row
    ends = facts.judged("trainer.completed", "megatron.exit")
    furthest = max((r.step or 0 for r in steps.values()), default=0)
    ended = [n for n, r in steps.items() if (r.step or 0) + 1 < furthest and not any(e.node == n for e in ends)]
    printers = {r.node for r in facts.progress if r.node}
    if len(ended) != 1 or len(steps) < 2 or ended[0] not in printers or facts.incidents:
        return
    node = ended[0]
    ranks = facts.topology.ranks_on(node)
    last = next(r for r in steps.values() if (r.step or 0) == furthest)
    finding = finding_for(
        facts,
        "output ended early",
        ranks,
        [steps[node], last],
        trust="silence",
        strength=0.45,
        silent=True,
        scope="node",
        what=f"The output of {node} stops at step {steps[node].step} while the job goes on",
        why=f"step {furthest} is reported by another node, so the ranks went on without their launcher or its output",
        class_="infrastructure",
        subclass="host",
        signature="agent-killed",
        control="Whether the launcher process of that node was killed is in its kernel log or the scheduler's record.",
    )
    finding.incident.ranks, finding.incident.nodes = (), (node,)
    yield finding
