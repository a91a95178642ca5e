"""What the tools that ask a GPU print: nvidia-smi, NVML, DCGM, rocm-smi, the ROCm and Neuron runtimes.

Emitted by: nvidia-smi (drivers to 595), NVIDIA/DCGM, NVIDIA/k8s-device-plugin, ROCm/ROCR-Runtime, the AWS Neuron
runtime. Gives ``gpu.smi_error`` (the tool could not talk to a device), ``gpu.identity`` (index, bus id, UUID,
serial), ``gpu.remapped_rows``, ``gpu.ecc_errors``, ``gpu.fabric_state``, ``gpu.xid_report``, ``gpu.diag_failed``,
``gpu.hsa_fault``, ``neuron.error``. A snapshot has the time of the question, not of the fault.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from correlator.events import Found, Parser, Pattern
from parsers._lines import named
from parsers._pci import ADDRESS, normalise_pci, with_bus_id
from parsers._smi_query import read_query

# "|   6  NVIDIA A100-SXM4-80GB          On  |   00000000:37:00.0 Off |                 ERR! |", more readings below it
_TABLE_ROW = re.compile(rf"^\|\s+(?P<gpu>\d+)\s+(?P<model>\S.*?)\s+(?:On|Off|N/A|ERR!)\s+\|\s+(?P<bus>{ADDRESS})\s")
# --query-gpu=index,pci.bus_id,name --format=csv
_CSV_ROW = re.compile(rf"^(?P<gpu>\d+), (?P<bus>{ADDRESS})(?:, (?P<model>[^,]+))?")


def _read_device(lines: Sequence[str]) -> list[Found]:
    """Index and bus id of one device, and an error if any of its readings is ``ERR!``."""
    table = _TABLE_ROW.match(lines[0])
    match = table or _CSV_ROW.match(lines[0])
    if match is None:
        return []
    fields = named(match)
    fields["pci_bus_id"] = normalise_pci(str(fields.pop("bus")))
    last = 0
    while table and last < 2 and last + 1 < len(lines) and re.match(r"^\|(?!\s+\d+\s+[A-Z])", lines[last + 1]):
        last += 1
    found = [Found(0, last, fields)]
    if any("ERR!" in line for line in lines[: last + 1]):
        found.append(Found(0, last, {**fields, "what": "ERR!", "severity": "error"}, event="gpu.smi_error"))
    return found


PARSER = Parser(
    name="gpu_tools",
    patterns=(
        Pattern(
            event="gpu.smi_error",
            literals=("Unable to determine the device handle",),
            block=with_bus_id(
                rf"(?P<what>Unable to determine the device handle) for [Gg][Pp][Uu] ?(?:\d+: "
                rf")?(?P<pci_bus_id>{ADDRESS})"
                r"(?:: (?P<text>.*))?$"
            ),
            block_lines=0,
            sample="Unable to determine the device handle for GPU0000:91:00.0: Unknown Error",
        ),
        Pattern(
            event="gpu.smi_error",
            literals=(
                "GPU is lost",
                "NVIDIA-SMI has failed because",
                "Failed to initialize NVML",
                "No devices were found",
                "infoROM is corrupted at gpu",
                "ERROR: GPU[",
                "NVML: GPU is lost",
                "Driver Not Loaded",
            ),
            block=with_bus_id(
                rf"(?P<what>GPU is lost|NVIDIA-SMI has failed because.*|Failed to initialize NVML: (?P<text>.*)|No "
                rf"devices were found|"
                rf"infoROM is corrupted at gpu (?P<pci_bus_id>{ADDRESS})|ERROR: GPU\[(?P<gpu>\d+)\].*|Driver Not "
                rf"Loaded)"
            ),
            block_lines=0,
            sample="Failed to initialize NVML: Driver/library version mismatch",
        ),
        Pattern(
            event="gpu.identity",
            literals=("   00000000:", ", 00000000:"),
            block=_read_device,
            block_lines=2,
            sample="|   6  NVIDIA A100-SXM4-80GB          On  |   00000000:37:00.0 Off |                 ERR! |\n"
            "| ERR!   ERR!    P0       ERR! / 400W |       2MiB /  81920MiB |  ERR!      Default |",
            severity="info",
        ),
        Pattern(
            event="gpu.identity",
            literals=("(UUID: GPU-",),
            regex=r"^GPU (?P<gpu>\d+): (?P<model>.*?) \(UUID: (?P<uuid>GPU-[0-9a-f-]+)\)",
            sample="GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-0c5e9a17-0000-41b9-a3c7-90e1f1b2c3d4)",
            severity="info",
        ),
        Pattern(
            event="gpu.query",
            literals=("GPU 00000000:", "Remapped Rows", "    ECC Errors"),
            block=read_query,
            block_lines=400,
            sample="    Remapped Rows\n        Correctable Error                 : 0\n"
            "        Uncorrectable Error               : 1\n        Pending                           : Yes\n"
            "        Remapping Failure Occurred        : No",
            severity="warning",
            not_samples=(
                "    Remapped Rows\n        Correctable Error                 : 0\n        Pending      : No",
            ),
        ),
        Pattern(
            event="gpu.xid_report",
            literals=("XidCriticalError", "XID error ("),
            regex=r"(?:XidCriticalError: Xid=(?P<xid>\d+) on Device=(?P<uuid>GPU-[0-9a-f-]+)|"
            r"XID error \((?P<xid_text>\d+)\) occured on GPU (?P<gpu>\d+))",
            sample="XidCriticalError: Xid=79 on Device=GPU-0c5e9a17-0000-41b9-a3c7-90e1f1b2c3d4, the device will go "
            "unhealthy.",
        ),
        Pattern(
            event="gpu.diag_failed",
            literals=("| Fail", ": Fail "),
            regex=r"^\| +(?P<test>[\w /().-]*?) *\| +(?:GPU(?P<gpu>\d+): )?Fail\b(?: - GPUs?: (?P<gpus>[\d, ]*\d))?",
            sample="| GPU Memory                | Fail - GPU: 3                                  |",
        ),
        Pattern(
            event="gpu.hsa_fault",
            literals=("HW Exception by GPU node-", "Memory access fault by GPU node-"),
            regex=r"(?P<what>HW Exception|Memory access fault) by GPU node-(?P<gpu_node>\d+) \(Agent handle: \S+\) ?"
            r"(?:reason ?: ?(?P<reason>.*)|on address (?P<address>0x[0-9a-f]+|\(nil\))\. Reason: (?P<text>.*))$",
            sample="HW Exception by GPU node-7 (Agent handle: 0x9d018b820) reason :GPU Hang",
        ),
        Pattern(
            event="neuron.error",
            literals=("NRT_EXEC_", "ERROR  TDRV:", "ERROR   NRT:", "ERROR  NRT:"),
            regex=r"(?P<status>NRT_EXEC_\w+)|ERROR +(?P<module>TDRV|NRT):(?P<function>\w+) +(?P<text>.*)$",
            sample="2024-May-01 07:40:18.123456  4711:4890  ERROR  TDRV:exec_consume_infer_status_notifications  "
            "nd0 nc0 stuck",
        ),
    ),
)
