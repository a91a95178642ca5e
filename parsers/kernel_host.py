"""What the kernel and systemd say about the host itself: crashes, stalls, PCI Express, boots and shutdowns.

Emitted by: Linux ``kernel/``, ``arch/x86/mm/fault.c``, ``drivers/pci/pcie`` (AER, DPC, hot-plug), systemd. Gives
``kernel.segfault`` and ``kernel.hung_task`` (pid joins with the rank), ``kernel.lockup``, ``kernel.panic``,
``kernel.aer`` (``pci_bus_id`` is the source of the error, ``reporter`` the port that saw it), ``kernel.pcie_link``,
``kernel.boot``, ``kernel.shutdown``. A node whose log goes on with a boot line had crashed, or was power-cycled.
"""

from __future__ import annotations

from correlator.events import Parser, Pattern
from parsers._pci import ADDRESS, with_bus_id

# 6.x: "AER: Correctable error message received from 0000:8a:00.0"; 5.x: "AER: Corrected error received: 0000:8a:00.0"
_AER_RECEIVED = (
    rf"(?:pcieport (?P<reporter>{ADDRESS}): )?AER: (?:Multiple )?(?P<aer_severity>KIND) error (?:message )?received"
    rf"(?: from)?:? (?P<pci_bus_id>{ADDRESS})"
)
_AER_DETAIL = (
    rf"(?:(?P<driver>[\w-]{{1,64}}) )?(?P<pci_bus_id>{ADDRESS}): (?:AER: )?"
    r"PCIe Bus Error: severity=(?P<aer_severity>KIND), "
    r"type=(?P<layer>[^,]*)(?:, ?(?:id=\w+)?\(?(?P<agent>[^()]*)\)?)?"
)
_UNCORRECTED = r"Uncorrect(?:ed|able) \((?:Non-)?Fatal\)"
_CORRECTED = r"Correct(?:ed|able)"

