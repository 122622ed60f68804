"""The ends of the region in each slice: the interval of A, the least and the largest N."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from archinfer.models.shape import FloatArray
from archinfer.solver.bounds import FAST, SLOW, TINY, Bounds
from archinfer.solver.intervals import best_slack, total_interval
from archinfer.solver.jumps import Jumping, ends_of_several, highest
from archinfer.solver.question import Question
from archinfer.solver.roots import last_nonnegative
from archinfer.solver.slices import Index, Slices

END_ROUNDING = 1e-9
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
    several: NDArray[np.bool_]
    """Where the A between the ends need not all be possible."""

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
    b = Bounds(question, slices)
    every = np.arange(len(slices))
    a_low, a_high, low_by, high_by = b.active_limits
    # At A itself the total is at least A, so capacity bounds A too.
    ceiling = np.maximum(b.capacity_total(a_low, every), TINY)
    high_by = np.where(ceiling < a_high, "capacity", high_by).astype(object)
    low, high = np.log(a_low), np.log(np.minimum(a_high, ceiling))
    top = last_nonnegative(
        lambda x, i: b.capacity_log(np.exp(x), i) - np.log(b.total_low_of(np.exp(x), i)), low, high
    )
    high_by[(top < high) & np.isfinite(top)] = "capacity"
    x_low, x_high, several = low, top, b.several
    if b.has(*FAST, SLOW):
        x_low, x_high, several = _speed_ends(b, low, top)
    moved = np.flatnonzero((x_high < top) & np.isfinite(x_high) & b.has(*FAST))
    if len(moved):
        least = b.total_low_of(np.exp(top[moved]), moved)
        high_by[moved] = b.slowest_name(least, np.exp(top[moved]), moved)
    raised = x_low > low
    low_by = np.where(raised, SLOW, low_by).astype(object)
    if not b.has(SLOW) and (at := np.flatnonzero(raised & np.isfinite(x_high))).size:
        low_by[at] = b.slowest_name(b.total_low_of(np.exp(x_low[at]), at), np.exp(x_low[at]), at)
    kept = np.flatnonzero((x_low <= x_high) & np.isfinite(x_high))
    return ActiveEnds(
        slices, np.exp(x_low), np.exp(x_high), np.asarray(low_by, str), high_by.astype(str), several
    ).take(kept)


def _speed_ends(
    b: Bounds, low: FloatArray, top: FloatArray
) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    """Logarithms of the least and the largest A between two at which some N meets the speed, and
    where the A between these need not all do."""
    best, mask, ends = best_slack(b), b.several, None
    x_low, x_high = np.full((2, len(low)), -np.inf)
    every = np.flatnonzero(low <= top)
    if b.alone and b.spread:
        # A jump apart the slack falls with A.
        ends = best.at(np.stack([low[every], top[every]]), every)
        mask = np.zeros(len(low), dtype=bool)
        mask[every] = best.jump_between(ends)
    chosen = mask[every] | b.has(SLOW)
    several, one = every[chosen], every[~chosen]
    x_low[several], x_high[several] = ends_of_several(
        best.of(several), low[several], top[several], b.steps, ends and ends.take(chosen)
    )
    x_low[one], x_high[one] = low[one], last_nonnegative(best.of(one).values, low[one], top[one])
    return x_low, x_high, mask


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
    b = Bounds(question, ends.slices)
    near = 1.0 + _NEAR
    low_by = np.where(ends.low <= b.total_low * near, "total asked", ends.low_by)
    high_by = np.where(ends.high * near >= b.total_high, "total asked", ends.high_by)
    return TotalEnds(
        ends.low, ends.high, ends.low, ends.high, low_by.astype(str), high_by.astype(str)
    )


def _mixed_totals(question: Question, ends: ActiveEnds) -> tuple[ActiveEnds, TotalEnds]:
    """Of mixtures; slices where no total is left are dropped."""
    b = Bounds(question, ends.slices)
    starts = [ends.low, _top(b, ends)]
    if b.spread or ends.several.any():
        starts.append(ends.high)
    if b.spread and b.has(*FAST):
        starts.append(_first(b, ends, "fast", b.total_low_of))
    if b.has(SLOW):
        starts += [_first(b, ends, "slow", of) for of in (b.total_low_of, b.total_high_of)]
    (low, low_at), (high, high_at) = (
        _farther(b, ends, sign, *known)
        for sign, known in zip((-1.0, 1.0), _outermost(b, starts), strict=True)
    )
    kept = np.flatnonzero(low <= high * (1.0 + END_ROUNDING))
    if len(kept) < len(low):
        ends, b = ends.take(kept), Bounds(question, ends.slices.take(kept))
        low, high, low_at, high_at = (v[kept] for v in (low, high, low_at, high_at))
    low = np.minimum(low, high)
    low_by = _low_names(b, low, low_at, ends.low_by)
    high_by = _high_names(b, high, high_at, ends.high, ends.high_by)
    return ends, TotalEnds(low, high, low_at, high_at, low_by, high_by)


def _outermost(b: Bounds, starts: list[FloatArray]) -> list[tuple[FloatArray, FloatArray]]:
    """The least and the largest N at some A of each slice, and their A."""
    every = np.arange(len(starts[0]))
    found = [(np.full(len(every), sign * np.inf), starts[0].copy()) for sign in (1.0, -1.0)]
    # Many starts of a slice are one and the same.
    parts = [np.flatnonzero(~_among(start, starts[:k])) for k, start in enumerate(starts)]
    active, cuts = (
        [s[at] for s, at in zip(starts, parts, strict=True)],
        np.cumsum([*map(len, parts)]),
    )
    ends = total_interval(b, np.concatenate(active), np.concatenate(parts))
    for at, a, *two in zip(parts, active, *(np.split(v, cuts[:-1]) for v in ends), strict=True):
        # At an end of A the interval is one point, whose two ends differ by the roots' rounding.
        possible = two[0] <= two[1] * (1.0 + END_ROUNDING)
        for (total, place), value, sign in zip(found, two, (-1.0, 1.0), strict=True):
            take = possible & (sign * value > sign * total[at])
            total[at[take]], place[at[take]] = value[take], a[take]
    return found


def _among(values: FloatArray, others: list[FloatArray]) -> NDArray[np.bool_]:
    """Which values stand in one of others at their place."""
    found = np.zeros(len(values), dtype=bool)
    for other in others:
        found |= other == values
    return found


def _top(b: Bounds, ends: ActiveEnds) -> FloatArray:
    """The A of the largest total if the time grows with A: where sparsity * A meets capacity or
    speed, or an end of A."""
    sparsity = b.sparsity_high

    def fast(x: FloatArray, i: Index) -> FloatArray:
        return b.at(sparsity[i] * np.exp(x), np.exp(x), i).fast

    return ends.low if np.isinf(sparsity).any() else _meeting(b, ends, fast)


def _meeting(
    b: Bounds, ends: ActiveEnds, other: Callable[[FloatArray, Index], FloatArray]
) -> FloatArray:
    """The largest A at which sparsity * A is within capacity and another slack is not negative."""
    root = last_nonnegative(
        lambda x, i: np.minimum(
            b.capacity_log(np.exp(x), i) - np.log(b.sparsity_high[i]) - x, other(x, i)
        ),
        np.log(ends.low),
        np.log(ends.high),
    )
    return np.where(np.isfinite(root), np.exp(root), ends.low)


def _first(
    b: Bounds, ends: ActiveEnds, side: str, total_of: Callable[[FloatArray, Index], FloatArray]
) -> FloatArray:
    """The least A from which on a total is fast or slow enough, if it grows; else the largest."""
    root = last_nonnegative(
        lambda y, i: getattr(b.at(total_of(np.exp(-y), i), np.exp(-y), i), side),
        -np.log(ends.high),
        -np.log(ends.low),
    )
    return np.where(np.isfinite(root), np.exp(-root), ends.high)


_BEYOND = 1e-9
_ROUNDS = 40
"""Of a search whose gain may halve from one to the next."""


def _farther(
    b: Bounds, ends: ActiveEnds, sign: float, total: FloatArray, at: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The largest (sign 1) or least (-1) total of each slice, and its A.

    Args:
        b, ends: bounds and slices.
        sign: of the direction.
        total, at: the farthest that is known, infinite where none is, and its A.

    Where the feasible A are one interval these are farthest. Else a step beyond is tried at every
    A: where that is possible, the interval there gives a farther total, until none is.
    """
    if not b.has(*FAST, SLOW) or not (b.spread or sign > 0.0):
        return total, at
    low, high = np.log(ends.low), np.log(ends.high)
    if sign > 0.0:
        meeting = _meeting(b, ends, lambda x, i: np.full(len(x), np.inf))
        most = b.total_high_of(meeting, np.arange(len(total)))
        short = total < most * (1.0 - _BEYOND)
    else:
        short = total > b.total_low_of(ends.low, np.arange(len(total))) * (1.0 + _BEYOND)
    work = np.flatnonzero(ends.several & np.isfinite(total) & short)
    for _ in range(_ROUNDS):
        if not len(work):
            break
        tried = total * np.exp(sign * _BEYOND)

        def both(
            x: FloatArray, i: Index, tried: FloatArray = tried
        ) -> tuple[FloatArray, list[FloatArray]]:
            return b.slack_and_turns(tried[i], np.exp(x), i)

        x, best = highest(Jumping.parts(both), low[work], high[work], work, b.steps)
        work, x = work[best > 0.0], x[best > 0.0]
        n_low, n_high = total_interval(b, np.exp(x), work)
        farther = n_high if sign > 0.0 else n_low
        gained = (n_low <= n_high) & (sign * farther > sign * total[work])
        work, x, farther = work[gained], x[gained], farther[gained]
        total[work], at[work] = farther, np.exp(x)
    return total, at


