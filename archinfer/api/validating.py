"""Published speeds against predictions that have not seen them."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace

from archinfer.api.solving import Machine, machine
from archinfer.fitting import observations as rows_of
from archinfer.fitting.inverse import validate_inverse
from archinfer.fitting.prior import fit_prior
from archinfer.fitting.transfer import transfer
from archinfer.fitting.validation import Validation, inverse_cases, leave_one_out, predict_rows
from archinfer.hardware.profile import Hardware


def validate(
    hardware: Machine | None = None,
    *,
    test: str | os.PathLike[str] | None = None,
    observations: str | os.PathLike[str] | None = None,
    inverse: bool = True,
) -> Validation:
    """Predict published speeds, each by a fit without that model: `archinfer validate`.

    Args:
        hardware: profile whose speeds to predict. Default: wse-3; with `test`: every row's own.
        test: predict the rows of this file from the shipped constants instead.
        observations: further observations (YAML); one with the id of a shipped row replaces it.
        inverse: also infer the architecture from each speed.

    Returns:
        The predictions beside what was published, and how well they cover it. Rows that cannot
        be used are warned of.

    Raises:
        InputError: a file or a profile that cannot be used.
    """
    found, remarks = validation(hardware, test, observations, inverse)
    for remark in remarks:
        warnings.warn(remark, stacklevel=2)
    return found


def validation(
    hardware: Machine | None,
    test: str | os.PathLike[str] | None,
    observations: str | os.PathLike[str] | None,
    inverse: bool,
) -> tuple[Validation, list[str]]:
    """What `validate` returns, and what to say of rows that could not be used."""
    known = rows_of.load(observations)
    named = "wse-3" if hardware is None and test is None else hardware
    own = [] if named is None else [machine(named)[0]]
    names = [*Hardware.names(), *(m.name for m in own)]
    asked = known if test is None else rows_of.software_by_date(rows_of.read(test), known)
    if own:
        asked = rows_of.of_profile(asked, own[0].name, names)
    rows, remarks = rows_of.usable(asked, names)
    if test is None:
        (profile,) = own
        predictions, quality, used = leave_one_out(profile, rows)
        source = fit_prior(profile).transfer_from
        usable = [r for r in known if r.architecture is not None]
        found = Validation(
            f"{profile.name}, each model predicted by a fit without it",
            predictions,
            fits={profile.name: quality},
            transfer=None if source is None else transfer(Hardware.load(source), profile, usable),
        )
    else:
        fitted_to = rows_of.usable(known, names)[0]
        predictions, used = predict_rows(rows, fitted_to, machines=own)
        method = "rows that nothing was fitted to, predicted from the shipped constants"
        found = Validation(method, predictions)
    if inverse:
        found = replace(found, inverse=validate_inverse(inverse_cases(used)))
    misfits = (p.id for p in predictions if not p.fits)
    return found, [
        *remarks,
        *(f"observation {id!r}: the model does not fit the nodes of the row" for id in misfits),
    ]
