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

from correlator.cascade.model import Facts, Finding
from correlator.cascade.protocol import finding_for
from correlator.cascade.stands import Stand, members, stands, wait_graph
from correlator.diagnosis import FailureClass
from correlator.hostlist import fold_ranges
from correlator.records import Row
from correlator.topology.model import Rank, short_name

_TIMEOUTS = ("c10d.watchdog_timeout", "c10d.blocking_wait_timeout", "gloo.timeout", "c10d.store_timeout")
_PEER_LOST = ("gloo.peer_closed", "gloo.peer_reset", "nccl.socket_error")
#: A host name; the addresses that c10d prints of its sockets may be garbage.
_HOST_NAME = re.compile(r"^[A-Za-z][\w.-]*$")
_STACK_CONTROL = "A stack dump of the process while it hangs (py-spy dump --pid PID) shows where it stands."


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


def wave_kind(facts: Facts) -> str:
    """How the waiting ranks lost: ``timeout`` (a hang), ``peer lost`` (a death), or empty."""
    counts: Counter[str] = Counter()
    for row in facts.rows:
        text = row.signature or ""
        if row.event in _TIMEOUTS or (row.event == "python.exception" and re.search(r"time-?d?-?out", text)):
            counts["timeout"] += 1
        elif row.event in _PEER_LOST or (
            row.event == "python.exception" and re.search(r"peer|reset|closed|remote", text)
        ):
            counts["peer lost"] += 1
    return max(sorted(counts), key=lambda k: counts[k]) if counts else ""


def spoken(facts: Facts) -> dict[int, Row]:
    """Ranks that printed an error, of their own or about a peer, with its first row."""
    found: dict[int, Row] = {}
    for incident in facts.incidents:
        if incident.role in ("initiator", "collateral") and incident.event not in (
            "torchrun.worker_failed",
            "torchrun.report_entry",
            "slurm.task_exit",
        ):
            for rank in incident.ranks:
                found.setdefault(rank, incident.rows[0])
    return found


