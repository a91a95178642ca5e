"""Find and check all checkpoints below a directory: :func:`scan`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from correlator.checkpoints.disk import File, Folder, shown
from correlator.checkpoints.layouts import load_layouts
from correlator.checkpoints.model import (
    CHECKPOINT_BYTES,
    MAX_PROBLEMS,
    SCAN_BYTES,
    Checkpoint,
    Findings,
    Inventory,
    Layout,
    Reading,
)
from correlator.checkpoints.names import rank_in_series, series, step_of
from correlator.errors import UsageError

MAX_LEVELS = 5
"""Levels below the root at which checkpoints are looked for."""

MAX_FOLDERS = 20_000
"""Directories visited in search of checkpoints, so that a scan pointed at a whole file system ends."""


_RANK = re.compile(r"(rank[-_]?)\d+")
"""What differs between the files of the ranks."""

Progress = Callable[[int, int], None]
"""Called with (files done, files in all)."""


@dataclass
class _Found:
    """A checkpoint that was recognised; ``folder`` for a directory, else ``files`` for loose ones in ``parent``."""

    layout: Layout
    parent: Folder | None
    folder: Folder | None
    files: Sequence[File]
    findings: Findings | None = None

    @property
    def path(self) -> str:
        if self.folder is not None:
            return self.folder.rel
        if len(self.files) == 1:
            return self.files[0].rel
        together = {_RANK.sub(r"\1{rank}", file.rel) for file in self.files}
        if len(together) == 1:
            return together.pop()
        return self.parent.rel if self.parent is not None else "."

    @property
    def name(self) -> str:
        return self.folder.name if self.folder is not None else self.files[0].name

    @property
    def order(self) -> tuple[int, int, int]:
        """Larger is newer: the step, where it is known; else the number in the name; else the time of change (ns)."""
        step = self.findings.iteration if self.findings else None
        if step is None:
            step = step_of(self.name)
        newest = max((file.mtime_ns for file in self.files), default=0)
        return (-1 if step is None else step, rank_in_series(self.name), newest)


class _Counter:
    """Files looked into so far; those of a checkpoint that were not counted one by one are counted at its end."""

    def __init__(self, total: int, report: Progress | None) -> None:
        self._total, self._report = total, report
        self._done = self._ended = 0
        self._lock = Lock()

    def step(self) -> None:
        """One file more."""
        if self._report is not None:
            with self._lock:
                self._done = min(self._done + 1, self._total)
            self._report(self._done, self._total)

    def finish(self, files: int) -> None:
        """A checkpoint of so many files is done."""
        self._ended += files
        if self._report is not None:
            self._done = self._ended
            self._report(self._done, self._total)


def scan(root: Path, *, deep: bool = False, loose: bool = True, progress: Progress | None = None) -> Inventory:
    """All checkpoints below ``root``, newest first; without those that are ``loose`` files where the caller says so.

    ``deep`` reads every byte: CRCs, stored SHA-256 sums, all tensors for NaN and Inf. Otherwise directories,
    descriptions and a sample of the numbers are read, the newest checkpoints first, at most 512 MiB in all. Raises
    UsageError when ``root`` is missing, no directory or cannot be listed. Nothing is written, no pickle is loaded, no
    link out of ``root`` followed. ``progress`` is called, from any thread, with (files done, files in all).
    """
    try:
        top = Folder(root.resolve(strict=True))
    except (OSError, RuntimeError, ValueError) as error:
        raise UsageError(f"no checkpoint directory at {root}: {getattr(error, 'strerror', None) or error}") from error
    if not top.path.is_dir():
        raise UsageError(f"{root} is no directory; give the one that holds the checkpoints")
    if not top.files and not top.folders and top.unreadable:
        raise UsageError(f"{root} {top.problems[0]}")
    visited: list[Folder] = []
    found = list(_search(top, visited, loose=loose))
    counter = _Counter(sum(len(item.files) for item in found), progress)
    left, reading = SCAN_BYTES, Reading(deep=deep, seen=counter.step)
    for item in sorted(found, key=lambda item: item.order, reverse=True):
        granted = reading.bytes_left = min(CHECKPOINT_BYTES, left)
        item.findings = _read(item, reading)
        left -= granted - max(reading.bytes_left, 0)
        counter.finish(len(item.files))
    found += _hollow(found, visited)
    _compare(found)
    found.sort(key=lambda item: item.path)
    found.sort(key=lambda item: item.order, reverse=True)
    checkpoints = tuple(
        item.findings.checkpoint(item.layout, item.path, item.files) for item in found if item.findings is not None
    )
    tracker, problem = _tracker(visited, found, checkpoints)
    refused = [shown(one if f.rel == "." else f"{f.rel}/: {one}", 300) for f in visited for one in f.problems]
    named = shown(str(top.path), 4096)
    return Inventory(named, checkpoints, tracker, problem, tuple(refused[:MAX_PROBLEMS]))


def _search(folder: Folder, visited: list[Folder], level: int = 0, *, loose: bool) -> Iterator[_Found]:
    """Recognised checkpoints, depth first. A recognised directory is not entered."""
    if len(visited) >= MAX_FOLDERS:
        return
    for layout in load_layouts():
        if layout.recognises and layout.recognises(folder):
            yield _Found(layout, folder.parent, folder, list(folder.walk()))
            return
    visited.append(folder)
    if loose:
        yield from _search_files(folder)
    if level < MAX_LEVELS:
        for sub in folder.folders.values():
            yield from _search(sub, visited, level + 1, loose=loose)


def _search_files(folder: Folder) -> Iterator[_Found]:
    own = {file.path for file in folder.files.values() if not file.linked}
    left = [file for file in folder.files.values() if not (file.linked and file.path in own)]
    for layout in load_layouts():
        if layout.groups:
            for group in layout.groups(left):
                yield _Found(layout, folder, None, group)
                left = [file for file in left if file not in group]


def _read(item: _Found, reading: Reading) -> Findings:
    if item.folder is None:
        assert item.layout.read_files is not None
        return item.layout.read_files(item.files, reading)
    assert item.layout.read is not None
    if item.folder.unreadable:
        findings = Findings(iteration=step_of(item.folder.name))
    else:
        findings = item.layout.read(item.folder, reading)
    for problem in item.folder.all_problems():
        findings.doubt(problem)
    return findings


def _hollow(found: list[_Found], visited: list[Folder]) -> list[_Found]:
    """Directories named like the checkpoints beside them in which nothing was recognised: saves that died at once."""
    kinds: dict[tuple[str, str], Layout] = {
        (item.parent.rel, series(item.folder.name)): item.layout
        for item in found
        if item.parent is not None and item.folder is not None
    }
    hollow = []
    for folder in visited:
        layout = kinds.get((folder.parent.rel, series(folder.name))) if folder.parent else None
        if layout is not None and not any(folder.walk()):
            findings = Findings(iteration=step_of(folder.name))
            findings.fault("empty directory: the save died before its first write")
            hollow.append(_Found(layout, folder.parent, folder, [], findings))
    return hollow


def _compare(found: list[_Found]) -> None:
    """What only shows beside the other checkpoints of the same place and layout."""
    places: dict[tuple[str, str], list[Findings]] = defaultdict(list)
    for item in found:
        if item.findings is not None:
            places[item.parent.rel if item.parent else "", item.layout.name].append(item.findings)
    for together in places.values():
        late = [one for one in together if one.late]
        # Copying without times makes all checkpoints look overwritten; a save that dies does it to one.
        copied = len(late) > 1 and len(late) == sum(one.complete is not False for one in together)
        for one in late:
            if copied:
                one.note(f"{one.late}: as in all checkpoints here, so the times were lost in a copy")
            else:
                one.doubt(f"{one.late}: overwritten by a later save that was not finished, or copied without its times")
        for one in together:
            _compare_parts(one, together)


def _compare_parts(one: Findings, together: Sequence[Findings]) -> None:
    """Parts that another iteration has and this one lacks: proof when both say they are of one topology."""
    if one.complete is False:
        return
    for other in together:
        lost = sorted(other.parts - one.parts)
        if other is one or not one.parts or not lost or other.complete is False:
            continue
        text = f"{len(lost)} parts that iteration {other.iteration} has are missing, first {lost[0]}"
        if one.described and other.described:
            if one.topology == other.topology:
                one.fault(text)
        elif one.complete:
            one.doubt(text)
        return


def _tracker(
    visited: Sequence[Folder], found: Sequence[_Found], checkpoints: Sequence[Checkpoint]
) -> tuple[int | str | None, str | None]:
    """The framework's mark nearest to the root, and what is wrong with it; two marks side by side must agree."""
    known = {name: parse for layout in load_layouts() for name, parse in layout.trackers.items()}
    marked = [folder for folder in visited if known.keys() & folder.files.keys()]
    if not marked:
        return None, _odd_mark(found)
    folder = min(marked, key=lambda one: (one.rel.count("/") if one.rel != "." else -1, one.rel))
    beside = [
        (item, one)
        for item, one in zip(found, checkpoints, strict=True)
        if item.parent is not None and item.parent.rel == folder.rel
    ]
    read = [_read_mark(file, known[name], beside) for name, file in folder.files.items() if name in known]
    value, problem, step = read[0]
    for (_, _, other), name in zip(read, (name for name in folder.files if name in known), strict=True):
        if problem is None and step is not None and other is not None and other != step:
            problem = f"the marks beside each other disagree: one points to step {step}, {name} to step {other}"
    return value, problem


