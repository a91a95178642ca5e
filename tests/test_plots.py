"""The pictures: what shares a lane, what a mark's bar says, where a rank's cell stands, and the charts made of it."""

from __future__ import annotations

import doctest
import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from documents import ZERO, hardware_document
from stories import spread, story, told
from waves import write_wave

from correlator import diagnose
from correlator.diagnosis import CascadeEvent, Clock, Document, Topology
from correlator.errors import UsageError
from correlator.plots import charts, style
from correlator.plots.cells import field_of, roles_of
from correlator.plots.folding import folded_graph
from correlator.plots.lanes import lanes_of
from correlator.plots.moments import Moment, Seat, Story

CASES = Path(__file__).parents[1] / "fixtures" / "cases"
PICTURES = ("timeline", "cascade", "topology_grid", "clocks")
HOSTILE = "</script><script>alert(1)</script>\x1b[2J"


def test_the_first_failure_has_a_lane_of_its_own_and_the_many_that_waited_share_one() -> None:
    first, others = lanes_of(story(*spread(64, 9)))
    assert (first.ranks, first.role) == ((9,), "initiator")
    assert len(others.ranks) == 63
    (mark,) = others.marks
    assert (mark.count, mark.ranks) == (63, others.ranks)


def test_a_small_job_has_a_lane_a_rank() -> None:
    assert [lane.ranks for lane in lanes_of(story(*spread(8, 3), ranks=8))] == [
        (3,),
        (0,),
        (1,),
        (2,),
        (4,),
        (5,),
        (6,),
        (7,),
    ]


def test_many_that_failed_first_share_a_lane_too() -> None:
    lanes = lanes_of(story(*(told(rank, 0, "initiator") for rank in range(1024)), ranks=1024))
    assert [(lane.role, len(lane.ranks)) for lane in lanes] == [("initiator", 1024)]


@pytest.mark.parametrize("ranks", [16384, 100_000])
def test_of_more_ranks_than_anybody_looks_at_neighbours_share_a_cell_with_their_worst_role(ranks: int) -> None:
    document = hardware_document()
    document.initiator.ranks, document.collateral.ranks, document.cascade = [9001], [9000, 20], []
    field = field_of(document, story(ranks=ranks))
    assert len(field.cells) <= 4096 and sum(len(cell.ranks) for cell in field.cells) == ranks
    by_rank = {rank: cell for cell in field.cells for rank in cell.ranks}
    assert (by_rank[9000].role, by_rank[20].role, by_rank[ranks - 1].role) == ("initiator", "collateral", None)
    assert by_rank[9000].place.startswith("rank 9001 of ranks ")
    charts.topology_grid(document, story(ranks=ranks)).to_dict()


def test_a_lane_a_node_holds_all_its_ranks() -> None:
    lanes = lanes_of(story(*spread(64, 9)), by="node")
    assert [lane.label for lane in lanes] == [f"gpu-a{node:02}" for node in (1, 0, 2, 3, 4, 5, 6, 7)]
    assert lanes[0].ranks == tuple(range(8, 16))


def test_ranks_whose_log_is_missing_are_told_apart_from_those_that_printed_nothing() -> None:
    lanes = lanes_of(story(told(0, 0, "initiator"), missing=(40, 41)))
    assert {lane.ranks[0]: lane.note for lane in lanes} == {0: "", 1: "", 40: "log not collected"}


def test_a_bar_holds_what_the_clocks_leave_open_and_the_line_before_it_the_wait() -> None:
    (lane,) = lanes_of(story(*(told(rank, 601, bound_s=2, waited_s=600) for rank in (1, 2)), ranks=3), by="node")
    (mark,) = lane.marks
    assert mark.count == 2
    assert mark.first - mark.earliest == mark.latest - mark.first == timedelta(seconds=2)
    assert mark.since == ZERO + timedelta(seconds=1)


def test_a_clock_that_nothing_ties_and_a_time_of_an_older_line_are_marked_as_such() -> None:
    marks = lanes_of(story(told(0, 0, bound_s=None), told(0, 5, bound_s=None, not_before=True), ranks=1))[0].marks
    assert [(mark.loose, mark.not_before) for mark in marks] == [(True, False), (False, True)]


def test_a_wave_of_hundreds_of_ranks_is_drawn_from_each_ranks_own_time(tmp_path: Path) -> None:
    write_wave(tmp_path, ranks=256, guilty=77)
    d = diagnose(tmp_path)
    assert len([m for m in d.story.moments if m.role == "collateral"]) == 255
    lanes = lanes_of(d.story)
    assert [lane.ranks for lane in lanes] == [(77,), tuple(rank for rank in range(256) if rank != 77)]
    (waited,) = lanes[1].marks
    assert waited.since is not None and waited.first - waited.since == timedelta(seconds=600.021)
    assert len(json.dumps(d.timeline().to_dict())) < 20_000


