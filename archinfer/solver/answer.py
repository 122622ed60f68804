"""The solver's answer to a question: ranges and what draws them, architectures, conflicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archinfer.models.formats import weight_format
from archinfer.models.shape import FloatArray
from archinfer.physics.decode import tokens_per_s
from archinfer.question import NODES_MOST
from archinfer.solver.constraints import Candidate, Constraint, constraints
from archinfer.solver.designs import Design, designs
from archinfer.solver.question import Question
from archinfer.solver.region import Bound, Interval, Region, solve
from archinfer.solver.slices import LAYERS_MAX
from archinfer.units import format_quantity, plain_number

__all__ = [
    "Answer",
    "Conflict",
    "Relaxation",
    "Sensitivity",
    "Variant",
    "answer",
    "conflict",
    "sensitivity",
    "variants",
]

NAMES = {"total": "total parameters", "active": "active parameters", "layers": "layers"}
SEARCHED = "end of the search"
"""What ends the nodes where nobody asked for a number of them."""
QUANTITIES = ("total_params", "active_params", "layers", "nodes")
_TIE = 1e-3


@dataclass(frozen=True)
class Relaxation:
    """One way to open an empty region: the constraint that gives, and by how much.

    Attributes:
        constraints: the constraint (or the two) to relax together.
        kind: "physics", "habit" or "request" of the first.
        factor: how far the closest model is from it (1.2: it misses by 20 %); nan for two.
        factors: the same for each constraint; of two, of the model whose larger one is least.
        text: what that means in the user's own units.
    """

    constraints: tuple[str, ...]
    kind: str
    factor: float
    factors: tuple[float, ...]
    text: str

    def to_dict(self) -> dict[str, Any]:
        """JSON keys of `conflict.relaxations[]`."""
        return {
            "constraints": list(self.constraints),
            "kind": self.kind,
            "factor": self.factor,
            "factors": list(self.factors),
            "text": self.text,
        }


@dataclass(frozen=True)
class Conflict:
    """Why nothing is feasible."""

    relaxations: tuple[Relaxation, ...]
    text: str

    def to_dict(self) -> dict[str, Any]:
        """JSON keys of `conflict`."""
        return {"text": self.text, "relaxations": [r.to_dict() for r in self.relaxations]}


@dataclass(frozen=True)
class Sensitivity:
    """What a speed reads of one quantity, all else equal.

    Attributes:
        quantity: total_params, active_params, layers or nodes.
        tokens_per_s: without speculation, with the quantity halved, as it is, doubled; nan
            where that is no model (more active parameters than there are).
    """

    quantity: str
    tokens_per_s: tuple[float, float, float]

    @property
    def elasticity(self) -> float:
        """Relative change of the speed when the quantity doubles."""
        return self.tokens_per_s[2] / self.tokens_per_s[1] - 1.0

    def to_dict(self) -> dict[str, Any]:
        """JSON keys of `sensitivity[]`."""
        halved, same, doubled = self.tokens_per_s
        return {
            "quantity": self.quantity,
            "tokens_per_s": {"halved": halved, "same": same, "doubled": doubled},
        }


def sensitivity(question: Question, design: Design) -> tuple[Sensitivity, ...]:
    """Speed of a design, and how it would change with one of total, active and layers.

    The changes are those of the family's member with the design's numbers. Layers change with the
    layers per node kept, so that the nodes change with them. Whether the changed model still
    fits is not asked: this is about what a speed tells, not about what may be built.
    """
    factors = np.array([0.5, 1.0, 2.0])
    found = []
    for name in ("total_params", "active_params", "layers"):
        scale = {
            k: factors if k == name else np.ones(3)
            for k in ("total_params", "active_params", "layers")
        }
        total = design.total_params * scale["total_params"]
        active = design.active_params * scale["active_params"]
        candidate = Candidate(
            question,
            total,
            active,
            np.maximum(np.round(design.architecture.layers * scale["layers"]), 1.0),
            design.mapping,
            weight_format(design.weights).bits,
            dense=(total == active) & (design.total_params == design.active_params),
            weights_only=weight_format(design.weights).weights_only,
        )
        family = np.asarray(tokens_per_s(candidate.time))
        speeds = np.where(active <= total, family / family[1] / design.time_s["total"], np.nan)
        found.append(Sensitivity(name, (float(speeds[0]), float(speeds[1]), float(speeds[2]))))
    return tuple(found)


@dataclass(frozen=True)
class Variant:
    """What a target allows with other means than those assumed.

    Attributes:
        name: short key: "no speculation", or the name of a software.
        text: the means, in words.
        ranges: total_params, active_params, layers as (low, high); empty where infeasible.
    """

    name: str
    text: str
    ranges: dict[str, tuple[float, float]]

    @property
    def feasible(self) -> bool:
        """Whether any model is possible."""
        return bool(self.ranges)

    def to_dict(self) -> dict[str, Any]:
        """JSON keys of `variants[]`."""
        ranges = {name: {"low": low, "high": high} for name, (low, high) in self.ranges.items()}
        return {
            "name": self.name,
            "text": self.text,
            "feasible": self.feasible,
            "ranges": ranges or None,
        }


def variants(question: Question) -> tuple[Variant, ...]:
    """What a target allows without speculation, and with faster software that the profile knows.

    A software is a factor of speed (`Hardware.software`): with one of f a target of v is reached
    where the usual software reaches v / f. Empty for an observed speed.
    """
    if question.observed:
        return ()
    asked: list[tuple[str, str, Question]] = []
    low, high = question.speculation
    if low <= 1.0 < high:
        text = "without speculation (1 accepted token a pass)"
        asked.append(("no speculation", text, question.with_(speculation=(1.0, 1.0))))
    hardware = question.hardware
    for name, factor, _ in hardware.software:
        if factor <= 1.0:
            continue
        usual = f" in place of {hardware.usual_software}" if hardware.usual_software else ""
        throughput = question.throughput_tokens_per_s
        faster = question.with_(
            tokens_per_s=question.tokens_per_s / factor,
            throughput_tokens_per_s=None if throughput is None else throughput / factor,
        )
        asked.append((name, f"with {name}{usual} ({plain_number(factor)} times as fast)", faster))
    return tuple(Variant(name, text, _spans(solve(other))) for name, text, other in asked)


def _spans(region: Region) -> dict[str, tuple[float, float]]:
    if not region.feasible:
        return {}
    return {
        "total_params": (float(region.total_low.min()), float(region.total_high.max())),
        "active_params": (float(region.active_low.min()), float(region.active_high.max())),
        "layers": (float(region.slices.layers.min()), float(region.slices.layers.max())),
    }


@dataclass(frozen=True)
class Answer:
    """Everything that `archinfer solve` says.

    Attributes:
        question: what was asked.
        region: the exact region.
        ranges: total_params, active_params, layers, nodes; empty where infeasible.
        by_weights: for each weight format the ranges as (low, high).
        architectures: concrete designs inside.
        architectures_wanted: how many were asked for.
        conflict: why nothing is feasible, else None.
        sensitivity: what the speed reads of each quantity, around the first architecture.
        posterior: what an observed speed says, else None.
        comparisons: why the observed speed differs from those of known models.
        variants: what a target allows with other means than those assumed.
    """

    question: Question
    region: Region
    ranges: dict[str, Interval]
    by_weights: dict[str, dict[str, tuple[float, float]]]
    architectures: tuple[Design, ...]
    conflict: Conflict | None
    sensitivity: tuple[Sensitivity, ...] = ()
    architectures_wanted: int = 0
    posterior: Any = None
    comparisons: tuple[Any, ...] = ()
    variants: tuple[Variant, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def feasible(self) -> bool:
        """Whether any model is possible."""
        return self.region.feasible

    @property
    def posterior_speculation(self) -> str | None:
        """What the posterior takes for accepted tokens: the profile's `law` or the `range`."""
        if self.posterior is None:
            return None
        return "range" if self.posterior.law is None else "law"

    def _range(self, name: str) -> dict[str, Any] | None:
        if name not in self.ranges:
            return None
        found = self.ranges[name]
        return {
            "low": found.low.value,
            "high": found.high.value,
            "low_bound_by": found.low.by,
            "high_bound_by": found.high.by,
        }

    def to_dict(self) -> dict[str, Any]:
        """The JSON document of docs/json.md."""
        q = self.question
        return {
            "question": {
                "hardware": q.hardware.name,
                "nodes": list(q.nodes),
                "nodes_known": q.nodes_known,
                "tokens_per_s": q.tokens_per_s,
                "mode": "observed" if q.observed else "target",
                "context_tokens": q.context_tokens,
                "concurrency": q.concurrency,
                "weights": list(q.weights),
                "kv": q.kv,
                "attention": q.rules.attention,
                "speculation": list(q.speculation),
                "posterior_speculation": self.posterior_speculation,
                "software": q.software,
                "software_factor": [q.softwares[0][1], q.softwares[-1][1]],
                "physics_only": q.habits is None,
                "total": _open(q.total),
                "active": _open(q.active),
                "layers": _open(q.layers),
                "sparsity": None if q.habits is None else _ends(q.habits.sparsity),
                "confidence": None if q.observed else q.confidence,
                "throughput_tokens_per_s": q.throughput_tokens_per_s,
                "max_power_w": q.power_w,
                "max_price_per_hour": q.price_per_hour,
                "mapping": None if q.layout is None else q.layout.text,
                "overrides": list(q.overrides),
                "calibration": q.calibration,
            },
            "feasible": self.feasible,
            "ranges": {name: self._range(name) for name in QUANTITIES},
            "by_weights": {
                w: {name: {"low": lo, "high": hi} for name, (lo, hi) in rows.items()}
                for w, rows in self.by_weights.items()
            },
            "architectures": [d.to_dict() for d in self.architectures],
            "sensitivity": [s.to_dict() for s in self.sensitivity],
            "posterior": None if self.posterior is None else self.posterior.to_dict(),
            "comparisons": [c.to_dict() for c in self.comparisons],
            "variants": [v.to_dict() for v in self.variants],
            "conflict": None if self.conflict is None else self.conflict.to_dict(),
            "constraints": [
                {"name": c.name, "kind": c.kind, "text": c.text} for c in constraints(q)
            ],
            "notes": list(self.notes),
            "provenance": q.hardware.provenance,
        }

    @cached_property
    def without_habits(self) -> dict[str, tuple[float, float]]:
        """The ranges of the same question by physics alone, as (low, high)."""
        if self.question.habits is None:
            return {n: (i.low.value, i.high.value) for n, i in self.ranges.items()}
        free = solve(self.question.with_(habits=None))
        fewest, most = self.question.nodes
        needed = float(max(free.slices.nodes.min(), fewest)) if free.feasible else np.nan
        return _spans(free) | {"nodes": (needed, float(most))}


