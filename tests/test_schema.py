"""The JSON of a diagnosis keeps to the schema that `correlator schema` prints, and the schema is strict enough to matter."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jsonschema
import msgspec
import pytest
from documents import hardware_document, none_document, unknown_document

from correlator.cli import main
from correlator.diagnosis import SCHEMA_ID, Document, to_json

#: Keys that the contract says are always present, by object.
CONTRACT = {
    "": "schema job verdict initiator cascade collateral evidence alternatives ruled_out resume actions verify clocks inputs",
    "job": "world_size nodes ranks_seen framework versions topology started ended last_step job_id",
    "verdict": "class subclass signature title summary confidence",
    "initiator": "ranks nodes gpus scope silent time time_uncertainty_s step first_error",
    "collateral": "ranks count",
    "resume": "status iteration path reasons candidates",
    "verify": "what command",
    "inputs": "files_read files_skipped bytes lines events",
}


@pytest.fixture
def schema(capfdbinary: pytest.CaptureFixture[bytes]) -> dict[str, Any]:
    assert main(["schema"]) == 0
    printed: dict[str, Any] = json.loads(capfdbinary.readouterr().out)
    return printed


def test_the_schema_is_a_schema(schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$id"] == SCHEMA_ID


@pytest.mark.parametrize("make", [hardware_document, unknown_document, none_document])
def test_a_diagnosis_keeps_to_it(schema: dict[str, Any], make: Callable[[], Document]) -> None:
    printed = json.loads(to_json(make()))
    jsonschema.validate(printed, schema)
    assert msgspec.convert(printed, Document) == make()
    for place, keys in CONTRACT.items():
        assert set(keys.split()) <= set(printed[place] if place else printed)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("verdict", "class"), "gremlins"),
        (("verdict", "confidence"), "high"),
        (("initiator", "ranks"), ["21"]),
        (("initiator", "scope"), None),
        (("resume", "status"), "perhaps"),
        (("actions", 0, "risk"), "harmless"),
        (("job",), None),
    ],
)
def test_what_is_wrong_is_refused(schema: dict[str, Any], place: tuple[str | int, ...], value: object) -> None:
    printed = json.loads(to_json(hardware_document()))
    inner = printed
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(printed, schema)


def test_times_are_utc() -> None:
    assert json.loads(to_json(hardware_document()))["initiator"]["time"] == "2024-05-07T17:28:17.120000Z"
