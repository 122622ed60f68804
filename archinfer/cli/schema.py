"""`archinfer schema`: JSON Schemas of the files it reads and of the JSON it prints."""

from __future__ import annotations

from typing import Annotated

import typer


def schema(
    name: Annotated[
        str | None, typer.Argument(help="Which schema; without a name all of them are listed.")
    ] = None,
) -> None:
    """Print a JSON Schema: of a file format, or of what a command prints with --format json."""
    from archinfer.schemas import SCHEMAS, json_schema

    if name is None:
        width = max(map(len, SCHEMAS))
        for key, entry in SCHEMAS.items():
            typer.echo(f"{key:<{width}}  {entry.text}")
        return

    from archinfer.cli.output import print_json

    print_json(json_schema(name))
