"""Composer: ``ep<E>-ba<B>-rank<R>.pt`` from one rank or each, or a DCP folder ``ep<E>-ba<B>/``.

``latest-rank<R>.pt`` is a link to the newest.
Source: mosaicml/composer ``composer/callbacks/checkpoint_saver.py``, ``composer/utils/checkpoint.py``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from correlator.checkpoints import dcp
from correlator.checkpoints.disk import File, Folder
from correlator.checkpoints.layouts._ranks import check_files
from correlator.checkpoints.model import Findings, Layout, Reading, Rescale

_NAME = re.compile(r"ep(\d{1,9})-ba(\d{1,12})(?:-rank(\d{1,6}))?")


def _named(name: str) -> re.Match[str] | None:
    return _NAME.fullmatch(re.sub(r"\.(pt|tar|tar\.gz|symlink)$", "", name))


def _recognises(folder: Folder) -> bool:
    return bool(_NAME.fullmatch(folder.name)) and (dcp.is_dcp(folder) or not (folder.files or folder.folders))


def _read(folder: Folder, reading: Reading) -> Findings:
    findings = Findings()
    _take_batch(folder.name, findings)
    dcp.check(folder, findings, reading)
    return findings


def _groups(files: Sequence[File]) -> list[list[File]]:
    found: dict[str, list[File]] = defaultdict(list)
    for file in files:
        match = _named(file.name)
        if match and match[3] is not None and file.name.endswith(".pt"):
            found[match[0][: match.start(3)]].append(file)
    return list(found.values())


def _read_files(files: Sequence[File], reading: Reading) -> Findings:
    findings = Findings()
    _take_batch(files[0].name, findings)
    check_files(files, findings, reading)
    if len(files) > 1:
        findings.rescale = Rescale(fixed=("world",))
    return findings


def _take_batch(name: str, findings: Findings) -> None:
    match = _named(name)
    findings.iteration = int(match[2]) if match else None


LAYOUT = Layout(
    name="composer",
    order=47,
    recognises=_recognises,
    read=_read,
    groups=_groups,
    read_files=_read_files,
    rescale=Rescale(lost="random-number states of another number of ranks"),
    hint="Trainer(load_path={path!r}); autoresume=True takes what latest-rank{{rank}}.pt links to",
)
