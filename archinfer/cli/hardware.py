"""`archinfer hardware`: list, show, begin and lint hardware profiles."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from archinfer.cli.output import Answer, FormatOption, each
from archinfer.cli.output import Format as Every
from archinfer.cli.output import show as show_answer

app = typer.Typer(no_args_is_help=True, help="List, show, begin and check hardware profiles.")


class Format(StrEnum):
    """Output formats."""

    table = "table"
    json = "json"


@app.command("list")
def list_profiles(output: FormatOption = Every.table) -> None:
    """List the shipped profiles."""
    from archinfer.hardware.profile import Hardware
    from archinfer.hardware.starting import ListedHardware
    from archinfer.record import plain
    from archinfer.report.document import flatten
    from archinfer.report.sources import list_document

    profiles = [Hardware.load(name) for name in Hardware.names()]
    names = [ListedHardware(profile) for profile in profiles]
    records = [plain(name) for name in names]
    rows = flatten(records, tuple(records[0]))
    show_answer(Answer(names, lambda _: list_document(profiles), lambda _: rows), output)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="Name of a shipped profile, or a path.")],
    output: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.table,
) -> None:
    """Show every figure of a profile, how sure it is and where it comes from."""
    from archinfer.hardware.profile import Hardware
    from archinfer.report.sources import show_document

    show_answer(Answer(Hardware.load(name), show_document), output)


@app.command()
def init(
    name: Annotated[str, typer.Argument(help="Name of the new profile; the file is NAME.yaml.")],
    like: Annotated[str, typer.Option("--like", help="Profile to start from: name or path.")],
) -> None:
    """Write a commented profile that begins with another machine's figures."""
    from archinfer.hardware.starting import starting_profile
    from archinfer.writing import check_target, write

    text, path = starting_profile(name, like), f"{name}.yaml"
    check_target("NAME", path)
    write(path, text.encode(), replace=False)
    typer.echo(f"{path}: written; change what differs, then run archinfer hardware lint {path}")


@app.command()
def lint(
    files: Annotated[list[str], typer.Argument(help="Profiles to check: paths or names.")],
) -> None:
    """Check profiles; exit code 2 if one is wrong."""
    from archinfer.hardware.profile import Hardware

    for file, found in each(files, Hardware.load):
        typer.echo(f"{file}: OK ({found.name}, {len(found.figures)} figures)")
