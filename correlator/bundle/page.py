"""The bundle's page for people: one HTML file, nothing loaded from elsewhere, made to be printed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from correlator.bundle.model import Case, Excerpt, Place
from correlator.report.engine import environment
from correlator.report.words import size_words

_STATUS_WORDS = {
    "meets-criteria": "Meets the criteria for a return",
    "insufficient": "Insufficient for a return",
    "not-hardware": "Not a hardware case",
}
_STANDING_ORDER = {"speaks for it": 0, "not shown": 1, "no sign": 2, "ruled out": 3}
#: Excerpts and lines of each that the page shows; the bag holds all.
_EXCERPTS, _LINES = 14, 24


def render_page(case: Case, cuts: Sequence[tuple[Excerpt, bytes]], picture: bytes) -> str:
    """The page. Every text is escaped by the template engine; only ``picture``, drawn here, is markup."""
    from jinja2 import PackageLoader
    from markupsafe import Markup

    engine = environment().overlay(loader=PackageLoader("correlator.bundle"))
    engine.filters = engine.filters | {"place": _place, "time": _time, "size": size_words}
    return engine.get_template("bundle.html.j2").render(
        case=case,
        status_words=_STATUS_WORDS[case.decision.status],
        excluded=sorted(case.excluded, key=lambda entry: _STANDING_ORDER[entry.standing]),
        cuts=[(excerpt, *_lines(excerpt, text)) for excerpt, text in cuts[:_EXCERPTS]],
        more_excerpts=max(0, len(cuts) - _EXCERPTS),
        picture=Markup(picture.decode()) if picture else "",
    )


def _lines(excerpt: Excerpt, text: bytes) -> tuple[list[tuple[int, str]], int]:
    """Numbered lines that are shown, and how many are not."""
    lines = text.decode("utf-8", "replace").removesuffix("\n").split("\n")
    shown = [(excerpt.line_start + number, line) for number, line in enumerate(lines[:_LINES])]
    return shown, max(0, len(lines) - _LINES)


def _place(place: Place | None) -> str:
    return f"{place.file}:{place.line}" if place else ""


def _time(time: datetime | None) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} UTC" if time else ""
