"""A fit as the text of a complete profile file."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from archinfer import files
from archinfer.errors import InputError
from archinfer.fitting.cases import Case
from archinfer.fitting.fit import Fit
from archinfer.hardware.figures import KEYS
from archinfer.hardware.reading import with_borrowed
from archinfer.hardware.text import quantity, rounded, yaml_text


def gain_range(fit: Fit, cases: Sequence[Case]) -> tuple[float, float] | None:
    """Tokens per pass net of drafting, at the fitted values: least and most over the cases that
    may have used speculation; None where there are none."""
    theta, model = fit.mode[None, :], fit.model
    gains = [
        model.pass_s(theta, case) / model.speculative_s(theta, case, 0.0)
        for case in cases
        if case.row.speculative is not False
    ]
    return (float(min(map(np.min, gains))), float(max(map(np.max, gains)))) if gains else None


def profile_text(fit: Fit, cases: Sequence[Case], command: str, sources: dict[str, str]) -> str:
    """The profile that was fitted, as YAML: its own figures, the fitted constants, the fit.

    Args:
        fit: the fit.
        cases: the rows it was fitted to.
        command: what a reader has to type to get the same.
        sources: where the belief about each constant before the fit comes from.

    Raises:
        InputError: the profile was not read from a file.
    """
    base = fit.model.hardware
    if not base.origin:
        raise InputError(f"profile {base.name!r} was not read from a file")
    data: dict[str, Any] = with_borrowed(files.load(base.origin)).data
    models = len({c.model_key for c in cases})
    made = f"fit to {len(cases)} published speeds of {models} models ({command})"
    _put_constants(data, fit, made, sources)
    data["constants"] |= _error_and_gain(fit, cases, made)
    for key in ("covariance", "speculation", "software", "fit"):
        data.pop(key, None)
    if names := list(fit.constants):
        data["covariance"] = {
            "names": names,
            "log_covariance": [[float(f"{x:.6f}") for x in r] for r in fit.constants_covariance],
            "source": f"{made}; inverse curvature of the posterior",
        }
    law = fit.speculation
    if law is not None:
        data["speculation"] = {
            "acceptance": rounded(law.acceptance),
            "acceptance_logit_sd": rounded(law.acceptance_logit_sd),
            "draft_time": {
                "value": quantity(law.draft_time_s, "seconds"),
                "log_sd": rounded(law.draft_time_log_sd),
                "source": made,
            },
            "probability": rounded(law.probability),
            "spread": rounded(law.spread_log_sd),
            "source": made,
        }
    if fit.software:
        data["software"] = {
            name: {"fixed_time_factor": rounded(factor, 4), "log_sd": rounded(sd)}
            | ({"routed_kernels_factor": routed} if routed != 1.0 else {})
            | {"source": made}
            for name, factor, sd, routed in fit.software
        }
    data["fit"] = {"command": command, "observations": len(cases)}
    if len(cases):
        residuals = fit.residuals(cases)
        rms = float(np.sqrt(np.mean(residuals**2)))
        worst = float(np.abs(residuals).max())
        data["fit"]["residual"] = f"rms {rms:.3f}, worst {worst:.3f} in natural logarithm"
    with open(base.origin, encoding="utf-8") as file:
        header = "".join(itertools.takewhile(lambda line: line.startswith("#"), file))
    return yaml_text(header or _HEADER, data)


def _put_constants(data: dict[str, Any], fit: Fit, made: str, sources: Mapping[str, str]) -> None:
    """Each fitted constant in the place of the old one, whose note it keeps."""
    for name, value in fit.constants.items():
        at: dict[str, Any] = data
        place = name.split(".") if "." in name else ["constants", name]
        for part in place[:-1]:
            at = at[part]
        old = at.get(place[-1], {})
        before = sources.get(name)
        new = {
            "value": quantity(value, KEYS[name].dimension),
            "log_sd": rounded(fit.sd(name)),
            "source": f"{made}; before: {before}" if before else made,
        }
        at[place[-1]] = new | ({"note": old["note"]} if "note" in old else {})


def _error_and_gain(fit: Fit, cases: Sequence[Case], made: str) -> dict[str, Any]:
    entries: dict[str, Any] = {
        "model_error": {
            "value": rounded(min(fit.noise_log_sd, KEYS["model_error"].most)),
            "source": f"{made}; spread of speeds that the constants do not explain",
        }
    }
    gains = gain_range(fit, cases)
    if gains is not None:
        entries["accepted_tokens_per_pass"] = {
            "low": 1,
            "high": rounded(max(gains[1], 1.0), 2),
            "source": (
                f"{made}; none without speculation, {gains[0]:.2g} to {gains[1]:.2g} net of "
                "drafting and verifying over these models with it"
            ),
        }
    return entries


_HEADER = (
    "# Every figure: value with unit, source; log_sd is the standard deviation of its natural "
    "logarithm.\n"
)
