"""What a checkpoint directory holds, as values: :class:`Checkpoint`, :class:`Inventory`, and the :class:`Layout` plug.

A layout is one module in ``correlator/checkpoints/layouts`` with a module-level ``LAYOUT``; nothing else names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from correlator.checkpoints.disk import File, Folder, shown

MAX_PROBLEMS = 12
"""Problems kept per checkpoint: a save of a thousand ranks that lost them all must stay readable."""

SCAN_BYTES = 512 << 20
"""Tensor bytes read by a scan that is not deep, over all its checkpoints, newest first."""

CHECKPOINT_BYTES = 64 << 20
"""Tensor bytes read of one checkpoint by a scan that is not deep."""


@dataclass(frozen=True)
class Rescale:
    """What happens when the next run has other sizes.

    ``fixed``: the sizes (tp, pp, ep, cp, dp, world) under whose change it does not load; all others are resharded on
    load. ``convert``: how it is brought to other sizes of these offline, empty when there is no way. ``lost``: what
    does not come along although it loads, empty when all does.
    """

    fixed: tuple[str, ...] = ()
    convert: str = ""
    lost: str = ""


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint.

    ``path`` is relative to the inventory's root ("." is the root itself), with ``/``. ``complete``: True when all that
    its layout demands is there, False when something provably is not, None when that could not be decided.
    ``finite``: False when NaN or Inf stands in weights or optimizer state, True when none was found in what was read
    (all of it with ``deep``, a sample of large tensors without), None when no number was read. ``problems`` may be
    non-empty for a complete checkpoint: limits such as a lost random-number state. ``topology`` has the sizes the
    files tell: tp, pp, ep, cp, dp, world. ``mtime_ns`` is that of the newest file. ``commit``: the file whose presence
    says that the save was finished, None where the layout has none; ``committed``: whether it is there.
    """

    path: str
    iteration: int | None
    layout: str
    complete: bool | None
    problems: tuple[str, ...]
    topology: dict[str, int]
    finite: bool | None
    size_bytes: int
    mtime_ns: int
    commit: str | None = None
    committed: bool = False
    rescale: Rescale = field(default_factory=Rescale)


@dataclass(frozen=True)
class Inventory:
    """All checkpoints under ``root``, newest first, and where the framework's own mark points.

    ``tracker`` is what that mark says: an iteration (Megatron), a tag (DeepSpeed) or None when there is no mark.
    ``tracker_problem`` says what is wrong with it: unreadable, or pointing to something absent or unusable.
    ``refused``: what lies beside the checkpoints and was not looked at, such as a link that leaves the directory.
    """

    root: str
    checkpoints: tuple[Checkpoint, ...]
    tracker: int | str | None
    tracker_problem: str | None
    refused: tuple[str, ...] = ()


SCAN_METADATA_BYTES = 128 << 20
"""Bytes of ``.metadata`` read by a scan that is not deep; a megabyte takes about 0.2 s."""


def _ignore() -> None:
    pass


