"""NeMo 2: ``<name>/weights`` (a Megatron distributed checkpoint) and ``<name>/context``.

Rank 0 sets ``<name>-unfinished`` before the save and removes it after a barrier; ``<name>-EMA``, the averaged weights,
goes by the mark of ``<name>``. The next start deletes what is so marked, and with it the evidence.
Source: NVIDIA-NeMo/NeMo ``nemo/lightning/pytorch/callbacks/model_checkpoint.py``.
"""

from __future__ import annotations

from correlator.checkpoints import dcp
from correlator.checkpoints.disk import Folder
from correlator.checkpoints.layouts._megatron import LOST
from correlator.checkpoints.layouts.megatron_dist import read_dist
from correlator.checkpoints.model import Findings, Layout, Reading, Rescale
from correlator.checkpoints.names import step_of

_MARK = "-unfinished"


def _mark(folder: Folder) -> str:
    return folder.name.removesuffix("-EMA") + _MARK


def _marked(folder: Folder) -> bool:
    mark = _mark(folder)
    return folder.parent is not None and (mark in folder.parent.files or mark in folder.parent.folders)


def _recognises(folder: Folder) -> bool:
    weights = folder.folders.get("weights")
    if weights is None:
        return _marked(folder)
    return "context" in folder.folders or "metadata.json" in weights.files or dcp.is_dcp(weights)


def _read(folder: Folder, reading: Reading) -> Findings:
    findings = Findings()
    findings.iteration = step_of(folder.name)
    if _marked(folder):
        findings.fault(f"{_mark(folder)} is still there: the save, or a deletion, was not finished")
    weights = folder.folders.get("weights")
    if weights is None:
        findings.fault("no weights")
    else:
        read_dist(weights, findings, reading)
    if "context" not in folder.folders:
        findings.note("no context: the model's configuration must be given")
    return findings


LAYOUT = Layout(
    name="nemo",
    order=10,
    recognises=_recognises,
    read=_read,
    rescale=Rescale(lost=LOST),
    hint="nl.AutoResume(resume_from_path={path!r}); resume_if_exists=True takes the one named -last, "
    "and deletes unfinished ones before",
)
