"""The reports of `validate` and `calibrate` as self-contained HTML pages."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from archinfer.report import calibrate as calibration_text
from archinfer.report.findings import NAMES
from archinfer.report.markup import Markup, el
from archinfer.report.measured import calibrate_chart, validate_chart
from archinfer.report.page import Cell, figure, page, section, table
from archinfer.report.validation import HEADINGS, cells, error_text, lines
from archinfer.words import compact

if TYPE_CHECKING:
    from archinfer.calibration.calibrate import Calibration
    from archinfer.fitting.validation import Validation
    from archinfer.report.chart import Chart

__all__ = ["calibrate_page", "validate_page"]


def _lead(first: str, told: list[tuple[str, str]]) -> Markup:
    items = [el("li", el("strong", f"{label}: "), text) for label, text in told]
    return el("div", el("p", first), el("ul", items), class_="answer")


def _pictures(chart: Chart, notes: tuple[str, ...] = ()) -> Markup:
    """The panels; `notes` stand under the first ones instead of their own words."""
    told = [*notes, *[""] * (len(chart.panels) - len(notes))]
    shown = [
        figure(panel, f"picture{i}", words)
        for i, (panel, words) in enumerate(zip(chart.panels, told, strict=True))
    ]
    return section("Pictures", el("div", shown, class_="pair"), el("p", chart.caption,
                   class_="soft"))  # fmt: skip


def validate_page(found: Validation, command: str = "") -> str:
    """What `archinfer validate` found, as an HTML document.

    Args:
        found: predictions of at least one row.
        command: the command line that was run, "" to leave it out.

    Raises:
        InputError: there is no row.
    """
    chart = validate_chart(found)
    s, rows = found.summary, found.counted
    inside = sum(p.inside("p05", "p95") for p in rows)
    told = [
        (
            "How far off",
            f"The median prediction misses by {error_text(s['median_abs_error'])} in the median "
            f"row, by {error_text(s['worst_abs_error'])} in the worst.",
        ),
        (
            "How sure",
            f"{inside} of {len(rows)} published speeds lie in their 90 % interval, "
            f"{error_text(s['coverage50'])} in their 50 % interval.",
        ),
    ]
    naive = {n: e["median_abs_error"] for n, e in found.baselines.items()}
    words = {"roofline": "reading at full bandwidth", "constant_per_layer": "constant time a layer"}
    compared = [f"{error_text(e)} ({words[n]})" for n, e in naive.items() if e is not None]
    if compared:
        told.append(("Beside naive predictions", f"They miss by {' and '.join(compared)}."))
    inverse = found.inverse
    if inverse is not None and inverse["rows"]:
        widths = inverse["median_width"]
        held = [
            f"{NAMES[q]} {error_text(share)} (spanning x {compact(widths[q] or math.nan, 2)})"
            for q, share in inverse["coverage90"].items()
        ]
        told.append(
            (
                "From the speed back to the size",
                f"The truth lies in the 90 % interval of {', '.join(held)} of the rows.",
            )
        )
    body: list[list[str | Cell]] = []
    for p in found.predictions:
        first, nodes, used, *speeds, ratio = cells(p)
        values = [p.observed, *(p.predicted[q] for q in ("p05", "p50", "p95"))]
        numbers = [Cell(t, v) for t, v in zip(speeds, values, strict=True)]
        body.append([first, nodes, used, *numbers, Cell(ratio, p.ratio)])
    caption = (
        "Sort by any column. spec.: whether speculative decoding was used (?: nobody says); nodes: "
        "a range where they are not published"
    )
    return page(
        "Published speeds against predictions",
        _lead(f"{len(rows)} published speeds. Method: {found.method}.", told),
        _pictures(chart, (f"{inside} of {len(rows)} speeds lie in their 90 % interval.",)),
        section("Row by row", table(caption, HEADINGS, body, sortable=True)),
        section("In numbers", el("ul", [el("li", line.strip()) for line in lines(found)])),
        command=command,
    )


def calibrate_page(found: Calibration, command: str = "") -> str:
    """What `archinfer calibrate` measured, as an HTML document.

    Args:
        found: a calibration of this machine.
        command: the command line that was run, "" to leave it out.
    """
    first, *rest = calibration_text.sentences(found)
    held = (
        f"Shapes that the fit has not seen are predicted with a median error of "
        f"{found.run.heldout.median_error:.1%}, {found.run.heldout.worst_error:.1%} at worst."
    )
    told = [("How sure", held)]
    told.append(("Stays here", "Seconds per byte, FLOP, layer, expert call and token."))
    used = [r.text.partition("; ")[0] for r in found.transferable.rows if r.used]
    told.append(("Carries over to other hardware", f"{'; '.join(used)}."))
    shown = [
        table(title, headings, [list(row) for row in rows])
        for title, headings, rows in calibration_text.tables(found)
    ]
    return page(
        "This machine, measured by a decoder that runs on it",
        _lead(first, told),
        _pictures(calibrate_chart(found)),
        section("What was measured", shown),
        section("In words", [el("p", line) for line in rest]),
        command=command,
    )