@dataclass
class Reading:
    """How much may be read. ``deep`` lifts all limits on bytes; otherwise they shrink with what is read.

    ``bytes_left`` is for tensors of one checkpoint, ``metadata_left`` for ``.metadata`` of all that follow. ``seen`` is
    called, from any thread, after every file looked into.
    """

    deep: bool = False
    bytes_left: int = CHECKPOINT_BYTES
    metadata_left: int = SCAN_METADATA_BYTES
    seen: Callable[[], None] = _ignore

    def allow(self, wanted: int, tensors: int) -> int:
        """Bytes to read of a tensor of ``wanted`` bytes, when ``tensors`` of them share the limit. Subtracts them."""
        if self.deep:
            return wanted
        fair = max(4 << 10, CHECKPOINT_BYTES // max(tensors, 1))
        granted = max(min(wanted, fair, self.bytes_left), 0)
        self.bytes_left -= granted
        return granted

    def split(self, parts: int) -> list[Reading]:
        """Equal shares of the bytes, taken from this one; so what is read does not depend on who is faster."""
        share = max(self.bytes_left, 0) // max(parts, 1)
        self.bytes_left -= share * parts
        return [Reading(self.deep, share, self.metadata_left, self.seen) for _ in range(parts)]


@dataclass
class Findings:
    """Collects what a layout sees in one checkpoint. The first ``faults`` of ``problems`` prove it incomplete.

    ``late``: times speak of a half overwritten save; whether they can be trusted shows only beside the other
    checkpoints. ``parts``: names that must be the same in another iteration of the same topology; ``described``: that
    topology is known from the content, not only guessed from these names. ``commit``, ``committed``, ``rescale``: as in
    :class:`Checkpoint`; None leaves what the layout says in general.
    """

    problems: list[str] = field(default_factory=list)
    complete: bool | None = True
    finite: bool | None = None
    topology: dict[str, int] = field(default_factory=dict)
    iteration: int | None = None
    late: str | None = None
    parts: frozenset[str] = frozenset()
    described: bool = False
    faults: int = 0
    dropped: int = 0
    commit: str | None = None
    committed: bool = False
    rescale: Rescale | None = None

    def mark(self, name: str, present: bool) -> bool:
        """Take in the commit mark: the file that is written last, and whether it is there. Returns ``present``."""
        self.commit, self.committed = name, present
        return present

    def fault(self, text: str) -> None:
        """Something the layout demands is missing or broken: the checkpoint is incomplete."""
        self.complete = False
        self._add(text, fault=True)

    def doubt(self, text: str) -> None:
        """Completeness cannot be decided."""
        if self.complete:
            self.complete = None
        self._add(text)

    def note(self, text: str) -> None:
        """Worth telling, no bar to resuming."""
        self._add(text)

    def numbers(self, finite: bool | None) -> None:
        """Take in the verdict on one file's tensors: one bad value condemns, one clean file makes None to True."""
        if finite is not None:
            self.finite = finite if self.finite is None else self.finite and finite

    def sizes(self, **sizes: object) -> None:
        """Take in sizes of parallel dimensions; what is no count between 1 and a million is dropped."""
        for name, size in sizes.items():
            if type(size) is int and 0 < size < 1_000_000:
                self.topology.setdefault(name, size)

    def absorb(self, inner: Findings, name: str = "") -> None:
        """Take in the findings on a part of this checkpoint; ``name`` is that of its directory, to be told."""
        for number, problem in enumerate(inner.problems):
            self._add(f"{name}: {problem}" if name else problem, fault=number < inner.faults)
        if inner.complete is False or self.complete is False:
            self.complete = False
        elif inner.complete is None:
            self.complete = None
        self.numbers(inner.finite)
        self.sizes(**inner.topology)
        self.late = self.late or inner.late
        self.rescale = self.rescale or inner.rescale
        self.dropped += inner.dropped

    def _add(self, text: str, *, fault: bool = False) -> None:
        clean = shown(text, 300)
        if clean in self.problems:
            return
        if len(self.problems) >= MAX_PROBLEMS:
            self.dropped += 1
            return
        self.problems.insert(self.faults if fault else len(self.problems), clean)
        self.faults += fault

    def checkpoint(self, layout: Layout, path: str, files: Sequence[File]) -> Checkpoint:
        """The finished value. ``files`` are all files that belong to it."""
        problems = list(self.problems)
        if self.dropped:
            problems.append(f"{self.dropped} more problems")
        return Checkpoint(
            path=shown(path, 4096),
            iteration=self.iteration,
            layout=layout.name,
            complete=self.complete,
            problems=tuple(problems),
            topology=dict(self.topology),
            finite=self.finite,
            size_bytes=sum(file.size for file in files),
            mtime_ns=max((file.mtime_ns for file in files), default=0),
            commit=self.commit,
            committed=self.committed,
            rescale=self.rescale or layout.rescale,
        )


@dataclass(frozen=True)
class Layout:
    """One on-disk layout.

    ``order``: smaller is asked first, so the specific stands before the general. ``recognises`` and ``read`` deal
    with a directory that is one checkpoint, ``groups`` and ``read_files`` with checkpoints that are loose files:
    ``groups`` returns the sets of files, among those offered, that form one each. ``trackers``: mark file beside the
    checkpoints -> reader of its text, None when that text is no mark. ``hint``: how one resumes, with ``{path}``,
    ``{parent}``, ``{name}`` and ``{iteration}`` to be filled in. ``rescale``: what other sizes of the next run mean.
    """

    name: str
    order: int
    hint: str
    rescale: Rescale
    recognises: Callable[[Folder], bool] | None = None
    read: Callable[[Folder, Reading], Findings] | None = None
    groups: Callable[[Sequence[File]], list[list[File]]] | None = None
    read_files: Callable[[Sequence[File], Reading], Findings] | None = None
    trackers: Mapping[str, Callable[[str], int | str | None]] = field(default_factory=dict)
