"""Commented examples of the files that commands read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import typer


def init_option(usual: str) -> Any:
    """`--init` of a command whose files are called `usual` where no name is given."""
    return typer.Option(
        "--init", help=f"Write a commented example to FILE (default {usual}) and stop."
    )


def example(shipped: str, name: str) -> str:
    """A commented example of the package's data, for a file that is to be called `name`."""
    from importlib.resources import files

    from archinfer.errors import printable

    text = (files("archinfer") / "data" / shipped).read_text(encoding="utf-8")
    return text.replace("FILE", printable(name))


def write_example(names: Sequence[str], usual: str, shipped: str, command: str) -> None:
    """Write a commented example where there is no such file yet, and say what reads it.

    Args:
        names: of the file; none: `usual`.
        usual: name of the file where none is given.
        shipped: the example in the package's data.
        command: what reads the file.
    """
    from archinfer.errors import InputError, printable
    from archinfer.writing import check_target, write

    if len(names) > 1:
        raise InputError(f"--init writes one file, found {len(names)} names")
    path = names[0] if names else usual
    check_target("--init", path)
    write(path, example(shipped, os.path.basename(path)).encode(), replace=False)
    typer.echo(printable(f"{path}: written; now run archinfer {command} {path}"))
