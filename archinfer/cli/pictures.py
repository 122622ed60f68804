"""What commands with --plot and --report share."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from archinfer.report.chart import Chart

__all__ = ["PLOT_HELP", "REPORT_HELP", "check_targets", "command_line", "write_files"]

PLOT_HELP = "Also draw it: a .png, .svg or .pdf file (needs archinfer[plot])."
REPORT_HELP = "Also write one self-contained HTML page."


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
        from archinfer.report.files import check_target

        if os.path.splitext(report)[1].lower() not in (".html", ".htm"):
            raise InputError(f"--report: expected a file ending in .html, found {report!r}")
        check_target("--report", report)


def command_line() -> str:
    """The command that was run, for a shell."""
    return shlex.join(["archinfer", *sys.argv[1:]])


def write_files(
    plot: str | None,
    report: str | None,
    chart: Callable[[], Chart] | None,
    page: Callable[[str], str] | None,
) -> None:
    """Write the files asked for and say so on standard error.

    Args:
        plot, report: files, None where not asked for.
        chart: makes the chart; None where there is nothing to draw.
        page: makes the page from the command line that it shows.
    """
    from archinfer.cli.common import warn

    if plot is not None:
        if chart is None:
            warn(f"nothing is feasible, so there is nothing to draw: {plot} was not written")
        else:
            from archinfer.report.plots import save

            save(chart(), plot)
            typer.echo(f"wrote {plot}", err=True)
    if report is not None and page is not None:
        from archinfer.report.files import write_atomic

        write_atomic(report, page(command_line()).encode())
        typer.echo(f"wrote {report}", err=True)
