"""What kernel drivers say about accelerators: NVIDIA Xid and SXid, lost devices, device identity, amdgpu, habanalabs.

Emitted by: NVIDIA/open-gpu-kernel-modules ``kernel_rc.c``, ``common_nvswitch.h`` (drivers to 595) and the older
closed drivers; Linux ``drivers/gpu/drm/amd``. Gives ``kernel.*`` with ``pci_bus_id``; the node comes from the
journal's envelope. What an Xid number means is not decided here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from correlator.events import Found, Parser, Pattern
from parsers._lines import named, one_line
from parsers._pci import ADDRESS, normalise_pci, with_bus_id

# "NVRM: Xid (PCI:0000:dc:00 GPU-I:05): 79, pid=4711, name=python3, text"; no "PCI:" in very old drivers; pid and name
# are absent, or "'<unknown>'", where no process is tied to the event. Xid 45 may end in "caused by previous Xid <N>".
_XID = (
    rf"NVRM: Xid \((?P<pci_bus_id>{ADDRESS})(?: (?P<mig>GPU-I:\d+(?: GPU-CI:\d+)?))?\): (?P<xid>\d+)"
    r"(?:, pid=(?:(?P<pid>\d+)|'?<unknown>'?))?(?:, name=(?:<unknown>|(?P<name>[^,]*)))?"
    r"(?:, (?P<text>.*?(?:caused by previous Xid (?P<previous_xid>\d+).*)?))?$"
)

# The first line of each switch error; "Severity …" and "Data {…}" lines with the same number follow and add nothing.
_SXID = (
    rf"nvidia-nvswitch(?P<switch>\d+): SXid \((?P<pci_bus_id>{ADDRESS})\): (?P<xid>\d+), "
    r"(?P<kind>Fatal|Non-fatal|Correctable), (?P<text>(?:Link (?P<link>\d+))?.*)$"
)


def _sxid(match: re.Match[str]) -> Mapping[str, object]:
    fields = named(match)
    fields["fatal"] = "true" if fields["kind"] == "Fatal" else "false"
    fields["pci_bus_id"] = normalise_pci(str(fields["pci_bus_id"]))
    return fields


_IDENTITY = re.compile(rf"NVRM: GPU at ({ADDRESS}): (?P<uuid>GPU-[0-9a-f-]+)")
_SERIAL = re.compile(r"NVRM: GPU Board Serial Number: *(\S*)")
_SERIAL_LATE = re.compile(rf"NVRM: GPU ({ADDRESS}): GPU serial number is (\S+?)\.?$")


def _read_identity(lines: Sequence[str]) -> list[Found]:
    if match := _IDENTITY.search(lines[0]):
        fields: dict[str, object] = {"pci_bus_id": normalise_pci(match[1]), "uuid": match["uuid"]}
        serial = _SERIAL.search(lines[1]) if len(lines) > 1 else None
        if serial and serial[1]:
            return [Found(0, 1, {**fields, "serial": serial[1]})]
        return [Found(0, 0, fields)]
    if match := _SERIAL_LATE.search(lines[0]):
        return [Found(0, 0, {"pci_bus_id": normalise_pci(match[1]), "serial": match[2]})]
    return []


_LOST_AT_INIT = re.compile(rf"NVRM: The NVIDIA GPU ({ADDRESS})")


def _read_lost_at_init(lines: Sequence[str]) -> list[Found]:
    match = _LOST_AT_INIT.search(lines[0])
    if match is None:
        return []
    for index, line in enumerate(lines[:4]):
        if "fallen off the bus" in line:
            return [Found(0, index, {"pci_bus_id": normalise_pci(match[1]), "what": "at initialisation"})]
    return []


_AMDGPU = (
    rf"amdgpu (?P<pci_bus_id>{ADDRESS}):(?: amdgpu:)? (?P<text>.*)$|amdgpu: (?P<text_only>.*)$|"
    r"\[drm:.*\] ?(?P<drm>\*ERROR\*.*)$"
)
# Own words for what a line says; the first that fits
_AMDGPU_KINDS = (
    ("no-errors", re.compile(r"\bno (?:(?:un)?correctable|deferred) hardware error")),
    ("uncorrectable", re.compile(r"uncorrectable hardware error")),
    ("deferred", re.compile(r"deferred hardware error")),
    ("correctable", re.compile(r"correctable hardware error")),
    ("reset-begin", re.compile(r"GPU reset begin")),
    ("reset-failed", re.compile(r"GPU reset\(\d+\) failed|[Rr]eset failed|GPU reset end with ret = -")),
    ("reset-done", re.compile(r"GPU reset\(\d+\) succeeded")),
    ("poison", re.compile(r"poison is consumed|Poison is created")),
    ("bad-pages", re.compile(r"bad pages \d+ reaches threshold")),
    ("page-fault", re.compile(r"page fault")),
    (
        "hang",
        re.compile(
            r"fence wait loop timeout|ring \S+ timeout|GPU hang|MES failed|[Qq]ueue (?:preemption|eviction)|evict"
        ),
    ),
    ("throttled", re.compile(r"GPU is throttled")),
    ("init-failed", re.compile(r"Fatal error during GPU init|probe .*failed|VRAM is lost")),
)
_AMDGPU_BENIGN = ("no-errors", "deferred", "correctable", "reset-done", "throttled")


def _amdgpu(match: re.Match[str]) -> Mapping[str, object] | None:
    text = match["text"] or match["text_only"] or match["drm"]
    what = next((what for what, regex in _AMDGPU_KINDS if regex.search(text)), None)
    if what is None:
        return None
    fields: dict[str, object] = {"what": what, "text": text}
    if what in _AMDGPU_BENIGN:
        fields["severity"] = "info"
    if match["pci_bus_id"]:
        fields["pci_bus_id"] = normalise_pci(match["pci_bus_id"])
    return fields


_NVRM = (
    rf"NVRM: (?:GPU (?P<pci_bus_id>{ADDRESS}): )?(?P<text>(?P<what>RmInitAdapter failed|rm_init_adapter failed|"
    r"API mismatch|nvGpuOpsReportFatalError|knvlink\w+|krcWatchdog\w*|GPU\d* GSP RPC buffer|Rate limiting GSP RPC|"
    r"_kgspRpcRecvPoll|nvAssert\w*Failed|iovaspace\w*|dmaAllocMapping\w*|os_dump_stack|gpuHandleSanityCheckRegReadError\w*)"
    r".*)$"
)


_ACA_HEAD = re.compile(rf"amdgpu (?P<pci_bus_id>{ADDRESS}):.*Accelerator Check Architecture events logged")
_ACA_ENTRY = re.compile(
    rf"amdgpu (?P<pci_bus_id>{ADDRESS}):.*aca entry\[\d+\]\.(?:STATUS=(?P<status>0x[0-9a-f]+)|\w+=)"
)
#: Bit 61 of a machine-check status: the error was not corrected (AMD64 APM vol. 2, 9.3.2.1).
_UNCORRECTED = 1 << 61


def _read_check_architecture(lines: Sequence[str]) -> list[Found]:
    """Every device of a hive logs a record when one fails; only the status tells which one has the error."""
    head = _ACA_HEAD.search(lines[0])
    if head is None:
        return []
    fields: dict[str, object] = {"what": "check-architecture", "pci_bus_id": normalise_pci(head["pci_bus_id"])}
    severity, last = "warning", 0
    for index, line in enumerate(lines[1:], start=1):
        entry = _ACA_ENTRY.search(line)
        if entry is None or entry["pci_bus_id"] != head["pci_bus_id"]:
            break
        last = index
        if status := entry["status"]:
            uncorrected = bool(int(status, 16) & _UNCORRECTED)
            fields |= {"status": status, "uncorrected": "true" if uncorrected else "false"}
            severity = "error" if uncorrected else "info"
    return [Found(0, last, {**fields, "severity": severity})]


PARSER = Parser(
    name="kernel_gpu",
    patterns=(
        Pattern(
            event="kernel.xid",
            literals=("NVRM: Xid (",),
            block=with_bus_id(_XID),
            block_lines=0,
            sample="NVRM: Xid (PCI:0000:DC:00): 79, pid=4711, name=python3, GPU has fallen off the bus.",
            not_samples=("NVRM: GPU 0000:dc:00.0: GPU has fallen off the bus.",),
        ),
        Pattern(
            event="kernel.sxid",
            literals=(": SXid (",),
            block=one_line(_SXID, _sxid),
            block_lines=0,
            sample="nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV "
            "error (First)",
            not_samples=(
                "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Severity 0 Engine instance 32 Sub-engine instance "
                "00",
            ),
        ),
        Pattern(
            event="kernel.gpu_identity",
            literals=("NVRM: GPU at ", "GPU serial number is "),
            block=_read_identity,
            block_lines=1,
            sample="NVRM: GPU at PCI:0000:dc:00: GPU-0c5e9a17-0000-41b9-a3c7-90e1f1b2c3d4\n"
            "NVRM: GPU Board Serial Number: 1650000000000",
            severity="info",
        ),
        Pattern(
            event="kernel.gpu_lost",
            literals=("GPU has fallen off the bus",),
            block=with_bus_id(rf"NVRM: GPU (?P<pci_bus_id>{ADDRESS}): (?P<what>GPU has fallen off the bus)"),
            block_lines=0,
            sample="NVRM: GPU 0000:dc:00.0: GPU has fallen off the bus.",
        ),
        Pattern(
            event="kernel.gpu_lost",
            literals=("NVRM: The NVIDIA GPU ",),
            block=_read_lost_at_init,
            block_lines=3,
            sample="NVRM: The NVIDIA GPU 0000:18:00.0\nNVRM: (PCI ID: 10de:2901) installed in this system has\n"
            "NVRM: fallen off the bus and is not responding to commands.",
        ),
        Pattern(
            event="kernel.nvrm",
            literals=(
                "RmInitAdapter failed",
                "rm_init_adapter failed",
                "NVRM: API mismatch",
                "NVRM: nvGpuOps",
                "NVRM: knvlink",
                "GSP RPC",
                "NVRM: krcWatchdog",
                "NVRM: nvAssert",
                "gpuHandleSanityCheck",
            ),
            block=with_bus_id(_NVRM),
            block_lines=0,
            sample="NVRM: GPU 0000:c1:00.0: RmInitAdapter failed! (0x24:0x65:1474)",
            severity="warning",
        ),
        Pattern(
            event="kernel.nvidia_driver",
            literals=("NVRM: loading NVIDIA UNIX",),
            regex=r"NVRM: loading NVIDIA UNIX .*?Kernel Module (?:for \S+ )? *(?P<version>\d+\.\d+(?:\.\d+)?)",
            sample="NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.133.20  Release Build  (builder@host)",
            severity="info",
        ),
        Pattern(
            event="kernel.nvidia_probe_failed",
            literals=("nvidia: probe of ", "probe with driver nvidia failed"),
            block=with_bus_id(
                rf"nvidia:? (?:probe of )?(?P<pci_bus_id>{ADDRESS})(?::? probe.*)? failed with error (?P<code>-?\d+)"
            ),
            block_lines=0,
            sample="nvidia: probe of 0000:dc:00.0 failed with error -1",
        ),
        Pattern(
            event="kernel.amdgpu",
            literals=("Accelerator Check Architecture events logged",),
            block=_read_check_architecture,
            block_lines=12,
            sample="amdgpu 0000:1c:00.0: {1}[Hardware Error]: Accelerator Check Architecture events logged\n"
            "amdgpu 0000:1c:00.0: {1}[Hardware Error]: aca entry[00].STATUS=0xbaa0000000060f0d",
        ),
        Pattern(
            event="kernel.amdgpu",
            literals=(
                "hardware error",
                "GPU reset",
                "eset failed",
                "poison is consumed",
                "Poison is created",
                "reaches threshold value",
                "page fault",
                "fence wait loop timeout",
                "ueue eviction failed",
                "GPU is throttled",
                "Fatal error during GPU init",
            ),
            block=one_line(_AMDGPU, _amdgpu),
            block_lines=0,
            sample="amdgpu 0000:1c:00.0: amdgpu: 1 uncorrectable hardware errors detected in umc block",
            not_samples=(
                "amdgpu 0000:1c:00.0: amdgpu: ring sdma_0.0 uses VM inv eng 4 on hub 8",
                "amdgpu 0000:1c:00.0: {1}[Hardware Error]: aca entry[00].STATUS=0x98000800003e0000",
            ),
        ),
        Pattern(
            event="kernel.habanalabs",
            literals=("habanalabs",),
            block=with_bus_id(
                rf"habanalabs (?P<device>hl\d+|accel\w*|{ADDRESS}):? "
                r"(?P<text>.*(?:ECC|[Rr](?:eset|ESET)|[Ee]rror|failed|stuck).*)$"
            ),
            block_lines=0,
            sample="habanalabs hl0: ECC error detected. address: 0x1c00. Syndrom: 0x3. block id 4. critical 1.",
        ),
    ),
)
