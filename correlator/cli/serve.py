"""`correlator serve`: the same in a local web page."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from correlator.cli._options import Timezone
from correlator.cli._output import write_stderr, write_stdout
from correlator.errors import UsageError

if TYPE_CHECKING:
    import socket

#: The environment and not an option: everyone on a machine can read the arguments of its processes.
TOKEN_VARIABLE = "CORRELATOR_TOKEN"


def run(
    logdirs: Annotated[
        list[str] | None,
        typer.Argument(metavar="LOGDIR", help="Folders that the page may open; it reads nothing else."),
    ] = None,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen on; one that others reach needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="0: any that is free.")] = 8765,
    token: Annotated[
        bool, typer.Option("--token", help=f"Ask for a token also on loopback. ${TOKEN_VARIABLE} states it.")
    ] = False,
    certificate: Annotated[
        str | None, typer.Option(metavar="FILE", help="Certificate chain and key (PEM), for https.")
    ] = None,
    max_upload: Annotated[int, typer.Option(metavar="MIB", min=1, help="Most that one request may send.")] = 256,
    max_disk: Annotated[int, typer.Option(metavar="MIB", min=1, help="Most temporary disk space.")] = 8192,
    max_memory: Annotated[
        int, typer.Option(metavar="MIB", min=1, help="Most memory of one diagnosis (where there is /proc).")
    ] = 4096,
    time_limit: Annotated[int, typer.Option(metavar="SECONDS", min=1, help="Longest diagnosis.")] = 300,
    parallel: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=64, help="Diagnoses at a time; one a core by default.")
    ] = None,
    keep: Annotated[
        str | None, typer.Option(metavar="DIR", help="Keep a copy of each report in DIR; else nothing is kept.")
    ] = None,
    timezone: Timezone = None,
) -> int:
    """Paste logs, drop files or open a folder in a local web page."""
    try:
        import uvicorn

        from correlator.web.app import make_app
        from correlator.web.settings import LOOPBACK_NAMES, Settings
    except ImportError as error:
        raise UsageError(f"serve needs the extra `web`: pip install 'rank-correlator[web]' ({error.name})") from None
    roots, kept = tuple(map(_folder, logdirs or [])), _folder(keep) if keep is not None else None
    if certificate is not None and not Path(certificate).is_file():
        raise UsageError(f"--certificate {certificate} is no file")
    with _listen(host, port) as listening:
        loopback = _is_loopback(listening)
        secret = _token(needed=token or not loopback)
        settings = Settings(
            roots=roots,
            token=secret,
            hosts=LOOPBACK_NAMES if loopback else None,
            max_upload=max_upload << 20,
            max_disk=max_disk << 20,
            max_memory=max_memory << 20,
            time_limit=time_limit,
            parallel=parallel or os.cpu_count() or 1,
            keep=kept,
            timezone=timezone,
        )
        config = uvicorn.Config(
            make_app(settings), log_level="warning", access_log=False, server_header=False, proxy_headers=False,
            ssl_certfile=certificate, lifespan="on", timeout_graceful_shutdown=2,
        )  # fmt: skip
        write_stdout(f"{'https' if certificate else 'http'}://{_shown(listening)}/\n")
        if secret is not None and TOKEN_VARIABLE not in os.environ:
            write_stdout(f"token: {secret}\n")
        if not loopback and certificate is None:
            write_stderr(
                "correlator: the connection is not encrypted; --certificate FILE or an ssh tunnel mends that\n"
            )
        uvicorn.Server(config).run(sockets=[listening])
    return 0


def _listen(host: str, port: int) -> socket.socket:
    """The port, open. Raises UsageError where that is not possible."""
    import socket

    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address[:2], family=family)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        hint = "; --port 0 takes any free one" if getattr(error, "errno", None) == errno.EADDRINUSE else ""
        raise UsageError(f"cannot listen on {host or 'no address'} port {port}: {why}{hint}") from None


def _is_loopback(listening: socket.socket) -> bool:
    """Whether only this machine reaches it, judged by the address that it really has."""
    from ipaddress import ip_address

    return ip_address(listening.getsockname()[0]).is_loopback


def _shown(listening: socket.socket) -> str:
    address, port = listening.getsockname()[:2]
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _token(*, needed: bool) -> str | None:
    """The token that the environment states, or one that is made when there must be one."""
    import secrets

    from correlator.web.settings import LEAST_TOKEN

    stated = os.environ.get(TOKEN_VARIABLE)
    if stated is not None and len(stated) < LEAST_TOKEN:
        raise UsageError(f"{TOKEN_VARIABLE} is shorter than {LEAST_TOKEN} characters; without it one is made")
    return stated or (secrets.token_urlsafe(32) if needed else None)


def _folder(place: str) -> Path:
    path = Path(place)
    if not place or not path.is_dir():
        raise UsageError(f"{place or 'an empty path'} is no folder")
    return path.resolve()
