"""Logs of switches: ports that go down or flap, faults of the switch itself, and what the subnet manager reports.

Emitted by: Cumulus Linux (``switchd``, ``smond``, ``clagd``), MLNX-OS, Onyx and NVOS (``mgmtd``, ``healthd``),
linux-rdma/opensm. Gives ``switch.port`` (port, state), ``switch.fault`` (what, component), ``switch.fabric`` (what,
guid, peer). Which node hangs on a port is known only where the line says so.
"""

from __future__ import annotations

from correlator.events import Parser, Pattern

PARSER = Parser(
    name="switches",
    patterns=(
        Pattern(
            event="switch.port",
            literals=("setting kernel carrier: down", " oper down", "link flapped more than ", "setting protodown"),
            regex=r"(?:nic_set_carrier: (?P<port>[\w.-]+): setting kernel carrier: (?P<state>down)|"
            r"libnl: (?P<port_of_kernel>[\w.-]+), family \d+, ifi \d+, (?P<oper>oper down)|"
            r"\b(?P<port_flapped>[\w.-]{1,64}) "
            r"(?P<what>link flapped more than \d+ times in the last \d+ seconds).*)",
            sample="nic.c:213 nic_set_carrier: swp17: setting kernel carrier: down",
            severity="warning",
            not_samples=("nic.c:213 nic_set_carrier: swp17: setting kernel carrier: up",),
        ),
        Pattern(
            event="switch.port",
            literals=("changed state to DOWN", "changed state to down", "Link down on port ", "port down alarm"),
            regex=r"(?:[Ii]nterface|[Pp]ort) (?P<port>(?:IB|Eth|Ethernet|sw)\s?[\w/.-]+),?(?: in (?P<scope>[\w ]+))? "
            r"changed state to (?P<state>DOWN|down)",
            sample="[mgmtd.NOTICE]: Interface IB1/12/1 changed state to DOWN",
            severity="warning",
            not_samples=("[mgmtd.NOTICE]: Interface IB1/12/1 changed state to UP",),
        ),
        Pattern(
            event="switch.fault",
            literals=("state changed from OK to ", "state changed from UNKNOWN to BAD"),
            regex=r"(?P<component>(?:Fan|Temp|PSU|Voltage|LED)\w*)\((?P<place>[^)]*)\): "
            r"(?P<what>state changed from \w+ to (?:BAD|LOW|HIGH|CRITICAL|ABSENT))",
            sample="smond : : PSU2(PSU2): state changed from OK to BAD",
            severity="warning",
            not_samples=("smond : : PSU2(PSU2): state changed from UNKNOWN to OK",),
        ),
        Pattern(
            event="switch.fault",
            literals=("is unresponsive", "is not responsive", "speed is below minimal range", "has insufficient power"),
            regex=r"(?P<component>(?:PSU?|FAN|Fan|fan|SPINE|Spine|spine|LEAF|Leaf|leaf|MGMT)[\w/ ]{0,40}?) "
            r"(?P<what>is unresponsive|is not responsive|speed is below minimal range|has insufficient power)",
            sample="[healthd.WARNING]: PSU2 is unresponsive",
            severity="warning",
            not_samples=("PSU2 has been restored to its normal state", "worker 3 is unresponsive"),
        ),
        Pattern(
            event="switch.fault",
            literals=("Peer switch is no longer active",),
            regex=r"(?P<what>Peer switch is no longer active)",
            sample="Peer switch is no longer active",
            severity="warning",
        ),
        Pattern(
            event="switch.fabric",
            literals=(
                "-> drop_mgr_remove_port: ",
                "ERR 3315: ",
                "ERR 3111: ",
                "Errors during initialization",
                "ERR 54",
            ),
            regex=r"-> \w+: (?:ERR (?P<code>[\dA-F]{4}): )?(?P<what>Removed port with GUID:(?P<guid>0x[\da-f]+)"
            r"(?:.*? of node:(?P<peer>[\w.-]+))?.*|Unknown remote side for node (?P<unknown>0x[\da-f]+).*|"
            r"Received MAD with error status = \S+.*|Errors during initialization|.* failed .*)",
            sample="0x02 -> drop_mgr_remove_port: Removed port with GUID:0xb8599f0300abcd12 LID range [12,12] of "
            "node:node012 mlx5_0",
            severity="warning",
            not_samples=("0x02 -> SUBNET UP",),
        ),
    ),
)
