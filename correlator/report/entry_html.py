"""An entry's page as HTML: for one file, for a page of somebody else's, for the web site."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from correlator.lookup import Explained
from correlator.report.engine import environment
from correlator.report.entry import about_line, entry_parts, facts_line
from correlator.report.words import step_tag

#: Gives the address of an entry's page by its id; None: there is none to link to.
Href = Callable[[str], str | None]


def entry_values(found: Explained, href: Href) -> dict[str, Any]:
    """What the templates ``entry.html.j2`` and ``entry_body.html.j2`` are filled with."""
    return {
        "entry": found.entry,
        "exact": found.exact,
        "facts": facts_line(found.entry),
        "about": about_line(found.entry),
        "parts": entry_parts(found),
        "step_tag": step_tag,
        "href": href,
    }


def entry_fragment(found: Explained, href: Href = lambda _: None) -> str:
    """The page without head and style, to be put into another page; every text in it is escaped.

    ``entry.css`` among the templates is its style.
    """
    return environment().get_template("entry_body.html.j2").render(entry_values(found, href))


def entry_html(found: Explained, href: Href = lambda _: None) -> str:
    """One HTML file: no script, nothing loaded from elsewhere."""
    return environment().get_template("entry.html.j2").render(entry_values(found, href))
