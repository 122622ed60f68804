"""Functions that may jump and be positive on several intervals: first, last and highest place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from archinfer.models.shape import FloatArray
from archinfer.solver.roots import (
    BESIDE_JUMP,
    Function,
    Index,
    Points,
    cuts_between,
    last_nonnegative,
    peak,
)

Both: TypeAlias = Callable[[FloatArray, Index], tuple[FloatArray, Sequence[FloatArray]]]


class Jumping(NamedTuple):
    """Functions that may jump."""

    values: Function
    """f(x, i) for positions i."""
    switches: Callable[[FloatArray, Index], Sequence[FloatArray]]
    """s(x, i): numbers whose sign changes where the values jump."""
    both: Both
    """Values and switches, computed together."""

    @classmethod
    def parts(cls, both: Both) -> Jumping:
        """Of a function whose switches cost no less than all of it."""
        return cls(lambda x, i: both(x, i)[0], lambda x, i: both(x, i)[1], both)

    def of(self, index: Index) -> Jumping:
        """Those at `index`."""
        return Jumping(*((lambda x, i, f=f: f(x, index[i])) for f in self))


def samples(
    function: Jumping, low: FloatArray, high: FloatArray, index: Index, steps: int
) -> Points:
    """A function at even steps from low_i to high_i, on both sides of its jumps, and at maxima
    between these that may reach 0: (points, n) each, in order of x.

    Between jumps the function is taken to be concave where it counts: between two points it then
    lies below the lines through those on either side. Where these meet at 0 or above, the maximum
    is searched.
    """
    shares = np.linspace(0.0, 1.0, steps + 1)[:, None]
    x = low + (high - low) * shares
    x[-1] = high
    found = [function.both(row, index) for row in x]
    f = np.stack([value for value, _ in found])
    switches = np.stack([np.reshape(s, (-1, len(low))) for _, s in found])
    known = Points(x, f)
    if switches.shape[1]:
        known = _with_jumps(function, known, switches, index)
    a, b = known.x[:-1], known.x[1:]
    at, column = np.nonzero(_may_reach_0(known) & (b - a > 2.0 * BESIDE_JUMP))
    top, f_top = peak(function.values, a[at, column], b[at, column], index[column])
    return _added(known, column, top, f_top)


def _with_jumps(
    function: Jumping, known: Points, switches: NDArray[np.float64], index: Index
) -> Points:
    """With two more points at each jump between others, one on either side of it."""

    def switch(x: FloatArray, column: Index, row: Index) -> FloatArray:
        return np.stack(function.switches(x, index[column]))[row, np.arange(len(x))]

    sides = switches >= 0.0
    step, row, column = np.nonzero(sides[1:] != sides[:-1])
    starts, stops = known.x[step, column], known.x[step + 1, column]
    # A switch may also change its sign twice between two points.
    near, turn = _turns(known, switches)
    place, value = peak(
        lambda x, k: -np.copysign(1.0, near[k]) * switch(x, turn[2][k], turn[1][k]),
        known.x[turn[0], turn[2]], known.x[turn[0] + 1, turn[2]], np.arange(len(near)),
    )  # fmt: skip
    step, rows, columns = (t[value > 0.0] for t in turn)
    place = place[value > 0.0]
    starts = np.concatenate([starts, known.x[step, columns], place])
    stops = np.concatenate([stops, place, known.x[step + 1, columns]])
    row, column = np.concatenate([row, rows, rows]), np.concatenate([column, columns, columns])
    begin, end = (switch(x, column, row) for x in (starts, stops))
    cut = cuts_between(lambda x, i, _: switch(x, column[i], row[i]), [begin], [end], starts, stops)[
        0
    ]
    kept = np.flatnonzero(np.isfinite(cut))
    column, cut = column[kept], cut[kept]
    for x in (cut, np.minimum(cut + BESIDE_JUMP, stops[kept])):
        known = _added(known, column, x, function.values(x, index[column]))
    return known


def _turns(
    known: Points, switches: NDArray[np.float64]
) -> tuple[FloatArray, tuple[Index, Index, Index]]:
    """Switches that may reach 0 and turn back between two points: their value at the first of
    these, and point, switch and column."""
    points, _, n = switches.shape
    flat = switches.reshape(points, -1)
    size = np.abs(flat)
    some = np.flatnonzero((size[1:-1] <= np.minimum(size[:-2], size[2:])).any(axis=0))
    near = Points(known.x[:, some % n], -size[:, some])
    same = (flat[1:, some] >= 0.0) == (flat[:-1, some] >= 0.0)
    step, at = np.nonzero(_may_reach_0(near) & same)
    row, column = np.divmod(some[at], n)
    return flat[step, some[at]], (step, row, column)


def _added(known: Points, column: Index, x: FloatArray, f: FloatArray) -> Points:
    """With more points in some columns; the others repeat their last one."""
    if not len(column):
        return known
    order = np.argsort(column, kind="stable")
    column, x, f = column[order], x[order], f[order]
    place = np.arange(len(column)) - np.searchsorted(column, column)
    more = Points(*(np.repeat(v[-1:], place.max() + 1, axis=0) for v in known))
    more.x[place, column], more.f[place, column] = x, f
    both = Points(*(np.vstack(pair) for pair in zip(known, more, strict=True)))
    rank = np.argsort(both.x, axis=0, kind="stable")
    return Points(*(np.take_along_axis(v, rank, axis=0) for v in both))


def _may_reach_0(known: Points) -> NDArray[np.bool_]:
    """Between which neighbours a function that is negative at both may reach 0."""
    x, f = known
    gap = np.diff(x, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.where(gap > 2.0 * BESIDE_JUMP, np.diff(f, axis=0) / gap, np.nan)
        none = np.full((1, x.shape[1]), np.nan)
        before, after = np.vstack([none, slope[:-1]]), np.vstack([slope[1:], none])
        # Lines through the points on the left and on the right, and where they meet.
        rise, fall = f[1:] - after * gap, f[:-1] + before * gap
        share = (f[1:] - after * gap - f[:-1]) / ((before - after) * gap)
        meet = np.where((share > 0.0) & (share < 1.0), f[:-1] + before * gap * share, -np.inf)
    meet = np.where(np.isnan(before), rise, np.where(np.isnan(after), fall, meet))
    negative = (f[1:] < 0.0) & (f[:-1] < 0.0)
    negative &= np.isfinite(f[1:]) | np.isfinite(f[:-1])
    return negative & (gap > 2.0 * BESIDE_JUMP) & ~(meet < 0.0)


def ends_of_several(
    function: Jumping, low: FloatArray, high: FloatArray, steps: int
) -> tuple[FloatArray, FloatArray]:
    """The first and the last x in [low_i, high_i] at which a function is >= 0 that may be so on
    several intervals and may jump; inf and -inf where there is none."""
    first, last = np.full(len(low), np.inf), np.full(len(low), -np.inf)
    index = np.flatnonzero(low <= high)
    at_low, at_high = (function.values(x[index], index) >= 0.0 for x in (low, high))
    first[index[at_low]], last[index[at_high]] = low[index[at_low]], high[index[at_high]]
    index = index[~(at_low & at_high)]
    if not len(index):
        return first, last
    known = samples(function, low[index], high[index], index, steps)
    some = (known.f >= 0.0).any(axis=0)
    index, known = index[some], Points(known.x[:, some], known.f[:, some])
    last[index] = _last(function, known, index)
    mirrored = Jumping(*((lambda x, i, f=f: f(-x, i)) for f in function))
    first[index] = -_last(mirrored, Points(-known.x[::-1], known.f[::-1]), index)
    return first, last


def _last(function: Jumping, known: Points, index: Index) -> FloatArray:
    """The last x at which a function that is sampled, and not negative at some, is so."""
    every, most = np.arange(len(index)), len(known.x) - 1
    at = most - np.argmax(known.f[::-1] >= 0.0, axis=0)
    inside, outside = known.x[at, every], known.x[np.minimum(at + 1, most), every]
    jump = outside - inside <= 2.0 * BESIDE_JUMP
    root = last_nonnegative(
        lambda x, i: function.values(x, index[i]), inside, np.where(jump, inside, outside)
    )
    return np.where(np.isfinite(root), root, inside)


def highest(
    function: Jumping, low: FloatArray, high: FloatArray, index: Index, steps: int
) -> tuple[FloatArray, FloatArray]:
    """Where a function that may jump is largest, and the maximum."""
    x, f = samples(function, low, high, index, steps)
    every = np.arange(len(index))
    pick = np.argmax(f, axis=0)
    best_x, best = x[pick, every].copy(), f[pick, every].copy()
    at = np.flatnonzero(best > 0.0)
    start, stop = (x[np.clip(pick[at] + k, 0, len(x) - 1), at] for k in (-1, 1))
    top, f_top = peak(function.values, start, stop, index[at])
    better = f_top > best[at]
    best_x[at[better]], best[at[better]] = top[better], f_top[better]
    return best_x, best
