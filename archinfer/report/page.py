"""The frame of every report: one self-contained page that loads nothing and runs one script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from archinfer.report.chart import Panel
from archinfer.report.markup import Markup, el, join
from archinfer.report.svg import colour_rules, svg

__all__ = ["Cell", "figure", "page", "provenance", "section", "table"]


_NARROW = 3
"""Columns that fit a phone."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table: what it shows, and the number it sorts by."""

    text: str
    value: float | None = None
    long: bool = False


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def page(title: str, *body: Markup, command: str = "") -> str:
    """A whole HTML document.

    Args:
        title: of the page and its h1.
        body: what follows the h1.
        command: the command line that makes this page again; "" leaves the part out.
    """
    here = files(__package__)
    style = colour_rules() + here.joinpath("page.css").read_text(encoding="utf-8")
    script = here.joinpath("page.js").read_text(encoding="utf-8")
    # Nothing may be loaded, and no script but this one may run, whatever a name contains.
    policy = (
        "default-src 'none'; img-src data:; "
        f"style-src 'sha256-{_hash(style)}'; script-src 'sha256-{_hash(script)}'"
    )
    parts = [*body]
    if command:
        made = el("pre", el("code", command), tabindex=0, aria_label="command line")
        parts.append(section("Reproduce this page", made))
    document = el(
        "html",
        el(
            "head",
            el("meta", charset="utf-8"),
            el("meta", name="viewport", content="width=device-width, initial-scale=1"),
            el("meta", http_equiv="Content-Security-Policy", content=policy),
            el("meta", name="generator", content=f"archinfer {version('archinfer')}"),
            el("link", rel="icon", href="data:,"),
            el("title", title),
            el("style", Markup(style)),
        ),
        el(
            "body",
            el("header", el("h1", title)),
            el("main", parts),
            el(
                "footer",
                el(
                    "p",
                    f"Made by archinfer {version('archinfer')}. This file is complete: it loads "
                    "nothing from anywhere.",
                ),
            ),
            el("script", Markup(script)),
        ),
        lang="en",
    )
    return f"<!doctype html>\n{document}\n"


def section(title: str, *children: str | Sequence[str]) -> Markup:
    """A part of the page under an h2."""
    return el("section", el("h2", title), *children)


def table(
    caption: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[str | Cell]],
    sortable: bool = False,
) -> Markup:
    """A table in a container that scrolls by itself; the first cell of a row heads it.

    A column whose first row has a Cell with a value is numeric: aligned right. On a phone the rows
    of a wide table that does not sort become blocks, each value under its heading.
    """
    long = any(isinstance(c, Cell) and c.long for row in rows for c in row)
    blocks = not sortable and (len(headings) > _NARROW or long)
    numeric = [isinstance(c, Cell) and c.value is not None for c in rows[0]] if rows else []
    head = [
        el("th", h, scope="col", class_="n" if n else None, role="columnheader" if blocks else None)
        for h, n in zip(headings, numeric or [False] * len(headings), strict=True)
    ]
    body = []
    for row in rows:
        cells = []
        for i, (cell, n) in enumerate(zip(row, numeric, strict=True)):
            words = cell.text if isinstance(cell, Cell) else cell
            value = None
            if isinstance(cell, Cell) and cell.value is not None:
                value = f"{cell.value:.12g}"
            kind = "long" if isinstance(cell, Cell) and cell.long else "n" if n else None
            tag, scope = ("th", "row") if i == 0 else ("td", None)
            role = None
            if blocks:
                role = "rowheader" if i == 0 else "cell"
            label = headings[i] if blocks and i else None
            cells.append(
                el(tag, words, scope=scope, class_=kind, role=role, data_label=label, data_v=value)
            )
        body.append(el("tr", cells, role="row" if blocks else None))
    # A browser forgets that a table is one once its parts are laid out as blocks.
    group = "rowgroup" if blocks else None
    made = el(
        "table",
        el("thead", el("tr", head, role="row" if blocks else None), role=group),
        el("tbody", body, role=group),
        class_="sortable" if sortable else "blocks" if blocks else None,
        role="table" if blocks else None,
        aria_label=caption,
    )
    # The words stay in view while a wide table scrolls under them.
    kind = "scroll wide" if sortable else "scroll"
    box = el("div", made, class_=kind, role="region", aria_label=caption, tabindex=0)
    return el("figure", el("figcaption", caption), box)


def figure(panel: Panel, ident: str, note: str = "") -> Markup:
    """A panel with its title above and words below."""
    small = panel.small
    picture = svg(panel, ident, *((320.0, 230.0) if small else (600.0, 430.0)))
    box = (
        picture
        if small
        else el(
            "div", picture, class_="scroll wide", role="region", aria_label=panel.title, tabindex=0
        )
    )
    words = el("figcaption", note or panel.text)
    return el("figure", el("h3", panel.title), box, words)


def provenance(hardware: Any) -> Markup:
    """Every figure of a profile with its source: the unsure ones first, then the rest."""
    headings = ["figure", "value", "1 sd", "source"]

    def rows(figures: Sequence[Any]) -> list[list[str | Cell]]:
        import math

        return [
            [
                f.key,
                f.text,
                f"x {math.exp(f.log_sd):.2f}" if f.log_sd else "",
                Cell(f"{f.source}. {f.note}" if f.note else f.source, long=True),
            ]
            for f in figures
        ]

    every = hardware.provenance
    unsure = [f for f in every if f.estimate or f.log_sd or f.source == "set by hand"]
    known = [f for f in every if f not in unsure]
    parts = []
    if unsure:
        words = f"Figures of {hardware.name} that are fitted, estimated or set by hand"
        parts.append(table(words, headings, rows(unsure)))
    if known:
        words = f"Published figures of {hardware.name}"
        parts.append(el("details", el("summary", words), table(words, headings, rows(known))))
    return join(parts)
