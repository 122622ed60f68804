"""The ends of the region in each slice: the interval of A, the least and the largest N."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from archinfer.models.shape import FloatArray
from archinfer.solver.bounds import FAST, ROUNDING, SLOW, TINY, Limits
from archinfer.solver.question import Question
from archinfer.solver.roots import hidden_peaks, last_nonnegative, last_of_several, peak, scan
from archinfer.solver.slices import Index, Slices

_ROUNDING = 1e-9
_NEAR = 1e-7
Names: TypeAlias = NDArray[np.str_]


@dataclass(frozen=True, slots=True)
class ActiveEnds:
    """Slices with the interval of A in each and what draws its ends."""

    slices: Slices
    low: FloatArray
    high: FloatArray
    low_by: Names
    high_by: Names

    def take(self, index: Index) -> ActiveEnds:
        """Those at `index`."""
        return ActiveEnds(
            self.slices.take(index), *(getattr(self, f.name)[index] for f in fields(self)[1:])
        )


@dataclass(frozen=True, slots=True)
class TotalEnds:
    """Least and largest N of each slice, the A at which they stand, and what draws them."""

    low: FloatArray
    high: FloatArray
    low_at: FloatArray
    high_at: FloatArray
    low_by: Names
    high_by: Names


Ends = TypeVar("Ends", ActiveEnds, TotalEnds, Slices)


def active_ends(question: Question, slices: Slices) -> ActiveEnds:
    """The slices in which some model is possible, with the interval of A of each."""
    f = Limits(question, slices)
    every = np.arange(len(slices))
    a_low, a_high, low_by, high_by = f.active_limits
    # At A itself the total is at least A, so capacity bounds A too.
    ceiling = np.maximum(f.capacity_total(a_low, every), TINY)
    high_by = np.where(ceiling < a_high, "capacity", high_by).astype(object)
    x_low, x_high = np.log(a_low), np.log(np.minimum(a_high, ceiling))

    def least(x: FloatArray, i: Index) -> FloatArray:
        return f.total_low_of(np.exp(x), i)

    root = last_nonnegative(
        lambda x, i: f.capacity_log(np.exp(x), i) - np.log(least(x, i)), x_low, x_high
    )
    high_by[(root < x_high) & np.isfinite(root)] = "capacity"
    low, top = x_low, root
    x_high = top
    if f.has(*FAST):
        x_high = last_nonnegative(lambda x, i: f.fast(least(x, i), np.exp(x), i), low, top)
        x_high = _humped(f, x_high, low, top)
    if f.has(SLOW):
        x_low = _raised(f, low, x_high)
    x_low, x_high = _unfolded(f, (x_low, x_high), (low, top))
    moved = np.flatnonzero((x_high < top) & np.isfinite(x_high))
    if len(moved):
        high_by[moved] = f.slowest_name(least(top[moved], moved), np.exp(top[moved]), moved)
    low_by = np.where(x_low > low, SLOW if f.has(SLOW) else "speed", low_by)
    kept = np.flatnonzero((x_low <= x_high) & np.isfinite(x_high))
    return ActiveEnds(
        slices, np.exp(x_low), np.exp(x_high), np.asarray(low_by, str), high_by.astype(str)
    ).take(kept)


_ROUNDS = 6


def _humped(f: Limits, x_high: FloatArray, low: FloatArray, top: FloatArray) -> FloatArray:
    """The largest A that is fast enough also where a larger total than the least is faster."""
    x_high = x_high.copy()
    work = np.flatnonzero(f.humped & (x_high < top) & (low <= top))
    for _ in range(_ROUNDS):
        x = np.maximum(x_high[work], low[work])
        total = f.fastest_total(np.exp(x), work)
        gained = f.fast(total, np.exp(x), work) > ROUNDING
        work, x, total = work[gained], x[gained], total[gained]
        if not len(work):
            break

        def fast(x: FloatArray, i: Index, work: Index = work, n: FloatArray = total) -> FloatArray:
            active = np.exp(x)
            least, most = (g(active, work[i]) for g in (f.total_low_of, f.total_high_of))
            return f.fast(np.clip(n[i], least, np.maximum(least, most)), active, work[i])

        x_high[work] = last_nonnegative(fast, x, top[work])
    return x_high


def _raised(f: Limits, x_low: FloatArray, x_high: FloatArray) -> FloatArray:
    """The least A that is slow enough at its largest or at its least total; inf where none is."""
    raised = np.full(len(x_low), np.inf)
    for total_of in (f.total_high_of, f.total_low_of):
        # Search downwards from the least A known, else from the top.
        start = np.where(np.isfinite(raised), raised, x_high)

        def slow(y: FloatArray, i: Index, total_of: Any = total_of) -> FloatArray:
            return f.slow(total_of(np.exp(-y), i), np.exp(-y), i)

        raised = np.minimum(raised, -last_nonnegative(slow, -start, -x_low))
    return np.asarray(np.maximum(x_low, raised))


def _unfolded(
    f: Limits, found: tuple[FloatArray, FloatArray], within: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """The least and the largest A also where the time need not grow with A.

    Args:
        f: limits.
        found: logarithms of the ends as if it grew; the interval may be empty.
        within: logarithms between which A may lie.
    """
    at = np.flatnonzero(f.folded & (within[0] <= within[1]))
    if not len(at) or not f.has(*FAST):
        return found
    low, top = within[0][at], within[1][at]
    x_low, x_high = found[0][at], found[1][at]

    def slack(x: FloatArray, j: Index) -> FloatArray:
        active, i = np.exp(x), at[j]
        fast = f.fast(f.total_low_of(active, i), active, i)
        if not f.has(SLOW):
            return fast
        slow = f.slow(f.total_high_of(active, i), active, i)
        return np.asarray(np.minimum(fast, slow))

    some = np.isfinite(x_high) & (x_low <= x_high)
    higher = last_of_several(slack, np.where(some, x_high, low), top)
    some_high = np.where(some, np.maximum(x_high, higher), higher)
    lower = -last_of_several(
        lambda y, j: slack(-y, j),
        np.where(some, -x_low, -some_high),
        np.where(np.isfinite(some_high), -low, -np.inf),
    )
    out = found[0].copy(), found[1].copy()
    out[0][at], out[1][at] = np.where(some, np.minimum(x_low, lower), lower), some_high
    return out


def total_ends(question: Question, ends: ActiveEnds) -> tuple[ActiveEnds, TotalEnds]:
    """Least and largest total of each slice; without slices that turn out empty."""
    mixed = np.flatnonzero(~ends.slices.dense)
    dense = np.flatnonzero(ends.slices.dense)
    alone = ends.take(dense)
    parts = [_mixed_totals(question, ends.take(mixed))] if len(mixed) else []
    if len(dense) or not parts:
        parts.append((alone, _dense_totals(question, alone)))
    return joined([p[0] for p in parts]), joined([p[1] for p in parts])


def joined(parts: list[Ends]) -> Ends:
    """All slices of several parts."""
    if len(parts) == 1:
        return parts[0]

    def of(values: list[Any]) -> Any:
        return np.concatenate(values) if isinstance(values[0], np.ndarray) else joined(values)

    names = [f.name for f in fields(parts[0])]
    return type(parts[0])(*(of([getattr(p, name) for p in parts]) for name in names))


def _dense_totals(question: Question, ends: ActiveEnds) -> TotalEnds:
    """Of dense models, whose total is what the active parameters are."""
    f = Limits(question, ends.slices)
    near = 1.0 + _NEAR
    low_by = np.where(ends.low <= f.total_low * near, "total asked", ends.low_by)
    high_by = np.where(ends.high * near >= f.total_high, "total asked", ends.high_by)
    return TotalEnds(
        ends.low, ends.high, ends.low, ends.high, low_by.astype(str), high_by.astype(str)
    )


def _mixed_totals(question: Question, ends: ActiveEnds) -> tuple[ActiveEnds, TotalEnds]:
    """Of mixtures; slices where no total is left are dropped."""
    f = Limits(question, ends.slices)
    every = np.arange(len(ends.slices))
    top, bottom = _top(f, ends).copy(), _bottom(f, ends)
    low_at_top, total_high = f.total_interval(top, every)
    total_low, high_at_bottom = f.total_interval(bottom, every)
    if f.has(*FAST) and np.any(f.humped):
        least = f.total_low_of(ends.high, every)
        at = np.flatnonzero(f.fast(least, ends.high, every) < -ROUNDING)
        at_end = f.total_interval(ends.high[at], at)[1]
        top[at] = np.where(at_end > total_high[at], ends.high[at], top[at])
        total_high[at] = np.maximum(total_high[at], at_end)
    # An observed speed and a throughput may contradict each other where each alone is possible;
    # at an end of A the interval is one point, whose two ends differ by the roots' rounding.
    lost = total_low > high_at_bottom * (1.0 + _ROUNDING)
    total_low = np.where(lost, low_at_top, total_low)
    bottom = np.where(lost, top, bottom)
    total_low, bottom = _farther(f, ends, -1.0, total_low, bottom)
    total_high, top = _farther(f, ends, 1.0, total_high, top)
    kept = np.flatnonzero(total_low <= total_high * (1.0 + _ROUNDING))
    if len(kept) < len(every):
        ends, f = ends.take(kept), Limits(question, ends.slices.take(kept))
        total_low, total_high, bottom, top = (v[kept] for v in (total_low, total_high, bottom, top))
    total_low = np.minimum(total_low, total_high)
    return ends, TotalEnds(
        total_low,
        total_high,
        bottom,
        top,
        _low_names(f, total_low, bottom, ends.low_by),
        _high_names(f, total_high, top, ends.high, ends.high_by),
    )


def _top(f: Limits, ends: ActiveEnds) -> FloatArray:
    """The A of the largest total if the time grows with A: where sparsity * A meets capacity or
    speed, or an end of A; or the least A at which that total is slow enough."""
    if not np.all(f.sparsity_high < np.inf):
        return _slow_top(f, ends, ends.low)
    sparsity = f.sparsity_high
    root = last_nonnegative(
        lambda x, i: np.minimum(
            f.capacity_log(np.exp(x), i) - np.log(sparsity[i]) - x,
            f.fast(sparsity[i] * np.exp(x), np.exp(x), i),
        ),
        np.log(ends.low),
        np.log(ends.high),
    )
    return _slow_top(f, ends, np.where(np.isfinite(root), np.exp(root), ends.low))


def _slow_top(f: Limits, ends: ActiveEnds, top: FloatArray) -> FloatArray:
    """The least A from `top` on at which the largest total is slow enough; `top` where none is."""
    if not f.has(SLOW):
        return top
    fast = f.slow(f.total_high_of(top, np.arange(len(top))), top, np.arange(len(top))) < -ROUNDING
    at = np.flatnonzero(fast)
    mirrored = last_nonnegative(
        lambda y, j: f.slow(f.total_high_of(np.exp(-y), at[j]), np.exp(-y), at[j]),
        -np.log(ends.high[at]),
        -np.log(top[at]),
    )
    top = top.copy()
    top[at] = np.where(np.isfinite(mirrored), np.exp(-mirrored), top[at])
    return top


def _bottom(f: Limits, ends: ActiveEnds) -> FloatArray:
    """The A of the least total if the time grows with A: where "not faster" lets go of
    N = sparsity_low * A, or an end of A."""
    if not f.has(SLOW):
        return ends.low
    mirrored = last_nonnegative(
        lambda y, i: f.slow(f.total_low_of(np.exp(-y), i), np.exp(-y), i),
        -np.log(ends.high),
        -np.log(ends.low),
    )
    return np.where(np.isfinite(mirrored), np.exp(-mirrored), ends.high)


_BEYOND = 1e-9
_BESIDE = 1e-4


def _farther(
    f: Limits, ends: ActiveEnds, sign: float, total: FloatArray, at: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The farthest total of each slice, also where the time need not grow with A.

    Args:
        f, ends: limits and slices.
        sign: 1: the largest total; -1: the least.
        total, at: a total that is possible, or none (an empty interval), and its A.

    From the total that is known a step beyond it is tried at every A: where one is possible, the
    interval there gives a farther total, until none is. Without a limit of speed on that side
    nothing is farther: the least total stands at the least A.
    """
    work = np.flatnonzero(f.folded)
    if not len(work) or not f.has(SLOW if sign < 0.0 else FAST[0]):
        return total, at
    total, at = total.copy(), at.copy()
    low, high = np.log(ends.low), np.log(ends.high)
    _restart(f, ends, sign, total, at, work)
    for _ in range(_ROUNDS):
        tried = total * np.exp(sign * _BEYOND)

        def slack(x: FloatArray, i: Index, tried: FloatArray = tried) -> FloatArray:
            return f.slack(tried[i], np.exp(x), i)

        x, best = _most(slack, low[work], high[work], np.log(at[work]), work)
        better = best > 0.0
        work, x = work[better], x[better]
        if not len(work):
            break
        n_low, n_high = f.total_interval(np.exp(x), work)
        farther = n_high if sign > 0.0 else n_low
        gained = (n_low <= n_high) & (sign * farther > sign * total[work])
        work, x, farther = work[gained], x[gained], farther[gained]
        total[work], at[work] = farther, np.exp(x)
    return total, at


