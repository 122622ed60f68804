"""Layers against nodes: which pairs are feasible, and the largest total of each."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from archinfer.inference.posterior import Posterior
from archinfer.models.shape import FloatArray
from archinfer.report import chart
from archinfer.report.ends import end_name
from archinfer.report.sizes_chart import stepped
from archinfer.solver.answer import Answer

PER_NODE = (1, 2, 4)
"""Layers a node of the lines in the picture of layers and nodes."""


def nodes_panel(answer: Answer) -> chart.Panel:
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
    steps, bounds = stepped(largest)
    posterior = answer.posterior
    deepest = float(columns[-1]) + 1.0
    if posterior is not None and posterior.possible:
        # The posterior knows no hard habits of depth.
        deepest = max(deepest, 1.03 * posterior.marginals["layers"].p95)
    room = 0.07 * (deepest - float(columns[0]))
    x = chart.Axis("layers", max(float(columns[0]) - 1.0 - room, 0.0), deepest + room, log=False)
    y = chart.Axis(f"{node}s there", 0.0, 1.22 * top, log=False)
    marks: list[chart.Mark] = [
        chart.Cells(
            columns.tolist(),
            rows.tolist(),
            steps.tolist(),
            chart.CIVIDIS,
            bounds,
            f"largest total parameters that fit with at most so many {node}s",
        )
    ]
    if asked <= y.high:
        marks.append(chart.Curve([x.low, x.high], [asked, asked], dash=chart.DASHES[1]))
        told = "asked" if question.nodes_known else "at most were tried"
        word = f"{asked:,} {node}{'' if asked == 1 else 's'} {told}"
        marks.append(chart.Note(x.high, asked, word, "end", dx=-3.0, dy=4.0))
    span = answer.ranges["layers"]
    for side, at, dx in (("low", columns[0], -9.0), ("high", columns[-1], 10.0)):
        word = end_name(answer, "layers", side)
        crossed = [float(at) / held for held in PER_NODE] if question.hardware.spatial else []
        marks.append(chart.Note(float(at), _clear(word, crossed, top, y), word, angle=90.0, dx=dx))
    possible = posterior is not None and posterior.possible
    draws = [_draws(posterior, x, y)] if posterior is not None and possible else []
    if question.hardware.spatial:
        feasible = float(columns[0]), float(columns[-1])
        words = [m for m in marks if isinstance(m, chart.Note)]
        marks += _per_node(x, y, node, asked, feasible, words, draws)
    marks += draws
    text = (
        f"Feasible layers from {span.low.value:.0f}, {end_name(answer, 'layers', 'low')}, to "
        f"{span.high.value:.0f}, {end_name(answer, 'layers', 'high')}, on up to {asked:,} "
        f"{node}s. Colour: the largest total parameters."
    )
    return chart.Panel(f"Layers and {node}s", text, x, y, tuple(marks))


def _edges(low: float, high: float, most: int = 128) -> FloatArray:
    """Cell edges around whole numbers; several numbers a cell where there are many."""
    width = max(1.0, math.ceil((high - low + 1.0) / most))
    count = math.ceil((high - low + 1.0) / width)
    return np.asarray(low - 0.5 + width * np.arange(count + 1))


def _clear(word: str, crossed: Sequence[float], top: float, y: chart.Axis) -> float:
    """Height near the middle at which an upright word is crossed by no line, if there is one."""
    half = 0.5 * chart.text_width(word, 11.0) / 350.0 * (y.high - y.low) + 0.01 * top
    tried = sorted(np.linspace(half, max(top - half, half), 41), key=lambda v: abs(v - 0.5 * top))
    free = (float(v) for v in tried if all(abs(v - c) > half for c in crossed))
    return next(free, 0.5 * top)


def _per_node(
    x: chart.Axis,
    y: chart.Axis,
    node: str,
    asked: int,
    span: tuple[float, float],
    words: Sequence[chart.Note],
    draws: Sequence[chart.Points],
) -> list[chart.Mark]:
    """Lines of 1, 2 and 4 layers a node over a span of layers, named where no word or draw is."""
    marks: list[chart.Mark] = []
    taken = [chart.note_box(n, x, y) for n in words]
    points = [
        chart.point_box(a, b, x, y) for mark in draws for a, b in zip(mark.x, mark.y, strict=True)
    ]
    for held in PER_NODE:
        first, last = span[0], min(x.high, asked * held)
        if last <= first:
            continue
        marks.append(
            chart.Curve([first, last], [first / held, last / held], "ink", chart.DASHES[2], 1.2)
        )
        text = f"{held} layer{'' if held == 1 else 's'} a {node}"
        ends = [min(last, span[1]), last]
        # A name begins on its own line, below it, where there is room.
        tried = [
            chart.Note(depth, depth / held, text, anchor, dx=dx, dy=dy)
            for anchor, dx, dy in (("start", 6.0, -9.0), ("end", -6.0, 3.0))
            for end in ends
            for share in (0.9, 0.8, 0.7, 0.6, 0.5, 0.4)
            for depth in [first + share * (end - first)]
        ]
        boxes = [chart.note_box(note, x, y) for note in tried]
        inside = [n for n, b in zip(tried, boxes, strict=True) if b[0] > 0.0 and b[2] < chart.WIDTH]
        note = chart.first_free(inside, taken, points, x, y)
        marks += [] if note is None else [note]
    return marks


def _draws(posterior: Posterior, x: chart.Axis, y: chart.Axis) -> chart.Points:
    layers, weights = posterior.density("layers")
    nodes, _ = posterior.density("nodes")
    count = 150
    chosen = np.searchsorted(np.cumsum(weights), (np.arange(count) + 0.5) / count)
    chosen = np.minimum(chosen, len(weights) - 1)
    inside = (layers[chosen] < x.high) & (layers[chosen] > x.low) & (nodes[chosen] < y.high)
    chosen = chosen[inside]
    return chart.Points(
        layers[chosen].tolist(),
        nodes[chosen].tolist(),
        colour="red",
        marker="cross",
        label="models that the observation leaves, drawn at random (no hard habits bound them)",
        size=2.5,
    )
