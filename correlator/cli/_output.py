"""Where results go: standard output, or a file that is there whole or not at all and is never one of the inputs."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from traceback import walk_tb
from typing import TypeVar

from correlator.errors import UsageError
from correlator.report.safe import visible_lines

Form = TypeVar("Form")


def open_closed_streams() -> None:
    """Opens the null device for every standard stream that the caller closed (``2>&-``).

    Without it the next file that is opened would get the number of the stream, and a library that prints would write
    into that file.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):  # in the order of their numbers
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(null, mode, encoding="utf-8", errors="backslashreplace"))


def write_stdout(text: str | bytes) -> None:
    """Writes to standard output. A reader that has gone away (``| head``) is no error.

    Raises UsageError where it cannot be written (a full disk).
    """
    try:
        if isinstance(text, bytes):
            sys.stdout.flush()
            sys.stdout.buffer.write(text)
            sys.stdout.buffer.flush()
        else:
            encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
            sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
            sys.stdout.flush()
    except OSError as fault:
        _drop_stdout()
        if not isinstance(fault, BrokenPipeError):
            raise UsageError(_not_written("standard output", fault)) from None


def stdout_failed(fault: OSError) -> str | None:
    """What to say if typer could not write a help page to standard output; None for any other fault."""
    innermost = list(walk_tb(fault.__traceback__))[-1][0]
    if innermost.f_globals.get("__name__", "").partition(".")[0] not in ("typer", "click"):
        return None
    _drop_stdout()
    return _not_written("standard output", fault)


def _drop_stdout() -> None:
    # What is still buffered would raise again when the interpreter closes the stream.
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def write_stderr(text: str) -> None:
    """Writes a message to standard error, made harmless."""
    with contextlib.suppress(OSError):
        sys.stderr.write("\n".join(visible_lines(text)))
        sys.stderr.flush()


def check_output(output: str | None, inputs: Sequence[str | None] = (), part: str = "") -> None:
    """Raises UsageError where ``output`` cannot be a result file: a folder, in no folder, or what the command reads.

    ``inputs``: the logs and the checkpoints. No file of theirs is ever replaced, whichever name or link leads to it,
    and nothing is put into their folders: the next run would read it. ``part``: what is written into a folder that
    ``output`` names.
    """
    if output is None or output == "-":
        return
    try:
        path = Path(output, part).resolve()  # what a link leads to is what would be written
        if not output or path.is_dir():
            raise UsageError(f"-o {output} is a folder; name a file" if output else "-o names no file")
        if path.exists() and not path.is_file():  # a device or a pipe
            return
        if not path.parent.is_dir():
            raise UsageError(f"the folder of -o {output} does not exist")
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise UsageError(f"cannot write {output}: no permission to write into its folder")
        status = path.stat() if path.exists() else None
    except (OSError, RuntimeError, ValueError) as fault:  # a name too long, a loop of links, a NUL in it
        raise UsageError(_not_written(output, fault)) from None
    for place in inputs:
        folder = _local(place)
        if folder is None:
            continue
        if status is not None and _is_read(path, status, folder):
            raise UsageError(f"-o {output} is one of the inputs and would be overwritten; choose another file")
        if _is_below(path, folder):
            raise UsageError(f"-o {output} lies in {place}, which is read; choose a place outside of it")


def form_of(output: str | None, endings: Mapping[str, Form], default: Form) -> Form:
    """What the ending of the file says; ``default`` for standard output, a device, or a name without an ending."""
    suffix = Path(output).suffix.lower() if output and output != "-" else ""
    if not suffix or not output or (Path(output).exists() and not Path(output).is_file()):
        return default
    if suffix not in endings:
        raise UsageError(
            f"no form of the answer has the ending {suffix!r}; known are {', '.join(endings)}; or --format"
        )
    return endings[suffix]


def _local(place: str | None) -> Path | None:
    """The folder or file that an argument names; None for what is not there, for a stream and for an address."""
    if not place or place == "-":
        return None
    if "://" in place:
        from correlator.containers.remote import local_path

        path = local_path(place)
    else:
        path = Path(place)
    try:
        return path if path is not None and path.exists() else None
    except (OSError, ValueError):
        return None


def _is_below(path: Path, folder: Path) -> bool:
    """By device and inode: a folder may have two names."""
    return folder.is_dir() and any(parent.samefile(folder) for parent in path.parents)


def _is_read(path: Path, status: os.stat_result, place: Path) -> bool:
    """Whether the file ``path`` with ``status`` is ``place``, or is found under it or behind one of its links."""
    if not place.is_dir():
        return place.samefile(path)
    if _is_below(path, place):
        return True
    pending = [str(place)]
    seen = {(place.stat().st_dev, place.stat().st_ino)}
    while pending:
        with contextlib.suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                # Without a second name only a link can lead to a file elsewhere.
                if not (entry.is_symlink() or entry.is_dir() or status.st_nlink > 1):
                    continue
                with contextlib.suppress(OSError):  # a link that leads nowhere
                    found = entry.stat()
                    if os.path.samestat(found, status):
                        return True
                    key = (found.st_dev, found.st_ino)
                    if not entry.is_dir() or key in seen:
                        continue
                    if entry.is_symlink() and _is_below(path, Path(entry.path)):
                        return True
                    seen.add(key)
                    pending.append(entry.path)
    return False


def write_output(output: str | None, data: bytes) -> None:
    """Writes a result file under a temporary name and renames it; ``-`` (or None) is standard output.

    Raises UsageError where the place cannot be written; an old file is then as it was.
    """
    if output is None or output == "-":
        write_stdout(data)
        return
    try:
        path = Path(output).resolve()  # a link stays a link
        if path.exists() and not path.is_file():  # a device or a pipe: nothing to rename
            path.write_bytes(data)
            return
        temporary = path.with_name(f".correlator-{secrets.token_hex(8)}.tmp")
        try:
            with temporary.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())  # a disk may say only now that it is full
            if path.exists():
                shutil.copymode(path, temporary)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except (OSError, RuntimeError, ValueError) as fault:
        raise UsageError(_not_written(output, fault)) from None


def _not_written(what: str, fault: Exception) -> str:
    return f"cannot write {what}: {getattr(fault, 'strerror', None) or fault}"
