"""NCCL (and RCCL): communicator identity, warnings, error propagation, the RAS report.

Emitted by: NVIDIA/nccl ``src/init.cc``, ``src/bootstrap.cc``, ``src/ras/client_support.cc`` and others; read at the
tags 2.6 to 2.30. RCCL prints the same lines. A line has no rank: ``host:pid`` joins with the init lines, whose
``rank`` is the one in the communicator (attribute ``comm_rank``), global only where ``nranks`` is the world size;
``busId`` joins with the kernel log. Gives ``nccl.*`` with node, pid, gpu from the line head and the attribute
``tid``. Channel and tree lines are not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from correlator.events import Parser, Pattern
from parsers._lines import named, one_line
from parsers._nccl_head import HEAD, INFO, WARN
from parsers._nccl_network import NETWORK_PATTERNS
from parsers._nccl_ras import RAS_PATTERNS
from parsers._pci import normalise_pci, with_bus_id

_INIT = (
    INFO + r"(?:\[Rank \d+\] )?(?:(?P<call>\w+) )?(?P<pairs>comm .*?)[ -]+(?:Init|(?=Destroy|Abort))\s*"
    r"(?P<phase>START|COMPLETE|Destroy|Abort)(?: COMPLETE)?"
)
_PAIR = re.compile(r"(comm|rank|nranks|cudaDev|nvmlDev|busId|commId|parent|color|key) (-?[0-9a-fx]+)")
_ATTRIBUTE_OF = {"rank": "comm_rank", "cudaDev": "gpu", "nvmlDev": "nvml_dev", "commId": "comm_id"}


def _init(match: re.Match[str]) -> Mapping[str, object]:
    fields = named(match)
    fields["phase"] = str(fields["phase"]).upper()
    for name, text in _PAIR.findall(str(fields.pop("pairs"))):
        fields[_ATTRIBUTE_OF.get(name, name)] = text
    if (address := normalise_pci(str(fields.pop("busId", "")))) is not None:
        fields["pci_bus_id"] = address
    return fields


# INFO lines are many; an error's way up the call stack is the kind whose text starts with a source file
_SOURCES = (
    *("init.cc:", "group.cc:", "proxy.cc:", "bootstrap.cc:", "enqueue.cc:", "channel.cc:", "transport", "collectives"),
    *("misc/", "include/", "graph/", "plugin/", "register/", "gin/", "os/", "ras/", "src/", "/", "../"),
    *("ce_coll", "dev_runtime", "allocator", "mem_manager", "mnnvl", "sym_kernels"),
)

PARSER = Parser(
    name="nccl",
    patterns=(
        Pattern(
            event="nccl.init",
            literals=("Init COMPLETE", "Init START", "Destroy COMPLETE", "Abort COMPLETE"),
            block=one_line(_INIT, _init),
            block_lines=0,
            sample="gpu-a017:4711:4890 [1] NCCL INFO ncclCommInitRank comm 0x55d1c0 rank 9 nranks 64 cudaDev 1 "
            "nvmlDev 1 "
            "busId 2c000 commId 0x8f3a - Init COMPLETE",
            severity="info",
            not_samples=(
                "gpu-a017:4711:4890 [1] NCCL INFO Init timings - ncclCommInitRank: rank 9 nranks 64 total 1.23 "
                "(kernels 0.21, bootstrap 0.34, topo 0.11)",
            ),
        ),
        Pattern(
            event="nccl.version",
            literals=("CCL version",),
            regex=rf"(?:{INFO}|^)(?P<library>NCCL|RCCL) version ?:? ?(?P<version>\d[\w.+-]*)",
            sample="NCCL version 2.21.5+cuda12.4",
            severity="info",
            not_samples=(
                "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:268, unhandled cuda error, NCCL "
                "version 2.20.5",
            ),
        ),
        Pattern(
            event="nccl.duplicate_gpu",
            literals=("Duplicate GPU detected", "Multiple Ranks are using the same GPU"),
            block=with_bus_id(
                WARN + r"(?:Duplicate GPU detected : rank (?P<comm_rank_a>\d+) and rank (?P<comm_rank_b>\d+) both on "
                r"CUDA device (?P<pci_bus_id>[0-9a-f]+)|Multiple Ranks are using the same GPU)"
            ),
            block_lines=0,
            sample="gpu-a017:4711:4890 [0] init.cc:525 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on "
            "CUDA "
            "device 1b000",
        ),
        Pattern(
            event="nccl.version_mismatch",
            literals=("Mismatched NCCL version detected",),
            regex=WARN + r"Mismatched NCCL version detected : rank (?P<comm_rank_a>\d+) version (?P<version_a>\S+) "
            r"rank (?P<comm_rank_b>\d+) version (?P<version_b>\S+)",
            sample="gpu-a017:4711:4890 [0] init.cc:511 NCCL WARN Mismatched NCCL version detected : rank 0 version "
            "21805 "
            "rank 8 version 22105",
        ),
        Pattern(
            event="nccl.shm_extend_failed",
            literals=("failed to extend /",),
            regex=WARN + r"Error: failed to extend (?P<path>/\S+) to (?P<bytes>\d+) bytes(?:, error: (?P<reason>.*))?",
            sample="gpu-a017:4711:4890 [0] misc/shmutils.cc:72 NCCL WARN Error: failed to extend "
            "/dev/shm/nccl-AbCdEf to "
            "9637892 bytes, error: No space left on device (28)",
        ),
        Pattern(
            event="nccl.bootstrap_mismatch",
            literals=("Bootstrap Root : ",),
            regex=WARN + r"Bootstrap Root : (?P<text>(?:mismatch in (?:rank count|info) from procs[, ]+(?:nranks )?"
            r"(?P<nranks_a>\d+) (?:vs|:) (?P<nranks_b>\d+)|"
            r"rank (?P<comm_rank>\d+) of (?P<nranks>\d+) ranks has already checked in).*)$",
            sample="gpu-a017:4711:4890 [0] bootstrap.cc:161 NCCL WARN Bootstrap Root : mismatch in rank count from "
            "procs "
            "64 : 32",
        ),
        Pattern(
            event="nccl.no_interface",
            literals=(
                "no socket interface found",
                "No usable listening interface found",
                "verify NCCL_OOB_NET_IFNAME",
                "No socket interface found",
            ),
            regex=WARN + r"(?P<text>.*(?:[Nn]o socket interface found|No usable listening interface|"
            r"NCCL_OOB_NET_IFNAME).*)$",
            sample="gpu-a017:4711:4890 [0] bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface found",
        ),
        Pattern(
            event="nccl.cuda_failure",
            literals=("Cuda failure",),
            regex=WARN + r".*?Cuda failure (?:(?P<code>\d+) )?'(?P<text>[^']*)'",
            sample="gpu-a017:4711:4890 [1] enqueue.cc:1402 NCCL WARN Cuda failure 719 'unspecified launch failure'",
            not_samples=("gpu-a017:4711:4890 [1] NCCL INFO init.cc:211 Cuda failure 'driver shutting down'",),
        ),
        Pattern(
            # a call whose failure NCCL ignores, mostly at exit
            event="nccl.cuda_failure_ignored",
            literals=("Cuda failure",),
            regex=INFO + r".*?Cuda failure (?:(?P<code>\d+) )?'(?P<text>[^']*)'",
            sample="gpu-a017:4711:4890 [1] NCCL INFO init.cc:211 Cuda failure 'driver shutting down'",
            severity="info",
            sparse=True,
        ),
        Pattern(
            event="nccl.calloc_failed",
            literals=("Failed to CUDA ",),
            regex=WARN + r"Failed to CUDA (?P<what>calloc async|calloc|malloc|host alloc) (?P<bytes>\d+) bytes",
            sample="gpu-a017:4711:4890 [1] include/alloc.h:185 NCCL WARN Failed to CUDA calloc async 608 bytes",
        ),
        *NETWORK_PATTERNS,
        Pattern(
            event="nccl.propagation",
            literals=tuple(f"NCCL INFO {start}" for start in _SOURCES),
            regex=INFO + r"(?P<source>[\w./-]+\.(?:cc|cu|cpp|h|c)):(?P<source_line>\d+) "
            r"(?:\([^)]*\) )?-> (?P<code>\d)\b",
            sample="gpu-a017:4711:5012 [1] NCCL INFO transport/net.cc:1298 -> 6",
            severity="info",
            sparse=True,
            not_samples=("gpu-a017:4711:4890 [1] NCCL INFO Channel 00/0 : 16[0] -> 18[2] [send] via NET/IB/0",),
        ),
        Pattern(
            event="nccl.address",
            literals=("Bootstrap : Using", "Bootstrap: Using"),
            regex=INFO + r"Bootstrap ?: Using ?(?:\[\d+\])?(?P<interface>[\w.-]+):(?P<address>[^\s<]+)<\d+>",
            sample="gpu-a017:4711:4711 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.17<0>",
            severity="info",
        ),
        Pattern(
            event="nccl.network",
            literals=("Using network ", "NET/IB : No device found", "NET/IB : Using "),
            regex=INFO + r"(?:Using network (?P<network>\S+)|NET/IB : (?P<what>No device found)|"
            r"NET/IB : Using (?P<devices>.*?)(?: ?; OOB.*)?$)",
            sample="gpu-a017:4711:4890 [1] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB "
            "eth0:10.0.0.17<0>",
            severity="info",
        ),
        Pattern(
            event="nccl.env",
            literals=(" set by environment to ",),
            regex=HEAD + r"NCCL INFO (?P<name>NCCL_\w+) set by environment to (?P<value>\S*?)\.?$",
            sample="gpu-a017:4711:4890 [1] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0",
            severity="info",
            sparse=True,
        ),
        *RAS_PATTERNS,
        Pattern(
            event="nccl.warn",
            literals=("NCCL WARN ",),
            regex=WARN + r"(?P<text>.*)$",
            sample="gpu-a017:4711:4890 [1] graph/paths.cc:323 NCCL WARN P2P is disabled between NVLINK connected "
            "GPUs 1 and 0.",
            severity="warning",
        ),
    ),
)
