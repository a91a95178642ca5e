"""What ``nvidia-smi -q`` says of one device, in text or XML: names of its own for what both forms state.

Keys and tags as drivers 450 to 595 print them. The names that an event's attributes have are on the right.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from correlator.events import Found

#: Answers that say nothing.
EMPTY = frozenset({"N/A", "[N/A]", "", "Unknown Error", "Requested functionality has been deprecated", "ERR!"})
_GOOD = EMPTY | {"0", "No", "None"}

#: (heading or empty, key) in the text form; headings in between do not matter.
IDENTITY = {
    ("", "Product Name"): "model", ("", "Serial Number"): "serial", ("", "GPU UUID"): "uuid",
    ("", "Minor Number"): "minor_number", ("", "VBIOS Version"): "vbios_version", ("", "Board ID"): "board_id",
    ("", "Board Part Number"): "board_part_number", ("", "GPU Part Number"): "gpu_part_number",
    ("", "FRU Part Number"): "fru_part_number", ("", "Module ID"): "module",
    ("Inforom Version", "Image Version"): "inforom_image",
    ("Platform Info", "Chassis Serial Number"): "chassis_serial", ("Platform Info", "Slot Number"): "slot_number",
    ("Platform Info", "Tray Index"): "tray_index", ("Platform Info", "Host ID"): "host_id",
    ("Platform Info", "Module Id"): "module", ("Platform Info", "GPU Fabric GUID"): "fabric_guid",
}  # fmt: skip
COUNTERS = {
    ("Remapped Rows", "Correctable Error"): "remap_correctable",
    ("Remapped Rows", "Uncorrectable Error"): "remap_uncorrectable",
    ("Remapped Rows", "Pending"): "remap_pending",
    ("Remapped Rows", "Remapping Failure Occurred"): "remap_failure",
    ("Bank Remap Availability Histogram", "Max"): "remap_banks_max",
    ("Bank Remap Availability Histogram", "High"): "remap_banks_high",
    ("Bank Remap Availability Histogram", "Partial"): "remap_banks_partial",
    ("Bank Remap Availability Histogram", "Low"): "remap_banks_low",
    ("Bank Remap Availability Histogram", "None"): "remap_banks_none",
    ("Retired Pages", "Single Bit ECC"): "retired_single_bit",
    ("Retired Pages", "Double Bit ECC"): "retired_double_bit",
    ("Retired Pages", "Pending Page Blacklist"): "retired_pending",
    ("ECC Mode", "Current"): "ecc_mode",
    ("", "GPU Recovery Action"): "recovery_action",
    ("GPU Reset Status", "Reset Required"): "reset_required",
    ("PCIe Generation", "Max"): "pcie_generation_max", ("PCIe Generation", "Current"): "pcie_generation",
    ("Link Width", "Max"): "pcie_width_max", ("Link Width", "Current"): "pcie_width",
    ("PCI", "Replays Since Reset"): "pcie_replays",
    ("Temperature", "GPU Current Temp"): "temperature",
}  # fmt: skip
#: Keys below ``ECC Errors`` keep their words; the period stands in front.
ECC_PREFIXES = ("SRAM", "DRAM", "Channel Repair", "TPC Repair", "Unrepairable")

#: The same in XML: tag, or parent and tag where a tag alone is not clear.
XML_IDENTITY = {
    "product_name": "model", "serial": "serial", "uuid": "uuid", "minor_number": "minor_number",
    "vbios_version": "vbios_version", "board_id": "board_id", "board_part_number": "board_part_number",
    "gpu_part_number": "gpu_part_number", "gpu_fru_part_number": "fru_part_number", "gpu_module_id": "module",
    "img_version": "inforom_image", "chassis_serial_number": "chassis_serial", "slot_number": "slot_number",
    "tray_index": "tray_index", "host_id": "host_id", "module_id": "module", "gpu_fabric_guid": "fabric_guid",
}  # fmt: skip
XML_COUNTERS = {
    "remapped_row_corr": "remap_correctable", "remapped_row_unc": "remap_uncorrectable",
    "remapped_row_pending": "remap_pending", "remapped_row_failure": "remap_failure",
    "row_remapper_histogram_max": "remap_banks_max", "row_remapper_histogram_high": "remap_banks_high",
    "row_remapper_histogram_partial": "remap_banks_partial", "row_remapper_histogram_low": "remap_banks_low",
    "row_remapper_histogram_none": "remap_banks_none", "current_ecc": "ecc_mode",
    "multiple_single_bit_retirement/retired_count": "retired_single_bit",
    "double_bit_retirement/retired_count": "retired_double_bit", "pending_retirement": "retired_pending",
    "pending_blacklist": "retired_pending", "gpu_recovery_action": "recovery_action",
    "reset_required": "reset_required", "max_link_gen": "pcie_generation_max",
    "current_link_gen": "pcie_generation", "max_link_width": "pcie_width_max", "current_link_width": "pcie_width",
    "replay_counter": "pcie_replays", "gpu_temp": "temperature",
}  # fmt: skip


@dataclass
class Device:
    """One device's answers. ``at``: index of the line on which a section begins."""

    pci_bus_id: str | None = None
    identity: dict[str, object] = field(default_factory=dict)
    counters: dict[str, object] = field(default_factory=dict)
    fabric: dict[str, str] = field(default_factory=dict)
    at: dict[str, int] = field(default_factory=dict)


