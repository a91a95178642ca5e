"""Reader for ``nvidia-smi -q``: of a section of one device, what identifies it and what is wrong with it.

Headings and keys as printed by drivers 450 to 595::

    GPU 00000000:3D:00.0
        Serial Number                     : 1650000000000
        GPU UUID                          : GPU-0c5e9a17-…
        Fabric
            State                         : Completed
            Status                        : Success
        ECC Errors
            Volatile
                DRAM Uncorrectable        : 0
        Remapped Rows
            Uncorrectable Error           : 1
            Pending                       : Yes
            Remapping Failure Occurred    : No

Excerpts may start at a heading inside a section; they then lack the bus id.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from correlator.events import Found
from parsers._pci import ADDRESS, normalise_pci

_DEVICE = re.compile(rf"^\s*GPU ({ADDRESS})\s*$")
_ENTRY = re.compile(r"^\s*(?P<key>[A-Za-z][\w ./()#-]*?)\s*(?: : (?P<text>.*))?$")
_HEADINGS = ("Remapped Rows", "ECC Errors", "Fabric", "Retired Pages")
_PERIODS = ("Volatile", "Aggregate")
_REMAPPED = {
    "Correctable Error": "correctable",
    "Uncorrectable Error": "uncorrectable",
    "Pending": "pending",
    "Remapping Failure Occurred": "failure",
}
_GOOD = ("0", "No", "N/A", "[N/A]", "")


def read_query(lines: Sequence[str]) -> list[Found]:
    """``gpu.identity`` of one device, and events for what is wrong with it.

    ``gpu.remapped_rows`` (counts, pending, failure), ``gpu.ecc_errors`` (uncorrectable counts that are not zero, keys
    with their period in front), ``gpu.fabric_state`` (state, status).
    """
    device = _DEVICE.match(lines[0])
    identity: dict[str, object] = {"pci_bus_id": normalise_pci(device[1])} if device else {}
    known: dict[str, object] = dict(identity)
    sections: dict[str, tuple[int, dict[str, object]]] = {}
    heading = period = ""
    last = 0
    for index, line in enumerate(lines):
        entry = _ENTRY.match(line)
        if index and (_DEVICE.match(line) or (line.strip() and entry is None)):
            break
        if entry is None or (device and not index):
            continue
        last = index
        key, text = entry["key"], entry["text"]
        if text is None:
            if key in _PERIODS:
                period = key.lower()
            else:
                heading, period = key if key in _HEADINGS else "", ""
                sections.setdefault(heading, (index, {}))
            continue
        text = text.strip()
        if key in ("GPU UUID", "Serial Number", "Product Name") and text not in _GOOD:
            identity[{"GPU UUID": "uuid", "Serial Number": "serial", "Product Name": "model"}[key]] = text
        elif heading:
            sections[heading][1][f"{period} {key}".strip()] = text
    found = (
        [Found(0, last, {**identity, "severity": "info"}, event="gpu.identity")]
        if "uuid" in identity or "serial" in identity
        else []
    )
    return found + _complaints(known, sections, last)


def _complaints(known: dict[str, object], sections: dict[str, tuple[int, dict[str, object]]], last: int) -> list[Found]:
    found: list[Found] = []
    at, remapped = sections.get("Remapped Rows", (0, {}))
    rows = {name: remapped[key] for key, name in _REMAPPED.items() if key in remapped}
    if any(value not in _GOOD for value in rows.values()):
        severity = "error" if rows.get("failure") == "Yes" else "warning"
        found.append(Found(0, last, {**known, **rows, "severity": severity}, event="gpu.remapped_rows", at=at))
    at, counts = sections.get("ECC Errors", (0, {}))
    errors = {
        key.lower().replace(" ", "_").replace("-", "_"): value
        for key, value in counts.items()
        if ("Uncorrectable" in key or "Exceeded" in key) and value not in _GOOD
    }
    if errors:
        found.append(Found(0, last, {**known, **errors}, event="gpu.ecc_errors", at=at))
    at, fabric = sections.get("Fabric", (0, {}))
    state, status = fabric.get("State", "N/A"), fabric.get("Status", "N/A")
    if state not in ("Completed", "N/A") or status not in ("Success", "N/A"):
        found.append(Found(0, last, {**known, "state": state, "status": status}, event="gpu.fabric_state", at=at))
    return found
