"""Reader for the text of ``nvidia-smi -q``: one device's section, by indentation.

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
from parsers._smi_readings import COUNTERS, ECC_PREFIXES, EMPTY, IDENTITY, Device, ecc_name, events_of

_DEVICE = re.compile(rf"^\s*GPU ({ADDRESS})\s*$")
_ENTRY = re.compile(r"^(?P<indent>\s*)(?P<key>[A-Za-z][\w ./()#-]*?)\s*(?: : (?P<text>.*))?$")
_PERIODS = ("Volatile", "Aggregate")
_SECTIONS = {"Remapped Rows": "remapped", "ECC Errors": "ecc", "Fabric": "fabric"}
_BANKS = " bank(s)"


def read_query(lines: Sequence[str]) -> list[Found]:
    """``gpu.identity`` and ``gpu.counters`` of one device, and events for what is wrong with it.

    ``gpu.remapped_rows`` (counts, pending, failure), ``gpu.ecc_errors`` (uncorrectable counts that are not zero, keys
    with their period in front), ``gpu.fabric_state`` (state, status).
    """
    head = _DEVICE.match(lines[0])
    device = Device(normalise_pci(head[1]) if head else None)
    above: list[tuple[int, str]] = []  # headings that the line stands under, with their indentation
    last = 0
    for index, line in enumerate(lines):
        entry = _ENTRY.match(line)
        if index and (_DEVICE.match(line) or (line.strip() and entry is None)):
            break
        if entry is None or (head and not index):
            continue
        last = index
        indent, key, text = len(entry["indent"]), entry["key"], entry["text"]
        while above and above[-1][0] >= indent:
            above.pop()
        if text is None:
            above.append((indent, key))
            if key in _SECTIONS:
                device.at.setdefault(_SECTIONS[key], index)
        else:
            _take(device, [heading for _, heading in above], key, text.strip())
    return events_of(device, last)


def _take(device: Device, above: Sequence[str], key: str, text: str) -> None:
    if text in EMPTY:
        return
    for heading in ("", *above):
        if name := IDENTITY.get((heading, key)) if heading or len(above) == 0 else None:
            device.identity.setdefault(name, text)
        elif (name := COUNTERS.get((heading, key))) and (heading or len(above) == 0):
            device.counters.setdefault(name, text.removesuffix(_BANKS))
    if "ECC Errors" in above and key.startswith(ECC_PREFIXES):
        period = next((heading for heading in above if heading in _PERIODS), "")
        device.counters[ecc_name(period, key)] = text
    elif above[-1:] == ["Fabric"] and key in ("State", "Status"):
        device.fabric[key.lower()] = text
