"""Standard symmetric laws of one number, and draws of them within an interval.

- normal.
- student: Student's t with four degrees of freedom, whose cumulative probability and quantile
  are elementary (Shaw, "Sampling Student's T distribution", Journal of Computational Finance 9,
  2006).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from scipy.special import ndtr, ndtri

from archinfer.models.shape import FloatArray, Number

__all__ = ["LAWS", "LawName", "truncated"]

LawName = Literal["normal", "student"]


def _student_below(t: FloatArray) -> FloatArray:
    """(1 + c)^2 (2 - c) / 4 with c = t / sqrt(t^2 + 4)."""
    root = np.hypot(t, 2.0)
    # 1 + c without cancellation for negative t.
    above = np.where(t < 0.0, 4.0 / (root * (root - t)), 1.0 + t / root)
    return np.asarray(0.25 * above**2 * (2.0 - t / root))


def _student_at(p: FloatArray) -> FloatArray:
    a = np.sqrt(4.0 * p * (1.0 - p))
    third = np.cos(np.arccos(np.minimum(a, 1.0)) / 3.0)
    return np.asarray(np.copysign(2.0, p - 0.5) * np.sqrt(np.maximum(third / a - 1.0, 0.0)))


Standard = Callable[[FloatArray], FloatArray]

LAWS: dict[LawName, tuple[Standard, Standard]] = {
    "normal": (ndtr, ndtri),
    "student": (_student_below, _student_at),
}
"""Cumulative probability (precise in the lower tail) and its inverse, by name."""


def truncated(
    z: FloatArray, mean: Number, sd: Number, low: Number, high: Number, law: LawName = "normal"
) -> tuple[FloatArray, FloatArray]:
    """A law around `mean`, stretched by `sd`, within [low, high], from standard normal z.

    Returns:
        The values, rising with z, and the logarithm of the mass inside; that is -inf where the
        interval is empty (the value returned there is `low`, or the mean).
    """
    below_of, at = LAWS[law]
    mean, sd, low, high = (np.asarray(x, dtype=float) for x in (mean, sd, low, high))
    if law == "normal" and np.all(low == -np.inf) and np.all(high == np.inf):
        value = mean + sd * z
        return value, np.zeros_like(value)
    a, b = (low - mean) / sd, (high - mean) / sd
    # Work in the lower tail, where probabilities keep their precision.
    flip = a > 0.0
    a, b = np.where(flip, -b, a), np.where(flip, -a, b)
    below, above = below_of(a), below_of(b)
    mass = above - below
    u = ndtr(np.where(flip, -z, z))
    x = at(np.clip(below + u * mass, 1e-300, 1.0 - 1e-16))
    x = np.where(flip, -x, x)
    alive = mass > 0.0
    value = np.where(alive, mean + sd * x, np.where(np.isfinite(low), low, mean))
    with np.errstate(divide="ignore"):
        return value, np.where(alive, np.log(np.maximum(mass, 0.0)), -np.inf)