def test_a_rank_stands_at_its_place_in_the_parallel_grid() -> None:
    field = field_of(hardware_document(), story(ranks=32))
    cell = field.cells[21]
    assert (cell.place, cell.block, cell.row, cell.column) == ("tp 1, pp 1, dp 1", 1, 1, 1)
    assert (cell.role, cell.state) == ("initiator", "failed first")


@pytest.mark.parametrize("sizes", [None, Topology(tp=2, pp=2, dp=2)])
def test_without_sizes_or_with_sizes_of_another_job_a_rank_stands_by_its_node(sizes: Topology | None) -> None:
    document = hardware_document()
    document.job.topology = sizes
    field = field_of(document, story(ranks=32))
    assert (field.rows, field.row_names) == ("node", ("gpu-a00", "gpu-a01", "gpu-a02", "gpu-a03"))
    assert [(c.row, c.column) for c in field.cells[7:9]] == [(0, 7), (1, 0)]


def test_a_rank_that_nothing_is_known_of_is_not_called_quiet() -> None:
    document = hardware_document()
    document.collateral.ranks, document.cascade = [], []
    states = [cell.state for cell in field_of(document, story(ranks=31, missing=(4,))).cells]
    assert (states[3], states[4], states[31]) == ("no error of its own", "log not collected", "log not collected")


def test_a_rank_beside_the_one_that_failed_first_does_not_share_its_role() -> None:
    document = hardware_document()
    document.cascade.append(CascadeEvent("e9", ZERO, [20, 21], ["gpu-a009"], "lost", "initiator"))
    document.collateral.ranks.remove(20)
    assert (roles_of(document)[20], roles_of(document)[21]) == ("collateral", "initiator")


def test_equal_occurrences_are_one_box_and_the_arrows_stay() -> None:
    graph = folded_graph(hardware_document().cascade)
    waits = [
        (node, data) for node, data in graph.nodes(data=True) if data["count"] > 1 and data["role"] == "collateral"
    ]
    ((node, data),) = waits
    assert (data["count"], len(data["ranks"])) == (31, 31)
    assert list(graph.predecessors(node)) == ["e1"]
    assert graph.edges["e1", node]["rule"] == "missing_member"
    assert not [d for _, d in graph.nodes(data=True) if d["role"] == "unrelated"]


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("case", ["gpu-off-the-bus", "hang-03", "clean-03-noise"])
def test_every_chart_is_rendered(case: str, name: str, tmp_path: Path) -> None:
    chart = getattr(diagnose(CASES / case / "logs"), name)()
    for ending, start in ((".png", b"\x89PNG"), (".svg", b"<svg"), (".html", b"<!DOCTYPE html>")):
        place = tmp_path / f"chart{ending}"
        chart.save(place)
        assert place.read_bytes().lstrip().startswith(start)


def test_the_charts_need_no_pandas() -> None:
    code = (
        "import sys, correlator\n"
        f"d = correlator.diagnose({str(CASES / 'kill-02' / 'logs')!r})\n"
        f"for name in {PICTURES!r}: getattr(d, name)().to_dict()\n"
        "print('pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_message_that_altair_is_missing_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charts, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'rank-correlator\[plots\]'"):
        charts.clocks([])


def hostile() -> Document:
    document = hardware_document()
    document.cascade = [CascadeEvent("e1", ZERO, [21], [HOSTILE], HOSTILE, "initiator")]
    document.job.topology = None
    document.clocks = [Clock(HOSTILE, 0.0, 0.0, "reference")]
    return document


def test_hostile_text_cannot_leave_the_script_that_holds_a_chart(tmp_path: Path) -> None:
    document = hostile()
    seat = Seat(21, HOSTILE, 5, True, ZERO)
    shown = Story(
        (Moment("initiator", "a.b", HOSTILE, 21, HOSTILE, ZERO, 0.0, False, None, HOSTILE, 1, HOSTILE),), (seat,), ZERO
    )
    for chart in (
        charts.timeline(shown), charts.cascade(document), charts.topology_grid(document, shown), charts.clocks(document.clocks),
    ):  # fmt: skip
        chart.save(tmp_path / "chart.html")
        page = (tmp_path / "chart.html").read_text()
        assert "<script>alert" not in page and "\x1b" not in page
        assert "script>alert(1)" in page


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(style).attempted and not doctest.testmod(style).failed
