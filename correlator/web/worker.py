"""One diagnosis in a process of its own: ``python -m correlator.web.worker``.

It reads the name of a folder from standard input, as soon as there is one to read: until then it is a spare, with
everything loaded. The folder holds the order; the results are written into it, the last one under its name only when
all others are there. Temporary files are made in it, so that what is unpacked goes with it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlencode

import msgspec

from correlator.diagnosis import to_json
from correlator.errors import CorrelatorError
from correlator.ingest.nothing import require_text
from correlator.pipeline import Diagnosis, diagnose
from correlator.report.html import render_html, report_values
from correlator.report.markdown import render_markdown
from correlator.report.safe import visible_json
from correlator.signatures import by_id
from correlator.web import results
from correlator.web.templating import render


def main(folder: Path) -> None:
    """Runs the order that lies in ``folder``."""
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder / results.TEMPORARY)  # for this process and those it starts
    order = msgspec.json.decode((folder / results.ORDER).read_bytes(), type=results.Order)
    try:
        _run(folder, order)
    except CorrelatorError as fault:
        _fail(folder, results.Failure(str(fault).replace(f"{folder}/{results.SENT}", "what was sent")))
    except BaseException as fault:  # BaseException: a panic in a native library is not an Exception
        _fail(folder, results.Failure(f"internal error: {type(fault).__name__}", 500))
        raise


def _run(folder: Path, order: results.Order) -> None:
    places = [Path(os.fsdecode(place)) for place in order.places]
    found = diagnose(*places, timezone=order.timezone, confined=True)
    if not found.document.inputs.events:
        require_text(found.facts.ingested, [*map(str, places)])
    _write(folder / results.REPORT, render_html(found.document, found.neighbourhood, found.story))
    _write(folder / results.MARKDOWN, render_markdown(found.document, found.neighbourhood))
    (folder / results.DIAGNOSIS).write_bytes(visible_json(to_json(found.document)))
    (folder / results.PAGE).write_bytes(_page(found, order))
    view = results.View(list(results.reasons_of(found.document)), _sources(folder, found, places))
    _put(folder / results.VIEW, msgspec.json.encode(view))


def _page(found: Diagnosis, order: results.Order) -> bytes:
    """The report with the server's ways around it; every place that is known by its offset leads to the raw line."""
    known = {f"{row.file}:{row.line}": row for row in (*found.facts.progress, *found.facts.rows)}

    def raw(place: str) -> str | None:
        if (row := known.get(place)) is None:
            return None
        asked = {"file": row.file, "offset": row.byte_offset, "line": row.line}
        return f"{order.address}/raw?{urlencode(asked)}#line"

    values = report_values(found.document, found.neighbourhood, found.story, raw)
    return render("result", address=order.address, given=order.title, **values)


def _sources(folder: Path, found: Diagnosis, places: list[Path]) -> list[results.Source]:
    """The logs, those that were unpacked moved to where they outlive this process."""
    kept = folder / results.SPOOL
    kept.mkdir(exist_ok=True)
    sources = []
    for number, source in enumerate(found.facts.ingested.sources):
        if source.form != "log":
            continue
        path, inside = source.path, next((p for p in places if source.path.is_relative_to(p)), None)
        if source.spool is not None:
            path, inside = source.path.rename(kept / str(number)), kept
        if inside is not None:
            sources.append(
                results.Source(
                    source.name, os.fsencode(path), os.fsencode(inside), source.size, source.compression, source.recoded
                )
            )
    return sources


def _fail(folder: Path, failure: results.Failure) -> None:
    _put(folder / results.FAILURE, msgspec.json.encode(failure))


def _write(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8", "backslashreplace"))


def _put(path: Path, data: bytes) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(data)
    temporary.rename(path)


if __name__ == "__main__":
    by_id()
    if named := sys.stdin.readline().rstrip("\n"):  # nothing: the server ended
        main(Path(named))
