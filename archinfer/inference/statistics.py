"""Statistics of the inference and of the fit.

- Laws of one number: normal, and Student's t with four degrees of freedom, whose cumulative
  probability and quantile are elementary (Shaw, "Sampling Student's T distribution", Journal of
  Computational Finance 9, 2006), with draws of either within an interval.
- The noise of the logarithm of a speed that no constant explains: the same Student's t, so that
  one odd figure does not pull a fit or an inference as far as a normal law would let it.
- Quantiles of weighted samples, and information between them in bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from archinfer import special
from archinfer.models.shape import FloatArray, Number

DEGREES = 4.0
"""Degrees of freedom of the noise: estimate, the usual choice for robust regression (Lange,
Little, Taylor, "Robust statistical modeling using the t distribution", 1989)."""

_BINS = 64
_LN2 = float(np.log(2.0))


def log_density(deviation: FloatArray) -> FloatArray:
    """Logarithm of Student's t at deviations in scales, without its constant."""
    return np.asarray(-0.5 * (DEGREES + 1.0) * np.log1p(deviation**2 / DEGREES))


def log_likelihood(
    deviation: FloatArray, scale: FloatArray, ceiling: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Log likelihood of a figure without constants, and by how many scales it is not explained.

    Args:
        deviation: logarithm of the figure over its prediction, in scales.
        scale: of the noise of that logarithm.
        ceiling: the figure is announced as the most there is ("up to"): what is below it is as
            likely whatever it is, what is above it as unlikely as the noise says.
    """
    if ceiling:
        with np.errstate(divide="ignore"):
            return np.log(special.stdtr(DEGREES, deviation)), np.minimum(deviation, 0.0)
    return log_density(deviation) - np.log(scale), deviation


LawName = Literal["normal", "student"]

FAR = 1e100
"""Scales that stand for infinitely many."""


def _student_below(t: FloatArray) -> FloatArray:
    """(1 + c)^2 (2 - c) / 4 with c = t / sqrt(t^2 + 4)."""
    t = np.clip(t, -FAR, FAR)
    root = np.hypot(t, 2.0)
    # 1 + c without cancellation for negative t.
    above = np.where(t < 0.0, 4.0 / (root * (root + np.abs(t))), 1.0 + t / root)
    return np.asarray(0.25 * above**2 * (2.0 - t / root))


def _student_at(p: FloatArray) -> FloatArray:
    a = np.sqrt(4.0 * p * (1.0 - p))
    third = np.cos(np.arccos(np.minimum(a, 1.0)) / 3.0)
    return np.asarray(np.copysign(2.0, p - 0.5) * np.sqrt(np.maximum(third / a - 1.0, 0.0)))


Standard = Callable[[FloatArray], FloatArray]

LAWS: dict[LawName, tuple[Standard, Standard]] = {
    "normal": (lambda z: special.ndtr(z), lambda p: special.ndtri(p)),
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
    u = special.ndtr(np.where(flip, -z, z))
    x = at(np.clip(below + u * mass, 1e-300, 1.0 - 1e-16))
    x = np.where(flip, -x, x)
    alive = mass > 0.0
    value = np.where(alive, mean + sd * x, np.where(np.isfinite(low), low, mean))
    with np.errstate(divide="ignore"):
        return value, np.where(alive, np.log(np.maximum(mass, 0.0)), -np.inf)


def log_uniform(z: FloatArray, low: Number, high: Number) -> FloatArray:
    """Log-uniform in [low, high] from standard normal z."""
    return np.asarray(low * (np.asarray(high) / low) ** special.ndtr(z))


def quantiles(values: FloatArray, weights: FloatArray, at: tuple[float, ...]) -> FloatArray:
    """Quantiles of a weighted sample: values (n,), weights (n,) of sum 1 -> (len(at),).

    Linear between the midpoints of the cumulative weights.
    """
    order = np.argsort(values, kind="stable")
    w = weights[order]
    middle = np.cumsum(w) - 0.5 * w
    return np.asarray(np.interp(at, middle, values[order]))


def settled(values: FloatArray, weights: FloatArray, at: tuple[float, ...]) -> FloatArray:
    """The same to the digits that other draws would give as well.

    Rounded to the least of 1, 2 and 5 times a power of ten that is at least three times the
    standard error of each, at most three digits: the difference of the quantiles that lie
    1.5 sqrt(sum w^2 (below - p)^2) beside p (Woodruff, "Confidence intervals for medians", JASA
    47, 1952); draws of a tail may weigh more than most.
    """
    level, squares = np.asarray(at), weights * weights
    below = np.array([squares[values < end].sum() for end in quantiles(values, weights, at)])
    beside = 1.5 * np.sqrt(below * (1.0 - level) ** 2 + (squares.sum() - below) * level**2)
    asked = np.clip(np.concatenate([level - beside, level, level + beside]), 0.0, 1.0)
    low, middle, high = quantiles(values, weights, tuple(asked)).reshape(3, -1)
    return np.array([_rounded(*found) for found in zip(middle, high - low, strict=True)])


def _rounded(value: float, unit: float) -> float:
    if value == 0.0:
        return value
    lead = np.floor(np.log10(abs(value)))
    units = [step * 10.0 ** (lead - k) for k in (2, 1) for step in (1.0, 2.0, 5.0)]
    least = next((u for u in units if u >= unit), 10.0**lead)
    return float(f"{np.round(value / least) * least:.6g}")


def equal_mass_edges(values: FloatArray, weights: FloatArray, bins: int) -> FloatArray:
    """Inner edges of bins of (nearly) equal mass; fewer where values repeat.

    Edges are values of the sample; a bin is a half-open interval (edge, next edge].
    """
    order = np.argsort(values, kind="stable")
    mass = np.cumsum(weights[order])
    at = np.searchsorted(mass, np.arange(1, bins) / bins)
    edges = np.unique(values[order][np.minimum(at, len(values) - 1)])
    return np.asarray(edges[edges < values[order][-1]], dtype=float)


def _masses(values: FloatArray, weights: FloatArray, edges: FloatArray) -> FloatArray:
    bins = np.searchsorted(edges, values, side="left")
    return np.asarray(np.bincount(bins, weights=weights, minlength=len(edges) + 1), dtype=float)


def _size(weights: FloatArray) -> float:
    return float(1.0 / (weights * weights).sum())


def information_bits(
    posterior: tuple[FloatArray, FloatArray], prior: tuple[FloatArray, FloatArray]
) -> float:
    """Kullback-Leibler divergence of one weighted sample from another, in bits.

    Args:
        posterior, prior: (values (n,), weights (n,) of sum 1).

    Returns:
        sum p log2(p / q) over bins of equal posterior mass, at least 0. Binning can only lose
        information; the noise of a finite sample adds (bins - 1) / 2 (1 / ESS of the posterior +
        1 / ESS of the prior) nats on average (Miller and Madow's correction), subtracted here.
    """
    values, weights = posterior
    held = weights > 0.0
    values, weights = values[held], weights[held]
    inner = equal_mass_edges(values, weights, _BINS)
    # What the prior has below or above all of the posterior is a bin of its own.
    edges = np.concatenate(([np.nextafter(values.min(), -np.inf)], inner, [values.max()]))
    p = _masses(values, weights, edges)
    q = _masses(*prior, edges)
    prior_size = _size(prior[1])
    # A bin that the prior's draws miss has at most about one draw's worth of mass.
    q = np.maximum(q, 0.5 / prior_size)
    q /= q.sum()
    nats = float(np.sum(np.where(p > 0.0, p * np.log(np.maximum(p, 1e-300) / q), 0.0)))
    bias = 0.5 * len(inner) * (1.0 / _size(weights) + 1.0 / prior_size)
    return max(0.0, (nats - bias) / _LN2)
