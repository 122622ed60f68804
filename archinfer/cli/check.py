"""`archinfer check`: expectations in YAML, for CI."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from archinfer.checks.run import Report

EXAMPLE_NAME = "archinfer-checks.yaml"

EXAMPLE = """\
# What this project counts on. `archinfer check {name}` holds it against the model:
# exit code 0 if all of it holds, 1 if some fails, 2 if this file is wrong.
#
# For completion in an editor: archinfer schema check > archinfer-checks.schema.json, and put
# `# yaml-language-server: $schema=archinfer-checks.schema.json` on the first line.
schema_version: 1
checks:
  # A model of the catalogue (archinfer models list), the path of a config.json relative to this
  # file, or totals; on hardware of archinfer hardware list, or the path of a profile.
  - name: Llama 3.1 70B on one server
    model: llama-3.1-70b
    hardware: h100-sxm
    nodes: 8
    context: 32k # tokens; 128k is 128,000
    concurrency: 4 # users served at once
    weights: bf16 # default: the format the model comes in
    kv: bf16
    speculation: 1 # accepted tokens a pass; 1: none, or a range such as 1:3
    expect:
      feasible: true # it fits
      tokens_per_s: {{at_least: 40, confidence: 90 %}} # of one user
      nodes: {{at_most: 8}} # fewest nodes that hold it
      memory: {{at_most: 400 GB}} # over all nodes

  # Only totals are known.
  - name: A model of 3T on 88 wafers
    model: {{total: 3T, active: 150B, layers: 88}}
    hardware: wse-3
    nodes: 88
    weights: fp8
    expect:
      feasible: true

  # A solve, with the options of `archinfer solve`: some feasible model must, or none may, have
  # these values together.
  - name: What 750 tokens/s on 88 wafers leaves open
    solve:
      hardware: wse-3
      nodes: 88
      tokens_per_second: 750
      weights: fp8
    expect:
      contains: {{total: 3T, active: 150B}}
      excludes: {{total: 4T}}

  # A hardware profile that must be valid.
  - name: The profile is valid
    lint: wse-3
"""


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
        Format,
        typer.Option("--format", help="How to print; junit and github are for CI servers."),
    ] = Format.table,
    lint: Annotated[
        bool, typer.Option("--lint", help="Only read the files; evaluate nothing.")
    ] = False,
    init: Annotated[
        bool,
        typer.Option(
            "--init", help=f"Write a commented example to FILE (default {EXAMPLE_NAME}) and stop."
        ),
    ] = False,
) -> None:
    """Hold expectations about models and hardware against the model.

    Exit code 0: all hold; 1: some fail; 2: a file is wrong.
    """
    from archinfer.errors import InputError

    files = files or []
    if init:
        _write_example(files)
        return
    if not files:
        raise InputError("expected at least one check file (--init writes an example)")

    from archinfer.checks.run import run
    from archinfer.errors import FileError

    report = run(files, evaluate=not lint)
    for kind, remarks in (("error", report.errors), ("warning", report.warnings)):
        for remark in remarks:
            said = FileError(remark.file, remark.message, remark.line)
            typer.echo(f"{kind}: {said}", err=True)
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
                typer.echo(f"{file}: OK")
    else:
        print_document(told.document(report))


def _write_example(files: list[str]) -> None:
    import os

    from archinfer.errors import InputError
    from archinfer.writing import check_target, write

    if len(files) > 1:
        raise InputError(f"--init writes one file, found {len(files)} names")
    path = files[0] if files else EXAMPLE_NAME
    check_target("--init", path)
    write(path, EXAMPLE.format(name=os.path.basename(path)).encode(), replace=False)
    typer.echo(f"{path}: written; now run archinfer check {path}")