PARSER = Parser(
    name="kernel_host",
    patterns=(
        Pattern(
            event="kernel.segfault",
            literals=("]: segfault at ",),
            regex=r"(?P<name>\S{1,32})\[(?P<pid>\d+)\]: segfault at \S+ ip \S+ sp \S+ error \w+(?: in "
            r"(?P<library>[^\[\s]+))?",
            sample="python3[4711]: segfault at 7f2a00000010 ip 00007f2b1c2d3e4f sp 00007ffd1a2b3c40 error 4 in "
            "libnccl.so.2[7f2b1c000000+a00000]",
        ),
        Pattern(
            event="kernel.segfault",
            literals=("traps: ",),
            regex=r"traps: (?P<name>\S+)\[(?P<pid>\d+)\] (?P<what>general protection fault|trap [\w ]+?) ip:\S+"
            r"(?:.*? in (?P<library>[^\[\s]+))?",
            sample="traps: python3[4711] general protection fault ip:7f2b1c2d3e4f sp:7ffd1a2b3c40 error:0 in "
            "libcuda.so.550.54.15[7f2b1c000000+a00000]",
        ),
        Pattern(
            event="kernel.hung_task",
            literals=("blocked for more than ",),
            regex=r"INFO: task (?P<name>.+?):(?P<pid>\d+) blocked(?: in I/O wait)? for more than (?P<seconds>\d+) "
            r"seconds",
            sample="INFO: task python3:4711 blocked for more than 120 seconds.",
            severity="warning",
        ),
        Pattern(
            event="kernel.lockup",
            literals=("soft lockup - CPU", "hard LOCKUP", "detected stall", "self-detected stall"),
            regex=r"(?P<what>soft lockup|hard LOCKUP|(?:self-)?detected (?:expedited )?stalls?)"
            r"(?: - CPU#(?P<cpu>\d+) stuck for (?P<seconds>\d+)s! \[(?P<name>[^\]]*?):(?P<pid>\d+)\])?",
            sample="watchdog: BUG: soft lockup - CPU#18 stuck for 27s! [python3:4711]",
            severity="warning",
        ),
        Pattern(
            event="kernel.panic",
            literals=(
                "Kernel panic - not syncing",
                "BUG: unable to handle ",
                "BUG: kernel NULL pointer",
                "kernel BUG at ",
                "general protection fault, probably",
            ),
            regex=r"(?P<what>Kernel panic - not syncing(?:: .*)?|BUG: (?:unable to handle|kernel NULL).*|kernel BUG "
            r"at .*|"
            r"general protection fault, probably.*)$",
            sample="Kernel panic - not syncing: Fatal machine check",
            severity="fatal",
        ),
        Pattern(
            event="kernel.nmi",
            literals=("NMI received for unknown reason",),
            regex=r"NMI received for unknown reason (?P<reason>\w+) on CPU (?P<cpu>\d+)",
            sample="Uhhuh. NMI received for unknown reason 30 on CPU 0.",
            severity="warning",
        ),
        Pattern(
            event="kernel.aer",
            literals=("AER: Uncorrect", "AER: Multiple Uncorrect"),
            block=with_bus_id(_AER_RECEIVED.replace("KIND", _UNCORRECTED)),
            block_lines=0,
            sample="pcieport 0000:89:02.0: AER: Uncorrected (Fatal) error received: 0000:8a:00.0",
        ),
        Pattern(
            event="kernel.aer",
            literals=("severity=Uncorrect",),
            block=with_bus_id(_AER_DETAIL.replace("KIND", _UNCORRECTED)),
            block_lines=0,
            sample="nvidia 0000:8a:00.0: AER: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, "
            "(Receiver ID)",
        ),
        Pattern(
            event="kernel.aer",
            literals=("AER: Correct", "AER: Multiple Correct"),
            block=with_bus_id(_AER_RECEIVED.replace("KIND", _CORRECTED)),
            block_lines=0,
            sample="pcieport 0000:89:02.0: AER: Multiple Corrected error received: 0000:8a:00.0",
            severity="info",
            sparse=True,
        ),
        Pattern(
            event="kernel.aer",
            literals=("severity=Correct",),
            block=with_bus_id(_AER_DETAIL.replace("KIND", _CORRECTED)),
            block_lines=0,
            sample="nvidia 0000:8a:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
            severity="info",
            sparse=True,
        ),
        Pattern(
            event="kernel.pcie_link",
            literals=("DPC: containment event", "DPC: unmasked uncorrectable", "): Link Down", "): Card not present"),
            block=with_bus_id(
                rf"(?:pcieport|pciehp) (?P<pci_bus_id>{ADDRESS})(?::pcie\d+)?: (?:DPC: |pciehp: )?"
                r"(?:Slot\((?P<slot>[^)]*)\): )?(?P<what>containment event|unmasked uncorrectable error|Link "
                r"Down|Card not present)"
            ),
            block_lines=0,
            sample="pcieport 0000:89:02.0: pciehp: Slot(5): Link Down",
        ),
        Pattern(
            event="kernel.thermal",
            literals=("temperature above threshold",),
            regex=r"CPU(?P<cpu>\d+): (?P<what>Core|Package) temperature above threshold",
            sample="mce: CPU4: Core temperature above threshold, cpu clock throttled (total events = 22034)",
            severity="info",
            sparse=True,
        ),
        Pattern(
            event="kernel.boot",
            literals=("Linux version ", "-- Reboot --", "-- Boot "),
            regex=r"^(?:Linux version (?P<version>\S+) \(|-- (?:Reboot|Boot (?P<boot_id>[0-9a-f]{32})) --)",
            sample="Linux version 5.15.0-105-generic (builder@host) (gcc 11.4.0) #115-Ubuntu SMP Mon Apr 15 09:52:04 "
            "UTC 2024",
            severity="warning",
            not_samples=("Platform: Linux version 5.15 on x86_64",),
        ),
        Pattern(
            event="kernel.shutdown",
            literals=(
                "The system will ",
                "System is powering down",
                "System is rebooting",
                "reboot: Restarting system",
                "reboot: Power down",
                "Reached target Shutdown",
                "Reached target System Reboot",
                "Reached target System Power Off",
                "Power key pressed",
            ),
            regex=r"^(?P<what>The system will (?:reboot|power off|halt) now!|System is (?:powering down|rebooting)|"
            r"reboot: (?:Restarting system|Power down)|Power key pressed|"
            r"Reached target (?:Shutdown|System Reboot|System Power Off))",
            sample="System is rebooting.",
            severity="warning",
        ),
    ),
)
