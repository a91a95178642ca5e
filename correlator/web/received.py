"""What a request brings, as files in the folder of its diagnosis; no name that is sent leads out of it."""

from __future__ import annotations

import asyncio
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from correlator.containers.unpack import harmless_name
from correlator.errors import UsageError
from correlator.web import results
from correlator.web.jobs import Job, Jobs
from correlator.web.places import find_place
from correlator.web.settings import Settings

_MAX_FILES = 10_000
_MAX_FIELDS = 100
#: Bytes of a name's part that every file system takes, and parts of a name.
_PART_LIMIT, _PARTS_LIMIT = 200, 20


@dataclass
class Received:
    """What is to be diagnosed: ``places``, in words ``title``; ``timezone`` of stamps that state none."""

    places: list[Path] = field(default_factory=list)
    title: str = ""
    timezone: str | None = None


async def receive_into(job: Job, request: Request) -> Received:
    """Stores what the request brings in the job's folder; when that fails there is no such job any more.

    Raises UsageError with one sentence where nothing came, and HTTPException where it took too long.
    """
    settings: Settings = request.app.state.settings
    jobs: Jobs = request.app.state.jobs
    try:
        async with asyncio.timeout(settings.upload_limit):
            return await receive(request, job.folder / results.SENT, settings)
    except TimeoutError:
        await jobs.forget(job)
        raise HTTPException(408, f"the upload took longer than {settings.upload_limit:g} seconds") from None
    except BaseException:
        await jobs.forget(job)
        raise


async def receive(request: Request, folder: Path, settings: Settings) -> Received:
    """Stores the files, the pasted text or the bare body in ``folder``, or finds the folder that is named.

    Raises UsageError with one sentence where nothing came, and for a zone or a folder that does not exist.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        return await _from_form(request, folder, settings)
    # Whatever type is stated: what curl states of a plain body is that of another kind of form.
    path = _new_path(folder, request.query_params.get("name") or "sent.log")
    with path.open("wb") as out:
        async for piece in request.stream():
            await asyncio.to_thread(out.write, piece)
    _require_bytes(folder)
    return Received([folder], path.name, _zone(request.query_params.get("timezone")))


async def _from_form(request: Request, folder: Path, settings: Settings) -> Received:
    limits = {"max_files": _MAX_FILES, "max_fields": _MAX_FIELDS, "max_part_size": settings.max_upload}
    async with request.form(**limits) as form:
        place, zone = form.get("place"), form.get("timezone")
        found = Received(timezone=_zone(zone if isinstance(zone, str) else None))
        if isinstance(place, str) and place:
            found.places = [find_place(settings.roots, place)]
            found.title = os.fsencode(found.places[0]).decode("utf-8", "replace")
            return found
        names = []
        for value in form.getlist("files"):
            # A browser sends one file without name or content where none was chosen.
            if isinstance(value, UploadFile) and (value.filename or value.size):
                path = _new_path(folder, value.filename or "")
                await asyncio.to_thread(_copy, value.file, path)
                names.append(path.relative_to(folder).as_posix())
        text = form.get("text")
        if isinstance(text, str) and text.strip():
            path = _new_path(folder, "pasted.log")
            # Forms end lines with CR LF.
            await asyncio.to_thread(path.write_text, text.replace("\r\n", "\n"), "utf-8", "replace")
            names.append("pasted text")
    _require_bytes(folder)
    found.places = [folder]
    found.title = names[0] if len(names) == 1 else f"{len(names)} files"
    return found


def _copy(source: BinaryIO, path: Path) -> None:
    with path.open("wb") as out:
        shutil.copyfileobj(source, out, 1 << 20)


def _require_bytes(folder: Path) -> None:
    if not any(path.is_file() and path.stat().st_size for path in folder.rglob("*")):
        raise UsageError("nothing came: paste a log, choose files, or open a folder")


def _zone(name: str | None) -> str | None:
    from correlator.timestamps import parse_zone

    name = (name or "").strip() or None
    parse_zone(name)
    return name


def _new_path(folder: Path, name: str) -> Path:
    """A path below ``folder`` that is as much like ``name`` as can be, for it tells of ranks and nodes."""
    parts = [_short(part) for part in harmless_name(name.replace("\0", "")).split("/")[-_PARTS_LIMIT:]]
    wanted = folder.joinpath(*parts)
    path, number = wanted, 1
    while path.exists() or any(parent.is_file() for parent in path.parents if parent.is_relative_to(folder)):
        number += 1
        path = folder / f"{number}" / wanted.relative_to(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _short(part: str) -> str:
    data = part.encode("utf-8", "replace")
    return part if len(data) <= _PART_LIMIT else data[-_PART_LIMIT:].decode("utf-8", "ignore")
