"""`archinfer evidence`: files of what was observed of one service, read and checked."""

from __future__ import annotations

from typing import Annotated

import typer

from archinfer.cli.examples import init_option, write_example

EXAMPLE_NAME = "evidence.yaml"


def evidence(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="FILE...", help="Evidence files in YAML.")
    ] = None,
    init: Annotated[bool, init_option(EXAMPLE_NAME)] = False,
) -> None:
    """Check evidence files, which solve reads with --evidence; exit code 2 if one is wrong."""
    from archinfer.api.evidence import read_evidence
    from archinfer.cli.output import each
    from archinfer.errors import InputError, printable
    from archinfer.units import format_range

    if init:
        write_example(files or [], EXAMPLE_NAME, "evidence-example.yaml", "solve --evidence")
        return
    if not files:
        raise InputError("expected at least one evidence file (--init writes an example)")
    for file, found in each(files, read_evidence):
        typer.echo(printable(f"{file}: OK"))
        for piece in found.pieces:
            typer.echo(printable(f"  {piece.text}"))
        for name, value in found.facts.items():
            shown = value if isinstance(value, str) else format_range(value[0], value[1], "count")
            typer.echo(printable(f"  {name} {shown}"))
        for lane in found.deployments:
            machines = " or ".join(machine.name for machine in lane.hardware)
            typer.echo(printable(f"  {lane.name}: {machines}"))
