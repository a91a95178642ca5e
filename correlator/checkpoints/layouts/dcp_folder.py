"""Any other directory written by ``torch.distributed.checkpoint``: FSDP sharded state, a program's own use of DCP."""

from __future__ import annotations

from correlator.checkpoints import dcp
from correlator.checkpoints.disk import Folder
from correlator.checkpoints.model import Findings, Layout, Reading, Rescale
from correlator.checkpoints.names import step_of


def _read(folder: Folder, reading: Reading) -> Findings:
    findings = Findings()
    findings.iteration = step_of(folder.name)
    if findings.iteration is None and folder.parent is not None:
        findings.iteration = step_of(folder.parent.name)
    dcp.check(folder, findings, reading)
    return findings


LAYOUT = Layout(
    name="dcp",
    order=70,
    recognises=dcp.is_dcp,
    read=_read,
    rescale=Rescale(lost="objects kept by each rank, such as random-number and data-loader states"),
    hint="torch.distributed.checkpoint.load(state_dict, checkpoint_id={path!r}); another world size is resharded",
)
