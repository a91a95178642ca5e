"""All engines find the same literals at the same places."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from correlator.scan import ENGINES, Engine, build_engine, compile_engine

LITERALS = (b"NCCL WARN", b"WARN", b"Watchdog caught", b"aa", b"aaa", b"x.y[0]*", b"Xid (", b"Xid", b"\\n")


def available(literals: tuple[bytes, ...]) -> dict[str, Engine]:
    engines = {}
    for name in ENGINES:
        try:
            engines[name] = compile_engine(literals, name)
        except ImportError:
            continue
    return engines


def naive(literals: tuple[bytes, ...], data: bytes, start: int, end: int) -> list[tuple[int, int]]:
    found = []
    for number, literal in enumerate(literals):
        position = data.find(literal, start, end)
        while position >= 0:
            found.append((position + len(literal), number))
            position = data.find(literal, position + 1, end)
    return sorted(found)


pieces = st.lists(
    st.one_of(st.sampled_from(LITERALS), st.binary(max_size=8), st.sampled_from([b"a", b"\n", b"\xff", b"\x00"])), max_size=40
)  # fmt: skip


@given(pieces, st.integers(0, 20), st.integers(0, 20))
@settings(max_examples=150, deadline=None)
def test_engines_agree_with_each_other_and_with_plain_search(parts: list[bytes], left: int, right: int) -> None:
    data = b"".join(parts)
    start = min(left, len(data))
    end = max(start, len(data) - right)
    expected = naive(LITERALS, data, start, end)
    for name, engine in _ENGINES.items():
        assert engine.scan(bytearray(data), start, end) == expected, name


_ENGINES = available(LITERALS)


def test_the_floor_and_the_dependency_are_there() -> None:
    assert {"ahocorasick", "polars"} <= set(_ENGINES)


def test_hundreds_of_literals_agree_too() -> None:
    literals = tuple(sorted({f"lit{i * 7919 % 1009:03d}".encode() for i in range(600)}))
    data = b"\n".join(b"some lit" + str(i).zfill(3).encode() + b" text \xc3\xa9" for i in range(0, 1009, 3))
    expected = naive(literals, data, 0, len(data))
    assert expected
    for name, engine in available(literals).items():
        assert engine.scan(data, 0, len(data)) == expected, name


def test_no_literals_find_nothing() -> None:
    assert build_engine(()).scan(b"anything", 0, 8) == []


def test_an_engine_is_compiled_once() -> None:
    assert build_engine(LITERALS) is build_engine(LITERALS)


def test_without_wheels_the_floor_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(literals: object) -> Engine:
        raise ImportError

    monkeypatch.setitem(ENGINES, "hyperscan", missing)
    monkeypatch.setitem(ENGINES, "ahocorasick", missing)
    assert compile_engine((b"needle",)).scan(b"a needle", 0, 8) == [(8, 0)]
