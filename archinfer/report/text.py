"""A map of letters."""

from __future__ import annotations

import math
from collections.abc import Sequence

from archinfer.words import compact

__all__ = ["region_map"]


def region_map(
    columns: Sequence[float],
    tops: Sequence[Sequence[float]],
    bottoms: Sequence[Sequence[float]],
    letters: Sequence[str],
    width: int,
    height: int,
) -> list[str]:
    """Rows of a map of feasible totals (log axis) over layers, densest format drawn last.

    A cell shows whatever is feasible at any of its layer counts; where there are more cells than
    counts, a cell shows the nearest count.

    Args:
        columns: layer counts, one each.
        tops, bottoms: for each letter the largest and least total at each layer count
            (nan where there is none); earlier letters are drawn over later ones.
        letters: one character a series.
        width, height: cells.
    """
    finite = [v for row in (*tops, *bottoms) for v in row if v == v and v > 0]
    low, high = math.log10(min(finite)), math.log10(max(finite))
    low, high = math.floor(low * 2) / 2, math.ceil(high * 4) / 4
    first, last = min(columns), max(columns)
    held = _cells_of(columns, width)
    rows = []
    label_width = 6
    for r in range(height):
        value = high - (r + 0.5) * (high - low) / height
        cells = []
        for here in held:
            inside = (
                letter
                for s, letter in enumerate(letters)
                for j in here
                if tops[s][j] == tops[s][j]
                and math.log10(bottoms[s][j]) <= value <= math.log10(tops[s][j])
            )
            cells.append(next(inside, " "))
        label = compact(10**value, 2) if r % 3 == 0 else ""
        rows.append(f"{label:>{label_width}} |{''.join(cells)}")
    rows.append(" " * label_width + " +" + "-" * width)
    left, right = f"{first:g}", f"{last:g} layers"
    gap = max(width - len(left) - len(right), 1)
    rows.append(" " * (label_width + 2) + left + " " * gap + right)
    return rows


def _cells_of(columns: Sequence[float], width: int) -> list[list[int]]:
    """Positions in `columns` that each of `width` cells shows, every one in some cell."""
    first, span = min(columns), max(max(columns) - min(columns), 1.0)
    held: list[list[int]] = [[] for _ in range(width)]
    for j, value in enumerate(columns):
        held[min(int((value - first) / span * width), width - 1)].append(j)
    for c, here in enumerate(held):
        if not here:
            wanted = first + (c + 0.5) / width * span
            here.append(min(range(len(columns)), key=lambda i: abs(columns[i] - wanted)))
    return held
