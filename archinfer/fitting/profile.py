"""A fit as a hardware profile: in memory, and as the text of a complete profile file."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import yaml

from archinfer import units, yamlfile
from archinfer.errors import InputError
from archinfer.fitting.cases import Case
from archinfer.fitting.fit import Fit
from archinfer.hardware.profile import KEYS, Figure, Hardware
from archinfer.models.shape import FloatArray, Number
from archinfer.physics.decode import decode_time
from archinfer.physics.speculation import SpeculationLaw, speculative_time

_DIGITS = 4


def _block(fit: Fit) -> FloatArray:
    k = fit.model.constants
    return fit.covariance[:k, :k]


def _software(fit: Fit) -> tuple[tuple[str, float, float], ...]:
    prefix = "software:"
    return tuple(
        (name.removeprefix(prefix), fit.value(name), fit.sd(name))
        for name in fit.model.names
        if name.startswith(prefix)
    )


def _law(fit: Fit) -> SpeculationLaw | None:
    if "acceptance" not in fit.model.names:
        return None
    return SpeculationLaw(
        acceptance=fit.value("acceptance"),
        acceptance_logit_sd=fit.sd("acceptance"),
        draft_time_s=fit.value("draft_time"),
        draft_time_log_sd=fit.sd("draft_time"),
        probability=fit.value("probability"),
        spread_log_sd=fit.value("spread"),
        source=f"fit to {len(fit.ids)} published speeds",
    )


def fitted_hardware(fit: Fit) -> Hardware:
    """The profile with the fitted constants, their covariance, model error and speculation."""
    base = fit.model.hardware
    values = fit.constants
    covariance = _block(fit)
    sds = dict(zip(values, np.sqrt(np.diag(covariance)), strict=True))
    source = f"fit to {len(fit.ids)} published speeds"
    figures: list[Figure] = []
    for figure in base.figures:
        if figure.key in values:
            figure = dataclasses.replace(
                figure, value=values[figure.key], log_sd=float(sds[figure.key]), source=source
            )
        elif figure.key == "model_error":
            figure = dataclasses.replace(figure, value=fit.noise_log_sd, source=source)
        figures.append(figure)
    return dataclasses.replace(
        base.with_constants(values),
        model_error_log_sd=fit.noise_log_sd,
        figures=tuple(figures),
        covariance_names=tuple(values),
        log_covariance=tuple(tuple(float(x) for x in row) for row in covariance),
        speculation=_law(fit),
        software=_software(fit),
    )


def gain_range(fit: Fit, cases: Sequence[Case]) -> tuple[float, float] | None:
    """Tokens per pass net of drafting, at the fitted values: least and most over the cases that
    may have used speculation; None where there are none."""
    gains: list[float] = []
    hardware = fit.model.hardware.with_constants(fit.constants)
    for case in cases:
        if case.row.speculative is False:
            continue
        for i in range(len(case.nodes)):
            mapping = dataclasses.replace(
                case.mapping,
                layers_per_stage=np.asarray(case.mapping.layers_per_stage)[i],
                tensor_parallel=np.broadcast_to(case.mapping.tensor_parallel, case.nodes.shape)[i],
            )
            alone = decode_time(hardware, case.workload, mapping, case.side).total
            known_s = case.draft_time_s(hardware)
            draft_s: Number = fit.value("draft_time")
            if known_s is not None:
                draft_s = float(np.broadcast_to(known_s, case.nodes.shape)[i])
            with_drafts = speculative_time(
                hardware,
                case.workload,
                mapping,
                fit.value("acceptance"),
                draft_s,
                case.side,
            )
            gains.append(float(alone / with_drafts))
    return (min(gains), max(gains)) if gains else None


def _quantity(key: str, value: float) -> str | float:
    dimension = KEYS[key].dimension
    if dimension == "number":
        return float(f"{value:.{_DIGITS}g}")
    return units.format_quantity(value, dimension, digits=_DIGITS)


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
    data: dict[str, Any] = yamlfile.load(base.origin).data
    models = len({c.model_key for c in cases})
    made = f"fit to {len(cases)} published speeds of {models} models ({command})"
    for name, value in fit.constants.items():
        at: dict[str, Any] = data
        place = name.split(".") if "." in name else ["constants", name]
        for part in place[:-1]:
            at = at[part]
        old = at[place[-1]]
        before = sources.get(name)
        new = {
            "value": _quantity(name, value),
            "log_sd": float(f"{fit.sd(name):.3g}"),
            "source": f"{made}; before: {before}" if before else made,
        }
        at[place[-1]] = new | ({"note": old["note"]} if "note" in old else {})
    constants = data["constants"]
    constants["model_error"] = {
        "value": float(f"{fit.noise_log_sd:.3g}"),
        "source": f"{made}; spread of speeds that the constants do not explain",
    }
    gains = gain_range(fit, cases)
    if gains is not None:
        constants["accepted_tokens_per_pass"] = {
            "low": 1,
            "high": float(f"{max(gains[1], 1.0):.2g}"),
            "source": (
                f"{made}; none without speculation, {gains[0]:.2g} to {gains[1]:.2g} net of "
                "drafting and verifying over these models with it"
            ),
        }
    data["covariance"] = {
        "names": list(fit.constants),
        "log_covariance": [[float(f"{x:.6f}") for x in row] for row in _block(fit)],
        "source": f"{made}; inverse curvature of the posterior",
    }
    law = _law(fit)
    for key in ("speculation", "software", "fit"):
        data.pop(key, None)
    if law is not None:
        data["speculation"] = {
            "acceptance": float(f"{law.acceptance:.3g}"),
            "acceptance_logit_sd": float(f"{law.acceptance_logit_sd:.3g}"),
            "draft_time": {
                "value": units.format_quantity(law.draft_time_s, "seconds", digits=_DIGITS),
                "log_sd": float(f"{law.draft_time_log_sd:.3g}"),
                "source": made,
            },
            "probability": float(f"{law.probability:.3g}"),
            "spread": float(f"{law.spread_log_sd:.3g}"),
            "source": made,
        }
    if _software(fit):
        data["software"] = {
            name: {
                "factor": float(f"{factor:.4g}"),
                "log_sd": float(f"{sd:.3g}"),
                "source": made,
            }
            for name, factor, sd in _software(fit)
        }
    residuals = fit.residuals(cases)
    data["fit"] = {"command": command, "observations": len(cases)}
    if len(cases):
        rms = float(np.sqrt(np.mean(residuals**2)))
        worst = float(np.abs(residuals).max())
        data["fit"]["residual"] = f"rms {rms:.3f}, worst {worst:.3f} in natural logarithm"
    with open(base.origin, encoding="utf-8") as file:
        header = "".join(itertools.takewhile(lambda line: line.startswith("#"), file))
    return (header or _HEADER) + yaml.dump(
        data, Dumper=_Dumper, sort_keys=False, width=96, allow_unicode=True, default_flow_style=None
    )


_HEADER = (
    "# Every figure: value with unit, source; log_sd is the standard deviation of its natural "
    "logarithm.\n"
)


class _Dumper(yaml.SafeDumper):
    """Short lists of numbers on one line, everything else in block style."""

    def represent_mapping(self, tag: Any, mapping: Any, flow_style: Any = None) -> Any:
        return super().represent_mapping(tag, mapping, flow_style=False)

    def ignore_aliases(self, data: Any) -> bool:
        return True
