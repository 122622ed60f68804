"""Why nothing is feasible, and the smallest step of each constraint that opens the region."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from archinfer.asking import NODES_MOST
from archinfer.errors import TooWideError
from archinfer.models.formats import weight_format
from archinfer.models.shape import FloatArray, Number
from archinfer.phrases import CONFLICTS, RELAXATIONS
from archinfer.physics.decode import Z90
from archinfer.record import Nullable, Record
from archinfer.solver.bounds import FAST, SLOW
from archinfer.solver.constraints import Candidate, Constraint, constraints
from archinfer.solver.ends import END_ROUNDING
from archinfer.solver.question import Question
from archinfer.solver.region import SLICES_AT_ONCE, Region, feasible, solve
from archinfer.units import format_quantity, plain_number
from archinfer.words import QUANTITIES, gain

_TIE = 1e-3


@dataclass(frozen=True)
class Relaxation(Record):
    """One way to open an empty region: the constraint that gives, and by how much."""

    constraints: tuple[str, ...]
    """the one to relax, or the two together"""
    kind: str
    """physics, habit or request, of the first"""
    factor: Nullable
    """how far the closest model is from it (1.2: it misses by 20 %); null for two"""
    factors: tuple[float, ...]
    """the same for each constraint; of two, of the model that misses both least"""
    text: str
    """what that means in the user's own units"""
    probability: Nullable = math.nan
    """of a speed: that the closest model makes it, or of an observed one at least as far off,
    within the model's error; null: error plays no part"""


@dataclass(frozen=True)
class Conflict(Record):
    """Why nothing is feasible."""

    KEYS = ("text", "relaxations")

    relaxations: tuple[Relaxation, ...]
    text: str


def conflict(question: Question) -> Conflict:
    """Which constraints exclude each other, and the smallest step of each that opens the region."""
    by_name = {c.name: c for c in constraints(question)}
    names = [n for n in by_name if n not in ("definition", "search floor")]
    found: list[Relaxation] = []
    for name in names:
        region = _without(question, name)
        if region is not None:
            found.append(_relaxation(question, by_name[name], region))
    if not found:
        for pair in combinations(names, 2):
            region = _without(question, *pair)
            if region is not None:
                found.append(_two(question, by_name[pair[0]], by_name[pair[1]], region))
    if not found:
        why = "three"
    elif len(found[0].constraints) == 2:
        why = "two"
    else:
        why = "one" if len(found) == 1 else "each"
    found.sort(key=lambda r: max(r.factors))
    return Conflict(tuple(found), CONFLICTS[why])


def _without(question: Question, *names: str) -> Region | None:
    """The region without some constraints; None where it is empty, or too wide to look at."""
    try:
        region = solve(question.without(*names))
    except TooWideError:
        return None
    return region if region.feasible else None


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
    near = _probability(question, constraint, factor, candidate.log_sd, i)
    return Relaxation((constraint.name,), constraint.kind, factor, (factor,), text, near)


def _probability(
    question: Question, constraint: Constraint, factor: float, log_sds: Number, i: int
) -> float:
    """That a speed which is missed by `factor` is made all the same, as normal error has it."""
    if constraint.name not in (*FAST[:1], SLOW):
        return math.nan
    sd = float(np.ravel(log_sds)[i if np.ndim(log_sds) else 0])
    off = math.log(factor) / sd
    if question.observed:
        return 2.0 * NormalDist().cdf(-(off + Z90))
    return NormalDist().cdf(question.confidence_z - off)