def _open(limits: tuple[float, float]) -> list[float | None] | None:
    return None if limits == (0.0, np.inf) else _ends(limits)


def _ends(limits: tuple[float, float]) -> list[float | None]:
    return [limits[0], None if limits[1] == np.inf else limits[1]]


def answer(question: Question, architectures: int = 8) -> Answer:
    """Solve `question` and say what draws each edge.

    Args:
        question: what is asked.
        architectures: how many concrete designs to look for.
    """
    region = solve(question)
    if not region.feasible:
        return Answer(question, region, {}, {}, (), conflict(question), variants=variants(question))
    found = tuple(designs(region, architectures))
    most = int(region.slices.nodes.max())
    node, fewest, last = question.hardware.node, *question.nodes
    notes = []
    if not question.nodes_known:
        notes.append(
            f"how many {node}s there are was not said: {fewest:,} to {last:,} were tried, so where "
            f"capacity draws an end it is that of {last:,} (--nodes says how many)"
        )
    if most < last and question.nodes_known:
        notes.append(
            f"no model here uses more than {most:,} of the {last:,} {node}s: layers are whole"
        )
    return Answer(
        question,
        region,
        _ranges(region),
        _by_weights(region),
        found,
        None,
        sensitivity(question, found[0]) if found else (),
        architectures,
        variants=variants(question),
        notes=tuple(notes),
    )


