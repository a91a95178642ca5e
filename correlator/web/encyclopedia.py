"""The encyclopedia: the same site that ``correlator explain --site`` writes, and the page of a pasted line."""

from __future__ import annotations

import asyncio
import threading
from functools import lru_cache

from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from correlator.lookup import Explained, look_up
from correlator.report.entry_forms import entry_json
from correlator.report.entry_html import entry_fragment
from correlator.report.site import site_files
from correlator.signatures import load_signatures
from correlator.web.pages import page

#: Characters of a text that is looked up: a few lines are explained, a log is diagnosed.
_LONGEST = 8000
_MEDIA_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "json": "application/json"}
#: A text is read as a log is, by a scanner that is one for the process.
_alone = threading.Lock()


@lru_cache(maxsize=1)
def _site() -> dict[str, bytes]:
    return dict(site_files(load_signatures(), home="/"))


async def _front(request: Request) -> Response:
    return RedirectResponse("/encyclopedia/index.html", 303)


async def _page(request: Request) -> Response:
    name = request.path_params["name"]
    content = (await asyncio.to_thread(_site)).get(name)
    if content is None:
        raise HTTPException(404, "there is no such entry")
    return Response(content, media_type=_MEDIA_TYPES[name.rpartition(".")[2]])


async def find_entry(text: str) -> Explained | None:
    """The entry that a text means. Raises HTTPException for one that is empty or too long."""
    text = text.strip()
    if not text:
        raise HTTPException(400, "there is no text to explain; give an id or a line of a log")
    if len(text) > _LONGEST:
        raise HTTPException(413, f"more than {_LONGEST:,} characters to explain; diagnose the log instead")
    return await asyncio.to_thread(_look_up, text)


def _look_up(text: str) -> Explained | None:
    with _alone:
        return look_up(text)


async def _explain(request: Request) -> Response:
    text = request.query_params.get("q", "")
    found = await find_entry(text)
    if found is None:
        raise HTTPException(404, "no entry fits that text or is near it")
    return page("explained", text=text, title=found.entry.title, entry=Markup(entry_fragment(found, _address)))


def _address(entry: str) -> str:
    return f"/encyclopedia/entries/{entry}.html"


async def _explain_json(request: Request) -> Response:
    found = await find_entry(request.query_params.get("q", ""))
    if found is None:
        raise HTTPException(404, "no entry fits that text or is near it")
    return Response(entry_json(found), media_type="application/json")


ROUTES = [
    Route("/encyclopedia/", _front),
    Route("/encyclopedia/{name:path}", _page),
    Route("/explain", _explain),
    Route("/api/explain", _explain_json),
]
