"""Checkpoints on disk: :func:`scan`. Whether one can be resumed from: :func:`correlator.checkpoints.resume.judge`."""

from correlator.checkpoints.model import Checkpoint, Inventory
from correlator.checkpoints.scan import scan

__all__ = ["Checkpoint", "Inventory", "scan"]
