"""Lines of the NVIDIA resiliency extension: rank monitors, health checks, restarts in the job.

Emitted by, in ``nvidia_resiliency_ext``: ``fault_tolerance/{rank_monitor_server,launcher}.py``,
``shared_utils/health_check.py``, ``inprocess/``. Versions checked: 0.3 to 0.7. Each rank has a monitor of its own, so
the rank in the head (``[workload:4(0) infra:1(0)]``: global, local) is the rank that the line is about. A missed
heartbeat names a rank that hangs OR waits: when all ranks miss it within a moment, the one that did not wait is
elsewhere.
"""

from __future__ import annotations

from correlator.events import Parser, Pattern

# stays in the text where the head was not peeled
_HEAD = r"(?:\[workload:(?P<rank>\d+)\((?P<local_rank>\d+)\) infra:\S+\] \S+:\d+ )?"
_CYCLE = r"(?:\[Cycle (?P<attempt>\d+)\] )?"

PARSER = Parser(
    name="nvrx",
    patterns=(
        Pattern(
            event="nvrx.heartbeat_missed",
            literals=("Did not get subsequent heartbeat", "Did not get initial heartbeat"),
            regex=_HEAD
            + _CYCLE
            + r"Did not get (?P<which>subsequent|initial) heartbeat\. Waited (?P<waited_s>[\d.]+) seconds",
            sample="[Cycle 0] Did not get subsequent heartbeat. Waited 15.00 seconds.",
        ),
        Pattern(
            event="nvrx.section_timeout",
            literals=("' has been open for ",),
            regex=_HEAD
            + _CYCLE
            + r"Section '(?P<section>[^']+)' has been open for (?P<open_s>[\d.]+) seconds\. Timeout is "
            r"(?P<timeout_s>[\d.]+) seconds",
            sample="[Cycle 0] Section 'step' has been open for 120.40 seconds. Timeout is 60.00 seconds.",
        ),
        Pattern(
            event="nvrx.section_timeout",
            literals=("Was out of section for ",),
            regex=_HEAD
            + _CYCLE
            + r"Was out of section for (?P<open_s>[\d.]+) seconds\. Timeout is (?P<timeout_s>[\d.]+) seconds",
            fields={"section": "none"},
            sample="[Cycle 0] Was out of section for 120.40 seconds. Timeout is 60.00 seconds.",
        ),
        Pattern(
            event="nvrx.nic_link_down",
            literals=("link down counter has been incremented",),
            regex=_HEAD
            + r"GPU (?P<gpu>\d+) NIC/IB (?P<device>\S+) link down counter has been incremented: (?P<before>\d+) -> "
            r"(?P<after>\d+)",
            sample="GPU 1 NIC/IB mlx5_1 link down counter has been incremented: 0 -> 1 ",
        ),
        Pattern(
            event="nvrx.nic_link_down",
            literals=(": Port state changed from ",),
            regex=r"NIC device (?P<device>\S+): Port state changed from (?P<before>.+?) to (?P<after>[\w: ]+)",
            sample="NIC device mlx5_1: Port state changed from ACTIVE to DOWN. Health check FAILED.",
        ),
        Pattern(
            event="nvrx.gpu_unhealthy",
            literals=(
                "Requires a reset to recover",
                "Requires a node reboot",
                "Requires peer-to-peer traffic",
                "Operating at reduced",
            ),
            regex=r"GPU (?P<gpu>\d+): (?P<action>Requires a reset|Requires a node reboot|Requires peer-to-peer "
            r"traffic|Operating "
            r"at reduced capacity)",
            sample="GPU 3: Requires a reset to recover. Terminate GPU processes and reset the GPU.",
        ),
        Pattern(
            event="nvrx.gpu_unhealthy",
            literals=(": NVL link ", "NVLinkWindowHealthCheck: GPU "),
            regex=r"GPU (?P<gpu>\d+)(?:: NVL link (?P<link>\d+) (?P<state>is in DISABLED state|not accessible)| "
            r"unhealthy)",
            fields={"action": "NVLink"},
            sample="GPU 3: NVL link 11 is in DISABLED state",
        ),
        Pattern(
            event="nvrx.node_unhealthy",
            literals=("Node health check failed: ", " failed for node ", "lustre health_check not healthy"),
            regex=r"(?:Node health check failed: (?P<message>.*)|(?P<check>\w[\w ]{0,80}) failed for node "
            r"(?P<node>[\w.-]+?)(?:_\d+_\d+)?"
            r": (?P<reason>.*)|lustre health_check not healthy: '(?P<status>[^']*)')",
            sample="Node health check failed: fail_count=1, failed_checks=['disk']",
        ),
        Pattern(
            event="nvrx.rank_stopped",
            literals=("Rank unhealthy, shutting down rank process",),
            regex=_HEAD + r"Rank unhealthy, shutting down rank process",
            severity="warning",
            sample="Rank unhealthy, shutting down rank process",
        ),
        Pattern(
            event="nvrx.rank_stopped",
            literals=("Rank monitor sent SIGCONT then ",),
            regex=_HEAD + r"Rank monitor sent SIGCONT then (?P<name>SIG\w+) to the rank \(PID=(?P<pid>\d+)\)",
            severity="warning",
            sample="Rank monitor sent SIGCONT then SIGKILL to the rank (PID=4711)",
        ),
        Pattern(
            event="nvrx.restart",
            literals=("Joining cluster restart (group_rank=", "nvrx-control closed rendezvous round"),
            regex=r"Joining cluster restart \(group_rank=(?P<group_rank>\d+)\)|nvrx-control closed rendezvous round "
            r"(?P<attempt>\d+)",
            severity="info",
            sample="[default] Joining cluster restart (group_rank=1)",
        ),
        Pattern(
            event="nvrx.no_restart",
            literals=("detected no progress across restarts", "Another launcher reported a no-restart decision"),
            regex=r"detected no progress across restarts|Another launcher reported a no-restart decision "
            r"\((?P<reason>[^)]*)\)",
            severity="warning",
            sample="[default] Progress tracker detected no progress across restarts. No more restarts will be "
            "attempted.",
        ),
        Pattern(
            event="nvrx.straggler",
            literals=("Detected stragglers. Terminating training", "STRAGGLER DETECTION WARNING"),
            regex=r"Detected stragglers\. Terminating training|STRAGGLER DETECTION WARNING.*?(?:[Aa]ffected ranks: "
            r"(?P<ranks>.*))?$",
            severity="warning",
            sample="Detected stragglers. Terminating training...",
        ),
        Pattern(
            event="nvrx.inprocess_change",
            literals=(
                "[In-process] Rank terminated",
                "[In-process] Rank marked for termination",
                "[In-process] Hot spare activated",
            ),
            regex=r"\[In-process\] (?P<change>Rank terminated|Rank marked for termination|Hot spare activated).*?"
            r"(?:initial_rank|rank)=(?P<rank>\d+)",
            severity="warning",
            sample="[In-process] Rank terminated (initial_rank=9)",
        ),
    ),
)
