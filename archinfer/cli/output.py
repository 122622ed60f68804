"""How every command gives its answer: standard output in the format asked, and files beside it."""

from __future__ import annotations

import csv
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import typer

from archinfer.errors import InputError, printable

if TYPE_CHECKING:
    from archinfer.report.chart import Chart
    from archinfer.report.document import Document


class Format(StrEnum):
    """Output formats."""

    table = "table"
    json = "json"
    csv = "csv"
    markdown = "markdown"


FormatOption = Annotated[Format, typer.Option("--format", help="How to print.")]
PlotOption = Annotated[
    str | None,
    typer.Option(
        "--plot",
        metavar="FILE",
        help="Also draw it: a .png, .svg or .pdf file (needs archinfer[plot]).",
    ),
]
ReportOption = Annotated[
    str | None,
    typer.Option("--report", metavar="FILE", help="Also write one self-contained HTML page."),
]


ENDINGS = {
    "--plot": (".png, .svg or .pdf", (".png", ".svg", ".pdf")),
    "--report": (".html", (".html", ".htm")),
}
"""How files of an option may end, in words and in fact."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command found, and what makes of it every form that may be asked, when it is."""

    found: Any
    """for JSON: plain values, or a record that turns itself into them"""
    document: Callable[[Any], Document]
    """for people: terminal, Markdown, HTML page"""
    rows: Callable[[Any], Sequence[Sequence[Any]]] = tuple
    """for CSV, headings first"""
    chart: Callable[[Any], Chart] | None = None
    """for --plot; None where there is nothing to draw"""
    explain: bool = False
    """with what --explain adds to the table"""
    code: int = 0
    """with which the command exits"""


def show(answer: Answer, form: str, plot: str | None = None, report: str | None = None) -> None:
    """Write the files asked for, then the answer on standard output, and exit if it says so.

    Args:
        answer: what was found.
        form: table, json, csv or markdown.
        plot, report: files, None where not asked for.
    """
    write_files(answer, plot, report)
    if form == "json":
        print_json(answer.found)
    elif form == "csv":
        print_csv(answer.rows(answer.found))
    elif form == "markdown":
        from archinfer.report.markdown import to_markdown

        typer.echo(to_markdown(answer.document(answer.found)))
    else:
        from archinfer.report.terminal import print_document

        print_document(answer.document(answer.found), answer.explain)
    if answer.code:
        raise typer.Exit(answer.code)


def check_targets(plot: str | None, report: str | None) -> None:
    """Refuse files that could not be written, before any work is done.

    Raises:
        InputError: an unknown suffix, a missing folder, no matplotlib.
    """
    for option, path in (("--plot", plot), ("--report", report)):
        if path is not None:
            from archinfer.writing import check_target

            wanted, endings = ENDINGS[option]
            if os.path.splitext(path)[1].lower() not in endings:
                raise InputError(f"{option}: expected a file ending in {wanted}, found {path!r}")
            check_target(option, path)
    if plot is not None and find_spec("matplotlib") is None:
        raise InputError(
            "--plot needs matplotlib: pip install 'archinfer[plot]', or '.[plot]' in a checkout"
        )


def write_files(answer: Answer, plot: str | None, report: str | None) -> None:
    """Write the picture and the page where they are asked for, and say so on standard error."""
    if plot is not None and answer.chart is None:
        warn(f"nothing is feasible, so there is nothing to draw: {plot} was not written")
    elif plot is not None and answer.chart is not None:
        from archinfer.report.plots import save

        save(answer.chart(answer.found), plot)
        say(f"wrote {plot}")
    if report is not None:
        from archinfer.report.html import to_page
        from archinfer.writing import write

        command = printable(shlex.join(["archinfer", *sys.argv[1:]]))
        write(report, to_page(answer.document(answer.found), command).encode())
        say(f"wrote {report}")


def say(message: str) -> None:
    """One line on standard error, whatever letters the names of files in it have."""
    typer.echo(printable(message), err=True)


def warn(message: str) -> None:
    """What to beware of."""
    say(f"warning: {message}")


def each(files: Sequence[str], load: Callable[[str], Any]) -> Iterator[tuple[str, Any]]:
    """Every file with what `load` makes of it; those that are wrong are told, and exit 2 ends."""
    wrong = False
    for file in files:
        try:
            found = load(file)
        except InputError as error:
            wrong = True
            for one in (error, *error.further):
                say(f"error: {one}")
        else:
            yield file, found
    if wrong:
        raise typer.Exit(2)


def print_json(value: Any) -> None:
    """A record, or data made of records, as JSON on standard output."""
    typer.echo(json.dumps(plain_value(value), indent=2, ensure_ascii=False, allow_nan=False))


def print_csv(rows: Sequence[Sequence[Any]]) -> None:
    """Rows as CSV on standard output; unknown values are empty."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerows([["" if plain_value(v) is None else v for v in row] for row in rows])


def plain_value(value: Any) -> Any:
    """As JSON data: see `archinfer.record.plain`."""
    from archinfer.record import plain

    return plain(value)
