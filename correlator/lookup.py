"""Which entry of the encyclopedia an id, a line of a log or a few words mean."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from correlator.ingest import ingest
from correlator.signatures import ROLES, Signature, assign, by_id, load_signatures, nearest, own_patterns, titled
from correlator.signatures.arithmetic import WorkedOut, work_out

_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)+")
_XID = re.compile(r"xid-?(\d+)")


@dataclass(frozen=True)
class Explained:
    """What a text means. ``exact``: it fits ``entry``; otherwise ``entry`` is the nearest.

    ``rivals``: other entries that fit or are near, best first. ``xids``: NVIDIA's numbers in question. ``numbers``: the
    entry's arithmetic on the sizes that the text prints.
    """

    entry: Signature
    exact: bool = True
    rivals: Sequence[Signature] = ()
    xids: Sequence[int] = ()
    numbers: WorkedOut | None = None


def look_up(text: str) -> Explained | None:
    """The entry that ``text`` (an id, or text of a log) means; None where nothing of it is known."""
    slug = re.sub(r"[\s_]+", "-", text.lower())
    if entry := by_id().get(slug):
        return Explained(entry, xids=entry.xids)
    if number := _XID.fullmatch(slug):
        xid = int(number[1])
        entries = _of_xid(xid)
        return Explained(entries[0], len(entries) == 1, entries[1:], [xid])
    if _ID.fullmatch(text):
        return None
    if (named := titled(text)) and len(named) == 1:
        rivals = [entry for entry in nearest(text) if entry not in named]
        return Explained(named[0], True, rivals, named[0].xids, work_out(named[0], text))
    fitting, xids = _read_as_log(text)
    if fitting and not fitting[0].is_fallback:
        return Explained(fitting[0], True, fitting[1:], xids, work_out(fitting[0], text))
    # A line that lost its words still has its number.
    near = [entry for xid in xids for entry in _of_xid(xid) if not entry.is_fallback]
    if near:
        return Explained(near[0], False, near[1:], xids)
    near = nearest(text)
    if fitting:
        return Explained(fitting[0], True, [*fitting[1:], *near], xids)
    return Explained(near[0], False, near[1:], xids, work_out(near[0], text)) if near else None


def _of_xid(xid: int) -> Sequence[Signature]:
    """The entries of an Xid number, the one named after it first; the fall-back where there is none."""
    found = [s for s in load_signatures() if xid in s.xids]
    return sorted(found, key=lambda s: s.id != f"xid-{xid}") or [by_id()["xid-other"]]


def _read_as_log(text: str) -> tuple[Sequence[Signature], Sequence[int]]:
    """(entries, best first; Xid numbers) that ``text`` gives when it is read as the lines of a log are."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "text.log").write_text(f"{text}\n", encoding="utf-8", errors="replace")
        events = ingest(Path(folder), extra_patterns=own_patterns(load_signatures()), workers=1).events
    table = assign(events)
    found = [by_id()[name] for name in {*table.column("signature").to_pylist()} - {None}]
    fitting = sorted(found, key=lambda s: (s.is_fallback, ROLES.index(s.role), -s.priority, -s.weight, s.id))
    rows = table.select(["event", "xid"]).to_pylist()
    return fitting, sorted({row["xid"] for row in rows if row["event"] == "kernel.xid" and row["xid"] is not None})
