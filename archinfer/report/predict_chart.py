"""Pictures of a prediction: the time of one pass by term, and the speed with its interval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from archinfer.errors import InputError
from archinfer.forward.prediction import Prediction
from archinfer.physics.terms import TERMS
from archinfer.report import chart
from archinfer.report.predict_model import Row
from archinfer.report.sources import caption
from archinfer.words import compact, counted, gain, percent, seconds

TERM_STYLES = {
    "weights": ("blue", ""),
    "kv": ("sky", "/"),
    "compute": ("green", "."),
    "reductions": ("red", "\\"),
    "fixed": ("orange", "x"),
    "links": ("purple", "|"),
    "head": ("yellow", "-"),
    "queue": ("grey", "+"),
    "draft": ("ink", "o"),
    "prompts": ("red", "*"),
}
"""Colour and hatch of each term of the time, the same in every picture."""

Times = list[tuple[str, dict[str, float]]]
"""Seconds of one pass by term, and their total, of several models by name."""


def micro(value_s: float) -> str:
    """A time with its unit, micro as µ."""
    return seconds(value_s).replace(" us", " µs")


def _time_unit(longest_s: float) -> tuple[float, str]:
    """Units a second and their name: one for the axis and all words of a picture."""
    return next(
        (scale, unit)
        for scale, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs"))
        if scale * longest_s >= 1.0 or unit == "µs"
    )


def time_panel(title: str, time_s: dict[str, float]) -> chart.Panel:
    """Waterfall: one pass, each term starting where the one before ends, largest first."""
    total = time_s["total"]
    terms = sorted(
        ((t, v) for t, v in time_s.items() if t != "total" and v > 0.0), key=lambda x: -x[1]
    )
    names = (*(t for t, _ in terms), "total")
    starts = [0.0, *np.cumsum([v for _, v in terms]).tolist()]
    scale, unit = _time_unit(total)
    y = list(range(len(names)))
    bars = chart.Bars(
        y=y,
        start=[*(scale * s for s in starts[:-1]), 0.0],
        end=[*(scale * s for s in starts[1:]), scale * total],
        colours=[*(TERM_STYLES[t][0] for t, _ in terms), "grey"],
        hatches=[*(TERM_STYLES[t][1] for t, _ in terms), ""],
        texts=[f"{scale * v:.3g} {unit}, {percent(v / total)}" for _, v in terms]
        + [f"{scale * total:.3g} {unit}"],
    )
    words = ", ".join(f"{t} {micro(v)} ({percent(v / total)})" for t, v in terms)
    return chart.Panel(
        title,
        f"One pass takes {micro(total)}: {words}.",
        chart.Axis(f"time of one pass in {unit}", 0.0, 1.3 * scale * total, log=False),
        chart.rows_axis(names),
        (bars,),
    )


def terms_panel(rows: Times) -> chart.Panel:
    """Several models: one bar each, its terms one after the other."""
    scale, unit = _time_unit(max(time["total"] for _, time in rows))
    used = [t for t in TERM_STYLES if any(time[t] > 0.0 for _, time in rows)]
    starts = np.zeros(len(rows))
    marks: list[chart.Mark] = []
    y = list(range(len(rows)))
    for term in used:
        values = np.array([scale * time[term] for _, time in rows])
        colour, hatch = TERM_STYLES[term]
        marks.append(
            chart.Bars(
                y=y,
                start=starts.tolist(),
                end=(starts + values).tolist(),
                colours=[colour] * len(rows),
                hatches=[hatch] * len(rows),
                label=term,
            )
        )
        starts = starts + values
    most = float(starts.max())
    marks += [
        chart.Note(float(s), i, f"{scale * time['total']:.3g} {unit}", "start", dx=4.0, dy=-4.0)
        for (_, time), s, i in zip(rows, starts, y, strict=True)
    ]
    words = "; ".join(f"{name}: {micro(time['total'])}" for name, time in rows)
    return chart.Panel(
        "Time of one pass by term",
        f"Time of one pass. {words}.",
        chart.Axis(f"time of one pass in {unit}", 0.0, 1.3 * most, log=False),
        chart.rows_axis([name for name, _ in rows]),
        tuple(marks),
        "upper right",
    )


def speeds_panel(rows: Sequence[Row]) -> chart.Panel:
    """Predicted tokens/s of each model, with its 90 % interval."""
    y = list(range(len(rows)))
    ends = [v for row in rows for v in (*row.speed, *row.plain_speed)]
    marks: list[chart.Mark] = []
    asked = rows[0].result.deployment
    series = [("without speculation", "blue", "circle", [row.plain_speed for row in rows])]
    if asked.accepted_high > 1.0:
        told = "speculation by its law" if asked.law is not None else gain(*asked.speculation)
        series.append((told, "red", "square", [row.speed for row in rows]))
    for k, (label, colour, marker, speeds) in enumerate(series):
        shift = 0.14 * (2 * k + 1 - len(series))
        marks.append(
            chart.Points(
                [s[1] for s in speeds],
                [v + shift for v in y],
                colour,
                marker,
                label,
                x_ends=([s[0] for s in speeds], [s[2] for s in speeds]),
                size=4.0,
            )
        )
    words = "; ".join(
        f"{row.name}: {compact(row.speed[0])} to {compact(row.speed[2])}, "
        f"central {compact(row.speed[1])}"
        for row in rows
    )
    return chart.Panel(
        "Predicted speed with its 90 % interval",
        f"Tokens/s of one user. {words}.",
        chart.around("tokens/s of one user", ends),
        chart.rows_axis([row.name for row in rows], 0.1),
        tuple(marks),
        "lower right",
    )


def times_s(p: Prediction) -> dict[str, float]:
    """Seconds of one pass by term, and their total."""
    return {t: float(getattr(p.time, t)) for t in (*TERMS, "total")}


def panels(rows: Sequence[Row]) -> tuple[chart.Panel, chart.Panel]:
    """Time by term and speed of the models that fit, one at least."""
    fitting = [row for row in rows if row.result.fits]
    times = [(row.name, times_s(row.result)) for row in fitting]
    one = len(fitting) == 1
    time = time_panel("Time of one pass by term", times[0][1]) if one else terms_panel(times)
    return time, speeds_panel(fitting)


def predict_chart(rows: Sequence[Row]) -> chart.Chart:
    """Speed with its interval, and time by term; InputError where no model fits."""
    fitting = [row for row in rows if row.result.fits]
    if not fitting:
        raise InputError(f"{rows[0].name} does not fit: {rows[0].result.limit}")
    hardware = fitting[0].result.hardware
    title = f"{len(fitting)} models on {hardware.name}"
    if len(fitting) == 1:
        nodes = counted(int(fitting[0].result.nodes), f"{hardware.name} {hardware.node}")
        title = f"{fitting[0].name} on {nodes}"
    left_out = [row.name for row in rows if not row.result.fits]
    words = f"Does not fit: {', '.join(left_out)}. " if left_out else ""
    return chart.Chart(title, (panels(rows),), words + caption(hardware), (1.25, 1.0))