def _low_names(b: Bounds, total: FloatArray, active: FloatArray, active_by: Names) -> Names:
    near = 1.0 + _NEAR
    names = np.full(len(total), SLOW, dtype=object)
    if not b.has(SLOW) and b.has(*FAST):
        names[:] = b.slowest_name(total, active, np.arange(len(total)))
    diagonal = total <= b.sparsity_low * active * near
    # On the line N = A the total is least because the active parameters are.
    names[diagonal] = active_by[diagonal]
    names[diagonal & (b.sparsity_low > 1.0)] = "sparsity"
    if b.total_low > 0.0:
        names[total <= b.total_low * near] = "total asked"
    return names.astype(str)


def _high_names(
    b: Bounds, total: FloatArray, active: FloatArray, active_high: FloatArray, active_by: Names
) -> Names:
    every = np.arange(len(total))
    near = 1.0 - _NEAR
    names = np.full(len(total), "speed", dtype=object)
    if b.has(*FAST):
        names[:] = b.slowest_name(total, active, every)
    names[total >= b.capacity_total(active, every) * near] = "capacity"
    habit = (total >= b.sparsity_high * active * near) & (names != "capacity")
    names[habit] = "sparsity"
    # Sparsity lets the total grow with A: what stops A stops the total.
    stopped = habit & (active >= active_high * near)
    names[stopped] = np.char.add("sparsity with ", np.asarray(active_by, dtype=str))[stopped]
    if b.total_high < np.inf:
        names[total >= b.total_high * near] = "total asked"
    return names.astype(str)
