"""NVSM, the health monitor of DGX systems: checks that failed, alerts, and the verdict on the whole system.

Emitted by: ``nvsm show health`` and ``nvsm show alerts`` (also as ``nvsm dump health`` keeps them), versions 20 to 24.
Gives ``nvsm.check`` (check, status, pci_bus_id where one is named), ``nvsm.alert`` (component, severity, text),
``nvsm.health`` (status). Checks that passed give nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from correlator.events import Found, Parser, Pattern
from parsers._lines import named
from parsers._pci import ADDRESS, normalise_pci

_CHECK = re.compile(r"^(?P<check>\S.*?)\.{3,} ?(?P<status>Unhealthy|Unknown)\s*$")
_ADDRESS = re.compile(ADDRESS)
_GPU = re.compile(r"\bGPU(?: with identity ')?(?P<gpu>\d{1,2})\b")


def _read_check(lines: Sequence[str]) -> list[Found]:
    match = _CHECK.match(lines[0])
    if match is None:
        return []
    fields = named(match)
    if address := _ADDRESS.search(match["check"]):
        fields["pci_bus_id"] = normalise_pci(address[0])
    if gpu := _GPU.search(match["check"]):
        fields["gpu"] = gpu["gpu"]
    if match["status"] == "Unknown":
        fields["severity"] = "warning"
    return [Found(0, 0, fields)]


_PROPERTY = re.compile(r"^ {2,}(?P<key>[a-z_]+) = (?P<text>.*?)\s*$")
_NAMES = {
    "message_details": "text", "description": "description", "severity": "alert_severity", "event_time": "at",
    "component_id": "component", "system_serial": "chassis_serial", "alert_id": "alert",
}  # fmt: skip


def _read_alert(lines: Sequence[str]) -> list[Found]:
    fields: dict[str, object] = {}
    last = 0
    for index, line in enumerate(lines[1:], start=1):
        match = _PROPERTY.match(line)
        if match is None and line.strip() not in ("", "Properties:"):
            break
        if match is not None:
            last = index
            if match["text"] and (name := _NAMES.get(match["key"])):
                fields[name] = match["text"]
    component = str(fields.get("component", ""))
    if "alert_severity" not in fields:
        return []
    if gpu := _GPU.fullmatch(component):
        fields["gpu"] = gpu["gpu"]
    fields["severity"] = "error" if fields["alert_severity"] == "Critical" else "warning"
    return [Found(0, last, fields)]


PARSER = Parser(
    name="nvsm",
    patterns=(
        Pattern(
            event="nvsm.check",
            literals=(".. Unhealthy", ".. Unknown"),
            block=_read_check,
            block_lines=0,
            sample="Verify GPU at PCI address '0000:87:00.0'............................. Unhealthy",
            not_samples=("Verify installed DIMM memory sticks.................................. Healthy",),
        ),
        Pattern(
            event="nvsm.alert",
            literals=("/alerts/alert",),
            block=_read_alert,
            block_lines=40,
            sample="/systems/localhost/gpus/GPU4/alerts/alert0\nProperties:\n"
            "    message_details = GPU4 fell off the bus\n    severity = Critical\n    component_id = GPU4",
            not_samples=("/systems/localhost/gpus/GPU4/alerts/alert0\nTargets:",),
        ),
        Pattern(
            event="nvsm.health",
            literals=("Overall system status is ",),
            regex=r"^Overall system status is (?P<status>unhealthy|unknown)",
            sample="Overall system status is unhealthy",
            severity="warning",
            not_samples=("Overall system status is healthy",),
        ),
    ),
)
