"""Roots of many monotone functions at once.

`scipy.optimize.elementwise.find_root` does the same, but importing scipy.optimize takes longer
than a whole solve; the tests hold this one against it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archinfer.models.shape import FloatArray

Function = Callable[[FloatArray, NDArray[np.intp]], FloatArray]


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
    function: Function, low: FloatArray, high: FloatArray, tolerance: float = 1e-11
) -> FloatArray:
    """For each i the largest x in [low_i, high_i] at which a decreasing function is >= 0.

    Args:
        function: f(x, i) for positions i, decreasing in x; called with subsets of positions.
        low, high: ends of the brackets, shape (n,).
        tolerance: absolute width of the final bracket (x is a logarithm, so: relative).

    Returns:
        Shape (n,): high_i where f(high_i) >= 0; -inf where f(low_i) < 0 or low_i > high_i.

    Inverse quadratic interpolation where it converges, else bisection (Chandrupatla 1997, Adv.
    Eng. Software 28, 145); f >= 0 holds at the returned end of the bracket.
    """
    result = np.full(len(low), -np.inf)
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
    if not len(index):
        return result
    a, b = low[index].copy(), high[index].copy()
    # The newest point, the other end of the bracket, and the point before them.
    new, other, before = Points(b, f_high), Points(a, f_low), Points(a, f_low)
    share = np.full(len(index), 0.5)
    goal, tries = 0.5 * (b - a), np.zeros(len(index))
    for _ in range(200):
        x = new.x + share * (other.x - new.x)
        found = Points(x, function(x, index))
        same = (found.f >= 0.0) == (new.f >= 0.0)
        before, other = new.where(same, other), other.where(same, new)
        new = found
        width = np.abs(other.x - new.x)
        finished = width <= tolerance
        if finished.any():
            result[index[finished]] = _good(new, other)[finished]
            kept = np.flatnonzero(~finished)
            if not len(kept):
                return result
            index, width, goal, tries = index[kept], width[kept], goal[kept], tries[kept]
            new, other, before = new.take(kept), other.take(kept), before.take(kept)
        # At least a third of the tolerance away from either end.
        guard = np.minimum(tolerance / 3.0 / width, 0.25)
        share = np.clip(_step(new, other, before), guard, 1.0 - guard)
        # Rounding may feign a slope where there is none.
        tries = np.where(width <= goal, 0.0, tries + 1.0)
        goal = np.where(width <= goal, 0.5 * width, goal)
        share = np.where(tries >= _PATIENCE, 0.5, share)
    result[index] = _good(new, other)
    return result


_STEPS = 24
"""Steps of a scan. What is scanned bends over half a unit of log A or more: on a range of e^6
a step is a quarter."""

_GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0


def peak(
    function: Function,
    low: FloatArray,
    high: FloatArray,
    index: NDArray[np.intp],
    tolerance: float = 1e-10,
) -> tuple[FloatArray, FloatArray]:
    """Where a function with one maximum in [low_i, high_i] has it, and the maximum.

    Args:
        function: f(x, i) for positions i.
        low, high: ends of the brackets.
        index: position of each bracket, of their shape.
        tolerance: width of the final bracket.
    """
    a, b = low.copy(), high.copy()
    if not len(index):
        return a, np.full(0, -np.inf)
    x, y = b - _GOLDEN * (b - a), a + _GOLDEN * (b - a)
    f_x, f_y = function(x, index), function(y, index)
    for _ in range(max(0, int(np.log(np.max(b - a) / tolerance + 1.0) / -np.log(_GOLDEN)))):
        left = f_x >= f_y
        a, b = np.where(left, a, x), np.where(left, y, b)
        new = np.where(left, b - _GOLDEN * (b - a), a + _GOLDEN * (b - a))
        f_new = function(new, index)
        x, y = np.where(left, new, y), np.where(left, x, new)
        f_x, f_y = np.where(left, f_new, f_y), np.where(left, f_x, f_new)
    better = f_x >= f_y
    return np.where(better, x, y), np.where(better, f_x, f_y)


def scan(
    function: Function, low: FloatArray, high: FloatArray, index: NDArray[np.intp]
) -> tuple[FloatArray, FloatArray]:
    """A function at `_STEPS` + 1 points from low_i to high_i, and the points: (steps, n) each."""
    shares = np.linspace(0.0, 1.0, _STEPS + 1)[:, None]
    x = low + (high - low) * shares
    x[-1] = high
    return np.stack([function(row, index) for row in x]), x


def hidden_peaks(values: FloatArray) -> NDArray[np.bool_]:
    """Which inner points of a scan stand beside a maximum that may reach 0 between the points.

    A parabola through three points rises above the middle one by an eighth of its second
    difference at most; half of it is allowed for.
    """
    inner = values[1:-1]
    found = np.zeros(values.shape, dtype=bool)
    top = (inner >= values[:-2]) & (inner >= values[2:])
    with np.errstate(invalid="ignore"):
        bend = 2.0 * inner - values[:-2] - values[2:]
        found[1:-1] = top & (inner < 0.0) & (inner + 0.5 * bend >= 0.0)
    return found


def last_of_several(function: Function, low: FloatArray, high: FloatArray) -> FloatArray:
    """As `last_nonnegative`, of functions that may be >= 0 on several intervals.

    Each is looked at in `_STEPS` steps; a maximum between two of them is searched where a
    parabola says that it may reach 0.
    """
    n = len(low)
    result = np.full(n, -np.inf)
    index = np.flatnonzero(low <= high)
    if not len(index):
        return result
    done = function(high[index], index) >= 0.0
    result[index[done]] = high[index[done]]
    index = index[~done]
    if not len(index):
        return result
    values, x = scan(function, low[index], high[index], index)
    at, column = np.nonzero(hidden_peaks(values))
    top, f_top = peak(function, x[at - 1, column], x[at + 1, column], index[column])
    good = values >= 0.0
    last = np.where(good.any(axis=0), _STEPS - np.argmax(good[::-1], axis=0), -1)
    every = np.arange(len(index))
    start = np.where(last >= 0, x[last, every], -np.inf)
    stop = x[np.minimum(last + 1, _STEPS), every]
    for k in np.flatnonzero(f_top >= 0.0):
        if top[k] > start[column[k]]:
            start[column[k]], stop[column[k]] = top[k], x[at[k] + 1, column[k]]
    found = np.flatnonzero(np.isfinite(start))
    result[index[found]] = last_nonnegative(
        lambda v, i: function(v, index[found[i]]), start[found], stop[found]
    )
    return result
