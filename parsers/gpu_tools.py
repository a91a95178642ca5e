"""What the tools that ask a GPU print: nvidia-smi, NVML, DCGM, amd-smi, rocm-smi, the ROCm and Neuron runtimes.

Emitted by: nvidia-smi (drivers to 595), NVIDIA/DCGM, NVIDIA/k8s-device-plugin, ROCm/ROCR-Runtime, the AWS Neuron
runtime. Gives ``gpu.driver`` (versions, and when nvidia-smi was asked), ``gpu.counters`` (all it counts),
``gpu.nvlink_errors``, ``gpu.smi_error`` (the tool could not talk to a device), ``gpu.identity`` (index, bus id, UUID,
serial), ``gpu.remapped_rows``, ``gpu.ecc_errors``, ``gpu.fabric_state``, ``gpu.xid_report``, ``gpu.diag_failed``,
``gpu.hsa_fault``, ``neuron.error``. A snapshot has the time of the question, not of the fault.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from correlator.events import Found, Parser, Pattern
from parsers._amd_smi import ROCM_LINE, read_amd, rocm_identity
from parsers._lines import named, one_line
from parsers._pci import ADDRESS, normalise_pci, with_bus_id
from parsers._smi_query import read_query
from parsers._smi_xml import read_xml

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


_HEADER = {
    "Timestamp": "asked_at", "Driver Version": "driver_version", "CUDA Version": "cuda_version",
    "Attached GPUs": "attached_gpus",
    "timestamp": "asked_at", "driver_version": "driver_version", "cuda_version": "cuda_version",
    "attached_gpus": "attached_gpus",
}  # fmt: skip
_HEADER_LINE = re.compile(r"^(?P<key>[A-Z][A-Za-z ]+?)\s+: (?P<text>.+?)\s*$|^\s*<(?P<tag>\w+)>(?P<value>[^<]*)</\w+>")


def _read_header(lines: Sequence[str]) -> list[Found]:
    """What stands above the devices of ``nvidia-smi -q``, text or XML."""
    found: dict[str, object] = {}
    last = 0
    for index, line in enumerate(lines):
        if line.startswith("GPU ") or "<gpu id=" in line:
            break
        match = _HEADER_LINE.match(line)
        key = (match["key"] or match["tag"]) if match else ""
        if match and key in _HEADER:
            found.setdefault(_HEADER[key], match["text"] or match["value"])
            last = index
    return [Found(0, last, found)] if "driver_version" in found else []


_LINK_DEVICE = re.compile(r"^GPU (?P<gpu>\d+): (?P<model>.*?) \(UUID: (?P<uuid>GPU-[0-9a-f-]+)\)")
_LINK_ERRORS = re.compile(r"^\s+Link (?P<link>\d+): (?P<kind>Replay|Recovery|CRC)(?: Flit)? Errors?: (?P<count>\d+)")


def _read_link_errors(lines: Sequence[str]) -> list[Found]:
    """Error counts of the links of one device, as ``nvidia-smi nvlink -e`` lists them; sums, and links with errors."""
    device = _LINK_DEVICE.match(lines[0])
    if device is None:
        return []
    sums: dict[str, int] = {}
    bad: set[int] = set()
    last = 0
    for index, line in enumerate(lines[1:], start=1):
        match = _LINK_ERRORS.match(line)
        if match is None and not line.startswith(("\t", " ")):
            break
        if match is not None:
            name = f"{match['kind'].lower()}_errors"
            sums[name] = sums.get(name, 0) + int(match["count"][:18])
            if int(match["count"][:18]):
                bad.add(int(match["link"]))
            last = index
    if not sums:
        return []
    links = {"links_with_errors": ",".join(map(str, sorted(bad)))} if bad else {}
    facts = {name: str(count) for name, count in sums.items()}
    return [Found(0, last, {**named(device), **facts, **links, "severity": "warning" if bad else "info"})]


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
            event="gpu.driver",
            literals=("NVSMI LOG", "<nvidia_smi_log>"),
            block=_read_header,
            block_lines=12,
            sample="==============NVSMI LOG==============\n\nTimestamp                                 : Wed May  1 "
            "07:45:00 2024\nDriver Version                            : 550.99.11",
            severity="info",
            not_samples=("==============NVSMI LOG==============\nTimestamp      : Wed May  1 07:45:00 2024",),
        ),
        Pattern(
            event="gpu.nvlink_errors",
            literals=("(UUID: GPU-",),
            block=_read_link_errors,
            block_lines=120,
            sample="GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0c5e9a17-0000-41b9-a3c7-90e1f1b2c3d4)\n"
            "\t Link 0: Replay Errors: 0\n\t Link 0: Recovery Errors: 0\n\t Link 0: CRC Errors: 12",
            severity="info",
            not_samples=(
                "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0c5e9a17-0000-41b9-a3c7-90e1f1b2c3d4)\n\t Link 0: 26.562 GB/s",
            ),
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
            block_lines=700,
            sample="    Remapped Rows\n        Correctable Error                 : 0\n"
            "        Uncorrectable Error               : 1\n        Pending                           : Yes\n"
            "        Remapping Failure Occurred        : No",
            severity="warning",
            not_samples=("    Remapped Rows\n        Correctable Error                 : N/A",),
        ),
        Pattern(
            event="gpu.query",
            literals=('<gpu id="',),
            block=read_xml,
            block_lines=2000,
            sample='\t<gpu id="00000000:3D:00.0">\n\t\t<uuid>GPU-0c5e9a17-0000-41b9-a3c7-90e1f1b2c3d4</uuid>\n'
            "\t\t<remapped_rows>\n\t\t\t<remapped_row_failure>Yes</remapped_row_failure>\n\t\t</remapped_rows>\n\t</gpu>",
            severity="warning",
            not_samples=('\t<gpu id="00000000:3D:00.0">\n\t\t<uuid>GPU-0c5e9a17</uuid>',),
        ),
        Pattern(
            event="gpu.query",
            literals=("GPU: ",),
            block=read_amd,
            block_lines=300,
            sample="GPU: 3\n    ECC:\n        TOTAL_CORRECTABLE_COUNT: 4\n        TOTAL_UNCORRECTABLE_COUNT: 1",
            severity="warning",
            not_samples=("GPU: 3\n", "memory per GPU: 79 GiB", "GPU: 3\nECC: none"),
        ),
        Pattern(
            event="gpu.identity",
            literals=("Serial Number: ", "PCI Bus: ", "Unique ID: ", "Card series: ", "Card Series: "),
            block=one_line(ROCM_LINE, rocm_identity),
            block_lines=0,
            sample="GPU[3]\t\t: PCI Bus: 0000:26:00.0",
            severity="info",
            not_samples=("GPU[3]\t\t: Serial Number: N/A", "    Serial Number: 1650000000000"),
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
        Pattern(  # the HIP runtime's own words on a queue that the driver below it gave up
            event="gpu.hsa_fault",
            literals=(" aborting with error : HSA_STATUS_",),
            regex=r"Queue (?P<queue>0x[0-9a-f]+) aborting with error ?: ?(?P<what>HSA_STATUS_\w+): (?P<text>.*?)"
            r"(?: code: (?P<code>0x[0-9a-f]+))?$",
            sample=":0:rocdevice.cpp:2984: 63219873215 us: [pid:4711 tid:0x7f3c] Callback: Queue 0x7f5c40000000 "
            "aborting with error : HSA_STATUS_ERROR_EXCEPTION: An HSAIL operation resulted in a hardware exception. "
            "code: 0x1016",
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
