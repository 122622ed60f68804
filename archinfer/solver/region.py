"""The exact feasible region over total and active parameters, layers and nodes.

For fixed layers L, mapping and weight format every constraint is monotone in total N and active
A: memory and the time of a pass grow with both. So for each A the feasible N are one interval,
the A with a non-empty interval are one interval, and the ends of both are roots of monotone
functions, found to 1e-11. A *slice* is one (layers, layers per stage, tensor-parallel group,
weight format); the region is the union of its slices, and n nodes may use every slice that
needs at most n.

One caveat, checked by `monotone`: an observed speed compares with a predicted interval, whose
width moves with the mix of terms. With the log-standard deviation of each constant below
1 / 1.645 the interval's ends stay monotone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from archinfer.models.formats import weight_format
from archinfer.models.shape import FloatArray
from archinfer.physics.mapping import Placement
from archinfer.solver.constraints import HIDDEN_FLOOR, Candidate, constraints, shape_limits
from archinfer.solver.question import Question
from archinfer.solver.roots import last_nonnegative

if TYPE_CHECKING:
    from archinfer.hardware.profile import Hardware

__all__ = [
    "GROUP_MOST",
    "LAYERS_MAX",
    "Bound",
    "Interval",
    "Region",
    "Slices",
    "mappings",
    "placements",
    "solve",
    "widest_group",
]

GROUP_MOST = 8192.0
"""Largest tensor-parallel group that is tried, in nodes. A layer must fit one group: 10T parameters
at 16 bits in 14 layers are 1.4 TB a layer, or 6,900 of the smallest node (207 MB, Groq's LPU).
For speed less is enough: on the shipped profiles no catalogue model is fastest on more than 1,024
nodes a layer."""

LAYERS_MAX = 512
"""Deepest model searched unless the user asks for more: four times the deepest in the
catalogue."""

Index = NDArray[np.intp]

_FAST = ("speed", "throughput")
_SLOW = "speed (not faster)"
_TINY = 1e-300
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Slices:
    """Arrays of one length: the discrete part of each slice."""

    layers: FloatArray
    layers_per_stage: FloatArray
    tensor_parallel: FloatArray
    weights: Index
    """Position of the weight format in the question's list."""
    weight_bits: FloatArray
    dense: NDArray[np.bool_]
    """Whether its models are dense: then N = A, and there is one slice beside that of mixtures."""

    def take(self, index: Index) -> Slices:
        """The slices at `index`."""
        return Slices(
            self.layers[index],
            self.layers_per_stage[index],
            self.tensor_parallel[index],
            self.weights[index],
            self.weight_bits[index],
            self.dense[index],
        )

    def candidate(self, question: Question, total: FloatArray, active: FloatArray) -> Candidate:
        """One model in each slice."""
        weights_only = np.array([weight_format(w).weights_only for w in question.weights])
        return Candidate(
            question,
            total,
            active,
            self.layers,
            self.mapping,
            self.weight_bits,
            dense=self.dense,
            weights_only=weights_only[self.weights],
        )

    @property
    def mapping(self) -> Placement:
        """The mapping of each slice."""
        return Placement(self.layers_per_stage, self.tensor_parallel)

    @property
    def nodes(self) -> FloatArray:
        """Nodes that each slice uses."""
        return np.asarray(self.mapping.nodes(self.layers), dtype=float)

    def __len__(self) -> int:
        return len(self.layers)


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of an interval and the constraint that draws it."""

    value: float
    by: str


@dataclass(frozen=True, slots=True)
class Interval:
    """A range of one quantity with what bounds it on either side."""

    low: Bound
    high: Bound


def widest_group(hardware: Hardware) -> float:
    """Largest tensor-parallel group that is tried: one node of spatial hardware, else
    GROUP_MOST."""
    return 1.0 if hardware.spatial else GROUP_MOST


def mappings(
    layers: FloatArray, nodes: int, group_max: float = 1.0
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Every way to place `layers` whole layers on at most `nodes` nodes.

    A pipeline of u stages holds ceil(L / u) layers in the fullest; stage counts that lead to
    the same number are one mapping, the one with fewest stages. Each stage is a
    tensor-parallel group of 1, 2, 4, ... nodes, `group_max` at most (see `widest_group`).

    Returns:
        (layers, layers_per_stage, tensor_parallel), one entry a mapping.
    """
    out: list[tuple[FloatArray, FloatArray, FloatArray]] = []
    group = 1
    while group <= min(nodes, group_max):
        most = int(min(nodes // group, layers.max()))
        stages = np.arange(1, most + 1, dtype=float)
        depth = layers[:, None]
        per_stage = np.ceil(depth / stages)
        kept = (np.ceil(depth / per_stage) == stages) & (stages <= depth)
        rows, columns = np.nonzero(kept)
        out.append((layers[rows], per_stage[rows, columns], np.full(len(rows), float(group))))
        group *= 2
    joined = [np.concatenate(parts) for parts in zip(*out, strict=True)]
    return joined[0], joined[1], joined[2]


def placements(question: Question, layers: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Every way to place whole layers on the question's nodes, or the one that it forces.

    Returns:
        As `mappings`; depths with fewer layers than the forced stages are left out.
    """
    layout = question.layout
    if layout is None:
        hardware = question.hardware
        return mappings(layers, question.nodes[1], widest_group(hardware))
    layers = layers[(layers >= layout.stages) & (layout.nodes <= question.nodes[1])]
    per_stage = np.ceil(layers / layout.stages)
    return layers, per_stage, np.full(len(layers), float(layout.tensor_parallel))


def _layer_range(question: Question) -> FloatArray:
    low, high = question.layers
    if "layers asked" in question.disabled:
        low, high = 0.0, np.inf
    if question.habits is not None and "depth" not in question.disabled:
        low, high = max(low, question.habits.layers[0]), min(high, question.habits.layers[1])
    low = max(1.0, np.ceil(low))
    high = np.floor(high) if high < np.inf else max(float(LAYERS_MAX), low)
    return np.arange(low, high + 1.0)


def _slices(question: Question, layers: FloatArray) -> Slices:
    if not len(layers):
        nothing = np.empty(0)
        none = np.empty(0, dtype=bool)
        return Slices(nothing, nothing, nothing, np.empty(0, dtype=np.intp), nothing, none)
    layers, per_stage, group = placements(question, layers)
    bits = np.array([weight_format(w).bits for w in question.weights])
    kinds = np.array([False, True] if _may_be_dense(question) else [False])
    formats, n = len(bits), len(layers)
    copies = formats * len(kinds)
    return Slices(
        np.tile(layers, copies),
        np.tile(per_stage, copies),
        np.tile(group, copies),
        np.tile(np.repeat(np.arange(formats), n), len(kinds)),
        np.tile(np.repeat(bits, n), len(kinds)),
        np.repeat(kinds, formats * n),
    )


def _may_be_dense(question: Question) -> bool:
    habits = question.habits
    if habits is not None and "sparsity" not in question.disabled and habits.sparsity[0] > 1.0:
        return False
    totals, actives = (
        (0.0, np.inf) if f"{name} asked" in question.disabled else getattr(question, name)
        for name in ("total", "active")
    )
    return bool(totals[0] <= actives[1] and actives[0] <= totals[1])


class _Functions:
    """The monotone functions of a batch of slices, on logarithms of A and N."""

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
        if "shape" in self.by_name:
            least, most = shape_limits(question, layers)
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

    def candidate(self, total: FloatArray, active: FloatArray, index: Index) -> Candidate:
        return self.slices.take(index).candidate(self.question, total, active)

    def capacity_total(self, active: FloatArray, index: Index) -> FloatArray:
        """Most parameters that fit beside KV cache and activations (may be negative)."""
        if "capacity" not in self.by_name:
            return np.full(len(active), 1e18)
        empty = self.candidate(active, active, index)
        part = self.slices.take(index)
        usable_bytes = (
            self.question.hardware.usable_bytes
            * part.tensor_parallel
            * part.layers
            / part.layers_per_stage
        )
        kv_bytes = empty.memory.kv_held(part.tensor_parallel)
        room_bytes = usable_bytes - kv_bytes - empty.memory.other
        return np.asarray(room_bytes * 8.0 / part.weight_bits)

    def total_low_of(self, active: FloatArray, index: Index) -> FloatArray:
        """Fewest parameters that definition, sparsity and the user allow."""
        return np.maximum(self.sparsity_low[index] * active, self.total_low)

    def total_high_of(self, active: FloatArray, index: Index) -> FloatArray:
        """Most parameters that capacity, sparsity and the user allow."""
        habit = np.minimum(self.sparsity_high[index] * active, self.total_high)
        return np.minimum(habit, self.capacity_total(active, index))

    def fast(self, total: FloatArray, active: FloatArray, index: Index) -> FloatArray:
        """Smallest slack of the constraints that ask for speed; decreases in A and N."""
        return self._least(_FAST, total, active, index)

    def slow(self, total: FloatArray, active: FloatArray, index: Index) -> FloatArray:
        """Slack of "not faster than observed"; increases in A and N."""
        return self._least((_SLOW,), total, active, index)

    def _least(
        self, names: Iterable[str], total: FloatArray, active: FloatArray, index: Index
    ) -> FloatArray:
        present = [self.by_name[n] for n in names if n in self.by_name]
        result = np.full(len(active), np.inf)
        if not present:
            return result
        candidate = self.candidate(np.maximum(total, _TINY), active, index)
        for constraint in present:
            result = np.minimum(result, constraint.slack(candidate))
        return result

    def has(self, *names: str) -> bool:
        return any(n in self.by_name for n in names)

    def slowest_name(self, total: FloatArray, active: FloatArray, index: Index) -> list[str]:
        """Which of the constraints that ask for speed is the tightest at each point."""
        candidate = self.candidate(total, active, index)
        names = [n for n in _FAST if n in self.by_name]
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

    def total_interval(self, active: FloatArray, index: Index) -> tuple[FloatArray, FloatArray]:
        """Feasible N at given A in given slices: (low, high), low > high where there is none."""
        functions = _Functions(self.question, self.slices.take(np.asarray(index)))
        low, high = _total_interval(functions, active, np.arange(len(active)))
        outside = (active < self.active_low[index]) | (active > self.active_high[index])
        return np.where(outside, np.inf, low), np.where(outside, -np.inf, high)

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
            fits = (
                (self.slices.nodes[slot] <= nodes[point])
                & (self.active_low[slot] <= active[point])
                & (active[point] <= self.active_high[slot])
                & (self.total_low[slot] <= total[point])
                & (total[point] <= self.total_high[slot])
            )
            point, slot = point[fits], slot[fits]
            if len(point):
                low, high = self.total_interval(active[point], slot)
                inside[point] = (low <= total[point]) & (total[point] <= high)
        return inside


def _total_interval(
    functions: _Functions, active: FloatArray, index: Index
) -> tuple[FloatArray, FloatArray]:
    """Feasible N at given A, all constraints but the limits on A alone."""
    low = functions.total_low_of(active, index)
    high = np.minimum(functions.total_high_of(active, index), 1e18)
    if functions.has(*_FAST):
        most = np.log(np.maximum(high, _TINY))
        found = last_nonnegative(
            lambda x, i: functions.fast(np.exp(x), active[i], index[i]), np.log(low), most
        )
        # Where speed takes nothing away the end stays what it was, to the last digit.
        high = np.where(found < most, np.exp(found), high)
    if functions.has(_SLOW):
        # Nothing slow enough below the returned point: nudge to the side that satisfies.
        found = last_nonnegative(
            lambda x, i: -functions.slow(np.exp(x), active[i], index[i]),
            np.log(low),
            np.log(np.maximum(high, low)),
        )
        low = np.where(np.isfinite(found), np.exp(found), low)
        still_fast = functions.slow(np.maximum(high, low), active, index) < 0.0
        low = np.where(still_fast, np.inf, low)
    return low, high


def solve(question: Question, layers: FloatArray | None = None) -> Region:
    """The feasible region of `question`.

    Args:
        question: hardware, speed, what is known and assumed.
        layers: layer counts to look at; None: those the question allows, up to LAYERS_MAX.

    Returns:
        The region; `feasible` is False where nothing is possible (that is an answer).
    """
    allowed = _layer_range(question)
    if layers is not None:
        unlimited = question.layers[1] == np.inf and question.habits is None
        within = (layers >= allowed[0]) & ((layers <= allowed[-1]) | unlimited)
        allowed = layers[within] if len(allowed) else allowed
    slices = _affordable(question, _slices(question, allowed))
    if not len(slices):
        return _empty(question, slices)
    f = _Functions(question, slices)
    every = np.arange(len(slices))
    a_low, low_by = _tightest(f.lowers, np.argmax)
    a_high, high_by = _tightest(f.uppers, np.argmin)
    # At A itself the total is at least A, so capacity bounds A too.
    ceiling = np.maximum(f.capacity_total(a_low, every), _TINY)
    high_by = np.where(ceiling < a_high, "capacity", high_by)
    x_low, x_high = np.log(a_low), np.log(np.minimum(a_high, ceiling))

    def narrowed(
        function: Callable[[FloatArray, Index], FloatArray], name: Callable[[Index], list[str]]
    ) -> None:
        nonlocal x_high, high_by
        root = last_nonnegative(function, x_low, x_high)
        moved = np.flatnonzero((root < x_high) & np.isfinite(root))
        if len(moved):
            high_by = high_by.astype(object)
            high_by[moved] = name(moved)
        x_high = root

    narrowed(
        lambda x, i: (
            np.log(np.maximum(f.capacity_total(np.exp(x), i), _TINY))
            - np.log(f.total_low_of(np.exp(x), i))
        ),
        lambda i: ["capacity"] * len(i),
    )
    root_before = x_high
    if f.has(*_FAST):
        narrowed(
            lambda x, i: f.fast(f.total_low_of(np.exp(x), i), np.exp(x), i),
            lambda i: f.slowest_name(
                f.total_low_of(np.exp(root_before[i]), i), np.exp(root_before[i]), i
            ),
        )
    if f.has(_SLOW):
        ok = np.flatnonzero(x_low <= x_high)
        # The least A that is slow enough at its largest total: search downwards from the top.
        mirrored = last_nonnegative(
            lambda y, j: f.slow(f.total_high_of(np.exp(-y), ok[j]), np.exp(-y), ok[j]),
            -x_high[ok],
            -x_low[ok],
        )
        raised = np.full(len(slices), np.inf)
        raised[ok] = -mirrored
        low_by = np.where(raised > x_low, _SLOW, low_by)
        x_low = np.maximum(x_low, raised)
    kept = np.flatnonzero((x_low <= x_high) & np.isfinite(x_high))
    if not len(kept):
        return _empty(question, slices)
    return _finish(
        question,
        slices.take(kept),
        np.exp(x_low[kept]),
        np.exp(x_high[kept]),
        np.asarray(low_by)[kept],
        np.asarray(high_by)[kept],
    )


def _affordable(question: Question, slices: Slices) -> Slices:
    """Without the slices whose nodes alone break a limit on power or price."""
    if not len(slices):
        return slices
    ones = np.ones(len(slices))
    candidate = slices.candidate(question, ones, ones)
    keep = np.ones(len(slices), dtype=bool)
    for constraint in constraints(question):
        if constraint.name in ("power", "price"):
            keep &= np.asarray(constraint.slack(candidate)) >= 0.0
    return slices.take(np.flatnonzero(keep))


def _empty(question: Question, slices: Slices) -> Region:
    none, text = np.empty(0), np.empty(0, dtype=str)
    return Region(
        question,
        slices.take(np.empty(0, dtype=np.intp)),
        none,
        none,
        text,
        text,
        none,
        none,
        none,
        none,
        text,
        text,
    )


def _finish(
    question: Question,
    slices: Slices,
    a_low: FloatArray,
    a_high: FloatArray,
    low_by: NDArray[np.str_],
    high_by: NDArray[np.str_],
) -> Region:
    """Least and largest total of each slice, and what draws them."""
    if np.any(slices.dense):

        def of(part: Index) -> tuple[Slices, FloatArray, FloatArray, NDArray[np.str_], Any]:
            return slices.take(part), a_low[part], a_high[part], low_by[part], high_by[part]

        mixed = np.flatnonzero(~slices.dense)
        alone = _finish_dense(question, *of(np.flatnonzero(slices.dense)))
        return _joined(_finish(question, *of(mixed)), alone) if len(mixed) else alone
    f = _Functions(question, slices)
    every = np.arange(len(slices))
    x_low, x_high = np.log(a_low), np.log(a_high)

    # The largest total lies where sparsity * A meets capacity or speed, or at an end of A.
    top = a_low
    if np.all(f.sparsity_high < np.inf):
        sparsity = f.sparsity_high
        root = last_nonnegative(
            lambda x, i: np.minimum(
                np.log(np.maximum(f.capacity_total(np.exp(x), i), _TINY)) - np.log(sparsity[i]) - x,
                f.fast(sparsity[i] * np.exp(x), np.exp(x), i),
            ),
            x_low,
            x_high,
        )
        top = np.where(np.isfinite(root), np.exp(root), a_low)
    low_at_top, total_high = _total_interval(f, top, every)

    # The least total lies where "not faster" lets go of N = sparsity_low * A, or at an end.
    bottom = a_low
    if f.has(_SLOW):
        mirrored = last_nonnegative(
            lambda y, i: f.slow(f.total_low_of(np.exp(-y), i), np.exp(-y), i), -x_high, -x_low
        )
        bottom = np.where(np.isfinite(mirrored), np.exp(-mirrored), a_high)
    total_low, high_at_bottom = _total_interval(f, bottom, every)
    # An observed speed and a throughput may contradict each other where each alone is possible;
    # at an end of A the interval is one point, whose two ends differ by the roots' rounding.
    lost = total_low > high_at_bottom * (1.0 + _ROUNDING)
    total_low = np.where(lost, low_at_top, total_low)
    bottom = np.where(lost, top, bottom)
    kept = np.flatnonzero(total_low <= total_high * (1.0 + _ROUNDING))
    if len(kept) < len(slices):
        if not len(kept):
            return _empty(question, slices)
        return _finish(
            question, slices.take(kept), a_low[kept], a_high[kept], low_by[kept], high_by[kept]
        )
    total_low = np.minimum(total_low, total_high)
    return Region(
        question,
        slices,
        a_low,
        a_high,
        low_by,
        high_by,
        total_low,
        total_high,
        bottom,
        top,
        _low_names(f, total_low, bottom, low_by),
        _high_names(f, total_high, top, a_high, high_by),
    )


def _finish_dense(
    question: Question,
    slices: Slices,
    a_low: FloatArray,
    a_high: FloatArray,
    low_by: NDArray[np.str_],
    high_by: NDArray[np.str_],
) -> Region:
    """The same of dense models, whose total is what the active parameters are."""
    f = _Functions(question, slices)
    near = 1.0 + 1e-7
    total_low_by = np.where(a_low <= f.total_low * near, "total asked", low_by)
    total_high_by = np.where(a_high * near >= f.total_high, "total asked", high_by)
    ends = (a_low, a_high, a_low, a_high)
    return Region(
        question, slices, a_low, a_high, low_by, high_by, *ends,
        total_low_by.astype(str), total_high_by.astype(str),
    )  # fmt: skip


def _joined(first: Region, second: Region) -> Region:
    """The slices of both, of one question."""

    def both(name: str, of: Region | Slices, other: Region | Slices) -> NDArray[Any]:
        return np.concatenate([getattr(of, name), getattr(other, name)])

    slices = Slices(*(both(f.name, first.slices, second.slices) for f in fields(Slices)))
    return Region(
        first.question,
        slices,
        *(both(f.name, first, second) for f in fields(Region)[2:]),
    )


def _low_names(
    f: _Functions, total: FloatArray, active: FloatArray, active_by: NDArray[np.str_]
) -> NDArray[np.str_]:
    near = 1.0 + 1e-7
    names = np.full(len(total), _SLOW, dtype=object)
    dense = total <= f.sparsity_low * active * near
    # On the line N = A the total is least because the active parameters are.
    names[dense] = active_by[dense]
    names[dense & (f.sparsity_low > 1.0)] = "sparsity"
    if f.total_low > 0.0:
        names[total <= f.total_low * near] = "total asked"
    return names.astype(str)


def _high_names(
    f: _Functions,
    total: FloatArray,
    active: FloatArray,
    active_high: FloatArray,
    active_by: NDArray[np.str_],
) -> NDArray[np.str_]:
    every = np.arange(len(total))
    near = 1.0 - 1e-7
    names = np.full(len(total), "speed", dtype=object)
    if f.has(*_FAST):
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
