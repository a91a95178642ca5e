"""The application: which address is answered by what."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from correlator.errors import UsageError
from correlator.web import api, encyclopedia, result_pages
from correlator.web.guard import Access, Guard, is_for_programs
from correlator.web.jobs import Busy, Jobs
from correlator.web.pages import page, static_files
from correlator.web.places import find_place, list_folder
from correlator.web.received import receive_into
from correlator.web.settings import Settings


def make_app(settings: Settings) -> ASGIApp:
    """The server's application; what it holds lives from its start to its shutdown."""
    access = Access(settings.token)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        app.state.jobs = Jobs(settings)
        await app.state.jobs.prepare()
        sweeper = asyncio.create_task(app.state.jobs.sweep())
        try:
            yield
        finally:
            sweeper.cancel()
            await app.state.jobs.close()

    routes = [
        Route("/", _front),
        Route("/diagnose", _diagnose, methods=["POST"]),
        Route("/folders/{place:path}", _folder),
        *result_pages.ROUTES,
        *encyclopedia.ROUTES,
        *api.ROUTES,
        Route("/login", _login, methods=["GET", "POST"]),
        Route("/static/{name}", _static),
        Route("/favicon.ico", _static),
    ]
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={HTTPException: _http_fault, UsageError: _usage_fault, Busy: _busy, Exception: _fault},
    )
    app.state.settings = settings
    app.state.access = access
    return Guard(app, settings, access)


async def _front(request: Request) -> Response:
    settings: Settings = request.app.state.settings
    return page("front", roots=settings.roots, limit=settings.max_upload >> 20, kept=settings.keep is not None)


async def _diagnose(request: Request) -> Response:
    jobs: Jobs = request.app.state.jobs
    job = jobs.new()
    received = await receive_into(job, request)
    jobs.start(job, received.title, received.places, received.timezone)
    return RedirectResponse(job.address, 303)


async def _folder(request: Request) -> Response:
    settings: Settings = request.app.state.settings
    place = request.path_params["place"]
    path = find_place(settings.roots, place)
    if not path.is_dir():
        raise UsageError("no such folder")
    folders, files = await asyncio.to_thread(list_folder, path)
    return page("folder", path=str(path), place=place.rstrip("/"), folders=folders, files=files)


async def _login(request: Request) -> Response:
    onward = request.query_params.get("next", "/")
    if not onward.startswith("/") or onward.startswith(("//", "/\\")):
        onward = "/"  # no way to other sites
    if request.method == "GET":
        return page("login", wrong=False, onward=onward)
    async with request.form(max_files=0, max_fields=2, max_part_size=1 << 10) as form:
        token = form.get("token")
    answer = RedirectResponse(onward, 303)
    access: Access = request.app.state.access
    if access.log_in(str(token or "").strip(), answer, secure=request.url.scheme == "https"):
        return answer
    return page("login", 401, wrong=True, onward=onward)


async def _static(request: Request) -> Response:
    # Browsers ask for an icon by this name where a page states none, as those of the encyclopedia and the reports do.
    found = static_files().get(request.path_params.get("name", "icon.svg"))
    if found is None:
        raise HTTPException(404)
    media_type, content = found
    return Response(content, media_type=media_type, headers={"cache-control": "max-age=3600"})


async def _http_fault(request: Request, fault: Exception) -> Response:
    assert isinstance(fault, HTTPException)
    return _say(request, fault.status_code, fault.detail)


async def _usage_fault(request: Request, fault: Exception) -> Response:
    return _say(request, 400, str(fault))


async def _busy(request: Request, fault: Exception) -> Response:
    return _say(request, 503, str(fault))


async def _fault(request: Request, fault: Exception) -> Response:
    return _say(request, 500, f"internal error: {type(fault).__name__}")


def _say(request: Request, status: int, text: str) -> Response:
    if is_for_programs(request):
        return JSONResponse({"error": text}, status)
    return page("message", status, text=text)
