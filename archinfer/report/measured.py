"""What predictions look like beside measurements: `validate` and `calibrate` as charts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import version

import numpy as np

from archinfer.calibration.calibrate import Calibration
from archinfer.calibration.fit import Timing
from archinfer.errors import InputError
from archinfer.fitting.validation import PublishedSpeed, Validation
from archinfer.report import chart
from archinfer.words import compact, percent

NAMED = 4
GIGA = 1e9
WAYS = {
    "archinfer": "archinfer",
    "constant_per_layer": "constant time a layer",
    "roofline": "bandwidth roofline",
}


def _caption(text: str) -> str:
    return f"archinfer {version('archinfer')}. {text}"


def validate_chart(found: Validation) -> chart.Chart:
    """Predicted against published speeds, and the errors beside those of naive baselines."""
    if not found.predictions:
        raise InputError("no row was predicted: there is nothing to draw")
    caption = _caption(
        f"Method: {found.method}. Published speeds and their sources: "
        "archinfer/data/observations.yaml; constants: archinfer hardware show."
    )
    title = "Published speeds against predictions that have not seen the model"
    panels = _scatter(found.predictions), _errors(found)
    return chart.Chart(title, (panels,), caption, (1.25, 1.0))


def _scatter(rows: list[PublishedSpeed]) -> chart.Panel:
    ends = [v for p in rows for v in (p.observed, p.predicted["p05"], p.predicted["p95"])]
    naive = [
        (p.observed, p.baselines["constant_per_layer"])
        for p in rows
        if "constant_per_layer" in p.baselines
    ]
    x = chart.around("published tokens/s of one user", ends, 1.25)
    y = chart.around("predicted tokens/s of one user", [*ends, *(v for _, v in naive)], 1.25)
    both = [min(x.low, y.low), max(x.high, y.high)]
    marks: list[chart.Mark] = [
        chart.Curve(both, both, "ink", width=1.2, label="predicted = published")
    ]
    for factor, label in ((2.0, "off by a factor of 2"), (0.5, "")):
        away = [factor * v for v in both]
        marks.append(chart.Curve(both, away, "grey", chart.DASHES[2], 1.0, label))
    if naive:
        at = [o for o, _ in naive], [v for _, v in naive]
        marks.append(chart.Points(*at, "grey", "square", WAYS["constant_per_layer"]))
    worst = sorted(rows, key=lambda p: -p.error)
    places = [(p.model, p.observed, p.predicted["p50"]) for p in worst]
    named = chart.names_that_fit(places, x, y, (), NAMED)
    names = {p.id: name for p, name in zip(worst, named, strict=True)}
    marks += _published(rows, names)
    inside = sum(p.inside("p05", "p95") for p in rows)
    words = ", ".join(f"{p.id} {compact(p.observed)}: {compact(p.predicted['p50'])}" for p in rows)
    return chart.Panel(
        "Predicted against published speed",
        f"{inside} of {len(rows)} published speeds lie inside the 90 % interval of their "
        f"prediction. Published and median predicted tokens/s: {words}.",
        x,
        y,
        tuple(marks),
    )


def _published(rows: list[PublishedSpeed], names: dict[str, str]) -> Iterator[chart.Mark]:
    """The rows inside and outside their intervals."""
    for label, colour, marker, chosen in (
        ("inside its 90 % interval", "blue", "circle", [p for p in rows if p.inside("p05", "p95")]),
        ("outside", "red", "triangle", [p for p in rows if not p.inside("p05", "p95")]),
    ):
        if chosen:
            yield chart.Points(
                [p.observed for p in chosen],
                [p.predicted["p50"] for p in chosen],
                colour,
                marker,
                f"{label} ({len(chosen)} of {len(rows)})",
                [names[p.id] for p in chosen],
                y_ends=([p.predicted["p05"] for p in chosen], [p.predicted["p95"] for p in chosen]),
            )


def _errors(found: Validation) -> chart.Panel:
    """Median and worst factor between predicted and published, for each way to predict."""
    summaries = {"archinfer": found.summary, **found.baselines}
    ways = [
        (WAYS[name], 1.0 + float(s["median_abs_error"]), 1.0 + float(s["worst_abs_error"]))
        for name, s in ((n, summaries[n]) for n in WAYS if n in summaries)
        if s["median_abs_error"] is not None and s["worst_abs_error"] is not None
    ]
    medians, worsts = [m for _, m, _ in ways], [w for _, _, w in ways]
    y = [float(i) for i in range(len(ways))]
    words = "; ".join(f"{n}: median x {compact(m)}, worst x {compact(w)}" for n, m, w in ways)
    return chart.Panel(
        "How far off, beside naive predictions",
        f"Factor between predicted and published speed. {words}.",
        chart.Axis("factor between predicted and published speed", 1.0, 2.0 * max(worsts)),
        chart.rows_axis([n for n, _, _ in ways], 0.1),
        (
            chart.Points(medians, y, "blue", "circle", "median, and up to the worst", size=4.5,
                   x_ends=(medians, worsts)),
        ),
        "lower right",
    )  # fmt: skip


def calibrate_chart(found: Calibration) -> chart.Chart:
    """Predicted against measured speed, the residuals, and the roofline with what was measured."""
    host = found.run.host
    caption = _caption(
        f"Measured on {host.cpu}, {host.cores} cores, {host.date}; float32 decode of "
        f"archinfer, {found.run.rounds} rounds. Lines of the roofline: reading and matrix "
        "multiplication as measured here."
    )
    error = found.run.heldout.median_error
    title = f"Calibration: median error of held-out shapes {percent(error, 1)}"
    panels = (_measured(found), _residuals(found), _roofline(found))
    return chart.Chart(title, (panels,), caption, (1.0, 1.0, 1.0))


def _parts(found: Calibration) -> list[tuple[str, str, str, tuple[Timing, ...]]]:
    return [
        ("shapes of the fit", "blue", "circle", found.run.fitted.points),
        ("held-out shapes", "red", "square", found.run.heldout.points),
    ]


def _series(
    found: Calibration, x: Callable[[Timing], float], y: Callable[[Timing], float]
) -> list[chart.Points]:
    """Markers of the shapes of each part."""
    return [
        chart.Points(
            [x(p) for p in points], [y(p) for p in points], colour, marker, label, size=3.5
        )
        for label, colour, marker, points in _parts(found)
    ]


def _measured(found: Calibration) -> chart.Panel:
    every = [*found.run.fitted.points, *found.run.heldout.points]
    ends = [v for p in every for v in (p.measured_tokens_per_s, p.predicted_tokens_per_s)]
    x = chart.around("measured tokens/s of one sequence", ends, 1.25)
    y = chart.around("predicted tokens/s of one sequence", ends, 1.25)
    both = [x.low, x.high]
    words = "; ".join(
        f"{p.point.name}: {compact(p.measured_tokens_per_s)} measured, "
        f"{compact(p.predicted_tokens_per_s)} predicted"
        for p in found.run.heldout.points
    )
    marks: tuple[chart.Mark, ...] = (
        chart.Curve(both, both, "ink", width=1.2, label="predicted = measured"),
        *_series(found, lambda p: p.measured_tokens_per_s, lambda p: p.predicted_tokens_per_s),
    )
    return chart.Panel("Predicted against measured", f"Held-out shapes. {words}.", x, y, marks)


def _residuals(found: Calibration) -> chart.Panel:
    """Errors of each shape, the held-out ones last."""
    rows = [
        (p, colour)
        for _, colour, _, points in _parts(found)
        for p in sorted(points, key=lambda p: p.measured_tokens_per_s)
    ]
    errors = [100.0 * p.error for p, _ in rows]
    reach = 1.25 * max(max(abs(e) for e in errors), 1.0)
    bars = chart.Bars(
        y=[float(i) for i in range(len(rows))],
        start=[min(e, 0.0) for e in errors],
        end=[max(e, 0.0) for e in errors],
        colours=[colour for _, colour in rows],
        hatches=["" if colour == "blue" else "/" for _, colour in rows],
    )
    size = len(rows)
    words = ", ".join(f"{p.point.name} {e:+.1f} %" for (p, _), e in zip(rows, errors, strict=True))
    return chart.Panel(
        "Residuals (hatched: held out)",
        f"Predicted over measured, minus 1. {words}.",
        chart.Axis("predicted over measured, minus 1, in %", -reach, reach, log=False),
        chart.Axis("shapes, each part from slow to fast", -0.6, size - 0.4, log=False),
        (chart.Curve([0.0, 0.0], [-0.6, size - 0.4], width=1.0), bars),
    )


def _roofline(found: Calibration) -> chart.Panel:
    ceilings = found.run.host.ceilings
    read, peak = ceilings.read_bytes_per_s / GIGA, ceilings.matmul_flops_per_s / GIGA
    series = _series(found, lambda p: p.flops_per_byte, lambda p: p.measured_flops_per_s / GIGA)
    intensities, rates = ([v for s in series for v in getattr(s, axis)] for axis in "xy")
    x = chart.around("FLOPs per byte", [*intensities, peak / read], 1.6)
    y = chart.around("GFLOP/s", [*rates, peak], 1.6)
    at = np.geomspace(x.low, x.high, 60)
    roof = np.minimum(read * at, peak)
    line = chart.Curve(at.tolist(), roof.tolist(), label="roof: reads, then matrix products")
    share = max(r / min(read * i, peak) for r, i in zip(rates, intensities, strict=True))
    return chart.Panel(
        "Roofline with the measured shapes",
        f"Reads at {read:.3g} GB/s and {peak:.3g} GFLOP/s bound the speed; the "
        f"measured shape nearest to the roof reaches {percent(share)} of it.",
        x,
        y,
        (line, *series),
    )
