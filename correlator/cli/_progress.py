"""How far the reading is, on standard error: only on a terminal, and only once it has lasted a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, Protocol

from correlator.report.words import count_words, size_words

if TYPE_CHECKING:
    from rich.progress import Progress

_PATIENCE_S = 1.0


class Report(Protocol):
    """Told how far the work is."""

    def __call__(self, done: int, total: int, files: int = 0, /) -> None: ...


@contextmanager
def progress_on_stderr(unit: Literal["bytes", "files"] = "bytes") -> Iterator[Report | None]:
    """Gives a function to call with (done, in all), counted in ``unit``, or None where nobody watches.

    Of bytes the rate is shown, too, and how many files are done, where that is the third argument.
    """
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

    def update(self, done: int, total: int, files: int = 0, /) -> None:
        seconds = time.monotonic() - self._begun
        if self._bar is None:
            if seconds < _PATIENCE_S:
                return
            self._bar = self._draw()
        told = f"reading, {count_words(files, 'file')} done" if files else "reading"
        rate = f"{size_words(round(done / seconds))}/s" if self._unit == "bytes" else ""
        if not self._bar.task_ids:
            self._bar.add_task(told, completed=done, total=total, rate=rate)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], description=told, completed=done, total=total, rate=rate)

    def _draw(self) -> Progress:
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
        told, rate = TextColumn("{task.description}"), TextColumn("{task.fields[rate]}")
        # With a size of its own it does not look into COLUMNS and LINES, which may hold anything.
        console = Console(stderr=True, width=page_width(sys.stderr), height=25)
        return Progress(told, BarColumn(), count, rate, TimeRemainingColumn(), console=console, transient=True)

    def close(self) -> None:
        if self._bar:
            self._bar.stop()
