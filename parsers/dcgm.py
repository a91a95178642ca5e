"""DCGM's diagnostic as JSON (``dcgmi diag -j``).

Emitted by: NVIDIA/DCGM ``nvvs`` (``NvvsJsonStrings.h``; releases 2 to 4). NVIDIA promises no schema, so values are
looked for by key. Gives ``gpu.diag_failed`` (a failure that is not one of software) and ``gpu.diag_result`` (test,
status, gpu, serial; of a failure error_id, error_category, error_severity, warning), ``gpu.diag_summary`` (versions).
DCGM's own GPU numbers are those of nvidia-smi. A pass at the highest level does not exclude silent corruption.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from correlator.events import Found, Parser, Pattern
from correlator.untrusted import read_number

_ROOTS = ('"DCGM Diagnostic"', '"DCGM GPU Diagnostic"')
_LINES = 20_000
_TEST_STATES = frozenset({"Pass", "Fail", "Warn"})
#: Categories whose failures say nothing about the hardware: software, configuration, CUDA, the diagnostic itself.
_SOFTWARE = frozenset({3, 4, 6, 8, 16})
#: Rows of one report.
_ROWS = 2000


def _read_report(lines: Sequence[str]) -> list[Found]:
    start = min((at for root in _ROOTS if (at := lines[0].find(root)) >= 0), default=-1)
    if start < 0:
        return []
    # The brace that opens the document stands before the key, mostly on a line of its own.
    text = "{" + "\n".join([lines[0][start:], *lines[1:_LINES]])
    try:
        report, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return []
    last = text[:end].count("\n")
    serials = _serials(report)
    found = [Found(0, last, {**_versions(report), "severity": "info"}, event="gpu.diag_summary")]
    for test, result in _results(report):
        if len(found) >= _ROWS:
            break
        found += _events(test, result, serials, last)
    return found


def _dicts(value: Any) -> Iterator[Mapping[str, Any]]:
    """All objects in a JSON value, outer ones first."""
    pending = [value]
    while pending:
        entry = pending.pop(0)
        if isinstance(entry, dict):
            yield entry
            pending += entry.values()
        elif isinstance(entry, list):
            pending += entry


def _serials(report: Any) -> dict[int, str]:
    """Serial numbers by GPU number."""
    known: dict[int, str] = {}
    for entry in _dicts(report):
        if isinstance(entry.get("entity_id"), int) and isinstance(entry.get("serial_num"), str):
            known[entry["entity_id"]] = entry["serial_num"]
        serials = entry.get("GPU Device Serials")
        if isinstance(serials, dict):
            known |= {number: str(s) for name, s in serials.items() if (number := read_number(str(name))) is not None}
    return known


def _versions(report: Any) -> dict[str, object]:
    wanted = {
        "version": "version", "DCGM Version": "version", "Driver Version Detected": "driver_version",
        "EUD Test Version": "eud_version", "runtime_error": "runtime_error",
    }  # fmt: skip
    found: dict[str, object] = {}
    for entry in _dicts(report):
        for key, name in wanted.items():
            if isinstance(entry.get(key), str):
                found.setdefault(name, entry[key])
    return found


def _results(report: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for entry in _dicts(report):
        tests = entry.get("tests")
        for test in tests if isinstance(tests, list) else ():
            results = test.get("results") if isinstance(test, dict) else None
            for result in results if isinstance(results, list) else ():
                if isinstance(result, dict) and result.get("status") in _TEST_STATES:
                    yield str(test.get("name", "")), result


def _events(test: str, result: Mapping[str, Any], serials: Mapping[int, str], last: int) -> Iterator[Found]:
    gpus: list[int | None] = [*_gpus(result)] or [None]
    warnings = [w for w in _list(result.get("warnings")) if isinstance(w, dict)] or [{}]
    failed = result["status"] == "Fail"
    for gpu in gpus:
        for warning in warnings if failed else warnings[:1]:
            software = warning.get("error_category") in _SOFTWARE
            facts = {
                "test": test,
                "status": result["status"],
                "gpu": gpu,
                "serial": serials.get(gpu) if gpu is not None else None,
                "warning": warning.get("warning"),
                "error_id": warning.get("error_id"),
                "error_category": warning.get("error_category"),
                "error_severity": warning.get("error_severity"),
                "severity": "info" if not failed else "warning" if software else "error",
            }
            kept = {name: value for name, value in facts.items() if isinstance(value, str | int)}
            body = f"{test}: {result['status']}" + (f": {warning['warning']}" if warning.get("warning") else "")
            event = "gpu.diag_failed" if failed and not software else "gpu.diag_result"
            yield Found(0, last, kept, body=body[:400], event=event)


def _gpus(result: Mapping[str, Any]) -> list[int]:
    if result.get("entity_group", "GPU") == "GPU" and isinstance(result.get("entity_id"), int):
        return [result["entity_id"]]
    numbers = str(result.get("gpu_ids", result.get("gpu_id", ""))).replace(" ", "").split(",")
    return [number for text in numbers if (number := read_number(text)) is not None]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


PARSER = Parser(
    name="dcgm",
    patterns=(
        Pattern(
            event="gpu.diag_summary",
            literals=_ROOTS,
            block=_read_report,
            block_lines=_LINES,
            sample='  "DCGM Diagnostic" : {"test_categories" : [{"category" : "Hardware", "tests" : [{"name" : "mem", '
            '"results" : [{"entity_group" : "GPU", "entity_group_id" : 1, "entity_id" : 3, "status" : "Fail", '
            '"warnings" : [{"warning" : "GPU 3 had uncorrectable memory errors and row remapping failed.", '
            '"error_id" : 80, "error_category" : 10, "error_severity" : 6}]}]}]}]}}',
            severity="info",
            not_samples=('  "DCGM Diagnostic" : {"test_categories" : [',),
        ),
    ),
)
