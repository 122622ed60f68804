"""What bounds total and active parameters in a slice: limits on A, and slacks at (A, N)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from archinfer.models.shape import FloatArray
from archinfer.physics.decode import Z90
from archinfer.physics.economy import knows_activity
from archinfer.physics.memory import room_bytes
from archinfer.solver.constraints import HIDDEN_FLOOR, Candidate, constraints
from archinfer.solver.question import Question
from archinfer.solver.slices import Index, Slices

FAST = ("speed", "throughput", "cost", "power", "price")
"""The constraints that ask for speed, or limit what nodes draw and cost at their load: memory and
time move both of these with N, and what they allow of a piece of N is one interval."""
SLOW = "speed (not faster)"
TINY = 1e-300
MOST = 1e18
"""More parameters than anything holds."""

ROUNDING = 1e-12
"""What a slack may miss of 0 at an end that is itself a root. Where the time is the same at every
N, rounding alone would decide which of them are possible."""


Jumps: TypeAlias = list[list[FloatArray]]


@dataclass(frozen=True)
class Speeds:
    """Slacks of speed at some points, and where these jump; each worked out when it is read."""

    slack: Callable[[str], FloatArray]
    switches: Callable[[], Jumps]

    @cached_property
    def fast(self) -> FloatArray:
        """Of the constraints that ask for speed; falls as N grows, between jumps."""
        return self.slack("fast")

    @cached_property
    def slow(self) -> FloatArray:
        """Of "not faster than observed"; rises as N grows, between jumps."""
        return self.slack("slow")

    @cached_property
    def jumps(self) -> Jumps:
        """Change sign where the spread jumps as N grows (first), and where the spread or the time
        jumps as A grows, whatever N is."""
        return self.switches()

    def take(self, index: Index) -> Speeds:
        """Those of the points at `index`."""
        return Speeds(
            lambda name: getattr(self, name)[index],
            lambda: [[s[index] for s in part] for part in self.jumps],
        )


class Bounds:
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
    def spread(self) -> bool:
        """Whether a limit moves with the spread, which need not be continuous, or with power, which
        need not grow with N."""
        return bool(self.question.observed or self.question.confidence_z != 0.0 or self.by_activity)

    @property
    def by_activity(self) -> bool:
        """Whether power or price is limited and follows from what the nodes do."""
        return self.has("power", "price") and knows_activity(self.question.hardware)

    @property
    def alone(self) -> bool:
        """Whether one token at a time passes a wafer, so that neither batch nor queue matters."""
        q = self.question
        return q.hardware.spatial and q.concurrency == 1 and not self.by_activity

    @property
    def jumps(self) -> bool:
        """Whether time or spread may jump."""
        return self.spread or bool(np.any(self.question.hardware.small_matrix_params))

    @property
    def several(self) -> NDArray[np.bool_]:
        """Where the feasible A need not be one interval.

        On temporal hardware a batch of several tokens hits fewer distinct experts the more of
        them each token uses, and reads less of them; matrices that outgrow one core are read
        sooner; and a spread may jump on any hardware.
        """
        q, slices = self.question, self.slices
        if self.jumps:
            return np.ones(len(slices), dtype=bool)
        if q.hardware.spatial:
            return np.zeros(len(slices), dtype=bool)
        stages = slices.mapping.stages(slices.layers)
        return np.asarray((q.concurrency > stages) & ~slices.dense)

    @property
    def steps(self) -> int:
        """Steps of log A in which those intervals are looked for.

        What bends between jumps does so over half a unit of log A or more: on a range of e^6 a
        step is a quarter. Of one token on a wafer nothing bends but the spread.
        """
        return 3 if self.alone else 24

    @cached_property
    def gain(self) -> float:
        """Most by which a slack of speed at any N exceeds that at the least, where T is least.

        Of the spread, which is at most that of three constants that take the same seconds, of the
        software, and of power between idle and nameplate.
        """
        q = self.question
        _, _, covariance = q.hardware.constants()
        constants = 3.0 * float(np.sqrt(np.max(np.diag(covariance), initial=0.0)))
        software = max(
            -np.log(factor * min(routed, 1.0)) + 3.0 * sd for _, factor, sd, routed in q.softwares
        )
        z = Z90 if q.observed else abs(q.confidence_z)
        spread = float(np.hypot(q.hardware.model_error_log_sd, constants))
        idle = q.hardware.power_w / max(q.hardware.idle_power_w, TINY) if self.by_activity else 1.0
        return float(z * spread + max(software, 0.0) + np.log(idle))

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

    def at(self, total: FloatArray, active: FloatArray, index: Index) -> Speeds:
        """Slacks of speed, and where they jump, in the slices at `index`."""
        candidate, n = self.candidate(np.clip(total, TINY, MOST), active, index), len(active)

        def switches() -> Jumps:
            parts = candidate.time.switches() if self.jumps else ([], [])
            return [[np.broadcast_to(s, n) for s in part] for part in parts]

        names = {"fast": FAST, "slow": (SLOW,)}
        return Speeds(lambda name: self._least(names[name], candidate, n), switches)

    def slack_and_turns(
        self, total: FloatArray, active: FloatArray, index: Index
    ) -> tuple[FloatArray, list[FloatArray]]:
        """Least slack of all constraints but the limits on A alone, and what changes sign where it
        jumps or another constraint is the least."""
        at = self.at(total, active, index)
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.log(self.total_high_of(active, index)) - np.log(total)
            above = np.log(total) - np.log(self.total_low_of(active, index))
            room = np.where(np.isnan(room), -np.inf, room)
            limits, speed = np.minimum(room, above), np.minimum(at.fast, at.slow)
            turns = [limits - speed, room - above, at.fast - at.slow]
        return np.minimum(limits, speed), [*map(np.nan_to_num, turns), *chain(*at.jumps)]

    def _least(self, names: Iterable[str], candidate: Candidate, n: int) -> FloatArray:
        result = np.full(n, np.inf)
        for name in names:
            if name in self.by_name:
                result = np.minimum(result, self.by_name[name].slack(candidate))
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


def _tightest(
    limits: list[tuple[str, FloatArray]], pick: Callable[..., Index]
) -> tuple[FloatArray, NDArray[np.str_]]:
    values = np.stack([v for _, v in limits])
    at = pick(values, axis=0)
    names = np.array([name for name, _ in limits])
    return np.take_along_axis(values, at[None, :], axis=0)[0], names[at]
