"""Prose with what it names made clickable: a place in a log becomes a link, what stands between backquotes code."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from correlator.report.safe import visible_prose

if TYPE_CHECKING:
    from markupsafe import Markup

#: Gives the address of a place in a log, ``file:line``; None where there is none to link to.
PlaceHref = Callable[[str], str | None]

_CODE = re.compile(r"`([^`]+)`")
_PLACE = re.compile(r"[^\s(),;\"']+:\d+")


def no_links(place: str) -> None:
    """Links nothing."""


def linked(text: str, href: PlaceHref = no_links) -> Markup:
    """A paragraph as markup, all of its text escaped.

    >>> print(linked("see `a<b` at logs/a.log:7.", lambda place: f"#{place}"))
    see <code>a&lt;b</code> at <a href="#logs/a.log:7">logs/a.log:7</a>.
    """
    from markupsafe import Markup

    parts = _CODE.split(visible_prose(text))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if at % 2 else _with_links(part, href) for at, part in enumerate(parts)
    )


def place_link(place: str, href: PlaceHref) -> Markup:
    """A place alone, which may hold blanks."""
    from markupsafe import Markup

    address = href(place)
    shown = visible_prose(place)
    return Markup('<a href="{}">{}</a>').format(address, shown) if address else Markup("{}").format(shown)


def _with_links(text: str, href: PlaceHref) -> Markup:
    from markupsafe import Markup, escape

    made, end = Markup(""), 0
    for found in _PLACE.finditer(text):
        if address := href(found[0]):
            made += escape(text[end : found.start()]) + Markup('<a href="{}">{}</a>').format(address, found[0])
            end = found.end()
    return made + escape(text[end:])
