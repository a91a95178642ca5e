"""DeepSpeed's universal checkpoint: ``<tag>/zero/<parameter>/{fp32,exp_avg,exp_avg_sq,step}.pt``.

The mark is ``latest_universal``. ``ds_to_universal.py`` makes it from a ZeRO checkpoint; it loads under any sizes.
Source: deepspeedai/DeepSpeed ``deepspeed/checkpoint/ds_to_universal.py``.
"""

from __future__ import annotations

import re
from collections import Counter

from correlator.checkpoints.disk import Folder, shown
from correlator.checkpoints.layouts.deepspeed import MODEL, parse_tag
from correlator.checkpoints.model import Findings, Layout, Reading, Rescale
from correlator.checkpoints.torch_file import attributes, inspect_all, whole

_TAG = re.compile(r"global_step(\d{1,12})(?:_universal)?")


def _recognises(folder: Folder) -> bool:
    zero = folder.folders.get("zero")
    return zero is not None and any("fp32.pt" in part.files for part in zero.folders.values())


def _read(folder: Folder, reading: Reading) -> Findings:
    findings = Findings()
    tag = _TAG.fullmatch(folder.name)
    findings.iteration = int(tag[1]) if tag else None
    model = [(name, file) for name, file in folder.files.items() if name.endswith("_states.pt")]
    steps = inspect_all(model, findings, reading, lambda tree: whole(attributes(tree).get("global_steps")))
    if not any(MODEL.fullmatch(name) for name, _ in model):
        findings.fault("no model states")
    for step in steps:
        findings.iteration = step if findings.iteration is None else findings.iteration
    zero = folder.folders["zero"]
    usual = Counter(name for part in zero.folders.values() for name in part.files)
    common = sorted(name for name, count in usual.items() if 2 * count > len(zero.folders))
    for part in zero.folders.values():
        for name in common:
            if name not in part.files:
                findings.fault(f"zero/{shown(part.name, 120)}/{name} is missing")
    if "optimizer_state.pt" not in zero.files:
        findings.fault("zero/optimizer_state.pt is missing, which is written last: the conversion was not finished")
    states = [(f"zero/{name}", file) for name, file in zero.files.items() if name.endswith(".pt")]
    for part in zero.folders.values():
        states += [(f"zero/{part.name}/{name}", file) for name, file in part.files.items() if name.endswith(".pt")]
    inspect_all(states, findings, reading)
    return findings


LAYOUT = Layout(
    name="deepspeed-universal",
    order=29,
    recognises=_recognises,
    read=_read,
    rescale=Rescale(),
    trackers={"latest_universal": parse_tag},
    hint='"load_universal": true in the "checkpoint" part of the configuration (--universal-checkpoint in '
    "Megatron-DeepSpeed), then model_engine.load_checkpoint({parent!r}, tag={name!r})",
)
