"""`archinfer solve`: which models a node count and a speed allow."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from archinfer.cli.output import Answer, say, warn


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
) -> Answer:
    """Print the architectures that a node count and a speed allow, and what bounds them.

    With no options: 750 tokens/s for one user on 88 WSE-3 wafers.
    """
    if emit is not None:
        _check_emit(emit, asked["architectures"])

    from archinfer.api.solving import solve as solve_question
    from archinfer.report.architectures import csv_rows
    from archinfer.report.solve import chart, document

    found = solve_question(**asked)
    question = found.question
    if (layout := question.layout) is not None:
        from archinfer.report.warned import uneven_groups

        # Where the tool chose the group, it may choose the heads to go with it.
        placed = [(d.architecture, float(d.mapping.heads_split)) for d in found.architectures]
        for message in uneven_groups(placed):
            warn(message)
        if found.feasible and (deepest := found.ranges["layers"].high.value) < layout.stages:
            warn(
                f"{layout.text} has more stages than the {deepest:.0f} layers of the deepest model "
                "that fits: the rest stays empty"
            )
    if emit is not None:
        from archinfer.solver.emit import emit as write

        if not found.architectures:
            nothing = "no buildable architecture lies in the region" if found.feasible else (
                "nothing is feasible"
            )  # fmt: skip
            warn(f"{nothing}, so there is nothing to write: {emit} was not written")
        for path in write(found.architectures, question, emit):
            say(f"wrote {path}")
    return Answer(found, document, csv_rows, chart if found.feasible else None, explain)


def _check_emit(folder: str, architectures: int) -> None:
    """Refuse a folder that could not be written, or nothing to write, before any work is done."""
    from archinfer.errors import InputError
    from archinfer.writing import check_folder

    check_folder("--emit", folder)
    if architectures == 0:
        raise InputError("--emit: --architectures 0 leaves none to write")
