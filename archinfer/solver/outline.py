"""The feasible region projected onto two quantities: outlines, the fastest model, totals by depth.

The region is a union of slices, one for each layer count, mapping and weight format. Over active
parameters this is the union's outline: for each format the largest and the least total
of any slice. It is found on a grid of active parameters from the slices that reach furthest at
each depth, so a corner between two grid points is cut by less than the grid's step, and a hole
inside the union would not show. `archinfer.solver.region.Region.contains` is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from archinfer.models.shape import FloatArray
from archinfer.physics.speed import tokens_per_s
from archinfer.solver.constraints import slacks
from archinfer.solver.region import Region

UPPER = ("capacity", "sparsity", "speed", "throughput", "cost", "power", "price", "total asked")
LOWER = ("definition", "sparsity", "speed (not faster)", "power", "price", "total asked")
"""Constraints that can draw the upper and the lower edge of the total."""

Index = NDArray[np.intp]


@dataclass(frozen=True)
class Outline:
    """The outline of one weight format's region over active parameters."""

    weights: str
    active: FloatArray
    """Grid, shape (n,), only where some total is feasible."""
    low: FloatArray
    """Least feasible total there."""
    high: FloatArray
    """Largest feasible total there."""
    low_by: tuple[str, ...]
    """Constraint that draws each."""
    high_by: tuple[str, ...]


def _furthest(region: Region, mine: Index) -> Index:
    """Of the slices `mine` those that reach furthest in any direction at their depth."""
    layers = region.slices.layers[mine]
    kept: list[Index] = []
    for key in (-region.total_high, region.total_low, -region.active_high, region.active_low):
        kept.append(mine[_first_of_each(layers, np.lexsort((key[mine], layers)))])
    return np.unique(np.concatenate(kept))


def _drawn_by(
    region: Region, total: FloatArray, active: FloatArray, slot: Index, names: tuple[str, ...]
) -> tuple[str, ...]:
    found = slacks(region.slices.take(slot).candidate(region.question, total, active))
    present = [n for n in names if n in found]
    distance = np.stack([np.abs(np.broadcast_to(found[n], total.shape)) for n in present])
    return tuple(present[i] for i in np.argmin(distance, axis=0))


def outlines(region: Region, points: int = 72) -> list[Outline]:
    """The outline of each weight format that has any feasible model, in the question's order."""
    found = []
    for position, name in enumerate(region.question.weights):
        mine = np.flatnonzero(region.slices.weights == position)
        if not len(mine):
            continue
        first = int(mine[np.argmin(region.active_low[mine])])
        last = int(mine[np.argmax(region.active_high[mine])])
        ends = np.log(region.active_low[first]), np.log(region.active_high[last])
        inset = 1e-9 * (ends[1] - ends[0])
        active = np.exp(np.linspace(ends[0] + inset, ends[1] - inset, points))
        slots = _furthest(region, mine)
        at, slot = np.tile(np.arange(points), len(slots)), np.repeat(slots, points)
        inside = (region.active_low[slot] <= active[at]) & (active[at] <= region.active_high[slot])
        at, slot = at[inside], slot[inside]
        low, high = region.total_interval(active[at], slot)
        real = low <= high
        at, slot, low, high = at[real], slot[real], low[real], high[real]
        tops = _first_of_each(at, np.lexsort((-high, at)))
        bottoms = _first_of_each(at, np.lexsort((low, at)))
        here = active[at[tops]]
        found.append(
            Outline(
                weights=name,
                active=here,
                low=low[bottoms],
                high=high[tops],
                low_by=_drawn_by(region, low[bottoms], here, slot[bottoms], LOWER),
                high_by=_drawn_by(region, high[tops], here, slot[tops], UPPER),
            )
        )
    return found


def _first_of_each(keys: Index | FloatArray, order: Index) -> Index:
    ordered = keys[order]
    return np.asarray(order[np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])])


def speed_grid(region: Region, active: FloatArray, total: FloatArray) -> FloatArray:
    """Tokens/s of the fastest feasible model at each (total, active), at most accepted tokens.

    At the edge that the speed draws this is the speed asked for. Depths are thinned to between
    ten and thirty, evenly by logarithm.

    Args:
        active: shape (m,).
        total: shape (n,).

    Returns:
        Shape (n, m); nan where nothing is feasible.
    """
    slices = region.slices
    depths = np.unique(slices.layers)
    count = int(np.clip(1500 * len(depths) / len(slices), 10, 30))
    wanted = np.geomspace(depths[0], depths[-1], count)
    kept = depths[np.unique(np.abs(depths[:, None] - wanted).argmin(axis=0))]
    slots = np.flatnonzero(np.isin(slices.layers, kept))
    row, column = (index.ravel() for index in np.indices((len(total), len(active))))
    best = np.full(len(column), -np.inf)
    for part in np.array_split(slots, 1 + len(slots) // 500):
        cells = [
            np.flatnonzero(
                (region.active_low[slot] <= active[column])
                & (active[column] <= region.active_high[slot])
                & (region.total_low[slot] <= total[row])
                & (total[row] <= region.total_high[slot])
            )
            for slot in part
        ]
        at, slot_of = np.concatenate(cells), np.repeat(part, [len(cell) for cell in cells])
        models = total[row[at]], active[column[at]]
        candidate = slices.take(slot_of).candidate(region.question, *models)
        speed = np.asarray(tokens_per_s(candidate.time, region.question.speculation[1]))
        every = [np.broadcast_to(v, at.shape) for v in slacks(candidate).values()]
        feasible = np.min(np.stack(every), axis=0) >= 0.0
        np.maximum.at(best, at[feasible], speed[feasible])
    return np.where(np.isfinite(best), best, np.nan).reshape(len(total), len(active))


def totals_by_depth(region: Region) -> tuple[FloatArray, dict[str, tuple[FloatArray, FloatArray]]]:
    """Feasible layer counts, and for each weight format the least and largest total at each.

    Returns:
        Layers, shape (n,); for each format that has any model two arrays (n,), nan where none is.
    """
    depths = np.unique(region.slices.layers)
    found = {}
    for position, name in enumerate(region.question.weights):
        mine = region.slices.weights == position
        if not mine.any():
            continue
        at = np.searchsorted(depths, region.slices.layers[mine])
        low, high = np.full(len(depths), np.inf), np.full(len(depths), -np.inf)
        np.minimum.at(low, at, region.total_low[mine])
        np.maximum.at(high, at, region.total_high[mine])
        none = ~np.isfinite(high)
        low[none], high[none] = np.nan, np.nan
        found[name] = low, high
    return depths, found
