"""Network adapters and links: mlx5, other Ethernet drivers, bonding, ibstat, and monitors that count link losses.

Emitted by: Linux ``drivers/net/ethernet`` (mlx5, bnxt_en, ice, i40e, ena), ``drivers/net/bonding``,
systemd-networkd; rdma-core ``ibstat``; NVIDIA/nvidia-resiliency-ext ``health_check.py``. Gives ``kernel.nic_link``
(state, device), ``kernel.mlx5`` (what), ``nic.link_down_counter``, ``nic.identity`` (every adapter of ibstat),
``nic.port_state`` (one whose port is not active), ``nic.module`` (mlxlink: state, advice, cable). The adapter's PCI
address is the attribute ``nic_pci_bus_id``; the column of that name is for GPUs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from correlator.events import BlockParser, Found, Parser, Pattern
from parsers._lines import named, one_line
from parsers._pci import ADDRESS, normalise_pci

# "mlx5_core 0000:5e:00.0 ens1f0: Link down", "ice 0000:17:00.0 eth0: NIC Link is Down", "e1000e: eth0 NIC Link is Up",
# "bond0: (slave eth0): link status definitely down, disabling slave", "eth0: Lost carrier"
_LINK = (
    rf"(?:^|kernel: )(?:(?P<driver>[a-z][\w-]*) (?P<address>{ADDRESS}):? )?(?:[\w.-]+: )?"
    r"(?:\((?:slave|port) (?P<slave>[\w.-]+)\):|(?P<device>[a-z][\w.-]*):?) "
    r"(?:(?:NIC )?[Ll]ink (?:is )?(?:status )?(?:definitely )?(?P<state>[Dd]own|DOWN|[Uu]p|UP)\b|"
    r"(?P<carrier>Lost|Gained) carrier)"
)


def _link(wanted: str) -> BlockParser:
    """Link lines of one state, ``down`` or ``up``."""

    def build(match: re.Match[str]) -> Mapping[str, object] | None:
        state = {"Lost": "down", "Gained": "up"}.get(match["carrier"] or "") or match["state"].lower()
        fields: dict[str, object] = {"state": state, "device": match["slave"] or match["device"]}
        if match["address"]:
            fields |= {"driver": match["driver"], "nic_pci_bus_id": normalise_pci(match["address"])}
        return fields if state == wanted else None

    return one_line(_LINK, build)


_MLX5 = re.compile(
    rf"mlx5_(?:core|ib)\s*(?P<address>{ADDRESS})?[^:]*: (?P<text>.*)$|(?P<command>mlx5_pcie_event:.*insufficient "
    rf"power.*)$"
)
_MLX5_KINDS = (
    ("health compromised", re.compile(r"device's health compromised")),
    (
        "firmware error",
        re.compile(
            r"Health issue observed|firmware internal error|FW is unable to respond|Fatal "
            r"error \d+ detected"
        ),
    ),
    ("hardware error", re.compile(r"unrecoverable hardware error|synd 0x8:")),
    ("command timeout", re.compile(r"timeout\. Will cause a leak|Async, timeout|No done completion")),
    ("module", re.compile(r"Port module event\[error\]|Cable unplugged|Cable error|High Temperature")),
    ("power", re.compile(r"insufficient power")),
    # monitoring tools ask for registers that the firmware does not have
    ("command refused", re.compile(r"mlx5_cmd_out_err")),
)


def _mlx5(match: re.Match[str]) -> Mapping[str, object] | None:
    text = match["text"] or match["command"]
    what = next((what for what, regex in _MLX5_KINDS if regex.search(text)), None)
    if what is None:
        return None
    fields: dict[str, object] = {"what": what, "text": text}
    if what == "command refused":
        fields["severity"] = "info"
    if match["address"]:
        fields["nic_pci_bus_id"] = normalise_pci(match["address"])
    return fields


_ADAPTER = re.compile(r"^CA '(?P<device>[\w.-]+)'")
_PORT_FACT = re.compile(
    r"^\s+(?P<key>State|Physical state|Rate|Link layer|CA type|Firmware version|Hardware version|Node GUID|Port GUID|"
    r"Base lid): (?P<text>.*)$"
)


def _read_adapter(lines: Sequence[str]) -> list[Found]:
    """One adapter of ``ibstat``, and an event where its port is not active (also one that never had a cable)."""
    match = _ADAPTER.match(lines[0])
    if match is None:
        return []
    fields: dict[str, object] = named(match)
    last = 0
    for index, line in enumerate(lines[1:], start=1):
        if _ADAPTER.match(line) or (line and not line[0].isspace()):
            break
        if fact := _PORT_FACT.match(line):
            fields[fact["key"].lower().replace(" ", "_")] = fact["text"]
        last = index
    if len(fields) == 1:
        return []
    found = [Found(0, last, {**fields, "severity": "info"}, event="nic.identity")]
    return found if fields.get("state", "Active") == "Active" else [*found, Found(0, last, fields)]


_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_MLXLINK_FACT = re.compile(r"^(?P<key>[A-Z][\w ()/.-]*?)\s*: (?P<text>.*?)\s*$")
_MLXLINK = {
    "State": "state", "Physical state": "physical_state", "Speed": "speed", "Width": "width",
    "Status Opcode": "status_opcode", "Group Opcode": "group_opcode", "Recommendation": "recommendation",
    "Identifier": "identifier", "Compliance": "compliance", "Vendor Name": "vendor_name",
    "Vendor Part Number": "vendor_part_number", "Vendor Serial Number": "vendor_serial_number",
    "Temperature [C]": "temperature", "FW Version": "firmware_version",
    "Effective Physical Errors": "effective_errors", "Effective Physical BER": "effective_ber",
    "Raw Physical BER": "raw_ber", "Symbol Errors": "symbol_errors", "Link Down Counter": "link_down_counter",
}  # fmt: skip


def _read_mlxlink(lines: Sequence[str]) -> list[Found]:
    """One port as mlxlink shows it; ``healthy`` is false where the state is not active or an opcode is not zero."""
    fields: dict[str, object] = {}
    last = 0
    for index, line in enumerate(lines):
        match = _MLXLINK_FACT.match(_COLOUR.sub("", line))
        if index and "Operational Info" in line:
            break
        if match and match["key"] in _MLXLINK and match["text"] not in ("", "N/A"):
            fields.setdefault(_MLXLINK[match["key"]], match["text"])
            last = index
    if "state" not in fields:
        return []
    sound = str(fields["state"]) == "Active" and str(fields.get("status_opcode", "0")) == "0"
    fields |= {"healthy": "true" if sound else "false", "severity": "info" if sound else "warning"}
    return [Found(0, last, fields)]


PARSER = Parser(
    name="nic",
    patterns=(
        Pattern(
            event="kernel.nic_link",
            literals=(
                "ink down",
                "ink is Down",
                "ink is down",
                "ink Down",
                "ink is DOWN",
                "definitely down",
                "Lost carrier",
            ),
            block=_link("down"),
            block_lines=0,
            sample="mlx5_core 0000:5e:00.0 ens1f0: Link down",
            not_samples=("GPU 1 NIC/IB mlx5_1 link down counter has been incremented: 0 -> 1",),
        ),
        Pattern(
            event="kernel.nic_link",
            literals=("ink up", "ink is Up", "ink is up", "ink Up", "ink is UP", "definitely up", "Gained carrier"),
            block=_link("up"),
            block_lines=0,
            sample="mlx5_core 0000:5e:00.0 ens1f0: Link up",
            severity="info",
        ),
        Pattern(
            event="kernel.mlx5",
            literals=(
                "device's health compromised",
                "Health issue observed",
                "firmware internal error",
                "FW is unable to respond",
                "unrecoverable hardware error",
                "timeout. Will cause a leak",
                "Async, timeout",
                "Port module event",
                "insufficient power on the PCIe slot",
                "Fatal error ",
                "mlx5_cmd_out_err",
            ),
            block=one_line(_MLX5.pattern, _mlx5),
            block_lines=0,
            sample="mlx5_core 0000:d2:00.0: poll_health:825: device's health compromised - reached miss count.",
            not_samples=("mlx5_core 0000:d2:00.0: Port module event: module 0, Cable plugged",),
        ),
        Pattern(
            event="kernel.nic_timeout",
            literals=("NETDEV WATCHDOG: ", "Keep alive watchdog timeout", "Reset indication didn't turn on"),
            regex=r"(?:NETDEV WATCHDOG: (?P<device>\S+)(?: \((?P<driver>[^)]*)\))?: transmit queue (?P<queue>\d+) "
            r"timed out|"
            r"(?P<what>Keep alive watchdog timeout|Reset indication didn't turn on))",
            sample="NETDEV WATCHDOG: eth0 (mlx5_core): transmit queue 0 timed out",
            severity="warning",
        ),
        Pattern(
            event="nic.link_down_counter",
            literals=("link down counter has been incremented", "link_downed"),
            regex=r"(?:GPU (?P<gpu>\d+) NIC/IB |(?:^|\s))(?P<device>[\w.-]+)(?: port (?P<port>\d+))?:? "
            r"(?:link down counter has been incremented: |link_downed\S* .*?)(?P<before>\d+) ?-> ?(?P<after>\d+)",
            sample="GPU 1 NIC/IB mlx5_1 link down counter has been incremented: 0 -> 1",
        ),
        Pattern(
            event="nic.port_state",
            literals=("CA '",),
            block=_read_adapter,
            block_lines=40,
            sample="CA 'mlx5_3'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Down\n\t\tPhysical state: "
            "Polling\n\t\tRate: 40",
            severity="warning",
            not_samples=("CA 'mlx5_0' is not listed",),
        ),
        Pattern(
            event="nic.module",
            literals=("Operational Info",),
            block=_read_mlxlink,
            block_lines=120,
            sample="Operational Info\n----------------\nState                              : Polling\n"
            "Physical state                     : ETH_AN_FSM_ENABLE\n\nTroubleshooting Info\n--------------------\n"
            "Status Opcode                      : 1024\nRecommendation                     : Cable is unplugged",
            severity="warning",
            not_samples=("Operational Info\nnothing follows",),
        ),
    ),
)
