"""The diagnosis as SARIF 2.1.0: the verdict as one result at the line of the first error, for code-scanning viewers."""

from __future__ import annotations

import json
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
    run = {
        "tool": {
            "driver": {
                "name": "correlator",
                "version": version("rank-correlator"),
                "rules": [rule] if failed else [],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": [_result(document)] if failed else [],
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
        result["locations"] = [_location(first.file, first.line, first.text)]
    own = (first.file, first.line) if first else None
    related = [e for e in document.evidence if (e.file, e.line) != own and e.supports != "resume"]
    if related:
        result["relatedLocations"] = [
            {"id": number, "message": {"text": entry.why}, **_location(entry.file, entry.line, entry.text)}
            for number, entry in enumerate(related, 1)
        ]
    return result


def _location(file: str, line: int, text: str) -> dict[str, Any]:
    region = {"startLine": max(1, line), "snippet": {"text": text}}
    place = {
        "artifactLocation": {"uri": quote(file, errors="surrogateescape"), "uriBaseId": "LOGDIR"},
        "region": region,
    }
    return {"physicalLocation": place}
