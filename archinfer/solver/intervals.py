"""The N that are possible at given A in a slice.

Memory and the time of a pass grow with N. So a target without a spread leaves one interval of N.
With one, N is cut into pieces where the spread jumps (`Pieces`). In a piece of temporal hardware
the time is a + b h(N), with h the distinct experts that are read: every constant's share of it is
linear in u = 1 / T, so log u - z sd is concave in u. What is fast enough for a target in a piece is
one interval, which its ends or the maximum between them show; what is slow enough for an observed
speed lies at its ends. Power at load is a ratio of two such sums: in a piece it moves one way, and
so does a price that pays for it.
"""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archinfer.models.shape import FloatArray
from archinfer.solver.bounds import FAST, MOST, ROUNDING, SLOW, TINY, Bounds, Speeds
from archinfer.solver.jumps import Jumping, Point
from archinfer.solver.roots import BESIDE_JUMP, Function, cuts_between, last_nonnegative, peak
from archinfer.solver.slices import Index

_ONSET = 1e-5
"""Step in log N by which a slack that rises at all has risen."""


class Pieces(NamedTuple):
    """Pieces of log N at several points, and slacks at their ends: (pieces, n) each.

    NaN where a point has fewer pieces than others."""

    start: FloatArray
    stop: FloatArray
    fast: tuple[FloatArray, FloatArray]
    """At start and stop."""
    slow: tuple[FloatArray, FloatArray]

    def take(self, *index: Index | int) -> Pieces:
        """Those at `index`: of one piece, or of some of several points."""
        fast, slow = ((of[0][index], of[1][index]) for of in (self.fast, self.slow))
        return Pieces(self.start[index], self.stop[index], fast, slow)


def total_interval(b: Bounds, active: FloatArray, index: Index) -> tuple[FloatArray, FloatArray]:
    """The outer ends of the feasible N at given A, all constraints but the limits on A alone.

    Returns:
        Low and high; low > high where there is none.
    """
    least = b.total_low_of(active, index)
    most = np.minimum(b.total_high_of(active, index), MOST)
    if not b.has(*FAST, SLOW):
        return least, most
    low, high = np.log(least), np.log(np.maximum(most, TINY))
    if not b.spread:
        end = last_nonnegative(
            lambda x, i: b.at(np.exp(x), active[i], index[i]).fast + ROUNDING, low, high
        )
        return least, np.where(end < high, np.exp(end), most)
    found_low, found_high = np.full(len(low), np.inf), np.full(len(low), -np.inf)
    possible = np.flatnonzero(low <= high)
    ends = low[possible], high[possible]
    sides = (b.at(np.exp(x), active[possible], index[possible]) for x in ends)
    pieces = pieces_of(b, *ends, active[possible], index[possible], *sides)
    for k in range(len(pieces.start)):
        here = np.flatnonzero(np.isfinite(pieces.start[k]))
        at = possible[here]
        start, stop = _of_piece(b, pieces.take(k, here), active[at], index[at])
        some = start <= stop
        found_low[at[some]] = np.minimum(found_low[at[some]], start[some])
        found_high[at[some]] = np.maximum(found_high[at[some]], stop[some])
    # Where speed takes nothing away the end stays what it was, to the last digit.
    return (
        np.where(found_low == low, least, np.exp(found_low)),
        np.where(found_high == high, most, np.exp(found_high)),
    )


def best_slack(b: Bounds) -> Jumping:
    """Largest slack of speed over all N at given A, of logarithms of A; its sign is exact.

    Where a point misses both sides of an observed speed there is none: some N between one that is
    fast enough and one that is slow enough is both.
    """

    def point(x: FloatArray, index: Index) -> Point:
        active = np.exp(x)
        least = b.total_low_of(active, index)
        if not b.spread:
            at = b.at(least, active, index)
            return Point(lambda: at.fast, lambda: (), lambda: at.jumps[1])
        low = np.log(least)
        high = np.maximum(np.log(np.clip(b.total_high_of(active, index), TINY, MOST)), low)
        first, last = (b.at(np.exp(y), active, index) for y in (low, high))
        return Point(
            lambda: _best(b, low, high, active, index, first, last),
            lambda: [np.nan_to_num(first.fast - last.slow)],
            lambda: [*chain(*first.jumps), *(last.jumps[0] if first.jumps[0] else ())],
        )

    return Jumping(point, kinks=int(b.spread))


def _best(
    b: Bounds,
    low: FloatArray,
    high: FloatArray,
    active: FloatArray,
    index: Index,
    first: Speeds,
    last: Speeds,
) -> FloatArray:
    best = np.minimum(first.fast, last.slow)
    # Another limit of speed may take away all that is slow enough.
    both = b.has(SLOW) and b.has(*FAST[1:])
    open_ = np.flatnonzero((first.fast >= -b.gain) & ((best < 0.0) | both))
    best[open_] = -np.inf
    pieces = pieces_of(
        b, low[open_], high[open_], active[open_], index[open_], first.take(open_),
        last.take(open_),
    )  # fmt: skip
    for k in range(len(pieces.start)):
        here = np.flatnonzero(np.isfinite(pieces.start[k]))
        at, one = open_[here], pieces.take(k, here)
        fast, slow = np.maximum(*one.fast), np.maximum(*one.slow)
        missed = np.flatnonzero(fast < 0.0)
        fast[missed] = _fastest(b, one.take(missed), active[at[missed]], index[at[missed]])[1]
        if both:
            some = np.flatnonzero(np.minimum(fast, slow) >= 0.0)
            ends = _of_piece(b, one.take(some), active[at[some]], index[at[some]])
            slow[some[ends[0] > ends[1]]] = -1.0
        best[at] = np.maximum(best[at], np.minimum(fast, slow))
    return best


