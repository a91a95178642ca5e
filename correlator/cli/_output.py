"""Where results go: standard output, or a file that is there whole or not at all and is never one of the inputs."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from correlator.errors import UsageError
from correlator.report.safe import visible_lines


def write_stdout(text: str | bytes) -> None:
    """Writes to standard output. A reader that has gone away (``| head``) is no error."""
    try:
        if isinstance(text, bytes):
            sys.stdout.flush()
            sys.stdout.buffer.write(text)
            sys.stdout.buffer.flush()
        else:
            sys.stdout.write(text)
            sys.stdout.flush()
    except BrokenPipeError:
        # What is still buffered would raise again when the interpreter closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write_stderr(text: str) -> None:
    """Writes a message to standard error, made harmless."""
    with contextlib.suppress(OSError):
        sys.stderr.write("\n".join(visible_lines(text)))
        sys.stderr.flush()


def check_output(output: str, inputs: Sequence[str] = ()) -> None:
    """Raises UsageError where ``output`` cannot be a result file: a folder, in no folder, or one of the inputs."""
    path = Path(output)
    if output == "-" or (path.exists() and not path.is_dir() and not path.is_file()):
        return
    if path.is_dir():
        raise UsageError(f"-o {output} is a folder; name a file")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"the folder of -o {output} does not exist")
    if path.exists() and any(_is_input(path, place) for place in inputs if place != "-" and "://" not in place):
        raise UsageError(f"-o {output} is one of the inputs and would be overwritten; choose another file")


def _is_input(path: Path, place: str) -> bool:
    given = Path(place)
    if given.is_dir():
        return path.resolve().is_relative_to(given.resolve())
    return given.exists() and given.samefile(path)


def write_output(output: str, data: bytes) -> None:
    """Writes a result file under a temporary name and renames it; ``-`` is standard output.

    Raises UsageError where the place cannot be written.
    """
    if output == "-":
        write_stdout(data)
        return
    path = Path(output)
    try:
        if path.exists() and not path.is_file():  # a device or a pipe: nothing to rename
            path.write_bytes(data)
            return
        path = path.resolve()  # a link stays a link
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            with temporary.open("xb") as file:
                file.write(data)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as fault:
        raise UsageError(f"cannot write {output}: {fault.strerror or fault}") from None