def _ranges(region: Region) -> dict[str, Interval]:
    low_a, high_a = int(np.argmin(region.active_low)), int(np.argmax(region.active_high))
    low_n, high_n = int(np.argmin(region.total_low)), int(np.argmax(region.total_high))
    return {
        "total_params": Interval(
            Bound(float(region.total_low[low_n]), str(region.total_low_by[low_n])),
            Bound(float(region.total_high[high_n]), str(region.total_high_by[high_n])),
        ),
        "active_params": Interval(
            Bound(float(region.active_low[low_a]), str(region.active_low_by[low_a])),
            Bound(float(region.active_high[high_a]), str(region.active_high_by[high_a])),
        ),
        "layers": _layers(region),
        "nodes": _nodes(region),
    }


def _layers(region: Region) -> Interval:
    question = region.question
    low, high = float(region.slices.layers.min()), float(region.slices.layers.max())

    # One solve answers for both ends.
    beyond = np.array([v for v in (low - 1.0, high + 1.0) if v >= 1.0])

    @cache
    def opened(disabled: frozenset[str]) -> frozenset[float]:
        found = solve(question.with_(disabled=disabled), beyond)
        return frozenset(found.slices.layers.tolist())

    def stopped_by(layers: float) -> str:
        return _blocking(question, lambda q: layers in opened(q.disabled))

    asked_low, asked_high = np.ceil(question.layers[0]), np.floor(question.layers[1])
    if low == max(asked_low, 1.0):
        below = "one layer" if low == 1.0 else "layers asked"
    else:
        below = stopped_by(low - 1.0)
    unlimited = question.habits is None and question.layers[1] == np.inf
    if high == asked_high:
        above = "layers asked"
    elif unlimited and high == LAYERS_MAX:
        above = f"search limit ({LAYERS_MAX} layers; --layers raises it)"
    else:
        above = stopped_by(high + 1.0)
    return Interval(Bound(low, below), Bound(high, above))


