"""The server's own pages, and the files that they load."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import Any

from starlette.responses import HTMLResponse

from correlator.web.templating import render


def page(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """The page that a template makes of the values."""
    return HTMLResponse(render(template, **values), status)


@lru_cache(maxsize=1)
def static_files() -> dict[str, tuple[str, bytes]]:
    """(media type, content) of the files that pages load, by name."""
    style = [_read("correlator.report", name) for name in ("entry.css", "site.css")]
    return {
        "style.css": ("text/css", b"".join([*style, _read("correlator.web", "web.css")])),
        "icon.svg": ("image/svg+xml", _read("correlator.web", "icon.svg")),
        "drop.js": ("text/javascript", _read("correlator.web", "drop.js")),
    }


def _read(package: str, name: str) -> bytes:
    return (files(package) / "templates" / name).read_bytes()
