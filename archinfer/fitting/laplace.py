"""The Laplace approximation of a posterior that only its value is known of."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np
from scipy.optimize import minimize

from archinfer.models.shape import FloatArray

_WIDE = 0.05
_TRIES = 15
"""Points of one line search: where it needs more it sees a kink, and would end where it began."""
_FEWEST_DETAIL = 1.0
"""Least curvature of the scaled posterior along any direction, that of the prior alone: keeps the
Laplace covariance proper where a mixture makes the maximum flat."""


class _Stalled(Exception):
    """A line search finds nothing better."""


def laplace(
    objective: Callable[[FloatArray], FloatArray], start: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The mode (p,) and the covariance (p, p), in prior widths.

    The drafts that are best change in steps, and a small step of the slope would see the kinks; a
    wide one no longer sees a narrow minimum. So slopes are compared over a twentieth of the prior's
    width, but no more than a quarter of the posterior's.

    Args:
        objective: negative logarithm of the posterior of (n, p) points.
        start: where to begin (p,).
    """
    p, step = len(start), 1e-4
    moves = np.vstack([np.zeros(p), step * np.eye(p), -step * np.eye(p)])

    z, tries = start, 0

    def value_and_slope(z: FloatArray) -> tuple[float, FloatArray]:
        nonlocal tries
        tries += 1
        if tries > _TRIES:
            raise _Stalled
        f = objective(z + moves)
        return float(f[0]), (f[1 : p + 1] - f[p + 1 :]) / (2.0 * step)

    def curvature_at(z: FloatArray, wide: FloatArray) -> FloatArray:
        there = z + np.vstack([np.diag(wide), -np.diag(wide)])
        f = objective((there[:, None] + moves[1:]).reshape(-1, p)).reshape(2, p, 2, p)
        slopes = (f[:, :, 0] - f[:, :, 1]) / (2.0 * step)
        return np.asarray((slopes[0] - slopes[1]) / (2.0 * wide[:, None]))

    def accept(xk: FloatArray) -> None:
        nonlocal z, tries
        z, tries = xk.copy(), 0

    with suppress(_Stalled):
        minimize(
            value_and_slope, z, jac=True, method="BFGS", callback=accept, options={"gtol": 3e-3}
        )
    wide = np.full(p, _WIDE)
    curvature = curvature_at(z, wide)
    # The posterior's width, all else held.
    alone = np.maximum(np.diag(curvature), _FEWEST_DETAIL) ** -0.5
    if np.any(wide > alone / 4.0):
        curvature = curvature_at(z, np.minimum(wide, alone / 4.0))
    eigenvalues, vectors = np.linalg.eigh(0.5 * (curvature + curvature.T))
    return z, np.asarray((vectors / np.maximum(eigenvalues, _FEWEST_DETAIL)) @ vectors.T)
