"""Anchors: what was printed on two nodes at nearly the same moment, and so ties their clocks together."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median

from correlator.records import Row
from correlator.timestamps import SECOND

#: How far apart the same thing may be printed on two nodes, by kind of anchor, in ns. Iteration and save lines of one
#: step agree to some 20 ms; c10d's watchdog polls every 100 ms and its C++ stamps are good to one second only.
TOLERANCE = {"iteration": 50_000_000, "barrier": 250_000_000, "communicator": SECOND, "time-out": 400_000_000}
#: Nodes that all others of an event are compared with: a star keeps every clock two anchors away from every other,
#: where a chain adds up its bounds; several, so that a bad clock at a hub is outvoted.
_HUBS = 4


@dataclass(frozen=True, slots=True)
class Anchor:
    """``low <= offset(a) - offset(b) <= high``, in ns; an offset is what the node's clock shows too much."""

    a: str
    b: str
    low: int
    high: int
    kind: str
    samples: int


def find_anchors(rows: Iterable[Row]) -> Iterator[Anchor]:
    """The anchors between nodes that the stamped rows give, in an order that does not depend on that of the rows."""
    keyed = _first_stamps(rows)
    seen = Counter(node for first in keyed.values() for node in first)
    pairs: dict[tuple[str, str, str], list[tuple[int, int]]] = defaultdict(list)
    for (kind, _), first in sorted(keyed.items(), key=lambda item: str(item[0])):
        names = sorted(first, key=lambda node: (-seen[node], node))
        for i, hub in enumerate(names[:_HUBS]):
            for other in names[i + 1 :]:
                a, b = min(hub, other), max(hub, other)
                slack = TOLERANCE[kind] + first[a][1] + first[b][1]
                pairs[kind, a, b].append((first[a][0] - first[b][0], slack))
    for (kind, a, b), differences in sorted(pairs.items()):
        middle = int(median(d for d, _ in differences))
        spread = int(median(abs(d - middle) for d, _ in differences)) * 3
        slack = min(s for _, s in differences) + spread
        yield Anchor(a, b, middle - slack, middle + slack, kind, len(differences))


def _first_stamps(rows: Iterable[Row]) -> Mapping[tuple[str, object], dict[str, tuple[int, int]]]:
    """By what was printed and node: the earliest stamp, which is the one that nothing delayed, and its resolution."""
    keyed: dict[tuple[str, object], dict[str, tuple[int, int]]] = defaultdict(dict)
    for row in rows:
        if (
            row.timestamp is None
            or not row.node
            or row.timestamp_basis not in ("printed", "transport", "boot-relative")
        ):
            continue
        key = _anchor_key(row)
        if key is not None:
            stamp = row.timestamp, row.timestamp_resolution_ns or 0
            keyed[key][row.node] = min(stamp, keyed[key].get(row.node, stamp))
    return keyed


def _anchor_key(row: Row) -> tuple[str, object] | None:
    match row.event:
        case "megatron.iteration" | "trainer.progress" if row.step is not None:
            return "iteration", (row.attempt or 0, row.attr("epoch"), row.attr("mark"), row.step)
        case "checkpoint.save_started" if row.step is not None:
            return "iteration", (row.attempt or 0, "", "", row.step)
        case "megatron.phase":
            return "barrier", (row.attempt or 0, row.attr("phase"))
        case "nccl.init" if row.attr("phase") == "COMPLETE" and row.attr("comm_id"):
            return "communicator", row.attr("comm_id")
        case "c10d.watchdog_timeout" if row.seq is not None and row.timestamp_basis == "printed":
            return "time-out", (row.attempt or 0, row.process_group, row.seq, row.op, row.timeout_ms)
    return None
