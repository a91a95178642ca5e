"""The clocks of an HTML report as plain numbers, which the template places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from correlator.diagnosis import Clock
from correlator.report.ticks import time_ticks


@dataclass(frozen=True)
class ClockBar:
    """One node's clock in seconds ahead of the reference; ``offset`` None: tied to no other."""

    node: str
    offset: float | None
    least: float
    most: float
    said: str


@dataclass(frozen=True)
class ClockPicture:
    """All clocks and the span of the axis in seconds."""

    first: float
    last: float
    bars: tuple[ClockBar, ...]
    ticks: tuple[tuple[float, str], ...]


def clocks_of(clocks: Sequence[Clock]) -> ClockPicture | None:
    """The clocks; None with one node only."""
    if len(clocks) < 2:
        return None
    bars = tuple(_clock_bar(clock) for clock in clocks)
    known = [bar for bar in bars if bar.offset is not None]
    first, last = min((bar.least for bar in known), default=0.0), max((bar.most for bar in known), default=0.0)
    margin = max(0.01, (last - first) / 20)
    first, last = first - margin, last + margin
    return ClockPicture(first, last, bars, tuple(time_ticks(first, last)))


def _clock_bar(clock: Clock) -> ClockBar:
    if clock.offset_s is None or clock.bound_s is None:
        return ClockBar(clock.node, None, 0.0, 0.0, "tied to no other clock")
    known = "the reference" if clock.basis == "reference" else f"{clock.offset_s:+.3f} s ± {clock.bound_s:.3f} s"
    least, most = round(clock.offset_s - clock.bound_s, 3), round(clock.offset_s + clock.bound_s, 3)
    return ClockBar(clock.node, clock.offset_s, least, most, known)
