"""The verdict in the words of public label sets, for tickets and cloud interfaces."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from correlator.bundle.matching import load_data
from correlator.bundle.model import Decision, Labels, PartKind
from correlator.bundle.subject import Subject
from correlator.diagnosis import Document
from correlator.records import Row
from correlator.signatures.catalog import xid_catalog

_AZURE = "Resource.Hpc."
_HEALTHY = Labels(f"{_AZURE}Healthy", "none", "none", [])


class _Label(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    azure: str
    gcp: str
    oci: str
    criteria: list[str] = []
    signatures: list[str] = []
    parts: list[PartKind] = []
    events: list[str] = []


def labels_of(document: Document, subject: Subject, decision: Decision, about: Sequence[Row]) -> Labels:
    """The first entry that fits the rules shown, the signature, or the kind of part."""
    if decision.status == "not-hardware":
        return _HEALTHY
    shown = {criterion.id for criterion in decision.criteria if criterion.status in ("met", "shown")}
    signatures = {row.signature for row in about if row.signature}
    if subject.is_initiator:
        signatures.add(document.verdict.signature)
    events = {row.event for row in about}
    catalog = xid_catalog()
    buckets = [
        f"Xid {number}: {', '.join(filter(None, [known.immediate_action, known.investigatory_action]))}"
        for number in dict.fromkeys(row.xid for row in about if row.event == "kernel.xid" and row.xid is not None)
        if (known := catalog.get(number)) is not None and (known.immediate_action or known.investigatory_action)
    ]
    for label in msgspec.convert(load_data("labels")["label"], list[_Label]):
        bound = bool(label.criteria or label.signatures or label.events)
        hit = shown & set(label.criteria) or signatures & set(label.signatures) or events & set(label.events)
        if (hit or not bound) and (not label.parts or subject.kind in label.parts):
            return Labels(_AZURE + label.azure, label.gcp, label.oci, buckets)
    raise AssertionError("labels.toml ends with an entry that fits everything")
