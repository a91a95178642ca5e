"""The board controller's records: IPMI event log, Redfish log entries, inventory, firmware.

Emitted by: ``ipmitool sel list|elist`` (``lib/ipmi_sel.c``), ``ipmitool fru``, ``ipmitool mc info``; Redfish
``LogEntry`` resources (DMTF; on HGX boards Xids reach the controller, with the module's number). Gives ``bmc.sel``
(sensor, text, state, what), ``bmc.event`` (message, module, xid), ``bmc.fru``, ``bmc.firmware``. A controller's clock
may be minutes off and its log holds years, so its times get a coarse resolution.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from correlator.events import Found, Parser, Pattern
from parsers._lines import one_line

#: How far a controller's clock is trusted, in ns.
_CLOCK_NS = 300 * 1_000_000_000
_SEL = (
    r"^ *(?P<id>[0-9a-fA-F]{1,4}) \| (?P<date>\d\d/\d\d/\d{2,4}|Pre-Init *) ?"
    r"\| ?(?P<clock>\d\d:\d\d:\d\d)?[^|]{0,12}\| "
    r"(?P<sensor>[^|]+?) \| (?P<text>[^|]+?) \| (?P<state>Asserted|Deasserted)(?: \| (?P<reading>.*))?$"
)
# Own words for what a row says; the first that fits. A row of an undramatic kind has none.
_KINDS = (
    ("uncorrectable", re.compile(r"(?i)uncorrectable|bus fatal|pci serr|catastrophic|IERR|machine check")),
    ("thermal", re.compile(r"(?i)(?:temp|fan|thermal).*(?:non-recoverable|critical|trip|failed|overtemp)")),
    (
        "power",
        re.compile(r"(?i)(?:power|psu|voltage|vrd?\b).*(?:lost|failure|failed|off/down|non-recoverable|critical)"),
    ),
    ("correctable", re.compile(r"(?i)\bcorrectable")),
)


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000_000


def _sel(match: re.Match[str]) -> Mapping[str, object]:
    sensor, text, state = match["sensor"].strip(), match["text"].strip(), match["state"]
    what = next((what for what, regex in _KINDS if regex.search(f"{sensor} {text}")), "")
    grave = what in ("uncorrectable", "thermal", "power") and state == "Asserted"
    fields: dict[str, object] = {
        "sensor": sensor, "text": text, "state": state, "severity": "error" if grave else "info",
    }  # fmt: skip
    if what:
        fields["what"] = what
    if match["reading"]:
        fields["reading"] = match["reading"]
    if match["clock"] and "/" in match["date"]:
        year = match["date"].rpartition("/")[2]
        try:
            day = datetime.strptime(
                f"{match['date']} {match['clock']}", f"%m/%d/%{'Y' if len(year) == 4 else 'y'} %H:%M:%S"
            )
        except ValueError:
            return fields
        fields |= {"timestamp": _nanoseconds(day.replace(tzinfo=UTC)), "timestamp_resolution_ns": _CLOCK_NS}
    return fields


_MODULE = re.compile(r"\bGPU_SXM_(?P<module>\d+)")
_XID = re.compile(r"\bXID (?P<xid>\d+)\b")
_OPENS = re.compile(r'"(?:@odata\.id|Id|Created|MessageId|EntryType)"')
_ENTRY_LINES = 200
_GRAVE = {"Critical": "error", "Warning": "warning"}


def _read_entry(lines: Sequence[str]) -> list[Found]:
    """One log entry: the object that holds the line, from its opening key to its end."""
    start = lines[0].find('"')
    if start < 0:
        return []
    text = "{" + "\n".join([lines[0][start:], *lines[1:_ENTRY_LINES]])
    try:
        entry, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return []
    if not isinstance(entry, dict) or not (entry.get("MessageId") or entry.get("EntryType") or entry.get("Message")):
        return []
    words = [str(entry.get("Message") or ""), *(str(word) for word in _list(entry.get("MessageArgs")))]
    said = " ".join(filter(None, words))
    fields: dict[str, object] = {"severity": _GRAVE.get(str(entry.get("Severity")), "info")}
    for key, name in (("MessageId", "message_id"), ("EntryType", "entry_type"), ("Resolution", "resolution")):
        if isinstance(entry.get(key), str):
            fields[name] = entry[key]
    if match := _MODULE.search(f"{said} {json.dumps(entry.get('Links'))}"):
        fields["module"] = match["module"]
    if match := _XID.search(said):
        fields["xid"] = match["xid"]
    try:
        created = datetime.fromisoformat(str(entry.get("Created")))
        if created.tzinfo is not None:
            fields |= {"timestamp": _nanoseconds(created), "timestamp_resolution_ns": _CLOCK_NS}
    except (ValueError, OverflowError):
        pass  # no time, or none that can be told
    return [Found(0, text[:end].count("\n"), fields, body=said[:400] or "log entry")]


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


_PAIR = re.compile(r"^ *(?P<key>[A-Z][\w /()-]*?) *: (?P<text>\S.*?) *$")
_FRU_KEYS = {
    "Chassis Type": "chassis_type", "Chassis Part Number": "chassis_part_number", "Chassis Serial": "chassis_serial",
    "Board Mfg": "board_manufacturer", "Board Product": "board_product", "Board Serial": "board_serial",
    "Board Part Number": "board_part_number", "Product Manufacturer": "product_manufacturer",
    "Product Name": "product_name", "Product Part Number": "product_part_number", "Product Serial": "product_serial",
    "Product Asset Tag": "asset_tag",
}  # fmt: skip
_MC_KEYS = {
    "Firmware Revision": "firmware_revision",
    "IPMI Version": "ipmi_version",
    "Manufacturer Name": "manufacturer",
}


def _pairs(lines: Sequence[str], keys: Mapping[str, str]) -> tuple[int, dict[str, object]]:
    found: dict[str, object] = {}
    last = 0
    for index, line in enumerate(lines):
        match = _PAIR.match(line)
        if index and (not line.strip() or line.startswith("FRU Device Description")):
            break
        if match and match["key"] in keys:
            found.setdefault(keys[match["key"]], match["text"])
        last = index
    return last, found


def _read_fru(lines: Sequence[str]) -> list[Found]:
    last, found = _pairs(lines, _FRU_KEYS)
    return [Found(0, last, {**found, "device": lines[0].partition(":")[2].strip()})] if found else []


def _read_controller(lines: Sequence[str]) -> list[Found]:
    last, found = _pairs(lines, _MC_KEYS)
    return [Found(0, last, found)] if "firmware_revision" in found else []


PARSER = Parser(
    name="board_controller",
    patterns=(
        Pattern(
            event="bmc.sel",
            literals=("| Asserted", "| Deasserted"),
            block=one_line(_SEL, _sel),
            block_lines=0,
            sample=" 1a2 | 05/01/2024 | 05:40:18 | Power Supply #0x51 | Power Supply AC lost | Asserted",
            not_samples=("| 5 | Asserted",),
        ),
        Pattern(
            event="bmc.event",
            literals=('"@odata.id"', '"EntryType"', '"MessageId"'),
            block=_read_entry,
            block_lines=_ENTRY_LINES,
            sample='      "@odata.id": "/redfish/v1/Systems/HGX_Baseboard_0/LogServices/EventLog/Entries/7",\n'
            '      "Created": "2024-05-01T05:40:18+00:00",\n      "EntryType": "Event",\n      "Id": "7",\n'
            '      "Message": "The resource property GPU_SXM_3 Driver Event Message has detected errors.",\n'
            '      "MessageArgs": ["GPU_SXM_3 Driver Event Message", "[2024-05-01][1702][0x1] XID 79 GPU lost"],\n'
            '      "MessageId": "ResourceEvent.1.0.ResourceErrorsDetected",\n      "Severity": "Critical"\n    }',
            severity="info",
            not_samples=('      "@odata.id": "/redfish/v1/Chassis"\n    }',),
        ),
        Pattern(
            event="bmc.fru",
            literals=("FRU Device Description",),
            block=_read_fru,
            block_lines=40,
            sample="FRU Device Description : Builtin FRU Device (ID 0)\n Product Name          : GPU Server 8\n"
            " Product Serial        : S1234567",
            severity="info",
        ),
        Pattern(
            event="bmc.firmware",
            literals=("Firmware Revision   ",),
            block=_read_controller,
            block_lines=20,
            sample="Firmware Revision         : 1.42",
            severity="info",
        ),
    ),
)
