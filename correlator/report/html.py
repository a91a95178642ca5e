"""The diagnosis as one HTML file: no script, nothing loaded from elsewhere, the causal graph drawn in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from correlator.diagnosis import Document
from correlator.phrases import agree
from correlator.report import pages, sayings
from correlator.report.engine import environment
from correlator.report.proof import Neighbourhood
from correlator.report.warnings import warning_texts

if TYPE_CHECKING:
    import networkx as nx


def render_html(document: Document, neighbourhood: Neighbourhood | None = None, graph: nx.DiGraph | None = None) -> str:
    """The page. Every text is escaped by the template engine; only the drawn graph, made here, is markup."""
    from markupsafe import Markup

    picture = ""
    if graph is not None and len(graph):
        from correlator.graph_svg import draw_svg

        # Every text in it was escaped where it was drawn.
        picture = Markup(draw_svg(graph).decode())
    return environment().get_template("report.html.j2").render(_values(document, neighbourhood), picture=picture)


def _values(document: Document, neighbourhood: Neighbourhood | None) -> dict[str, Any]:
    failed = document.verdict.class_ != "none"
    unknown = document.verdict.class_ == "unknown"
    resume = document.resume
    return {
        "class_": document.verdict.class_,
        "failed": failed,
        "title": sayings.headline(document),
        "place": sayings.place_line(document) if failed else "",
        "resume_short": sayings.resume_short(document),
        "summary": document.verdict.summary,
        "job": sayings.job_line(document.job),
        "who": [fact for fact in (sayings.who(document), *sayings.gpus(document), sayings.when(document)) if fact],
        "proofs": pages.proofs(document, neighbourhood),
        "cascade": list(pages.cascade_rows(document)) if failed else [],
        "notes": pages.cascade_notes(document) if failed else [],
        "would_decide": pages.would_decide(document) if unknown else [],
        "rivals": [] if unknown else pages.rivals(document),
        "ruled_out": [agree(f"{entry.what}: {entry.why}") for entry in document.ruled_out],
        "resume_head": sayings.resume_head(resume),
        "resume_path": resume.path or "",
        "resume_rest": [*sayings.resume_reasons(resume), *sayings.other_candidates(resume)],
        "steps": list(pages.steps(document)),
        "verify": document.verify,
        "warnings": list(warning_texts(document)),
        "footer": pages.footer(document),
    }