def _restart(
    f: Limits, ends: ActiveEnds, sign: float, total: FloatArray, at: FloatArray, work: Index
) -> None:
    """Where the known point is none, one at an end of A takes its place."""
    for start in (at[work], ends.high[work], ends.low[work]):
        n_low, n_high = f.total_interval(start, work)
        value = n_high if sign > 0.0 else n_low
        possible = n_low <= n_high * (1.0 + _ROUNDING)
        known = f.slack(total[work], at[work], work) >= -_ROUNDING
        take = possible & (~known | (sign * value > sign * total[work]))
        total[work[take]], at[work[take]] = value[take], start[take]


def _most(
    slack: Callable[[FloatArray, Index], FloatArray],
    low: FloatArray,
    high: FloatArray,
    known: FloatArray,
    index: Index,
) -> tuple[FloatArray, FloatArray]:
    """Where a slack is largest: of a scan, beside a known point, at maxima between the steps."""
    values, x = scan(slack, low, high, index)
    beside = [np.clip(known + d, low, high) for d in (-_BESIDE, _BESIDE)]
    values = np.concatenate([values, [slack(b, index) for b in beside]])
    x = np.concatenate([x, beside])
    every = np.arange(len(index))
    pick = np.argmax(values, axis=0)
    best_x, best = x[pick, every], values[pick, every]
    steps = len(x) - len(beside)
    at, column = np.nonzero(hidden_peaks(values[:steps]))
    # Climb from the best point too, so that few rounds are enough.
    step = (high - low) / (steps - 1)
    climbing = np.flatnonzero(best > 0.0)
    starts = np.concatenate([x[at - 1, column], np.maximum(best_x - step, low)[climbing]])
    stops = np.concatenate([x[at + 1, column], np.minimum(best_x + step, high)[climbing]])
    columns = np.concatenate([column, climbing])
    top, f_top = peak(slack, starts, stops, index[columns], tolerance=1e-6)
    for k in np.flatnonzero(f_top > best[columns]):
        if f_top[k] > best[columns[k]]:
            best_x[columns[k]], best[columns[k]] = top[k], f_top[k]
    return best_x, best


