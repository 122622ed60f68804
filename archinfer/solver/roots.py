"""Roots of many monotone functions at once.

`scipy.optimize.elementwise.find_root` does the same, but importing scipy.optimize takes longer
than a whole solve; the tests hold this one against it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from archinfer.models.shape import FloatArray

__all__ = ["last_nonnegative"]

Function = Callable[[FloatArray, NDArray[np.intp]], FloatArray]


def last_nonnegative(
    function: Function, low: FloatArray, high: FloatArray, tolerance: float = 1e-11
) -> FloatArray:
    """For each i the largest x in [low_i, high_i] at which a decreasing function is >= 0.

    Args:
        function: f(x, i) for positions i, decreasing in x; called with subsets of positions.
        low, high: ends of the brackets, shape (n,).
        tolerance: absolute width of the final bracket (x is a logarithm, so: relative).

    Returns:
        Shape (n,): high_i where f(high_i) >= 0; -inf where f(low_i) < 0 or low_i > high_i.

    Regula falsi (Illinois variant), bisecting whenever a step shrinks the bracket by less than
    half; f >= 0 holds at the returned end of the bracket.
    """
    n = len(low)
    result = np.full(n, -np.inf)
    index = np.flatnonzero(low <= high)
    if not len(index):
        return result
    f_high = function(high[index], index)
    done = f_high >= 0.0
    result[index[done]] = high[index[done]]
    index, f_high = index[~done], f_high[~done]
    if not len(index):
        return result
    f_low = function(low[index], index)
    keep = f_low >= 0.0
    index, f_low, f_high = index[keep], f_low[keep], f_high[keep]
    a, b = low[index].copy(), high[index].copy()
    bisect = ~np.isfinite(f_low) | ~np.isfinite(f_high)
    for _ in range(200):
        if not len(index):
            break
        with np.errstate(invalid="ignore"):
            secant = a + (b - a) * (f_low / (f_low - f_high))
        x = np.where(bisect | ~np.isfinite(secant), 0.5 * (a + b), secant)
        # Stay inside, at least a third of the tolerance away from either end.
        guard = np.minimum(tolerance / 3.0, 0.25 * (b - a))
        x = np.clip(x, a + guard, b - guard)
        f = function(x, index)
        width = b - a
        good = f >= 0.0
        # Illinois: halve the value kept at the end that did not move.
        f_high = np.where(good, 0.5 * f_high, f)
        f_low = np.where(good, f, 0.5 * f_low)
        a, b = np.where(good, x, a), np.where(good, b, x)
        bisect = (b - a > 0.5 * width) | ~np.isfinite(f)
        finished = b - a <= tolerance
        result[index[finished]] = a[finished]
        open_ = ~finished
        index, a, b = index[open_], a[open_], b[open_]
        f_low, f_high, bisect = f_low[open_], f_high[open_], bisect[open_]
    result[index] = a
    return result
