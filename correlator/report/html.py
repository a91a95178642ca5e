"""The diagnosis as one HTML file that loads nothing: its pictures are there without a script, one adds zoom and hover.

The page's own policy lets that one script run, by its digest, and no other, whatever a log line holds.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from correlator.diagnosis import Document, Resume
from correlator.graph_svg import DRAWN, draw_svg, strips
from correlator.phrases import agree
from correlator.plots.folding import folded_graph
from correlator.plots.moments import Story
from correlator.report import pages, sayings
from correlator.report.engine import environment
from correlator.report.html_clocks import clocks_of
from correlator.report.html_field import grid_of
from correlator.report.html_timeline import timeline_of
from correlator.report.linked import PlaceHref, linked, no_links, place_link
from correlator.report.proof import Neighbourhood, more_proofs, quoted_proofs
from correlator.report.timeline import ROLE_WORDS
from correlator.report.warnings import warning_texts
from correlator.signatures import by_id

if TYPE_CHECKING:
    from markupsafe import Markup

#: An explanation that stands alone is no picture.
_LEAST_BOXES = 2


def render_html(document: Document, neighbourhood: Neighbourhood | None = None, story: Story | None = None) -> str:
    """The page. Every text is escaped by the template engine; only the drawn graph and the script are markup.

    ``story`` is what the timeline and the field of ranks are drawn from; without it they are left out.
    """
    return environment().get_template("report.html.j2").render(report_values(document, neighbourhood, story))


def report_values(
    document: Document,
    neighbourhood: Neighbourhood | None = None,
    story: Story | None = None,
    raw_href: PlaceHref = no_links,
) -> dict[str, Any]:
    """What the template ``report.html.j2`` is filled with.

    ``raw_href``: address of the raw line at a place; without it a place leads to where the page itself quotes it.
    """
    script, digest = page_script()
    values = _values(document, neighbourhood)
    quoted = {proof.place: f"#proof-{number}" for number, proof in enumerate(values["proofs"], start=1)}

    def href(place: str) -> str | None:
        return raw_href(place) or quoted.get(place)

    return {
        **values,
        **_pictures(document, story),
        "linked": partial(linked, href=href),
        "place_link": partial(place_link, href=raw_href),
        "script": script,
        "script_digest": digest,
    }


@lru_cache(maxsize=1)
def page_script() -> tuple[Markup, str]:
    """The script and its digest, as a content security policy states it."""
    from markupsafe import Markup

    text = (files("correlator.report") / "templates" / "report.js").read_text(encoding="utf-8")
    return Markup(text), b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _pictures(document: Document, story: Story | None) -> dict[str, Any]:
    from markupsafe import Markup

    failed = document.verdict.class_ != "none"
    graph = folded_graph(document.cascade) if failed else ()
    drawn = len(graph) >= _LEAST_BOXES
    return {
        # Every text in it was escaped where it was drawn.
        "graph": Markup(draw_svg(graph).decode()) if drawn else "",
        "drawn": DRAWN,
        "strips": strips(graph) if drawn else [],
        "timeline": timeline_of(document, story) if story and failed else None,
        "grid": grid_of(document, story) if story and failed else None,
        "clocks": clocks_of(document.clocks),
    }


def _values(document: Document, neighbourhood: Neighbourhood | None) -> dict[str, Any]:
    failed = document.verdict.class_ != "none"
    unknown = document.verdict.class_ == "unknown"
    resume = document.resume
    candidates = _candidates(resume)
    return {
        "class_": document.verdict.class_,
        "failed": failed,
        "title": sayings.headline(document),
        "place": sayings.place_line(document) if failed else "",
        "summary": document.verdict.summary,
        "job": sayings.job_line(document.job),
        "entry": document.verdict.signature if document.verdict.signature in by_id() else "",
        "who": [fact for fact in (sayings.who(document), *sayings.gpus(document), sayings.when(document)) if fact],
        "proofs": quoted_proofs(document, neighbourhood, roomy=True),
        "more_proofs": more_proofs(document),
        "cascade": list(pages.cascade_rows(document)) if failed else [],
        "first_role": ROLE_WORDS["initiator"],
        "notes": pages.cascade_notes(document) if failed else [],
        "would_decide": pages.would_decide(document) if unknown else [],
        "rivals": [] if unknown else _rivals(document),
        "ruled_out": [agree(f"{entry.what}: {entry.why}") for entry in document.ruled_out],
        "resume_head": sayings.resume_head(resume),
        "resume_path": resume.path or "",
        "resume_reasons": sayings.resume_reasons(resume),
        "candidates": candidates,
        "columns": [(n, head) for n, head in _COLUMNS.items() if any(getattr(c, n) for c in candidates)],
        "steps": list(pages.steps(document)),
        "verify": document.verify,
        "warnings": list(warning_texts(document)),
        "footer": pages.footer(document),
    }


@dataclass(frozen=True)
class _Rival:
    head: str
    why: str
    control: str


def _rivals(document: Document) -> list[_Rival]:
    return [_Rival(sayings.alternative_head(r), agree(r.why), r.control) for r in document.alternatives]


#: Attributes of a candidate and what stands over them.
_COLUMNS = {
    "iteration": "Iteration",
    "path": "Checkpoint",
    "state": "State",
    "sizes": "Parallel sizes",
    "problems": "Problems",
}


@dataclass(frozen=True)
class _Candidate:
    iteration: str
    path: str
    state: str
    sizes: str
    problems: str
    chosen: bool


def _candidates(resume: Resume) -> list[_Candidate]:
    """The checkpoints, each once, in the order of the answer."""
    rows = (
        _Candidate(
            iteration="" if entry.iteration is None else str(entry.iteration),
            path=entry.path or "",
            state=sayings.STATES[entry.complete] + (", resume here" if sayings.is_chosen(entry, resume) else ""),
            sizes=entry.topology or "",
            problems="; ".join(entry.problems),
            chosen=sayings.is_chosen(entry, resume),
        )
        for entry in resume.candidates
    )
    return [*dict.fromkeys(rows)]
