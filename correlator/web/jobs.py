"""Diagnoses: each in a folder and a process of its own, within its limits, and forgotten when its time is over."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from correlator.errors import CorrelatorError
from correlator.web import results
from correlator.web.lodging import Lodging, remove_left_over
from correlator.web.memory import bytes_of_group
from correlator.web.settings import Settings

_LOOK_EVERY = 0.2
_SWEEP_EVERY = 15.0


class Busy(CorrelatorError):
    """More diagnoses wait than may."""


@dataclass(eq=False)
class Job:
    """One diagnosis. ``title``: what was given, in words; times are seconds of the monotonic clock."""

    id: str
    folder: Path
    title: str = ""
    seen: float = field(default_factory=time.monotonic)
    started: float | None = None
    failure: results.Failure | None = None
    done: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """Where its page is."""
        return f"/d/{self.id}"

    @property
    def view(self) -> results.View:
        """What the page shows; for a finished diagnosis that did not fail."""
        return msgspec.json.decode((self.folder / results.VIEW).read_bytes(), type=results.View)


class Jobs:
    """All diagnoses of a server. Everything they write lies in one temporary folder, which ``close`` removes."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        remove_left_over()
        self._lodging = Lodging()
        self._jobs: dict[str, Job] = {}
        self._slots = asyncio.Semaphore(settings.parallel)
        self._spare: asyncio.subprocess.Process | None = None
        self._preparing = asyncio.Lock()
        self._closed = False

    @property
    def unfinished(self) -> int:
        """How many run or wait."""
        return sum(not job.done.is_set() for job in self._jobs.values())

    async def prepare(self) -> None:
        """Has a worker at hand, so that the next diagnosis need not wait until everything is loaded."""
        async with self._preparing:
            if self._spare is None and not self._closed:
                self._spare = await _start_worker()

    def new(self) -> Job:
        """A job that waits for its order. Raises Busy when too many do."""
        if self.unfinished >= self._settings.parallel + self._settings.waiting:
            raise Busy("too many diagnoses wait already; try again in a minute")
        job = Job(secrets.token_urlsafe(18), self._lodging.folder / secrets.token_hex(8))
        (job.folder / results.SENT).mkdir(parents=True)
        self._jobs[job.id] = job
        return job

    def get(self, name: str) -> Job | None:
        """The job of this name, whose time begins anew."""
        job = self._jobs.get(name)
        if job is not None:
            job.seen = time.monotonic()
        return job

    def start(self, job: Job, title: str, places: Sequence[Path], timezone: str | None) -> None:
        """Lets the job run as soon as there is a place."""
        job.title = title
        order = results.Order([*map(os.fsencode, places)], job.address, title, timezone or self._settings.timezone)
        (job.folder / results.ORDER).write_bytes(msgspec.json.encode(order))
        job.task = asyncio.create_task(self._run(job))

    async def forget(self, job: Job) -> None:
        """Ends the job if it runs and removes all that is there of it."""
        self._jobs.pop(job.id, None)
        if job.task is not None:
            job.task.cancel()
            await asyncio.gather(job.task, return_exceptions=True)
        await asyncio.to_thread(shutil.rmtree, job.folder, True)

    async def sweep(self) -> None:
        """Makes room every few seconds, until it is cancelled."""
        while True:
            await asyncio.sleep(_SWEEP_EVERY)
            await self.make_room()

    async def make_room(self) -> None:
        """Forgets what is over its time, and the longest unseen ones beyond the number and the bytes that are held."""
        now = time.monotonic()
        finished = sorted((job for job in self._jobs.values() if job.done.is_set()), key=lambda job: -job.seen)
        used = 0
        for number, job in enumerate(finished):
            used += await asyncio.to_thread(_bytes_below, job.folder)
            over = number >= self._settings.held or used > self._settings.max_disk
            if over or now - job.seen > self._settings.hold_seconds:
                await self.forget(job)

    async def close(self) -> None:
        """Ends all that runs and removes everything."""
        self._closed = True
        for job in list(self._jobs.values()):
            await self.forget(job)
        if self._spare is not None:
            _end(self._spare)
            await self._spare.wait()
        self._lodging.close()

    async def _run(self, job: Job) -> None:
        try:
            async with self._slots:
                job.started = time.monotonic()
                job.failure = await self._work(job)
                if job.failure is None and self._settings.keep is not None:
                    await asyncio.to_thread(_keep, job.folder, self._settings.keep)
        except OSError as error:
            job.failure = results.Failure(f"the diagnosis could not be run: {error.strerror or error}", 500)
        finally:
            job.seen = time.monotonic()
            job.done.set()

    async def _work(self, job: Job) -> results.Failure | None:
        """Runs the worker to its end or to a limit; gives why there is no result."""
        temporary = job.folder / results.TEMPORARY
        temporary.mkdir(exist_ok=True)
        process, self._spare = self._spare, None
        if process is None or process.returncode is not None:
            process = await _start_worker()
        assert job.started is not None and process.stdin is not None
        try:
            process.stdin.write(f"{job.folder}\n".encode())
            process.stdin.close()
            while True:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), _LOOK_EVERY)
                    break
                if time.monotonic() - job.started > self._settings.time_limit:
                    seconds = f"{self._settings.time_limit:g} seconds"
                    return results.Failure(f"it took longer than the limit of {seconds}", 504)
                if over := await asyncio.to_thread(self._over_limit, job, process.pid):
                    return results.Failure(over, 413)
        finally:
            _end(process)
            await process.wait()
            await asyncio.to_thread(shutil.rmtree, temporary, True)
            await self.prepare()
        if (said := job.folder / results.FAILURE).exists():
            return msgspec.json.decode(said.read_bytes(), type=results.Failure)
        if not (job.folder / results.VIEW).exists():
            return results.Failure("internal error: the diagnosis ended without an answer", 500)
        return None

    def _over_limit(self, job: Job, group: int) -> str:
        """What the job has more of than it may, in a sentence; empty while it has not."""
        if bytes_of_group(group) > self._settings.max_memory:
            return f"it needs more memory than the limit of {self._settings.max_memory >> 20:,} MiB"
        if _bytes_below(job.folder) > self._settings.max_disk:
            return f"it unpacks to more than the limit of {self._settings.max_disk >> 20:,} MiB"
        return ""


async def _start_worker() -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        # -P: no module is taken from the folder that the server was started in.
        *(sys.executable, "-P", "-m", "correlator.web.worker"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )


def _end(process: asyncio.subprocess.Process) -> None:
    """Ends the worker and the processes that it started; those have its number as their group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _bytes_below(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # gone meanwhile
            total += path.lstat().st_size
    return total


def _keep(folder: Path, keep: Path) -> None:
    """Copies the report to a new folder that is named after the moment (UTC)."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    made = Path(tempfile.mkdtemp(prefix=f"{stamp}-", dir=keep))
    for name in (results.REPORT, results.DIAGNOSIS):
        shutil.copyfile(folder / name, made / name)
