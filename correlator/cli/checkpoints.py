"""`correlator checkpoints`: every checkpoint in a folder, whole or not and why, and which one to resume from."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from correlator.cli._options import Output, named
from correlator.cli._output import check_output, form_of, write_output, write_stdout


class Format(StrEnum):
    """Forms of the answer."""

    text = "text"
    json = "json"


#: The form that the ending of FILE asks for.
_ENDINGS = {".txt": Format.text, ".text": Format.text, ".log": Format.text, ".json": Format.json}


def _size(of: str) -> Any:
    return typer.Option(metavar="N", min=1, help=f"{of} of the next run.")


def run(
    folder: Annotated[str, typer.Argument(metavar="DIR", callback=named, help="Folder of the checkpoints.")],
    world_size: Annotated[int | None, _size("Ranks")] = None,
    tp: Annotated[int | None, _size("Tensor parallel size")] = None,
    pp: Annotated[int | None, _size("Pipeline parallel size")] = None,
    dp: Annotated[int | None, _size("Data parallel size")] = None,
    cp: Annotated[int | None, _size("Context parallel size")] = None,
    ep: Annotated[int | None, _size("Expert parallel size")] = None,
    deep: Annotated[bool, typer.Option("--deep", help="Read every byte: checksums, and all numbers for NaN.")] = False,
    format: Annotated[
        Format | None, typer.Option(help="Form of the answer; by default text, or what the ending of FILE says.")
    ] = None,
    output: Output = None,
) -> int:
    """List every checkpoint and which one to resume from.

    Of each: whether it is whole and if not why, and its topology; with the sizes of the next run, whether it fits them.
    """
    check_output(output, [folder])
    import msgspec

    from correlator.checkpoints import scan
    from correlator.checkpoints.fit import contradiction
    from correlator.checkpoints.listing import describe
    from correlator.cli._progress import progress_on_stderr
    from correlator.errors import UsageError
    from correlator.report.checkpoints import checkpoint_page
    from correlator.report.layout import render_for, render_plain
    from correlator.report.safe import visible_json

    chosen = format or form_of(output, _ENDINGS, Format.text)
    sizes = {"world": world_size, "tp": tp, "pp": pp, "dp": dp, "cp": cp, "ep": ep}
    asked = {name: size for name, size in sizes.items() if size is not None}
    if wrong := contradiction(asked):
        raise UsageError(f"no run has these sizes: {wrong}")
    with progress_on_stderr("files") as progress:
        inventory = scan(Path(folder), deep=deep, progress=progress)
    found = describe(inventory, asked)
    if chosen is Format.json:
        data = msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n"
        write_output(output, visible_json(data))
        return 0
    if output and output != "-":
        write_output(output, render_plain(checkpoint_page(found)).encode())
    else:
        write_stdout(render_for(sys.stdout, checkpoint_page(found)))
    return 0
