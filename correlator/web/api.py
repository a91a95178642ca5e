"""For programs: a diagnosis as JSON, of which nothing is kept; the description of that; whether the server is alive."""

from __future__ import annotations

import asyncio
import contextlib
from functools import lru_cache
from importlib.metadata import version
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from correlator.web import results
from correlator.web.jobs import Jobs
from correlator.web.received import receive_into

_LOOK_EVERY = 0.5


async def _diagnose(request: Request) -> Response:
    jobs: Jobs = request.app.state.jobs
    job = jobs.new()
    received = await receive_into(job, request)
    try:
        jobs.start(job, received.title, received.places, received.timezone)
        while not job.done.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(job.done.wait(), _LOOK_EVERY)
            if await request.is_disconnected():  # nobody waits for the answer any more
                return Response(status_code=499)
        if job.failure is not None:
            return JSONResponse({"error": job.failure.why}, job.failure.status)
        content = await asyncio.to_thread((job.folder / results.DIAGNOSIS).read_bytes)
        return Response(content, media_type="application/json")
    finally:
        await jobs.forget(job)


async def _health(request: Request) -> Response:
    jobs: Jobs = request.app.state.jobs
    return JSONResponse({"status": "ok", "unfinished": jobs.unfinished})


async def _openapi(request: Request) -> Response:
    return JSONResponse(openapi())


@lru_cache(maxsize=1)
def openapi() -> dict[str, Any]:
    """The OpenAPI description of what programs may ask."""
    import msgspec

    from correlator.diagnosis import Document

    (document,), schemas = msgspec.json.schema_components([Document], ref_template="#/components/schemas/{name}")
    fault = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
    zone = {"type": "string", "description": "Zone of stamps that state none: Europe/Berlin, +02:00; default UTC."}
    form = {
        "type": "object",
        "properties": {
            "files": {
                "type": "array",
                "items": {"type": "string", "format": "binary"},
                "description": "Logs and archives of one job; their names tell of ranks and nodes.",
            },
            "text": {"type": "string", "description": "Lines of a log, a traceback."},
            "place": {
                "type": "string",
                "description": "A folder named at the start: its number from 0, and what lies below: 0/job-77.",
            },
            "timezone": zone,
        },
    }
    faults = {
        "400": "Wrong usage.",
        "401": "A token is needed.",
        "403": "Sent by another site's page.",
        "408": "The upload took too long.",
        "413": "More was sent, or it unpacks to more, than may.",
        "422": "Nothing readable was sent.",
        "503": "Too many diagnoses wait.",
        "504": "The diagnosis took too long.",
    }

    def answers(what: str, schema: dict[str, Any], codes: str) -> dict[str, Any]:
        found = {"200": {"description": what, "content": {"application/json": {"schema": schema}}}}
        content = {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
        return found | {code: {"description": faults[code], "content": content} for code in codes.split()}

    diagnose = {
        "operationId": "diagnose",
        "summary": "Who failed first, why, and where to resume. Nothing of it is kept.",
        "parameters": [
            {"name": "name", "in": "query", "schema": {"type": "string"}, "description": "Name of a bare body's file."},
            {"name": "timezone", "in": "query", "schema": zone, "description": "The same, for a bare body."},
        ],
        "requestBody": {
            "required": True,
            "content": {
                "multipart/form-data": {"schema": form},
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
                "text/plain": {"schema": {"type": "string"}},
            },
        },
        "responses": answers("The diagnosis.", document, "400 401 403 408 413 422 503 504"),
    }
    explain = {
        "operationId": "explain",
        "summary": "The entry of the encyclopedia that an id or a text of a log means.",
        "parameters": [{"name": "q", "in": "query", "required": True, "schema": {"type": "string"}}],
        "responses": answers("The entry.", {"type": "object"}, "400 401 413")
        | {"404": {"description": "No entry fits or is near."}},
    }
    health = {
        "operationId": "health",
        "summary": "Whether the server is alive; needs no token.",
        "security": [],
        "responses": answers("It is.", {"type": "object"}, ""),
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "correlator", "version": version("rank-correlator")},
        "paths": {
            "/api/diagnose": {"post": diagnose},
            "/api/explain": {"get": explain},
            "/health": {"get": health},
        },
        "components": {
            "schemas": {**schemas, "Fault": fault},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


ROUTES = [
    Route("/api/diagnose", _diagnose, methods=["POST"]),
    Route("/openapi.json", _openapi),
    Route("/health", _health),
]
