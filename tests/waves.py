"""A made-up collapse of a large job: one rank fails, all others report the collective they waited in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

_BEGIN = datetime(2025, 3, 4, 6, 30, tzinfo=UTC)
_PER_NODE = 8
_STEPS = 3


def write_wave(folder: Path, ranks: int, guilty: int) -> None:
    """One file a node, 8 ranks each behind ``[rankN]:``; ``guilty`` raises, the others time out ten minutes later.

    Node clocks are up to 40 s apart.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for node in range(ranks // _PER_NODE):
        own = range(node * _PER_NODE, (node + 1) * _PER_NODE)
        ahead = timedelta(seconds=node * 7 % 41)
        lines = [
            f"[rank{rank}]:{_BEGIN + ahead + timedelta(seconds=step):%Y-%m-%d %H:%M:%S},250 - trainer - INFO -"
            f" step: {step}, loss: 2.{step:03}\n"
            for step in range(1, _STEPS + 1)
            for rank in own
        ]
        end = _BEGIN + ahead + timedelta(seconds=_STEPS)
        if guilty in own:
            lines += [
                f"[rank{guilty}]: Traceback (most recent call last):\n",
                f'[rank{guilty}]:   File "/srv/job/train.py", line 61, in <module>\n',
                f"[rank{guilty}]:     batch = next(batches)\n",
                f"[rank{guilty}]: ValueError: sequence of 4097 tokens, at most 4096 are allowed\n",
            ]
        lines += [
            f"[rank{rank}]:[E{end + timedelta(seconds=600):%m%d %H:%M:%S.%f}000 ProcessGroupNCCL.cpp:632] [Rank {rank}]"
            " Watchdog caught collective operation timeout: WorkNCCL(SeqNum=90, OpType=ALLREDUCE, NumelIn=4096,"
            " NumelOut=4096, Timeout(ms)=600000) ran for 600021 milliseconds before timing out.\n"
            for rank in own
            if rank != guilty
        ]
        (folder / f"gpu-b{node:04}.log").write_text("".join(lines))
