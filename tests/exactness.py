"""Random points in and around a region: what its edges say against the constraints themselves."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from archinfer.hardware.figures import key_of
from archinfer.hardware.profile import Hardware
from archinfer.models.formats import weight_format
from archinfer.models.solver_family import FamilyRules, Habits
from archinfer.physics.mapping import Placement
from archinfer.solver.bounds import Bounds
from archinfer.solver.constraints import Candidate, slacks
from archinfer.solver.question import Question
from archinfer.solver.region import Region, solve
from archinfer.solver.slices import Slices, slices_of

EDGE = 1e-6


def directly(
    question: Question,
    total: np.ndarray,
    active: np.ndarray,
    layers: np.ndarray,
    nodes: np.ndarray,
    weights: str,
) -> np.ndarray:
    """Membership from the cost model and the constraints, over every mapping of each point.

    Every number of stages on every group, whole layers spread evenly; of several users also
    nodes with users of their own.
    """
    form = weight_format(weights)
    inside = np.zeros(len(total), dtype=bool)
    several = question.concurrency > 1
    for group, own in product(_groups(question.hardware, int(nodes.max())), (False, True)):
        if own and (group == 1 or not several):
            continue
        for stages in range(1, int(min(nodes.max() // group, layers.max())) + 1):
            held = np.ceil(layers / stages)
            # More stages that hold as many layers each only leave nodes idle.
            again = (stages > 1) & (held == np.ceil(layers / max(stages - 1, 1)))
            point = np.flatnonzero(
                (stages <= layers) & (stages * group <= nodes) & ~again & ~inside
            )
            if not len(point):
                continue
            candidate = Candidate.of(
                question,
                total[point],
                active[point],
                layers[point],
                Placement(held[point], np.full(len(point), float(group)), None, own),
                question.traffic(form.bits, form.weights_only),
            )
            worst = np.min(
                [np.broadcast_to(s, point.shape) for s in slacks(candidate).values()], axis=0
            )
            inside[point[worst >= 0.0]] = True
    return inside


def _groups(hardware: Hardware, most: int) -> list[int]:
    """Powers of two, the same times 3 and times the odd part of a scale-up domain."""
    if hardware.spatial or hardware.alone:
        return [1]
    domain = int(hardware.scale_up_size)
    factors = [1]
    if domain > 1:
        while domain % 2 == 0:
            domain //= 2
        factors = [1, 3, domain]
    return sorted({m << k for m in factors for k in range(14) if m << k <= min(most, 8192)})


def drawn(rng: np.random.Generator, limits: tuple[float, float]) -> float:
    """Log-uniform between two limits."""
    return float(np.exp(rng.uniform(*np.log(limits))))


def random_hardware(rng: np.random.Generator, name: str) -> Hardware:
    """A shipped profile with every constant that it has at a random value."""
    hardware = Hardware.load(name)
    known = SPATIAL if hardware.spatial else CONSTANTS
    values = {}
    for key, limits in known.items():
        present = float(getattr(hardware, key_of(key).attribute))
        if np.isfinite(present) and present > 0.0:
            # Not all of them out of any order: most machines of that kind could do nothing.
            values[key] = float(np.clip(present * np.exp(rng.normal(0.0, 1.0)), *limits))
    return hardware.with_constants(values)


def random_question(
    rng: np.random.Generator, constant: str | None = None, hardware: Hardware | None = None
) -> Question:
    """A question with one layer count whose answer may hang on any constant.

    Args:
        rng: source of all that is drawn.
        constant: a figure of the profile that is drawn over orders of magnitude; None: any.
        hardware: the machine; None: one of five, with the constant drawn.
    """
    nodes = int(rng.integers(1, 17))
    if hardware is None:
        name = str(rng.choice(["b200", "h100-sxm", "a100-80gb", "amd-epyc-9754", "gb200-nvl72"]))
        key = str(rng.choice(list(CONSTANTS))) if constant is None else constant
        hardware = Hardware.load(name).with_constants({key: drawn(rng, CONSTANTS[key])})
        speed = drawn(rng, (2.0, 200.0))
    else:
        nodes = 1 if hardware.alone else int(drawn(rng, (1.0, 300.0)))
        speed = drawn(rng, (200.0, 5000.0) if hardware.spatial else (2.0, 500.0))
    layers = float(rng.integers(14, 100))
    return Question(
        hardware,
        nodes=(1, nodes),
        tokens_per_s=speed,
        observed=bool(rng.random() < 0.3),
        context_tokens=int(rng.choice([500, 2000, 32_000])),
        concurrency=int(np.exp(rng.uniform(0.0, np.log(1000.0)))) if rng.random() < 0.7 else 1,
        weights=(str(rng.choice(["bf16", "fp8", "nvfp4", "int4", "int8"])),),
        rules=FamilyRules(str(rng.choice(["gqa", "mla"]))),
        habits=None if rng.random() < 0.3 else Habits(),
        layers=(layers, layers),
        speculation=(1.0, float(rng.choice([1.0, 1.0, 3.0]))),
        confidence_z=float(rng.choice([0.0, 0.0, 0.5, 1.28, 2.33])),
    )


def limited(rng: np.random.Generator, hardware: Hardware) -> Question:
    """A random question that also limits throughput, the cost of a token, power or price, in part
    with the prompts of others; the hardware states power and price."""
    question = random_question(rng, None, hardware)
    users, tokens = question.concurrency, question.tokens_per_s
    nodes = max(question.nodes[1], 1)
    limits = {
        "throughput_tokens_per_s": users * tokens * drawn(rng, (0.1, 3.0)),
        "max_token_dollars": drawn(rng, (0.02, 2.0)) * nodes * 1000.0 / (users * tokens),
        "power_w": nodes * hardware.power_w * drawn(rng, (0.02, 1.0)),
        "price_per_hour": nodes * 4.0 * drawn(rng, (0.02, 1.0)),
    }
    kept = {name: limit for name, limit in limits.items() if rng.random() < 0.4}
    prompt = None if rng.random() < 0.5 else int(drawn(rng, (10.0, 32_000.0)))
    return question.with_(**kept, prompt_tokens=prompt)


def feasible(
    rng: np.random.Generator, constant: str | None = None, hardware: Hardware | None = None
) -> Region:
    """The region of the first random question that has an answer."""
    for _ in range(300):
        region = solve(random_question(rng, constant, hardware))
        if region.feasible:
            return region
    raise AssertionError(f"no feasible question for {constant or hardware}")


CONSTANTS = {
    "fixed_time_per_expert": (1e-7, 1e-3),
    "fixed_time_per_layer": (1e-7, 1e-3),
    "fixed_time_per_token": (1e-6, 1e-1),
    "routed_layer_factor": (1.0, 20.0),
    "reductions_per_layer": (0.1, 100.0),
    "bandwidth_efficiency": (0.01, 1.0),
    "kv_bandwidth_efficiency": (0.01, 1.0),
    "compute_efficiency": (0.001, 1.0),
    "compute_overlap": (0.01, 1.0),
    "link.latency": (1e-8, 1e-2),
    "link.bandwidth": (1e7, 1e13),
    "scale_up.bandwidth": (1e8, 1e13),
    "memory.bandwidth": (1e10, 1e14),
    "memory.capacity": (1e10, 1e13),
}
"""Ranges of the constants of temporal hardware, far beyond those of any machine."""

SPATIAL = {
    "cycles_per_weight": (0.01, 100.0),
    "routed_weight_factor": (1.0, 20.0),
    "compute_efficiency": (0.01, 1.0),
    "bandwidth_efficiency": (0.01, 1.0),
    "reductions_per_layer": (0.1, 100.0),
    "fixed_time_per_layer": (1e-8, 1e-4),
    "fixed_time_per_token": (1e-8, 1e-3),
    "compute.clock": (1e8, 1e10),
    "link.latency": (1e-8, 1e-4),
    "link.bandwidth": (1e8, 1e13),
    "memory.capacity": (1e9, 1e12),
}
"""The same of wafers."""


@dataclass(frozen=True)
class Agreement:
    """How many points were drawn, lie inside, and differ away from an edge."""

    points: int
    inside: int
    differing: int


def agreement(region: Region, points: int, seed: int) -> Agreement:
    """Compare `region.contains` with `directly` on random points of each weight format.

    A point may differ only where moving it by EDGE changes its direct answer.
    """
    question = region.question
    rng = np.random.default_rng(seed)
    counted = inside = differing = 0
    share = points // len(question.weights)
    for name in question.weights:
        n = share
        a_low, a_high = region.active_low.min() * 0.5, region.active_high.max() * 2.0
        # Some far beside the ends, where a part of the region might have been lost.
        wide = np.where(rng.random(n) < 0.25, 20.0, 1.0)
        active = np.exp(rng.uniform(np.log(a_low / wide), np.log(a_high * wide), n))
        total = active * np.exp(rng.uniform(np.log(0.8), np.log(60.0), n))
        depth = region.slices.layers
        layers = rng.integers(max(1, depth.min() - 5), depth.max() + 6, n).astype(float)
        nodes = rng.integers(max(1, question.nodes[0] - 3), question.nodes[1] + 4, n).astype(float)
        # Half of the points near the upper edge of the total, where it matters.
        near = rng.random(n) < 0.5
        total = np.where(near, region.total_high.max() * np.exp(rng.uniform(-1.5, 0.1, n)), total)
        says = region.contains(total, active, layers, nodes, name)
        asked = (nodes >= question.nodes[0]) & (nodes <= question.nodes[1])
        is_so = directly(question, total, active, layers, nodes, name) & asked
        wrong = np.flatnonzero(says != is_so)
        for i in wrong:
            moved = [
                directly(
                    question,
                    total[i : i + 1] * f,
                    active[i : i + 1] * g,
                    layers[i : i + 1],
                    nodes[i : i + 1],
                    name,
                )[0]
                for f in (1 - EDGE, 1, 1 + EDGE)
                for g in (1 - EDGE, 1, 1 + EDGE)
            ]
            if len(set(moved)) == 1:
                differing += 1
        counted += n
        inside += int(is_so.sum())
    return Agreement(counted, inside, differing)


def by_slice(question: Question, points: int, rng: np.random.Generator) -> Agreement:
    """Compare each slice of a question with the constraints, most points beside its ends.

    A point differs as in `agreement`; so does an end at which nothing is possible. Slices that
    the region leaves out are looked at as well.
    """
    region, every = solve(question), slices_of(question)
    if not len(every):
        return Agreement(0, 0, 0)
    place = {key: i for i, key in enumerate(_keys(region.slices))}
    kept = np.array([place.get(key, -1) for key in _keys(every)])
    pick = rng.integers(0, len(every), points)
    some = np.flatnonzero(kept >= 0)
    if len(some):
        pick = np.where(rng.random(points) < 0.7, rng.choice(some, points), pick)
    slices, slot = every.take(pick), kept[pick]
    total, active = _beside_ends(region, slices, slot, rng)
    is_so = _least_slack(question, slices, total, active) >= 0.0
    says = np.zeros(points, dtype=bool)
    mine = np.flatnonzero(slot >= 0)
    says[mine] = region.allows(total[mine], active[mine], slot[mine])
    differing = _ends_missed(region)
    for i in np.flatnonzero(says != is_so):
        factors = np.array([1 - EDGE, 1, 1 + EDGE])
        near_total, near_active = total[i] * np.repeat(factors, 3), active[i] * np.tile(factors, 3)
        near_active = np.where(slices.dense[i], near_total, near_active)
        moved = _least_slack(question, slices.take(np.full(9, i)), near_total, near_active) >= 0.0
        differing += int(moved.all() or not moved.any())
    return Agreement(points, int(is_so.sum()), differing)


def _keys(slices: Slices) -> list[tuple[object, ...]]:
    return list(
        zip(
            slices.layers, slices.layers_per_stage, slices.tensor_parallel, slices.weights,
            slices.data_parallel, slices.dense, strict=True,
        )
    )  # fmt: skip


def _least_slack(
    question: Question, slices: Slices, total: np.ndarray, active: np.ndarray
) -> np.ndarray:
    with np.errstate(all="ignore"):
        each = slacks(slices.candidate(question, total, active)).values()
    return np.min([np.broadcast_to(s, len(active)) for s in each], axis=0)


def _beside_ends(
    region: Region, slices: Slices, slot: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """A model for each slice: anywhere within its limits, or a little off one of its ends."""
    bounds, n = Bounds(region.question, slices), len(slot)
    every, inside = np.arange(n), slot >= 0
    low, high, _, _ = bounds.active_limits
    room = bounds.capacity_total(low, every)
    active = np.exp(rng.uniform(np.log(0.9 * low), np.log(1.1 * np.clip(room, low, high))))
    kind = np.where(inside, rng.integers(0, 7, n), 6)
    off = 10.0 ** rng.uniform(-6.0, 0.3, n) * rng.choice([-1.0, 1.0], n)
    ends = (region.active_low, region.active_high, region.total_low_at, region.total_high_at)
    for k, end in enumerate(ends):
        active[kind == k] = end[slot[kind == k]] * np.exp(off[kind == k])
    least = bounds.total_low_of(active, every)
    most = np.maximum(bounds.total_high_of(active, every), least)
    total = np.exp(rng.uniform(np.log(least), np.log(most)))
    kind, off = rng.integers(0, 6, n), 10.0 ** rng.uniform(-8.0, -0.5, n)
    total = np.where(kind == 0, least * (1.0 + off), np.where(kind == 1, most * (1.0 - off), total))
    for k, end in ((2, region.total_low), (3, region.total_high)):
        at = inside & (kind == k)
        total[at] = end[slot[at]] * np.exp(off[at] * rng.choice([-1.0, 1.0], at.sum()))
    return total, np.where(slices.dense, total, active)


def _ends_missed(region: Region) -> int:
    """Ends at which nothing is possible."""
    missed, every = 0, np.arange(len(region.slices))
    for total, at in (
        (region.total_low, region.total_low_at), (region.total_high, region.total_high_at)
    ):  # fmt: skip
        slack = _least_slack(region.question, region.slices, total, at)
        missed += int((slack < -EDGE).sum())
    for active in (region.active_low, region.active_high):
        low, high = region.total_interval(active, every)
        missed += int((low > high * (1.0 + 1e-9)).sum())
    return missed
