"""Charts as files, drawn by matplotlib (the extra `plot`)."""

from __future__ import annotations

import io
import math
import os
import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from archinfer.report.chart import (
    COLOURS,
    Band,
    Bars,
    Box,
    Cells,
    Chart,
    Curve,
    Mark,
    Note,
    Panel,
    Points,
    ticks,
)
from archinfer.writing import write

if TYPE_CHECKING:
    from collections.abc import Sequence

_MARKERS = {"circle": "o", "square": "s", "cross": "x", "diamond": "D", "triangle": "^"}
_ROW_INCHES, _SMALL_INCHES, _WIDTH_INCHES = 5.0, 2.6, 13.5
_HATCH_INK = "#1a1a1a"


def save(chart: Chart, path: str) -> None:
    """Draw `chart` to `path`; its suffix says how.

    Raises:
        InputError: the file cannot be written.
    """
    import matplotlib

    made = figure(chart)
    suffix = os.path.splitext(path)[1].lower()[1:]
    stamp = "Date" if suffix == "svg" else "CreationDate" if suffix == "pdf" else "Software"
    out = io.BytesIO()
    # Text stays text, and the same chart gives the same file.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "archinfer"}):
        made.savefig(out, format=suffix, dpi=150, metadata={stamp: None})
    write(path, out.getvalue())


def figure(chart: Chart) -> Any:
    """A matplotlib Figure of `chart`, without pyplot's state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    heights = [_SMALL_INCHES if row[0].small else _ROW_INCHES for row in chart.rows]
    caption = textwrap.wrap(chart.caption, 190)
    title = textwrap.wrap(chart.title, 110)
    room = 0.16 * len(caption) + 0.3 * len(title) + 0.2
    made = Figure(figsize=(_WIDTH_INCHES, sum(heights) + room), layout="constrained")
    FigureCanvasAgg(made)
    made.suptitle("\n".join(title), fontsize=13, x=0.01, ha="left", weight="bold")
    made.supxlabel("\n".join(caption), fontsize=7.5, x=0.01, ha="left", color=COLOURS["grey"])
    outer = made.add_gridspec(len(chart.rows), 1, height_ratios=heights)
    for i, row in enumerate(chart.rows):
        ratios = list(chart.widths) if len(chart.widths) == len(row) else [1.0] * len(row)
        inner = outer[i].subgridspec(1, len(row), width_ratios=ratios)
        for j, panel in enumerate(row):
            _draw(made, made.add_subplot(inner[j]), panel)
    return made


def _draw(made: Any, axes: Any, panel: Panel) -> None:
    size = 8.5 if panel.small else 10.0
    axes.set_title(panel.title, fontsize=size + 1, loc="left")
    axes.set_gid(panel.title)
    for mark in panel.marks:
        _mark(made, axes, mark, panel, size)
    for which, axis in (("x", panel.x), ("y", panel.y)):
        if axis.log:
            getattr(axes, f"set_{which}scale")("log")
        getattr(axes, f"set_{which}lim")(axis.low, axis.high)
        few = 4 if panel.small else 8
        places = ticks(axis, few)
        side = getattr(axes, f"{which}axis")
        side.set_ticks([v for v, _ in places], labels=[t for _, t in places])
        side.set_ticks([], minor=True)
        getattr(axes, f"set_{which}label")(axis.label, fontsize=size)
        side.set_tick_params(labelsize=size - 1)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    if panel.legend and axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize=size - 2, loc=panel.legend, framealpha=0.85)


def _dash(dash: Sequence[float]) -> Any:
    return (0, tuple(dash)) if dash else "-"


def _label(text: str) -> str | None:
    return text or None


def _mark(made: Any, axes: Any, mark: Mark, panel: Panel, size: float) -> None:
    match mark:
        case Band():
            axes.fill_between(
                mark.x,
                mark.low,
                mark.high,
                facecolor=COLOURS[mark.colour],
                hatch=mark.hatch * 2 or None,
                edgecolor="none",
                label=_label(mark.label),
            )
        case Curve():
            axes.plot(
                mark.x,
                mark.y,
                color=COLOURS[mark.colour],
                linestyle=_dash(mark.dash),
                linewidth=mark.width,
                label=_label(mark.label),
                path_effects=_halo(mark.width + 1.6),
            )
        case Cells():
            _cells(made, axes, mark, size)
        case Points():
            _points(axes, mark, size)
        case Box():
            from matplotlib.patches import Rectangle

            (x0, x1), (y0, y1) = mark.x, mark.y
            axes.add_patch(
                Rectangle(
                    (x0, y0),
                    x1 - x0,
                    y1 - y0,
                    fill=False,
                    edgecolor=COLOURS[mark.colour],
                    linewidth=2.0,
                    linestyle="--",
                    label=mark.label,
                )
            )
        case Bars():
            _bars(axes, mark, size)
        case Note():
            _words(axes, mark, size - 1)


def _halo(width: float) -> list[Any]:
    """White around a line, which then stands out from dark colours as well."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=width, foreground="white", alpha=0.75)]


