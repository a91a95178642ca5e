"""For programs: a diagnosis as JSON, of which nothing is kept unless asked; whether the server is alive."""

from __future__ import annotations

import asyncio
import contextlib

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from correlator.web import results
from correlator.web.jobs import Jobs
from correlator.web.openapi import openapi
from correlator.web.received import receive_into

_LOOK_EVERY = 0.5


async def _diagnose(request: Request) -> Response:
    jobs: Jobs = request.app.state.jobs
    job = jobs.new()
    held = False
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
        held = "hold" in request.query_params
        return Response(content, media_type="application/json", headers={"location": job.address} if held else None)
    finally:
        if not held:
            await jobs.forget(job)


async def _health(request: Request) -> Response:
    jobs: Jobs = request.app.state.jobs
    return JSONResponse({"status": "ok", "unfinished": jobs.unfinished})


async def _openapi(request: Request) -> Response:
    return JSONResponse(openapi())


ROUTES = [
    Route("/api/diagnose", _diagnose, methods=["POST"]),
    Route("/openapi.json", _openapi),
    Route("/health", _health),
]
