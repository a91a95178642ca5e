"""Compressed host lists and ranges: printed examples, torn text, and the round trip as a property."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from correlator.hostlist import LIMIT, expand_hostlist, expand_ranges, fold_ranges


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("node012", ["node012"]),
        ("node[001-004,7]", ["node001", "node002", "node003", "node004", "node7"]),
        ("node[08-11]", ["node08", "node09", "node10", "node11"]),
        ("node[8-11]", ["node8", "node9", "node10", "node11"]),
        ("a1,b[2-3],c", ["a1", "b2", "b3", "c"]),
        ("a1, b2", ["a1", "b2"]),
        ("r[0-1]n[0,2].mgmt", ["r0n0.mgmt", "r0n2.mgmt", "r1n0.mgmt", "r1n2.mgmt"]),
        ("n[1-2],n[2-3]", ["n1", "n2", "n3"]),
        ("", []),
        # torn or mistyped: the part stays what it is
        ("node[001-00", ["node[001-00"]),
        ("node[a-c]", ["node[a-c]"]),
        ("node[4-1]", ["node[4-1]"]),
        ("node[]", ["node[]"]),
        (f"n[0-{LIMIT}],m1", [f"n[0-{LIMIT}]", "m1"]),
        ("n[0-9999]x[0-9999]", ["n[0-9999]x[0-9999]"]),
    ],
)
def test_expand_hostlist(text: str, names: list[str]) -> None:
    assert expand_hostlist(text) == names


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0-3,7", [0, 1, 2, 3, 7]),
        ("37", [37]),
        ("0-6:2", [0, 2, 4, 6]),
        ("3,1-2,3", [3, 1, 2]),
        ("0-3,", [0, 1, 2, 3]),
        ("0-3,...", [0, 1, 2, 3]),
        ("5-1", []),
        (f"0-{LIMIT}", []),
        ("", []),
    ],
)
def test_expand_ranges(text: str, numbers: list[int]) -> None:
    assert expand_ranges(text) == numbers


@given(st.sets(st.integers(min_value=0, max_value=20_000), max_size=200))
def test_fold_then_expand_gives_the_numbers_back(numbers: set[int]) -> None:
    assert expand_ranges(fold_ranges(numbers)) == sorted(numbers)


@given(st.sets(st.integers(min_value=0, max_value=3_000), min_size=1, max_size=100))
def test_no_two_folded_runs_touch(numbers: set[int]) -> None:
    runs = [part.split("-") for part in fold_ranges(numbers).split(",")]
    edges = [(int(run[0]), int(run[-1])) for run in runs]
    assert all(after[0] > before[1] + 1 for before, after in pairwise(edges))


@given(st.text(alphabet="node[]0123456789-,: ", max_size=30))
def test_any_text_expands_without_error(text: str) -> None:
    assert all(name == name.strip() and name for name in expand_hostlist(text))
    assert len(set(expand_ranges(text))) == len(expand_ranges(text))


@given(st.integers(1, 6), st.lists(st.integers(0, 99_999), min_size=1, max_size=50, unique=True))
def test_hosts_keep_width_and_order(width: int, numbers: list[int]) -> None:
    padded = [f"{number:0{width}d}" for number in numbers]
    assert expand_hostlist(f"gpu-a[{','.join(padded)}]") == [f"gpu-a{number}" for number in padded]
