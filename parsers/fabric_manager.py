"""NVIDIA fabric manager: its service log and what systemd says about the service.

Emitted by: ``nv-fabricmanager`` (file ``/var/log/fabricmanager.log``, lines ``[Jul 23 2024 07:53:55] [ERROR] [tid
841] …``, or the journal), systemd. Gives ``fabric_manager.*``. Without a running manager of the driver's version,
GPUs on NVSwitch systems are not initialised (CUDA error 802); a restart under a running job breaks its multicast
groups.
"""

from __future__ import annotations

from correlator.events import Parser, Pattern, Severity
from parsers._pci import ADDRESS, with_bus_id


def _service(event: str, verb: str, severity: Severity) -> Pattern:
    """systemd names the unit by its description; newer versions put "nvidia-fabricmanager.service - " before it."""
    return Pattern(
        event=f"fabric_manager.{event}",
        literals=("NVIDIA fabric manager service",),
        regex=rf"^{verb} (?:nvidia-fabricmanager\.service - )?NVIDIA fabric manager service",
        sample=f"{verb} NVIDIA fabric manager service...",
        severity=severity,
    )


PARSER = Parser(
    name="fabric_manager",
    patterns=(
        Pattern(
            event="fabric_manager.version_mismatch",
            literals=("don't match with driver version",),
            regex=r"fabric manager NVIDIA GPU driver interface version (?P<version>\S+) don't match with driver "
            r"version "
            r"(?P<driver_version>[\d.]*\d)",
            sample="fabric manager NVIDIA GPU driver interface version 570.172.08 don't match with driver version "
            "570.133.20. "
            "Please update with matching NVIDIA driver package.",
        ),
        Pattern(
            event="fabric_manager.version",
            literals=("Fabric Manager version ",),
            regex=r"Fabric Manager version (?P<version>\d[\d.]*\d) is running",
            sample="Fabric Manager version 550.99.11 is running with the following configuration options",
            severity="info",
        ),
        Pattern(
            event="fabric_manager.switch_error",
            literals=("detected NVSwitch ",),
            block=with_bus_id(
                rf"detected NVSwitch (?P<kind>fatal|non-fatal) error (?P<xid>\d+) on fid (?P<fabric_node>\d+)"
                rf"(?: on NVSwitch pci bus id (?P<pci_bus_id>{ADDRESS}))?(?: physical id (?P<physical_id>\d+))?"
                r"(?: port (?P<port>\d+))?"
            ),
            block_lines=0,
            sample="[ERROR] [tid 841] detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id "
            "00000000:86:00.0 "
            "physical id 3 port 33",
        ),
        Pattern(
            event="fabric_manager.multicast_failed",
            literals=("in the multicast team request setup", "multicast team"),
            regex=r"(?P<text>failed to find the GPU handle (?P<handle>\d+) in the multicast team request setup.*|"
            r"(?:failed|error).*multicast team.*)$",
            sample="failed to find the GPU handle 1234567890 in the multicast team request setup 17",
        ),
        Pattern(
            event="fabric_manager.topology_mismatch",
            literals=("don't match with any supported system topology",),
            regex=r"(?P<text>detected number of NVSwitches don't match with any supported system topology.*)$",
            sample="detected number of NVSwitches don't match with any supported system topology, aborting fabric "
            "manager",
        ),
        Pattern(
            event="fabric_manager.configured",
            literals=("Successfully configured all the available",),
            regex=r"Successfully configured all the available (?P<what>NVSwitches|GPUs and NVSwitches)",
            sample="Successfully configured all the available NVSwitches to route GPU NVLink traffic.",
            severity="info",
        ),
        _service("starting", "Starting", "info"),
        _service("started", "Started", "info"),
        _service("stopping", "Stopping", "warning"),
        _service("stopped", "Stopped", "warning"),
        _service("failed", "Failed to start", "error"),
        Pattern(
            event="fabric_manager.failed",
            literals=("nvidia-fabricmanager.service: ",),
            regex=r"nvidia-fabricmanager\.service: (?P<text>(?:Main|Control) process exited.*|Failed with "
            r"result.*|.*killed.*)$",
            sample="nvidia-fabricmanager.service: Failed with result 'exit-code'.",
        ),
    ),
)
