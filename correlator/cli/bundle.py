"""`correlator bundle`: the evidence for a return of a part; `correlator bundle verify`: the check of one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from correlator.cli._options import Logs, Timezone, Workers
from correlator.cli._output import check_output, write_stderr, write_stdout
from correlator.errors import UsageError

_UNITS = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}


class _Commands(TyperGroup):
    """Makes a bundle unless the first argument is ``verify``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """What typer parses: with the hidden command in front where none is named."""
        if not args or args[0] not in self.commands:
            args = ["make", *(args or ["--help"])]
        return super().parse_args(ctx, args)


app = typer.Typer(cls=_Commands, rich_markup_mode=None, help="Pack the evidence for the return of a part (BagIt).")


def _size(text: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmg]?)b?", text.strip().lower())
    if not found:
        raise UsageError(f"--max-size {text!r} is no size such as 50M")
    return int(float(found[1]) * _UNITS[found[2]])


@app.command("make", hidden=True, epilog="`correlator bundle verify BUNDLE` checks one.")
def make(
    logs: Logs,
    output: Annotated[str, typer.Option("-o", "--output", metavar="OUT[.zip]", help="Folder or zip file to write.")],
    node: Annotated[
        str | None, typer.Option(metavar="NAME", help="Node of the part; by default the one that failed first.")
    ] = None,
    gpu: Annotated[int | None, typer.Option(metavar="I", min=0, help="GPU by its index on the node.")] = None,
    pci: Annotated[str | None, typer.Option(metavar="ID", help="GPU by its PCI address, in any spelling.")] = None,
    serial: Annotated[str | None, typer.Option(metavar="S", help="GPU by its serial number.")] = None,
    redact: Annotated[str, typer.Option(metavar="LEVEL", help="none, default, or strict.")] = "default",
    mask: Annotated[
        list[str], typer.Option(metavar="KIND", help="Mask this kind too: host, account, path (may be repeated).")
    ] = [],  # noqa: B006
    keep: Annotated[
        list[str], typer.Option(metavar="KIND", help="Do not mask this kind: ip, mac, user … (may be repeated).")
    ] = [],  # noqa: B006
    private_map: Annotated[
        Path | None,
        typer.Option(
            "--map", metavar="FILE", help="Private map of placeholders, continued if it is there; OUT.private-map.json."
        ),
    ] = None,
    max_size: Annotated[str, typer.Option(metavar="SIZE", help="Most that the bundle may hold, unpacked.")] = "50M",
    force: Annotated[bool, typer.Option("--force", help="Make one although no hardware fault is shown.")] = False,
    operator: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who makes it, for the chain of custody; not masked.")
    ] = None,
    timezone: Timezone = None,
    workers: Workers = None,
) -> int:
    """Pack the evidence for the return of a part as a BagIt bag, a folder or a zip file."""
    size = _size(max_size)
    check_output(output, logs)
    check_output(str(private_map) if private_map else None, logs)
    from correlator.bundle.build import Options, write_bundle
    from correlator.bundle.redaction import kinds_at
    from correlator.bundle.subject import Choice
    from correlator.cli._progress import progress_on_stderr
    from correlator.ingest.nothing import require_text
    from correlator.pipeline import diagnose

    kinds_at(redact, mask, keep)  # a wrong level is said before anything is read
    with progress_on_stderr() as progress:
        diagnosis = diagnose(*logs, timezone=timezone, workers=workers, progress=progress)
    if not diagnosis.document.inputs.events:
        require_text(diagnosis.facts.ingested, logs)
    options = Options(
        places=tuple(logs), choice=Choice(node, gpu, pci, serial), redact=redact, mask=tuple(mask), keep=tuple(keep),
        private_map=private_map, max_size=size, force=force, operator=operator,
    )  # fmt: skip
    bundle = write_bundle(diagnosis, Path(output), options)
    write_stdout(f"{bundle.decision.status}: {bundle.decision.headline}\n")
    for entry in bundle.decision.missing:
        where = f" on {entry.node}" if entry.node else ""
        write_stdout(f"  missing{where}: {entry.what}{f': {entry.command}' if entry.command else ''}\n")
    for text in bundle.left_out:
        write_stderr(f"correlator: left out: {text}\n")
    for text in bundle.problems:
        write_stderr(f"correlator: {text}\n")
    write_stderr(f"{bundle.files} files, {bundle.bytes / 1e6:.1f} MB written to {output}\n")
    if bundle.private_map:
        write_stderr(f"what the placeholders stand for: {bundle.private_map} (keep it; it is not part of the bundle)\n")
    return 0


@app.command("verify")
def verify(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="Folder or zip file of a bundle.")],
    logs: Annotated[
        list[str], typer.Option(metavar="LOGDIR", help="Where the logs are, to compare the excerpts (may be repeated).")
    ] = [],  # noqa: B006
    private_map: Annotated[
        Path | None, typer.Option("--map", metavar="FILE", help="Private map; by default BUNDLE.private-map.json.")
    ] = None,
) -> int:
    """Check a bundle: whole, unchanged, and its excerpts as the logs have them. Exit code 1 where it is not."""
    from correlator.bundle.verify import verify_bundle

    beside = bundle.with_name(f"{bundle.name}.private-map.json")
    report = verify_bundle(bundle, logs=logs, private_map=private_map or (beside if beside.exists() else None))
    for text in report.checked:
        write_stdout(f"checked: {text}\n")
    for text in report.unchecked:
        write_stdout(f"not checked: {text}\n")
    for text in report.problems:
        write_stdout(f"WRONG: {text}\n")
    found = len(report.problems)
    write_stdout(f"{bundle}: {'sound' if not found else '1 problem' if found == 1 else f'{found} problems'}\n")
    return 0 if report.is_sound else 1
