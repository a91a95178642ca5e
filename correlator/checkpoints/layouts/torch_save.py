"""Plain files of ``torch.save``: ``*.pt``, ``*.pth``, ``*.pth.tar``; those with ``rankK`` in the name form one set.

Source of the ``ep0-ba100-rank3.pt`` form: mosaicml/composer ``composer/utils/checkpoint.py``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from correlator.checkpoints.disk import File
from correlator.checkpoints.model import Findings, Layout, Reading
from correlator.checkpoints.names import step_of
from correlator.checkpoints.torch_file import attributes, inspect, whole

_END = re.compile(r".+\.(pt|pth|pth\.tar)")
_RANK = re.compile(r"(?<![a-z])rank[-_]?(\d{1,6})(?!\d)")
_STEP_KEYS = ("global_step", "step", "iteration", "iter", "steps")


def _groups(files: Sequence[File]) -> list[list[File]]:
    found: dict[str, list[File]] = defaultdict(list)
    for file in files:
        if _END.fullmatch(file.name):
            found[_RANK.sub("rank#", file.name)].append(file)
    return list(found.values())


def _read(files: Sequence[File], reading: Reading) -> Findings:
    findings = Findings()
    findings.iteration = step_of(files[0].name)
    for file in files:
        saved = attributes(inspect(file, findings, reading, files=len(files)))
        if findings.iteration is None:
            findings.iteration = next((n for n in (whole(saved.get(key)) for key in _STEP_KEYS) if n is not None), None)
    ranks = {int(match[1]) for match in (_RANK.search(file.name) for file in files) if match}
    if ranks and len(ranks) <= max(ranks):
        findings.fault(f"files of {max(ranks) + 1 - len(ranks)} of {max(ranks) + 1} ranks are missing")
    if len(ranks) > 1:
        findings.sizes(world=max(ranks) + 1)
        findings.parts = frozenset(f"rank{rank}" for rank in ranks)
    return findings


LAYOUT = Layout(
    name="torch-save",
    order=90,
    groups=_groups,
    read_files=_read,
    hint="the program's own resume option with {path}",
)
