"""One time for all nodes, with an honest bound.

Each node's clock is an unknown offset. Anchors (``anchors``) bound the difference of two offsets; the offsets are a
solution of the difference constraints (``solve``), and the bound is what the constraints leave open.
"""

from correlator.clocks.align import align_clocks
from correlator.clocks.model import Clocks, NodeClock

__all__ = ["Clocks", "NodeClock", "align_clocks"]
