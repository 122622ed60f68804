"""How well published speeds are predicted by a fit that has not seen the model in question.

Leave one model out: for each architecture all of its rows are taken away, the constants are
fitted to the rest, and the rows are predicted. Two naive baselines get the same treatment. Test
rows are predicted from the shipped constants instead, and nothing is fitted to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, TypeAlias, get_args

import numpy as np
from typing_extensions import TypedDict

from archinfer.fitting import serving
from archinfer.fitting.cases import Case, prepare_all
from archinfer.fitting.fit import Fit, fit_rows, quantiles, without_model
from archinfer.fitting.inverse import ByQuantity, Inverse, InverseCase
from archinfer.fitting.observations import Observation
from archinfer.fitting.serving import Compared, ServingAccuracy, ServingRow
from archinfer.fitting.shipped import shipped_fit
from archinfer.fitting.transfer import Transfer, error
from archinfer.hardware.figures import USUAL_SOFTWARE
from archinfer.hardware.profile import Hardware
from archinfer.inference.modes import Levels
from archinfer.physics.decode import Z90, decode_time
from archinfer.physics.prefill import time_to_first_token
from archinfer.physics.roofline import roofline_tokens_per_s
from archinfer.record import As, Described, Record

DRAWS = 8_000
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
Baseline: TypeAlias = Literal["roofline", "constant_per_layer"]
BASELINES: Final = get_args(Baseline)


@dataclass(frozen=True, slots=True)
class FirstTokenRow(Record):
    """A measured time to the first token under load, and its prediction."""

    observed_s: float
    predicted_s: float


@dataclass(frozen=True)
class PublishedSpeed(Record):
    """One published speed and its prediction."""

    KEYS = (
        "id", "model", "hardware", "observed", "predicted", "ratio", "error", "nodes",
        "speculative", "fits", "counted", "baselines", "software", "software_assumed", "users",
        "first_token?",
    )  # fmt: skip

    id: str
    """of the observation"""
    model: str
    hardware: str
    """the profile"""
    observed: float
    """tokens/s of one user"""
    predicted: Annotated[dict[str, float], As(Levels)]
    """tokens/s by a fit that has not seen this model"""
    ratio: float
    """observed over predicted p50"""
    nodes: tuple[float, float]
    """fewest and most that it may have run on: published, or the range that was assumed"""
    speculative: bool | None
    """null: not known"""
    fits: bool
    """whether the model fits the published nodes"""
    counted: bool
    """enters the summaries: a row that nothing is fitted to does not"""
    baselines: dict[str, float]
    """predictions of each naive baseline in tokens/s"""
    software: str | None = None
    """that ran, where the row tells; null: the usual one"""
    software_assumed: bool = False
    """taken from the date: the row does not name it"""
    users: float | None = None
    """sequences in flight; null: a hosted service"""
    first_token: FirstTokenRow | None = None
    """of a row that has it"""

    @property
    def error(self) -> float:
        """of the median: exp(|ln ratio|) - 1"""
        return error(self.observed, self.predicted["p50"])

    def inside(self, low: str, high: str) -> bool:
        """Whether the observed speed lies between two quantiles."""
        return self.predicted[low] <= self.observed <= self.predicted[high]


class ErrorSummary(TypedDict):
    """Of |ratio - 1| on the larger side: exp(|ln ratio|) - 1; null without rows."""

    median_abs_error: float | None
    worst_abs_error: float | None


class CoverageSummary(ErrorSummary):
    """Errors, and how often intervals hold the observed speed."""

    coverage50: Annotated[float | None, Described("share of rows inside the 50 % interval")]
    coverage90: Annotated[float | None, Described("share of rows inside the 90 % interval")]


class FitErrors(TypedDict):
    """How well constants meet the rows that they were fitted to."""

    rows: float
    rms_error: float
    worst_error: float


@dataclass(frozen=True)
class Validation(Record):
    """Published speeds against predictions that have not seen them."""

    KEYS = (
        "method", "rows=predictions", "summary", "baselines", "fit=fits", "transfer", "inverse",
        "serving",
    )  # fmt: skip

    method: str
    """how the rows were predicted"""
    predictions: list[PublishedSpeed]
    fits: dict[str, FitErrors] = field(default_factory=dict)
    """the fit to all rows, by profile"""
    transfer: Transfer | None = None
    """null: nothing is to be transferred"""
    inverse: Inverse | None = None
    """null with --no-inverse"""

    @property
    def summary(self) -> CoverageSummary:
        """Of the rows that are counted."""
        counted = self.counted
        return {
            **_errors([p.error for p in counted]),
            "coverage50": _mean([p.inside("p25", "p75") for p in counted]),
            "coverage90": _mean([p.inside("p05", "p95") for p in counted]),
        }

    @property
    def serving(self) -> ServingAccuracy | None:
        """Time per output token and to the first token by machine, model, engine and users, where
        rows say how many users there were; None without such rows."""
        found = [_compared(p) for p in self.counted if p.users is not None]
        return serving.grouped(found) if found else None

    @property
    def counted(self) -> list[PublishedSpeed]:
        """The predictions that enter the summaries."""
        return [p for p in self.predictions if p.counted]

    @property
    def baselines(self) -> Annotated[dict[str, ErrorSummary], As(dict[Baseline, ErrorSummary])]:
        """Of each baseline on the same rows."""
        return {
            name: _errors(
                [error(p.observed, p.baselines[name]) for p in self.counted if name in p.baselines]
            )
            for name in BASELINES
        }

    def below_floor(self, floor: float) -> bool:
        """Whether the 90 % intervals cover less than `floor` of the rows; no rows cover nothing."""
        return (self.summary["coverage90"] or 0.0) < floor

    def inverse_below(self, floor: float) -> dict[str, float]:
        """Quantities whose 90 % intervals hold the truth in fewer than `floor` of the rows."""
        held: ByQuantity = {} if self.inverse is None else self.inverse["coverage90"]
        return {q: c for q, c in held.items() if c is not None and c < floor}


def _compared(row: PublishedSpeed) -> Compared:
    p05, p50, p95 = (row.predicted[q] for q in ("p05", "p50", "p95"))
    first = row.first_token
    return Compared(
        ServingRow(
            row.id, row.model, row.hardware, row.software or USUAL_SOFTWARE, "", 0, 0,
            int(row.users or 1), 0, False, np.nan, 1.0 / row.observed,
        ),
        float(np.log(row.ratio)),
        # Of the side on which the observed speed lies.
        float(abs(np.log((p05 if row.observed < p50 else p95) / p50)) / Z90),
        float(np.log(first.predicted_s / first.observed_s)) if first else np.nan,
    )  # fmt: skip


def _errors(errors: Sequence[float]) -> ErrorSummary:
    return {
        "median_abs_error": float(np.median(errors)) if errors else None,
        "worst_abs_error": max(errors, default=None),
    }


def _mean(inside: Sequence[bool]) -> float | None:
    return float(np.mean(inside)) if inside else None


def leave_one_out(
    hardware: Hardware, rows: Sequence[Observation], draws: int = DRAWS, seed: int = 0
) -> tuple[list[PublishedSpeed], FitErrors, list[tuple[Case, Fit]]]:
    """Predicts each row of one profile by a fit without its model.

    Args:
        hardware: the profile.
        rows: observations of it.
        draws, seed: of each prediction.

    Returns:
        Predictions in the order of the rows; rms and worst error of the fit to all rows; each
        case with the fit that has not seen its model.
    """
    fitted = [r for r in rows if r.fitted]
    named = {r.software for r in rows if r.software is not None}
    return left_out(*fit_rows(hardware, fitted, software=named), rows, draws, seed)


def left_out(
    everything: Fit, cases: Sequence[Case], rows: Sequence[Observation],
    draws: int = DRAWS, seed: int = 0,
) -> tuple[list[PublishedSpeed], FitErrors, list[tuple[Case, Fit]]]:  # fmt: skip
    """`leave_one_out` of a fit to `cases` that is there already."""
    unfitted = prepare_all([r for r in rows if not r.fitted], everything.model.hardware)
    by_id = {c.row.id: c for c in [*cases, *unfitted]}
    fits: dict[tuple[float, ...], Fit] = {}
    predictions, used = [], []
    for row in rows:
        case = by_id[row.id]
        if case.model_key not in fits:
            fits[case.model_key] = without_model(everything, cases, case)
        fit = fits[case.model_key]
        known = [c for c in cases if c.model_key != case.model_key]
        predictions.append(_prediction(fit, case, known, draws, seed))
        used.append((case, fit))
    residuals = everything.residuals(cases)
    quality: FitErrors = {
        "rows": float(len(cases)),
        "rms_error": float(np.sqrt(np.mean(residuals**2))) if len(cases) else 0.0,
        "worst_error": float(np.expm1(np.abs(residuals).max())) if len(cases) else 0.0,
    }
    return predictions, quality, used


def predict_rows(
    rows: Iterable[Observation],
    known: Iterable[Observation],
    draws: int = DRAWS,
    seed: int = 0,
    machines: Sequence[Hardware] = (),
) -> tuple[list[PublishedSpeed], list[tuple[Case, Fit]]]:
    """Predicts rows from the constants of their profiles as they stand; nothing is fitted.

    Args:
        rows: what to predict.
        known: shipped observations, from which the baseline of constant time a layer is taken.
        draws, seed: of each prediction.
        machines: profiles that are not shipped.

    Returns:
        Predictions in the order of the rows, and each case with the constants used.
    """
    rows, known = list(rows), list(known)
    predictions: dict[str, PublishedSpeed] = {}
    used: dict[str, tuple[Case, Fit]] = {}
    own = {machine.name: machine for machine in machines}
    for profile in sorted({str(r.profile) for r in rows}):
        named = {r.software for r in rows if r.profile == profile and r.software is not None}
        fit = shipped_fit(own.get(profile) or Hardware.load(profile), sorted(named))
        seen = prepare_all([r for r in known if r.profile == profile and r.fitted],
                           fit.model.hardware)  # fmt: skip
        for case in prepare_all([r for r in rows if r.profile == profile], fit.model.hardware):
            others = [c for c in seen if c.model_key != case.model_key]
            predictions[case.row.id] = _prediction(fit, case, others, draws, seed)
            used[case.row.id] = (case, fit)
    return [predictions[r.id] for r in rows], [used[r.id] for r in rows]


def _prediction(
    fit: Fit, case: Case, known: Sequence[Case], draws: int, seed: int
) -> PublishedSpeed:
    speeds = quantiles(fit.draws(case, draws, seed), LEVELS)
    predicted = {f"p{round(100 * q):02d}": float(v) for q, v in zip(LEVELS, speeds, strict=True)}
    row = case.row
    baselines = {"roofline": _roofline(fit.model.hardware, case)}
    if known:
        baselines["constant_per_layer"] = _constant_per_layer(case, known)
    return PublishedSpeed(
        id=row.id,
        model=row.model,
        hardware=str(row.profile),
        observed=row.tokens_per_s,
        predicted=predicted,
        ratio=row.tokens_per_s / predicted["p50"],
        nodes=(float(case.nodes.min()), float(case.nodes.max())),
        speculative=row.speculative,
        fits=case.fits,
        counted=row.fitted,
        baselines=baselines,
        software=row.software,
        software_assumed=row.software_assumed,
        users=row.batch,
        first_token=_first_token(fit, case),
    )


def _first_token(fit: Fit, case: Case) -> FirstTokenRow | None:
    """Beside its prediction by the constants of a fit, on the likeliest mapping."""
    if case.row.first_token_s is None:
        return None
    hardware, likeliest = fit.machine(case), np.array([int(np.argmax(case.log_weight))])
    mapping = case.mapping.take(likeliest)
    step = decode_time(hardware, case.workload, mapping)
    time = time_to_first_token(hardware, case.workload, mapping, step)
    if time is None:
        return None
    return FirstTokenRow(case.row.first_token_s, float(np.asarray(time.total).item()))


def _roofline(hardware: Hardware, case: Case) -> float:
    """The naive bound of the mapping with the smallest groups that comes into question."""
    bound = roofline_tokens_per_s(hardware, case.workload, case.mapping)
    return float(np.min(bound))


def _constant_per_layer(case: Case, known: Sequence[Case]) -> float:
    """Tokens per second if every layer of every model took the same time.

    That time is the geometric mean over `known`.
    """
    log_rate = np.mean([c.log_speed + np.log(c.shape.layers) for c in known])
    return float(np.exp(log_rate) / case.shape.layers)


def inverse_cases(used: Iterable[tuple[Case, Fit]]) -> list[InverseCase]:
    """What `inverse.validate_inverse` takes, of rows whose region was not set by hand.

    The software is known where the row names one that the profile lists, as an analyst may know
    it; otherwise it is not.
    """
    hardware: dict[int, Hardware] = {}
    out = []
    for case, fit in used:
        if case.side is not None or not case.row.fitted:
            continue
        if id(fit) not in hardware:
            hardware[id(fit)] = fit.hardware if fit.ids else fit.model.hardware
        machine = hardware[id(fit)]
        listed = {s.name for s in machine.software}
        named = None if case.row.software_assumed else case.row.software
        out.append(
            InverseCase(
                id=case.row.id,
                tokens_per_s=case.row.tokens_per_s,
                shape=case.shape,
                hardware=machine,
                nodes=case.row.nodes,
                speculative=case.row.speculative,
                context_tokens=int(np.asarray(case.workload.traffic.context_tokens)),
                date=case.row.date,
                software=named if named in listed else None,
            )
        )
    return out