def _odd_mark(found: Sequence[_Found]) -> str | None:
    """What stands in the place of a mark and is no file that could be read."""
    for item in found:
        if item.parent is not None:
            refused = {problem.partition(" ")[0] for problem in item.parent.problems}
            for name in item.layout.trackers:
                if name in item.parent.folders or name in refused:
                    return f"{name} is no file that can be read"
    return None


def _read_mark(
    file: File, parse: Callable[[str], int | str | None], beside: Sequence[tuple[_Found, Checkpoint]]
) -> tuple[int | str | None, str | None, int | None]:
    """What the mark says, what is wrong with it, and the step of the checkpoint it points to."""
    try:
        text = file.text(1 << 16)
    except OSError as error:
        return None, f"{file.name} cannot be read: {error.strerror or error}", None
    value = parse(text)
    if value is None:
        return None, f"{file.name} holds no mark: {shown(text, 80)!r}", None
    for item, one in beside:
        if item.name == value if isinstance(value, str) else one.iteration == value:
            if one.complete is False or one.finite is False:
                why = one.problems[0] if one.problems else "it is not complete"
                return value, f"{file.name} points to {item.name}, which cannot be used: {why}", one.iteration
            return value, None, one.iteration
    return value, f"{file.name} points to {value}, which is not there", None
