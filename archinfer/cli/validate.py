"""`archinfer validate`: published speeds against predictions that have not seen them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from archinfer.cli.options import takes
from archinfer.cli.output import (
    Answer,
    Format,
    FormatOption,
    PlotOption,
    ReportOption,
    check_targets,
    show,
    warn,
)
from archinfer.cli.progress import waiting

if TYPE_CHECKING:
    from archinfer.fitting.validation import Validation


@takes("validate")
def validate(
    asked: dict[str, Any],
    plot: PlotOption = None,
    report: ReportOption = None,
    output: FormatOption = Format.table,
) -> None:
    """Predict published speeds, each by a fit without that model, beside naive baselines."""
    from archinfer.api.validating import validation
    from archinfer.errors import InputError
    from archinfer.question import ASKS
    from archinfer.report.measured import validate_chart
    from archinfer.report.validation import csv_rows, document

    floor = ASKS["floor"].number("floor", asked["floor"])
    inverse_floor = asked["inverse_floor"]
    if inverse_floor is not None:
        inverse_floor = ASKS["inverse_floor"].number("inverse_floor", inverse_floor)
        if not asked["inverse"]:
            raise InputError("--inverse-floor needs the inverse: it does not go with --no-inverse")
    check_targets(plot, report)
    hardware, test = asked["hardware"], asked["test"]
    if asked["serving"]:
        _serving(output, report, floor)
        return
    with waiting("fitting without each model, and predicting it"):
        found, remarks = validation(hardware, test, asked["observations"], asked["inverse"])
    for message in remarks:
        warn(message)
    subject = f"--hardware {hardware or 'wse-3'}" if test is None else f"--test {test}"
    command = f"archinfer validate {subject} --format markdown"
    answer = Answer(
        lambda: document(found, command),
        lambda: found,
        lambda: csv_rows(found),
        lambda: validate_chart(found),
    )
    show(answer, output, plot=plot, report=report)
    if _below(found, floor, inverse_floor, str(test or f"profile {hardware or 'wse-3'}")):
        raise typer.Exit(1)


def _serving(output: Format, report: str | None, floor: float) -> None:
    """Configurations of serving engines against the shipped profiles."""
    from archinfer.fitting.serving import serving_accuracy
    from archinfer.report.serving import csv_rows, document

    with waiting("predicting configurations of serving engines"):
        found = serving_accuracy()
    answer = Answer(lambda: document(found), lambda: found, lambda: csv_rows(found), None)
    show(answer, output, report=report)
    if found.all.coverage90 < floor:
        raise typer.Exit(1)


def _below(found: Validation, floor: float, inverse_floor: float | None, named: str) -> bool:
    """Whether a coverage is below its floor; says which."""
    from archinfer.fitting.validation import below_floor, coverage_floor

    failed = False
    if not found.counted:
        failed = floor > 0.0
        warn(f"{named}: no row counts, so nothing is held against the floor of {100 * floor:.0f} %")
    elif not coverage_floor(found.summary, floor):
        failed = True
        covered = found.summary["coverage90"] or 0.0
        typer.echo(
            f"the 90 % intervals cover {100 * covered:.0f} % of the rows, less than the floor "
            f"of {100 * floor:.0f} %",
            err=True,
        )
    if inverse_floor is not None and found.inverse is not None:
        if not found.inverse["rows"] and inverse_floor > 0.0:
            failed = True
            typer.echo(
                "inverse: no row enters it, so nothing is held against the floor of "
                f"{100 * inverse_floor:.0f} %",
                err=True,
            )
        for quantity, held in below_floor(found.inverse, inverse_floor).items():
            failed = True
            typer.echo(
                f"inverse: the 90 % intervals of {quantity} hold the truth in {100 * held:.0f} % "
                f"of the rows, less than the floor of {100 * inverse_floor:.0f} %",
                err=True,
            )
    return failed
