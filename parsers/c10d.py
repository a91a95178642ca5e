"""torch's distributed runtime: NCCL process groups, the store, barriers.

Emitted by: torch ``csrc/distributed/c10d`` and ``distributed/distributed_c10d.py``, 1.13 to 2.14. Three modules hold
the patterns: ``_c10d_nccl``, ``_c10d_reports``, ``_c10d_store``; each says what its columns mean.
Gives: c10d.*. Most of these lines are printed by ranks that waited for somebody else.
"""

from __future__ import annotations

from correlator.events import Parser
from parsers._c10d_nccl import NCCL_PATTERNS
from parsers._c10d_reports import REPORT_PATTERNS
from parsers._c10d_store import STORE_PATTERNS

PARSER = Parser("c10d", (*NCCL_PATTERNS, *REPORT_PATTERNS, *STORE_PATTERNS))
