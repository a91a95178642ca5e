"""The parallel grid: arithmetic that every message about coordinates rests on."""

from hypothesis import given
from hypothesis import strategies as st

from correlator.grid import Grid
from correlator.records import Row

SIZES = st.integers(1, 6)
GRIDS = st.builds(
    Grid,
    tp=SIZES,
    cp=st.integers(1, 3),
    dp=SIZES,
    pp=SIZES,
    order=st.sampled_from(["tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp"]),
)


@given(GRIDS, st.data())
def test_a_rank_and_its_coordinates_tell_each_other(grid, data):
    rank = data.draw(st.integers(0, grid.world_size - 1))
    assert grid.rank(grid.coordinates(rank)) == rank


@given(GRIDS, st.sampled_from(["tp", "cp", "dp", "pp"]))
def test_the_groups_of_an_axis_are_a_partition(grid, axis):
    groups = {grid.group(rank, [axis]) for rank in range(grid.world_size)}
    assert sorted(r for g in groups for r in g) == list(range(grid.world_size))
    assert {len(g) for g in groups} == {grid.size(axis)}


def test_groups_of_the_default_order_are_those_megatron_prints():
    grid = Grid(tp=2, dp=2, pp=2)
    assert grid.group(6, ["tp"]) == (6, 7)
    assert grid.group(6, ["dp"]) == (4, 6)
    assert grid.group(6, ["pp"]) == (2, 6)
    assert grid.group(6, ["tp", "pp"]) == (2, 3, 6, 7)


def sizes_row(**attributes):
    return Row(0, "megatron.parallel_sizes", "info", "", "a.log", 1, 0, "a.log", attributes=attributes)


def test_the_data_parallel_size_follows_from_the_world_size():
    assert Grid.from_rows([sizes_row(tp="4", pp="2")], 64) == Grid(tp=4, pp=2, dp=8)


def test_sizes_that_do_not_divide_the_world_give_no_grid():
    assert Grid.from_rows([sizes_row(tp="2", pp="2")], 6) is None
