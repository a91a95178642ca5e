"""Failure signatures: one TOML file each, matched against the event table and read by `explain`."""

from correlator.signatures.match import assign, own_patterns
from correlator.signatures.model import CLASSES, ROLES, Signature, Step, by_id, load_signatures
from correlator.signatures.near import nearest, titled

__all__ = [
    "CLASSES",
    "ROLES",
    "Signature",
    "Step",
    "assign",
    "by_id",
    "load_signatures",
    "nearest",
    "own_patterns",
    "titled",
]
