"""What each answer shows as a chart: `solve` and `predict`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from archinfer.report.chart import (
    CIVIDIS,
    DASHES,
    Axis,
    Band,
    Box,
    Cells,
    Chart,
    Curve,
    Mark,
    Note,
    Panel,
    Points,
    names_that_fit,
    note_box,
    overlap,
    text_width,
)
from archinfer.report.findings import drawn, given_words, kinds, kinds_of, plain_name
from archinfer.report.sources import caption
from archinfer.solver.question import ANY
from archinfer.words import compact

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from archinfer.inference.posterior import Posterior
    from archinfer.models.shape import FloatArray
    from archinfer.report.region import Outline
    from archinfer.solver.answer import Answer
    from archinfer.solver.region import Region

__all__ = [
    "catalogue_points",
    "nodes_panel",
    "posterior_panels",
    "sizes_panel",
    "solve_chart",
]

GRID = 44
WIDTH = 430.0
"""About how wide the axes of a panel are, in points."""
NAMED = 9
LEANING = 0.15
MASSES = (0.5, 0.9, 0.99)
MASS_COLOURS = ("#2f6f9f", "#8ab8d9", "#d3e4f1")

PER_NODE = (1, 2, 4)
"""Layers a node of the lines in the picture of layers and nodes."""

SHORT_NAMES = {"definition": "total = active"}
WITHIN = "within habits"
SHAPED = ("speed", "speed (not faster)", "throughput")
"""Constraints of physics whose edges move with the depth and shape that habits allow."""


def solve_chart(answer: Answer) -> Chart:
    """Sizes, depth against nodes and, for an observed speed, what it taught.

    Raises:
        InputError: nothing is feasible, so there is nothing to draw.
    """
    from archinfer.errors import InputError
    from archinfer.report.solve import headline

    if not answer.feasible:
        raise InputError("nothing is feasible: there is no region to draw")
    rows: list[tuple[Panel, ...]] = [(sizes_panel(answer), nodes_panel(answer))]
    posterior = answer.posterior
    if posterior is not None and posterior.possible:
        rows.append(posterior_panels(posterior))
    caption_ = caption(answer.question.hardware)
    return Chart(headline(answer), tuple(rows), caption_, (1.2, 1.0))


def sizes_panel(answer: Answer) -> Panel:
    """Total against active parameters: region, edges, known models, what the user knows."""
    from archinfer.report.region import outlines

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
        marks: list[Mark] = [_density_cells(posterior, x, y)]
        said = "shading: posterior probability"
    else:
        marks = [_speed_cells(region, found)]
        said = "shading: speed of the fastest model there"
    for outline in found:
        dash = DASHES[question.weights.index(outline.weights) % len(DASHES)]
        label = f"most total, {outline.weights}"
        marks.append(Curve(outline.active.tolist(), outline.high.tolist(), dash=dash, label=label))
    corners = _union(found)
    closed = (*corners, corners[0])
    marks.append(Curve([c[0] for c in closed], [c[1] for c in closed], width=1.0))
    known = _edge_kinds(answer)
    total, active = answer.ranges["total_params"], answer.ranges["active_params"]
    widest = _widest(found)
    notes = _apart([n for o in found for n in _edge_notes(o, o is widest, known, x)], x, y)
    left, right = (_end_name(answer, "active_params", side) for side in ("low", "high"))
    notes += _side_notes(corners, left, right, y)
    marks += _catalogue_marks(x, y, notes)
    marks += notes
    if question.total != ANY or question.active != ANY:
        box = _clipped(question.active, x), _clipped(question.total, y)
        marks.append(Box(*box, "what you said is known"))
    text = (
        f"Feasible total parameters from {compact(total.low.value)} to "
        f"{compact(total.high.value)}, {_end_name(answer, 'total_params', 'high')}, over active "
        f"parameters from {compact(active.low.value)}, {left}, to {compact(active.high.value)}, "
        f"{right}; {said}."
    )
    return Panel("Which sizes are possible", text, x, y, tuple(marks), "lower right")


def _roomy(label: str, values: FloatArray, below: float, above: float) -> Axis:
    """A logarithmic axis around `values`, with room in shares of their span."""
    low, high = np.log(values.min()), np.log(values.max())
    span = max(high - low, 0.2)
    return Axis(label, float(np.exp(low - below * span)), float(np.exp(high + above * span)))


def _widest(found: list[Outline]) -> Outline:
    return max(found, key=lambda o: float(np.log(o.high).max() - np.log(o.low).min()))


def _clipped(limits: tuple[float, float], axis: Axis) -> tuple[float, float]:
    low, high = limits
    if low == high:
        low, high = low / 1.025, high * 1.025
    return max(low, axis.low), min(high, axis.high)


def _speed_cells(region: Region, found: list[Outline]) -> Cells:
    from archinfer.report.region import speed_grid

    clip = _union(found)
    corners = np.array(clip)
    x, y = (np.geomspace(v.min(), v.max(), GRID + 1) for v in corners.T)
    speed = speed_grid(region, np.sqrt(x[1:] * x[:-1]), np.sqrt(y[1:] * y[:-1]))
    steps, bounds = _stepped(speed)
    gained = region.question.speculation[1]
    usual = ", usual software" if region.question.softwares[-1][1] != 1.0 else ""
    # Cells that the edge crosses have their centre outside: they take a neighbour's colour.
    for _ in range(2):
        steps = _grown(steps)
    return Cells(
        x.tolist(),
        y.tolist(),
        steps.tolist(),
        CIVIDIS,
        bounds,
        f"tokens/s of the fastest model there, {gained:g} accepted a pass{usual}",
        clip,
    )


def _union(found: list[Outline]) -> tuple[tuple[float, float], ...]:
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


def _stepped(values: FloatArray) -> tuple[NDArray[np.intp], tuple[str, ...]]:
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


def _density_cells(posterior: Posterior, x: Axis, y: Axis) -> Cells:
    """Smallest sets of cells that hold 50, 90 and 99 % of the posterior."""
    active, weights = posterior.density("active_params")
    total, _ = posterior.density("total_params")
    asked = posterior.question.active, posterior.question.total
    edges = []
    for limits, axis, values in zip(asked, (x, y), (active, total), strict=True):
        low, high = _clipped(limits, axis)
        first, last = _extent(values, weights)
        low, high = max(low, first), min(high, last)
        edges.append(np.geomspace(low, max(high, 1.001 * low), 37 if limits == ANY else 19))
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


def _edge_kinds(answer: Answer) -> dict[str, str]:
    """Kind of each constraint as an edge: habits place the edges that depth and shape move."""
    found = kinds(answer.question)
    if answer.question.habits is None:
        return found
    return found | {n: WITHIN for n in found if n in SHAPED}


def _end_name(answer: Answer, name: str, side: str) -> str:
    """What draws an end of a range, with its kind where it is of one."""
    by: str = getattr(answer.ranges[name], side).by
    known = kinds(answer.question)
    found = kinds_of(by, known)
    if drawn(answer, name, side, known) == "within habits" and "habit" not in found:
        return f"{plain_name(by)} ({WITHIN})"
    # Of several together the names alone fill the height.
    if len(found) > 1:
        return plain_name(by)
    kind = f" ({found[0]})" if found else ""
    return f"{SHORT_NAMES.get(by, plain_name(by))}{kind}"


def _named(by: str, kinds: dict[str, str]) -> str:
    kind = kinds.get(by, "")
    name = SHORT_NAMES.get(by, plain_name(by))
    return f"{name} ({kind})" if kind else name


def _beside(text: str, start: tuple[float, float], middle: tuple[float, float], x: Axis) -> Note:
    """Left of where an edge starts, outside the region; above its middle where no room is left."""
    if text_width(text, 11.0) + 8.0 < WIDTH * x.fraction(start[0]):
        return Note(*start, text, "end", dx=-6.0, dy=-2.0)
    return Note(*middle, text, dy=4.0)


def _apart(notes: list[Note], x: Axis, y: Axis) -> list[Note]:
    """The same notes, those that run along moved up or down until none lies on another."""
    taken: list[tuple[float, float, float, float]] = []
    found = []
    for note in notes:
        if note.angle:
            found.append(note)
            continue
        tried = [replace(note, dy=note.dy + 13.0 * step) for step in (0, 1, -1, 2, -2, 3, -3)]
        free = (n for n in tried if not any(overlap(note_box(n, x, y), t) for t in taken))
        placed = next(free, note)
        taken.append(note_box(placed, x, y))
        found.append(placed)
    return found


def _edge_notes(outline: Outline, widest: bool, kinds: dict[str, str], x: Axis) -> list[Note]:
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
                notes.append(Note(*at, _named(name, kinds), end, dx=dx, dy=dy))
    return notes


def _side_notes(
    corners: tuple[tuple[float, float], ...],
    left: str,
    right: str,
    y: Axis,
) -> list[Note]:
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
        long = text_width(by, 11.0)
        over = long - 350.0 * (y.fraction(max(side)) - y.fraction(min(side)))
        dy = hang * max(over, 0.0) / 2.0
        notes.append(Note(at, middle, by, angle=90.0, dx=dx, dy=dy))
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
    from archinfer.models import catalogue

    found: dict[tuple[int, int], str] = {}
    for name in catalogue.names():
        record = catalogue.entry(name)
        found.setdefault((record.active_params, record.total_params), name)
    return sorted(
        ((name, float(a), float(n)) for (a, n), name in found.items()), key=lambda m: -m[2]
    )


def _catalogue_marks(x: Axis, y: Axis, notes: list[Note]) -> list[Mark]:
    shown = [
        (name, a, n)
        for name, a, n in catalogue_points()
        if x.low <= a <= x.high and y.low <= n <= y.high
    ]
    if not shown:
        return []
    return [
        Points(
            [a for _, a, _ in shown],
            [n for _, _, n in shown],
            label="open models",
            names=names_that_fit(shown, x, y, notes, NAMED),
        )
    ]


def nodes_panel(answer: Answer) -> Panel:
    """Layers against nodes: which pairs are feasible, and the largest total of each."""
    region, question = answer.region, answer.question
    slices = region.slices
    node, asked = question.hardware.node, question.nodes[1]
    top = float(min(asked, 1.3 * max(slices.nodes.max(), 4.0)))
    columns = _edges(slices.layers.min(), slices.layers.max())
    rows = _edges(1.0, top)
    largest = np.full((len(rows) - 1, len(columns) - 1), np.nan)
    at = (
        np.searchsorted(rows, slices.nodes, side="right") - 1,
        np.searchsorted(columns, slices.layers, side="right") - 1,
    )
    np.fmax.at(largest, at, region.total_high)
    # Nodes may stay idle: what fits on fewer fits on more.
    largest = np.fmax.accumulate(largest, axis=0)
    steps, bounds = _stepped(largest)
    posterior = answer.posterior
    deepest = float(columns[-1]) + 1.0
    if posterior is not None and posterior.possible:
        # The posterior knows no hard habits of depth.
        deepest = max(deepest, 1.03 * posterior.marginals["layers"].p95)
    room = 0.07 * (deepest - float(columns[0]))
    x = Axis("layers", max(float(columns[0]) - 1.0 - room, 0.0), deepest + room, log=False)
    y = Axis(f"{node}s there", 0.0, 1.22 * top, log=False)
    marks: list[Mark] = [
        Cells(
            columns.tolist(),
            rows.tolist(),
            steps.tolist(),
            CIVIDIS,
            bounds,
            f"largest total parameters that fit with at most so many {node}s",
        )
    ]
    if asked <= y.high:
        marks.append(Curve([x.low, x.high], [asked, asked], dash=DASHES[1]))
        told = "asked" if question.nodes_known else "at most were tried"
        word = f"{asked:,} {node}{'' if asked == 1 else 's'} {told}"
        marks.append(Note(x.high, asked, word, "end", dx=-3.0, dy=4.0))
    span = answer.ranges["layers"]
    for side, at, dx in (("low", columns[0], -9.0), ("high", columns[-1], 10.0)):
        word = _end_name(answer, "layers", side)
        crossed = [float(at) / held for held in PER_NODE] if question.hardware.spatial else []
        marks.append(Note(float(at), _clear(word, crossed, top, y), word, angle=90.0, dx=dx))
    if question.hardware.spatial:
        feasible = float(columns[0]), float(columns[-1])
        words = [m for m in marks if isinstance(m, Note)]
        marks += _per_node(x, y, node, asked, feasible, words)
    if posterior is not None and posterior.possible:
        marks.append(_draws(posterior, x, y))
    text = (
        f"Feasible layers from {span.low.value:.0f}, {_end_name(answer, 'layers', 'low')}, to "
        f"{span.high.value:.0f}, {_end_name(answer, 'layers', 'high')}, on up to {asked:,} "
        f"{node}s. Colour: the largest total parameters."
    )
    return Panel(f"Layers and {node}s", text, x, y, tuple(marks))


def _edges(low: float, high: float, most: int = 128) -> FloatArray:
    """Cell edges around whole numbers; several numbers a cell where there are many."""
    width = max(1.0, math.ceil((high - low + 1.0) / most))
    count = math.ceil((high - low + 1.0) / width)
    return np.asarray(low - 0.5 + width * np.arange(count + 1))


def _clear(word: str, crossed: Sequence[float], top: float, y: Axis) -> float:
    """Height near the middle at which an upright word is crossed by no line, if there is one."""
    half = 0.5 * text_width(word, 11.0) / 350.0 * (y.high - y.low) + 0.01 * top
    tried = sorted(np.linspace(half, max(top - half, half), 41), key=lambda v: abs(v - 0.5 * top))
    free = (float(v) for v in tried if all(abs(v - c) > half for c in crossed))
    return next(free, 0.5 * top)


def _per_node(
    x: Axis, y: Axis, node: str, asked: int, span: tuple[float, float], words: Sequence[Note]
) -> list[Mark]:
    """Lines of one, two and four layers a node, each named where no other word is.

    Args:
        x, y: axes.
        node: what a node is called.
        asked: nodes.
        span: least and most feasible layers; the lines begin at the least.
        words: notes that are there already.
    """
    marks: list[Mark] = []
    taken = [note_box(n, x, y) for n in words]
    for held in PER_NODE:
        first, last = span[0], min(x.high, asked * held)
        if last <= first:
            continue
        marks.append(Curve([first, last], [first / held, last / held], "ink", DASHES[2], 1.2))
        text = f"{held} layer{'' if held == 1 else 's'} a {node}"
        ends = [min(last, span[1]), last]
        tried = [
            Note(depth, depth / held, text, anchor, dx=dx, dy=dy)
            for end in ends
            for share in (0.9, 0.8, 0.7, 0.6, 0.5)
            for anchor, dx, dy in (("start", 6.0, -8.0), ("end", -6.0, 3.0))
            for depth in [first + share * (end - first)]
        ]
        for note in tried:
            box = note_box(note, x, y)
            inside = box[0] > 0.0 and box[2] < WIDTH
            if inside and not any(overlap(box, t) for t in taken):
                taken.append(box)
                marks.append(note)
                break
    return marks


def _draws(posterior: Posterior, x: Axis, y: Axis) -> Points:
    layers, weights = posterior.density("layers")
    nodes, _ = posterior.density("nodes")
    count = 150
    chosen = np.searchsorted(np.cumsum(weights), (np.arange(count) + 0.5) / count)
    chosen = np.minimum(chosen, len(weights) - 1)
    inside = (layers[chosen] < x.high) & (layers[chosen] > x.low) & (nodes[chosen] < y.high)
    chosen = chosen[inside]
    return Points(
        layers[chosen].tolist(),
        nodes[chosen].tolist(),
        colour="red",
        marker="cross",
        label="models that the observation leaves, drawn at random",
        size=2.5,
    )


def posterior_panels(posterior: Posterior, legend: bool = True) -> tuple[Panel, ...]:
    """Each quantity's probability before any evidence and after all of it.

    Args:
        posterior: of an observed speed.
        legend: the first panel says what each mark is, and has room for it.
    """
    from archinfer.report.posterior import NAMES

    panels = []
    assert posterior.prior is not None
    for name, m in posterior.marginals.items():
        values, weights = posterior.density(name)
        batch, prior_weights = posterior.prior
        before = getattr(batch, name)
        low, high = (float(v) for v in _weighted_quantiles(before, prior_weights, (0.005, 0.995)))
        first_value, last_value = (float(v) for v in _extent(values, weights))
        low, high = min(low, m.p05 / 1.2, first_value), max(high, m.p95 * 1.2, last_value)
        edges = _bins(low, high, whole=name in ("layers", "nodes"))
        after, prior = (
            np.histogram(v, bins=edges, weights=w)[0]
            for v, w in ((values, weights), (before, prior_weights))
        )
        peak = float(max(after.max(), prior.max()))
        half = 0.5 if name in ("layers", "nodes") else 0.0
        x = np.repeat(edges, 2)[1:-1]
        # A bin that reaches beyond the last draw ends there.
        x_after = np.clip(x, first_value - half, last_value + half)
        first = legend and name == next(iter(posterior.marginals))
        marks: list[Mark] = [
            Band(
                x_after.tolist(),
                np.zeros(len(x)).tolist(),
                np.repeat(100 * after, 2).tolist(),
                "sky",
                label="with the observation",
            ),
            Curve(
                x.tolist(),
                np.repeat(100 * prior, 2).tolist(),
                "ink",
                DASHES[1],
                1.4,
                label="prior",
            ),
            Points(
                [m.p50],
                [106 * peak],
                "blue",
                "circle",
                "median and 90 %",
                x_ends=([m.p05], [m.p95]),
            ),
        ]
        source = "nodes" if m.nodes_bits > m.speed_bits else "speed"
        verdict = (
            given_words(posterior.question, name, m)
            if m.given
            else f"identified by the {source}"
            if m.identified
            else "not identified"
        )
        panels.append(
            Panel(
                f"{NAMES[name]}: {verdict}",
                f"90 % between {compact(m.p05)} and {compact(m.p95)}, median {compact(m.p50)}; "
                f"{m.information_bits:.1f} bits learnt, {m.nodes_bits:.1f} from the nodes and "
                f"{m.speed_bits:.1f} from the speed: {verdict}.",
                Axis(NAMES[name], float(edges[0]), float(edges[-1])),
                Axis("probability per bin in %", 0.0, (165 if first else 115) * peak, log=False),
                tuple(marks),
                legend="upper left" if first else "",
                small=True,
            )
        )
    return tuple(panels)


def _extent(values: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Least and largest draw that counts."""
    counted = values[weights > 0.0]
    return float(counted.min()), float(counted.max())


def _bins(low: float, high: float, whole: bool) -> FloatArray:
    """About thirty bins of equal ratio; of whole numbers each bin holds some, and all of them."""
    edges = np.geomspace(low, high, 31)
    if not whole:
        return edges
    return np.asarray(np.unique(np.round(np.append(edges, edges[-1] + 1.0))) - 0.5)


def _weighted_quantiles(
    values: FloatArray, weights: FloatArray, at: tuple[float, ...]
) -> FloatArray:
    from archinfer.inference.statistics import quantiles

    return quantiles(values, weights, at)
