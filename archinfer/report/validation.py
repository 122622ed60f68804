"""Published speeds and serving engines beside their predictions, and fits to them: documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from archinfer.fitting.cases import Case
from archinfer.fitting.fit import Fit
from archinfer.fitting.inverse import Inverse
from archinfer.fitting.serving import Accuracy, ServingAccuracy
from archinfer.fitting.transfer import Transfer
from archinfer.fitting.validation import PublishedSpeed, Validation
from archinfer.hardware.figures import KEYS
from archinfer.report import document as doc
from archinfer.report.measured import WAYS, validate_chart
from archinfer.units import format_quantity, plain_number
from archinfer.words import percent, span

HEADINGS = (
    "row", "nodes", "spec.", "tokens/s observed", "tokens/s p05", "tokens/s median",
    "tokens/s p95", "observed / median",
)  # fmt: skip

TITLE = "Speeds of one user, published and predicted (spec.: speculative decoding used)"

READING = (
    "Error: exp(|ln(observed / median)|) - 1. Rows of one architecture are left out of the fit "
    "together. Nodes are a range where they are not published; `?` means that nobody says "
    "whether speculative decoding was used."
)


def document(found: Validation, command: str) -> doc.Document:
    """What `archinfer validate` found, and the command that writes the Markdown."""
    counted = f"{len(found.counted)} published speeds. Method: {found.method}."
    numbers = doc.Items(lines(found), where=doc.ALL, bullet="", whole=True)
    blocks: list[doc.Block] = [
        doc.Paragraph(f"Written by `{command}`; do not edit.", where=doc.MARKDOWN),
        doc.Paragraph(READING, where=doc.MARKDOWN),
        doc.Lead([counted]),
        doc.Section("Pictures", [doc.Later(lambda: _pictures(found))], doc.PAGE),
        doc.Section("Row by row", [_table(found)], folded=True),
        doc.Section("In numbers", [numbers]),
    ]
    if found.serving is not None:
        blocks += _serving_sections(found.serving)
    return doc.Document(
        "Published speeds against predictions", blocks, titled=doc.MARKDOWN | doc.PAGE
    )


def csv_rows(found: Validation) -> list[list[Any]]:
    """The rows of the table, headings first."""
    return [list(HEADINGS), *([c if isinstance(c, str) else c.words for c in cells(p)]
                              for p in found.predictions)]  # fmt: skip


def _pictures(found: Validation) -> Iterator[doc.Block]:
    rows = found.counted
    inside = sum(p.inside("p05", "p95") for p in rows)
    note = f"{inside} of {len(rows)} published speeds lie in their 90 % interval."
    drawn = validate_chart(found)
    yield doc.Pictures(lambda: drawn.panels, "picture", (note,))
    yield doc.Paragraph(drawn.caption, "soft", doc.PAGE)


def _table(found: Validation) -> doc.Table:
    rows = [cells(p) for p in found.predictions]
    drop = ("spec.", "nodes", "tokens/s p05", "tokens/s p95", "tokens/s median")
    return doc.Table(TITLE, HEADINGS, rows, "lrrrrrrr", doc.ALL, drop=drop, sortable=True)


def cells(p: PublishedSpeed) -> list[str | doc.Cell]:
    """One row of the table."""
    used = {True: "yes", False: "no", None: "?"}[p.speculative]
    mark = "" if p.inside("p05", "p95") else " (outside)"
    mark += "" if p.counted else " (not counted)"
    speeds = [p.observed, *(p.predicted[q] for q in ("p05", "p50", "p95"))]
    return [
        p.id,
        span(*p.nodes).replace(" to ", "-"),
        used,
        *(doc.number(v, f"{v:,.0f}") for v in speeds),
        doc.number(p.ratio, f"{p.ratio:.2f}{mark}"),
    ]


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
            f"naive, {WAYS[name]}: median error {error_text(errors['median_abs_error'])}, "
            f"worst {error_text(errors['worst_abs_error'])}"
        )
    for name, quality in found.fits.items():
        if not quality["rows"]:
            continue
        out.append(
            f"fit of {name} to all its {quality['rows']:.0f} rows: rms "
            f"{100 * quality['rms_error']:.1f} %, worst {100 * quality['worst_error']:.1f} %"
        )
    if found.transfer is not None:
        out.append(_transfer(found.transfer))
    if found.inverse is not None and found.inverse["rows"]:
        out.extend(_inverse(found.inverse))
    return out


def _transfer(t: Transfer) -> str:
    speeds = ", ".join(
        f"{r['id']} {r['predicted']:,.0f} for {r['observed']:,.0f}" for r in t["rows"]
    )
    return (
        f"transfer: constants of {t['from']} ({t['fitted_on']} rows) on {t['to']}, nothing "
        f"refitted: worst error {100 * t['worst_abs_error']:.1f} % ({speeds})"
    )


def _inverse(inverse: Inverse) -> list[str]:
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
        spans = "none" if width is None else plain_number(width)
        out.append(
            f"  {quantity}: truth in the 90 % interval {error_text(share)}, in the 50 % interval "
            f"{error_text(inverse['coverage50'][quantity])} (of models "
            f"{error_text(inverse['coverage90_by_model'][quantity])} and "
            f"{error_text(inverse['coverage50_by_model'][quantity])}); p95 / p05 {spans}"
        )
    return out


SERVING_HEADINGS = ("", "rows", "median", "9 of 10", "bias", "in 90 %", "first token")

SERVING_READING = (
    "Factors of the time per output token, which leaves the first token out: median and what nine "
    "rows of ten stay within; bias: median of predicted over measured; in 90 %: rows inside their "
    "intervals; first token: median factor of the time to it."
)


def _groups(found: ServingAccuracy) -> list[tuple[str, tuple[Accuracy, ...]]]:
    return [
        ("Machines", found.machines),
        ("Models", found.models),
        ("Engines", found.engines),
        ("Users", found.users),
    ]


def _group(one: Accuracy) -> list[str]:
    first = one.first_token_median_factor
    return [
        one.name,
        f"{one.rows:,}",
        f"{one.median_factor:.2f}",
        f"{one.p90_factor:.2f}",
        f"{one.bias:.2f}",
        percent(one.coverage90),
        "-" if first is None else f"{first:.2f}",
    ]


def serving_document(found: ServingAccuracy) -> doc.Document:
    """What `archinfer validate --serving` found."""
    lead = (
        f"{found.all.rows:,} configurations of serving engines: the time per output token is off "
        f"by a median factor of {found.all.median_factor:.2f}."
    )
    blocks: list[doc.Block] = [doc.Lead([lead]), *_serving_sections(found)]
    return doc.Document("Serving engines against predictions", blocks)


def _serving_sections(found: ServingAccuracy) -> list[doc.Block]:
    """How to read the tables, and one for each grouping."""
    blocks: list[doc.Block] = [doc.Paragraph(SERVING_READING)]
    for title, rows in [("All", (found.all,)), *_groups(found)]:
        table = doc.Table(
            title, SERVING_HEADINGS, [_group(one) for one in rows], "lrrrrrr", doc.ALL
        )
        blocks.append(doc.Section(title, [table]))
    return blocks


def serving_rows(found: ServingAccuracy) -> list[list[Any]]:
    """Every group with its figures, headings first."""
    out: list[list[Any]] = [["group", *Accuracy.__slots__]]
    for title, rows in [("all", (found.all,)), *_groups(found)]:
        out += [[title.lower(), *(getattr(one, n) for n in Accuracy.__slots__)] for one in rows]
    return out


def fit_document(
    found: Fit, cases: Sequence[Case], left_out: ServingAccuracy | None = None
) -> doc.Document:
    """The constants before and after, each with its spread; how models left out are predicted."""
    rows = [
        (
            name,
            _constant(name, found.model.prior_value(name)),
            f"{sd:.2f}",
            _constant(name, found.value(name)),
            f"{found.sd(name):.2f}",
        )
        for name, sd in zip(found.model.names, found.model.sd, strict=True)
    ]
    headings = ("parameter", "before", "sd", "fitted", "sd")
    told = (
        f"{len(cases)} speeds of {len({c.model_key for c in cases})} models; sd of the natural "
        "logarithm (of the log-odds for acceptance and probability)"
    )
    blocks: list[doc.Block] = [
        doc.Table("", headings, rows, "lrrrr", drop=("sd", "before")),
        doc.Paragraph(told, whole=True),
    ]
    if left_out is not None:
        blocks.append(doc.Paragraph("Each model as a fit without it predicts it."))
        blocks += _serving_sections(left_out)
    return doc.Document("", blocks)


def _constant(name: str, value: float) -> str:
    dimension = KEYS[name].dimension if name in KEYS else ""
    if name == "draft_time":
        dimension = "seconds"
    if dimension in ("", "number"):
        return f"{value:.4g}"
    return format_quantity(value, dimension, digits=4)
