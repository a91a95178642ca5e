"""The parallel grid: which ranks share a tensor, pipeline, data … group.

Source of the arithmetic: Megatron core's rank generator (first name of the order string varies fastest); before it
existed (core 0.6 and older) the groups built by strides give the same dense formula.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from correlator.records import Row
from correlator.untrusted import is_rank, read_number

DEFAULT_ORDER = "tp-cp-ep-dp-pp"
#: Names of the sizes in argument dumps, newest first.
ARGUMENT_NAMES = {
    "tp": ("tensor_model_parallel_size", "tensor_parallel_size", "model_parallel_size"),
    "pp": ("pipeline_model_parallel_size", "pipeline_parallel_size", "pipe_parallel_size"),
    "cp": ("context_parallel_size",),
    "ep": ("expert_model_parallel_size",),
    "dp": ("data_parallel_size",),
}


@dataclass(frozen=True)
class Grid:
    """Sizes of the dense dimensions (``ep`` is carried for the report; it has no axis of its own)."""

    tp: int = 1
    cp: int = 1
    dp: int = 1
    pp: int = 1
    ep: int = 1
    order: str = DEFAULT_ORDER

    @property
    def axes(self) -> tuple[str, ...]:
        """The dense axes, fastest first."""
        return tuple(a for a in self.order.split("-") if a != "ep")

    @property
    def world_size(self) -> int:
        """Ranks in the grid."""
        return prod(self.size(a) for a in self.axes)

    def size(self, axis: str) -> int:
        """Size along one axis."""
        return int(getattr(self, axis))

    def coordinates(self, rank: int) -> dict[str, int]:
        """Coordinates of a global rank, by axis.

        >>> Grid(tp=2, dp=2, pp=2).coordinates(6)
        {'tp': 0, 'cp': 0, 'dp': 1, 'pp': 1}
        """
        found: dict[str, int] = {}
        for axis in self.axes:
            rank, found[axis] = divmod(rank, self.size(axis))
        return found

    def rank(self, coordinates: dict[str, int]) -> int:
        """The global rank at some coordinates: the inverse of ``coordinates``."""
        rank, stride = 0, 1
        for axis in self.axes:
            rank += coordinates[axis] * stride
            stride *= self.size(axis)
        return rank

    def group(self, rank: int, axes: Sequence[str]) -> tuple[int, ...]:
        """The ranks that share every coordinate with ``rank`` but those of ``axes``, in order.

        >>> Grid(tp=2, dp=2, pp=2).group(6, ["pp"])
        (2, 6)
        """
        own = self.coordinates(rank)
        members: list[dict[str, int]] = [{}]
        for axis in self.axes:
            values = range(self.size(axis)) if axis in axes else (own[axis],)
            members = [{**m, axis: v} for m in members for v in values]
        return tuple(sorted(self.rank(m) for m in members))

    @classmethod
    def from_rows(cls, rows: Sequence[Row], world_size: int | None) -> Grid | None:
        """The grid that the job's own start-up lines state, or None."""
        sizes: dict[str, int] = {}
        order = DEFAULT_ORDER
        for row in rows:
            if row.event == "megatron.parallel_sizes":
                stated = {a: row.attr(a) for a in ("tp", "pp", "cp", "dp")}
            elif row.event in ("megatron.arguments", "config.dump"):
                stated = {
                    axis: next((row.attr(n) for n in names if row.attr(n).isdecimal()), "")
                    for axis, names in ARGUMENT_NAMES.items()
                }
                if row.attr("use_tp_pp_dp_mapping") == "True":
                    order = "tp-cp-ep-pp-dp"
            else:
                continue
            for axis, value in stated.items():
                size = read_number(value)
                if size and is_rank(size - 1):
                    sizes.setdefault(axis, size)
        if not sizes or ("tp" not in sizes and "pp" not in sizes):
            return None
        model = sizes.get("tp", 1) * sizes.get("pp", 1) * sizes.get("cp", 1)
        if world_size and world_size % model == 0:
            sizes["dp"] = world_size // model
        elif world_size:
            return None
        if not is_rank(model * sizes.get("dp", 1) - 1):
            return None
        return cls(order=order, **sizes)
