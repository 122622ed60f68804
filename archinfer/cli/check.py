"""`archinfer check`: expectations in YAML, for CI."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from archinfer.cli.examples import init_option, write_example
from archinfer.errors import printable

if TYPE_CHECKING:
    from archinfer.checks.results import Report

EXAMPLE_NAME = "archinfer-checks.yaml"


class Format(StrEnum):
    """Output formats."""

    table = "table"
    json = "json"
    junit = "junit"
    github = "github"


def check(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="FILE...", help="Check files in YAML.")
    ] = None,
    output: Annotated[
        Format, typer.Option("--format", help="How to print; junit and github are for CI servers.")
    ] = Format.table,
    lint: Annotated[
        bool, typer.Option("--lint", help="Only read the files and what they name.")
    ] = False,
    init: Annotated[bool, init_option(EXAMPLE_NAME)] = False,
) -> None:
    """Hold expectations about models and hardware against the model.

    Exit code 0: all hold; 1: some fail; 2: a file is wrong.
    """
    from archinfer.errors import InputError

    files = files or []
    if init:
        write_example(files, EXAMPLE_NAME, "checks-example.yaml", "check")
        return
    if not files:
        raise InputError("expected at least one check file (--init writes an example)")

    from archinfer.checks.run import check as held
    from archinfer.cli.output import say
    from archinfer.errors import FileError

    report = held(files, evaluate=not lint)
    for kind, remarks in (("error", report.errors), ("warning", report.warnings)):
        for remark in remarks:
            said = FileError(remark.file, remark.message, remark.line)
            say(f"{kind}: {said}")
    _show(report, output, files if lint else [])
    if report.exit_code:
        raise typer.Exit(report.exit_code)


def _show(report: Report, output: Format, linted: list[str]) -> None:
    """The results; of files that were only read, which are right."""
    from archinfer.cli.output import print_json
    from archinfer.report import checks as told
    from archinfer.report.terminal import print_document

    if output is Format.json:
        print_json(report)
    elif output is Format.junit:
        typer.echo(told.junit(report))
    elif output is Format.github:
        for line in told.workflow_commands(report):
            typer.echo(line)
    elif linted:
        wrong = {error.file for error in report.errors}
        for file in linted:
            if file not in wrong:
                typer.echo(printable(f"{file}: OK"))
    else:
        print_document(told.document(report))