def ecc_name(period: str, key: str) -> str:
    """``volatile_dram_uncorrectable`` for a count of a period; without one the key alone."""
    return f"{period} {key}".strip().lower().replace(" ", "_").replace("-", "_")


def events_of(device: Device, last: int) -> list[Found]:
    """Identity, all counters, and an event for each thing that is wrong; they cover the lines 0 to ``last``."""
    known: dict[str, object] = {"pci_bus_id": device.pci_bus_id} if device.pci_bus_id else {}
    found: list[Found] = []
    if "uuid" in device.identity or "serial" in device.identity:
        found.append(Found(0, last, {**known, **device.identity, "severity": "info"}, event="gpu.identity"))
    counters = device.counters
    pages = [str(counters.get(name, "")) for name in ("retired_single_bit", "retired_double_bit")]
    if any(page.isdecimal() for page in pages):
        counters["retired_pages"] = str(sum(int(page[:9]) for page in pages if page.isdecimal()))
    if counters:
        found.append(Found(0, last, {**known, **counters, "severity": "info"}, event="gpu.counters"))
    return found + _complaints(device, known, last)


def _complaints(device: Device, known: dict[str, object], last: int) -> list[Found]:
    found: list[Found] = []
    counters = device.counters
    names = ("correctable", "uncorrectable", "pending", "failure")
    rows = {name: counters[f"remap_{name}"] for name in names if f"remap_{name}" in counters}
    if any(value not in _GOOD for value in rows.values()):
        severity = "error" if rows.get("failure") == "Yes" else "warning"
        at = device.at.get("remapped", 0)
        found.append(Found(0, last, {**known, **rows, "severity": severity}, event="gpu.remapped_rows", at=at))
    errors = {
        name: value
        for name, value in counters.items()
        if ("uncorrectable" in name or "exceeded" in name) and not name.startswith("remap") and value not in _GOOD
    }
    if errors:
        found.append(Found(0, last, {**known, **errors}, event="gpu.ecc_errors", at=device.at.get("ecc", 0)))
    state, status = device.fabric.get("state", "N/A"), device.fabric.get("status", "N/A")
    if state not in ("Completed", "N/A") or status not in ("Success", "N/A"):
        at = device.at.get("fabric", 0)
        found.append(Found(0, last, {**known, "state": state, "status": status}, event="gpu.fabric_state", at=at))
    return found
