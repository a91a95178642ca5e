"""Failure signatures: one TOML file each, matched against the event table and read by `explain`."""

from correlator.signatures.match import assign, match_text, own_patterns
from correlator.signatures.model import CLASSES, ROLES, NextStep, Signature, by_id, load_signatures

__all__ = [
    "CLASSES",
    "ROLES",
    "NextStep",
    "Signature",
    "assign",
    "by_id",
    "load_signatures",
    "match_text",
    "own_patterns",
]
