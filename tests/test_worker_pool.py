"""Processes that work for this one end with it, without a word."""

from __future__ import annotations

import threading
import time

import pytest

from correlator.worker_pool import WorkerPool


class _Late(WorkerPool):
    """A busy machine: the pool notices that its processes are gone before this process goes on."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        time.sleep(1)
        super().shutdown(wait, cancel_futures=cancel_futures)


def _doubled_unless_negative(number: float) -> float:
    if number < 0:
        raise ValueError("negative")
    time.sleep(number)
    return 2 * number


def test_results_come_in_the_order_of_the_tasks() -> None:
    with WorkerPool(2) as pool:
        assert list(pool.in_order(_doubled_unless_negative, [0.3, 0, 0.1])) == [0.6, 0, 0.2]


def test_an_early_end_with_tasks_not_begun_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda fault: said.append(fault.exc_type))
    with pytest.raises(ValueError, match="negative"), _Late(2) as pool:
        list(pool.in_order(_doubled_unless_negative, [-1, *[0.5] * 20]))
    assert said == []
