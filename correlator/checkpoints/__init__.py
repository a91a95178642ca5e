"""Checkpoints on disk: :func:`scan`. Whether one can be resumed from: :func:`correlator.checkpoints.resume.judge`."""

from correlator.checkpoints.inventory import scan
from correlator.checkpoints.model import Checkpoint, Inventory

__all__ = ["Checkpoint", "Inventory", "scan"]
