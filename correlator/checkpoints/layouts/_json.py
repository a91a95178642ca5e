"""Small JSON files inside a checkpoint, which a dying job may have cut short."""

from __future__ import annotations

from typing import Any

from correlator.checkpoints.disk import File
from correlator.checkpoints.model import Findings
from correlator.untrusted import read_json

MAX_BYTES = 64 << 20
"""Indices of large models have some MB."""


def read_object(file: File, label: str, findings: Findings) -> dict[str, Any] | None:
    """The object that the file holds; None, and a finding, when it holds none."""
    try:
        value = read_json(file.text(MAX_BYTES))
    except OSError as error:
        findings.doubt(f"{label} cannot be read: {error.strerror or error}")
        return None
    if not isinstance(value, dict):
        findings.fault(f"{label} is no JSON object: cut short or overwritten")
        return None
    return value
