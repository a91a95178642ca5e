"""How one resumes, in the words of each framework."""

from __future__ import annotations

import shlex

from correlator.checkpoints.layouts import load_layouts
from correlator.checkpoints.model import Checkpoint, Inventory


class _Shell(str):
    """A string that enters a hint quoted for a POSIX shell, or with ``!r`` as a Python literal."""

    def __format__(self, spec: str) -> str:
        return shlex.quote(self)


def hint_for(inventory: Inventory, checkpoint: Checkpoint) -> str:
    """The flag or call that resumes from this checkpoint, with its paths quoted; N stands for an unknown iteration."""
    path = inventory.root if checkpoint.path == "." else f"{inventory.root}/{checkpoint.path}"
    parent, _, name = path.rpartition("/")
    template = next(one.hint for one in load_layouts() if one.name == checkpoint.layout)
    return template.format(
        path=_Shell(path),
        parent=_Shell(parent or "/"),
        name=_Shell(name),
        iteration="N" if checkpoint.iteration is None else checkpoint.iteration,
    )
