"""Lines of PyTorch Lightning and NeMo about processes and groups.

Emitted by, in Lightning: ``fabric/utilities/distributed.py``, ``fabric/strategies/launchers/subprocess_script.py``,
``pytorch/trainer/connectors/signal_connector.py``; in NeMo: ``collections/nlp/modules/common/megatron/
megatron_init.py``. Versions checked: Lightning 1.0 to 2.6, NeMo 1 and 2. In ``[rank: N] Received SIGTERM`` and ``[rank:
N] Child process …`` N is the LOCAL rank (of the child: index + 1, which is its local rank too), in all other lines
with that head the global one. Bars and ends are in ``trainers.py``.
"""

from __future__ import annotations

from correlator.events import Parser, Pattern

PARSER = Parser(
    name="lightning",
    patterns=(
        Pattern(
            event="lightning.init",
            literals=("GLOBAL_RANK: ",),
            regex=r"GLOBAL_RANK: (?P<rank>\d+), MEMBER: (?P<member>\d+)/(?P<total>\d+)",
            severity="info",
            sample="Initializing distributed: GLOBAL_RANK: 9, MEMBER: 10/64",
        ),
        Pattern(
            event="lightning.init",
            literals=(
                "All distributed processes registered. Starting with",
                "All DDP processes registered. Starting ddp with",
            ),
            regex=r"processes registered\. Starting (?:ddp )?with (?P<total>\d+) processes",
            severity="info",
            sample="All distributed processes registered. Starting with 64 processes",
        ),
        Pattern(
            event="lightning.device",
            literals=("- CUDA_VISIBLE_DEVICES: [",),
            regex=r"LOCAL_RANK: (?P<local_rank>\d+) - CUDA_VISIBLE_DEVICES: \[(?P<visible>[^\]]*)\]",
            severity="info",
            sample="LOCAL_RANK: 1 - CUDA_VISIBLE_DEVICES: [0,1,2,3]",
        ),
        Pattern(
            event="lightning.child_died",
            literals=("Forcefully terminating all other processes", "Child process with PID "),
            regex=r"(?:\[rank: (?P<local_rank>\d+)\] )?Child process with PID (?P<pid>\d+) terminated with code "
            r"(?P<exit_code>-?\d+)",
            sample="[rank: 1] Child process with PID 4711 terminated with code 1. Forcefully terminating all other "
            "processes "
            "to avoid zombies",
        ),
        Pattern(
            event="lightning.sigterm",
            literals=("Received SIGTERM: ",),
            regex=r"(?:\[rank: (?P<local_rank>\d+)\] )?Received SIGTERM: (?P<signal>\d+)",
            severity="info",
            sample="[rank: 1] Received SIGTERM: 15",
        ),
        Pattern(  # 1.x: the rank on which the exception was raised; its traceback follows
            event="lightning.deadlock",
            literals=("DeadLock detected from rank",),
            regex=r"DeadLock detected from rank: (?P<rank>\d+)",
            sample="DeadLock detected from rank: 9",
        ),
        Pattern(
            event="lightning.slurm_mismatch",
            literals=(
                "does not match. HINT: Set `devices=",
                "in your SLURM bash script, but this variable is not supported",
            ),
            regex=r"--ntasks(?P<per_node>-per-node)?=(?P<ntasks>\d+)`",
            sample="You set `devices=4` in Lightning, but the number of tasks per node configured in SLURM "
            "`--ntasks-per-node=8` does not match. HINT: Set `devices=8`.",
        ),
        Pattern(
            event="nemo.parallel_group",
            literals=(" parallel group", " parallel rank: "),
            regex=r"Rank (?P<rank>\d+) has (?:combined group of "
            r")?(?P<kind>(?:data|tensor|pipeline|context|expert|embedding|"
            r"virtual)[\w &]*?)(?: parallel)? group ?: \[(?P<members>[\d, ]*)\]",
            severity="info",
            sample="Rank 0 has tensor model parallel group: [0, 1]",
        ),
    ),
)
