"""Accelerate's ``checkpoint_N/``: weights, ``optimizer.bin``, and last ``random_states_K.pkl`` by every rank.

Source: huggingface/accelerate ``src/accelerate/checkpointing.py``.
"""

from __future__ import annotations

import re

from correlator.checkpoints.disk import Folder
from correlator.checkpoints.layouts import _weights
from correlator.checkpoints.layouts._trees import check_ranks, read_trees
from correlator.checkpoints.model import Findings, Layout, Reading, Rescale
from correlator.checkpoints.torch_file import inspect_all

_NAME = re.compile(r"checkpoint_(\d{1,12})")
_RANDOM = re.compile(r"random_states_(\d{1,6})\.pkl")
_STATES = re.compile(r"(optimizer|scheduler|sampler|dl_state_dict)(_\d+)?\.bin|scaler\.pt")


def _recognises(folder: Folder) -> bool:
    return bool(_NAME.fullmatch(folder.name)) or any(_RANDOM.fullmatch(name) for name in folder.files)


def _read(folder: Folder, reading: Reading) -> Findings:
    findings = Findings()
    name = _NAME.fullmatch(folder.name)
    findings.iteration = int(name[1]) if name else None
    trees = read_trees(folder, findings, reading)
    _weights.check(folder.files.values(), findings, reading, required=not trees)
    states = [file for file in folder.files.values() if _STATES.fullmatch(file.name)]
    inspect_all([(file.name, file) for file in states], findings, reading)
    findings.parts = frozenset([file.name for file in states] + list(_weights.of(folder.files.values())))
    if not any(_RANDOM.fullmatch(name) for name in folder.files):
        findings.fault("no random_states_K.pkl, which are written last: the save was not finished")
    check_ranks(folder, _RANDOM, findings, reading)
    return findings


LAYOUT = Layout(
    name="accelerate",
    order=41,
    recognises=_recognises,
    read=_read,
    rescale=Rescale(lost="random-number states of another number of ranks"),
    hint="accelerator.load_state({path!r}), in the example scripts --resume_from_checkpoint {path}; "
    "the number counts saves, not steps",
)
