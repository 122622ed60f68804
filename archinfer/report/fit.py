"""What `archinfer fit` found, as a document."""

from __future__ import annotations

from collections.abc import Sequence

from archinfer.fitting.cases import Case
from archinfer.fitting.fit import Fit
from archinfer.hardware.figures import KEYS
from archinfer.report.document import Document, Paragraph, Table
from archinfer.units import format_quantity


def document(found: Fit, cases: Sequence[Case]) -> Document:
    """The constants before and after, each with its spread."""
    rows = [
        (
            name,
            _shown(name, found.model.prior_value(name)),
            f"{sd:.2f}",
            _shown(name, found.value(name)),
            f"{found.sd(name):.2f}",
        )
        for name, sd in zip(found.model.names, found.model.sd, strict=True)
    ]
    headings = ("parameter", "before", "sd", "fitted", "sd")
    told = (
        f"{len(cases)} speeds of {len({c.model_key for c in cases})} models; sd of the natural "
        "logarithm (of the log-odds for acceptance and probability)"
    )
    return Document("", [Table("", headings, rows, "lrrrr"), Paragraph(told, whole=True)])


def _shown(name: str, value: float) -> str:
    dimension = KEYS[name].dimension if name in KEYS else ""
    if name == "draft_time":
        dimension = "seconds"
    if dimension in ("", "number"):
        return f"{value:.4g}"
    return format_quantity(value, dimension, digits=4)
