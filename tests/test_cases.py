"""Real crashes, end to end: every case under fixtures/cases/ gets its right answer.

A case is ``logs/`` (and ``checkpoints/``) beside ``case.toml``: ``source``, ``title`` and ``note`` for the reader, and
``[truth]``, of which every key is asked here (``CONTRIBUTING.md`` lists them). What the truth leaves out is not asked.
"""

import itertools
import tomllib
from pathlib import Path

import pytest

import correlator
from correlator.diagnosis import to_json
from correlator.signatures import by_id

CASES = sorted((Path(__file__).parents[1] / "fixtures" / "cases").glob("*/case.toml"))
REQUIRED = {"class", "signature", "scope", "initiating_ranks"}
OPTIONAL = {
    *(
        "also_accept",
        "also_accept_signature",
        "initiating_nodes",
        "silent",
        "collateral_ranks",
        "first_error",
        "also_first",
    ),
    *("resume", "resume_iteration", "broken_iterations", "clock_offsets_s"),
}


@pytest.fixture(scope="module", params=CASES, ids=lambda p: p.parent.name)
def case(request):
    truth = tomllib.loads(request.param.read_text())["truth"]
    folder = request.param.parent
    checkpoints = folder / "checkpoints"
    answer = correlator.diagnose(folder / "logs", checkpoints=checkpoints if checkpoints.is_dir() else None)
    return truth, answer.document


def test_there_are_cases():
    assert len(CASES) >= 10


def test_a_case_says_nothing_that_is_not_asked(case):
    truth, _ = case
    assert set(truth) >= REQUIRED
    assert set(truth) <= REQUIRED | OPTIONAL
    assert {truth["signature"], *truth.get("also_accept_signature", [])} <= {*by_id(), "none"}


def test_the_class_is_right(case):
    truth, document = case
    assert document.verdict.class_ in [truth["class"], *truth.get("also_accept", [])]


def test_the_signature_is_right(case):
    truth, document = case
    assert document.verdict.signature in [truth["signature"], *truth.get("also_accept_signature", [])]


def test_the_initiator_is_right(case):
    truth, document = case
    assert document.initiator.scope == truth["scope"]
    assert document.initiator.ranks == truth["initiating_ranks"]
    if "initiating_nodes" in truth:
        assert document.initiator.nodes == truth["initiating_nodes"]


def test_who_said_nothing_is_told(case):
    truth, document = case
    if "silent" in truth:
        assert document.initiator.silent == truth["silent"]


def test_the_collateral_ranks_are_right(case):
    truth, document = case
    if "collateral_ranks" in truth:
        assert document.collateral.ranks == truth["collateral_ranks"]


def test_the_proving_line_is_shown(case):
    truth, document = case
    lines = [truth.get("first_error", ""), *truth.get("also_first", [])]
    wanted = [" ".join(words.split()) for words in lines if words]
    texts = [e.text for e in document.evidence[:3]]
    texts += [document.initiator.first_error.text] if document.initiator.first_error else []
    shown = [" ".join(text.split()) for text in texts]
    assert not wanted or any(words in text for text in shown for words in wanted)


def test_the_resume_advice_is_right(case):
    truth, document = case
    if "resume" in truth:
        assert document.resume.status == truth["resume"]
    if "resume_iteration" in truth:
        assert document.resume.iteration == truth["resume_iteration"]


def test_broken_checkpoints_are_seen(case):
    truth, document = case
    candidates = {each.iteration: each for each in document.resume.candidates}
    for iteration in truth.get("broken_iterations", []):
        assert not candidates[iteration].complete or candidates[iteration].problems


def test_clocks_that_can_be_compared_are_right_within_their_bounds(case):
    truth, document = case
    offsets = truth.get("clock_offsets_s", {})
    known = [each for each in document.clocks if each.offset_s is not None and each.node in offsets]
    for one, other in itertools.combinations(known, 2):
        wrong = (one.offset_s - other.offset_s) - (offsets[one.node] - offsets[other.node])
        assert abs(wrong) <= (one.bound_s or 0) + (other.bound_s or 0)


def test_every_claim_points_to_its_line(case):
    _, document = case
    for claim in document.evidence:
        assert claim.file and claim.line >= 1 and claim.byte_offset >= 0 and claim.text


@pytest.mark.parametrize("path", CASES[:3], ids=lambda p: p.parent.name)
def test_the_same_input_gives_the_same_bytes(path):
    first = correlator.diagnose(path.parent / "logs")
    second = correlator.diagnose(path.parent / "logs", workers=2)
    assert to_json(first.document) == to_json(second.document)
