"""NVIDIA's field diagnostic: result, error codes, and the GPU that was tested.

Emitted by: fieldiag and partnerdiag (docs.nvidia.com/deploy/hw-field-diag: progress lines ``Running test X on GPU n``;
``PASS``, ``FAIL`` or ``RETEST`` at the end), MODS error codes whose last three digits carry the reason. Gives
``gpu.field_diag`` (result, code, reason, returnable, gpu, serial, pci_bus_id). Which reasons a return is granted for
comes from public lists of operators, not from the vendor.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from correlator.events import Found, Parser, Pattern
from parsers._pci import ADDRESS, normalise_pci

#: Last three digits of a code.
_RETURNED = frozenset({83, 97, 140, 194, 363, 688, *range(316, 322), *range(720, 800)})
_NOT_RETURNED = frozenset({2, 8, 21, 77, 144})
_CODE = re.compile(r"\bMODS-(?P<code>\d{12})\b|\b[Ee]rror [Cc]ode\s*[:=]\s*(?P<plain>\d{9,12})\b")
_GPU = re.compile(r"\bon GPU (?P<gpu>\d{1,3})\b|\bGPU\s?(?P<alone>\d{1,3})\b")
_BUS = re.compile(rf"(?P<bus>{ADDRESS})")
_SERIAL = re.compile(r"(?i)\bserial(?: number)?\s*[:=]\s*(?P<serial>[0-9A-Z]{6,20})\b")
_RESULT = re.compile(r"^\W*(?:(?:Final|Overall|Test)\s+[Rr]esult\s*[:=]?\s*)?(?P<result>PASS|FAIL|RETEST)(?:ED)?\W*$")
_LINES = 4000


def _read_run(lines: Sequence[str]) -> list[Found]:
    """One run from its first progress line or code to its result; without a result, what its code says."""
    fields: dict[str, object] = {}
    last = end = 0
    for index, line in enumerate(lines):
        if match := _CODE.search(line):
            code = match["code"] or match["plain"]
            if int(code):
                fields.setdefault("code", code)
            last = index
        if match := _GPU.search(line):
            fields.setdefault("gpu", match["gpu"] or match["alone"])
        if (match := _BUS.search(line)) and (address := normalise_pci(match["bus"])) and line.count(":") >= 2:
            fields.setdefault("pci_bus_id", address)
        if match := _SERIAL.search(line):
            fields.setdefault("serial", match["serial"])
        if match := _RESULT.match(line):
            fields["result"] = match["result"]
            last = end = index
            break
    if "result" not in fields and "code" not in fields:
        return []
    fields.setdefault("result", "FAIL")
    body = f"field diagnostic: {fields['result']}"
    if code := fields.get("code"):
        reason = int(str(code)[-3:])
        fields["reason"] = f"{reason:03}"
        known = {True: "true", False: "false"}
        returnable = True if reason in _RETURNED else False if reason in _NOT_RETURNED else None
        fields["returnable"] = "unknown" if returnable is None else known[returnable]
        body += f", code {code}"
    fields["severity"] = (
        "error" if fields["result"] == "FAIL" else "warning" if fields["result"] == "RETEST" else "info"
    )
    return [Found(0, max(last, end), fields, body=body)]


PARSER = Parser(
    name="field_diagnostic",
    patterns=(
        Pattern(
            event="gpu.field_diag",
            literals=("Running test ", "MODS-0", "MODS-1", "Error Code = 0", "Error Code: 0"),
            block=_read_run,
            block_lines=_LINES,
            sample="Running test 208 on GPU 3 - 118 tests remaining   |===================   | 64 %\n"
            "Error: MODS-000000083363\nFAIL",
            not_samples=("Running test suite for the tokenizer",),
        ),
    ),
)
