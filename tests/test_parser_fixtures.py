"""Every parser on its fixtures: ``fixtures/parsers/<parser>--<case>.log`` and the rows it must give.

``.expected.jsonl`` beside a log holds the rows of that parser, one a line: what was captured and who it is about, not
the time or the writer. ``CORRELATOR_REWRITE=1 python -m pytest tests/test_parser_fixtures.py`` writes them anew; read
the result as a diff.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from correlator.events import SCHEMA, Parser
from correlator.ingest import ingest
from correlator.plugins import load_parsers

FIXTURES = Path(__file__).parents[1] / "fixtures" / "parsers"
REWRITE = "CORRELATOR_REWRITE"
LOGS = sorted(FIXTURES.glob("*.log"))
PARSERS = {parser.name: parser for parser in load_parsers()}

#: Columns that depend on the machine, on file times or on how the text was cut, or that say nothing about the line.
UNSTABLE = {
    "timestamp", "timestamp_basis", "timestamp_resolution_ns", "time", "time_bound_ns", "last_timestamp", "writer",
    "signature", "file", "byte_offset", "byte_length", "body", "node_basis", "rank_basis",
}  # fmt: skip
STABLE = [name for name in SCHEMA.names if name not in UNSTABLE]


def parser_of(log: Path) -> Parser:
    name, separator, _ = log.stem.partition("--")
    assert separator, f"{log.name} is not named <parser>--<case>.log"
    assert name in PARSERS, f"{log.name}: there is no parser {name}"
    return PARSERS[name]


def rows_of(log: Path, parser: Parser | None) -> list[dict[str, Any]]:
    """Rows of one parser, or of all; without those that general words at a file's end give."""
    table = ingest(log, patterns=None if parser is None else parser.patterns).events.select(STABLE)
    rows = []
    for row in table.to_pylist():
        if not row["event"].startswith("log."):
            row["attributes"] = dict(row["attributes"])
            rows.append({name: value for name, value in row.items() if value is not None and value != {}})
    return rows


def expected_rows(log: Path) -> list[dict[str, Any]]:
    path = log.with_suffix(".expected.jsonl")
    assert path.exists(), f"{path.name} is missing: write it with {REWRITE}=1 and read it"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("log", LOGS, ids=[log.stem for log in LOGS])
def test_a_fixture_gives_its_rows(log: Path) -> None:
    found = rows_of(log, parser_of(log))
    if os.environ.get(REWRITE):
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in found)
        log.with_suffix(".expected.jsonl").write_text(text, encoding="utf-8")
    expected = expected_rows(log)
    assert expected, "a fixture without rows tests nothing"
    assert found == expected


@pytest.mark.parametrize("log", LOGS, ids=[log.stem for log in LOGS])
def test_no_other_parser_takes_its_rows_away(log: Path) -> None:
    alone = rows_of(log, parser_of(log))
    sparse = {pattern.event for parser in PARSERS.values() for pattern in parser.patterns if pattern.sparse}
    together = Counter((row["event"], row["line"]) for row in rows_of(log, None))
    assert not Counter((r["event"], r["line"]) for r in alone if r["event"] not in sparse) - together


def test_every_parser_has_a_fixture() -> None:
    assert {log.stem.partition("--")[0] for log in LOGS} == set(PARSERS)
