"""Heads of cluster-wide event logs: epoch and node in front of another head, or of none."""

from __future__ import annotations

from typing import Any

import pytest

from correlator.envelopes import FileContext, peel
from correlator.timestamps import SECOND

AT = 1_714_542_018 * SECOND  # 2024-05-01 05:40:18 UTC

CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("- 1714542018 2024.04.30 R07-M1-N2-C:J03-U11 2024-04-30-22.40.18.675872 R07-M1-N2-C:J03-U11 RAS KERNEL FATAL rts panic!",
     "rts panic!",
     {"timestamp_ns": AT + 675_872_000, "resolution_ns": 1000, "node": "R07-M1-N2-C:J03-U11", "logger": "KERNEL",
      "severity": "fatal", "key": "R07-M1-N2-C:J03-U11"}),
    ("KERNDTLB 1714542018 2024.05.01 R07-M1 2024-05-01-07.40.18.6 R07-M1 RAS KERNEL SEVERE bad", "bad",
     {"severity": "error", "timestamp_ns": AT + 600_000_000}),
    # a number of the message that could be an epoch
    ("- 1714542018 2024.05.01 R07-M1 2024-05-01-07.40.18.5 R07-M1 RAS KERNEL INFO 1614542018 alignment exceptions",
     "1614542018 alignment exceptions", {"timestamp_ns": AT + SECOND // 2}),
    ("- 1714542018 2024.05.01 UNKNOWN_LOCATION 2024-05-01-07.40.18.5 UNKNOWN_LOCATION NULL DISCOVERY INFO new chip",
     "new chip", {"node": None, "logger": "DISCOVERY", "key": ""}),
    ("- 1714542018 2024.05.01 NULL 2024-05-01-07.40.18.5 NULL RAS MMCS ERROR idoproxydb hit", "idoproxydb hit", {"node": None}),
    # the fraction belongs to another second
    ("- 1714542018 2024.05.01 R07-M1 2024-05-01-07.40.19.5 R07-M1 RAS KERNEL INFO x", "x",
     {"timestamp_ns": AT, "resolution_ns": SECOND}),
    ("- 1714542018 2024.05.01 dn417 May 1 07:40:18 dn417/dn417 crond(pam_unix)[2915]: session closed", "session closed",
     {"timestamp_ns": AT, "node": "dn417", "logger": "crond(pam_unix)", "pid": 2915, "key": "dn417"}),
    ("- 1714542018 2024.05.01 #8# May 1 07:40:18 #8#/#8# kernel: Losing some ticks", "Losing some ticks",
     {"timestamp_ns": AT, "node": "#8#", "logger": "kernel", "pid": None}),
    ("- 1714542018 2024.05.01 dn417 something of another form", "something of another form", {"timestamp_ns": AT, "node": "dn417"}),
    ("134681 node-246 unix.hw state_change.unavailable 1714542018 1 Component is unavailable", "Component is unavailable",
     {"timestamp_ns": AT, "node": "node-246", "logger": "unix.hw", "key": "node-246"}),
    ("2286759 full partition status 1714542018 -1 running", "running", {"timestamp_ns": AT, "node": None}),
]  # fmt: skip


@pytest.mark.parametrize(("line", "text", "claims"), CASES)
def test_cluster_heads(line: str, text: str, claims: dict[str, Any]) -> None:
    p = peel(line, FileContext())
    assert p.text == text
    assert {name: getattr(p, name) for name in claims} == claims
    assert p.timestamp_basis == "printed" and p.dated


@pytest.mark.parametrize(
    "line",
    [
        "- 1714542018 2024.07.01 dn417 the date is another",
        "- 1714542018 2024.13.01 dn417 there is no such date",
        "- 1714542018 items left in queue 3",
        "- step 1714542018 2024.05.01",
        "134681 node-246 samples read 17145 1 of 3",
        "134681 node-246 unix.hw state 3999999999 1 behind any clock",
    ],
)
def test_what_is_no_cluster_head(line: str) -> None:
    p = peel(line, FileContext())
    assert (p.text, p.timestamp_ns, p.node) == (line, None, None)


def test_an_epoch_before_a_head_is_still_one() -> None:
    p = peel("1714542018 gpu-a017 started", FileContext())
    assert p.timestamp_ns == AT
