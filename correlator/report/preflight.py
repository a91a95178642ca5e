"""Preflight's findings as a terminal page, as JSON and as SARIF."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from typing import IO, Any

import msgspec
from rich.console import RenderableType

from correlator.preflight.model import Finding, Place, Report
from correlator.report import layout
from correlator.report.safe import visible_json
from correlator.report.sarif import location, sarif_log

_HEADS = {"blocker": "BLOCKER", "warning": "WARNING", "note": "NOTE"}
_STYLES = {"blocker": "bold red", "warning": "bold yellow", "note": "bold"}
_LEVELS = {"blocker": "error", "warning": "warning", "note": "note"}
#: Rules named for one value that is not known.
_RULES_SHOWN = 6


def to_json(report: Report) -> bytes:
    """The report as JSON, made harmless for a terminal."""
    return visible_json(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")


def to_text(report: Report, stream: IO[str] | None = None) -> str:
    """The report as a page for ``stream``; for a file where there is none."""
    return layout.render_for(stream or StringIO(), list(_page(report)))


def _page(report: Report) -> Iterator[RenderableType]:
    yield from (layout.prose(line, "dim") for line in report.launches)
    yield ""
    blockers = sum(finding.severity == "blocker" for finding in report.findings)
    others = len(report.findings) - blockers
    if blockers:
        more = f", {_count(others, 'finding')} more" if others else ""
        yield layout.prose(f"It cannot work: {_count(blockers, 'blocker')}{more}.", "bold red")
    elif others:
        yield layout.prose(f"No blocker; {_count(others, 'finding')}.", "bold yellow")
    else:
        yield layout.prose(f"Nothing found by {_count(report.checked, 'rule')} that apply.", "bold green")
    for finding in report.findings:
        yield ""
        yield from _finding(finding)
    unknown = [
        f"{one.why}: {', '.join(one.rules[:_RULES_SHOWN])}"
        + (f" and {len(one.rules) - _RULES_SHOWN} more" if len(one.rules) > _RULES_SHOWN else "")
        for one in report.not_checked
    ]
    yield from layout.section("NOT CHECKED, FOR IT CANNOT BE KNOWN", layout.bullets(map(layout.prose, unknown)))
    yield from layout.section("NOTES", layout.bullets(map(layout.prose, report.notes)))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _finding(finding: Finding) -> Iterator[RenderableType]:
    yield layout.prose(f"{_HEADS[finding.severity]}  {finding.title}", _STYLES[finding.severity])
    yield layout.indent(layout.prose(finding.why))
    for place in finding.places:
        yield layout.indent(layout.line(f"{_spot(place)}  {place.text}".rstrip(), "dim"))
    yield layout.hang("Fix:", layout.prose(finding.fix))
    for line in finding.paste:
        yield layout.Command(line)
    more = f"; correlator explain {finding.entry}" if finding.entry else ""
    yield layout.indent(layout.prose(f"({finding.rule}: {finding.source}{more})", "dim"))


def _spot(place: Place) -> str:
    return f"{place.file}:{place.line}" if place.line else place.file


def to_sarif(report: Report) -> bytes:
    """One run with a result for each finding, at the lines that state the values."""
    rules: dict[str, dict[str, Any]] = {}
    results = []
    for finding in report.findings:
        rules.setdefault(
            finding.rule,
            {
                "id": finding.rule,
                "shortDescription": {"text": finding.title},
                "properties": {"class": "configuration", "signature": finding.entry, "source": finding.source},
            },
        )
        results.append(
            {
                "ruleId": finding.rule,
                "ruleIndex": list(rules).index(finding.rule),
                "level": _LEVELS[finding.severity],
                "message": {"text": f"{finding.title}. {finding.why}. Fix: {finding.fix}"},
                "locations": [location(p.file, p.line, p.text, "SRCROOT") for p in finding.places if p.line][:1],
                "relatedLocations": [
                    {"id": number, **location(p.file, p.line, p.text, "SRCROOT")}
                    for number, p in enumerate([p for p in finding.places if p.line][1:], 1)
                ],
            }
        )
    return sarif_log(list(rules.values()), results)
