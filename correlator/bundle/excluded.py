"""What else it could have been, and what the logs say: ruled out, spoken for, no sign of it, or not shown."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from correlator.bundle.attachments import Candidate
from correlator.bundle.matching import Match, load_data, matching
from correlator.bundle.model import Excluded, Place
from correlator.diagnosis import Document
from correlator.phrases import agree
from correlator.records import Row


class _Cause(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    what: str
    speaks: list[Match]
    spoken: str
    open: str
    excludes: list[Match] = []
    excluded: str = ""
    quiet_in: list[str] = []
    quiet: str = ""


def other_causes(
    document: Document, about: Sequence[Row], on_node: Sequence[Row], attached: Sequence[Candidate]
) -> list[Excluded]:
    """Every other cause with its standing, then what the diagnosis itself ruled out."""
    kinds = {candidate.kind for candidate in attached}
    causes = msgspec.convert(load_data("excluded")["cause"], list[_Cause])
    own = [_judged(cause, about, on_node, kinds) for cause in causes]
    return [*own, *(Excluded(agree(entry.what), "ruled out", agree(entry.why)) for entry in document.ruled_out)]


def _judged(cause: _Cause, about: Sequence[Row], on_node: Sequence[Row], kinds: set[str]) -> Excluded:
    if found := matching(about, cause.excludes):
        return Excluded(cause.what, "ruled out", cause.excluded, Place(found[0].file, found[0].line))
    if found := [row for row in matching(on_node, cause.speaks) if row.severity != "info"]:
        return Excluded(cause.what, "speaks for it", cause.spoken, Place(found[0].file, found[0].line))
    if kinds.intersection(cause.quiet_in):
        return Excluded(cause.what, "no sign", cause.quiet)
    return Excluded(cause.what, "not shown", cause.open)
