"""Hugging Face Trainer: ``checkpoint-N/`` with ``trainer_state.json``.

Trainer writes the model, then optimizer and scheduler, then ``rng_state_K.pth`` by every rank, then
``trainer_state.json``; there is no commit mark, and the loader takes the highest number without a look inside.
Optimizer and model may be trees of DeepSpeed (``global_stepN`` with ``latest``) or of DCP (``pytorch_model_fsdp_0``,
``optimizer_0``).
Source: huggingface/transformers ``src/transformers/trainer.py``.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from correlator.checkpoints.disk import File, Folder
from correlator.checkpoints.layouts import _weights
from correlator.checkpoints.layouts._trees import check_ranks, read_trees
from correlator.checkpoints.model import Findings, Layout, Reading, Rescale
from correlator.checkpoints.torch_file import inspect_all, whole

_NAME = re.compile(r"checkpoint-(\d{1,12})")
_RNG = re.compile(r"rng_state_(\d{1,6})\.pth")
_STATE = "trainer_state.json"
_STATES = ("optimizer.pt", "optimizer.bin", "scheduler.pt", "scaler.pt", "rng_state.pth")


def _recognises(folder: Folder) -> bool:
    return bool(_NAME.fullmatch(folder.name)) or (_STATE in folder.files and bool(_weights.of(folder.files.values())))


def _read(folder: Folder, reading: Reading) -> Findings:
    findings = Findings()
    name = _NAME.fullmatch(folder.name)
    findings.iteration = int(name[1]) if name else None
    if not folder.files and not folder.folders:
        findings.fault("empty directory: the save died before its first write")
        return findings
    trees = read_trees(folder, findings, reading)
    _weights.check(folder.files.values(), findings, reading, required=not trees)
    states = [folder.files[part] for part in _STATES if part in folder.files]
    inspect_all([(file.name, file) for file in states], findings, reading)
    _check_pair(folder, trees, findings)
    findings.parts = frozenset(file.name for file in states)
    _check_state(folder.files.get(_STATE), findings)
    check_ranks(folder, _RNG, findings, reading)
    return findings


def _check_pair(folder: Folder, trees: int, findings: Findings) -> None:
    """Optimizer and scheduler are written together, and loaded only when both are there: else silently not at all."""
    optimizer = bool({"optimizer.pt", "optimizer.bin"} & folder.files.keys()) or trees > 0
    scheduler = "scheduler.pt" in folder.files
    if not optimizer and scheduler:
        findings.fault("no optimizer.pt beside scheduler.pt: the optimizer would silently start anew")
    elif not optimizer:
        findings.note("no optimizer state inside: weights only")
    elif not scheduler and not trees:
        findings.fault("no scheduler.pt beside optimizer.pt: both would silently start anew")


def _check_state(file: File | None, findings: Findings) -> None:
    if file is None:
        findings.fault(f"no {_STATE}, which is written last: the save was not finished")
        return
    try:
        state = json.loads(file.text())
    except OSError as error:
        findings.doubt(f"{_STATE} cannot be read: {error.strerror or error}")
        return
    except (ValueError, RecursionError):
        findings.fault(f"{_STATE} is no JSON: cut short or overwritten")
        return
    step = whole(state.get("global_step")) if isinstance(state, dict) else None
    if step is None:
        findings.fault(f"{_STATE} has no global_step")
        return
    if findings.iteration is None:
        findings.iteration = step
    elif findings.iteration != step:
        findings.note(f"{_STATE} is of step {step}, the directory says {findings.iteration}")
    history = state.get("log_history")
    entries = [entry for entry in history if isinstance(entry, dict)] if isinstance(history, list) else []
    bad = next((entry for entry in entries if _not_finite(entry.get("loss"))), None)
    if bad is not None:
        findings.note(f"the loss was not finite at step {bad.get('step')}, says {_STATE}")


def _not_finite(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


LAYOUT = Layout(
    name="hf-trainer",
    order=40,
    recognises=_recognises,
    read=_read,
    rescale=Rescale(lost="random-number states of another number of ranks"),
    hint="trainer.train(resume_from_checkpoint={path!r}), in the example scripts --resume_from_checkpoint {path}; "
    "resume_from_checkpoint=True takes the highest number, whole or not",
)
