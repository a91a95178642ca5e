"""What job scripts print about their surroundings: variables, shared memory, file systems, limits.

Emitted by: ``env``, ``set -x``, ``echo``, dictionaries of ``os.environ``; ``df``, ``mount``, ``ulimit -a``. Gives
``slurm.env`` (the variables as attributes, one row for a run of lines; values that the shell has not expanded are
left out), ``slurm.nodelist``, ``env.shm_size`` (size_bytes), ``env.filesystem_full``, ``env.limit``. Only variables
of the lists below are read, so that nothing secret of an ``env`` dump gets into the table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from correlator.events import Found, Parser, Pattern
from parsers._lines import one_line

_NAMES = (
    r"MASTER_ADDR|MASTER_PORT|WORLD_SIZE|RANK|LOCAL_RANK|LOCAL_WORLD_SIZE|GROUP_RANK|NODE_RANK|NNODES|NUM_NODES|"
    r"NPROC_PER_NODE|GPUS_PER_NODE|NGPUS|NGPUS_PER_NODE|NUM_GPUS|CUDA_VISIBLE_DEVICES|NVIDIA_VISIBLE_DEVICES|"
    r"ROCR_VISIBLE_DEVICES|HIP_VISIBLE_DEVICES|CUDA_DEVICE_MAX_CONNECTIONS|CUDA_LAUNCH_BLOCKING|OMP_NUM_THREADS|"
    r"RDZV_\w+|TORCHELASTIC_\w+|TORCH_"
    r"(?:NCCL|DISTRIBUTED|CPP|FR)_\w+|TORCH_\w*TIMEOUT\w*|NCCL_\w+|RCCL_\w+|GLOO_\w+|UCX_\w+|"
    r"FI_\w+|OMPI_COMM_WORLD_\w+|PMI_(?:RANK|SIZE)|SLURM_\w+|SLURMD_NODENAME|PBS_NODEFILE|LSB_HOSTS|"
    r"TP_SIZE|PP_SIZE|DP_SIZE|CP_SIZE|EP_SIZE|TP|PP"
)
_VALUE = r"[\w./\[][\w.:/@\[\]+-]*(?:,[\w.:/@\[\]-]+)*"
#: ``NAME=value``, ``NAME="value"``, ``'NAME': 'value'``, ``NAME: value``
_ASSIGNMENT = re.compile(rf"(?:^|[\s'\"(,;]|^\{{)(?P<name>{_NAMES})(?:['\"]?: ?['\"]?|=['\"]?)(?P<value>{_VALUE})")
#: A line of an environment dump: nothing but one assignment, of any variable.
_DUMP_LINE = re.compile(r"^(?:\++ |export |declare -x )*\w+=")
_NODE_LISTS = ("SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURM_STEP_NODELIST")


def _assignments(line: str) -> dict[str, object]:
    return {match["name"]: match["value"] for match in _ASSIGNMENT.finditer(line)}


def _read_variables(lines: Sequence[str]) -> list[Found]:
    found = _assignments(lines[0])
    if not found:
        return []
    last = 0
    if _DUMP_LINE.match(lines[0]):
        for index, line in enumerate(lines[1:], start=1):
            if not _DUMP_LINE.match(line):
                break
            if more := _assignments(line):
                if any(found.get(name, value) != value for name, value in more.items()):
                    break  # the same variable again with another value: another process began its dump
                found |= more
                last = index
    rows = [Found(0, last, found)]
    nodes = next((str(found[name]) for name in _NODE_LISTS if name in found), "")
    if nodes:
        job = found.get("SLURM_JOB_ID") or found.get("SLURM_JOBID")
        rows.append(Found(0, last, {"nodes": nodes, **({"job": job} if job else {})}, event="slurm.nodelist"))
    return rows


_UNITS = {"": 1024, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}


def _shared_memory(match: re.Match[str]) -> Mapping[str, object]:
    """``size_bytes``; a number without a unit is in blocks of 1 KiB, the default of df."""
    number, unit = float(match["size"]), match["unit"] or ""
    fields: dict[str, object] = {"size_bytes": round(number * _UNITS[unit.upper()])}
    if match["percent"]:
        fields["used_percent"] = match["percent"]
    return fields


PARSER = Parser(
    name="environment",
    patterns=(
        Pattern(
            event="slurm.env",
            literals=(
                "MASTER_ADDR",
                "WORLD_SIZE",
                "NNODES",
                "NODE_RANK",
                "CUDA_VISIBLE_DEVICES",
                "SLURM_",
                "NPROC_PER_NODE",
                "GPUS_PER_NODE",
                "NCCL_SOCKET_IFNAME=",
                "NCCL_IB_HCA=",
                "NCCL_IB_DISABLE=",
                "NCCL_IB_GID_INDEX=",
                "NCCL_IB_TIMEOUT=",
            ),
            block=_read_variables,
            block_lines=300,
            sample="MASTER_ADDR=gpu-a017 MASTER_PORT=29500 NNODES=4 NODE_RANK=1",
            severity="info",
            not_samples=(
                "export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)",
                "ValueError: Error initializing torch.distributed: environment variable WORLD_SIZE expected, but not "
                "set",
                "gpu-a017:4711:4890 [1] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0",
            ),
        ),
        Pattern(
            event="env.shm_size",
            literals=("/dev/shm",),
            block=one_line(
                r"^\S+ +(?P<size>\d+(?:\.\d+)?)(?P<unit>[KMGTP])? +\S+ +\S+ +(?P<percent>\d+)% +/dev/shm$",
                _shared_memory,
            ),
            block_lines=0,
            sample="shm              64M   63M  1.0M  99% /dev/shm",
            severity="info",
        ),
        Pattern(
            event="env.shm_size",
            literals=(" on /dev/shm type tmpfs",),
            block=one_line(
                r" on /dev/shm type tmpfs \(.*?\bsize=(?P<size>\d+)(?P<unit>[kmgKMG])?(?P<percent>)\b", _shared_memory
            ),
            block_lines=0,
            sample="shm on /dev/shm type tmpfs (rw,nosuid,nodev,noexec,relatime,size=65536k)",
            severity="info",
        ),
        Pattern(
            event="env.filesystem_full",
            literals=("100% /", "99% /"),
            regex=r"^(?P<source>\S+) +\S+ +\S+ +\S+ +(?P<percent>99|100)% +(?P<path>/(?:[^sd]|s[^n]|d[^e])\S*|/)$",
            sample="/dev/nvme1n1    838G  838G     0 100% /scratch",
            severity="warning",
            not_samples=("/dev/loop3       64M   64M     0 100% /snap/core20/1974",),
        ),
        Pattern(
            event="env.limit",
            literals=("max locked memory ", "open files  ", "max memory size  ", "max user processes  "),
            regex=r"^(?P<name>max locked memory|open files|max memory size|max user processes) +\((?P<unit>[^,)]*),? "
            r"?-\w\) "
            r"(?P<value>\d+|unlimited)",
            sample="max locked memory           (kbytes, -l) 64",
            severity="info",
        ),
    ),
)
