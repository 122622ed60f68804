"""What is believed about a profile's unknown constants before any speed is seen.

`archinfer/data/priors.yaml` has it for the shipped profiles that are fitted; any other profile
starts from its own constants.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from archinfer import files, special, strict, units
from archinfer.errors import FileError
from archinfer.hardware.figures import KEYS
from archinfer.hardware.profile import Hardware
from archinfer.strict import StrictModel

_Sd = Annotated[float, Field(gt=0, le=3, strict=False)]


@dataclass(frozen=True, slots=True)
class Prior:
    """Normal beliefs, (mean, sd) in the space the fit works in."""

    constants: dict[str, tuple[float, float]]
    """Of the logarithm of each value in SI units."""
    software_log_sd: float
    """Of the logarithm of the fixed times of other software over the usual, about 1."""
    noise: tuple[float, float]
    """Of the logarithm of the scale of the noise."""
    spread: tuple[float, float]
    """Of the logarithm of the further spread of speeds reached with speculation."""
    acceptance: tuple[float, float]
    """Of the log-odds of the typical model."""
    acceptance_sd: tuple[float, float]
    """Of the logarithm of the standard deviation of the log-odds from model to model."""
    probability: tuple[float, float]
    """Of the log-odds of speculation being used."""
    draft_time: tuple[float, float]
    """Of the logarithm of the seconds to draft one token."""
    sources: dict[str, str]
    """Where each constant's belief comes from."""
    software: dict[str, tuple[float, float]]
    """Of the logarithm of the factor of each software that the profile lists, where its own
    constants are the belief."""
    transfer_from: str | None = None
    """Profile whose fitted constants should predict this one without a refit."""

    def released(self, log_sd: float) -> Prior:
        """The same with every constant at least so uncertain: what was calibrated with one engine
        may then move to where another one is."""
        constants = {name: (mean, max(sd, log_sd)) for name, (mean, sd) in self.constants.items()}
        return replace(self, constants=constants)


class _Log(StrictModel):
    value: str | float | int
    log_sd: _Sd
    source: str

    def log(self, dimension: str) -> tuple[float, float]:
        return float(np.log(units.parse(self.value, dimension))), self.log_sd


class _Logit(StrictModel):
    value: str | float
    logit_sd: _Sd
    source: str

    def logit(self) -> tuple[float, float]:
        p = units.parse(self.value, "ratio")
        return float(special.logit(p)), self.logit_sd


class _Speculation(StrictModel):
    acceptance: _Logit
    acceptance_between_models: _Log
    draft_time: _Log
    probability: _Logit
    spread: _Log


class _ByExecution(StrictModel):
    spatial: _Speculation
    temporal: _Speculation


class _Default(StrictModel):
    software_log_sd: _Sd
    noise: _Log
    speculation: _ByExecution


class _Profile(StrictModel):
    constants: dict[str, _Log]
    transfer_from: str | None = None
    software_log_sd: _Sd | None = None
    noise: _Log | None = None
    speculation: _Speculation | None = None


class _File(StrictModel):
    default: _Default
    profiles: dict[str, _Profile]
    operations: Any = None
    """For `archinfer.inference.operations`."""


@cache
def _shipped() -> _File:
    with resources.as_file(resources.files("archinfer") / "data" / "priors.yaml") as path:
        document = files.load(path)
        found = strict.validate(document, _File)
        for name, profile in found.profiles.items():
            for key in profile.constants:
                if key not in KEYS or not KEYS[key].uncertain:
                    place = ("profiles", name, "constants", key)
                    message = f"key {key!r} is no constant that a time scales with"
                    raise FileError(path, message, document.line_of(place))
        return found


def fit_prior(hardware: Hardware) -> Prior:
    """The prior of a profile: the shipped one of its name, else its own constants."""
    shipped = _shipped()
    own = shipped.profiles.get(hardware.name)
    if own is None:
        names, values, covariance = hardware.constants()
        sds = np.sqrt(np.diag(covariance))
        constants = {
            n: (float(np.log(v)), float(sd)) for n, v, sd in zip(names, values, sds, strict=True)
        }
    else:
        constants = {n: c.log(KEYS[n].dimension) for n, c in own.constants.items()}
    sources = {f.key: f.source for f in hardware.figures}
    sources |= {} if own is None else {n: c.source for n, c in own.constants.items()}
    default = shipped.default
    speculation = (own and own.speculation) or getattr(default.speculation, hardware.execution)
    return Prior(
        constants=constants,
        software_log_sd=(own and own.software_log_sd) or default.software_log_sd,
        noise=((own and own.noise) or default.noise).log("number"),
        spread=speculation.spread.log("number"),
        acceptance=speculation.acceptance.logit(),
        acceptance_sd=speculation.acceptance_between_models.log("number"),
        probability=speculation.probability.logit(),
        draft_time=speculation.draft_time.log("seconds"),
        sources=sources,
        software={n: (float(np.log(f)), sd) for n, f, sd, _ in hardware.software if own is None},
        transfer_from=own.transfer_from if own else None,
    )
