"""Reader for the XML of ``nvidia-smi -q -x``: the element of one device.

The element is cut out of the text before it is parsed, so a document type with entities, which a hostile file could
blow up with, is never seen.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from correlator.events import Found
from parsers._pci import ADDRESS, normalise_pci
from parsers._smi_readings import EMPTY, XML_COUNTERS, XML_IDENTITY, Device, ecc_name, events_of

_OPENING = re.compile(rf'<gpu id="({ADDRESS})">')
_PERIODS = ("volatile", "aggregate")
_SECTIONS = {"<remapped_rows>": "remapped", "<ecc_errors>": "ecc", "<fabric>": "fabric"}
_REPAIR = ("channel_repair_pending", "tpc_repair_pending", "unrepairable_memory")
#: Forms in which single- and multi-bit counts stand in the newest drivers.
_ECC = re.compile(r"^(?:sram|dram)_(?:correctable|uncorrectable(?:_parity|_secded|_sec_ded)?|threshold_exceeded)$")


def read_xml(lines: Sequence[str]) -> list[Found]:
    """The same events as of the text form; nothing where the element does not end or is no XML."""
    opening = _OPENING.search(lines[0])
    if opening is None:
        return []
    device = Device(normalise_pci(opening[1]))
    last = None
    for index, line in enumerate(lines):
        for tag, section in _SECTIONS.items():
            if tag in line:
                device.at.setdefault(section, index)
        if "</gpu>" in line:
            last = index
            break
    if last is None:
        return []
    text = "\n".join(lines[: last + 1])
    text = text[text.index("<gpu ") : text.index("</gpu>") + len("</gpu>")]
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError):
        return []
    for parent in root.iter():
        for child in parent:
            if len(child) == 0 and (value := (child.text or "").strip()) not in EMPTY:
                _take(device, parent.tag, child.tag, value)
    return events_of(device, last)


def _take(device: Device, parent: str, tag: str, value: str) -> None:
    if name := XML_IDENTITY.get(tag):
        device.identity.setdefault(name, value)
    elif name := XML_COUNTERS.get(f"{parent}/{tag}") or XML_COUNTERS.get(tag):
        device.counters.setdefault(name, value.removesuffix(" bank(s)"))
    elif parent in _PERIODS and _ECC.match(tag):
        device.counters[ecc_name(parent, tag)] = value
    elif tag in _REPAIR:
        device.counters[tag] = value
    elif parent == "fabric" and tag in ("state", "status"):
        device.fabric[tag] = value