def _nodes(region: Region) -> Interval:
    question = region.question
    asked_low, asked_high = question.nodes
    needed = int(region.slices.nodes.min())
    asked = "nodes asked" if question.nodes_known else SEARCHED
    high = Bound(float(asked_high), asked)
    if needed <= asked_low:
        return Interval(Bound(float(asked_low), asked), high)
    fewer = question.with_(nodes=(1, needed - 1))
    depths = np.unique(region.slices.layers[region.slices.nodes == needed])
    by = _blocking(fewer, lambda q: solve(q, depths).feasible)
    return Interval(Bound(float(needed), by), high)


def _blocking(question: Question, opens: Callable[[Question], bool]) -> str:
    """The constraint (or constraints together) without which `opens` holds."""
    names = [c.name for c in constraints(question) if c.name not in ("definition", "search floor")]
    for size in (1, 2):
        found = [
            " and ".join(pair)
            for pair in combinations(names, size)
            if opens(question.without(*pair))
        ]
        if found:
            return (" with " if size == 1 else ", or ").join(found)
    return "several constraints together"


def _by_weights(region: Region) -> dict[str, dict[str, tuple[float, float]]]:
    rows: dict[str, dict[str, tuple[float, float]]] = {}
    for position, name in enumerate(region.question.weights):
        mine = region.slices.weights == position
        if not mine.any():
            continue
        layers, nodes = region.slices.layers[mine], region.slices.nodes[mine]
        rows[name] = {
            "total_params": (
                float(region.total_low[mine].min()),
                float(region.total_high[mine].max()),
            ),
            "active_params": (
                float(region.active_low[mine].min()),
                float(region.active_high[mine].max()),
            ),
            "layers": (float(layers.min()), float(layers.max())),
            "nodes": (
                float(max(nodes.min(), region.question.nodes[0])),
                float(region.question.nodes[1]),
            ),
        }
    return rows


