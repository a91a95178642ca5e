"""What the kernel and its helpers say about host memory: the OOM killer, machine checks, EDAC.

Emitted by: Linux ``mm/oom_kill.c``, ``arch/x86/kernel/cpu/mce``, ``drivers/edac``, ``mm/memory-failure.c``, APEI;
systemd and earlyoom. Gives ``kernel.oom_kill`` once for each victim (``pid`` joins with the rank whose launcher saw
exit code -9; inside a container the two pids differ), ``kernel.oom_context`` for the lines around it,
``kernel.mce``, ``kernel.edac``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from correlator.events import Found, Parser, Pattern
from parsers._lines import named, one_line

# Kernels before 4.20 announce ("Kill process 4711 (python3) score 912 or sacrifice child") and then report
# ("Killed process 4711 (python3) total-vm:…") on two lines; only the report is a kill.
_KILLED = (
    r"(?P<origin>Memory cgroup out of memory|Out of memory(?: \([^)]*\))?|Tasks in \S+ are going to be killed[^:]*)?"
    r"[:.]? ?Killed process (?P<pid>\d+) \((?P<name>[^)]*)\)(?:,? UID:? ?\d+)?,? total-vm:\d+kB, "
    r"anon-rss:(?P<anon_rss_kb>\d+)kB"
)
_BANK = re.compile(
    r"mce: \[Hardware Error\]: CPU (?P<cpu>\d+): Machine Check(?P<exception> Exception)?: [0-9a-f]+ "
    r"Bank (?P<bank>\d+): (?P<status>[0-9a-f]+)"
)
#: Bit 61 of IA32_MCi_STATUS: the error was not corrected (Intel SDM vol. 3B, 16.3.2.2).
_UNCORRECTED = 1 << 61


def _kill(match: re.Match[str]) -> Mapping[str, object]:
    fields = named(match)
    origin = str(fields.pop("origin", ""))
    if origin:
        fields["cgroup"] = "true" if origin.startswith("Memory cgroup") else "false"
    return fields


def _read_bank(lines: Sequence[str]) -> list[Found]:
    """One record: the bank's line and the address and processor lines that follow it."""
    match = _BANK.search(lines[0])
    if match is None:
        return []
    uncorrected = match["exception"] is not None or bool(int(match["status"], 16) & _UNCORRECTED)
    last = 0
    while last + 1 < len(lines) and re.search(r"mce: \[Hardware Error\]: (?:TSC|RIP|PROCESSOR|Run) ?", lines[last + 1]):
        last += 1
    fields = {
        "cpu": match["cpu"],
        "bank": match["bank"],
        "status": match["status"],
        "uncorrected": "true" if uncorrected else "false",
    }
    return [Found(0, last, fields)]


PARSER = Parser(
    name="kernel_memory",
    patterns=(
        Pattern(
            event="kernel.oom_kill",
            literals=("Killed process ",),
            block=one_line(_KILLED, _kill),
            block_lines=0,
            sample="Memory cgroup out of memory: Killed process 4711 (python3) total-vm:812345678kB, "
            "anon-rss:512345678kB, file-rss:0kB, shmem-rss:0kB, UID:1001 pgtables:1234kB oom_score_adj:0",
            not_samples=("Out of memory: Kill process 4711 (python3) score 912 or sacrifice child",),
        ),
        Pattern(
            event="kernel.oom_kill",
            literals=(
                "systemd-oomd",
                "due to memory pressure for ",
                "due to memory used (",
                "sending SIGKILL to process ",
            ),
            regex=r"(?:Killed (?P<unit>/\S+) due to memory (?:pressure|used)|"
            r"sending SIGKILL to process (?P<pid>\d+)(?: uid \d+)? \"(?P<name>[^\"]*)\")",
            fields={"by": "user-space daemon"},
            sample="Killed /system.slice/slurmstepd.scope/job_123 due to memory used (512.1G) / total (515.0G) and "
            "swap used",
        ),
        Pattern(
            event="kernel.oom_context",
            literals=("oom-kill:constraint=",),
            regex=r"oom-kill:constraint=(?P<constraint>\w+),.*?(?:oom_memcg=(?P<oom_memcg>[^,]*),)?"
            r"(?:task_memcg=(?P<task_memcg>[^,]*),)task=(?P<name>[^,]*),pid=(?P<pid>\d+)",
            sample="oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=job_123,mems_allowed=0-1,"
            "oom_memcg=/slurm/uid_1001/job_123,task_memcg=/slurm/uid_1001/job_123/step_0/task_3,task=python3,pid=4711,uid=1001",
            severity="warning",
        ),
        Pattern(
            event="kernel.oom_context",
            literals=("invoked oom-killer: ", "oom_reaper: reaped process "),
            regex=r"(?:(?P<name>\S{1,32}) invoked oom-killer: gfp_mask=|"
            r"oom_reaper: reaped process (?P<pid>\d+) \((?P<reaped>[^)]*)\))",
            sample="python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
            severity="warning",
        ),
        Pattern(
            event="kernel.oom_context",
            literals=("killed by the OOM killer",),
            regex=r"(?P<unit>\S{1,255}): A process of this unit has been killed by the OOM killer",
            sample="session-42.scope: A process of this unit has been killed by the OOM killer.",
            severity="warning",
        ),
        Pattern(
            event="kernel.mce",
            literals=(": Machine Check",),
            block=_read_bank,
            block_lines=4,
            sample="mce: [Hardware Error]: CPU 12: Machine Check Exception: 5 Bank 5: bea0000000000108",
        ),
        Pattern(
            event="kernel.mce",
            literals=("Memory failure: 0x", "Uncorrected hardware memory error", "_STATUS[", "event severity: "),
            regex=r"(?P<what>Memory failure: 0x[0-9a-f]+: .*|.*Uncorrected hardware memory error.*|"
            r"MC\d+_STATUS\[[^\]]*\|UC\|[^\]]*\].*|event severity: (?:fatal|recoverable))",
            sample="[Hardware Error]: CPU:12 (19:1:1) MC17_STATUS[Over|UC|MiscV|AddrV|-|-|CECC|-|-|-]: "
            "0xdc2040000000011b",
            not_samples=("{1}[Hardware Error]: event severity: corrected",),
        ),
        Pattern(
            event="kernel.mce_notice",
            literals=(
                "Machine check events logged",
                "Corrected error, no action required",
                "event severity: corrected",
            ),
            regex=r"(?P<what>Machine check events logged|Corrected error, no action required|event severity: "
            r"corrected)",
            sample="mce: [Hardware Error]: Machine check events logged",
            severity="info",
            sparse=True,
        ),
        Pattern(
            event="kernel.edac",
            literals=(" UE ",),
            regex=r"EDAC (?:\w+ )?(?P<controller>MC\w*\d+): (?P<errors>\d+) (?P<kind>UE) (?P<what>.*?) on "
            r"(?P<label>\S+)",
            sample="EDAC MC0: 1 UE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x12345)",
        ),
        Pattern(
            event="kernel.edac",
            literals=(" CE ",),
            regex=r"EDAC (?:\w+ )?(?P<controller>MC\w*\d+): (?P<errors>\d+) (?P<kind>CE) (?P<what>.*?) on "
            r"(?P<label>\S+)",
            sample="EDAC MC0: 3 CE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x12345)",
            severity="info",
            sparse=True,
        ),
    ),
)
