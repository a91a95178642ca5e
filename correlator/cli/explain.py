"""`correlator explain`: what a failure is, how to confirm it and how to fix it."""

from __future__ import annotations

import re
import sys
from difflib import get_close_matches
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from correlator.cli._output import write_stdout
from correlator.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from correlator.signatures.model import Signature

_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)+")
_XID = re.compile(r"xid-?(\d+)")
_NEAR_IDS = 5
#: Bytes of standard input: a few lines are explained, a log is diagnosed.
_LONGEST_TEXT = 4 << 20

if TYPE_CHECKING:
    #: Entries that fit, entries that are near, Xid numbers of the text; the better ones first.
    _Found = tuple[Sequence[Signature], Sequence[Signature], Sequence[int]]


def run(
    what: Annotated[
        str,
        typer.Argument(
            metavar='SIGNATURE|"ERROR TEXT"', help="An id, or text of a log; - reads it from standard input."
        ),
    ],
) -> int:
    """Explain a failure and how to fix it."""
    from correlator.report.encyclopedia import render_entry, render_near
    from correlator.report.layout import render_for

    text = (_from_stdin() if what == "-" else what).strip()
    if not text:
        raise UsageError("there is no text to explain; give an id or a line of a log")
    fitting, near, xids = _look_up(text)
    if not fitting and not near:
        raise UsageError(_not_found(text))
    page = render_entry(fitting[0], [*fitting[1:], *near], xids) if fitting else render_near(near, xids)
    write_stdout(render_for(sys.stdout, page))
    return 0


def _from_stdin() -> str:
    data = sys.stdin.buffer.read(_LONGEST_TEXT + 1)
    if len(data) > _LONGEST_TEXT:
        raise UsageError(f"more than {_LONGEST_TEXT >> 20} MiB to explain; `correlator diagnose -` reads whole logs")
    return data.decode(errors="replace")


def _look_up(text: str) -> _Found:
    from correlator.signatures import by_id, nearest

    slug = re.sub(r"[\s_]+", "-", text.lower())
    if entry := by_id().get(slug):
        return [entry], [], entry.xids
    if number := _XID.fullmatch(slug):
        xid = int(number[1])
        entries = _of_xid(xid)
        return (entries, [], [xid]) if len(entries) == 1 else ([], entries, [xid])
    if _ID.fullmatch(text):
        return [], [], []
    fitting, xids = _read_as_log(text)
    if fitting and not fitting[0].is_fallback:
        return fitting, [], xids
    # A line that lost its words still has its number.
    near = [entry for xid in xids for entry in _of_xid(xid) if not entry.is_fallback]
    return ([], near, xids) if near else (fitting, nearest(text), xids)


def _of_xid(xid: int) -> Sequence[Signature]:
    """The entries of an Xid number, the one named after it first; the fall-back where there is none."""
    from correlator.signatures import by_id, load_signatures

    found = [s for s in load_signatures() if xid in s.xids]
    return sorted(found, key=lambda s: s.id != f"xid-{xid}") or [by_id()["xid-other"]]


def _read_as_log(text: str) -> tuple[Sequence[Signature], Sequence[int]]:
    """(entries, best first; Xid numbers) that ``text`` gives when it is read as the lines of a log are."""
    from correlator.ingest import ingest
    from correlator.signatures import ROLES, assign, by_id, load_signatures, own_patterns

    with TemporaryDirectory() as folder:
        (Path(folder) / "text.log").write_text(f"{text}\n", encoding="utf-8", errors="replace")
        events = ingest(Path(folder), extra_patterns=own_patterns(load_signatures()), workers=1).events
    table = assign(events)
    found = [by_id()[name] for name in {*table.column("signature").to_pylist()} - {None}]
    fitting = sorted(found, key=lambda s: (s.is_fallback, ROLES.index(s.role), -s.priority, -s.weight, s.id))
    rows = table.select(["event", "xid"]).to_pylist()
    return fitting, sorted({row["xid"] for row in rows if row["event"] == "kernel.xid" and row["xid"] is not None})


def _not_found(text: str) -> str:
    from correlator.signatures import by_id

    if " " in text:
        return "no signature fits that text or is near it; `correlator signatures WORD` looks for a word"
    close = get_close_matches(text.lower(), by_id(), n=_NEAR_IDS, cutoff=0.5)
    return f"no such signature: {text}; {'near: ' + ', '.join(close) if close else '`correlator signatures` lists all'}"
