"""Lines that speak of an error in words no pattern knows: used near the end of a file only."""

from __future__ import annotations

import re

from correlator.events import Severity

#: Lower-case words for the byte scan; whether a line means it is for ``error_severity`` to say.
WORDS = (
    b"error", b"exception", b"fatal", b"failed", b"failure", b"abort", b"killed", b"cannot", b"denied", b"not found",
    b"out of memory", b"err!", b"traceback", b"refused", b"timed out", b"panic", b"segmentation fault", b"core dumped",
)  # fmt: skip

_SEVERE = re.compile(r"\b(?:fatal|abort(?:ed|ing)?|killed|panic|segmentation fault|core dumped)\b", re.I)
_ERRONEOUS = re.compile(
    r"(?<![\w/.-])(?:\w*Error|\w*Exception|errors?|exception|failed|failure|traceback|refused|timed out|cannot|denied"
    r"|out of memory|not found)(?![\w/-])|ERR!|(?<![\w/.-])(?:[A-Za-z_]\w*\.)+[A-Z]\w*(?:Error|Exception)(?=:|\(|$)",
    re.I,
)
# The same words where they report none, or name a setting, a file or a metric.
_HARMLESS = re.compile(
    r"error_file|\b(?:0|no|zero|without) (?:errors?|failures?|failed)\b"
    r"|\berrors?[\"']?\s*[:=|]\s*(?:[\"']?(?:none|null|false|<n/a>|-?[\d.]+|\[\])|$)"
    r"|error[ _](?:rate|margin|bars?)\b|\.{6,}|mean (?:squared|absolute) error|\b\w*error\w*\s*=|%\|",
    re.I,
)


def error_severity(text: str) -> Severity | None:
    """How bad a line sounds by its words alone; None when it does not speak of an error.

    >>> error_severity("worker aborted"), error_severity("val_error=0.21"), error_severity("mount failed")
    ('fatal', None, 'error')
    """
    if _HARMLESS.search(text):
        return None
    if _SEVERE.search(text):
        return "fatal"
    return "error" if _ERRONEOUS.search(text) else None
