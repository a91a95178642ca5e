"""Which files under LOGDIR are logs, and what their names claim.

One walk with ``scandir``; nothing is followed twice, nothing but a regular file is opened, and whatever is left out is
named with its reason. Whether a file is a log is decided by its content: checkpoints and datasets that lie in LOGDIR
are skipped. Archives are opened; a member's name is ``archive!/member``. ``-`` is standard input, and an address with
``://`` is fetched.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as _field
from pathlib import Path
from typing import Literal

from correlator.containers.remote import fetch, is_url, local_path
from correlator.containers.spool import Spool, why_not_written
from correlator.containers.stdin import spool_stdin
from correlator.containers.support import bug_report_host, sos_hosts
from correlator.containers.tar import unpack_tar
from correlator.containers.unpack import Contents, Unpacker
from correlator.containers.zip import unpack_zip
from correlator.core_files import CORE_HEAD, is_core
from correlator.errors import NothingReadable, UsageError
from correlator.flightrecorder.reader import is_dump
from correlator.path_claims import PathClaims, path_claims
from correlator.reading import SNIFF_BYTES, Budget, archive_of, binary_reason, compression_of, is_recoded, read_head

#: Modification times up to here (ns, UTC) are none: zip's and tar's first moments, which reproducible archives state.
_NO_TIME_NS = 631_152_000 * 10**9
#: Archives are opened inside archives so deep.
ARCHIVE_DEPTH = 2


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to be read. ``name`` is relative to LOGDIR with ``/``; ``size`` in bytes as stored; ``mtime_ns`` UTC.

    ``form``: lines of text, or a dump of PyTorch's flight recorder; a dump's name says nothing about log lines.
    ``spool`` keeps the temporary copy that ``path`` leads to, for what is no file of its own.
    """

    path: Path
    name: str
    size: int
    compression: str | None
    claims: PathClaims
    mtime_ns: int = 0
    recoded: bool = False
    form: Literal["log", "flight recorder"] = "log"
    spool: Spool | None = _field(default=None, compare=False, repr=False)

    @property
    def streamed(self) -> bool:
        """True when byte offsets of the text are not offsets in the stored file."""
        return self.compression is not None or self.recoded


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that was not (or not completely) read, and why."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Discovery:
    """All files found, by name, all that were left out, and archives that could not be unpacked to their end."""

    files: tuple[SourceFile, ...]
    skipped: tuple[SkippedFile, ...]
    warnings: tuple[SkippedFile, ...] = ()


_WHY_NO_PLACE = {
    errno.ENAMETOOLONG: "is too long for a path",
    errno.ELOOP: "is a link that leads to itself",
    errno.EINVAL: "is no path",
}
_NO_SERIES = re.compile(r"(?:worker|master|launcher|node|run|part)s?[._-]$")
_SERIES = re.compile(r"^(.*?[._-](?:task|t)?)(\d{1,5})((?:\.\w+)*)$")


