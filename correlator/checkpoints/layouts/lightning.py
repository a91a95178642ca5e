"""PyTorch Lightning: one ``.ckpt`` file, or a directory of that name with DCP files and ``meta.pt``.

The file is written as a whole; the directory's ``meta.pt`` comes last, from rank 0. Keys: epoch, global_step,
state_dict, optimizer_states, lr_schedulers, loops, callbacks.
Source: Lightning-AI/pytorch-lightning ``src/lightning/fabric/strategies/{fsdp,model_parallel}.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

from correlator.checkpoints import dcp
from correlator.checkpoints.disk import File, Folder
from correlator.checkpoints.model import Findings, Layout, Reading, Rescale
from correlator.checkpoints.names import step_of
from correlator.checkpoints.torch_file import attributes, inspect, whole


def _recognises(folder: Folder) -> bool:
    if folder.name.endswith(".ckpt"):
        return not folder.files or "meta.pt" in folder.files or dcp.is_dcp(folder)
    return "meta.pt" in folder.files and dcp.is_dcp(folder)


def _read(folder: Folder, reading: Reading) -> Findings:
    findings = Findings()
    findings.iteration = step_of(folder.name)
    dcp.check(folder, findings, reading)
    meta = folder.files.get("meta.pt")
    if meta is None:
        findings.fault("no meta.pt, which is written last: the save was not finished")
    else:
        _take_step(inspect(meta, findings, reading), findings)
    return findings


def _groups(files: Sequence[File]) -> list[list[File]]:
    return [[file] for file in files if file.name.endswith(".ckpt")]


def _read_files(files: Sequence[File], reading: Reading) -> Findings:
    findings = Findings()
    (file,) = files
    findings.iteration = step_of(file.name)
    _take_step(inspect(file, findings, reading), findings)
    return findings


def _take_step(tree: object, findings: Findings) -> None:
    """The step inside is the truth; a name may hold anything."""
    step = whole(attributes(tree).get("global_step"))
    if step is not None:
        findings.iteration = step


LAYOUT = Layout(
    name="lightning",
    order=50,
    recognises=_recognises,
    read=_read,
    groups=_groups,
    read_files=_read_files,
    rescale=Rescale(fixed=("tp", "pp")),
    hint="trainer.fit(model, ckpt_path={path!r}); ckpt_path='last' takes last.ckpt, whole or not",
)
