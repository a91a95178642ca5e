"""Who a machine is: dmidecode's records, and the bug report's own frame.

Emitted by: dmidecode (SMBIOS types 0 to 3), ``nvidia-bug-report.sh``. Gives ``host.bios``, ``host.system``,
``host.board``, ``host.chassis`` (manufacturer, product, serial, uuid, asset tag), ``bug_report.begin`` (version, date,
kernel) and ``bug_report.end``. A report that begins and does not end was cut: the script hung, which is evidence too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from correlator.events import BlockParser, Found, Parser, Pattern

_FIELD = re.compile(r"^\s+(?P<key>[A-Z][\w -]*?): (?P<text>\S.*?)\s*$")
_KEYS = {
    "Vendor": "vendor", "Version": "version", "Release Date": "release_date", "Manufacturer": "manufacturer",
    "Product Name": "product_name", "Serial Number": "serial_number", "UUID": "uuid", "SKU Number": "sku_number",
    "Asset Tag": "asset_tag", "Family": "family", "Type": "type",
}  # fmt: skip
#: What makers leave in a field that they never filled.
_UNFILLED = frozenset(
    {"not specified", "none", "n/a", "default string", "to be filled by o.e.m.", "0", "unknown", "system serial number"}
)


def _record(title: str) -> BlockParser:
    def read(lines: Sequence[str]) -> list[Found]:
        if lines[0].strip() != title:
            return []
        found: dict[str, object] = {}
        last = 0
        for index, line in enumerate(lines[1:], start=1):
            match = _FIELD.match(line)
            if match is None and not line[:1].isspace():
                break
            last = index
            if match and match["key"] in _KEYS and match["text"].lower() not in _UNFILLED:
                found.setdefault(_KEYS[match["key"]], match["text"])
        return [Found(0, last, found)] if found else []

    return read


_PROLOGUE = (
    ("version", re.compile(r"^nvidia-bug-report\.sh Version: (?P<value>\d+)")),
    ("date", re.compile(r"^Date: (?P<value>\S.*?)\s*$")),
    ("kernel", re.compile(r"^uname: \S+ \S+ (?P<value>\S+)")),
    ("flags", re.compile(r"^command line flags: (?P<value>\S.*?)\s*$")),
)


def _read_prologue(lines: Sequence[str]) -> list[Found]:
    if not lines[0].startswith("Start of NVIDIA bug report log file"):
        return []
    found: dict[str, object] = {}
    last = 0
    for index, line in enumerate(lines):
        for name, regex in _PROLOGUE:
            if match := regex.match(line):
                found.setdefault(name, match["value"])
                last = index
    return [Found(0, last, found)]


def _dmi(event: str, title: str, sample: str) -> Pattern:
    return Pattern(
        event=event,
        literals=(title,),
        block=_record(title),
        block_lines=40,
        sample=f"{title}\n{sample}",
        severity="info",
        not_samples=(f"{title} is shown below",),
    )


PARSER = Parser(
    name="machine",
    patterns=(
        _dmi("host.bios", "BIOS Information", "\tVendor: Example BIOS\n\tVersion: 2.19.1"),
        _dmi("host.system", "System Information", "\tManufacturer: Example\n\tSerial Number: ABC1234"),
        _dmi("host.board", "Base Board Information", "\tProduct Name: 0X1Y2Z\n\tSerial Number: .ABC1234.XY."),
        _dmi("host.chassis", "Chassis Information", "\tType: Rack Mount Chassis\n\tSerial Number: ABC1234"),
        Pattern(
            event="bug_report.begin",
            literals=("Start of NVIDIA bug report log file",),
            block=_read_prologue,
            block_lines=30,
            sample="Start of NVIDIA bug report log file.  Please include this file, along\n"
            "with a detailed description of your problem.\n\nnvidia-bug-report.sh Version: 36086218\n\n"
            "Date: Wed May  1 05:50:00 UTC 2024\nuname: Linux gpu-a017 5.15.0-105-generic #115-Ubuntu SMP x86_64",
            severity="info",
        ),
        Pattern(
            event="bug_report.end",
            literals=("End of NVIDIA bug report log file",),
            regex=r"^End of NVIDIA bug report log file",
            sample="End of NVIDIA bug report log file.",
            severity="info",
        ),
    ),
)
