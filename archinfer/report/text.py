"""Numbers and small pictures as text."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

__all__ = ["bar", "compact", "seconds", "speeds", "unicode_ok"]

_STEPS = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))


def compact(value: float, digits: int = 3) -> str:
    """A count in at most `digits` significant digits: 3.52T, 120B, 88."""
    if not math.isfinite(value):
        return "-"
    rounded = float(f"{value:.{digits}g}")
    for factor, letter in _STEPS:
        if rounded >= factor and (letter != "k" or rounded >= 1e4):
            scaled = rounded / factor
            return f"{scaled:{',.0f' if scaled >= 100 else f'.{digits}g'}}{letter}"
    return f"{rounded:{',.0f' if rounded >= 100 else f'.{digits}g'}}"


def seconds(value: float) -> str:
    """A time to three digits with its unit."""
    from archinfer.units import format_quantity

    return format_quantity(value, "seconds", digits=3)


def speeds(p05: float, p50: float, p95: float) -> str:
    """A speed with its 90 % interval, as in `320 < 799 < 2,020`."""
    return f"{_speed(p05)} < {_speed(p50)} < {_speed(p95)}"


def _speed(value: float) -> str:
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:.3g}"


def unicode_ok() -> bool:
    """Whether standard output can show block characters."""
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower()
    return encoding.replace("-", "").startswith("utf")


def bar(share: float, width: int, blocks: bool) -> str:
    """A bar of `width` cells filled to `share`."""
    if not blocks:
        return "#" * round(share * width)
    eighths = round(share * width * 8)
    full, rest = divmod(eighths, 8)
    return "█" * full + ("" if rest == 0 else " ▏▎▍▌▋▊▉"[rest])


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
