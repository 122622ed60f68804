"""Weighted quantiles, and information between weighted samples, in bits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from archinfer.models.shape import FloatArray

__all__ = ["equal_mass_edges", "information_bits", "mutual_information_bits", "quantiles"]

_BINS = 64
_LN2 = float(np.log(2.0))


def quantiles(values: FloatArray, weights: FloatArray, at: tuple[float, ...]) -> FloatArray:
    """Quantiles of a weighted sample: values (n,), weights (n,) of sum 1 -> (len(at),).

    Linear between the midpoints of the cumulative weights.
    """
    order = np.argsort(values, kind="stable")
    w = weights[order]
    middle = np.cumsum(w) - 0.5 * w
    return np.asarray(np.interp(at, middle, values[order]))


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


def mutual_information_bits(left: NDArray[np.intp], right: NDArray[np.intp], size: float) -> float:
    """Mutual information of two binned variables in bits, at least 0.

    Args:
        left, right: bin numbers of equally weighted draws, shape (n,).
        size: effective number of independent draws, for the bias (rows - 1)(columns - 1) /
            (2 size) nats of a finite sample, which is subtracted.
    """
    rows, columns = int(left.max()) + 1, int(right.max()) + 1
    joint = np.bincount(left * columns + right, minlength=rows * columns).astype(float)
    joint = joint.reshape(rows, columns) / len(left)
    expected = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
    held = joint > 0.0
    nats = float(np.sum(joint[held] * np.log(joint[held] / expected[held])))
    used = int((np.count_nonzero(joint.sum(1)) - 1) * (np.count_nonzero(joint.sum(0)) - 1))
    return max(0.0, (nats - used / (2.0 * size)) / _LN2)
