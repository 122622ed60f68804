"""Charts as files, drawn by matplotlib (the extra `plot`)."""

from __future__ import annotations

import io
import math
import os
import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from archinfer.report import chart as model
from archinfer.report.chart import COLOURS, Chart, Panel
from archinfer.writing import write

if TYPE_CHECKING:
    from collections.abc import Sequence

_MARKERS = {"circle": "o", "square": "s", "cross": "x", "diamond": "D", "triangle": "^"}
_ROW_INCHES, _SMALL_INCHES, _WIDTH_INCHES = 5.0, 2.6, 13.5
_HATCH_INK = "#1a1a1a"


def save(chart: Chart, path: str) -> None:
    """Draw `chart` to `path`, as its suffix says."""
    import matplotlib

    suffix = os.path.splitext(path)[1].lower()[1:]
    stamp = "Date" if suffix == "svg" else "CreationDate" if suffix == "pdf" else "Software"
    out = io.BytesIO()
    # Text stays text, dollars are dollars, and the same chart gives the same file.
    with matplotlib.rc_context(
        {"svg.fonttype": "none", "svg.hashsalt": "archinfer", "text.parse_math": False}
    ):
        figure(chart).savefig(out, format=suffix, dpi=150, metadata={stamp: None})
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
    axes.set_title(textwrap.fill(panel.title, 40 if panel.small else 99), size=size + 1, loc="left")
    axes.set_gid(panel.title)
    for mark in panel.marks:
        _mark(made, axes, mark, panel, size)
    for which, axis in (("x", panel.x), ("y", panel.y)):
        if axis.log:
            getattr(axes, f"set_{which}scale")("log")
        getattr(axes, f"set_{which}lim")(axis.low, axis.high)
        few = 4 if panel.small else 8
        places = model.ticks(axis, few)
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


def _mark(made: Any, axes: Any, mark: model.Mark, panel: Panel, size: float) -> None:
    match mark:
        case model.Band():
            style = {"facecolor": COLOURS[mark.colour], "hatch": mark.hatch * 2 or None}
            area = mark.x, mark.low, mark.high
            axes.fill_between(*area, edgecolor="none", label=mark.label or None, **style)
        case model.Curve():
            axes.plot(
                mark.x,
                mark.y,
                color=COLOURS[mark.colour],
                linestyle=_dash(mark.dash),
                linewidth=mark.width,
                label=mark.label or None,
                path_effects=_halo(mark.width + 1.6),
            )
        case model.Cells():
            _cells(made, axes, mark, size)
        case model.Points():
            _points(axes, mark, size)
        case model.Box():
            from matplotlib.patches import Rectangle

            (x0, x1), (y0, y1) = mark.x, mark.y
            box = Rectangle(
                (x0, y0), x1 - x0, y1 - y0, fill=False, label=mark.label,
                edgecolor=COLOURS[mark.colour], linewidth=2.0, linestyle="--",
            )  # fmt: skip
            axes.add_patch(box)
        case model.Bars():
            _bars(axes, mark, size)
        case model.Note():
            _note(axes, mark, size - 1)


def _halo(width: float, alpha: float = 0.75) -> list[Any]:
    """White around a line or letters, which then stand out from dark colours as well."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=width, foreground="white", alpha=alpha)]


def _words(axes: Any, text: str, at: tuple[float, float], shift: tuple[float, float], size: float,
           **more: Any) -> None:  # fmt: skip
    """Words at a place, shifted by points."""
    axes.annotate(text, at, shift, textcoords="offset points", fontsize=size, **more)


def _note(axes: Any, note: model.Note, size: float) -> None:
    _words(
        axes, note.text, (note.x, note.y), (note.dx, note.dy), size,
        ha={"start": "left", "middle": "center", "end": "right"}[note.anchor],
        va="center" if note.angle else "baseline", rotation=note.angle,
        color=COLOURS[note.colour], path_effects=_halo(2.5, 0.9), annotation_clip=False,
    )  # fmt: skip


def _cells(made: Any, axes: Any, mark: model.Cells, size: float) -> None:
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


def _points(axes: Any, mark: model.Points, size: float) -> None:
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
        label=mark.label or None,
        **errors,
    )
    style: dict[str, Any] = {"color": COLOURS["ink"], "path_effects": _halo(2.0, 0.85)}
    for x, y, name in zip(mark.x, mark.y, mark.names or [""] * len(mark.x), strict=True):
        if name:
            _words(axes, name, (x, y), (5, -3), size - 2.5, **style)


def _bars(axes: Any, mark: model.Bars, size: float) -> None:
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
        label=mark.label or None,
    )
    for y, end, text in zip(mark.y, mark.end, mark.texts or [""] * len(mark.y), strict=True):
        if text and math.isfinite(end):
            _words(axes, text, (end, y), (4, 0), size - 1.5, va="center")
