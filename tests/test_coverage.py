"""Every literal of a list of what programs print is in an entry, and leads to it."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from correlator.signatures import Signature, load_signatures, nearest

LITERALS = Path(__file__).parent / "data" / "literals.tsv"


def listed() -> list[str]:
    lines = LITERALS.read_text(encoding="utf-8").splitlines()
    rows = csv.reader((line for line in lines if not line.startswith("#")), delimiter="\t", quoting=csv.QUOTE_NONE)
    return [literal for _, literal in rows]


def texts_of(entry: Signature) -> list[str]:
    lines = [sample.line for sample in entry.samples if sample.hit]
    return [entry.title, *(other.text for other in entry.literals), *entry.match.contains, *entry.match.all_of, *lines]


@pytest.fixture(scope="module")
def holders() -> dict[str, list[str]]:
    """By literal, the entries in whose texts it stands."""
    texts = {entry.id: texts_of(entry) for entry in load_signatures()}
    found = {}
    for literal in listed():
        pattern = re.compile(".*?".join(map(re.escape, literal.split("…"))))
        found[literal] = [id_ for id_, lines in texts.items() if any(map(pattern.search, lines))]
    return found


def test_every_literal_is_in_an_entry(holders: dict[str, list[str]]) -> None:
    assert len(holders) > 240
    assert not [literal for literal, entries in holders.items() if not entries]


def test_a_pasted_literal_leads_to_an_entry_that_has_it(holders: dict[str, list[str]]) -> None:
    lost = []
    for literal, entries in holders.items():
        near = {entry.id for entry in nearest(literal.replace("…", "7"), limit=8)}
        if near.isdisjoint(entries):
            lost.append((literal, entries[:3], sorted(near)))
    assert not lost


def test_other_texts_of_an_entry_lead_to_it() -> None:
    stated = [(entry, other.text) for entry in load_signatures() for other in entry.literals]
    assert len(stated) > 80
    assert not [(entry.id, text) for entry, text in stated if entry not in nearest(text.replace("…", " "), limit=5)]
