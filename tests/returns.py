"""A made-up node whose GPU is ripe for a return, with every diagnostic file that a vendor asks for."""

from __future__ import annotations

import json
from pathlib import Path

from joblogs import HOSTS, iterations, kernel, torchrun, write, xid

HOST = HOSTS[1]
BUS, UUID, SERIAL = "0000:cb:00", "GPU-0c5e9a17-0000-41b9-a3c7-90e1f1b2c3d4", "1650000000004"


def query(failure: str = "Yes") -> list[str]:
    """``nvidia-smi -q`` of the node's two GPUs after the fault; the second is the bad one."""

    def device(bus: str, uuid: str, serial: str, module: int, failed: str) -> list[str]:
        return [
            f"GPU {bus}",
            "    Product Name                          : NVIDIA H100 80GB HBM3",
            f"    Serial Number                         : {serial}",
            f"    GPU UUID                              : {uuid}",
            "    VBIOS Version                         : 96.00.74.00.1F",
            "    Board ID                              : 0x1b00",
            "    Board Part Number                     : 692-2G520-0200-000",
            "    GPU Part Number                       : 2330-885-A1",
            "    Platform Info",
            "        Chassis Serial Number             : 1820000000001",
            "        Slot Number                       : 4",
            f"        Module Id                         : {module}",
            "    Remapped Rows",
            "        Correctable Error                 : 0",
            f"        Uncorrectable Error               : {9 if failed == 'Yes' else 0}",
            "        Pending                           : No",
            f"        Remapping Failure Occurred        : {failed}",
            "",
        ]

    return [
        "==============NVSMI LOG==============",
        "",
        "Timestamp                                 : Fri Mar 14 10:12:00 2025",
        "Driver Version                            : 550.99.11",
        "CUDA Version                              : 12.4",
        "",
        "Attached GPUs                             : 2",
        *device("00000000:1B:00.0", UUID.replace("c3d4", "c3d1"), "1650000000001", 1, "No"),
        *device("00000000:CB:00.0", UUID, SERIAL, 3, failure),
    ]


def field_diagnostic(result: str = "FAIL") -> list[str]:
    code = ["Error: MODS-000000083363"] if result == "FAIL" else []
    return [
        "Running test 12 on GPU 1 - 314 tests remaining   |==                  | 4 %",
        "Running test 208 on GPU 1 - 118 tests remaining   |===================   | 64 %",
        *code,
        result,
    ]


def dcgm(status: str = "Fail") -> list[str]:
    warning = {"warning": "GPU 1 had uncorrectable memory errors and row remapping failed.", "error_id": 80, "error_category": 10, "error_severity": 6}  # fmt: skip
    result = {"entity_group": "GPU", "entity_group_id": 1, "entity_id": 1, "status": status}
    report = {
        "DCGM Diagnostic": {
            "test_categories": [
                {"category": "Hardware", "tests": [{"name": "memory", "results": [result | ({"warnings": [warning]} if status == "Fail" else {})]}]}
            ]
        },
        "entity_groups": [{"entity_group": "GPU", "entity_group_id": 1, "entities": [{"entity_id": 1, "serial_num": SERIAL}]}],
        "metadata": {"version": "4.1.1", "Driver Version Detected": "550.99.11"},
    }  # fmt: skip
    return json.dumps(report, indent=2).split("\n")


def bug_report() -> list[str]:
    rule = "_" * 44
    return [
        rule, "", "Start of NVIDIA bug report log file.  Please include this file, along", "",
        "nvidia-bug-report.sh Version: 36086218", "", "Date: Fri Mar 14 10:13:00 UTC 2025",
        f"uname: Linux {HOST} 5.15.0-105-generic #115-Ubuntu SMP x86_64", rule, "", "/usr/bin/lspci -t", "",
        "-[0000:00]-+-00.0", rule, "", "/usr/bin/dmidecode", "", "System Information", "\tManufacturer: Example",
        "\tProduct Name: GPU Server 8", "\tSerial Number: S1230001", "", rule, "", "End of NVIDIA bug report log file.",
    ]  # fmt: skip


def complete(**changes: list[str]) -> dict[str, list[str]]:
    """The files of a case that meets the criteria; ``changes`` by the first word of a file's name."""
    files = {
        **torchrun({0: iterations(30), 1: [], 2: [], 3: []}, {3: -6}),
        f"kern-{HOST}.log": [
            *kernel(30.0, HOST, f"NVRM: GPU at PCI:{BUS}: {UUID}"),
            *kernel(30.0, HOST, f"NVRM: GPU Board Serial Number: {SERIAL}"),
            *xid(31.0, HOST, BUS, 64, "pid=4821, name=python3, Row Remapper: Error recording row remap"),
            *xid(31.0, HOST, BUS, 48, "pid=4821, name=python3, An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at [physAddr 0x7fdf0de80 ]partition 5, subpartition 1."),
        ],
        f"nvidia-smi-q-{HOST}.txt": query(),
        f"fieldiag-{HOST}.log": field_diagnostic(),
        f"dcgm-diag-{HOST}.json": dcgm(),
        f"nvidia-bug-report-{HOST}.log": bug_report(),
        f"sel-{HOST}.txt": [
            " 1a2 | 03/14/2025 | 09:00:00 | Event Logging Disabled #0x07 | Log area reset/cleared | Asserted"
        ],
    }  # fmt: skip
    for word, lines in changes.items():
        name = next(name for name in files if name.startswith(word))
        files[name] = lines
    return files


def write_complete(folder: Path, **changes: list[str]) -> Path:
    return write(folder, complete(**changes))
