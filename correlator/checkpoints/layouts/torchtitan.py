"""torchtitan: ``step-N/`` with DCP files; on load one without ``.metadata`` is passed over.

Source: pytorch/torchtitan ``torchtitan/components/checkpoint.py``.
"""

from __future__ import annotations

import re

from correlator.checkpoints import dcp
from correlator.checkpoints.disk import Folder
from correlator.checkpoints.model import Findings, Layout, Reading, Rescale

_NAME = re.compile(r"step-(\d{1,12})")


def _recognises(folder: Folder) -> bool:
    return bool(_NAME.fullmatch(folder.name)) and (dcp.is_dcp(folder) or not (folder.files or folder.folders))


def _read(folder: Folder, reading: Reading) -> Findings:
    findings = Findings()
    match = _NAME.fullmatch(folder.name)
    findings.iteration = int(match[1]) if match else None
    dcp.check(folder, findings, reading)
    return findings


LAYOUT = Layout(
    name="torchtitan",
    order=45,
    recognises=_recognises,
    read=_read,
    rescale=Rescale(lost="the data-loader position, kept by each data-parallel rank"),
    hint="--checkpoint.load_step {iteration}; without it the highest step that has .metadata is loaded",
)
