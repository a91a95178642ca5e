"""How one resumes, in the words of each framework."""

from __future__ import annotations

import shlex

from correlator.checkpoints.layouts import load_layouts
from correlator.checkpoints.model import Checkpoint, Inventory


class _Shell(str):
    """A string that enters a hint quoted for a POSIX shell, or with ``!r`` as a Python literal."""

    def __format__(self, spec: str) -> str:
        return shlex.quote(self)


class _Word(str):
    """A place-holder: enters a hint as it is."""

    def __repr__(self) -> str:
        return str(self)


def hints(layout: str) -> str:
    """The flag or call that resumes from a checkpoint of ``layout``, with DIR, CHECKPOINT, NAME and N to be filled in.

    Empty for an unknown layout.
    """
    return _fill(layout, _Word("CHECKPOINT"), _Word("DIR"), _Word("NAME"), _Word("N"))


def hint_for(inventory: Inventory, checkpoint: Checkpoint) -> str:
    """The same with the paths and the iteration of one checkpoint, quoted."""
    path = inventory.root if checkpoint.path == "." else f"{inventory.root}/{checkpoint.path}"
    parent, _, name = path.rpartition("/")
    iteration = _Word("N") if checkpoint.iteration is None else _Word(checkpoint.iteration)
    return _fill(checkpoint.layout, _Shell(path), _Shell(parent or "/"), _Shell(name), iteration)


def _fill(layout: str, path: str, parent: str, name: str, iteration: str) -> str:
    template = next((one.hint for one in load_layouts() if one.name == layout), "")
    return template.format(path=path, parent=parent, name=name, iteration=iteration)
