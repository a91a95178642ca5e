"""A card that a test found faulty afterwards: what it had a part in before may be wrong without a sign (rule R9)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from correlator.attribution.doubt import INTEGRITY_SIGNATURES, INTEGRITY_XIDS, Doubt, doubt_at
from correlator.attribution.runs import Run, run_of
from correlator.cascade.model import Facts
from correlator.records import Row

#: Tests that compare what a card computed or stored with what it must be; others look at links, power and heat.
_VALUES = re.compile(r"memory|memtest|diagnostic|eud", re.IGNORECASE)

#: Xids that the program may have caused itself.
_OF_PROGRAMS = frozenset({13, 31, 43, 45})

#: Rows remapped after a correctable or uncorrectable error: nothing wrong by itself, the first sign of a card that is.
_EARLY_XIDS = INTEGRITY_XIDS | {63}

_Card = tuple[str, str | int]
"""A node, and the card's index or bus address there."""


def later_faults(facts: Facts, runs: Sequence[Run]) -> list[Doubt]:
    """Doubts about cards of this job that failed a test of values, from the card's first sign in the logs on.

    Without an earlier sign, from the first step of all. A card whose failure was loud is left out: that is what the
    test found, and what was saved before it is good.
    """
    found: list[Doubt] = []
    for test in facts.rows:
        if not runs or not _failed(test):
            continue
        for card in _cards(facts, test):
            about = [row for row in facts.rows if row is not test and card & _names(facts, row)]
            if any(row.xid is not None and row.xid not in _EARLY_XIDS | _OF_PROGRAMS for row in about):
                continue
            signs = [(run_of(runs, row), row) for row in about if _is_sign(row)]
            placed = [(number, row) for number, row in signs if number is not None]
            name = f"a card of {facts.job_node(test)} failed a test of its memory or arithmetic later"
            if placed:
                found += [doubt_at(runs, number, row, f"{name}, and this is its first sign") for number, row in placed]
            else:
                why = f"{name}, and nothing tells since when it is faulty"
                found.append(Doubt(test, runs[0].lines[0].step, why, 0))
    return found


def _failed(row: Row) -> bool:
    if row.event == "gpu.field_diag":
        return row.attr("result") == "FAIL"
    return row.event == "gpu.diag_failed" and bool(_VALUES.search(row.attr("test")))


def _is_sign(row: Row) -> bool:
    return row.xid in _EARLY_XIDS or row.signature in INTEGRITY_SIGNATURES


def _cards(facts: Facts, row: Row) -> list[set[_Card]]:
    """The names of each card that a test speaks of, where it is surely one of this job."""
    listed = [int(number) for number in re.findall(r"\d{1,3}", row.attr("gpus"))]
    node = facts.job_node(row)
    if node is None or (row.gpu is None and row.pci_bus_id is None and not listed):
        return []
    if listed:
        return [_both(facts, {(node, number)}) for number in listed]
    return [_names(facts, row)]


def _names(facts: Facts, row: Row) -> set[_Card]:
    node = facts.job_node(row)
    return _both(facts, {(node, name) for name in (row.gpu, row.pci_bus_id) if name is not None}) if node else set()


def _both(facts: Facts, names: set[_Card]) -> set[_Card]:
    """Index and address of a card, where the roster knows them to be of one."""
    known = [r for r in facts.topology.ranks.values() if r.node and r.gpu is not None and r.pci_bus_id]
    pairs: list[set[_Card]] = [{(r.node, r.gpu), (r.node, r.pci_bus_id)} for r in known if r.node and r.pci_bus_id]  # type: ignore[arg-type]
    return names.union(*(pair for pair in pairs if pair & names))
