"""Measured configurations of serving engines beside their predictions, as a document."""

from __future__ import annotations

from typing import Any

from archinfer.fitting.serving import Accuracy, ServingAccuracy
from archinfer.report import document as doc
from archinfer.words import percent

HEADINGS = ("", "rows", "median", "9 of 10", "bias", "in 90 %", "first token")

READING = (
    "Factors of the time per output token, which leaves the first token out: median and what nine "
    "rows of ten stay within; bias: median of predicted over measured; in 90 %: rows inside their "
    "intervals; first token: median factor of the time to it."
)


def _tables(found: ServingAccuracy) -> list[tuple[str, tuple[Accuracy, ...]]]:
    return [
        ("Machines", found.machines),
        ("Models", found.models),
        ("Engines", found.engines),
        ("Users", found.users),
    ]


def _cells(one: Accuracy) -> list[str]:
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


def document(found: ServingAccuracy) -> doc.Document:
    """What `archinfer validate --serving` found."""
    lead = (
        f"{found.all.rows:,} configurations of serving engines: the time per output token is off "
        f"by a median factor of {found.all.median_factor:.2f}."
    )
    blocks: list[doc.Block] = [doc.Lead([lead]), doc.Paragraph(READING)]
    for title, rows in [("All", (found.all,)), *_tables(found)]:
        table = doc.Table(title, HEADINGS, [_cells(one) for one in rows], "lrrrrrr", doc.ALL)
        blocks.append(doc.Section(title, [table]))
    return doc.Document("Serving engines against predictions", blocks)


def csv_rows(found: ServingAccuracy) -> list[list[Any]]:
    """Every group with its figures, headings first."""
    out: list[list[Any]] = [["group", *Accuracy.__slots__]]
    for title, rows in [("all", (found.all,)), *_tables(found)]:
        out += [[title.lower(), *(getattr(one, n) for n in Accuracy.__slots__)] for one in rows]
    return out
