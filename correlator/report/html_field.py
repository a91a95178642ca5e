"""The field of ranks of an HTML report in pixels, which the template turns into markup."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, sqrt

from correlator.diagnosis import Document
from correlator.plots.cells import Cell, Field, field_of
from correlator.plots.moments import Story
from correlator.plots.style import NOT_COLLECTED
from correlator.report.words import count_words, ranks_words

_CELL, _BLOCK_GAP, _PANEL_GAP, _LETTER = 14, 8, 24, 6.5
_LABEL_LETTERS = 22
#: Cells of the first failure that are told one by one.
_TOLD = 4


@dataclass(frozen=True)
class Square:
    """One cell in the field, in pixels."""

    x: int
    y: int
    kind: str
    tip: str


@dataclass(frozen=True)
class Grid:
    """The field of ranks. ``said``: what rows, columns and blocks are, and where the rank that failed first stands."""

    width: int
    height: int
    size: int
    squares: tuple[Square, ...]
    labels: tuple[tuple[int, int, str], ...]
    said: tuple[str, ...]
    kinds: tuple[tuple[str, str], ...]


def grid_of(document: Document, story: Story) -> Grid | None:
    """The field; None where it would tell nothing, since all ranks are alike."""
    field = field_of(document, story)
    if len({_kind(cell) for cell in field.cells}) < 2:
        return None
    columns = max(cell.column for cell in field.cells) + 1
    blocks = max(cell.block for cell in field.cells) + 1
    rows = len(field.row_names)
    across = blocks * (columns * _CELL + _BLOCK_GAP)
    letters = min(max(len(name) for name in field.row_names), _LABEL_LETTERS)
    left = round(letters * _LETTER) + 8
    panel = left + across + _PANEL_GAP
    # A field that is much higher than wide is cut into panels side by side.
    per_panel = ceil(rows / max(1, round(sqrt(rows * _CELL / panel))))
    top = _CELL + 4

    def place(cell: Cell) -> Square:
        part, row = divmod(cell.row, per_panel)
        x = part * panel + left + cell.block * (columns * _CELL + _BLOCK_GAP) + cell.column * _CELL
        return Square(x, top + row * _CELL, _kind(cell), _cell_tip(cell))

    labels = [
        (part * panel + left - 4, top + row * _CELL + _CELL - 3, name)
        for number, name in enumerate(field.row_names)
        for part, row in [divmod(number, per_panel)]
    ]
    squares = tuple(place(cell) for cell in field.cells)
    return Grid(
        width=ceil(rows / per_panel) * panel - _PANEL_GAP,
        height=top + per_panel * _CELL + 4,
        size=_CELL - 2,
        squares=squares,
        labels=tuple(
            (x, y, name if len(name) <= _LABEL_LETTERS else name[: _LABEL_LETTERS - 1] + "…") for x, y, name in labels
        ),
        said=tuple(_field_words(field)),
        kinds=tuple(dict.fromkeys(sorted((_kind(cell), cell.state) for cell in field.cells))),
    )


def _kind(cell: Cell) -> str:
    return cell.role or ("absent" if cell.state == NOT_COLLECTED else "quiet")


def _cell_tip(cell: Cell) -> str:
    where = f" on {cell.node}" if cell.node else ""
    return f"{ranks_words(cell.ranks)}{where}: {cell.state}\n{cell.place}".rstrip()


def _field_words(field: Field) -> Iterable[str]:
    said = [f"rows: {field.rows}", f"columns: {field.columns}"] + ([f"blocks: {field.blocks}"] if field.blocks else [])
    yield "; ".join(said)
    first = [cell for cell in field.cells if cell.role == "initiator"]
    if 0 < len(first) <= _TOLD:
        yield from (_cell_tip(cell).replace("\n", "; ") for cell in first)
    elif first:
        yield f"{count_words(len(first), 'rank' if field.share == 1 else 'cell')} failed first"
