"""One diagnosis in the browser: waiting for it, the verdict with its lines, the report, a raw line, its neighbours."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from correlator.untrusted import read_number
from correlator.web import results
from correlator.web.guard import REPORT_POLICY, result_policy
from correlator.web.jobs import Job, Jobs
from correlator.web.pages import page

_MEDIA_TYPES = {
    results.REPORT: "text/html",
    results.DIAGNOSIS: "application/json",
    results.MARKDOWN: "text/markdown",
}
#: Lines shown before and after a raw line, the first when nothing is said.
AROUND = (10, 50, 200)


def _job(request: Request) -> Job:
    jobs: Jobs = request.app.state.jobs
    job = jobs.get(request.path_params["job"])
    if job is None:
        raise HTTPException(404, "there is no such diagnosis; it may have been forgotten meanwhile")
    return job


def _finished(request: Request) -> Job:
    job = _job(request)
    if not job.done.is_set() or job.failure is not None:
        raise HTTPException(404, "there is no such report")
    return job


async def _show(request: Request) -> Response:
    job = _job(request)
    if not job.done.is_set():
        seconds = None if job.started is None else int(time.monotonic() - job.started)
        return page("waiting", title=job.title, seconds=seconds)
    if job.failure is not None:
        return page("failed", job.failure.status, title=job.title, why=job.failure.why)
    headers = {"content-security-policy": result_policy()}
    return FileResponse(job.folder / results.PAGE, media_type="text/html", headers=headers)


async def _file(request: Request) -> Response:
    name = request.path_params["name"]
    job = _finished(request)
    if name not in _MEDIA_TYPES:
        raise HTTPException(404, "there is no such report")
    headers = {"content-security-policy": REPORT_POLICY}
    save = "attachment" if "save" in request.query_params else "inline"
    return FileResponse(
        job.folder / name, media_type=_MEDIA_TYPES[name], filename=name, content_disposition_type=save, headers=headers
    )


@dataclass(frozen=True)
class _Around:
    """The raw lines around a place: number (None where it is not known), text, and whether it is the line itself."""

    file: str
    byte_offset: int
    line: int | None
    around: int
    why: str
    rows: list[tuple[int | None, str, bool]]


async def _around(request: Request) -> _Around:
    """What ``file``, ``offset``, ``around`` and the line's number ask for. Raises HTTPException where there is none."""
    job = _finished(request)
    asked = request.query_params
    file, offset = asked.get("file", ""), read_number(asked.get("offset", ""))
    around = read_number(asked.get("around", "")) or AROUND[0]
    if offset is None or around not in AROUND:
        raise HTTPException(400, "no place in a file was given")
    view = job.view
    found = await asyncio.to_thread(view.raw, file, offset, around)
    if found is None:
        raise HTTPException(404, "that file is not of this diagnosis")
    lines, key = found
    if not lines:
        raise HTTPException(410, "that file cannot be read any more")
    line = read_number(asked.get("line", ""))
    numbers = [line - key + at if line and line > key else None for at in range(len(lines))]
    rows = [(number, text, at == key) for at, (number, text) in enumerate(zip(numbers, lines, strict=True))]
    return _Around(file, offset, line, around, view.why(file, offset), rows)


async def _raw(request: Request) -> Response:
    found = await _around(request)
    return page("raw", address=_job(request).address, found=found, choices=AROUND)


async def _raw_json(request: Request) -> Response:
    found = await _around(request)
    lines = [{"line": number, "text": text, "is_asked": is_key} for number, text, is_key in found.rows]
    return JSONResponse({"file": found.file, "byte_offset": found.byte_offset, "why": found.why, "lines": lines})


async def _forget(request: Request) -> Response:
    jobs: Jobs = request.app.state.jobs
    await jobs.forget(_job(request))
    return RedirectResponse("/", 303)


ROUTES = [
    Route("/d/{job}", _show),
    Route("/d/{job}/raw", _raw),
    Route("/d/{job}/raw.json", _raw_json),
    Route("/d/{job}/forget", _forget, methods=["POST"]),
    Route("/d/{job}/{name}", _file),
]
