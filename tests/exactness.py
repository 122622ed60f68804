"""Random points in and around a region: what its edges say against the constraints themselves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from archinfer.hardware.profile import Hardware
from archinfer.models.family import Habits
from archinfer.models.formats import weight_format
from archinfer.physics.mapping import Placement
from archinfer.solver.constraints import Candidate, slacks
from archinfer.solver.question import Question
from archinfer.solver.region import Region

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

    Every number of stages on every group of a power of two, whole layers spread evenly.
    """
    form = weight_format(weights)
    inside = np.zeros(len(total), dtype=bool)
    group = 1
    while group <= nodes.max() and (group == 1 or not question.hardware.spatial):
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
                Placement(held[point], np.full(len(point), float(group))),
                question.traffic(form.bits, form.weights_only),
            )
            worst = np.min(
                [np.broadcast_to(s, point.shape) for s in slacks(candidate).values()], axis=0
            )
            inside[point[worst >= 0.0]] = True
        group *= 2
    return inside


def random_question(rng: np.random.Generator, constant: str | None = None) -> Question:
    """A question with one layer count whose answer may hang on any constant.

    Args:
        rng: source of all that is drawn.
        constant: a figure of the profile that is drawn over orders of magnitude; None: any.
    """
    name = str(rng.choice(["b200", "h100-sxm", "a100-80gb", "amd-epyc-9754", "gb200-nvl72"]))
    hardware = Hardware.load(name)
    key = str(rng.choice(list(CONSTANTS))) if constant is None else constant
    low, high = CONSTANTS[key]
    hardware = hardware.with_constants({key: float(np.exp(rng.uniform(np.log(low), np.log(high))))})
    layers = float(rng.integers(14, 100))
    return Question(
        hardware,
        nodes=(1, int(rng.integers(1, 17))),
        tokens_per_s=float(np.exp(rng.uniform(np.log(2.0), np.log(200.0)))),
        observed=bool(rng.random() < 0.2),
        context_tokens=int(rng.choice([500, 2000, 32_000])),
        concurrency=int(np.exp(rng.uniform(0.0, np.log(1000.0)))),
        weights=(str(rng.choice(["bf16", "fp8", "nvfp4", "int4", "int8"])),),
        habits=None if rng.random() < 0.3 else Habits(),
        layers=(layers, layers),
        speculation=(1.0, 1.0),
    )


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