def _low_names(f: Limits, total: FloatArray, active: FloatArray, active_by: Names) -> Names:
    near = 1.0 + _NEAR
    names = np.full(len(total), SLOW, dtype=object)
    diagonal = total <= f.sparsity_low * active * near
    # On the line N = A the total is least because the active parameters are.
    names[diagonal] = active_by[diagonal]
    names[diagonal & (f.sparsity_low > 1.0)] = "sparsity"
    if f.total_low > 0.0:
        names[total <= f.total_low * near] = "total asked"
    return names.astype(str)


def _high_names(
    f: Limits, total: FloatArray, active: FloatArray, active_high: FloatArray, active_by: Names
) -> Names:
    every = np.arange(len(total))
    near = 1.0 - _NEAR
    names = np.full(len(total), "speed", dtype=object)
    if f.has(*FAST):
        names[:] = f.slowest_name(total, active, every)
    names[total >= f.capacity_total(active, every) * near] = "capacity"
    habit = (total >= f.sparsity_high * active * near) & (names != "capacity")
    names[habit] = "sparsity"
    # Sparsity lets the total grow with A: what stops A stops the total.
    stopped = habit & (active >= active_high * near)
    names[stopped] = np.char.add("sparsity with ", np.asarray(active_by, dtype=str))[stopped]
    if f.total_high < np.inf:
        names[total >= f.total_high * near] = "total asked"
    return names.astype(str)
