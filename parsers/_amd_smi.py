"""Readers for AMD's tools: one device's section of ``amd-smi``, by indentation, and the lines of ``rocm-smi``.

``amd-smi list|static|metric|bad-pages`` (24 to 27) print ``GPU: 0`` and below it ``KEY: value``; counts that end in
``UNCORRECTABLE_COUNT`` stand under ``ECC`` and, one a block of the chip, under ``ECC_BLOCKS``. ``rocm-smi`` prints
``GPU[0]<tab><tab>: Key: value``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from correlator.events import Found
from parsers._pci import ADDRESS, normalise_pci
from parsers._smi_readings import Device, events_of

_DEVICE = re.compile(r"^GPU: (\d{1,3})$")
_ENTRY = re.compile(r"^(?P<indent> +)(?P<key>[A-Z][A-Z0-9_ ]*?):(?: (?P<text>.*))?$")
_EMPTY = frozenset({"N/A", ""})
_IDENTITY = {
    "UUID": "uuid", "MARKET_NAME": "model", "PRODUCT_NAME": "product_name", "ASIC_SERIAL": "asic_serial",
    "PRODUCT_SERIAL": "serial", "MODEL_NUMBER": "board_part_number", "FRU_ID": "fru_part_number", "OAM_ID": "module",
}  # fmt: skip
_ADDRESSES = ("BDF", "BUS")
_COUNTERS = {"REPLAY_COUNT": "pcie_replays", "DRIVER_VERSION": "driver_version"}
_COUNT = "CORRECTABLE_COUNT"


def read_amd(lines: Sequence[str]) -> list[Found]:
    """``gpu.identity``, ``gpu.counters`` and ``gpu.ecc_errors`` of one device, with its index."""
    head = _DEVICE.match(lines[0])
    if head is None:
        return []
    device = Device()
    above: list[tuple[int, str]] = []
    last = 0
    for index, line in enumerate(lines[1:], start=1):
        entry = _ENTRY.match(line)
        if entry is None:
            if line.strip():
                break
            continue
        last = index
        indent, key, text = len(entry["indent"]), entry["key"].strip(), (entry["text"] or "").strip()
        while above and above[-1][0] >= indent:
            above.pop()
        if not text:
            above.append((indent, key))
            if key == "ECC":
                device.at.setdefault("ecc", index)
        elif text not in _EMPTY:
            _take(device, [heading for _, heading in above], key, text)
    return [
        Found(found.first, found.last, {"gpu": head[1], **found.fields}, found.body, found.event, found.at)
        for found in events_of(device, last)
    ]


def _take(device: Device, above: Sequence[str], key: str, text: str) -> None:
    if key in _ADDRESSES and re.fullmatch(ADDRESS, text):
        device.pci_bus_id = normalise_pci(text)
    elif name := _IDENTITY.get(key):
        device.identity.setdefault(name, text)
    elif name := _COUNTERS.get(key):
        device.counters.setdefault(name, text)
    elif key.endswith(_COUNT):
        block = above[-1].lower() + "_" if above[-2:-1] == ["ECC_BLOCKS"] else ""
        device.counters[block + key.lower().removesuffix("_count")] = text


#: What ``rocm-smi`` calls the facts of a device.
ROCM_KEYS = {
    "Serial Number": "serial",
    "PCI Bus": "pci_bus_id",
    "Unique ID": "uuid",
    "Card series": "model",
    "Card Series": "model",
}
ROCM_LINE = rf"^GPU\[(?P<gpu>\d{{1,3}})\]\s*: (?P<key>{'|'.join(ROCM_KEYS)}): \s*(?P<text>\S.*?)\s*$"


def rocm_identity(match: re.Match[str]) -> Mapping[str, object] | None:
    """One fact of a device; ``rocm-smi`` prints a line a fact and device."""
    name = ROCM_KEYS[match["key"]]
    if match["text"] in _EMPTY:
        return None
    text = normalise_pci(match["text"]) if name == "pci_bus_id" else match["text"]
    return {"gpu": match["gpu"], name: text}
