"""The server's own pages, from the templates beside this module; the engine escapes every text."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

from jinja2 import ChoiceLoader, Environment, PackageLoader
from starlette.responses import HTMLResponse

from correlator.report.engine import environment


@lru_cache(maxsize=1)
def _engine() -> Environment:
    return environment().overlay(
        loader=ChoiceLoader([PackageLoader("correlator.web"), PackageLoader("correlator.report")])
    )


def page(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """The page that a template makes of the values."""
    text = _engine().get_template(f"{template}.html.j2").render(query=urlencode, **values)
    return HTMLResponse(text.encode("utf-8", "backslashreplace"), status)


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
