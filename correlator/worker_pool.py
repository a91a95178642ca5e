"""Processes that work for this one, and end with it without a word of their own."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from types import TracebackType
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")


class WorkerPool(ProcessPoolExecutor):
    """A pool of ``workers`` processes; where the work ends early, they are ended in the middle of their tasks."""

    def __init__(self, workers: int) -> None:
        # forkserver and spawn, never fork: polars and pyarrow may have threads already.
        method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
        super().__init__(workers, mp_context=multiprocessing.get_context(method), initializer=_end_on_interrupt)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """As of any executor."""
        with _interrupts_held():  # a new process inherits this, and is not interrupted while it imports
            return super().submit(fn, *args, **kwargs)

    def in_order(self, fn: Callable[[A], T], items: Iterable[A]) -> Iterator[T]:
        """The results in the order of ``items``.

        Unlike ``map``, nothing is cancelled where the work ends early: CPython 3.11 prints a traceback when a
        pool whose processes were ended meets a cancelled task.
        """
        futures = [self.submit(fn, item) for item in items]
        return (future.result() for future in futures)

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Waits for the tasks; where the work ends early, they end with it."""
        if kind is not None:
            for process in list((self._processes or {}).values()):
                process.terminate()
        self.shutdown(cancel_futures=kind is not None)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_on_interrupt() -> None:
    """The process that gave the work says that it was interrupted; a traceback from each worker would say no more."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
