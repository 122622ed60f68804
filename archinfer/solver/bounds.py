"""What bounds total and active parameters in a slice: limits on A, and slacks at (A, N)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from archinfer.models.shape import FloatArray
from archinfer.physics.memory import room_bytes
from archinfer.solver.constraints import HIDDEN_FLOOR, Candidate, constraints
from archinfer.solver.question import Question
from archinfer.solver.roots import last_nonnegative, peak
from archinfer.solver.slices import Index, Slices

FAST = ("speed", "throughput", "cost")
"""The constraints that ask for speed."""
SLOW = "speed (not faster)"
TINY = 1e-300
MOST = 1e18
"""More parameters than anything holds."""

ROUNDING = 1e-12
"""What a slack may miss of 0 at an end that is itself a root. Where the time is the same at every
N, rounding alone would decide which of them are possible."""

_ONSET = 1e-5
"""Step in log N by which a slack that rises at all has risen."""


class Limits:
    """The limits and slacks of a batch of slices, as functions of A and N.

    Args:
        question: what is asked.
        slices: the slices; positions in them are the `index` of every function.
    """

    def __init__(self, question: Question, slices: Slices) -> None:
        self.question = question
        self.slices = slices
        self.by_name = {c.name: c for c in constraints(question)}
        layers = slices.layers
        habits = question.habits
        n = len(slices)
        low, high = 1.0, np.inf
        if habits is not None and "sparsity" in self.by_name:
            low, high = max(1.0, habits.sparsity[0]), habits.sparsity[1]
        self.sparsity_low = np.where(slices.dense, 1.0, low)
        self.sparsity_high = np.where(slices.dense, 1.0, high)
        self.total_low, self.total_high = self._asked("total")
        active_low, active_high = self._asked("active")
        floor = question.rules.active_params(HIDDEN_FLOOR, layers)
        # Each limit on A alone, with its name: the largest lower and smallest upper one count.
        self.lowers: list[tuple[str, FloatArray]] = [("search floor", np.asarray(floor))]
        self.uppers: list[tuple[str, FloatArray]] = []
        if habits is not None and "shape" in self.by_name:
            least, most = habits.active_params(layers, question.rules)
            self.lowers.append(("shape", np.asarray(least)))
            self.uppers.append(("shape", np.asarray(most)))
        self.lowers.append(("active asked", np.full(n, active_low)))
        self.uppers.append(("active asked", np.full(n, active_high)))
        self.lowers.append(("sparsity", self.total_low / self.sparsity_high))
        self.uppers.append(("total asked", self.total_high / self.sparsity_low))

    def _asked(self, name: str) -> tuple[float, float]:
        if f"{name} asked" not in self.by_name:
            return (0.0, np.inf)
        low, high = getattr(self.question, name)
        return float(low), float(high)

    @property
    def active_limits(self) -> tuple[FloatArray, FloatArray, NDArray[np.str_], NDArray[np.str_]]:
        """Largest lower and smallest upper limit on A alone, and their names."""
        low, low_by = _tightest(self.lowers, np.argmax)
        high, high_by = _tightest(self.uppers, np.argmin)
        return low, high, low_by, high_by

    @property
    def folded(self) -> NDArray[np.bool_]:
        """Where the time need not grow with A.

        On temporal hardware a batch of several tokens hits fewer distinct experts the more of
        them each token uses, and reads less of them; and what arithmetic the reads hide changes
        the spread of an observed speed at once.
        """
        q, slices = self.question, self.slices
        if q.hardware.spatial:
            return np.zeros(len(slices), dtype=bool)
        if q.observed or q.confidence_z != 0.0:
            return np.ones(len(slices), dtype=bool)
        stages = slices.mapping.stages(slices.layers)
        return np.asarray((q.concurrency > stages) & ~slices.dense)

    def candidate(self, total: FloatArray, active: FloatArray, index: Index) -> Candidate:
        """Models in the slices at `index`."""
        return self.slices.take(index).candidate(self.question, total, active)

    def capacity_total(self, active: FloatArray, index: Index) -> FloatArray:
        """Most parameters that fit beside KV cache and activations (may be negative)."""
        if "capacity" not in self.by_name:
            return np.full(len(active), MOST)
        empty = self.candidate(active, active, index)
        room = room_bytes(self.question.hardware, empty.memory, empty.mapping)
        own = empty.workload.shape.groups[0].routed_bits
        if own is not None:
            return np.asarray(active + (room - empty.memory.weights) * 8.0 / own)
        return np.asarray(room * 8.0 / empty.workload.traffic.weight_bits)

    def capacity_log(self, active: FloatArray, index: Index) -> FloatArray:
        """Logarithm of `capacity_total`; that of next to nothing where it is negative."""
        return np.log(np.maximum(self.capacity_total(active, index), TINY))

    def total_low_of(self, active: FloatArray, index: Index) -> FloatArray:
        """Fewest parameters that definition, sparsity and the user allow."""
        return np.maximum(self.sparsity_low[index] * active, self.total_low)

    def total_high_of(self, active: FloatArray, index: Index) -> FloatArray:
        """Most parameters that capacity, sparsity and the user allow."""
        habit = np.minimum(self.sparsity_high[index] * active, self.total_high)
        return np.minimum(habit, self.capacity_total(active, index))

    def fast(self, total: FloatArray, active: FloatArray, index: Index) -> FloatArray:
        """Smallest slack of the constraints that ask for speed; decreases in N."""
        return self._least(FAST, total, active, index)

    def slow(self, total: FloatArray, active: FloatArray, index: Index) -> FloatArray:
        """Slack of "not faster than observed"; increases in N."""
        return self._least((SLOW,), total, active, index)

    def slack(self, total: FloatArray, active: FloatArray, index: Index) -> FloatArray:
        """Least slack of all constraints but the limits on A alone."""
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.log(self.total_high_of(active, index)) - np.log(total)
            above = np.log(total) - np.log(self.total_low_of(active, index))
        found = np.minimum(room, above)
        found = np.minimum(found, self._least((*FAST, SLOW), total, active, index))
        return np.where(np.isnan(found), -np.inf, found)

    def _least(
        self, names: Iterable[str], total: FloatArray, active: FloatArray, index: Index
    ) -> FloatArray:
        present = [self.by_name[n] for n in names if n in self.by_name]
        result = np.full(len(active), np.inf)
        if not present:
            return result
        candidate = self.candidate(np.clip(total, TINY, MOST), active, index)
        for constraint in present:
            result = np.minimum(result, constraint.slack(candidate))
        return result

    def has(self, *names: str) -> bool:
        """Whether one of the constraints applies."""
        return any(n in self.by_name for n in names)

    def slowest_name(self, total: FloatArray, active: FloatArray, index: Index) -> list[str]:
        """Which of the constraints that ask for speed is the tightest at each point."""
        candidate = self.candidate(total, active, index)
        names = [n for n in FAST if n in self.by_name]
        values = np.stack(
            [np.broadcast_to(self.by_name[n].slack(candidate), total.shape) for n in names]
        )
        return [names[i] for i in np.argmin(values, axis=0)]

    def total_interval(self, active: FloatArray, index: Index) -> tuple[FloatArray, FloatArray]:
        """Feasible N at given A, all constraints but the limits on A alone."""
        low = self.total_low_of(active, index)
        high = np.minimum(self.total_high_of(active, index), MOST)
        if self.has(*FAST):
            low, high = self._fast_interval(low, high, active, index)
        if self.has(SLOW):
            low, high = self._slow_interval(low, high, active, index)
        return low, high

    def _fast_interval(
        self, low: FloatArray, high: FloatArray, active: FloatArray, index: Index
    ) -> tuple[FloatArray, FloatArray]:
        """The outer ends of what is fast enough between two N; the high one 0 where nothing is."""

        def fast(x: FloatArray, i: Index) -> FloatArray:
            return self.fast(np.exp(x), active[i], index[i]) + ROUNDING

        least, most = np.log(low), np.log(np.maximum(high, TINY))
        found = last_nonnegative(fast, least, most)
        # Where speed takes nothing away the end stays what it was, to the last digit.
        low, high = low.copy(), np.where(found < most, np.exp(found), high)
        at = np.flatnonzero(self.humped[index] & (found == -np.inf) & (least <= most))
        x = np.log(self.fastest_total(active[at], index[at]))
        some = fast(x, at) >= 0.0
        at, x = at[some], x[some]
        high[at] = np.exp(last_nonnegative(lambda x, i: fast(x, at[i]), x, most[at]))
        low[at] = np.exp(-last_nonnegative(lambda y, i: fast(-y, at[i]), -x, -least[at]))
        return low, high

    @property
    def humped(self) -> NDArray[np.bool_]:
        """Where the least total need not be the fastest at the confidence asked for.

        A wafer's region is as large as is best until the bytes fill it. From there on the time
        hardly grows at first, while the spread moves at once.
        """
        q = self.question
        spread = q.observed or q.confidence_z != 0.0
        return ~self.slices.dense & (q.hardware.spatial and spread)

    def fastest_total(self, active: FloatArray, index: Index) -> FloatArray:
        """The total at which the constraints that ask for speed have most slack (`humped`)."""
        low = np.array(self.total_low_of(active, index))
        if not len(active):
            return low
        least = self.candidate(low, active, index)
        filled, cores = least.memory_fraction, self.question.hardware.cores
        best = np.asarray(least.time.side) ** 2 * least.mapping.layers_per_stage / cores
        room = self.capacity_total(active, index)
        high = np.maximum(np.minimum(self.total_high_of(active, index), room), low)
        with np.errstate(divide="ignore", invalid="ignore"):
            filling = room - (room - low) * (1.0 - best) / (1.0 - filled)
        start, end = np.log(np.fmin(np.fmax(filling, low), high)), np.log(high)

        def fast(x: FloatArray, i: Index) -> FloatArray:
            return self.fast(np.exp(x), active[i], index[i])

        every = np.arange(len(active))
        known = fast(np.log(low), every)
        at = np.flatnonzero(fast(np.minimum(start + _ONSET, end), every) > known)
        x, slack = peak(fast, start[at], np.minimum(start[at] + 1.0, end[at]), at, tolerance=1e-7)
        low[at] = np.where(slack > known[at], np.exp(x), low[at])
        return low

    def _slow_interval(
        self, low: FloatArray, high: FloatArray, active: FloatArray, index: Index
    ) -> tuple[FloatArray, FloatArray]:
        """The outer ends of what is slow enough between two N; the low one inf where nothing is."""

        def slow(x: FloatArray, i: Index) -> FloatArray:
            return self.slow(np.exp(x), active[i], index[i]) + ROUNDING

        most = np.log(np.maximum(high, low))
        # Nothing slow enough below the returned point: nudge to the side that satisfies.
        found = last_nonnegative(lambda x, i: -slow(x, i), np.log(low), most)
        raised = np.where(np.isfinite(found), np.exp(found), low)
        fast = np.flatnonzero(slow(most, np.arange(len(most))) < 0.0)
        raised[fast] = np.inf
        # Where only the least N are slow enough the largest of them ends the interval.
        x = last_nonnegative(lambda x, i: slow(x, fast[i]), np.log(low[fast]), most[fast])
        some = np.isfinite(x)
        fast, high = fast[some], high.copy()
        raised[fast], high[fast] = low[fast], np.exp(x[some])
        return raised, high


def _tightest(
    limits: list[tuple[str, FloatArray]], pick: Callable[..., Index]
) -> tuple[FloatArray, NDArray[np.str_]]:
    values = np.stack([v for _, v in limits])
    at = pick(values, axis=0)
    names = np.array([name for name, _ in limits])
    return np.take_along_axis(values, at[None, :], axis=0)[0], names[at]
