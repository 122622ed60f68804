"""The exact feasible region over total and active parameters, layers and nodes.

A *slice* is one (layers, layers per stage, tensor-parallel group, weight format, dense or not); the
region is the union of its slices, and n nodes may use every slice that needs at most n.

In one slice memory grows with total N and active A, and the time of a pass grows with N. Without
a spread the feasible N at each A are one interval, whose ends are roots of monotone functions,
found to 1e-11. Where the time grows with A as well, the A of a slice are one interval too, and
their ends and the largest and least N are such roots: on a wafer, of dense models, and of one token
at a time.

Elsewhere both may be several intervals (`bounds.Bounds.several`):

- A batch of several tokens reads fewer distinct experts the more of them each token uses: with N
  given, its time may fall as A grows, and rise again.
- An observed speed or a confidence compares with a predicted interval, whose width moves with the
  mix of terms. It jumps where another term sets the time: where the queue of many users begins,
  where arithmetic outlasts reads, where whole experts pay. A cost model names these places
  (`TokenTime.switches`), and slices are cut there in N (`intervals`) and in A (`jumps`). Between
  cuts the best slack over all N is searched in steps of log A fine against its bends.

The ends are the outer ones of what is possible. What lies between them is asked of the constraint
itself, so `contains` is exact there; an interval of N between the ends of A may be empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from archinfer.models.shape import FloatArray
from archinfer.record import Record
from archinfer.solver.bounds import MOST, ROUNDING, Bounds
from archinfer.solver.ends import active_ends, joined, total_ends
from archinfer.solver.intervals import total_interval
from archinfer.solver.question import Question
from archinfer.solver.slices import Index, Slices, slices_of

_SHARES = (0.1, 0.5, 0.9)
"""Of the logarithm of a slice's active parameters, where a model is looked for first."""

SLICES_AT_ONCE = 20_000
"""Slices that are solved together, so that memory stays bounded."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of an interval and the constraint that draws it."""

    value: float
    by: str
    """the constraint that draws this edge"""


@dataclass(frozen=True, slots=True)
class Interval(Record):
    """Both ends of a range, with the constraint that draws each."""

    KEYS = ("low=low.value", "high=high.value", "low_bound_by=low.by", "high_bound_by=high.by")

    low: Bound
    high: Bound


@dataclass(frozen=True)
class Region:
    """The feasible region of a question: its non-empty slices with the ends of each.

    Attributes:
        question: what was asked.
        slices: the feasible slices.
        active_low, active_high: interval of A in each slice; `*_by` names the constraint.
        total_low, total_high: least and largest N in each slice.
        total_high_at: A at which the largest N is reached (total_low_at: the least).
    """

    question: Question
    slices: Slices
    active_low: FloatArray
    active_high: FloatArray
    active_low_by: NDArray[np.str_]
    active_high_by: NDArray[np.str_]
    total_low: FloatArray
    total_high: FloatArray
    total_low_at: FloatArray
    total_high_at: FloatArray
    total_low_by: NDArray[np.str_]
    total_high_by: NDArray[np.str_]

    @property
    def feasible(self) -> bool:
        """Whether any model is possible."""
        return len(self.slices) > 0

    @cached_property
    def bounds(self) -> Bounds:
        """What bounds total and active parameters in the slices."""
        return Bounds(self.question, self.slices)

    def total_interval(self, active: FloatArray, index: Index) -> tuple[FloatArray, FloatArray]:
        """Feasible N at given A in given slices: (low, high), low > high where there is none."""
        low, high = total_interval(self.bounds, active, np.asarray(index))
        outside = (active < self.active_low[index]) | (active > self.active_high[index])
        return np.where(outside, np.inf, low), np.where(outside, -np.inf, high)

    def allows(self, total: FloatArray, active: FloatArray, index: Index) -> NDArray[np.bool_]:
        """Whether given slices hold a model of such sizes, read off their edges."""
        fits = (self.active_low[index] <= active) & (active <= self.active_high[index])
        fits &= (self.total_low[index] <= total) & (total <= self.total_high[index])
        at = np.flatnonzero(fits)
        total, active, index = total[at], active[at], index[at]
        low, high = self.total_interval(active, index)
        fits[at] = (low <= total) & (total <= high)
        if self.bounds.spread:
            speeds = self.bounds.at(total, active, index)
            fits[at] &= np.minimum(speeds.fast, speeds.slow) >= -ROUNDING
        return fits

    def contains(
        self,
        total: FloatArray,
        active: FloatArray,
        layers: FloatArray,
        nodes: FloatArray,
        weights: str,
    ) -> NDArray[np.bool_]:
        """Whether each point lies in the region, read off its edges.

        Args:
            total, active, layers, nodes: arrays of one shape (n,); nodes are those there are.
            weights: weight format.
        """
        total, active, layers, nodes = (
            np.asarray(x, dtype=float) for x in (total, active, layers, nodes)
        )
        inside = np.zeros(len(total), dtype=bool)
        position = self.question.weights.index(weights)
        mine = np.flatnonzero(self.slices.weights == position)
        if not len(mine):
            return inside
        mine = mine[np.argsort(self.slices.layers[mine], kind="stable")]
        keys = self.slices.layers[mine]
        start, stop = np.searchsorted(keys, layers), np.searchsorted(keys, layers, side="right")
        asked = (nodes >= self.question.nodes[0]) & (nodes <= self.question.nodes[1])
        for step in range(int((stop - start).max(initial=0))):
            point = np.flatnonzero((start + step < stop) & ~inside & asked)
            slot = mine[start[point] + step]
            fits = self.slices.nodes[slot] <= nodes[point]
            point, slot = point[fits], slot[fits]
            inside[point] = self.allows(total[point], active[point], slot)
        return inside


