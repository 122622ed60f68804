"""Coloured cells of pictures: the fastest model of a size, and where the posterior lies."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from archinfer.asking import OPEN
from archinfer.inference.posterior import Posterior
from archinfer.models.shape import FloatArray
from archinfer.report.chart import CIVIDIS, MASS_COLOURS, Axis, Cells
from archinfer.solver.outline import Outline, speed_grid
from archinfer.solver.region import Region
from archinfer.words import compact

GRID = 44
MASSES = (0.5, 0.9, 0.99)


def speed_cells(region: Region, found: list[Outline]) -> Iterator[Cells]:
    """Speed of the fastest model of each size inside the region; none in one that is a line."""
    clip = union(found)
    corners = np.array(clip)
    x, y = (np.geomspace(v.min(), v.max(), GRID + 1) for v in corners.T)
    speed = speed_grid(region, np.sqrt(x[1:] * x[:-1]), np.sqrt(y[1:] * y[:-1]))
    if not np.isfinite(speed).any():
        return
    steps, bounds = stepped(speed)
    gained = region.question.speculation[1]
    usual = ", usual software" if region.question.softwares[-1][1] != 1.0 else ""
    # Cells that the edge crosses have their centre outside: they take a neighbour's colour.
    for _ in range(2):
        steps = _grown(steps)
    yield Cells(
        x.tolist(),
        y.tolist(),
        steps.tolist(),
        CIVIDIS,
        bounds,
        f"tokens/s of the fastest model there, {gained:g} accepted a pass{usual}",
        clip,
    )


def union(found: list[Outline]) -> tuple[tuple[float, float], ...]:
    """Corners of the outline over all formats."""
    grid = np.unique(np.concatenate([o.active for o in found]))
    logs = np.log(grid)

    def on_grid(name: str, outside: float) -> list[FloatArray]:
        return [
            np.interp(logs, np.log(o.active), np.log(getattr(o, name)), left=outside, right=outside)
            for o in found
        ]

    top = np.exp(np.max(on_grid("high", -np.inf), axis=0))
    bottom = np.exp(np.min(on_grid("low", np.inf), axis=0))
    upper = list(zip(grid.tolist(), top.tolist(), strict=True))
    lower = list(zip(grid.tolist(), bottom.tolist(), strict=True))
    return (*upper, *reversed(lower))


def stepped(values: FloatArray) -> tuple[NDArray[np.intp], tuple[str, ...]]:
    """Values in steps of equal ratio, -1 for nan, and the words at the ends of each step."""
    finite = values[np.isfinite(values)]
    bounds = np.geomspace(finite.min() / 1.001, finite.max() * 1.001, len(CIVIDIS) + 1)
    steps = np.where(np.isfinite(values), np.digitize(values, bounds) - 1, -1)
    return np.clip(steps, -1, len(CIVIDIS) - 1), tuple(compact(b, 2) for b in bounds)


def _grown(steps: NDArray[np.intp]) -> NDArray[np.intp]:
    """Empty cells beside others get the largest step of those above, below, left and right."""
    padded = np.pad(steps, 1, constant_values=-1)
    beside = [padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:]]
    return np.where(steps < 0, np.max(np.stack(beside), axis=0), steps)


def density_cells(posterior: Posterior, x: Axis, y: Axis) -> Cells:
    """Smallest sets of cells that hold 50, 90 and 99 % of the posterior."""
    active, weights = posterior.density("active_params")
    total, _ = posterior.density("total_params")
    asked = posterior.question.active, posterior.question.total
    edges = []
    for limits, axis, values in zip(asked, (x, y), (active, total), strict=True):
        low, high = clipped(limits, axis)
        first, last = extent(values, weights)
        low, high = max(low, first), min(high, last)
        edges.append(np.geomspace(low, max(high, 1.001 * low), 37 if limits == OPEN else 19))
    mass, _, _ = np.histogram2d(active, total, bins=(edges[0], edges[1]), weights=weights)
    there = _hull(mass > 0.0)
    for _ in range(2):
        mass = np.where(there, _smooth(_smooth(mass).T).T, 0.0)
    mass = mass.T
    order = np.argsort(-mass, axis=None)
    held = np.cumsum(mass.ravel()[order])
    before = held - mass.ravel()[order]
    steps = np.full(mass.size, -1)
    for i in reversed(range(len(MASSES))):
        steps[order[before < MASSES[i] * held[-1]]] = i
    steps[mass.ravel() <= 0.0] = -1
    return Cells(
        edges[0].tolist(),
        edges[1].tolist(),
        steps.reshape(mass.shape).tolist(),
        MASS_COLOURS,
        tuple(f"{100 * m:.0f} %" for m in MASSES),
        "smallest area with that part of the posterior probability",
        _not_below_active(edges[0], edges[1]),
    )


def clipped(limits: tuple[float, float], axis: Axis) -> tuple[float, float]:
    """The limits where they lie on the axis; a single value gets some width."""
    low, high = limits
    if low == high:
        low, high = low / 1.025, high * 1.025
    return max(low, axis.low), min(high, axis.high)


def extent(values: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Least and largest draw that counts."""
    counted = values[weights > 0.0]
    return float(counted.min()), float(counted.max())


def _hull(cells: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Cells with some before and some behind them, both in their row and in their column."""

    def between(axis: int) -> NDArray[np.bool_]:
        before = np.logical_or.accumulate(cells, axis=axis)
        behind = np.flip(np.logical_or.accumulate(np.flip(cells, axis), axis=axis), axis)
        return np.asarray(before & behind)

    return between(0) & between(1)


def _not_below_active(active: FloatArray, total: FloatArray) -> tuple[tuple[float, float], ...]:
    """Corners of the part of the cells where the total is at least the active parameters."""
    least, most = float(total[0]), float(total[-1])
    first, last = float(active[0]), min(float(active[-1]), most)
    if last <= first:
        return ()
    knots = sorted({first, min(max(least, first), last), last})
    return (*((x, max(x, least)) for x in knots), (last, most), (first, most))


def _smooth(mass: FloatArray) -> FloatArray:
    """(1, 2, 1) / 4 along the first axis: evens out the noise of the draws."""
    padded = np.pad(mass, ((1, 1), (0, 0)), mode="edge")
    return np.asarray((padded[:-2] + 2.0 * padded[1:-1] + padded[2:]) / 4.0)
