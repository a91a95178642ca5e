"""`correlator checkpoints`: every checkpoint in a folder, whole or not and why, and which one to resume from."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from correlator.cli._output import check_output, write_output, write_stdout


class Format(StrEnum):
    """Forms of the answer."""

    text = "text"
    json = "json"


_Size = typer.Option(metavar="N", min=1, help="Size the next run is to have, to say which checkpoints fit it.")


def run(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Folder of the checkpoints.")],
    world_size: Annotated[int | None, typer.Option(metavar="N", min=1, help="Ranks of the next run.")] = None,
    tp: Annotated[int | None, _Size] = None,
    pp: Annotated[int | None, _Size] = None,
    dp: Annotated[int | None, _Size] = None,
    cp: Annotated[int | None, _Size] = None,
    ep: Annotated[int | None, _Size] = None,
    deep: Annotated[bool, typer.Option("--deep", help="Read every byte: checksums, and all numbers for NaN.")] = False,
    format: Annotated[
        Format | None, typer.Option(help="Form of the answer; by default text, or what the ending of FILE says.")
    ] = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="Write to FILE and not to standard output.")
    ] = None,
) -> int:
    """List every checkpoint in DIR: whole or not, why, its topology, and which one to resume from."""
    check_output(output, [folder])
    import msgspec

    from correlator.checkpoints import scan
    from correlator.checkpoints.listing import describe
    from correlator.report.safe import visible_json, visible_lines

    asked = {"world": world_size, "tp": tp, "pp": pp, "dp": dp, "cp": cp, "ep": ep}
    found = describe(scan(Path(folder), deep=deep), {name: size for name, size in asked.items() if size is not None})
    chosen = format or (Format.json if output and Path(output).suffix.lower() == ".json" else Format.text)
    if chosen is Format.json:
        data = msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n"
        write_output(output, visible_json(data))
        return 0
    text = "\n".join(visible_lines(found.text())) + "\n"
    if output and output != "-":
        write_output(output, text.encode())
    else:
        write_stdout(text)
    return 0
