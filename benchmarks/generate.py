"""A made-up training job's logs, of any size: data for the speed comparison.

    python benchmarks/generate.py FOLDER [--bytes 100M] [--files 64] [--seed 0]

One file a rank, one file of all ranks behind launcher labels, one kernel log. Most lines are what a healthy job prints:
start-up lines of NCCL, steps, logger lines, warnings, progress bars with carriage returns, colours. The last lines are
a failure that one rank begins and all others report. The same arguments give the same bytes.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

_BEGIN = datetime(2025, 3, 4, 6, 30, tzinfo=UTC)
_PER_NODE = 8
_UNITS = {"K": 10**3, "M": 10**6, "G": 10**9}
_HARMLESS = (
    "no overflow, inf or nan in the last 200 steps",
    "dataloader: 0 errors, 0 retries",
    "collective timeout is 1800 s",
    "prefetch queue full, failed fetches so far: 0",
)


def parse_size(text: str) -> int:
    """Bytes of ``100M`` and the like."""
    unit = text[-1:].upper()
    return int(float(text[:-1]) * _UNITS[unit]) if unit in _UNITS else int(text)


class _Rank:
    """What one rank prints, line by line."""

    def __init__(self, rank: int, world: int, seed: int) -> None:
        self.rank, self.world = rank, world
        self.local, self.node = rank % _PER_NODE, f"gpu-b{rank // _PER_NODE:04d}"
        self.pid = 2_000 + 13 * rank
        self.step = 0
        self._random = random.Random(seed * 1_000_003 + rank)
        kinds: list[tuple[int, Callable[[], str]]] = [
            (50, self._step), (14, self._channel), (3, self._communicator), (2, self._setting), (13, self._logged),
            (6, self._glog), (6, self._warning), (3, self._coloured), (2, self._bar), (1, self._memory),
        ]  # fmt: skip
        self._weights = [weight for weight, _ in kinds]
        self._makers = [maker for _, maker in kinds]

    def start(self) -> Iterator[str]:
        """The lines before the first step."""
        yield f"{self._nccl()}NCCL version 2.21.5+cuda12.4\n"
        for _ in range(40):
            yield self._random.choice((self._channel, self._setting))()
        yield self._communicator()

    def line(self) -> str:
        """One more line of a job that trains."""
        return self._random.choices(self._makers, self._weights)[0]()

    def now(self) -> datetime:
        """The time at its present step."""
        return _BEGIN + timedelta(seconds=0.8 * self.step)

    def waits(self, at: datetime) -> str:
        """What it reports of a collective that the failed rank never joined."""
        head = f"[rank{self.rank}]:[E{at:%m%d %H:%M:%S.%f}000 ProcessGroupNCCL.cpp:"
        return (
            f"{head}632] [Rank {self.rank}] Watchdog caught collective operation timeout: WorkNCCL("
            f"SeqNum={9000 + self.step}, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for"
            f" 600021 milliseconds before timing out.\n"
            f"{head}2218] [PG ID 0 PG GUID 0(default_pg) Rank {self.rank}] failure detected by"
            f" watchdog at work sequence id: {9000 + self.step} PG status: last enqueued work: {9001 + self.step},"
            f" last completed work: {8999 + self.step}\n"
        )

    def raises(self) -> str:
        """Its traceback, when it is the one that fails."""
        mark = f"[rank{self.rank}]: "
        return (
            f"{mark}Traceback (most recent call last):\n"
            f'{mark}  File "/srv/job/pretrain.py", line 88, in <module>\n{mark}    main()\n'
            f'{mark}  File "/srv/job/pretrain.py", line 61, in main\n{mark}    batch = next(batches)\n'
            f"{mark}ValueError: sequence of 4097 tokens in shard 17, at most 4096 are allowed\n"
        )

    def _nccl(self) -> str:
        return f"{self.node}:{self.pid}:{self.pid + 200} [{self.local}] "

    def _step(self) -> str:
        self.step += 1
        r = self._random
        return (
            f" [{self.now():%Y-%m-%d %H:%M:%S}] iteration {self.step:8d}/  200000 | consumed samples:"
            f" {self.step * 512:12d} | elapsed time per iteration (ms): {790 + 20 * r.random():.1f}"
            f" | learning rate: 3.000000E-04 | global batch size:   512"
            f" | lm loss: {2 + r.random():.6E} | loss scale: 1.0 | grad norm: {r.random():.3f}"
            f" | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
        )

    def _channel(self) -> str:
        other = (self.rank + 1) % self.world
        number = self._random.randrange(24)
        route = f"{self.rank}[{self.local}] -> {other}[{other % _PER_NODE}]"
        return f"{self._nccl()}NCCL INFO Channel {number:02d}/0 : {route} via P2P/IPC\n"

    def _communicator(self) -> str:
        return (
            f"{self._nccl()}NCCL INFO ncclCommInitRankConfig comm {self._random.getrandbits(44):#x} rank {self.rank}"
            f" nranks {self.world} cudaDev {self.local} nvmlDev {self.local} busId {0x1A000 + 0x1000 * self.local:x}"
            f" commId {self._random.getrandbits(62):#x} - Init COMPLETE\n"
        )

    def _setting(self) -> str:
        name = self._random.choice(("NCCL_IB_HCA", "NCCL_DEBUG", "NCCL_SOCKET_IFNAME"))
        return f"{self._nccl()}NCCL INFO {name} set by environment to x{self._random.randrange(4)}.\n"

    def _logged(self) -> str:
        at = f"{self.now():%Y-%m-%d %H:%M:%S},{self._random.randrange(1000):03d}"
        name = self._random.choice(("trainer.data", "trainer.loop"))
        return f"{at} - {name} - INFO - {self._random.choice(_HARMLESS)}\n"

    def _glog(self) -> str:
        where = f"{self.now():%m%d %H:%M:%S.%f}000 ProcessGroupNCCL.cpp:2281"
        return (
            f"[rank{self.rank}]:[I{where}] [PG ID 0 PG GUID 0(default_pg) Rank {self.rank}] using device {self.local}\n"
        )

    def _warning(self) -> str:
        line = self._random.randrange(2000)
        return f"/srv/env/lib/torch/nn/modules/module.py:{line}: UserWarning: unused hook\n  warnings.warn(\n"

    def _coloured(self) -> str:
        return f"\x1b[34m{self.now():%Y-%m-%d %H:%M:%S} \x1b[32mINFO\x1b[0m step time {self._random.random():.3f} s\n"

    def _bar(self) -> str:
        total = 2000 if self._random.random() < 0.01 else 30
        return (
            "".join(
                f"\rLoading: {100 * i // total:3d}%|{'#' * (10 * i // total):10}| {i}/{total}" for i in range(total)
            )
            + "\n"
        )

    def _memory(self) -> str:
        return f"[Rank {self.rank}] memory after step {self.step}: {self._random.randrange(70000)} MB allocated\n"


def generate(folder: Path, size: int, files: int, seed: int = 0) -> None:
    """Write about ``size`` bytes of logs: ``files`` rank files, one shared file, one kernel log."""
    (folder / "ranks").mkdir(parents=True, exist_ok=True)
    bad = random.Random(seed).randrange(files)
    failed = _BEGIN
    for rank in [bad, *(r for r in range(files) if r != bad)]:
        source = _Rank(rank, files, seed)
        with (folder / "ranks" / f"rank_{rank:05d}.log").open("w", encoding="utf-8", newline="") as stream:
            used = sum(stream.write(line) for line in source.start())
            while used < size * 9 // 10 // files:
                used += stream.write(source.line())
            if rank == bad:
                failed = source.now()
                stream.write(source.raises())
            else:
                stream.write(source.waits(max(failed, source.now()) + timedelta(minutes=10)))
    _shared(folder / "slurm-7001.out", size * 9 // 100, files, seed)
    with (folder / f"gpu-b{bad // _PER_NODE:04d}.dmesg").open("w", encoding="utf-8") as stream:
        for second in range(max(10, size // 100 // 60)):
            stream.write(f"[{1000 + second:12.6f}] mlx5_core 0000:17:00.0 ens2f0: Link up, attempt {second}\n")


def _shared(path: Path, size: int, files: int, seed: int) -> None:
    ranks = [_Rank(rank, files, seed + 1) for rank in range(min(files, 128))]
    order = random.Random(seed + 2)
    used = 0
    with path.open("w", encoding="utf-8", newline="") as stream:
        while used < size:
            source = order.choice(ranks)
            for _ in range(6):
                used += stream.write(f"{source.rank:4d}: {source.line()}")
        for source in ranks:
            stream.write("".join(f"{source.rank:4d}: {line}\n" for line in source.waits(source.now()).splitlines()))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--bytes", type=parse_size, default="100M")
    parser.add_argument("--files", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    generate(given.folder, given.bytes, given.files, given.seed)


if __name__ == "__main__":
    main()
