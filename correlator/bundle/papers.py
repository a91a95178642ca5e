"""The small files of a bag: the readme, the statement over its files, and how JSON is written in it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from correlator.bundle.model import Case


def json_bytes(value: Any) -> bytes:
    """JSON for people and programs: indented by one, with a line break at its end."""
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


def digest_of(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def statement_of(payload: dict[str, bytes], case: Case) -> bytes:
    """An in-toto statement (version 1, unsigned) over the case, the excerpts and the diagnosis."""
    subjects: Sequence[str] = ("case.json", "diagnosis.json", "excerpts.jsonl", "timeline.csv")
    return json_bytes(
        {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"name": name, "digest": {"sha256": digest_of(payload[name])}} for name in subjects],
            "predicateType": "https://in-toto.io/attestation/test-result/v0.1",
            "predicate": {
                "result": "FAILED" if case.decision.status == "meets-criteria" else "WARNED",
                "configuration": [],
                "failedTests": [test.title for test in case.tests if test.status == "fault"],
                "passedTests": [test.title for test in case.tests if test.status == "passed"],
            },
        }
    )


def readme_of(case: Case) -> str:
    """``README.md``: what is in the bag."""
    return (
        f"{case.case_id}\n\n{case.decision.headline}\n\n"
        "report.html     for people; prints to a clean PDF\n"
        "case.json       the same for programs: decision, identity, tests, what was ruled out\n"
        "diagnosis.json  what failed first in the job and why\n"
        "timeline.csv    all about the part and its node in one time (also .parquet); cascade.svg is its picture\n"
        "excerpts/       lines that carry the case; excerpts.jsonl has file, lines, byte offset and digests\n"
        "attachments/    raw diagnostic files\n\n"
        "Beside data/: custody.jsonl (who did what when), manifests (BagIt, RFC 8493, SHA-256).\n"
        "`correlator bundle verify` or any BagIt validator checks it.\n"
    )
