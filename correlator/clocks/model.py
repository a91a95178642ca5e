"""What is known of the nodes' clocks."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class NodeClock:
    """Offset against the reference node in ns; ``bound_ns`` None: nothing ties this clock to the reference."""

    node: str
    offset_ns: int | None
    bound_ns: int | None
    basis: str


@dataclass
class Clocks:
    """The clocks of all nodes."""

    reference: str | None = None
    nodes: dict[str, NodeClock] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def corrected(self, node: str | None, time_ns: int | None) -> int | None:
        """A time of this node on the reference clock; unchanged where the offset is unknown."""
        clock = self.nodes.get(node) if node else None
        if time_ns is None or clock is None or clock.offset_ns is None:
            return time_ns
        return time_ns - clock.offset_ns

    def bound(self, node: str | None) -> int | None:
        """Half width of what is left open for this node's times, in ns; None: unbounded."""
        if node is None or not self.nodes:
            return 0 if len(self.nodes) <= 1 else None
        clock = self.nodes.get(node)
        return clock.bound_ns if clock else None