def _words(axes: Any, note: Note, size: float) -> None:
    from matplotlib.patheffects import withStroke

    ha = {"start": "left", "middle": "center", "end": "right"}[note.anchor]
    axes.annotate(
        note.text,
        (note.x, note.y),
        (note.dx, note.dy),
        textcoords="offset points",
        ha=ha,
        va="center" if note.angle else "baseline",
        rotation=note.angle,
        fontsize=size,
        color=COLOURS[note.colour],
        path_effects=[withStroke(linewidth=2.5, foreground="white", alpha=0.9)],
        annotation_clip=False,
    )


def _cells(made: Any, axes: Any, mark: Cells, size: float) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import BoundaryNorm, ListedColormap

    colours = ListedColormap(list(mark.colours))
    norm = BoundaryNorm(np.arange(len(mark.colours) + 1) - 0.5, len(mark.colours))
    steps = np.ma.masked_less(np.asarray(mark.steps), 0)
    mesh = axes.pcolormesh(mark.x, mark.y, steps, cmap=colours, norm=norm, rasterized=True)
    if mark.clip:
        from matplotlib.path import Path

        mesh.set_clip_path(Path(mark.clip), axes.transData)
    bar = made.colorbar(ScalarMappable(norm, colours), ax=axes, pad=0.02, aspect=30)
    named = len(mark.bounds) == len(mark.colours)
    at = np.arange(len(mark.bounds)) - (0.0 if named else 0.5)
    bar.set_ticks(at.tolist(), labels=list(mark.bounds))
    bar.ax.tick_params(labelsize=size - 2)
    bar.set_label(textwrap.fill(mark.label, 66), fontsize=size - 1)


def _points(axes: Any, mark: Points, size: float) -> None:
    from matplotlib.patheffects import withStroke

    errors: dict[str, Any] = {}
    for key, ends, middle in (("xerr", mark.x_ends, mark.x), ("yerr", mark.y_ends, mark.y)):
        if ends is not None:
            below = [m - e for m, e in zip(middle, ends[0], strict=True)]
            above = [e - m for m, e in zip(middle, ends[1], strict=True)]
            errors[key] = [below, above]
    hollow = mark.marker != "cross"
    axes.errorbar(
        mark.x,
        mark.y,
        fmt=_MARKERS[mark.marker],
        color=COLOURS[mark.colour],
        markersize=2 * mark.size,
        markeredgecolor="white" if hollow else COLOURS[mark.colour],
        markeredgewidth=0.7,
        elinewidth=1.4,
        capsize=2.5 if errors else 0.0,
        linestyle="none",
        label=_label(mark.label),
        **errors,
    )
    for x, y, name in zip(mark.x, mark.y, mark.names or [""] * len(mark.x), strict=True):
        if name:
            axes.annotate(
                name,
                (x, y),
                (5, -3),
                textcoords="offset points",
                fontsize=size - 2.5,
                color=COLOURS["ink"],
                path_effects=[withStroke(linewidth=2.0, foreground="white", alpha=0.85)],
            )


def _bars(axes: Any, mark: Bars, size: float) -> None:
    width = [e - s for s, e in zip(mark.start, mark.end, strict=True)]
    axes.barh(
        mark.y,
        width,
        left=mark.start,
        height=mark.height,
        color=[COLOURS[c] for c in mark.colours],
        hatch=[2 * h for h in mark.hatches],
        edgecolor=_HATCH_INK,
        linewidth=0.5,
        label=_label(mark.label),
    )
    for y, end, text in zip(mark.y, mark.end, mark.texts or [""] * len(mark.y), strict=True):
        if text and math.isfinite(end):
            axes.annotate(
                text,
                (end, y),
                (4, 0),
                textcoords="offset points",
                va="center",
                fontsize=size - 1.5,
            )
