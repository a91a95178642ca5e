"""OLMo-core: ``stepN/{train/rankK.pt, model_and_optim/, .metadata.json}``, written as ``stepN-tmp`` and renamed.

Source: allenai/OLMo-core ``src/olmo_core/train/checkpoint.py``.
"""

from __future__ import annotations

import re

from correlator.checkpoints import dcp
from correlator.checkpoints.disk import Folder
from correlator.checkpoints.layouts._json import read_object
from correlator.checkpoints.model import Findings, Layout, Reading, Rescale
from correlator.checkpoints.torch_file import inspect_all

_NAME = re.compile(r"step(\d{1,12})(-tmp)?")


def _recognises(folder: Folder) -> bool:
    return bool(_NAME.fullmatch(folder.name)) and (folder.name.endswith("-tmp") or "model_and_optim" in folder.folders)


def _read(folder: Folder, reading: Reading) -> Findings:
    findings = Findings()
    match = _NAME.fullmatch(folder.name)
    findings.iteration = int(match[1]) if match else None
    if folder.name.endswith("-tmp"):
        findings.fault("the directory was never renamed from its temporary name: the save was not finished")
    elif not findings.mark(".metadata.json", ".metadata.json" in folder.files):
        findings.fault("no .metadata.json, which is written last: the save was not finished")
    else:
        read_object(folder.files[".metadata.json"], ".metadata.json", findings)
    if "model_and_optim" in folder.folders:
        dcp.check(folder.folders["model_and_optim"], findings, reading)
    train = folder.folders.get("train")
    if train is None or "rank0.pt" not in train.files:
        findings.fault("train/rank0.pt is missing")
    else:
        states = [file for file in train.files.values() if file.name.endswith(".pt")]
        findings.sizes(world=len(states))
        inspect_all([(f"train/{file.name}", file) for file in states], findings, reading)
    return findings


LAYOUT = Layout(
    name="olmo-core",
    order=44,
    recognises=_recognises,
    read=_read,
    rescale=Rescale(lost="train/rankK.pt of ranks that were not there: they take that of rank 0"),
    hint="trainer.load_path={path} with trainer.load_strategy=always",
)
