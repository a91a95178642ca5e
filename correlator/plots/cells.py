"""The ranks of a job as a field of cells: by their place in the parallel grid, else by node and place on the node.

Of a job with more ranks than anybody could look at one by one, ranks with consecutive numbers share a cell.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from correlator.diagnosis import Document, Role
from correlator.grid import DEFAULT_ORDER, Grid
from correlator.plots.moments import Seat, Story
from correlator.plots.style import NOT_COLLECTED, QUIET
from correlator.report.timeline import ROLE_ORDER, ROLE_WORDS
from correlator.report.words import ranks_words

#: More cells than this are folded; so many stand side by side then, and so many ranks (a node's, mostly) share one.
CELLS = 4096
_FOLDED_COLUMNS, _LEAST_SHARE = 64, 8


@dataclass(frozen=True)
class Cell:
    """One rank, or several with the worst role of theirs.

    ``block``, ``row`` and ``column`` are its place (from 0); ``place`` says the same in words.
    """

    ranks: tuple[int, ...]
    block: int
    row: int
    column: int
    place: str
    node: str | None
    role: Role | None
    state: str


@dataclass(frozen=True)
class Field:
    """All cells. What a block, a row and a column stand for is said in ``blocks``, ``rows`` and ``columns``.

    ``share``: how many ranks a cell stands for.
    """

    cells: tuple[Cell, ...]
    blocks: str
    rows: str
    columns: str
    row_names: tuple[str, ...]
    share: int = 1


def roles_of(document: Document) -> dict[int, Role]:
    """The role of every rank that has one: as the verdict says it, else by what the rank took part in."""
    found: dict[int, Role] = dict.fromkeys(document.initiator.ranks, "initiator")
    for rank in document.collateral.ranks:
        found.setdefault(rank, "collateral")
    for entry in sorted(document.cascade, key=lambda entry: ROLE_ORDER[entry.role]):
        for rank in entry.ranks:
            # Who failed first is settled above: an entry may speak of a rank that was only near.
            found.setdefault(rank, "collateral" if entry.role == "initiator" else entry.role)
    return found


def field_of(document: Document, story: Story) -> Field:
    """The field of a job; empty where no rank is known."""
    seats = {seat.rank: seat for seat in story.seats}
    roles = roles_of(document)
    grid = _grid(document)
    if (last := max([*seats, *roles, (grid.world_size if grid else 0) - 1], default=-1)) >= CELLS:
        return _folded(last + 1, seats, roles)
    if grid is not None:
        ranks = range(grid.world_size)
        return Field(
            tuple(_in_grid(grid, rank, seats, roles) for rank in ranks),
            "pipeline stage (pp)", "data parallel (dp)" + (", context (cp)" if grid.cp > 1 else ""),
            "tensor parallel (tp)", tuple(str(row) for row in range(grid.dp * grid.cp)),
        )  # fmt: skip
    return _by_node(seats, roles)


def _grid(document: Document) -> Grid | None:
    sizes = document.job.topology
    if sizes is None:
        return None
    grid = Grid(sizes.tp or 1, sizes.cp or 1, sizes.dp or 1, sizes.pp or 1, sizes.ep or 1, sizes.order or DEFAULT_ORDER)
    return grid if document.job.world_size in (None, grid.world_size) else None


def _in_grid(grid: Grid, rank: int, seats: dict[int, Seat], roles: dict[int, Role]) -> Cell:
    at = grid.coordinates(rank)
    place = ", ".join(f"{axis} {at[axis]}" for axis in ("tp", "pp", "dp", "cp") if axis != "cp" or grid.cp > 1)
    row = at["dp"] * grid.cp + at["cp"]
    return _cell(rank, at["pp"], row, at["tp"], place, seats, roles)


def _by_node(seats: dict[int, Seat], roles: dict[int, Role]) -> Field:
    nodes: dict[str, list[int]] = defaultdict(list)
    for rank in sorted({*seats, *roles}):
        nodes[seats[rank].node or "" if rank in seats else ""].append(rank)
    names = sorted(nodes, key=lambda node: (not node, nodes[node][0]))
    cells = [
        _cell(rank, 0, row, column, f"number {column} on its node" if node else "node unknown", seats, roles)
        for row, node in enumerate(names)
        for column, rank in enumerate(nodes[node])
    ]
    return Field(tuple(cells), "", "node", "rank on the node", tuple(node or "node unknown" for node in names))


def _cell(
    rank: int, block: int, row: int, column: int, place: str, seats: dict[int, Seat], roles: dict[int, Role]
) -> Cell:
    seat, role = seats.get(rank), roles.get(rank)
    return Cell((rank,), block, row, column, place, seat.node if seat else None, role, _state(role, seat))


def _state(role: Role | None, *seats: Seat | None) -> str:
    silent = QUIET if any(seat is not None and seat.collected for seat in seats) else NOT_COLLECTED
    return ROLE_WORDS[role] if role else silent


def _folded(count: int, seats: dict[int, Seat], roles: dict[int, Role]) -> Field:
    share = _LEAST_SHARE
    while count > share * CELLS:
        share *= 2
    cells = []
    for number, first in enumerate(range(0, count, share)):
        ranks = tuple(range(first, min(first + share, count)))
        role = min((roles[rank] for rank in ranks if rank in roles), key=ROLE_ORDER.__getitem__, default=None)
        there = [seats.get(rank) for rank in ranks]
        nodes = {seat.node for seat in there if seat is not None}
        state = _state(role, *there)
        own = [rank for rank in ranks if roles.get(rank) == role]
        place = f"{ranks_words(own)} of {ranks_words(ranks)}" if role and len(own) < len(ranks) else ""
        row, column = divmod(number, _FOLDED_COLUMNS)
        cells.append(Cell(ranks, 0, row, column, place, nodes.pop() if len(nodes) == 1 else None, role, state))
    names = tuple(f"{first}" for first in range(0, count, share * _FOLDED_COLUMNS))
    return Field(tuple(cells), "", "first rank", f"{share} ranks with consecutive numbers a cell", names, share)
