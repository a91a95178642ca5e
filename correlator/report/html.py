"""The diagnosis as one HTML file that loads nothing: its pictures are there without a script, one adds zoom and hover.

The page's own policy lets that one script run, by its digest, and no other, whatever a log line holds.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from correlator.diagnosis import Document, Resume
from correlator.graph_svg import draw_svg
from correlator.phrases import agree
from correlator.plots.folding import folded_graph
from correlator.plots.moments import Story
from correlator.report import html_pictures, pages, sayings
from correlator.report.engine import environment
from correlator.report.proof import Neighbourhood, Quoted
from correlator.report.timeline import ROLE_WORDS
from correlator.report.warnings import warning_texts

if TYPE_CHECKING:
    from markupsafe import Markup


def render_html(document: Document, neighbourhood: Neighbourhood | None = None, story: Story | None = None) -> str:
    """The page. Every text is escaped by the template engine; only the drawn graph and the script are markup.

    ``story`` is what the timeline and the field of ranks are drawn from; without it they are left out.
    """
    values = _values(document, neighbourhood) | _pictures(document, story)
    script, digest = _script()
    return environment().get_template("report.html.j2").render(values, script=script, script_digest=digest)


@lru_cache(maxsize=1)
def _script() -> tuple[Markup, str]:
    """The script and its digest, as a content security policy states it."""
    from markupsafe import Markup

    text = (files("correlator.report") / "templates" / "report.js").read_text(encoding="utf-8")
    return Markup(text), b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _pictures(document: Document, story: Story | None) -> dict[str, Any]:
    from markupsafe import Markup

    failed = document.verdict.class_ != "none"
    graph = folded_graph(document.cascade) if failed else None
    return {
        # Every text in it was escaped where it was drawn.
        "graph": Markup(draw_svg(graph).decode()) if graph else "",
        "roles": list(ROLE_WORDS.items()),
        "timeline": html_pictures.timeline_of(document, story) if story and failed else None,
        "grid": html_pictures.grid_of(document, story) if story and failed else None,
        "clocks": html_pictures.clocks_of(document.clocks),
    }


def _values(document: Document, neighbourhood: Neighbourhood | None) -> dict[str, Any]:
    failed = document.verdict.class_ != "none"
    unknown = document.verdict.class_ == "unknown"
    resume = document.resume
    proofs = pages.proofs(document, neighbourhood)
    return {
        "class_": document.verdict.class_,
        "failed": failed,
        "title": sayings.headline(document),
        "place": sayings.place_line(document) if failed else "",
        "summary": document.verdict.summary,
        "job": sayings.job_line(document.job),
        "who": [fact for fact in (sayings.who(document), *sayings.gpus(document), sayings.when(document)) if fact],
        "proofs": proofs,
        "cascade": [(*row, _proof_of(row[3], proofs)) for row in pages.cascade_rows(document)] if failed else [],
        "notes": pages.cascade_notes(document) if failed else [],
        "would_decide": pages.would_decide(document) if unknown else [],
        "rivals": [] if unknown else _rivals(document),
        "ruled_out": [agree(f"{entry.what}: {entry.why}") for entry in document.ruled_out],
        "resume_head": sayings.resume_head(resume),
        "resume_path": resume.path or "",
        "resume_reasons": sayings.resume_reasons(resume),
        "candidates": _candidates(resume),
        "steps": list(pages.steps(document)),
        "verify": document.verify,
        "warnings": list(warning_texts(document)),
        "footer": pages.footer(document),
    }


def _proof_of(source: str, proofs: list[Quoted]) -> int | None:
    """Which of the quoted proofs, from 1, shows the line that a row of the cascade rests on."""
    place = source.partition(",")[0]
    return next((number for number, proof in enumerate(proofs, start=1) if proof.place == place), None)


@dataclass(frozen=True)
class _Rival:
    head: str
    why: str
    control: str


def _rivals(document: Document) -> list[_Rival]:
    return [_Rival(sayings.alternative_head(r), agree(r.why), r.control) for r in document.alternatives]


@dataclass(frozen=True)
class _Candidate:
    iteration: str
    path: str
    state: str
    topology: str
    problems: tuple[str, ...]
    chosen: bool


def _candidates(resume: Resume) -> list[_Candidate]:
    """The checkpoints, each once, in the order of the answer."""
    rows = (
        _Candidate(
            iteration="" if entry.iteration is None else str(entry.iteration),
            path=entry.path or "",
            state=sayings.STATES[entry.complete],
            topology=entry.topology or "",
            problems=tuple(entry.problems),
            chosen=sayings.is_chosen(entry, resume),
        )
        for entry in resume.candidates
    )
    return [*dict.fromkeys(rows)]
