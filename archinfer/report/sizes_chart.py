"""Which sizes are possible: total against active parameters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from archinfer.asking import OPEN
from archinfer.inference.posterior import Posterior
from archinfer.models import catalogue
from archinfer.models.shape import FloatArray
from archinfer.report import chart
from archinfer.report.chart import CIVIDIS, MASS_COLOURS, Axis, Cells
from archinfer.report.ends import SHORT_NAMES, WITHIN, end_name, plain_name
from archinfer.solver.answer import Answer
from archinfer.solver.drawn import kinds
from archinfer.solver.outline import Outline, outlines, speed_grid
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


NAMED = 9
LEANING = 0.15
SHAPED = ("speed", "speed (not faster)", "throughput")
"""Constraints of physics whose edges move with the depth and shape that habits allow."""


def sizes_panel(answer: Answer) -> chart.Panel:
    """Total against active parameters: region, edges, known models, what the user knows."""
    region, question = answer.region, answer.question
    found = outlines(region)
    lows, highs = (np.concatenate([getattr(o, k) for o in found]) for k in ("low", "high"))
    actives = np.concatenate([o.active for o in found])
    # Room for the names of edges.
    posterior = answer.posterior
    totals = np.concatenate([lows, highs])
    if posterior is not None and posterior.possible:
        # The shading shows what it says only where all of it is in the picture.
        actives, totals = (
            np.append(v, posterior.quantiles(name, (0.005, 0.995)))
            for v, name in ((actives, "active_params"), (totals, "total_params"))
        )
    x = _roomy("active parameters", actives, 0.09, 0.09)
    y = _roomy("total parameters", totals, 0.06, 0.12)
    if posterior is not None and posterior.possible:
        marks: list[chart.Mark] = [density_cells(posterior, x, y)]
        said = "shading: posterior probability"
    else:
        marks = [*speed_cells(region, found)]
        said = "shading: speed of the fastest model there"
    for outline in found:
        dash = chart.DASHES[question.weights.index(outline.weights) % len(chart.DASHES)]
        label = f"most total, {outline.weights}"
        marks.append(
            chart.Curve(outline.active.tolist(), outline.high.tolist(), dash=dash, label=label)
        )
    corners = union(found)
    closed = (*corners, corners[0])
    marks.append(chart.Curve([c[0] for c in closed], [c[1] for c in closed], width=1.0))
    known = _edge_kinds(answer)
    total, active = answer.ranges["total_params"], answer.ranges["active_params"]
    widest = _widest(found)
    left, right = (end_name(answer, "active_params", side) for side in ("low", "high"))
    notes = [n for o in found for n in _edge_notes(o, o is widest, known, x)]
    shown = [
        (name, a, n)
        for name, a, n in catalogue_points()
        if x.low <= a <= x.high and y.low <= n <= y.high
    ]
    points = [chart.point_box(a, n, x, y) for _, a, n in shown]
    notes = _apart([*notes, *_side_notes(corners, left, right, y)], points, x, y)
    if shown:
        names = chart.names_that_fit(shown, x, y, notes, NAMED)
        at = [a for _, a, _ in shown], [n for _, _, n in shown]
        marks.append(chart.Points(*at, label="open models", names=names))
    marks += notes
    if question.total != OPEN or question.active != OPEN:
        box = clipped(question.active, x), clipped(question.total, y)
        marks.append(chart.Box(*box, "what you said is known"))
    text = (
        f"Feasible total parameters from {compact(total.low.value)} to "
        f"{compact(total.high.value)}, {end_name(answer, 'total_params', 'high')}, over active "
        f"parameters from {compact(active.low.value)}, {left}, to {compact(active.high.value)}, "
        f"{right}; {said}."
    )
    return chart.Panel("Which sizes are possible", text, x, y, tuple(marks), "lower right")


def _roomy(label: str, values: FloatArray, below: float, above: float) -> chart.Axis:
    """A logarithmic axis around `values`, with room in shares of their span."""
    low, high = np.log(values.min()), np.log(values.max())
    span = max(high - low, 0.2)
    return chart.Axis(label, float(np.exp(low - below * span)), float(np.exp(high + above * span)))


def _widest(found: list[Outline]) -> Outline:
    return max(found, key=lambda o: float(np.log(o.high).max() - np.log(o.low).min()))


def _edge_kinds(answer: Answer) -> dict[str, str]:
    """Kind of each constraint as an edge: habits place the edges that depth and shape move."""
    found = kinds(answer.question)
    if answer.question.habits is None:
        return found
    return found | {n: WITHIN for n in found if n in SHAPED}


def _named(by: str, kinds: dict[str, str]) -> str:
    kind = kinds.get(by, "")
    name = SHORT_NAMES.get(by, plain_name(by))
    return f"{name} ({kind})" if kind else name


def _beside(
    text: str, start: tuple[float, float], middle: tuple[float, float], x: chart.Axis
) -> chart.Note:
    """Left of where an edge starts, outside the region; above its middle where no room is left."""
    if chart.text_width(text, 11.0) + 8.0 < chart.WIDTH * x.fraction(start[0]):
        return chart.Note(*start, text, "end", dx=-6.0, dy=-2.0)
    return chart.Note(*middle, text, dy=4.0)


def _apart(
    notes: list[chart.Note], points: Sequence[chart.TextBox], x: chart.Axis, y: chart.Axis
) -> list[chart.Note]:
    """The same notes, moved along or across their edges until none lies on another or a point."""
    taken: list[chart.TextBox] = []
    found = []
    for note in sorted(notes, key=lambda n: n.angle):
        if note.angle:
            out = math.copysign(11.0, note.dx)
            steps = [
                (dx, dy) for dx in (0.0, out) for k in range(9) for dy in (12.0 * k, -12.0 * k)
            ]
        else:
            steps = [(0.0, 13.0 * k) for k in (0, 1, -1, 2, -2, 3, -3)]
        tried = [replace(note, dx=note.dx + dx, dy=note.dy + dy) for dx, dy in steps]
        found.append(chart.first_free(tried, taken, points, x, y) or note)
    return found


def _edge_notes(
    outline: Outline, widest: bool, kinds: dict[str, str], x: chart.Axis
) -> list[chart.Note]:
    """Names of the constraints along the edges of the total; shared edges only once."""
    active = outline.active.tolist()
    notes = []
    for names, values, above in (
        (outline.high_by, outline.high, True),
        (outline.low_by, outline.low, False),
    ):
        runs = _runs(names)
        # Layers are whole, so capacity may let go and act again: one name is enough.
        named = max(
            (r for r in runs if r[0] == "capacity"), key=lambda r: r[2] - r[1], default=None
        )
        for name, start, stop in runs:
            if above and name == "capacity":
                if (name, start, stop) == named:
                    text = f"{name}, {outline.weights}"
                    middle = (start + stop - 1) // 2
                    ends = (active[start], float(values[start]))
                    notes.append(_beside(text, ends, (active[middle], float(values[middle])), x))
            elif widest and stop - start >= len(names) // 12:
                middle = (start + stop - 1) // 2
                at = active[middle], float(values[middle])
                end, dx, dy = ("end", -6.0, 2.0) if above else ("start", 6.0, -10.0)
                notes.append(chart.Note(*at, _named(name, kinds), end, dx=dx, dy=dy))
    return notes


def _side_notes(
    corners: tuple[tuple[float, float], ...], left: str, right: str, y: chart.Axis
) -> list[chart.Note]:
    """Names of the constraints at the two ends of the active parameters, along the edges.

    A name longer than its edge hangs down at the right, where nothing is, and stands up at the
    left.
    """
    notes = []
    for pick, by, dx, hang in ((min, left, -11.0, 1.0), (max, right, 11.0, -1.0)):
        at = pick(c[0] for c in corners)
        # An edge that leans a little counts as upright.
        side = [c[1] for c in corners if abs(math.log(c[0] / at)) < LEANING]
        middle = math.sqrt(min(side) * max(side))
        long = chart.text_width(by, 11.0)
        over = long - 350.0 * (y.fraction(max(side)) - y.fraction(min(side)))
        dy = hang * max(over, 0.0) / 2.0
        notes.append(chart.Note(at, middle, by, angle=90.0, dx=dx, dy=dy))
    return notes


def _runs(names: Sequence[str]) -> list[tuple[str, int, int]]:
    """(name, start, stop) of stretches of one name."""
    runs: list[tuple[str, int, int]] = []
    for i, name in enumerate(names):
        if runs and runs[-1][0] == name:
            runs[-1] = (name, runs[-1][1], i + 1)
        else:
            runs.append((name, i, i + 1))
    return runs


def catalogue_points() -> list[tuple[str, float, float]]:
    """(name, active, total) of the open models, largest first, one of each size."""
    found: dict[tuple[int, int], str] = {}
    for name in catalogue.names():
        record = catalogue.entry(name)
        found.setdefault((record.active_params, record.total_params), name)
    return sorted(
        ((name, float(a), float(n)) for (a, n), name in found.items()), key=lambda m: -m[2]
    )