def _two(question: Question, first: Constraint, second: Constraint, region: Region) -> Relaxation:
    """How far both are from the model that misses them least, and each where the other is gone."""
    slices = region.slices
    rough = []
    for part in np.array_split(np.arange(len(slices)), 1 + len(slices) // SLICES_AT_ONCE):
        points = _points(region, part, 3)
        worst = _miss(question, first, second, region, *points)
        order = np.argsort(worst)[:200]
        rough.append((worst[order], points[0][order]))
    worst, slot = (np.concatenate(found) for found in zip(*rough, strict=True))
    best = np.unique(slot[np.argsort(worst)[:200]])
    slot, total, active = _points(region, best, 9)
    worst = _miss(question, first, second, region, slot, total, active)
    i = int(np.argmin(worst))
    closest = slices.take(slot[i : i + 1]).candidate(question, total[i : i + 1], active[i : i + 1])
    factors = tuple(
        max(1.0, float(np.exp(-np.broadcast_to(c.slack(closest), (1,))[0])))
        for c in (first, second)
    )
    alone = (
        _relaxation(question.without(second.name), first, region).text,
        _relaxation(question.without(first.name), second, region).text,
    )
    text = RELAXATIONS["two"].format(
        first=first.name, second=second.name, only_first=alone[0], only_second=alone[1],
        by_first=plain_number(factors[0]), by_second=plain_number(factors[1]),
    )  # fmt: skip
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
    # Of a size that is given both ends are one number, but for rounding.
    real = least <= most * (1.0 + END_ROUNDING)
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
    """What would do in place of what `constraint` asks, for model `i`, which misses by `factor`."""
    times, name = plain_number(factor), constraint.name

    def value(of: Number) -> float:
        return float(np.broadcast_to(of, (len(region.slices),))[i])

    if name.endswith(" asked"):
        quantity = name.removesuffix(" asked")
        found = value(getattr(candidate, quantity))
        side = "at most" if found < getattr(question, quantity)[0] else "at least"
        name = QUANTITIES.get(f"{quantity}_params", quantity)
        shown = format_quantity(found, "count", digits=3)
        return RELAXATIONS["asked"].format(quantity=name, side=side, found=shown)
    if name == "speed":
        return _too_slow(question, factor, value(candidate.time.total))
    if name in ("capacity", "kv cache"):
        nodes = _more_nodes(question, question.hardware.node)
        context = _less_context(question)
        return RELAXATIONS["memory"].format(times=times, nodes=nodes, context=context)
    layers = region.slices.layers
    return RELAXATIONS.get(name, RELAXATIONS["other"]).format(
        times=times,
        least=layers.min(),
        most=layers.max(),
        ratio=value(candidate.total / candidate.active),
    )


def _too_slow(question: Question, factor: float, total_s: float) -> str:
    """How fast the fastest model is, whose pass takes `total_s`."""
    if question.observed:
        reached = plain_number(question.tokens_per_s / factor, 4)
        text = RELAXATIONS["too slow, observed"]
        return text.format(reached=reached, times=plain_number(factor))
    most = question.speculation[1]
    return RELAXATIONS["too slow"].format(
        reached=plain_number(most / total_s, 4),
        gained=gain(most, most),
        asked=plain_number(question.tokens_per_s, 6),
        needed=plain_number(most * factor),
    )


def _more_nodes(question: Question, node: str) -> str:
    """The smallest node count at which the question is feasible, in words."""
    few = min(question.weights, key=lambda w: weight_format(w).bits)
    lean = question.with_(weights=(few,))

    def opens(nodes: int) -> bool:
        return feasible(lean.with_(nodes=(1, nodes)))

    high = question.nodes[1]
    while not opens(high):
        if high >= NODES_MOST:
            return RELAXATIONS["no nodes"].format(node=node, most=NODES_MOST)
        high = min(2 * high, NODES_MOST)
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if opens(middle) else (middle, high)
    return RELAXATIONS["nodes"].format(nodes=high, node=node, weights=few)


def _less_context(question: Question) -> str:
    """The longest context at which the question is feasible, in words ("" if none helps)."""

    def opens(context: int) -> bool:
        return feasible(question.with_(context_tokens=context))

    if question.context_tokens == 1 or not opens(1):
        return ""
    low, high = 1, question.context_tokens
    while high - low > max(1, low // 200):
        middle = (low + high) // 2
        low, high = (middle, high) if opens(middle) else (low, middle)
    # Two digits, rounded down so that it is feasible.
    step = 10 ** max(len(str(low)) - 2, 0)
    return RELAXATIONS["context"].format(tokens=low // step * step)
