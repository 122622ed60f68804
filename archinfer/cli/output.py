"""How every command gives its answer: standard output in the format asked, and files beside it."""

from __future__ import annotations

import csv
import json
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from archinfer.errors import printable

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


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command found, in every form that may be asked; each is made when it is."""

    document: Callable[[], Document]
    """For people: terminal, Markdown, HTML page."""
    record: Callable[[], Any]
    """For JSON: plain values, or a record that turns itself into them."""
    rows: Callable[[], Sequence[Sequence[Any]]] = tuple
    """For CSV, headings first."""
    chart: Callable[[], Chart] | None = None
    """For --plot; None where there is nothing to draw."""


def show(
    answer: Answer,
    output: str,
    *,
    explain: bool = False,
    plot: str | None = None,
    report: str | None = None,
) -> None:
    """Write the files asked for, then the answer on standard output.

    Args:
        answer: what was found.
        output: table, json, csv or markdown.
        explain: with what --explain adds to the table.
        plot, report: files, None where not asked for.
    """
    write_files(answer, plot, report)
    if output == "json":
        print_json(answer.record())
    elif output == "csv":
        print_csv(answer.rows())
    elif output == "markdown":
        from archinfer.report.markdown import to_markdown

        typer.echo(to_markdown(answer.document()))
    else:
        from archinfer.report.terminal import print_document

        print_document(answer.document(), explain)


def check_targets(plot: str | None, report: str | None) -> None:
    """Refuse files that could not be written, before any work is done.

    Raises:
        InputError: an unknown suffix, a missing folder, no matplotlib.
    """
    if plot is not None:
        from archinfer.report.plots import check

        check(plot)
    if report is not None:
        import os

        from archinfer.errors import InputError
        from archinfer.writing import check_target

        if os.path.splitext(report)[1].lower() not in (".html", ".htm"):
            raise InputError(f"--report: expected a file ending in .html, found {report!r}")
        check_target("--report", report)


def write_files(answer: Answer, plot: str | None, report: str | None) -> None:
    """Write the picture and the page where they are asked for, and say so on standard error."""
    if plot is not None and answer.chart is None:
        warn(f"nothing is feasible, so there is nothing to draw: {plot} was not written")
    elif plot is not None and answer.chart is not None:
        from archinfer.report.plots import save

        save(answer.chart(), plot)
        say(f"wrote {plot}")
    if report is not None:
        from archinfer.report.html import to_page
        from archinfer.writing import write

        command = printable(shlex.join(["archinfer", *sys.argv[1:]]))
        write(report, to_page(answer.document(), command).encode())
        say(f"wrote {report}")


def say(message: str) -> None:
    """One line on standard error, whatever letters the names of files in it have."""
    typer.echo(printable(message), err=True)


def warn(message: str) -> None:
    """What to beware of."""
    say(f"warning: {message}")


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
