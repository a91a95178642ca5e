"""NVIDIA's Xid catalog: what the vendor says about each number, for numbers with and without an entry of their own."""

from __future__ import annotations

import csv
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple


class XidFact(NamedTuple):
    """One row of ``catalogs/xid.csv`` in NVIDIA's own words; empty where the catalog says nothing."""

    mnemonic: str
    description: str
    immediate_action: str
    investigatory_action: str
    possible_causes: str

    def sentence(self, xid: int) -> str:
        """The row as a line of a page."""
        parts = [f"Xid {xid}: {self.mnemonic}"]
        if self.description not in ("", self.mnemonic):
            parts.append(self.description)
        if self.immediate_action:
            parts.append(f"immediate action {self.immediate_action}")
        if self.investigatory_action:
            parts.append(f"to investigate {self.investigatory_action}")
        if self.possible_causes:
            parts.append(f"possible causes {self.possible_causes}")
        return "; ".join(parts)


@lru_cache(maxsize=1)
def xid_catalog() -> dict[int, XidFact]:
    """The catalog by Xid number; do not change the mapping."""
    text = (files("correlator.signatures") / "catalogs" / "xid.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {int(row["xid"]): XidFact(*(row[name] or "" for name in XidFact._fields)) for row in rows}