def conflict(question: Question) -> Conflict:
    """Which constraints exclude each other, and the smallest step of each that opens the region."""
    by_name = {c.name: c for c in constraints(question)}
    names = [n for n in by_name if n not in ("definition", "search floor")]
    found: list[Relaxation] = []
    for name in names:
        region = solve(question.without(name))
        if region.feasible:
            found.append(_relaxation(question, by_name[name], region))
    if not found:
        for pair in combinations(names, 2):
            region = solve(question.without(*pair))
            if region.feasible:
                found.append(_two(question, by_name[pair[0]], by_name[pair[1]], region))
    if not found:
        text = "three or more constraints exclude each other"
    elif len(found[0].constraints) == 2:
        text = "no single constraint opens the region; two must give together"
    elif len(found) == 1:
        text = "only this constraint, relaxed alone, would open the region"
    else:
        text = "each of these alone would open the region"
    found.sort(key=lambda r: max(r.factors))
    return Conflict(tuple(found), text)


def _relaxation(question: Question, constraint: Constraint, region: Region) -> Relaxation:
    """How far the closest model of the region without `constraint` is from it."""
    slices = region.slices
    best, closest = -np.inf, None
    ends = (
        (region.total_low, region.total_low_at),
        (region.total_high, region.total_high_at),
        (np.maximum(region.total_low, region.active_low), region.active_low),
        (np.maximum(region.total_low, region.active_high), region.active_high),
    )
    for total, active in ends:
        candidate = slices.candidate(question, total, active)
        slack = np.broadcast_to(constraint.slack(candidate), (len(slices),))
        i = int(np.argmax(slack))
        if slack[i] > best:
            best, closest = float(slack[i]), (candidate, i)
    factor = float(np.exp(-best))
    assert closest is not None
    candidate, i = closest
    text = _in_words(question, constraint, factor, candidate, i, region)
    return Relaxation((constraint.name,), constraint.kind, factor, (factor,), text)


def _two(question: Question, first: Constraint, second: Constraint, region: Region) -> Relaxation:
    """How far both are from the model that misses them least, and each where the other is gone."""
    slices = region.slices
    points = _points(region, np.arange(len(slices)), 3)
    worst = _miss(question, first, second, region, *points)
    best = np.unique(points[0][np.argsort(worst)[:200]])
    slot, total, active = _points(region, best, 9)
    worst = _miss(question, first, second, region, slot, total, active)
    i = int(np.argmin(worst))
    part = slices.take(slot[i : i + 1])
    closest = part.candidate(question, total[i : i + 1], active[i : i + 1])
    factors = tuple(
        max(1.0, float(np.exp(-np.broadcast_to(c.slack(closest), (1,))[0])))
        for c in (first, second)
    )
    alone = (
        _relaxation(question.without(second.name), first, region).text,
        _relaxation(question.without(first.name), second, region).text,
    )
    text = (
        f"the closest model misses {first.name} by a factor of {plain_number(factors[0])} and "
        f"{second.name} by {plain_number(factors[1])}. With {second.name} given up, "
        f"{first.name}: {alone[0]}. With {first.name} given up, {second.name}: {alone[1]}"
    )
    names = (first.name, second.name)
    return Relaxation(names, first.kind, float("nan"), factors, text)


def _points(
    region: Region, index: NDArray[np.intp], count: int
) -> tuple[NDArray[np.intp], FloatArray, FloatArray]:
    """Models inside the slices `index`: `count` active parameters and as many totals of each.

    Returns:
        Slice, total and active parameters, all of one length.
    """
    steps = np.linspace(0.0, 1.0, count)
    low, high = np.log(region.active_low[index]), np.log(region.active_high[index])
    active = np.exp(low[:, None] + (high - low)[:, None] * steps).ravel()
    slot = np.repeat(index, count)
    least, most = region.total_interval(active, slot)
    real = least <= most
    slot, active = slot[real], active[real]
    first, last = np.log(least[real]), np.log(most[real])
    total = np.exp(first[:, None] + (last - first)[:, None] * steps).ravel()
    return np.repeat(slot, count), total, np.repeat(active, count)