def _with_series(files: list[SourceFile]) -> list[SourceFile]:
    """Add ``task`` where sibling names form a series that starts at 0: ``slurm-77_0.out``, ``slurm-77_1.out``, …"""
    series: dict[tuple[str, str, str], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for index, file in enumerate(files):
        claims = file.claims
        if file.form != "log":
            continue
        if claims.rank is None and claims.local_rank is None and claims.task is None and claims.node is None:
            folder, _, base = file.name.rpartition("/")
            match = _SERIES.match(base)
            if match and claims.attempt is None and not _NO_SERIES.search(match[1]):
                series[folder, match[1], match[3]][int(match[2])].append(index)
    for numbers in series.values():
        if len(numbers) >= 2 and sorted(numbers) == list(range(len(numbers))):
            for number, indices in numbers.items():
                for index in indices:
                    files[index] = replace(files[index], claims=replace(files[index].claims, task=number))
    return files


def _with_hosts(files: list[SourceFile]) -> list[SourceFile]:
    """Give the files of each sosreport the machine that it states, which its name only abbreviates."""
    hosts = sos_hosts((file.name, file.path) for file in files if not file.compression)
    for top, host in hosts.items():
        for index, file in enumerate(files):
            if file.name.startswith(top):
                files[index] = replace(file, claims=replace(file.claims, node=host))
    return files


_SOURCE_CODE = frozenset({".py", ".pyc", ".ipynb", ".cpp", ".cc", ".cu", ".h", ".hpp", ".so", ".whl"})
_MODEL_FILES = frozenset({"tokenizer.json", "vocab.json", "merges.txt", "tokenizer_config.json", "vocab.txt"})
# What a sosreport holds beside logs and outputs of commands: thousands of files of configuration and state.
_SOS_STATE = re.compile(r"^(.*?(?:^|/)sosreport-[^/]+/(?:etc|proc|sys|usr|lib|lib64|boot)/)")


def _name_reason(name: str) -> str | None:
    base = name.rpartition("/")[2]
    suffix = Path(base).suffix.lower()
    if suffix in _SOURCE_CODE:
        return "program code, not a log"
    if base in _MODEL_FILES or base.endswith(".index.json"):
        return "a model's own file, not a log"
    if _SOS_STATE.match(name):
        return "configuration and state, no logs"
    return None


def _reason(name: str, head: bytes) -> str | None:
    """Why the file with this name and these first bytes is not read; None when it may be."""
    reason = _name_reason(name)
    if reason is None and archive_of(head) is None and compression_of(head) is None and not is_dump(name, head):
        reason = binary_reason(head)
    return reason


def discover(places: Sequence[Path | str], *, confined: bool = False) -> Discovery:
    """All readable logs below the given folders, files, archives or addresses; ``-`` is standard input.

    ``confined``: no link below the places is followed, wherever it leads.

    Raises UsageError for a place that does not exist, NothingReadable when no file can be read at all.
    """
    if not places:
        raise UsageError("no path given: name a folder with logs or a log file")
    finder = _Finder(confined)
    for place, label in sorted(_labels(places).items(), key=lambda entry: (entry[1], str(entry[0]))):
        finder.look_at(place, label)
    if not finder.files:
        where = ", ".join("standard input" if place == "-" else str(place) for place in places)
        left = [*finder.skipped, *finder.warnings]
        why = ""
        if left:
            why = f" ({left[0].name}: {left[0].why})" if len(left) == 1 else f" ({len(left)} files skipped)"
        raise NothingReadable(f"no readable log in {where}{why}")
    finder.files.sort(key=lambda file: file.name)
    return Discovery(
        tuple(_with_series(_with_hosts(finder.files))),
        tuple(sorted(finder.skipped, key=lambda s: (s.name, s.why))),
        tuple(sorted(finder.warnings, key=lambda s: (s.name, s.why))),
    )


def _labels(places: Sequence[Path | str]) -> dict[Path | str, str]:
    """What the names of the files of each place begin with: nothing for a single one, else what tells them apart.

    That is the last part of the path where it is unlike all others, else the path below the folder they share, so that
    ``a/stderr.log`` and ``b/stderr.log`` keep two names whatever the order in which they are given.
    """
    if len(places) == 1:
        return {places[0]: ""}
    labels = {place: str(place).rstrip("/").rpartition("/")[2] for place in places}
    if len(set(labels.values())) == len(labels):
        return labels
    paths = {place: Path(place).absolute() for place in places if not is_url(str(place)) and str(place) != "-"}
    shared = os.path.commonpath([path.parent for path in paths.values()]) if paths else ""
    return labels | {place: os.path.relpath(path, shared) for place, path in paths.items()}


class _Finder:
    """Collects files from one place after the other."""

    def __init__(self, confined: bool) -> None:
        self._confined = confined
        self.files: list[SourceFile] = []
        self.skipped: list[SkippedFile] = []
        self.warnings: list[SkippedFile] = []
        self._seen: set[tuple[int, int]] = set()
        self._state_folders: set[str] = set()
        self._spool = Spool()

    def look_at(self, place: Path | str, label: str) -> None:
        """One folder, file or address; ``label`` is empty for the only one, else what its names begin with."""
        if place == "-":
            path = spool_stdin(self._spool)
            self._classify(path, "-", path.stat().st_size, time.time_ns(), spooled=True)
            return
        root = Path(place)
        if isinstance(place, str) and is_url(place):
            local = local_path(place)
            if local is None:
                prefix = f"{label}/" if label else ""
                self._take_members(fetch(place, self._spool, _reason), prefix, depth=0, budget=None)
                return
            root = local
        if not str(place).strip():
            raise UsageError("an empty path: name a folder with logs or a log file")
        try:
            info = root.stat()
        except PermissionError as error:
            raise UsageError(f"no permission to read {root}") from error
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            shown = str(root) if len(str(root)) <= 200 else f"{str(root)[:200]}…"
            number = error.errno if isinstance(error, OSError) else errno.EINVAL
            reason = _WHY_NO_PLACE.get(number or 0, "does not exist")
            if number == errno.ENOENT and root.is_symlink():
                reason = "is a link that leads nowhere"
            raise UsageError(f"{shown} {reason}") from error
        folder = stat.S_ISDIR(info.st_mode)
        if folder and _is_kernels(root / "any"):
            raise UsageError(f"{root} is the kernel's own and holds no logs")
        prefix = f"{label}/" if label else ""
        found = _walk(root, prefix, self.skipped, self._seen) if folder else iter([(root, label or root.name, info)])
        for path, name, status in found:
            if self._confined and path.is_symlink():
                self.skipped.append(SkippedFile(name, "a link, which is not followed here"))
                continue
            self._check(path.absolute(), name, status)

    def _check(self, path: Path, name: str, status: os.stat_result) -> None:
        if _is_kernels(path):
            self.skipped.append(SkippedFile(name, "the kernel's own, no file"))
            return
        if not stat.S_ISREG(status.st_mode):
            what = next((what for test, what in _SPECIAL if test(status.st_mode)), "not a regular file")
            self.skipped.append(SkippedFile(name, what))
            return
        key = (status.st_dev, status.st_ino)
        if key in self._seen:
            self.skipped.append(SkippedFile(name, "the same file under another name"))
            return
        self._seen.add(key)
        self._classify(path, name, status.st_size, status.st_mtime_ns)

    def _classify(
        self,
        path: Path,
        name: str,
        size: int,
        mtime_ns: int,
        *,
        spooled: bool = False,
        depth: int = 0,
        budget: Budget | None = None,
    ) -> None:
        """Take a regular file as a log, open it as an archive, or leave it out."""
        reason = _name_reason(name)
        compression: str | None = None
        recoded = False
        dump = is_dump(name, b"") and not size
        if reason is None and size:
            try:
                with path.open("rb", buffering=0) as stream:
                    head = stream.read(SNIFF_BYTES)
                compression = compression_of(head)
                recoded = is_recoded(head)
                text = read_head(path, compression) if compression else head
                kind = archive_of(text)
                if kind == "tar" or (kind == "zip" and compression is None):
                    self._open_archive(path, name, mtime_ns, kind, compression, depth + 1, budget or Budget(size))
                    return
                if is_core(text):
                    text = read_head(path, compression, CORE_HEAD)
                dump = is_dump(name, text)
                reason = None if dump else binary_reason(text)
            except OSError as error:
                reason = _os_reason(error, "file")
        if reason is not None:
            self._leave_out(name, reason)
            return
        spool = self._spool if spooled else None
        claims = path_claims(name)
        if host := bug_report_host(text) if size else None:
            claims = replace(claims, node=host)
        if dump:
            # The rank is that of the dump; no log of it was collected.
            claims = replace(claims, rank=None, local_rank=None, task=None)
        form: Literal["log", "flight recorder"] = "flight recorder" if dump else "log"
        self.files.append(SourceFile(path, name, size, compression, claims, mtime_ns, recoded, form, spool))

    def _open_archive(
        self,
        path: Path,
        name: str,
        mtime_ns: int,
        kind: Literal["tar", "zip"],
        compression: str | None,
        depth: int,
        budget: Budget,
    ) -> None:
        if depth > ARCHIVE_DEPTH:
            self._leave_out(name, f"an archive inside {ARCHIVE_DEPTH} others; unpack the outer one")
            return
        prefix = f"{name}!/"
        unpacker = Unpacker(self._spool, budget, lambda member, head: _reason(prefix + member, head))
        try:
            contents = unpack_tar(path, compression, unpacker) if kind == "tar" else unpack_zip(path, unpacker)
        except OSError as error:
            unpacker.contents.problems.append(f"could not be unpacked to its end: {why_not_written(error)}")
            contents = unpacker.contents
        if isinstance(contents, str):
            self._leave_out(name, contents)
            return
        self.warnings += [SkippedFile(name, problem) for problem in contents.problems]
        if not contents.members and not contents.left_out and not contents.problems:
            self._leave_out(name, "an empty archive")
        self._take_members(contents, prefix, depth, budget, mtime_ns)

    def _take_members(
        self, contents: Contents, prefix: str, depth: int, budget: Budget | None, mtime_ns: int = 0
    ) -> None:
        """``mtime_ns``: of the archive; for members whose own was left out, so that archives are reproducible."""
        for name, why in contents.left_out:
            self._leave_out(prefix + name, why)
        for member in contents.members:
            count = len(self.files)
            name = prefix + member.name
            changed = member.mtime_ns if member.mtime_ns > _NO_TIME_NS else mtime_ns
            self._classify(member.path, name, member.size, changed, spooled=True, depth=depth, budget=budget)
            if len(self.files) == count or self.files[-1].path != member.path:
                member.path.unlink()  # an archive that was unpacked itself, or no log

    def _leave_out(self, name: str, why: str) -> None:
        if match := _SOS_STATE.match(name):  # one entry for each of its folders
            if match[1] in self._state_folders:
                return
            self._state_folders.add(match[1])
            name = match[1]
        self.skipped.append(SkippedFile(name, why))


def _walk(
    root: Path, prefix: str, skipped: list[SkippedFile], seen: set[tuple[int, int]]
) -> Iterator[tuple[Path, str, os.stat_result]]:
    pending: list[tuple[str, str]] = [(str(root), prefix)]
    while pending:
        folder, relative = pending.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            skipped.append(SkippedFile(relative.rstrip("/") or ".", _os_reason(error, "folder")))
            continue
        for entry in entries:
            # A name that is no valid UTF-8 must still be printable in a report.
            name = (relative + entry.name).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            try:
                status = entry.stat()
            except OSError as error:
                why = "a link that leads nowhere" if entry.is_symlink() else _os_reason(error, "file")
                skipped.append(SkippedFile(name, why))
                continue
            if stat.S_ISDIR(status.st_mode):
                key = (status.st_dev, status.st_ino)
                if entry.is_symlink():
                    inside = key in seen or _is_within(entry.path, root)
                    why = "a folder that is read anyway" if inside else "a folder elsewhere; name it to have it read"
                    skipped.append(SkippedFile(name, f"a link to {why}"))
                    continue
                if key not in seen:
                    seen.add(key)
                    pending.append((entry.path, f"{relative}{entry.name}/"))
            else:
                yield Path(entry.path), name, status


def _is_kernels(path: Path | str) -> bool:
    """Whether a path leads into a file system that the kernel makes up: some of its files have no end."""
    real = os.path.realpath(path)
    return real.startswith(("/proc/", "/sys/", "/dev/")) and not real.startswith("/dev/shm/")


def lies_below(path: Path, places: Sequence[Path | str]) -> bool:
    """Whether ``path``, all links in it followed, is one of the places or lies below one."""
    try:
        real = path.resolve()
        return any(real.is_relative_to(Path(place).resolve()) for place in places)
    except (OSError, RuntimeError, ValueError):  # a loop of links, a NUL in the name
        return False


def _is_within(link: str, root: Path) -> bool:
    target, top = os.path.realpath(link), os.path.realpath(root)
    return target == top or target.startswith(top + os.sep) or top.startswith(target + os.sep)


def _os_reason(error: OSError, what: str) -> str:
    if isinstance(error, PermissionError):
        return f"no permission to read the {what}"
    return (error.strerror or str(error)).lower()


_SPECIAL = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
