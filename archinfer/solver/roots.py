"""Roots of many monotone functions at once.

`scipy.optimize.elementwise.find_root` does the same, but importing scipy.optimize takes longer
than a whole solve; the tests hold this one against it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from archinfer.models.shape import FloatArray

Index: TypeAlias = NDArray[np.intp]
Function = Callable[[FloatArray, Index], FloatArray]


_PATIENCE = 3
"""Steps in which a bracket must halve, or it is bisected."""


class Points(NamedTuple):
    """Points of several functions, and their values there."""

    x: FloatArray
    f: FloatArray

    def take(self, index: NDArray[np.intp]) -> Points:
        """Those at `index`."""
        return Points(self.x[index], self.f[index])

    def where(self, condition: NDArray[np.bool_], others: Points) -> Points:
        """These where the condition holds, else the others."""
        return Points(np.where(condition, self.x, others.x), np.where(condition, self.f, others.f))


def _good(one: Points, other: Points) -> FloatArray:
    """The end of each bracket at which its function is >= 0."""
    return np.where(one.f >= 0.0, one.x, other.x)


def _step(new: Points, other: Points, before: Points) -> FloatArray:
    """Part of the way from the newest point to the other end at which to look next."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        near = (new.x - other.x) / (before.x - other.x)
        low = (new.f - other.f) / (before.f - other.f)
        share = (new.f / (other.f - new.f)) * (before.f / (other.f - before.f)) + (
            (before.x - new.x) / (other.x - new.x)
        ) * (new.f / (before.f - new.f)) * (other.f / (before.f - other.f))
        smooth = (low**2 < near) & ((1.0 - low) ** 2 < 1.0 - near)
    return np.where(smooth & np.isfinite(share), share, 0.5)


def last_nonnegative(
    function: Function,
    low: FloatArray,
    high: FloatArray,
    tolerance: float = 1e-11,
    known: tuple[FloatArray, FloatArray] | None = None,
) -> FloatArray:
    """For each i the largest x in [low_i, high_i] at which a decreasing function is >= 0.

    Args:
        function: f(x, i) for positions i, decreasing in x; called with subsets of positions.
        low, high: ends of the brackets, shape (n,).
        tolerance: absolute width of the final bracket (x is a logarithm, so: relative).
        known: the function at low_i and high_i, where it has been evaluated.

    Returns:
        Shape (n,): high_i where f(high_i) >= 0; -inf where f(low_i) < 0 or low_i > high_i.

    Inverse quadratic interpolation where it converges, else bisection (Chandrupatla 1997, Adv.
    Eng. Software 28, 145); f >= 0 holds at the returned end of the bracket.
    """
    result = np.full(len(low), -np.inf)
    index = np.flatnonzero(low <= high)
    if not len(index):
        return result
    f_high = function(high[index], index) if known is None else known[1][index]
    done = f_high >= 0.0
    result[index[done]] = high[index[done]]
    index, f_high = index[~done], f_high[~done]
    if not len(index):
        return result
    f_low = function(low[index], index) if known is None else known[0][index]
    keep = f_low >= 0.0
    index, f_low, f_high = index[keep], f_low[keep], f_high[keep]
    result[index] = _narrowed(
        function, index, Points(low[index], f_low), Points(high[index], f_high), tolerance
    )
    return result


def _narrowed(
    function: Function, index: Index, other: Points, new: Points, tolerance: float
) -> FloatArray:
    """The good ends of brackets from `other`, where the functions at `index` are >= 0, to `new`."""
    result, left = np.empty(len(index)), np.arange(len(index))
    # The newest point, the other end of the bracket, and the point before them.
    before, share = other, np.full(len(index), 0.5)
    goal, tries = 0.5 * (new.x - other.x), np.zeros(len(index))
    for _ in range(200 if len(index) else 0):
        x = new.x + share * (other.x - new.x)
        found = Points(x, function(x, index[left]))
        same = (found.f >= 0.0) == (new.f >= 0.0)
        before, other, new = new.where(same, other), other.where(same, new), found
        width = np.abs(other.x - new.x)
        finished = width <= tolerance
        if finished.any():
            result[left[finished]] = _good(new, other)[finished]
            kept = np.flatnonzero(~finished)
            if not len(kept):
                return result
            left, width, goal, tries = left[kept], width[kept], goal[kept], tries[kept]
            new, other, before = new.take(kept), other.take(kept), before.take(kept)
        # At least a third of the tolerance away from either end.
        guard = np.minimum(tolerance / 3.0 / width, 0.25)
        share = np.clip(_step(new, other, before), guard, 1.0 - guard)
        # Rounding may feign a slope where there is none.
        tries = np.where(width <= goal, 0.0, tries + 1.0)
        goal = np.where(width <= goal, 0.5 * width, goal)
        share = np.where(tries >= _PATIENCE, 0.5, share)
    result[left] = _good(new, other)
    return result


_SLOPE = 1e-6
"""Step over which the slope of a function is taken."""


def peak(
    function: Function, low: FloatArray, high: FloatArray, index: Index
) -> tuple[FloatArray, FloatArray]:
    """Where a function with one maximum in [low_i, high_i] has it to 1e-7, and the maximum.

    Args:
        function: f(x, i) for positions i.
        low, high: ends of the brackets.
        index: position of each bracket, of their shape.
    """
    if not len(index):
        return low.copy(), np.full(0, -np.inf)
    step = np.minimum(_SLOPE, 0.1 * (high - low))

    def slope(x: FloatArray, i: Index) -> FloatArray:
        both = function(np.concatenate([x, x + step[i]]), np.concatenate([index[i], index[i]]))
        return both[len(x) :] - both[: len(x)]

    x = last_nonnegative(slope, low, high - step, tolerance=1e-7)
    x = np.where(np.isfinite(x), x, low)
    # Between steps the maximum lies half a step on.
    ends = [x, np.minimum(x + 0.5 * step, high), high]
    values = np.stack([function(v, index) for v in ends])
    pick, every = np.argmax(values, axis=0), np.arange(len(index))
    return np.stack(ends)[pick, every], values[pick, every]


BESIDE_JUMP = 2e-11
"""Step that leads to the other side of a jump whose place is known to the tolerance of a root."""


def cuts_between(
    switch: Callable[[FloatArray, Index, Index], FloatArray],
    first: Sequence[FloatArray],
    last: Sequence[FloatArray],
    low: FloatArray,
    high: FloatArray,
) -> FloatArray:
    """Where monotone functions change sign, one row a function; NaN where one does not.

    Args:
        switch: f(x, i, row) for positions i and functions `row`.
        first, last: the functions at low_i and high_i.
        low, high: ends, shape (n,).

    Returns:
        Shape (functions, n): the last x on the side of low_i, to the tolerance of a root.
    """
    cuts = np.full((len(first), len(low)), np.nan)
    if not len(first):
        return cuts
    ends = np.stack(first), np.stack(last)
    sides = ends[0] >= 0.0
    row, i = np.nonzero((sides != (ends[1] >= 0.0)) & (low < high))
    sign = np.where(sides[row, i], 1.0, -1.0)
    # At a root itself the side of what is 0 counts.
    tiny = np.where(sides[row, i], 0.0, -1e-300)
    cuts[row, i] = last_nonnegative(
        lambda x, k: sign[k] * switch(x, i[k], row[k]) + tiny[k], low[i], high[i],
        known=(sign * ends[0][row, i] + tiny, sign * ends[1][row, i] + tiny),
    )  # fmt: skip
    return cuts