def _miss(
    question: Question,
    first: Constraint,
    second: Constraint,
    region: Region,
    slot: NDArray[np.intp],
    total: FloatArray,
    active: FloatArray,
) -> FloatArray:
    """For each model the logarithm by which it misses that of two which it misses more.

    Of models alike in that, the one that misses the other less counts as closer.
    """
    models = region.slices.take(slot).candidate(question, total, active)
    misses = [np.broadcast_to(-np.asarray(c.slack(models)), slot.shape) for c in (first, second)]
    return np.asarray(np.maximum(*misses) + _TIE * np.minimum(*misses))


def _in_words(
    question: Question,
    constraint: Constraint,
    factor: float,
    candidate: Candidate,
    i: int,
    region: Region,
) -> str:
    node = question.hardware.node
    name = constraint.name
    if name.endswith(" asked"):
        quantity = name.removesuffix(" asked")
        value = float(np.broadcast_to(getattr(candidate, quantity), (len(region.slices),))[i])
        side = "at most" if value < getattr(question, quantity)[0] else "at least"
        return f"{NAMES[quantity]} of {side} {format_quantity(value, 'count', digits=3)} would do"
    if name == "speed" and question.observed:
        return (
            f"the fastest model's interval ends at {question.tokens_per_s / factor:,.4g} tokens/s, "
            f"{plain_number(factor)} times too slow"
        )
    if name == "speed":
        speed = float(
            np.broadcast_to(
                tokens_per_s(candidate.time, question.speculation[1]), (len(region.slices),)
            )[i]
        )
        needed = question.speculation[1] * factor
        return (
            f"the fastest model makes {speed:,.4g} tokens/s at {question.speculation[1]:g} "
            f"accepted tokens a pass; {question.tokens_per_s:,.4g} would need "
            f"{plain_number(needed)} of them"
        )
    if name == "speed (not faster)":
        return f"the slowest model would still be {plain_number(factor)} times as fast as observed"
    if name in ("capacity", "kv cache"):
        return (
            f"{plain_number(factor)} times the memory; {_more_nodes(question, node)}"
            + _less_context(question)
        )
    if name in ("power", "price"):
        return f"{plain_number(factor)} times the {name} that was allowed"
    if name == "throughput":
        return f"1/{plain_number(factor)} of the total tokens/s that was asked"
    if name == "depth":
        layers = np.unique(region.slices.layers)
        return f"models of {layers.min():.0f} to {layers.max():.0f} layers would do"
    if name == "sparsity":
        ratio = float(np.broadcast_to(candidate.total / candidate.active, (len(region.slices),))[i])
        return f"total / active of {ratio:.3g} would do"
    return f"misses by a factor of {plain_number(factor)}"


def _more_nodes(question: Question, node: str) -> str:
    """The smallest node count at which the question is feasible, in words."""
    few = min(question.weights, key=lambda w: weight_format(w).bits)
    lean = question.with_(weights=(few,))

    def opens(nodes: int) -> bool:
        return solve(lean.with_(nodes=(1, nodes))).feasible

    high = _first_power(question.nodes[1], opens, NODES_MOST)
    if high is None:
        return f"no number of {node}s up to {NODES_MOST:,} is enough"
    return f"{_bisect(high // 2, high, opens):,} {node}s would do ({few})"


def _less_context(question: Question) -> str:
    """The longest context at which the question is feasible, in words ("" if none helps)."""

    def opens(context: int) -> bool:
        return solve(question.with_(context_tokens=context)).feasible

    if question.context_tokens == 1 or not opens(1):
        return ""
    low, high = 1, question.context_tokens
    while high - low > max(1, low // 200):
        middle = (low + high) // 2
        low, high = (middle, high) if opens(middle) else (low, middle)
    # Two digits, rounded down so that it is feasible.
    step = 10 ** max(len(str(low)) - 2, 0)
    return f"; or a context of {low // step * step:,} tokens"


def _first_power(start: int, opens: Callable[[int], bool], limit: int) -> int | None:
    value = start
    while not opens(value):
        if value >= limit:
            return None
        value *= 2
    return value


def _bisect(low: int, high: int, opens: Callable[[int], bool]) -> int:
    """Smallest value in (low, high] that opens, given that high does and low does not."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if opens(middle) else (middle, high)
    return high
