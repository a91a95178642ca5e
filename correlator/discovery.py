"""Which files under LOGDIR are logs, and what their names claim.

One walk with ``scandir``; nothing is followed twice, nothing but a regular file is opened, and whatever is left out is
named with its reason. Whether a file is a log is decided by its content: checkpoints and datasets that lie in LOGDIR
are skipped.
"""

from __future__ import annotations

import os
import re
import stat
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from correlator.errors import NothingReadable, UsageError
from correlator.reading import SNIFF_BYTES, binary_reason, compression_of, read_head, utf16_of

Stream = Literal["stdout", "stderr"]


@dataclass(frozen=True, slots=True)
class PathClaims:
    """What a file's path says about its writer.

    ``node`` is set only where the naming scheme states one. ``tokens`` are all parts that might be a node name; the
    topology stage decides. ``task`` is a launcher's number that is not yet a rank.
    """

    rank: int | None = None
    local_rank: int | None = None
    task: int | None = None
    attempt: int | None = None
    node: str | None = None
    stream: Stream | None = None
    tokens: tuple[str, ...] = ()
    pid: int | None = None

    @property
    def single_process(self) -> bool:
        """True when the name says that one process wrote the file."""
        return self.rank is not None or self.local_rank is not None or self.pid is not None


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to be read. ``name`` is relative to LOGDIR with ``/``; ``size`` in bytes as stored; ``mtime_ns`` UTC."""

    path: Path
    name: str
    size: int
    compression: str | None
    claims: PathClaims
    mtime_ns: int = 0
    recoded: bool = False

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
    """All files found, by name, and all that were left out."""

    files: tuple[SourceFile, ...]
    skipped: tuple[SkippedFile, ...]


_TORCHRUN = re.compile(r"(?:^|/)attempt_(\d+)/(\d+)/(?:(stdout|stderr)\.log|error\.json)$")
_ATTEMPT = re.compile(r"(?:^|[._/-])(?:attempt|restart|retry)[._-]?(\d{1,4})(?=[._/-]|$)", re.I)
_LOCAL_RANK = re.compile(r"(?:^|[._/-])local_?rank[._-]?(\d{1,5})(?!\d)", re.I)
_OTHER_RANK = r"(?<!local)(?<!local[_-])(?<!node)(?<!node[_-])(?<!group)(?<!group[_-])"
_RANK = re.compile(rf"(?:^|[^a-z]|global_?){_OTHER_RANK}rank[._-]?(\d{{1,6}})(?!\d)", re.I)
_PROC = re.compile(r"(?:^|/)(?:proc|process)[._-]?(\d{1,6})(?=\.|/|$)", re.I)
# nccl.%h.%p.log: the host may have dots, the process id is the last number
_NCCL_FILE = re.compile(
    r"(?:^|/)nccl(?:[._-]?debug)?[._-]([\w-]+(?:\.[\w-]*[a-z][\w-]*)*)\.(\d{1,8})(?:\.(?:log|txt|out))?$", re.I
)
_K8S_FILE = re.compile(r"(?:^|/)([a-z0-9][a-z0-9.-]*)_([a-z0-9-]+)_([a-z0-9][a-z0-9.-]*)-([0-9a-f]{64})\.log")
_K8S_PODS = re.compile(r"(?:^|/)([a-z0-9-]+)_([a-z0-9][a-z0-9.-]*)_([0-9a-f][0-9a-f-]{5,})/([a-z0-9.-]+)/(\d+)\.log")
_POD_DIR = re.compile(r"(?:^|/)([a-z0-9][a-z0-9.-]*-\d+|[a-z0-9.-]+-[a-z0-9]{5})/([a-z][a-z0-9.-]*)/(\d+)\.log")
_SUBMITIT = re.compile(r"(?:^|/)\d+(?:_\d+)?_(\d{1,5})_log\.(?:out|err)$")
_STREAM = re.compile(r"(?:^|[._/-])(stdout|stderr|out|err)(?=[._/-]|$)(?!.*/)", re.I)
_EXTENSIONS = re.compile(r"(?:\.(?:log|txt|out|err|json|jsonl|gz|bz2|xz|zst|journal|stdout|stderr))+$", re.I)
_ROTATION = re.compile(r"(?<=\.(?:log|out|err|txt))\.\d{1,3}$")
_NO_SERIES = re.compile(r"(?:worker|master|launcher|node|run|part)s?[._-]$")
_SERIES = re.compile(r"^(.*?[._-](?:task|t)?)(\d{1,5})((?:\.\w+)*)$")


def path_claims(name: str) -> PathClaims:
    """What a path relative to LOGDIR claims, sibling files left aside.

    >>> path_claims("none_x1/attempt_0/3/stderr.log").local_rank
    3
    """
    parts = name.split("/")
    stem = _EXTENSIONS.sub("", _ROTATION.sub("", parts[-1]))
    tokens = dict.fromkeys([*parts[:-1], stem])
    for part in [*parts[:-1], stem]:
        if "_" in part or "." in part:
            tokens |= dict.fromkeys(piece for piece in re.split(r"[._]", part) if piece)
    rank = local_rank = task = attempt = pid = None
    node: str | None = None
    stream: Stream | None = None
    if match := _STREAM.search(name):
        stream = "stderr" if match[1].lower().endswith("err") else "stdout"
    if match := _ATTEMPT.search(name):
        attempt = int(match[1])
    if match := _TORCHRUN.search(name):
        attempt, local_rank = int(match[1]), int(match[2])
    if match := _LOCAL_RANK.search(name):
        local_rank = int(match[1])
    if (match := _RANK.search(name)) or (match := _PROC.search(name)):
        rank = int(match[1])
    if match := _NCCL_FILE.search(name):
        node, pid = match[1], int(match[2])
    if match := _SUBMITIT.search(name):
        task = int(match[1])
    if match := _K8S_FILE.search(name):
        node = match[1]
    elif match := _K8S_PODS.search(name):
        node, attempt = match[2], int(match[5])
    elif match := _POD_DIR.search(name):
        node, attempt = match[1], int(match[3])
    if node:
        tokens = {node: None, **tokens}
    return PathClaims(rank, local_rank, task, attempt, node, stream, tuple(tokens), pid)


def _with_series(files: list[SourceFile]) -> list[SourceFile]:
    """Add ``task`` where sibling names form a series that starts at 0: ``slurm-77_0.out``, ``slurm-77_1.out``, …"""
    series: dict[tuple[str, str, str], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for index, file in enumerate(files):
        claims = file.claims
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


_SOURCE_CODE = frozenset({".py", ".pyc", ".ipynb", ".cpp", ".cc", ".cu", ".h", ".hpp", ".so", ".whl"})
_MODEL_FILES = frozenset({"tokenizer.json", "vocab.json", "merges.txt", "tokenizer_config.json", "vocab.txt"})


def _name_reason(base: str) -> str | None:
    suffix = Path(base).suffix.lower()
    if suffix in _SOURCE_CODE:
        return "program code, not a log"
    if base in _MODEL_FILES or base.endswith(".index.json"):
        return "a model's own file, not a log"
    return None


def discover(paths: Sequence[Path]) -> Discovery:
    """All readable logs below the given folders or files.

    Raises UsageError for a path that does not exist, NothingReadable when no file can be read at all.
    """
    files: list[SourceFile] = []
    skipped: list[SkippedFile] = []
    roots = [Path(path) for path in paths]
    if not roots:
        raise UsageError("no path given: name a folder with logs or a log file")
    seen: set[tuple[int, int]] = set()
    for root in roots:
        try:
            info = root.stat()
        except PermissionError as error:
            raise UsageError(f"no permission to read {root}") from error
        except OSError as error:
            reason = "does not exist" if not root.is_symlink() else "is a link that leads nowhere"
            raise UsageError(f"{root} {reason}") from error
        prefix = f"{root.name}/" if len(roots) > 1 and stat.S_ISDIR(info.st_mode) else ""
        folder = stat.S_ISDIR(info.st_mode)
        found = _walk(root, prefix, skipped, seen) if folder else iter([(root, root.name, info)])
        for path, name, status in found:
            _classify(path.absolute(), name, status, files, skipped, seen)
    if not files:
        where = ", ".join(str(root) for root in roots)
        why = ""
        if skipped:
            why = f" ({skipped[0].name}: {skipped[0].why})" if len(skipped) == 1 else f" ({len(skipped)} files skipped)"
        raise NothingReadable(f"no readable log in {where}{why}")
    files.sort(key=lambda file: file.name)
    return Discovery(tuple(_with_series(files)), tuple(sorted(skipped, key=lambda s: s.name)))


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
                if entry.is_symlink() and (key in seen or _is_within(entry.path, root)):
                    skipped.append(SkippedFile(name, "a link to a folder that is read anyway"))
                    continue
                if key not in seen:
                    seen.add(key)
                    pending.append((entry.path, f"{relative}{entry.name}/"))
            else:
                yield Path(entry.path), name, status


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


def _classify(
    path: Path,
    name: str,
    status: os.stat_result,
    files: list[SourceFile],
    skipped: list[SkippedFile],
    seen: set[tuple[int, int]],
) -> None:
    if not stat.S_ISREG(status.st_mode):
        what = next((what for test, what in _SPECIAL if test(status.st_mode)), "not a regular file")
        skipped.append(SkippedFile(name, what))
        return
    key = (status.st_dev, status.st_ino)
    if key in seen:
        skipped.append(SkippedFile(name, "the same file under another name"))
        return
    seen.add(key)
    reason = _name_reason(path.name)
    compression: str | None = None
    recoded = False
    if reason is None and status.st_size:
        try:
            with path.open("rb", buffering=0) as stream:
                head = stream.read(SNIFF_BYTES)
            compression = compression_of(head)
            recoded = utf16_of(head) is not None
            reason = binary_reason(read_head(path, compression) if compression else head)
        except OSError as error:
            reason = _os_reason(error, "file")
    if reason is not None:
        skipped.append(SkippedFile(name, reason))
        return
    claims = path_claims(re.sub(r"\.(?:gz|bz2|xz|zst)$", "", name))
    files.append(SourceFile(path, name, status.st_size, compression, claims, status.st_mtime_ns, recoded))
