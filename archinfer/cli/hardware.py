"""`archinfer hardware`: list, show and lint hardware profiles."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="List, show and check hardware profiles.")

# Below this the column of sources would be too narrow to read.
_TABLE_WIDTH = 80


class Format(StrEnum):
    """Output formats."""

    table = "table"
    json = "json"


@app.command("list")
def list_profiles(
    output: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.table,
) -> None:
    """List the shipped profiles."""
    from archinfer.hardware.profile import Hardware

    profiles = [Hardware.load(name) for name in Hardware.names()]
    if output is Format.json:
        from archinfer.cli.common import print_json

        print_json([{"name": h.name, "title": h.title, "execution": h.execution} for h in profiles])
        return

    from archinfer.report.tables import new_console, print_table
    from archinfer.units import format_quantity

    rows = [
        [
            h.name,
            h.execution,
            format_quantity(float(h.memory_capacity_bytes), "bytes"),
            format_quantity(float(h.bandwidth_bytes_per_s), "bytes_per_s"),
            h.title,
        ]
        for h in profiles
    ]
    headings = ("name", "execution", "memory", "bandwidth", "what it is")
    print_table(new_console(), "", headings, rows)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="Name of a shipped profile, or a path.")],
    output: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.table,
) -> None:
    """Show every figure of a profile, how sure it is and where it comes from."""
    from archinfer.hardware.profile import Hardware

    hardware = Hardware.load(name)
    if output is Format.json:
        from archinfer.cli.common import print_json

        print_json(hardware.to_dict())
        return

    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from archinfer.report.tables import new_console

    console = new_console()
    console.print(Text(f"{hardware.name}: {hardware.title}", style="bold"))
    console.print(Text(f"one node is a {hardware.node}; {hardware.execution} execution"))
    if hardware.usual_software:
        console.print(Text(f"constants are those of: {hardware.usual_software}"))
    for other, factor, sd in hardware.software:
        spread = f" (log sd {sd:.2g})" if sd else ""
        console.print(Text(f"speed with {other}: x {factor:.3g}{spread}"))
    console.print()
    rows = [
        (row["key"], row["text"], f"{row['log_sd']:.2g}" if row["log_sd"] else "", row["source"])
        for row in hardware.provenance()
    ]
    if console.width < _TABLE_WIDTH:
        for key, value, spread, source in rows:
            console.print(Text(f"{key}: {value}" + (f" (log sd {spread})" if spread else "")))
            console.print(Padding(Text(source, style="dim"), (0, 0, 0, 2)))
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("figure", no_wrap=True)
    table.add_column("value")
    table.add_column("log sd", justify="right")
    table.add_column("source", overflow="fold")
    for key, value, spread, source in rows:
        table.add_row(key, Text(value), spread, Text(source))
    console.print(table)


@app.command()
def lint(
    files: Annotated[list[str], typer.Argument(help="Profiles to check: paths or names.")],
) -> None:
    """Check profiles; exit code 2 if one is wrong."""
    from archinfer.errors import InputError
    from archinfer.hardware.profile import Hardware

    wrong = False
    for file in files:
        try:
            hardware = Hardware.load(file)
        except InputError as error:
            wrong = True
            typer.echo(f"error: {error}", err=True)
        else:
            typer.echo(f"{file}: OK ({hardware.name}, {len(hardware.figures)} figures)")
    if wrong:
        raise typer.Exit(2)
