"""Lines of DeepSpeed's launcher and runtime.

Emitted by: ``deepspeed/launcher/{runner,launch}.py``, ``deepspeed/runtime/{engine.py,fp16/loss_scaler.py}``. Versions
checked: 0.5 to 0.19 (2026-08). The launcher lists ALL its children when it kills them, and the command that it prints
with the return code is always the LAST one it spawned: only the code means anything. Step lines are in
``trainers.py``, checkpoints in ``checkpoints.py``, the configuration dump in ``configs.py``.
"""

from __future__ import annotations

from correlator.events import Parser, Pattern

PARSER = Parser(
    name="deepspeed",
    patterns=(
        Pattern(
            event="deepspeed.world",
            literals=("global_rank_mapping=",),
            regex=r"global_rank_mapping=(?:defaultdict\([^{]*)?(?P<mapping>\{.*\})",
            severity="info",
            fields={"kind": "global ranks"},
            sample="global_rank_mapping=defaultdict(<class 'list'>, {'node1': [0, 1], 'node2': [2, 3]})",
        ),
        Pattern(
            event="deepspeed.world",
            literals=("WORLD INFO DICT:",),
            regex=r"WORLD INFO DICT: (?P<mapping>\{.*\})",
            severity="info",
            fields={"kind": "slots"},
            sample="WORLD INFO DICT: {'node1': [0, 1], 'node2': [0, 1]}",
        ),
        Pattern(
            event="deepspeed.world",
            literals=("num_local_procs=",),
            regex=r"nnodes=(?P<nnodes>\d+), num_local_procs=(?P<num_local_procs>\d+), node_rank=(?P<node_rank>\d+)",
            severity="info",
            sample="nnodes=2, num_local_procs=8, node_rank=1",
        ),
        Pattern(
            event="deepspeed.world",
            literals=("dist_world_size=",),
            regex=r"\bdist_world_size=(?P<world_size>\d+)",
            severity="info",
            sample="dist_world_size=16",
        ),
        Pattern(
            event="deepspeed.world",
            literals=("cmd = pdsh ", "Running on the following workers: "),
            regex=r"(?:cmd = pdsh .*?-w |Running on the following workers: )(?P<nodes>[\w.,\[\]-]+)",
            severity="info",
            sample="cmd = pdsh -S -f 1024 -w node1,node2 export PYTHONPATH=/work; cd /work; /usr/bin/python3 -u -m "
            "deepspeed.launcher.launch",
        ),
        Pattern(  # the address is empty where `hostname -I` gave nothing; argparse then swallows the next option
            event="deepspeed.master_addr",
            literals=("Using IP address of ",),
            regex=r"Using IP address of (?P<master_addr>[\w.:-]*) for node (?P<master_node>\S+)",
            severity="info",
            sample="Using IP address of 10.0.0.18 for node node1",
        ),
        Pattern(
            event="deepspeed.spawned",
            literals=(" spawned with command: [",),
            regex=r"process (?P<pid>\d+) spawned with command: \[.*?'--local_rank=(?P<local_rank>\d+)'",
            severity="info",
            sample="process 4711 spawned with command: ['/usr/bin/python3', '-u', 'train.py', '--local_rank=3']",
        ),
        Pattern(
            event="deepspeed.kill",
            literals=("Killing subprocess ",),
            regex=r"Killing subprocess (?P<pid>\d+)",
            severity="info",
            sample="Killing subprocess 4711",
        ),
        Pattern(  # the command is that of the child spawned last, whichever of them failed
            event="deepspeed.return_code",
            literals=("] exits with return code = ",),
            regex=r"(?:'--local_rank=(?P<last_local_rank>\d+)'.*)?\] exits with return code = (?P<exit_code>-?\d+)",
            sample="['/usr/bin/python3', '-u', 'train.py', '--local_rank=7'] exits with return code = -9",
        ),
        Pattern(
            event="deepspeed.exited",
            literals=(" exits successfully.",),
            regex=r"Process (?P<pid>\d+) exits successfully\.",
            severity="info",
            fields={"exit_code": 0},
            sample="Process 4711 exits successfully.",
        ),
        Pattern(
            event="deepspeed.signal",
            literals=("Main process received SIG",),
            regex=r"Main process received (?P<name>SIG\w+), exiting",
            severity="warning",
            sample="Main process received SIGTERM, exiting",
        ),
        Pattern(  # argparse of the launcher itself
            event="deepspeed.usage_error",
            literals=("launch.py: error: ", "deepspeed: error: ", "runner.py: error: "),
            regex=r"^(?:launch\.py|deepspeed|runner\.py): error: (?P<message>.*)",
            fields={"exit_code": 2},
            sample="launch.py: error: the following arguments are required: training_script, training_script_args",
        ),
        Pattern(
            event="deepspeed.loss_scale_min",
            literals=("Current loss scale already at minimum",),
            regex=r"Current loss scale already at minimum - cannot decrease scale anymore",
            sample="Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.",
        ),
        Pattern(
            event="deepspeed.overflow",
            literals=("] OVERFLOW! ", "fp16 dynamic loss scale overflow!"),
            regex=r"\[(?:deepspeed|deepscale)\] (?:OVERFLOW! Rank (?P<rank>\d+) Skipping step\.|fp16 dynamic loss "
            r"scale "
            r"overflow! Skipping step\.)(?: Attempted loss scale: (?P<loss_scale>[\d.e+]+)(?:, reducing to "
            r"(?P<next_scale>[\d.e+]+))?)?",
            severity="info",
            sparse=True,
            sample="[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768",
        ),
        Pattern(
            event="deepspeed.overflow_rank",
            literals=(" detected overflow ",),
            regex=r"rank (?P<rank>\d+) detected overflow (?P<value>\S+) in tensor (?P<tensor>\S+)",
            severity="info",
            sample="rank 9 detected overflow nan in tensor 0:12 shape torch.Size([4096, 4096])",
        ),
    ),
)
