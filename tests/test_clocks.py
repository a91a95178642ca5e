"""Clock alignment: offsets are found again, bounds hold, and contradictions are named."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from correlator.clocks import Clocks, align_clocks
from correlator.clocks.anchors import Anchor
from correlator.clocks.solve import solve
from correlator.records import Row
from correlator.timestamps import SECOND

START = 1_700_000_000 * SECOND


def iteration(node, step, at_ns):
    return Row(
        0,
        "megatron.iteration",
        "info",
        "",
        f"{node}.log",
        step,
        step * 100,
        node,
        timestamp=at_ns,
        timestamp_basis="printed",
        timestamp_resolution_ns=1000,
        node=node,
        step=step,
    )


@given(
    st.dictionaries(st.sampled_from("bcdefg"), st.integers(-600, 600), min_size=1),
    st.lists(st.integers(0, 20), min_size=12, max_size=12),
)
def test_offsets_up_to_ten_minutes_are_found_within_their_bound(offsets, jitter_ms):
    offsets = {"a": 0, **offsets}
    rows = [
        iteration(node, step, START + step * SECOND + offset * SECOND + jitter_ms[step] * 1_000_000)
        for node, offset in offsets.items()
        for step in range(12)
    ]
    clocks = align_clocks([], rows)
    base = clocks.nodes["a"].offset_ns
    for node, offset in offsets.items():
        clock = clocks.nodes[node]
        assert abs((clock.offset_ns - base) - offset * SECOND) <= clock.bound_ns + clocks.nodes["a"].bound_ns


def test_a_first_attempt_is_the_same_whether_its_number_is_printed_or_not():
    rows = [iteration(node, step, START + step * SECOND) for node in "ab" for step in range(6)]
    for row in rows:
        row.attempt = 0 if row.node == "a" else None
    assert align_clocks([], rows).nodes["b"].bound_ns is not None


def test_a_node_without_anchor_has_no_bound_and_keeps_its_times():
    lonely = Row(0, "kernel.xid", "error", "", "k.log", 1, 0, "k", timestamp=START, timestamp_basis="printed", node="z")
    rows = [iteration(n, s, START + s * SECOND) for n in "ab" for s in range(5)]
    clocks = align_clocks([lonely], rows)
    assert clocks.nodes["z"].bound_ns is None
    assert lonely.time == START
    assert lonely.time_bound_ns is None


def test_a_whole_hour_between_nodes_is_called_a_zone_error():
    rows = [iteration("a", s, START + s * SECOND) for s in range(8)]
    rows += [iteration("b", s, START + s * SECOND + 7200 * SECOND) for s in range(5)]
    assert any("time zone" in w for w in align_clocks([], rows).warnings)


def test_of_contradicting_anchors_the_least_trusted_is_dropped_and_named():
    clocks = Clocks(reference="a")
    anchors = [
        Anchor("a", "b", -SECOND, SECOND, "iteration", 20),
        Anchor("b", "c", -SECOND, SECOND, "iteration", 20),
        Anchor("a", "c", 50 * SECOND, 52 * SECOND, "time-out", 1),
    ]
    solve(clocks, ["a", "b", "c"], anchors)
    assert abs(clocks.nodes["c"].offset_ns) <= 2 * SECOND
    assert clocks.warnings and "time-out" in clocks.warnings[0]


def test_a_clock_that_jumped_gives_way_and_not_the_clocks_it_is_compared_with():
    rows = [iteration(n, s, START + s * SECOND) for n in "abcdefgh" for s in range(6)]
    barrier = [
        replace(iteration(n, 0, START + (90 if n == "d" else 0) * SECOND), event="megatron.phase") for n in "abcdefgh"
    ]
    clocks = align_clocks(barrier, rows)
    assert any("clock of d " in w for w in clocks.warnings)
    assert all(c.bound_ns < SECOND and abs(c.offset_ns) < SECOND for c in clocks.nodes.values())


def test_things_printed_further_apart_than_usual_widen_the_bounds_and_are_not_called_contradictions_one_by_one():
    nodes = [f"n{i:02}" for i in range(24)]
    rows = [iteration(n, 0, START) for n in nodes]
    late = {n: i * 7 % 24 for i, n in enumerate(nodes)}
    phases = [replace(r, event="megatron.phase", timestamp=START + late[r.node] * SECOND) for r in rows]
    clocks = align_clocks(phases, rows)
    assert len(clocks.warnings) == 1 and "less exact" in clocks.warnings[0]
