"""Model weights alone: ``*.safetensors``, ``pytorch_model*.bin``, sharded with an index or not.

Other checkpoints may lie beside or below: a Trainer's output directory holds the final model and all ``checkpoint-N``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from correlator.checkpoints.disk import File
from correlator.checkpoints.layouts import _weights
from correlator.checkpoints.model import Findings, Layout, Reading, Rescale
from correlator.checkpoints.names import step_of


def _groups(files: Sequence[File]) -> list[list[File]]:
    found: dict[str, list[File]] = defaultdict(list)
    for file in _weights.of(files).values():
        found[_weights.series(file.name)].append(file)
    # An index without any of its files is still a checkpoint, one that lost everything.
    return list(found.values())


def _read(files: Sequence[File], reading: Reading) -> Findings:
    findings = Findings()
    findings.iteration = step_of(_weights.series(files[0].name))
    _weights.check(files, findings, reading, required=True)
    findings.note("no optimizer state inside: weights only")
    return findings


LAYOUT = Layout(
    name="safetensors",
    order=80,
    groups=_groups,
    read_files=_read,
    rescale=Rescale(),
    hint="from_pretrained({path!r}): weights only, the optimizer starts anew",
)