def solve(question: Question, layers: FloatArray | None = None) -> Region:
    """The feasible region of `question`.

    Args:
        question: hardware, speed, what is known and assumed.
        layers: layer counts to look at; None: those the question allows, up to LAYERS_MAX.

    Returns:
        The region; `feasible` is False where nothing is possible (that is an answer).
    """
    slices = slices_of(question, layers)
    if len(slices):
        found = [total_ends(question, active_ends(question, part)) for part in _parts(slices)]
        active, total = joined([part[0] for part in found]), joined([part[1] for part in found])
        return Region(
            question, active.slices, active.low, active.high, active.low_by, active.high_by,
            total.low, total.high, total.low_at, total.high_at, total.low_by, total.high_by,
        )  # fmt: skip
    none, text = np.empty(0), np.empty(0, dtype=str)
    return Region(
        question, slices, none, none, text, text, none, none, none, none, text, text
    )  # fmt: skip


def feasible(question: Question, layers: FloatArray | None = None) -> bool:
    """Whether any model is possible; arguments as of `solve`.

    Most questions show one at a few sizes in each slice; the others are solved.
    """
    if any(_shown(question, part) for part in _parts(slices_of(question, layers))):
        return True
    return solve(question, layers).feasible


def _parts(slices: Slices) -> Iterator[Slices]:
    """All slices, as many at once as memory may hold."""
    every = np.arange(len(slices))
    for start in range(0, len(every), SLICES_AT_ONCE):
        yield slices.take(every[start : start + SLICES_AT_ONCE])


def _shown(question: Question, slices: Slices) -> bool:
    """Whether one of a few sizes in each slice is possible."""
    b, every = Bounds(question, slices), np.arange(len(slices))
    low, high = b.active_limits[:2]
    high = np.minimum(high, b.capacity_total(low, every))
    active = np.concatenate([low ** (1.0 - s) * np.maximum(high, low) ** s for s in _SHARES])
    index = np.tile(every, len(_SHARES))
    least, most = b.total_low_of(active, index), b.total_high_of(active, index)
    at = np.flatnonzero((least <= np.minimum(most, MOST)) & (low <= high)[index])
    least, most, active, index = least[at], np.minimum(most[at], MOST), active[at], index[at]
    for share in (1.0, 0.5, 0.0):
        speeds = b.at(least ** (1.0 - share) * most**share, active, index)
        if np.any(np.minimum(speeds.fast, speeds.slow) >= 0.0):
            return True
    return False
