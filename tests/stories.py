"""Hand-made stories: who did what when, and who was there."""

from __future__ import annotations

from datetime import timedelta

from documents import ZERO

from correlator.diagnosis import Role
from correlator.plots.moments import Moment, Seat, Story


def told(
    rank: int | None, after_s: float, role: Role = "collateral", event: str = "c10d.watchdog_timeout", *,
    bound_s: float | None = 0.5, not_before: bool = False, waited_s: float | None = None, what: str = "timed out",
) -> Moment:  # fmt: skip
    time = ZERO + timedelta(seconds=after_s)
    node = "gpu-a00" if rank is None else f"gpu-a{rank // 8:02}"
    return Moment(role, event, what, rank, node, time, bound_s, not_before, waited_s, "a.log", 7, what)


def story(*moments: Moment, ranks: int = 64, missing: tuple[int, ...] = ()) -> Story:
    seats = tuple(Seat(rank, f"gpu-a{rank // 8:02}", rank % 8, rank not in missing, ZERO) for rank in range(ranks))
    return Story(moments, seats, ZERO)


def spread(ranks: int, guilty: int) -> list[Moment]:
    first = told(guilty, 0, "initiator", "python.exception", what="ValueError")
    return [first, *(told(rank, 600 + rank / 100) for rank in range(ranks) if rank != guilty)]
