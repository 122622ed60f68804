"""The one fit of times in logarithms, for published speeds and for timings of this machine.

    log(measured) = log T(constants) + effects + noise

Constants have normal priors in log space, so each stays possible where the rows say little of it.
Noise is Student's t (`archinfer.inference.statistics`), so no single row can pull the fit away.
Derivatives are those of the model's own ledger. The mode is found by damped Gauss-Newton steps;
the covariance is the inverse curvature there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from archinfer.inference.statistics import DEGREES, log_density
from archinfer.models.shape import FloatArray

Model = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""Logarithms of times (n,) and their derivatives (n, k) by the logarithms of the constants."""


class Scale(NamedTuple):
    """Belief about the scale of the noise."""

    value: float
    rows: float = np.inf
    """Worth so many rows; inf: it is known."""
    least: float = 0.0


class Effects(NamedTuple):
    """What rows of one kind have in common beside the constants."""

    member: FloatArray
    """Shape (n, m): 1 where a row is of a kind."""
    sd: FloatArray
    """Standard deviation of each (m,)."""


@dataclass(frozen=True)
class LogFit:
    """Logarithms of the constants at the mode."""

    theta: FloatArray
    covariance: FloatArray
    scale: float
    """Of the noise."""
    difference: FloatArray
    """Logarithm of predicted over measured, by the constants alone (n,)."""

    @property
    def sd(self) -> FloatArray:
        """Of each logarithm."""
        return np.sqrt(np.diag(self.covariance))


def indicators(labels: FloatArray) -> FloatArray:
    """1 where a row has a label: (n, labels)."""
    return np.asarray(labels[:, None] == np.unique(labels), dtype=float)


def fit_logs(
    model: Model,
    measured: FloatArray,
    mean: FloatArray,
    covariance: FloatArray,
    scale: Scale,
    *,
    weight: FloatArray | float = 1.0,
    effects: Effects | None = None,
    upper: FloatArray | float = np.inf,
    start: FloatArray | None = None,
) -> LogFit:
    """The mode of the posterior and its curvature.

    Args:
        model: of all rows.
        measured: logarithms of times (n,).
        mean, covariance: of the prior (k,), (k, k).
        scale: of the noise.
        weight: of a row's deviation, in scales of the noise; 0 leaves it out.
        effects: none where rows are independent.
        upper: most that a logarithm may be.
        start: logarithms to begin at; None: the prior's mean.
    """
    k, n = len(mean), len(measured)
    member = np.zeros((n, 0)) if effects is None else effects.member
    more = member.shape[1]
    centre = np.concatenate([mean, np.zeros(more)])
    precision = np.zeros((k + more, k + more))
    precision[:k, :k] = np.linalg.inv(covariance)
    if effects is not None:
        precision[k:, k:] = np.diag(effects.sd**-2.0)
    most = np.concatenate([np.broadcast_to(upper, k), np.full(more, np.inf)])
    search = _Search(model, measured, np.broadcast_to(weight, n), member, centre, precision, most)
    x, spread = np.minimum(centre, most), scale.value
    if start is not None:
        x[:k] = np.minimum(start, most[:k])
    for _ in range(20):
        x, hessian, difference, information = search.mode(x, spread)
        robust = (DEGREES + 1.0) / (DEGREES + (search.weight * difference / spread) ** 2)
        squares = float(np.sum(robust * (search.weight * difference) ** 2))
        # Rows that the constants and effects have used up say nothing of the noise.
        free = np.count_nonzero(search.weight) - np.trace(np.linalg.solve(hessian, information))
        before = spread
        if np.isfinite(scale.rows):
            known = scale.rows * scale.value**2
            spread = max(np.sqrt((known + squares) / max(scale.rows + free, 1.0)), scale.least)
        if abs(np.log(spread / before)) < 1e-3:
            break
    inverse = np.asarray(np.linalg.inv(hessian)[:k, :k], dtype=float)
    return LogFit(x[:k], inverse, float(spread), difference - member @ x[k:])


class _Step(NamedTuple):
    x: FloatArray
    hessian: FloatArray
    difference: FloatArray
    information: FloatArray
    """The part of the curvature that comes from the rows."""


@dataclass(frozen=True)
class _Search:
    """Damped Gauss-Newton steps to the mode, for a given scale of the noise."""

    model: Model
    measured: FloatArray
    weight: FloatArray
    member: FloatArray
    centre: FloatArray
    precision: FloatArray
    most: FloatArray

    def _at(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        k = len(x) - self.member.shape[1]
        log_s, slope = self.model(x[:k])
        return log_s + self.member @ x[k:] - self.measured, np.hstack([slope, self.member])

    def _loss(self, x: FloatArray, difference: FloatArray, scale: float) -> float:
        away = x - self.centre
        fit = log_density(self.weight / scale * difference).sum()
        return float(0.5 * away @ self.precision @ away - fit)

    def mode(self, x: FloatArray, scale: float) -> _Step:
        difference, jacobian = self._at(x)
        loss, damping = self._loss(x, difference, scale), 1e-3
        for _ in range(60):
            z = self.weight / scale * difference
            robust = (DEGREES + 1.0) / (DEGREES + z * z)
            rows = (self.weight / scale)[:, None] * jacobian
            information = rows.T @ (robust[:, None] * rows)
            hessian = information + self.precision
            gradient = rows.T @ (robust * z) + self.precision @ (x - self.centre)
            # What stands at its most and would go beyond stays there.
            free = np.flatnonzero((x < self.most) | (gradient > 0.0))
            inner, improved = hessian[np.ix_(free, free)], 0.0
            for _ in range(8):
                damped = inner + damping * np.diag(np.diag(inner))
                tried = x.copy()
                tried[free] -= np.clip(np.linalg.solve(damped, gradient[free]), -1.0, 1.0)
                tried = np.minimum(tried, self.most)
                there = self._at(tried)
                next_loss = self._loss(tried, there[0], scale)
                if next_loss < loss:
                    improved, damping = loss - next_loss, max(damping / 5.0, 1e-6)
                    x, loss, (difference, jacobian) = tried, next_loss, there
                    break
                damping *= 6.0
            if improved < 1e-4:
                break
        return _Step(x, hessian, difference, information)