def did_not_stop_on_sigterm(facts: Facts) -> Iterator[Finding]:
    """The launcher had to kill one process with SIGKILL: it hung in a call that no signal interrupts (lab notes, 3)."""
    found: dict[int, list[Row]] = defaultdict(list)
    for row in facts.events("torchrun.kill_escalation"):
        if row.rank is not None:
            found[row.rank].append(row)
    talkers = spoken(facts)
    quiet = {r: rows for r, rows in found.items() if r not in talkers} or found
    if not quiet or len(quiet) > max(1, len(facts.expected_ranks()) // 4):
        return
    who = sorted(quiet)
    yield finding_for(
        facts, "did not stop on SIGTERM", who, [r for rows in quiet.values() for r in rows], trust="silence",
        strength=0.8 if len(who) == 1 else 0.55, what=f"Rank {fold_ranges(who)} hung and had to be killed", silent=True,
        why="it ignored SIGTERM until the launcher killed it, and printed no error while its peers did",
        signature="rank-hang", control=_STACK_CONTROL,
    )  # fmt: skip


def silent_rank(facts: Facts) -> Iterator[Finding]:
    """Among collected ranks whose peers all printed errors, the one that did not (M9)."""
    talkers = spoken(facts)
    ranks = facts.topology.ranks
    collected = [r for r in facts.expected_ranks() if ranks[r].collected]
    quiet = [r for r in collected if r not in talkers]
    if not quiet or len(talkers) < 2 or len(quiet) == len(collected):
        return
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
    doing = _doing(facts, ranks[rank])
    activity = doing[0] if doing else None
    kind = wave_kind(facts)
    rows = [*([doing[1]] if doing else []), *own_complaints(facts, rank)[:2], *list(talkers.values())[:3]]
    what = (
        f"Rank {rank} was still {activity.name} while the others waited"
        if activity
        else f"Rank {rank} is the only one without an error of its own"
    )
    yield finding_for(
        facts, rule, [rank], rows, trust="silence", strength=strength + (0.08 if activity else 0), what=what, silent=True,
        why=f"every other collected rank reports {'a time-out' if kind == 'timeout' else 'a lost peer'}; this one reports nothing",
        class_=activity.class_ if activity else "unknown", subclass=activity.subclass if activity else None,
        signature=activity.signature if activity else "rank-hang", control=_STACK_CONTROL,
    )  # fmt: skip


def own_complaints(facts: Facts, rank: int) -> list[Row]:
    """What a rank that is silent about its end complained of before, last first."""
    return [r for r in facts.events("log.error") if r.rank == rank][::-1]


def _waited_for(facts: Facts, quiet: Sequence[int]) -> list[int]:
    """Of several silent ranks, those that ranks with a known place wait for directly, most waited for first."""
    graph = wait_graph(facts, stands(facts))
    waited = Counter({r: graph.in_degree(r) for r in quiet if r in graph and graph.in_degree(r)})
    if not waited:
        return []
    best = max(waited.values())
    return sorted(r for r, n in waited.items() if n == best)


def _doing(facts: Facts, rank: Rank) -> tuple[Activity, Row] | None:
    """What the rank was busy with by its last line, by a save it had begun, or by an unfinished bar on its node."""
    last = _last_line(facts, rank)
    rows = [last] if last is not None else []
    finished = {r.step for r in facts.events("checkpoint.save_finished")}
    rows += [r for r in facts.events("checkpoint.save_started") if r.rank == rank.rank and r.step not in finished]
    bars = [
        r
        for r in facts.events("trainer.activity")
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
    """All launchers report how their workers ended but one node's, whose files just end: the node is gone (M10, M33)."""
    told = facts.nodes_with_epitaph
    top = facts.topology
    silent = sorted(n for n in top.collected_nodes if n not in told and top.ranks_on(n))
    if not silent or len(told) < 1 or len(silent) > max(1, len(told)):
        return
    talkers = spoken(facts)
    gone = [n for n in silent if not any(r in talkers for r in top.ranks_on(n))]
    if len(gone) != 1 or facts.events("slurm.step_aborted"):
        return
    ranks = top.ranks_on(gone[0])
    rows = [row for row in talkers.values()][:3] or facts.events("torchrun.worker_failed")[:2]
    if not rows:
        return
    yield finding_for(
        facts, "node without a last word", ranks, rows, trust="silence", strength=0.72,
        what=f"Node {gone[0]} went away without a word", silent=True, class_="infrastructure", subclass="host",
        why="neither its ranks nor its launcher printed anything when all other nodes reported lost peers",
        signature="node-lost", scope="node",
        control="The node's console or BMC log, and whether it answers now without a reboot, separate power loss from network loss.",
    )  # fmt: skip


def store_host_gone(facts: Facts) -> Iterator[Finding]:
    """All other nodes lose the store at once and no worker says anything else: its host went first (lab notes, 2)."""
    complaints = facts.events("torchrun.rendezvous_error", "c10d.store_error", "c10d.store_timeout")
    complaining = {r.node for r in complaints if r.node}
    top = facts.topology
    others = top.collected_nodes - complaining
    hosts = {short_name(r.peer) for r in complaints if r.peer and _HOST_NAME.match(r.peer)} - top.collected_nodes
    if len(hosts) == 1 and not others and not _own_errors(facts):
        yield _store_host_not_collected(facts, hosts.pop(), complaints)
        return
    if len(complaining) < 1 or len(others) != 1 or _own_errors(facts):
        return
    host = next(iter(others))
    ranks = top.ranks_on(host)
    if 0 not in ranks:
        return
    quiet = host not in facts.nodes_with_epitaph
    yield finding_for(
        facts, "store host accused by all others", ranks, complaints[:3], trust="silence" if quiet else "accusation",
        strength=0.68 if quiet else 0.5, what=f"Node {host}, which hosts the rendezvous store, is not reachable any more",
        why="every other node's launcher lost the store on that node, and that node itself complains of nothing",
        class_="infrastructure", subclass="host" if quiet else "fabric", silent=True,
        signature="node-lost" if quiet else "link-down", scope="node",
        control="Whether that node's own log goes on after the loss separates a dead node from a cut link.",
    )  # fmt: skip


def _own_errors(facts: Facts) -> bool:
    return any(i.event == "python.exception" and i.role == "initiator" for i in facts.incidents)


def _store_host_not_collected(facts: Facts, host: str, complaints: Sequence[Row]) -> Finding:
    named = [r for r in complaints if r.peer]
    finding = finding_for(
        facts, "store host accused by all others", [], named[:3], trust="accusation", strength=0.5, scope="node", silent=True,
        what=f"The store on {host} went away; its log was not collected", signature="node-lost",
        why="all launchers and ranks that were collected lost their connection to the store on that host",
        control=f"The log of {host} decides: it ended first, and why is written there.",
    )  # fmt: skip
    finding.incident.nodes = (host,)
    return finding


def silent_node(facts: Facts) -> Iterator[Finding]:
    """Ranks of all other nodes report lost peers, and one collected node's ranks say nothing at all (M9, M33)."""
    top, talkers = facts.topology, spoken(facts)
    with_ranks = [n for n in sorted(top.collected_nodes) if top.ranks_on(n)]
    silent = [n for n in with_ranks if not set(top.ranks_on(n)) & set(talkers)]
    if len(with_ranks) < 3 or len(silent) != 1 or facts.nodes_with_epitaph or facts.events("slurm.step_aborted"):
        return
    host = silent[0]
    rows = [row for rank, row in sorted(talkers.items()) if top.node_of_rank(rank) != host]
    yield finding_for(
        facts, "silent node", top.ranks_on(host), rows[:3], trust="silence", strength=0.62, scope="node", silent=True,
        what=f"Node {host} fell silent before the others lost their peers", signature="node-lost",
        why="ranks of all other nodes report lost peers; nothing on this node says anything",
        control="The kernel log and the console of that node say whether it died or was cut off.",
    )  # fmt: skip


def behind_in_steps(facts: Facts) -> Iterator[Finding]:
    """No error anywhere, but one process stopped a step before all others: a silent hang (M10, M37)."""
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
        facts, "behind in steps", behind, [*behind.values(), *waiters[:2]], trust="silence", strength=0.6, silent=True,
        what=f"Rank {fold_ranges(sorted(behind))} stopped before step {furthest} that all others entered",
        why="its last sign of life is a step behind that of every other process", signature="rank-hang", control=_STACK_CONTROL,
    )  # fmt: skip


def everybody_waits_in_company(facts: Facts) -> Iterator[Finding]:
    """Ranks wait in calls that all their members entered: no rank is behind, so the transport is (M19)."""
    places = stands(facts)
    if len(places) < 3 or wave_kind(facts) != "timeout":
        return
    graph, top = wait_graph(facts, places), facts.topology
    if any(other not in places for _, other in graph.edges):
        return
    stuck = sorted(r for r in places if not graph.out_degree(r) and stalled_across_nodes(facts, places[r]))
    if len(stuck) < 2:
        return
    nodes = top.nodes_of(stuck)
    ends = nodes if 2 <= len(nodes) < len(top.nodes) else []
    finding = finding_for(
        facts, "every group is complete", [r for n in ends for r in top.ranks_on(n)], [places[r].row for r in stuck][:3],
        trust="shape", strength=0.5, scope="ranks" if ends else "none", silent=True, class_="infrastructure", subclass="fabric",
        what=f"The network {'between ' + ' and '.join(ends) if ends else 'between the nodes'} stopped carrying data",
        why="the ranks stand in the same calls as all their peers with work pending, so none of them is behind the others",
        signature="link-down", control="Port counters and link events of the nodes at the start of the stall name the link.",
    )  # fmt: skip
    yield finding


def stalled_across_nodes(facts: Facts, stand: Stand) -> bool:
    """Whether the call a rank stands in needs ranks of another node."""
    group = members(stand, facts.topology.grid, facts.expected_ranks()) or ()
    return len(facts.topology.nodes_of(group)) > 1


def late_comer(facts: Facts) -> Iterator[Finding]:
    """In a wave of time-outs, the only one that finds its peers gone: it was late, the others had waited (lab notes, 2).

    Who waits prints a time-out; who arrives after them finds closed connections. It must be one rank, or one whole node.
    """
    waited, found_gone = set(), {}
    for row in facts.rows:
        if row.rank is None or row.event != "python.exception":
            continue
        text = row.signature or ""
        if "timeout" in text or "timed-out" in text:
            waited.add(row.rank)
        elif "peer" in text:
            found_gone[row.rank] = row
    late = sorted(set(found_gone) - waited)
    top = facts.topology
    nodes = [n for n in top.nodes_of(late) if set(top.ranks_on(n)) <= set(late)]
    if len(waited) < 2 or not late or len(waited) < len(late):
        return
    if len(late) > 1 and len(nodes) == 1:
        late = top.ranks_on(nodes[0])
    elif len(late) != 1:
        return
    yield finding_for(
        facts, "came after the others had given up", late, [found_gone[r] for r in late], trust="accusation",
        strength=0.5, silent=True, scope="node" if len(late) > 1 else "rank", subclass="network" if len(late) > 1 else None,
        what=f"Rank {fold_ranges(late)} was too slow for the time-out of its peers",
        why="its peers timed out waiting; it alone found their connections closed when it arrived",
        signature="straggler", control="Step times of that rank or node before the stall show whether it was slow or stopped.",
    )  # fmt: skip


def output_ended_early(facts: Facts) -> Iterator[Finding]:
    """A node's output stops while later steps are reported elsewhere: its launcher died, the ranks may have gone on."""
    steps: dict[str, Row] = {}
    for row in (*facts.progress, *facts.events("checkpoint.save_started", "checkpoint.save_finished")):
        if row.node and row.step is not None and row.step >= (steps.get(row.node, row).step or 0):
            steps[row.node] = row
    ends = facts.events("trainer.completed", "megatron.exit")
    furthest = max((r.step or 0 for r in steps.values()), default=0)
    ended = [n for n, r in steps.items() if (r.step or 0) + 1 < furthest and not any(e.node == n for e in ends)]
    printers = {r.node for r in facts.progress if r.node}
    if len(ended) != 1 or len(steps) < 2 or ended[0] not in printers or facts.incidents:
        return
    node = ended[0]
    ranks = facts.topology.ranks_on(node)
    last = next(r for r in steps.values() if (r.step or 0) == furthest)
    finding = finding_for(
        facts, "output ended early", ranks, [steps[node], last], trust="silence", strength=0.55, silent=True, scope="node",
        what=f"The output of {node} stops at step {steps[node].step} while the job goes on",
        why=f"step {furthest} is reported by another node, so the ranks went on without their launcher or its output",
        class_="infrastructure", subclass="host", signature="agent-killed",
        control="Whether the launcher process of that node was killed is in its kernel log or the scheduler's record.",
    )  # fmt: skip
    finding.incident.ranks = ()
    yield finding


def accused_host(facts: Facts) -> Iterator[Finding]:
    """A host that several survivors name as the peer they lost, and that names nobody itself (M12)."""
    accusers: dict[str, set[int]] = defaultdict(set)
    proof: dict[str, list[Row]] = defaultdict(list)
    for row in facts.rows:
        host = facts.topology.node_named(row.peer.rpartition("<")[0] or row.peer) if row.peer else None
        if host and row.rank is not None and row.event in (*_PEER_LOST, "nccl.ib_error") and host != row.node:
            accusers[host].add(row.rank)
            proof[host].append(row)
    accused = {h for h, who in accusers.items() if len(who) >= 2}
    accusing = {row.node for rows in proof.values() for row in rows}
    innocent = sorted(accused - accusing)
    if len(innocent) == 1:
        host = innocent[0]
        ranks = facts.topology.ranks_on(host)
        yield finding_for(
            facts, "accused and accusing nobody", ranks, proof[host][:3], trust="accusation", strength=0.55,
            what=f"{host} went away first", silent=True, scope="node" if len(ranks) != 1 else "rank",
            why=f"{len(accusers[host])} ranks lost their peer on {host}, which itself lost nobody",
            class_="infrastructure", subclass="host", signature="node-lost",
            control="The kernel log and the scheduler's record of that node say why it went away.",
        )  # fmt: skip
