"""Published speeds against predictions that have not seen them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence

from archinfer.api.solving import Machine, machine
from archinfer.fitting import observations as rows_of
from archinfer.fitting.inverse import validate_inverse
from archinfer.fitting.observations import Observation
from archinfer.fitting.prior import fit_prior
from archinfer.fitting.validation import (
    Validation,
    inverse_cases,
    leave_one_out,
    predict_rows,
    transfer,
)
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
    if test is None:
        profile = machine("wse-3" if hardware is None else hardware)[0]
        names = [*Hardware.names(), profile.name]
        rows, remarks = rows_of.usable(rows_of.of_profile(known, profile.name, names), names)
        found = _leave_one_out(profile, rows, known, inverse)
    else:
        asked = rows_of.software_by_date(rows_of.read(test), known)
        machines = [] if hardware is None else [machine(hardware)[0]]
        names = [*Hardware.names(), *(m.name for m in machines)]
        if machines:
            asked = rows_of.of_profile(asked, machines[0].name, names)
        rows, remarks = rows_of.usable(asked, names)
        used = rows_of.usable(known, names)[0]
        found = _test(rows, used, inverse, machines)
    remarks = [
        *remarks,
        *(
            f"observation {p.id!r}: the model does not fit the nodes of the row"
            for p in found.predictions
            if not p.fits
        ),
    ]
    return found, remarks


def _leave_one_out(
    profile: Hardware, rows: Sequence[Observation], known: Sequence[Observation], inverse: bool
) -> Validation:
    predictions, quality, used = leave_one_out(profile, rows)
    source = fit_prior(profile).transfer_from
    usable = [r for r in known if r.architecture is not None]
    return Validation(
        method=f"{profile.name}, each model predicted by a fit without it",
        predictions=predictions,
        fits={profile.name: quality},
        transfer=None if source is None else transfer(Hardware.load(source), profile, usable),
        inverse=validate_inverse(inverse_cases(used)) if inverse else None,
    )


def _test(
    rows: Sequence[Observation],
    known: Sequence[Observation],
    inverse: bool,
    machines: Sequence[Hardware],
) -> Validation:
    predictions, used = predict_rows(rows, known, machines=machines)
    return Validation(
        method="rows that nothing was fitted to, predicted from the shipped constants",
        predictions=predictions,
        inverse=validate_inverse(inverse_cases(used)) if inverse else None,
    )
