"""How far the reading is, on standard error: only on a terminal, and only once it has lasted a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.progress import Progress

_PATIENCE_S = 1.0


@contextmanager
def progress_on_stderr(unit: Literal["bytes", "files"] = "bytes") -> Iterator[Callable[[int, int], None] | None]:
    """Gives a function to call with (done, in all), counted in ``unit``, or None where nobody watches."""
    if not sys.stderr.isatty():
        yield None
        return
    bar = _LateBar(unit)
    try:
        yield bar.update
    finally:
        bar.close()


class _LateBar:
    """A progress bar that is drawn only if the work takes long."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._begun = time.monotonic()
        self._bar: Progress | None = None

    def update(self, done: int, total: int) -> None:
        if self._bar is None:
            if time.monotonic() - self._begun < _PATIENCE_S:
                return
            self._bar = self._draw(done, total)
        self._bar.update(self._bar.task_ids[0], completed=done, total=total)

    def _draw(self, done: int, total: int) -> Progress:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        from correlator.report.layout import page_width

        count = DownloadColumn() if self._unit == "bytes" else MofNCompleteColumn()
        columns = (TextColumn("reading"), BarColumn(), count, TimeRemainingColumn())
        # With a size of its own it does not look into COLUMNS and LINES, which may hold anything.
        console = Console(stderr=True, width=page_width(sys.stderr), height=25)
        bar = Progress(*columns, console=console, transient=True)
        bar.add_task("reading", completed=done, total=total)
        bar.start()
        return bar

    def close(self) -> None:
        if self._bar:
            self._bar.stop()
