"""`correlator schema`: the JSON Schema of the diagnosis."""

from __future__ import annotations

from correlator.cli._output import write_stdout


def run() -> int:
    """Print the JSON Schema of the diagnosis."""
    import json

    from correlator.diagnosis import json_schema

    write_stdout(json.dumps(json_schema(), indent=2) + "\n")
    return 0
