"""The clocks of a job's nodes from its rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from correlator.clocks.anchors import find_anchors
from correlator.clocks.model import Clocks
from correlator.clocks.solve import solve
from correlator.records import Row


def align_clocks(rows: Sequence[Row], progress: Sequence[Row]) -> Clocks:
    """The clocks of all nodes with stamped rows; ``progress``: step lines. Fills ``time`` and ``time_bound_ns``."""
    stamped = [r for r in (*rows, *progress) if r.node and r.timestamp is not None and r.timestamp_basis != "file-time"]
    weight: dict[str, int] = defaultdict(int)
    for row in stamped:
        weight[row.node or ""] += 1
    clocks = Clocks()
    if weight:
        clocks.reference = max(sorted(weight), key=lambda n: weight[n])
        solve(clocks, sorted(weight), [*find_anchors(stamped)])
    for row in (*rows, *progress):
        row.time = clocks.corrected(row.node, row.timestamp)
        bound = clocks.bound(row.node)
        resolution = row.timestamp_resolution_ns or 0
        row.time_bound_ns = None if bound is None or row.time is None else bound + resolution
    return clocks
