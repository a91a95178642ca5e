"""The diagnosis as SARIF 2.1.0: the verdict as one result at the line of the first error, for code-scanning viewers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any
from urllib.parse import quote

from correlator.diagnosis import Document
from correlator.report import sayings


def to_sarif(document: Document) -> bytes:
    """One run with one result; without a failure a run without results."""
    verdict = document.verdict
    rule = {
        "id": verdict.signature,
        "shortDescription": {"text": verdict.title or verdict.signature},
        "properties": {"class": verdict.class_, "area": verdict.subclass},
    }
    failed = verdict.class_ != "none"
    return sarif_log([rule] if failed else [], [_result(document)] if failed else [])


def sarif_log(rules: Sequence[Mapping[str, Any]], results: Sequence[Mapping[str, Any]]) -> bytes:
    """A log of one run of this tool."""
    run = {
        "tool": {"driver": {"name": "correlator", "version": version("rank-correlator"), "rules": rules}},
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=1).encode() + b"\n"


def _result(document: Document) -> dict[str, Any]:
    first = document.initiator.first_error
    result: dict[str, Any] = {
        "ruleId": document.verdict.signature,
        "ruleIndex": 0,
        "level": "warning" if document.verdict.class_ == "unknown" else "error",
        "rank": round(100 * document.verdict.confidence, 1),
        "message": {
            "text": f"{sayings.headline(document)}. {sayings.place_line(document)}. {document.verdict.summary}"
        },
    }
    if first:
        result["locations"] = [location(first.file, first.line, first.text)]
    own = (first.file, first.line) if first else None
    related = [e for e in document.evidence if (e.file, e.line) != own and e.supports != "resume"]
    if related:
        result["relatedLocations"] = [
            {"id": number, "message": {"text": entry.why}, **location(entry.file, entry.line, entry.text)}
            for number, entry in enumerate(related, 1)
        ]
    return result


def location(file: str, line: int, text: str, base: str = "LOGDIR") -> dict[str, Any]:
    """A line of a file; ``base`` names the folder that the file's name is relative to."""
    region = {"startLine": max(1, line), "snippet": {"text": text}}
    place = {
        "artifactLocation": {"uri": quote(file, errors="surrogateescape"), "uriBaseId": base},
        "region": region,
    }
    return {"physicalLocation": place}
