"""The command `correlator`: one module a command; `main` is where it starts and where every error ends.

Exit codes: 0 done; 2 wrong usage, or nothing readable; 1 an internal error, in one line (CORRELATOR_DEBUG=1 shows the
traceback). `diagnose --exit-code` adds its own. Modules here import what is heavy inside their functions, so that
``--help`` answers at once.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

import typer

from correlator.cli import bundle, checkpoints, diagnose, explain, graph, ingest, preflight, schema, serve, signatures
from correlator.cli._output import open_closed_streams, stdout_failed, write_stderr, write_stdout
from correlator.errors import CorrelatorError, UsageError

_app = typer.Typer(
    name="correlator",
    help="Which rank failed first in a dead multi-node training job, whose fault it was, and where to resume.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
for _module in (diagnose, ingest, graph, checkpoints, preflight, explain, signatures, serve, schema):
    _app.command(_module.__name__.rpartition(".")[2])(_module.run)
_app.add_typer(bundle.app, name="bundle")

_INTERRUPTED = 130

#: Characters of a message on standard error.
_LONGEST = 500


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        write_stdout(f"correlator {version('rank-correlator')}\n")
        raise typer.Exit


@_app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line (``sys.argv`` by default) and gives the exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    open_closed_streams()
    _clean_up_when_terminated()
    try:
        code = _app(args=given or ["--help"], prog_name="correlator", standalone_mode=False)
        if not given:
            return 2
        if code == _INTERRUPTED:  # typer makes this of Ctrl-C
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        write_stderr("interrupted\n")
        return _INTERRUPTED
    except SystemExit as leaving:
        if isinstance(leaving.__context__, BrokenPipeError):  # what typer makes of a help page that nobody reads on
            return 0
        raise
    except BaseException as fault:  # BaseException: a panic in a native library is not an Exception
        if isinstance(fault, OSError) and (said := stdout_failed(fault)):
            return _say(said)
        if os.environ.get("CORRELATOR_DEBUG", "") not in ("", "0"):
            raise
        return _report(fault)
    return code if isinstance(code, int) else 0


def _clean_up_when_terminated() -> None:
    """SIGTERM, which schedulers send, ends the program as an exception does: nothing half-written is left."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _leave)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _report(fault: BaseException) -> int:
    """Says in one line what went wrong and gives the exit code."""
    # Wrong options: the class behind typer's errors differs by version, this method does not.
    describe = getattr(fault, "format_message", None)
    if describe:
        # How the option was checked is nobody's business.
        said = describe().replace("Value error, ", "").partition(", unable to parse")[0].rstrip(".")
        command = getattr(getattr(fault, "ctx", None), "command_path", "correlator")
        return _say(said, f" ({command} --help shows how)")
    if isinstance(fault, CorrelatorError):
        return _say(str(fault), code=2 if isinstance(fault, UsageError) else 1)
    text = f"internal error: {type(fault).__name__}: {str(fault).strip() or 'no message'}"
    return _say(text, " (CORRELATOR_DEBUG=1 shows where)", code=1)


def _say(text: str, hint: str = "", code: int = 2) -> int:
    """Writes one line to standard error, the middle left out where it is long (a path can be); gives the exit code."""
    text = " ".join(text.split())
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 2 :]}"
    write_stderr(f"correlator: {text}{hint}\n")
    return code
