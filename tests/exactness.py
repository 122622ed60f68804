"""Random points in and around a region: what its edges say against the constraints themselves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from archinfer.models.formats import weight_format
from archinfer.physics.mapping import Placement
from archinfer.solver.constraints import Candidate, slacks
from archinfer.solver.question import Question
from archinfer.solver.region import Region, mappings, widest_group

EDGE = 1e-6


def directly(
    question: Question,
    total: np.ndarray,
    active: np.ndarray,
    layers: np.ndarray,
    nodes: np.ndarray,
    weights: str,
) -> np.ndarray:
    """Membership from the cost model and the constraints, over every mapping of each point."""
    hardware = question.hardware
    depths = np.unique(layers)
    depth, per_stage, group = mappings(
        depths,
        int(nodes.max()),
        widest_group(hardware),
    )
    order = np.argsort(depth, kind="stable")
    depth, per_stage, group = depth[order], per_stage[order], group[order]
    start = np.searchsorted(depth, layers)
    stop = np.searchsorted(depth, layers, side="right")
    inside = np.zeros(len(total), dtype=bool)
    for step in range(int((stop - start).max())):
        point = np.flatnonzero((start + step < stop) & ~inside)
        at = start[point] + step
        mapping = Placement(per_stage[at], group[at])
        allowed = mapping.nodes(layers[point]) <= nodes[point]
        point, at = point[allowed], at[allowed]
        if not len(point):
            continue
        candidate = Candidate(
            question,
            total[point],
            active[point],
            layers[point],
            Placement(per_stage[at], group[at]),
            weight_format(weights).bits,
        )
        worst = np.min(
            [np.broadcast_to(s, point.shape) for s in slacks(candidate).values()], axis=0
        )
        inside[point[worst >= 0.0]] = True
    return inside


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
        active = np.exp(rng.uniform(np.log(a_low), np.log(a_high), n))
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
