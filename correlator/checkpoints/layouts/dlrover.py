"""DLRover flash checkpoint: ``<step>/rank_<R>.pt``, mark ``dlrover_latest.txt``.

Every agent writes its shards from memory, then files ``._dlrover_ckpt_stage/<step>.done/<R>``; when all are there, the
first node moves the mark and deletes that folder. So a ``.done`` folder that is left, or a step above the mark, was
never committed.
Trees in the forms of Megatron-LM or DeepSpeed get their mark as well.
Source: intelligent-machine-learning/dlrover ``dlrover/python/elastic_agent/torch/ckpt_saver.py``, 0.6.
"""

from __future__ import annotations

import re

from correlator.checkpoints import dcp
from correlator.checkpoints.disk import File, Folder
from correlator.checkpoints.layouts._ranks import RANK, check_files
from correlator.checkpoints.model import Findings, Layout, Reading, Rescale

TRACKER, _STAGE = "dlrover_latest.txt", "._dlrover_ckpt_stage"
_NAME = re.compile(r"\d{1,12}")


def _states(folder: Folder) -> list[File]:
    return [file for name, file in folder.files.items() if name.endswith(".pt") and RANK.search(name)]


def _recognises(folder: Folder) -> bool:
    beside = folder.parent
    marked = beside is not None and (TRACKER in beside.files or _STAGE in beside.folders)
    return marked and bool(_NAME.fullmatch(folder.name)) and (bool(_states(folder)) or dcp.is_dcp(folder))


def _read(folder: Folder, reading: Reading) -> Findings:
    findings = Findings()
    findings.iteration = int(folder.name)
    if dcp.is_dcp(folder):
        dcp.check(folder, findings, reading)
    else:
        check_files(_states(folder), findings, reading)
        findings.rescale = Rescale(fixed=("world",))
    _check_commit(folder, findings)
    return findings


def _check_commit(folder: Folder, findings: Findings) -> None:
    assert folder.parent is not None
    stage = folder.parent.folders.get(_STAGE)
    done = stage.folders.get(f"{folder.name}.done") if stage else None
    mark = folder.parent.files.get(TRACKER)
    try:
        reached = parse_step(mark.text(1 << 10)) if mark else None
    except OSError:
        reached = None
    committed = reached is not None and int(folder.name) <= reached
    findings.mark(TRACKER, committed)
    if done is not None:
        findings.fault(f"{_STAGE}/{done.name} holds {len(done.files)} done files and was not removed: never committed")
    elif not committed:
        findings.doubt(f"{TRACKER} does not reach this step: it was never committed")


def parse_step(text: str) -> int | None:
    """The step that the mark states; None for anything else."""
    word = text.strip()
    return int(word) if _NAME.fullmatch(word) else None


LAYOUT = Layout(
    name="dlrover",
    order=28,
    recognises=_recognises,
    read=_read,
    rescale=Rescale(lost="objects kept by each rank"),
    trackers={TRACKER: parse_step},
    hint="checkpointer.load_checkpoint() takes the step in {parent}/dlrover_latest.txt: it must hold {iteration}",
)
