"""Building blocks of the terminal pages, and the one place that decides width and colour.

Pages read at 80 columns, without colour and through a pipe: no boxes, no rules, blanks only; nothing is cut, long text
is wrapped under its own start. Colour and bold only repeat what the words say.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from io import StringIO
from typing import IO

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from correlator.diagnosis import Action
from correlator.report.safe import visible, visible_prose
from correlator.report.words import step_tag, wrap_command

#: Width where nothing says how wide the reader's page is.
PIPED_WIDTH = 100
#: Prose on a wider line is hard to read.
_WIDEST = 120
_NARROWEST = 40

#: For output streams that cannot encode these.
_PLAIN = str.maketrans({"±": "+/-", "…": "...", "×": "x"})


def heading(text: str) -> Text:
    """A section's heading."""
    return Text(text, style="bold")


def line(text: str, style: str = "") -> Text:
    """One line (or one wrapped line) of text, made harmless; never read as markup."""
    return Text(visible(text), style=style, overflow="fold")


def prose(text: str, style: str = "") -> Text:
    """A paragraph, made harmless."""
    return Text(visible_prose(text), style=style, overflow="fold")


def indent(what: RenderableType, by: int = 2) -> Padding:
    """``what`` moved to the right by ``by`` columns."""
    return Padding(what, (0, 0, 0, by))


def hang(mark: str | Text, what: RenderableType, by: int = 2) -> RenderableType:
    """``mark`` and, to its right, ``what``, whose further lines stay right of the mark."""
    grid = Table.grid(padding=0)
    mark = mark if isinstance(mark, Text) else Text(mark)
    grid.add_column(width=mark.cell_len + 1, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(mark, what)
    return indent(grid, by)


def bullets(items: Iterable[RenderableType], by: int = 2) -> list[RenderableType]:
    """Items with a dash each."""
    return [hang("-", item, by) for item in items]


class Command:
    """A shell command to paste: broken only where the shell allows it, at the width there is."""

    def __init__(self, command: str, by: int = 5) -> None:
        self.command, self.by = command, by

    def __rich_console__(self, console: Console, options: object) -> Iterable[RenderableType]:
        """The lines of the command; one word that is wider than the page is left to the terminal to fold."""
        for part in self.command.split("\n"):
            for piece in wrap_command(visible(part), console.width - self.by):
                yield Text(" " * self.by + piece, style="cyan", no_wrap=True, overflow="ignore")


def step(mark: str, action: Action) -> Iterable[RenderableType]:
    """A next step with its reason and its command, tagged with what it does."""
    head = prose(action.title, "bold")
    disruptive = action.kind == "disruptive"
    tag = step_tag(action.kind, action.stopgap)
    head.append(f"  ({tag.upper() if disruptive else tag})", style="bold red" if disruptive else "dim")
    yield hang(mark, Group(head, prose(action.why)) if action.why else head)
    if action.command:
        yield Command(action.command)


def section(title: str, items: Iterable[RenderableType]) -> list[RenderableType]:
    """A blank line, the heading and its items; nothing where there are no items."""
    body = list(items)
    return ["", heading(title), *body] if body else []


def page_width(stream: IO[str]) -> int:
    """Columns to write for: the terminal's (or COLUMNS), at most 120; without a terminal COLUMNS or 100."""
    stated = os.environ.get("COLUMNS", "")
    known = re.fullmatch("0*[1-9][0-9]{0,5}", stated)  # isdigit() is true of superscripts, int() knows none
    width = int(stated) if known else _terminal_width(stream) or PIPED_WIDTH
    return max(_NARROWEST, min(width, _WIDEST))


def _terminal_width(stream: IO[str]) -> int:
    """Columns of the terminal behind ``stream``; 0 where there is none or it does not know."""
    try:
        return os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    except (OSError, ValueError):
        return 0


def render_for(stream: IO[str], items: Iterable[RenderableType], width: int | None = None) -> str:
    """The page as text for ``stream``: colour only if it is a terminal that has some (and NO_COLOR is not set)."""
    # FORCE_COLOR is for programs whose colours mean something to a pipe; ours do not.
    # The height is not used; given, so that nobody looks for it in LINES, which may hold anything. The stream itself is
    # not touched here: who writes the text knows what to do when that fails.
    console = Console(
        file=StringIO(), width=width or page_width(stream), height=25, force_terminal=stream.isatty(),
        markup=False, emoji=False, highlight=False, force_jupyter=False,
    )  # fmt: skip
    with console.capture() as capture:
        console.print(Group(*items))
    text = capture.get()
    if not console.is_terminal:
        text = "".join(f"{row.rstrip()}\n" for row in text.splitlines())
    return _encodable(text, getattr(stream, "encoding", None) or "utf-8")


def render_plain(items: Iterable[RenderableType], width: int = PIPED_WIDTH) -> str:
    """The page as plain text, for a file."""
    return render_for(StringIO(), items, width)


def _encodable(text: str, encoding: str) -> str:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_PLAIN).encode(encoding, "backslashreplace").decode(encoding)
    return text
