"""The templates beside this module and those of the report; the engine escapes every text."""

from __future__ import annotations

from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

from jinja2 import ChoiceLoader, Environment, PackageLoader

from correlator.report.engine import environment


@lru_cache(maxsize=1)
def _engine() -> Environment:
    return environment().overlay(
        loader=ChoiceLoader([PackageLoader("correlator.web"), PackageLoader("correlator.report")])
    )


def render(template: str, **values: Any) -> bytes:
    """The page that a template makes of the values, as UTF-8."""
    text = _engine().get_template(f"{template}.html.j2").render(query=urlencode, **values)
    return text.encode("utf-8", "backslashreplace")
