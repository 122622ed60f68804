"""Validation results as text: a table for terminals, Markdown for the documentation."""

from __future__ import annotations

from typing import Any

from archinfer.fitting.validation import Prediction, Validation

__all__ = ["HEADINGS", "TITLE", "cells", "error_text", "lines", "markdown"]

HEADINGS = (
    "row",
    "nodes",
    "spec.",
    "tokens/s observed",
    "tokens/s p05",
    "tokens/s median",
    "tokens/s p95",
    "observed / median",
)

TITLE = "Speeds of one user, published and predicted (spec.: speculative decoding used)"

_NAMES = {"roofline": "bandwidth roofline", "constant_per_layer": "constant time a layer"}


def _nodes(p: Prediction) -> str:
    low, high = p.nodes
    return f"{low:g}" if low == high else f"{low:g}-{high:g}"


def cells(p: Prediction) -> list[str]:
    """One row of the table."""
    used = {True: "yes", False: "no", None: "?"}[p.speculative]
    speeds = [p.observed, *(p.predicted[q] for q in ("p05", "p50", "p95"))]
    mark = "" if p.inside("p05", "p95") else " (outside)"
    mark += "" if p.counted else " (not counted)"
    return [p.id, _nodes(p), used, *(f"{v:,.0f}" for v in speeds), f"{p.ratio:.2f}{mark}"]


def error_text(value: float | None) -> str:
    """A share in percent, large ones as a factor; none for None."""
    if value is None:
        return "none"
    return f"{100 * value:,.0f} %" if value < 10 else f"a factor of {1 + value:,.0f}"


def lines(found: Validation) -> list[str]:
    """The summary, one fact a line."""
    s = found.summary
    out = [
        f"{found.method}: {len(found.counted)} rows",
        f"error of the median prediction: median {error_text(s['median_abs_error'])}, "
        f"worst {error_text(s['worst_abs_error'])}",
        f"coverage: 50 % intervals {error_text(s['coverage50'])}, "
        f"90 % intervals {error_text(s['coverage90'])}",
    ]
    assumed = [f"{p.id} {p.software}" for p in found.predictions if p.software_assumed]
    if assumed:
        out.append(f"software taken from the date of the row: {', '.join(assumed)}")
    for name, errors in found.baselines.items():
        out.append(
            f"naive, {_NAMES[name]}: median error {error_text(errors['median_abs_error'])}, "
            f"worst {error_text(errors['worst_abs_error'])}"
        )
    for name, quality in found.fits.items():
        out.append(
            f"fit of {name} to all its {quality['rows']:.0f} rows: rms "
            f"{100 * quality['rms_error']:.1f} %, worst {100 * quality['worst_error']:.1f} %"
        )
    if found.transfer is not None:
        out.append(_transfer(found.transfer))
    if found.inverse is not None and found.inverse["rows"]:
        out.extend(_inverse(found.inverse))
    return out


def _transfer(t: dict[str, Any]) -> str:
    speeds = ", ".join(
        f"{r['id']} {r['predicted']:,.0f} for {r['observed']:,.0f}" for r in t["rows"]
    )
    return (
        f"transfer: constants of {t['from']} ({t['fitted_on']} rows) on {t['to']}, nothing "
        f"refitted: worst error {100 * t['worst_abs_error']:.1f} % ({speeds})"
    )


def _inverse(inverse: dict[str, Any]) -> list[str]:
    models, rows = inverse["models"], len(inverse["rows"])
    out = [
        "inverse, from each speed (and nodes, where published) alone: "
        f"{rows} {'row' if rows == 1 else 'rows'} of {models} "
        f"{'model' if models == 1 else 'models'}",
        f"  rows of one model fall together: a coverage is known to no more than "
        f"{100 * (0.25 / models) ** 0.5:.0f} points at 50 % and "
        f"{100 * (0.09 / models) ** 0.5:.0f} at 90 % (one standard error, models as units)",
    ]
    for quantity, share in inverse["coverage90"].items():
        width = inverse["median_width"][quantity]
        spans = "none" if width is None else f"{width:.3g}"
        out.append(
            f"  {quantity}: truth in the 90 % interval {error_text(share)}, in the 50 % interval "
            f"{error_text(inverse['coverage50'][quantity])} (of models "
            f"{error_text(inverse['coverage90_by_model'][quantity])} and "
            f"{error_text(inverse['coverage50_by_model'][quantity])}); p95 / p05 {spans}"
        )
    return out


def markdown(found: Validation, command: str) -> str:
    """The page `docs/validation.md`."""
    out = [
        "# Published speeds against predictions",
        "",
        f"Written by `{command}`; do not edit.",
        "",
        "Error: exp(|ln(observed / median)|) - 1. Rows of one architecture are left out of the fit "
        "together. Nodes are a range where they are not published; `?` means that nobody says "
        "whether speculative decoding was used.",
        "",
        "| " + " | ".join(HEADINGS) + " |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | --- |",
        *("| " + " | ".join(cells(p)) + " |" for p in found.predictions),
        "",
        *(f"- {line}" if not line.startswith("  ") else f"  - {line.strip()}"
          for line in lines(found)),
    ]  # fmt: skip
    return "\n".join(out) + "\n"
