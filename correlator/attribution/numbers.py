"""The arithmetic of the chosen entry on the job's own sizes."""

from __future__ import annotations

from correlator.cascade.model import Facts, Finding
from correlator.grid import ARGUMENT_NAMES
from correlator.signatures import Signature
from correlator.signatures.arithmetic import WorkedOut, work_out
from correlator.untrusted import read_number

_AXIS_OF = {name: axis for axis, names in ARGUMENT_NAMES.items() for name in names}


def numbers_of(facts: Facts, chosen: Finding, signature: Signature | None) -> WorkedOut | None:
    """What does not fit and what would; None where the entry has no arithmetic or the logs print no sizes for it."""
    if signature is None or not signature.arithmetic:
        return None
    text = "\n".join(row.body for row in chosen.incident.rows)
    return work_out(signature, text, job_sizes(facts))


def job_sizes(facts: Facts) -> dict[str, int]:
    """Every size that the job states of itself: parallel sizes by axis, all others by their argument's name."""
    sizes: dict[str, int] = {}
    for event in ("megatron.arguments", "config.dump"):
        for row in facts.events(event):
            for name, value in row.attributes.items():
                if (number := read_number(value)) is not None:
                    sizes.setdefault(_AXIS_OF.get(name, name), number)
    topology = facts.topology
    if topology.grid is not None:
        sizes |= {axis: topology.grid.size(axis) for axis in ("tp", "pp", "cp", "dp")}
    if topology.world_size:
        sizes["world_size"] = topology.world_size
    if topology.nproc_per_node:
        sizes["nproc_per_node"] = topology.nproc_per_node
    return sizes
