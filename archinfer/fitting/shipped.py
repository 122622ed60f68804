"""What a profile file says, as a fit."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from archinfer import special
from archinfer.fitting.fit import SPECULATION, Fit, FitModel
from archinfer.fitting.pooled import SOFTWARE
from archinfer.fitting.prior import fit_prior
from archinfer.hardware.profile import Hardware
from archinfer.inference.statistics import DEGREES


def shipped_fit(hardware: Hardware, software: Iterable[str] = ()) -> Fit:
    """What a profile file says, as a fit: nothing is fitted, its constants are taken as they are.

    Covariances between constants, software and speculation are not part of a profile and count
    as zero. Any `software` that the profile does not list has the prior's speed and spread.
    """
    prior = fit_prior(hardware)
    names, values, covariance = hardware.constants()
    more: dict[str, tuple[float, float]] = {
        SOFTWARE + name: (0.0, prior.software_log_sd) for name in software
    } | {SOFTWARE + name: (float(np.log(factor)), sd) for name, factor, sd, _ in hardware.software}
    scale = np.sqrt((DEGREES - 2.0) / DEGREES)
    more["noise"] = (float(np.log(max(hardware.model_error_log_sd * scale, 1e-3))), 0.0)
    law = hardware.speculation
    if law is None:
        more |= {name: getattr(prior, name) for name in SPECULATION}
    else:
        more["spread"] = (float(np.log(max(law.spread_log_sd, 1e-3))), 0.0)
        more["acceptance"] = (float(special.logit(law.acceptance)), law.acceptance_logit_sd)
        # The law's spread is that of models already.
        more["acceptance_sd"] = (float(np.log(1e-3)), 0.0)
        more["draft_time"] = (float(np.log(law.draft_time_s)), law.draft_time_log_sd)
        more["probability"] = (float(special.logit(law.probability)), 0.0)
    mean, sd = np.array(list(more.values())).T
    k = len(names)
    full = np.zeros((k + len(more), k + len(more)))
    full[:k, :k] = covariance
    full[k:, k:] = np.diag(sd**2)
    mode = np.concatenate([np.log(values), mean])
    width = np.concatenate([np.sqrt(np.diag(covariance)), sd])
    model = FitModel(hardware, (*names, *more), k, mode, np.diag(width))
    return Fit(model, mode, full, ())
