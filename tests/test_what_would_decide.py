"""Where the logs do not decide, the report names what would: the nearest source that is not there."""

from __future__ import annotations

import json
from pathlib import Path

from correlator import diagnose
from correlator.diagnosis import to_json

TIMED_OUT = (
    "[rank{r}]:[E505 11:05:00.714781669 ProcessGroupNCCL.cpp:616] [Rank {r}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=144, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800042 "
    "milliseconds before timing out.\n"
)


def _advice(folder: Path) -> str:
    return " ".join(action["title"] for action in json.loads(to_json(diagnose(folder).document))["actions"])


def test_ranks_that_all_wait_are_told_apart_by_the_flight_recorder(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text("".join(TIMED_OUT.format(r=r) for r in range(4)))
    assert "flight-recorder dumps" in _advice(tmp_path)


def test_an_end_without_a_wait_has_no_use_for_the_flight_recorder(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text("step 1 loss 2.0\nstep 2 loss 1.9\n")
    advice = _advice(tmp_path)
    assert "kernel log" in advice and "flight-recorder" not in advice
