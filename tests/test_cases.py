"""Real crashes, end to end: every case under fixtures/cases/ gets its right answer.

A case is ``logs/`` (and ``checkpoints/``) beside ``case.toml`` with the truth. What the truth leaves open is not asked.
"""

import tomllib
from pathlib import Path

import pytest

import correlator
from correlator.diagnosis import to_json
from correlator.signatures import by_id

CASES = sorted((Path(__file__).parents[1] / "fixtures" / "cases").glob("*/case.toml"))


@pytest.fixture(scope="module", params=CASES, ids=lambda p: p.parent.name)
def case(request):
    truth = tomllib.loads(request.param.read_text())["truth"]
    folder = request.param.parent
    checkpoints = folder / "checkpoints"
    answer = correlator.diagnose(folder / "logs", checkpoints=checkpoints if checkpoints.is_dir() else None)
    return truth, answer.document


def test_there_are_cases():
    assert len(CASES) >= 10


def test_the_class_is_right(case):
    truth, document = case
    assert document.verdict.class_ in [truth["class"], *truth.get("also_accept", [])]


def test_the_failure_has_an_entry(case):
    _, document = case
    assert document.verdict.signature in {*by_id(), "none", "unknown"}


def test_the_initiating_ranks_are_right_or_none_is_accused(case):
    truth, document = case
    ranks = truth.get("initiating_ranks", [])
    if truth["class"] == "none" or not ranks:
        assert len(document.initiator.ranks) != 1 or document.verdict.confidence < 0.5
    elif document.initiator.scope != "all":
        assert document.initiator.ranks == ranks
    else:
        assert "all" in truth["scope"]


def test_the_initiating_node_is_right(case):
    truth, document = case
    if truth.get("initiating_nodes"):
        assert document.initiator.nodes == truth["initiating_nodes"]


def test_the_proving_line_is_shown(case):
    truth, document = case
    wanted = [w for w in [truth.get("first_error", ""), *truth.get("also_first", [])] if w]
    if not truth.get("first_error"):
        return
    texts = [e.text for e in document.evidence[:3]]
    texts += [document.initiator.first_error.text] if document.initiator.first_error else []
    assert any(w in " ".join(t.split()) for t in texts for w in wanted)


def test_the_resume_advice_is_right(case):
    truth, document = case
    status = truth.get("resume", "unknown").replace(" ", "-")
    if status in ("safe", "unsafe", "no-checkpoint"):
        assert document.resume.status == status
    if status == "safe" and truth.get("resume_iteration") is not None:
        assert document.resume.iteration == truth["resume_iteration"]


def test_every_claim_points_to_its_line(case):
    _, document = case
    for claim in document.evidence:
        assert claim.file and claim.line >= 1 and claim.byte_offset >= 0 and claim.text


@pytest.mark.parametrize("path", CASES[:3], ids=lambda p: p.parent.name)
def test_the_same_input_gives_the_same_bytes(path):
    first = correlator.diagnose(path.parent / "logs")
    second = correlator.diagnose(path.parent / "logs", workers=2)
    assert to_json(first.document) == to_json(second.document)
