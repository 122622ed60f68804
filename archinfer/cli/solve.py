"""`archinfer solve`: which models a node count and a speed allow."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from archinfer.cli.common import Format, FormatOption
from archinfer.cli.options import takes
from archinfer.cli.pictures import PLOT_HELP, REPORT_HELP

__all__ = ["solve"]


@takes("solve")
def solve(
    asked: dict[str, Any],
    emit: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Write each architecture as DIR/NAME/config.json, which predict reads; DIR is "
            "made where it is missing. Files that solve did not write are never replaced.",
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the time of one token by term.")
    ] = False,
    plot: Annotated[str | None, typer.Option(metavar="FILE", help=PLOT_HELP)] = None,
    report: Annotated[str | None, typer.Option(metavar="FILE", help=REPORT_HELP)] = None,
    output: FormatOption = Format.table,
) -> None:
    """Print the architectures that a node count and a speed allow, and what bounds them.

    With no options: 750 tokens/s for one user on 88 WSE-3 wafers.
    """
    from archinfer.cli.common import print_csv, print_json, uneven_groups, warn
    from archinfer.cli.pictures import check_targets, write_files

    check_targets(plot, report)
    if emit is not None:
        from archinfer.report.files import check_folder

        check_folder("--emit", emit)

    from archinfer import api

    found = api.solve(**asked)
    question = found.question
    placed = [(d.architecture, float(d.mapping.tensor_parallel)) for d in found.architectures]
    # Where the tool chose the group, it may choose the heads to go with it.
    for message in uneven_groups(placed) if question.layout is not None else ():
        warn(message)
    deepest = found.ranges["layers"].high.value if found.feasible else 0.0
    if question.layout is not None and found.feasible and deepest < question.layout.stages:
        warn(
            f"{question.layout.text} has more stages than the {deepest:.0f} layers of the deepest "
            "model that fits: the rest stays empty"
        )
    if emit is not None:
        from archinfer.solver.emit import emit as write

        for path in write(found.architectures, question, emit):
            typer.echo(f"wrote {path}", err=True)
    if plot is not None or report is not None:
        from archinfer.report.pictures import solve_chart
        from archinfer.report.solve_page import solve_page

        chart = (lambda: solve_chart(found)) if found.feasible else None
        write_files(plot, report, chart, lambda command: solve_page(found, command))
    if output is Format.json:
        print_json(found.to_dict())
    elif output is Format.csv:
        from archinfer.report.solve import architecture_rows

        print_csv(*architecture_rows(found.architectures))
    elif output is Format.markdown:
        from archinfer.report.solve import print_answer_markdown

        print_answer_markdown(found)
    else:
        from archinfer.report.solve import print_answer

        print_answer(found, explain)
