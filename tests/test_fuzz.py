"""Whatever the bytes are, reading them ends, raises nothing, and counts lines rightly (``benchmarks/fuzz.py``: longer)."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import mutations
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SEEDS = st.integers(0, 2**32 - 1)
QUICK = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@settings(QUICK, max_examples=400)
@given(SEEDS)
def test_lines_made_of_real_ones(seed: int) -> None:
    mutations.check_line(mutations.line(random.Random(seed)))


@settings(QUICK, max_examples=200)
@given(st.one_of(st.binary(max_size=300), st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace"))))
def test_lines_made_of_anything(raw: bytes) -> None:
    mutations.check_line(raw)


STAMP = st.from_regex(
    r"[0-9A-Z]{1,4}[-/. :][A-Za-z0-9]{1,9}[-/. ,]\d{1,4}[ T]\d{1,2}[:.h]\d\d[:.m]\d\d[,. ]?\w{0,6}", fullmatch=True
)


@settings(QUICK, max_examples=15)
@given(st.lists(STAMP, min_size=3, max_size=12))
def test_layouts_of_anything(stamps: list[str]) -> None:
    mutations.check_layout(stamps)


@settings(QUICK, max_examples=25)
@given(SEEDS)
def test_logs_made_of_real_lines(folder: Path, seed: int) -> None:
    rng = random.Random(seed)
    lines = [mutations.line(rng) for _ in range(rng.randrange(40))]
    mutations.check_log(mutations.mutated(rng.choice((b"\n", b"\r\n", b"\n\n")).join(lines), rng), folder)


@QUICK
@given(SEEDS)
def test_archives(folder: Path, seed: int) -> None:
    mutations.check_archive(mutations.archive(random.Random(seed)), folder)


@QUICK
@given(SEEDS)
def test_reports_of_many_lines(folder: Path, seed: int) -> None:
    mutations.check_log(mutations.document(random.Random(seed)), folder)


@settings(QUICK, max_examples=12)
@given(SEEDS)
def test_damaged_folders_of_logs_are_diagnosed(folder: Path, seed: int) -> None:
    mutations.check_diagnosis(random.Random(seed), folder)


@QUICK
@given(SEEDS)
def test_damaged_checkpoints(folder: Path, seed: int) -> None:
    mutations.check_checkpoint(random.Random(seed), folder)
