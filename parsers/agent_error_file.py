"""The error file that torchelastic lets a failing rank write (``error.json``): one JSON object on one line.

Emitted by: torch ``distributed/elastic/multiprocessing/errors/{__init__,error_handler}.py``, 1.9 to 2.14, for entry
points under ``@record`` or with ``TORCHELASTIC_ERROR_FILE`` set.
Gives: python.error_json, stamped with the time that the file states (whole seconds since the epoch, by the node's own
clock). Other parsers refuse this line, although it quotes the texts they look for.
"""

from __future__ import annotations

from collections.abc import Sequence

from correlator.events import BODY_LIMIT, Found, Parser, Pattern
from correlator.untrusted import read_json, read_number
from parsers._exceptions import MESSAGE_LIMIT, exception_fields
from parsers._tracebacks import read_stacks


def _parse_error_file(lines: Sequence[str]) -> list[Found]:
    content = read_json(lines[0])
    message = content.get("message") if isinstance(content, dict) else None
    extra = message.get("extraInfo", {}) if isinstance(message, dict) else {}
    text = message.get("message", "") if isinstance(message, dict) else message
    if not isinstance(text, str) or not isinstance(extra, dict):
        return []
    kind, _, rest = text.partition(": ")
    fields: dict[str, object] = {"type": kind, "message": rest[:MESSAGE_LIMIT]} if rest else {"message": text}
    chains = read_stacks(str(extra.get("py_callstack", "")).splitlines())
    if chains:
        fields |= exception_fields(chains[0])
    stamp = extra.get("timestamp", content.get("timestamp"))
    seconds = read_number(str(stamp))
    if seconds is not None:
        fields |= {"timestamp": seconds * 1_000_000_000, "timestamp_resolution_ns": 1_000_000_000}
    return [Found(0, 0, fields, body=text[:BODY_LIMIT])]


ERROR_FILE = Pattern(
    event="python.error_json",
    literals=('"py_callstack":', '"extraInfo":', '"errorCode":'),
    block=_parse_error_file,
    block_lines=0,
    sample='{"message": {"message": "ValueError: bad shard", "extraInfo": {"py_callstack": "Traceback (most recent '
    "call "
    'last):\\n  File \\"/opt/job/train.py\\", line 88, in main\\n    load(shard)\\nValueError: bad shard\\n", '
    '"timestamp": "1714549218"}}}',
    not_samples=('{"level": "info", "extraInfo": 3}', 'payload {"extraInfo": {"py_callstack": "Traceback (most recent'),
)

PARSER = Parser("agent_error_file", (ERROR_FILE,))
