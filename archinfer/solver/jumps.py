"""Functions that may jump and be positive on several intervals: first, last and highest place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from archinfer.models.shape import FloatArray
from archinfer.solver.roots import (
    BESIDE_JUMP,
    Index,
    Points,
    cuts_between,
    last_nonnegative,
    peak,
)

Both: TypeAlias = Callable[[FloatArray, Index], tuple[FloatArray, Sequence[FloatArray]]]

POINTS_AT_ONCE = 20_000
"""Points that are evaluated together: more leave the processor's cache."""


class Point(NamedTuple):
    """What is known of functions at x_i, each worked out when it is called."""

    value: Callable[[], FloatArray]
    kinks: Callable[[], Sequence[FloatArray]]
    """Numbers that change their sign where the function turns and does not jump: they count only
    where it is negative on both sides."""
    jumps: Callable[[], Sequence[FloatArray]]
    """Numbers that change their sign where it jumps."""


class Known(NamedTuple):
    """A function at some points: values (points, n), and its switches (points, switches, n)."""

    f: FloatArray
    switches: FloatArray

    def take(self, index: Index | NDArray[np.bool_]) -> Known:
        """Those at `index` of n."""
        return Known(self.f[:, index], self.switches[..., index])


class Jumping(NamedTuple):
    """Functions that may jump."""

    point: Callable[[FloatArray, Index], Point]
    """Of x, for positions i."""
    kinks: int = 0
    """How many switches tell of kinks: the first ones."""

    @classmethod
    def parts(cls, both: Both) -> Jumping:
        """Of values and switches of jumps that are computed together."""

        def point(x: FloatArray, index: Index) -> Point:
            value, jumps = both(x, index)
            return Point(lambda: value, lambda: (), lambda: jumps)

        return cls(point)

    def of(self, index: Index) -> Jumping:
        """Those at `index`."""
        return Jumping(lambda x, i: self.point(x, index[i]), self.kinks)

    def values(self, x: FloatArray, index: Index) -> FloatArray:
        """f(x, i) for positions i."""
        return self.point(x, index).value()

    def switch(self, x: FloatArray, index: Index, row: Index) -> FloatArray:
        """s(x, i) for positions i, each of one of the switches."""
        found = np.empty(len(x))
        for turns in (True, False):
            at = np.flatnonzero((row < self.kinks) == turns)
            if len(at):
                point = self.point(x[at], index[at])
                every = np.stack(point.kinks() if turns else point.jumps())
                found[at] = every[row[at] - (0 if turns else self.kinks), np.arange(len(at))]
        return found

    def at(self, x: FloatArray, index: Index) -> Known:
        """Everything at points (points, n)."""
        group = max(1, POINTS_AT_ONCE // max(x.shape[1], 1))
        found = []
        for k in range(0, len(x), group):
            part = x[k : k + group]
            at = self.point(part.ravel(), np.tile(index, len(part)))
            switches = [*at.kinks(), *at.jumps()]
            every = np.reshape(switches, (len(switches), *part.shape)).swapaxes(0, 1)
            found.append(Known(at.value().reshape(part.shape), every))
        return Known(*(np.concatenate(parts) for parts in zip(*found, strict=True)))

    def jump_between(self, ends: Known) -> NDArray[np.bool_]:
        """Whether a switch of a jump differs at two points."""
        sides = ends.switches[:, self.kinks :] >= 0.0
        return np.asarray((sides[0] != sides[1]).any(axis=0))


def samples(
    function: Jumping,
    low: FloatArray,
    high: FloatArray,
    index: Index,
    steps: int,
    ends: Known | None = None,
) -> Points:
    """A function at even steps from low_i to high_i, on both sides of its jumps, and at maxima
    between these that may reach 0: (points, n) each, in order of x; `ends`: at low and high.

    Between jumps the function is taken to be concave where it counts: between two points it then
    lies below the lines through those on either side. Where these meet at 0 or above, the maximum
    is searched.
    """
    shares = np.linspace(0.0, 1.0, steps + 1)[:, None]
    x = low + (high - low) * shares
    x[-1] = high
    if ends is None:
        f, switches = function.at(x, index)
    else:
        f, switches = (
            np.concatenate([end[:1], inner, end[1:]])
            for end, inner in zip(ends, function.at(x[1:-1], index), strict=True)
        )
    known = Points(x, f)
    if switches.shape[1]:
        known = _with_jumps(function, known, switches, index)
    a, b = known.x[:-1], known.x[1:]
    at, column = np.nonzero(_may_reach_0(known) & (b - a > 2.0 * BESIDE_JUMP))
    top, f_top = peak(function.values, a[at, column], b[at, column], index[column])
    return _added(known, column, top, f_top)


def _with_jumps(function: Jumping, known: Points, switches: FloatArray, index: Index) -> Points:
    """With two more points at each jump between others, one on either side of it."""
    counts = np.ones((len(known.x) - 1, *switches.shape[1:]), dtype=bool)
    below = known.f < 0.0
    counts[:, : function.kinks] = (below[1:] & below[:-1])[:, None]
    sides = switches >= 0.0
    step, row, column = np.nonzero((sides[1:] != sides[:-1]) & counts)
    starts, stops = known.x[step, column], known.x[step + 1, column]
    begin, end = switches[step, row, column], switches[step + 1, row, column]
    # A switch may also change its sign twice between two points.
    step, rows, columns = (t[counts[turn]] for turn in [_turns(known, switches)] for t in turn)
    near = switches[step, rows, columns]
    sign = -np.copysign(1.0, near)
    place, value = peak(
        lambda x, k: sign[k] * function.switch(x, index[columns[k]], rows[k]),
        known.x[step, columns], known.x[step + 1, columns], np.arange(len(near)),
    )  # fmt: skip
    some = value > 0.0
    step, rows, columns = step[some], rows[some], columns[some]
    place, middle = place[some], (sign * value)[some]
    starts = np.concatenate([starts, known.x[step, columns], place])
    stops = np.concatenate([stops, place, known.x[step + 1, columns]])
    begin = np.concatenate([begin, switches[step, rows, columns], middle])
    end = np.concatenate([end, middle, switches[step + 1, rows, columns]])
    row, column = np.concatenate([row, rows, rows]), np.concatenate([column, columns, columns])
    cut = cuts_between(
        lambda x, i, _: function.switch(x, index[column[i]], row[i]), [begin], [end], starts, stops
    )[0]
    kept = np.flatnonzero(np.isfinite(cut))
    x = np.concatenate([cut[kept], np.minimum(cut[kept] + BESIDE_JUMP, stops[kept])])
    column = np.tile(column[kept], 2)
    return _added(known, column, x, function.values(x, index[column]))


def _turns(known: Points, switches: FloatArray) -> tuple[Index, Index, Index]:
    """Point, switch and column of switches that may reach 0 and turn back before the next point."""
    points, _, n = switches.shape
    flat = switches.reshape(points, -1)
    size = np.abs(flat)
    some = np.flatnonzero((size[1:-1] <= np.minimum(size[:-2], size[2:])).any(axis=0))
    near = Points(known.x[:, some % n], -size[:, some])
    same = (flat[1:, some] >= 0.0) == (flat[:-1, some] >= 0.0)
    step, at = np.nonzero(_may_reach_0(near) & same)
    row, column = np.divmod(some[at], n)
    return step, row, column


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
    function: Jumping, low: FloatArray, high: FloatArray, steps: int, ends: Known | None = None
) -> tuple[FloatArray, FloatArray]:
    """The first and the last x in [low_i, high_i] at which a function is >= 0 that may be so on
    several intervals and may jump; inf and -inf where there is none.

    Args:
        function: of positions i.
        low, high: ends, low_i <= high_i.
        steps: between the ends in which intervals are looked for.
        ends: the function at low and high; None: not known.
    """
    ends = function.at(np.stack([low, high]), np.arange(len(low))) if ends is None else ends
    at_low, at_high = ends.f >= 0.0
    first, last = np.where(at_low, low, np.inf), np.where(at_high, high, -np.inf)
    index = np.flatnonzero(~(at_low & at_high))
    if not len(index):
        return first, last
    known = samples(function, low[index], high[index], index, steps, ends.take(index))
    some = (known.f >= 0.0).any(axis=0)
    index, known = index[some], Points(known.x[:, some], known.f[:, some])
    first[index], last[index] = _outer(function, known, index)
    return first, last


def _outer(function: Jumping, known: Points, index: Index) -> tuple[FloatArray, FloatArray]:
    """The first and last x at which a function that is sampled, and not negative at some, is so."""
    n, most = len(index), len(known.x) - 1
    positive = known.f >= 0.0
    at = np.concatenate([np.argmax(positive, axis=0), most - np.argmax(positive[::-1], axis=0)])
    sign, every = np.repeat([-1.0, 1.0], n), np.tile(np.arange(n), 2)
    beyond = np.clip(at + sign.astype(int), 0, most)
    inside, outside = known.x[at, every], known.x[beyond, every]
    beyond = np.where(np.abs(outside - inside) <= 2.0 * BESIDE_JUMP, at, beyond)
    root = last_nonnegative(
        lambda x, i: function.values(sign[i] * x, index[every[i]]),
        sign * inside, sign * known.x[beyond, every],
        known=(known.f[at, every], known.f[beyond, every]),
    )  # fmt: skip
    root = np.where(np.isfinite(root), sign * root, inside)
    return root[:n], root[n:]


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
