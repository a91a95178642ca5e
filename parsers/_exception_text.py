"""The final lines of a Python traceback: which lines are one, and where its message ends."""

from __future__ import annotations

import builtins
import re
from dataclasses import dataclass

_FINAL = re.compile(r"^\s*(?P<type>[A-Za-z_][\w.<>]*(?:\([\w., ]*\))?)(?P<colon>:)?(?: (?P<message>.*))?$")
_BUILTIN = frozenset(
    name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, BaseException)
)
#: How the names of exception classes end when they are not called Error.
_CLASS_NAME = re.compile(
    r"(?:Error|Exception|Interrupt|Exit|Failure|Failed|Timeout|Expired|Iteration|NotFound|Unavailable|Exceeded|"
    r"OutOfMemory|Crashed|Died|Aborted|Cancelled|Terminated|Unhealthy|Fault|Group|Warning)$"
)
_DOTTED_CLASS = re.compile(r"(?:Empty|Full|error|timeout|gaierror|herror|Again|Break|Stop|[A-Z]\w+)$")
#: Capitalised words that begin ordinary log lines.
_LOG_WORDS = frozenset(
    "Info INFO Warning WARNING WARN Error ERROR Debug DEBUG Critical CRITICAL Fatal FATAL Epoch Step Loss Iteration "  # noqa: SIM905
    "Rank Note Hint Time Total Progress Training Validation Test Exception File Using Loading Saving Starting".split()
)
#: First words of lines that libraries print as further lines of an exception's message.
_CONTINUATION = re.compile(
    r"^(?:CUDA kernel errors might be|HIP kernel errors might be|For debugging consider passing|Compile with "
    r"`TORCH_USE|"
    r"Search for `|Device-side assertion tracking|nccl[A-Z]\w+: |Last error:|Exception raised from |frame #\d+: |"
    r"<omitting python frames>|Parameters? (?:indices )?which did not receive grad|In addition, you can set|"
    r"Collectives differ in|\s?Original exception:|This error indicates that|This may (?:indicate|mean) a |"
    r"Process \d+ has |Including non-PyTorch memory|Of the allocated memory|"
    r"(?:Missing|Unexpected) key\(s\) in state_dict)"
)


@dataclass(frozen=True, slots=True)
class Final:
    """A line that can end a traceback. ``certain``: it looks like one wherever it stands."""

    type: str
    message: str
    certain: bool


def read_final(text: str) -> Final | None:
    """The exception named by a line such as ``ValueError: bad shard`` or ``KeyboardInterrupt``; None for others."""
    match = _FINAL.match(text)
    if not match or (match["message"] and not match["colon"]):
        return None
    name = match["type"]
    last = name.split("(", 1)[0].rsplit(".", 1)[-1]
    if last in _LOG_WORDS and "." not in name and last not in _BUILTIN - {"Warning"}:
        return None
    dotted = "." in name and bool(_DOTTED_CLASS.match(last) or _CLASS_NAME.search(last))
    certain = last in _BUILTIN or dotted or (bool(_CLASS_NAME.search(last)) and last[:1].isupper() and len(last) > 8)
    if not certain and not re.match(r"_?[A-Z]\w*[a-z]\w*$", last):
        return None
    return Final(name, (match["message"] or "").rstrip(), certain)


def is_continuation(text: str) -> bool:
    """Whether a line is, by its own words, a further line of some exception's message."""
    return bool(_CONTINUATION.match(text))


def wants_next_line(message: str) -> bool:
    """Whether a message breaks off in a way that its next line must belong to it."""
    return message.endswith((":", "(", "[", "{", ",")) or message.count("(") > message.count(")") + 1
