"""Colours and words that every picture shares. The role is always said in words too, for those who see no colour."""

from __future__ import annotations

import re
from typing import NamedTuple

from correlator.diagnosis import Role
from correlator.report.safe import visible


class Shade(NamedTuple):
    """Colours of a role: ``fill`` behind dark text, ``line`` for borders and marks on white, ``solid`` for cells."""

    fill: str
    line: str
    solid: str


ROLE_SHADES: dict[Role, Shade] = {
    "initiator": Shade("#fde8e8", "#b42318", "#b42318"),
    "collateral": Shade("#fff6e0", "#9a6700", "#f3c969"),
    "teardown": Shade("#f0f2f5", "#667085", "#c3c9d4"),
    "unrelated": Shade("#ffffff", "#98a2b3", "#e9ecf1"),
}
QUIET_COLOUR = "#d1f0dc"
#: A rank of which nothing was heard that would give it a role.
QUIET = "no error of its own"
NOT_COLLECTED = "log not collected"

_TAG = re.compile(r"<(?=[/!?a-zA-Z])")


def chart_text(text: str) -> str:
    r"""A text from a log as a chart may hold it.

    Charts travel inside the script element of a page, which ``</script`` in a log line would end, so a ``<`` that could
    begin a tag becomes a visible escape like any other character that steers a reader.

    >>> chart_text("a < b </script>")
    'a < b \\x3c/script>'
    """
    return _TAG.sub(r"\\x3c", visible(text))