def pieces_of(
    b: Bounds,
    low: FloatArray,
    high: FloatArray,
    active: FloatArray,
    index: Index,
    first: Speeds,
    last: Speeds,
) -> Pieces:
    """Cuts log N between `low` and `high`, where speeds are `first` and `last`, at jumps of the
    spread."""

    def switch(x: FloatArray, i: Index, row: Index) -> FloatArray:
        found = b.at(np.exp(x), active[i], index[i]).jumps[0]
        return np.stack(found)[row, np.arange(len(x))]

    cuts = np.sort(cuts_between(switch, first.jumps[0], last.jumps[0], low, high), axis=0)
    cuts = cuts[: int(np.isfinite(cuts).sum(axis=0).max(initial=0))]
    start = np.vstack([low, np.minimum(cuts + BESIDE_JUMP, high)])
    stop = np.vstack([cuts, np.full(len(low), np.nan)])
    # The last piece of each point ends at its high end.
    stop[np.isfinite(cuts).sum(axis=0), np.arange(len(low))] = high
    fast, slow = np.full((2, 2, *start.shape), np.nan)
    fast[0][0], slow[0][0] = first.fast, first.slow
    where = stop == high
    fast[1][where], slow[1][where] = (
        np.broadcast_to(v, stop.shape)[where] for v in (last.fast, last.slow)
    )
    for side, x in enumerate((start[1:], stop[:-1])):
        k, i = np.nonzero(np.isfinite(x) & ~((side == 1) & (x == high)))
        if len(i):
            found = b.at(np.exp(x[k, i]), active[i], index[i])
            fast[side][k + 1 - side, i] = found.fast
            slow[side][k + 1 - side, i] = found.slow
    return Pieces(start, stop, (fast[0], fast[1]), (slow[0], slow[1]))


def _full(b: Bounds, active: FloatArray, index: Index) -> FloatArray:
    """Logarithm of the N up to which a wafer's best region has room for a layer's bytes."""
    least = b.total_low_of(active, index)
    at = b.candidate(least, active, index)
    best = np.asarray(at.time.side) ** 2 * at.mapping.layers_per_stage / b.question.hardware.cores
    room = b.capacity_total(active, index)
    with np.errstate(divide="ignore", invalid="ignore"):
        full = np.log(room - (room - least) * (1.0 - best) / (1.0 - at.memory_fraction))
    return np.where(np.isfinite(full), full, np.log(least))


def _fastest(
    b: Bounds, one: Pieces, active: FloatArray, index: Index
) -> tuple[FloatArray, FloatArray]:
    """The log N of a piece at which it is fastest, and the slack there."""
    start, stop = one.start, one.stop
    if b.question.hardware.spatial:
        start = np.clip(_full(b, active, index), start, stop)
    x = np.where(one.fast[0] >= one.fast[1], one.start, stop)
    best = np.maximum(*one.fast)

    def fast(y: FloatArray, i: Index) -> FloatArray:
        return b.at(np.exp(y), active[i], index[i]).fast

    step = np.minimum(_ONSET, 0.1 * (stop - start))
    inside = np.flatnonzero(fast(start + step, np.arange(len(start))) > one.fast[0])
    top, found = peak(fast, start[inside], stop[inside], inside)
    better = found > best[inside]
    x[inside[better]], best[inside[better]] = top[better], found[better]
    return x, best


def _of_piece(
    b: Bounds, one: Pieces, active: FloatArray, index: Index
) -> tuple[FloatArray, FloatArray]:
    """Outer ends of what is possible in a piece; low > high where nothing is."""
    low, high = one.start.copy(), one.stop.copy()

    def fast(x: FloatArray, i: Index) -> FloatArray:
        return b.at(np.exp(x), active[i], index[i]).fast + ROUNDING

    def slow(x: FloatArray, i: Index) -> FloatArray:
        return b.at(np.exp(x), active[i], index[i]).slow + ROUNDING

    if b.has(*FAST):
        left, right = (f < -ROUNDING for f in one.fast)
        at = np.flatnonzero(left & right)
        within = np.full(len(low), np.nan)
        within[at], top = _fastest(b, one.take(at), active[at], index[at])
        none = at[top < -ROUNDING]
        low[none], high[none] = np.inf, -np.inf
        within = np.where(left & right, within, np.where(left, high, low))
        _move(fast, left, low, within, -1.0)
        _move(fast, right, high, within, 1.0)
    if b.has(SLOW):
        sides = []
        for end, known, old in ((low, one.slow[0], one.start), (high, one.slow[1], one.stop)):
            known, moved = known.copy(), np.flatnonzero((low <= high) & (end != old))
            known[moved] = slow(end[moved], moved) - ROUNDING
            sides.append((low <= high) & (known < -ROUNDING))
        left, right = sides
        before = low.copy(), high.copy()
        _move(slow, left & ~right, low, before[1], -1.0)
        _move(slow, right & ~left, high, before[0], 1.0)
        low[left & right], high[left & right] = np.inf, -np.inf
    return low, high


def _move(
    function: Function,
    wanted: NDArray[np.bool_],
    end: FloatArray,
    within: FloatArray,
    sign: float,
) -> None:
    """Moves the ends that are `wanted` towards `within` until a function is not negative there.

    Args:
        sign: 1 of high ends, -1 of low ones.
    """
    at = np.flatnonzero(wanted & np.isfinite(end))
    x = last_nonnegative(lambda y, i: function(sign * y, at[i]), sign * within[at], sign * end[at])
    end[at] = np.where(np.isfinite(x), sign * x, within[at])
