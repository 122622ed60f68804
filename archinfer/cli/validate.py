"""`archinfer validate`: published speeds against predictions that have not seen them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from archinfer.cli.output import Answer, say, warn
from archinfer.cli.progress import waiting

if TYPE_CHECKING:
    from archinfer.fitting.validation import Validation


def validate(asked: dict[str, Any]) -> Answer:
    """Predict published speeds, each by a fit without that model, beside naive baselines."""
    from archinfer.api.arguments import number
    from archinfer.api.validating import validation
    from archinfer.errors import InputError
    from archinfer.report.measured import validate_chart
    from archinfer.report.validation import csv_rows, document

    floor, inverse_floor = number("floor", asked), number("inverse_floor", asked)
    if inverse_floor is not None and not asked["inverse"]:
        raise InputError("--inverse-floor needs the inverse: it does not go with --no-inverse")
    hardware, test = asked["hardware"], asked["test"]
    if asked["serving"]:
        return _serving(floor)
    with waiting("fitting without each model, and predicting it"):
        found, remarks = validation(hardware, test, asked["observations"], asked["inverse"])
    for message in remarks:
        warn(message)
    subject = f"--hardware {hardware or 'wse-3'}" if test is None else f"--test {test}"
    subject += "" if asked["inverse"] else " --no-inverse"
    command = f"archinfer validate {subject} --format markdown"
    below = _below(found, floor, inverse_floor, str(test or f"profile {hardware or 'wse-3'}"))
    told = partial(document, command=command)
    return Answer(found, told, csv_rows, validate_chart, code=int(below))


def _serving(floor: float) -> Answer:
    """Configurations of serving engines against the shipped profiles."""
    from archinfer.fitting.pooled import serving_accuracy
    from archinfer.report.validation import serving_document, serving_rows

    with waiting("predicting configurations of serving engines"):
        found = serving_accuracy()
    return Answer(found, serving_document, serving_rows, code=int(found.all.coverage90 < floor))


def _below(found: Validation, floor: float, inverse_floor: float | None, named: str) -> bool:
    """Whether a coverage is below its floor; says which."""
    failed, least = [], f"the floor of {100 * floor:.0f} %"
    if not found.counted:
        warn(f"{named}: no row counts, so nothing is held against {least}")
    elif found.below_floor(floor):
        covered = found.summary["coverage90"] or 0.0
        failed.append(
            f"the 90 % intervals cover {100 * covered:.0f} % of the rows, less than {least}"
        )
    if inverse_floor is not None and found.inverse is not None:
        least = f"the floor of {100 * inverse_floor:.0f} %"
        if not found.inverse["rows"] and inverse_floor > 0.0:
            failed.append(f"inverse: no row enters it, so nothing is held against {least}")
        failed += [
            f"inverse: the 90 % intervals of {quantity} hold the truth in {100 * held:.0f} % of "
            f"the rows, less than {least}"
            for quantity, held in found.inverse_below(inverse_floor).items()
        ]
    for message in failed:
        say(message)
    return bool(failed) or (not found.counted and floor > 0.0)
