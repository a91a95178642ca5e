"""One share of a run: ``I/N`` of ``--shard``, for machines that read the same folder side by side."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

from correlator.errors import UsageError


@dataclass(frozen=True, slots=True)
class Shard:
    """The ``index``-th (from 0) of ``count`` shares.

    A file's name alone decides whose it is, so that files which grow or appear between the starts of two shards are
    neither lost nor read twice.
    """

    index: int
    count: int

    def owns(self, name: str) -> bool:
        """True when the file is this shard's."""
        return zlib.crc32(name.encode()) % self.count == self.index

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


def parse_shard(text: str) -> Shard:
    """The shard that ``I/N`` names, I from 0 to N-1. Raises UsageError for anything else."""
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text.strip())
    if match is None or not int(match[1]) < int(match[2]):
        raise UsageError(f"--shard {text}: expected I/N with I from 0 to N-1, such as 0/8")
    return Shard(int(match[1]), int(match[2]))
