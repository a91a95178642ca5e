"""Many files at a time: on a parallel file system the wait for each is what a scan costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from correlator.checkpoints.model import Findings, Reading

WORKERS = 16
"""Files looked into at one time."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def look(
    items: Sequence[_Item],
    work: Callable[[_Item, Findings, Reading], _Result],
    findings: Findings,
    reading: Reading,
) -> list[_Result]:
    """``work(item, findings, reading)`` for every item, with its own share of the bytes; results in the items' order.

    What they find is taken in by that order too, so the answer is the same however the threads ran.
    """
    if not items:
        return []
    own = [Findings() for _ in items]

    def one(item: _Item, found: Findings, share: Reading) -> _Result:
        result = work(item, found, share)
        reading.seen()
        return result

    with ThreadPoolExecutor(min(WORKERS, len(items)), "checkpoint") as pool:
        results = list(pool.map(one, items, own, reading.split(len(items))))
    for found in own:
        findings.absorb(found)
    return results
