"""Documents as HTML: one self-contained page that loads nothing and runs one script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files

from archinfer.report import document as doc
from archinfer.report.chart import Panel
from archinfer.report.markup import Markup, el, join
from archinfer.report.svg import NARROW, colour_rules, svg

_NARROW = 3
"""Columns that fit a phone."""

_LONG = 40
"""Letters from which a cell of words gets a column of at least some width."""


def to_page(document: doc.Document, command: str = "") -> str:
    """The document as a whole HTML page, with the command line that makes it again, if given."""
    body = [_blocks(document.blocks, 2)]
    if command:
        made = el("pre", el("code", command), tabindex=0, aria_label="command line")
        body.append(el("section", el("h2", "Reproduce this page"), made))
    return _frame(document.page_title or document.title, join(body))


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _frame(title: str, body: Markup) -> str:
    here = files(__package__)
    style = colour_rules() + here.joinpath("page.css").read_text(encoding="utf-8")
    script = here.joinpath("page.js").read_text(encoding="utf-8")
    # Nothing may be loaded, and no script but this one may run, whatever a name contains.
    policy = (
        "default-src 'none'; img-src data:; "
        f"style-src 'sha256-{_hash(style)}'; script-src 'sha256-{_hash(script)}'"
    )
    made_by = f"archinfer {version('archinfer')}"
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", http_equiv="Content-Security-Policy", content=policy),
        el("meta", name="generator", content=made_by),
        el("link", rel="icon", href="data:,"),
        el("title", title),
        el("style", Markup(style)),
    )
    complete = f"Made by {made_by}. This file is complete: it loads nothing from anywhere."
    footer = el("footer", el("p", complete))
    main = [el("header", el("h1", title)), el("main", body), footer, el("script", Markup(script))]
    return f"<!doctype html>\n{el('html', head, el('body', main), lang='en')}\n"


def _blocks(blocks: Sequence[doc.Block], level: int) -> Markup:
    return join([_block(block, level) for block in doc.shown(blocks, doc.PAGE)])


def _block(block: doc.Block, level: int) -> Markup:
    """One block; a section in it has a heading of `level`."""
    match block:
        case doc.Paragraph():
            return el("p", _words(block.words), class_=block.style or None)
        case doc.Lead():
            items = [el("li", el("strong", f"{label}: "), text) for label, text in block.items]
            told = [el("p", sentence) for sentence in block.sentences]
            return el("div", told, el("ul", items) if items else "", class_="answer")
        case doc.Items():
            title = el(f"h{level}", block.title) if block.title else Markup("")
            return join(title, el("ul", [el("li", _words(item)) for item in block.items]))
        case doc.Table():
            return _table(block)
        case doc.Pictures():
            panels = block.panels()
            notes = [*block.notes, *[""] * (len(panels) - len(block.notes))]
            made = [
                _figure(panel, f"{block.ident}{i}", note, level)
                for i, (panel, note) in enumerate(zip(panels, notes, strict=True))
            ]
            return el("div", made, class_=block.layout or None)
        case doc.Section(folded=True):
            inside = _blocks(block.blocks, level + 1)
            head = el("summary", el(f"h{level}", block.heading))
            return el("details", head, inside) if inside else inside
        case doc.Section():
            inside = _blocks(block.blocks, level + 1)
            return el("section", el(f"h{level}", block.heading), inside) if inside else inside
        case _:
            return Markup("")


def _words(words: doc.Words) -> Markup:
    def part(words: str | doc.Span) -> str:
        if isinstance(words, str):
            return words
        if words.style == "strong":
            return el("strong", words.text)
        return el("span", words.text, class_=words.style)

    return join([part(p) for p in ((words,) if isinstance(words, str) else words)])


def _figure(panel: Panel, ident: str, note: str, level: int) -> Markup:
    """A panel with its title above and words below."""
    picture = svg(panel, ident, *((320.0, 230.0) if panel.small else (600.0, 430.0)))
    if not panel.small:
        picture = join(picture, svg(panel, f"{ident}n", NARROW, 340.0))
    words = el("figcaption", note or panel.text)
    return el("figure", el(f"h{level}", panel.title), picture, words)


def _scrolling(inside: Markup, label: str, wide: bool) -> Markup:
    """A box that scrolls by itself, so that the page does not."""
    kind = "scroll wide" if wide else "scroll"
    return el("div", inside, class_=kind, role="region", aria_label=label, tabindex=0)


def _table(block: doc.Table) -> Markup:
    """A table in a container that scrolls by itself; the first cell of a row heads it.

    On a phone the rows of a wide table that does not sort become blocks, each value under its
    heading.
    """
    kept = [i for i, align in enumerate(block.align) if align != "b"]
    rows = [[doc.cell(row[i]) for i in kept] for row in block.rows]
    aligns = [block.align[i] for i in kept]
    long = any(_long(c, a) for row in rows for c, a in zip(row, aligns, strict=True))
    blocks = not block.sortable and (len(kept) > _NARROW or long)
    headings = [block.headings[i] for i in kept]
    head = [
        el("th", h, scope="col", class_=_kind(None, a), role="columnheader" if blocks else None)
        for h, a in zip(headings, aligns, strict=True)
    ]
    body = [_row(row, headings, aligns, blocks) for row in rows]
    # A browser forgets that a table is one once its parts are laid out as blocks.
    group = "rowgroup" if blocks else None
    made = el(
        "table",
        el("thead", el("tr", head, role="row" if blocks else None), role=group)
        if any(headings)
        else "",
        el("tbody", body, role=group),
        class_="sortable" if block.sortable else "blocks" if blocks else None,
        role="table" if blocks else None,
        aria_label=block.title or "table",
    )
    title = f"Sort by any column. {block.title}" if block.sortable else block.title
    # The words stay in view while a wide table scrolls under them.
    caption = el("figcaption", title) if title else ""
    return el("figure", caption, _scrolling(made, block.title or "table", block.sortable))


def _long(entry: doc.Cell, align: str) -> bool:
    return align in "wp" and len(doc.plain(entry.words)) + len(doc.plain(entry.more)) > _LONG


def _kind(entry: doc.Cell | None, align: str) -> str | None:
    if align == "r":
        return "n"
    return "long" if entry is not None and _long(entry, align) else None


def _row(
    row: Sequence[doc.Cell], headings: Sequence[str], aligns: Sequence[str], blocks: bool
) -> str:
    cells = []
    for i, (entry, heading, align) in enumerate(zip(row, headings, aligns, strict=True)):
        tag, scope, role = ("td", None, "cell") if i else ("th", "row", "rowheader")
        cells.append(
            el(
                tag,
                join(_words(entry.words), _words(entry.more)),
                scope=scope,
                class_=_kind(entry, align),
                role=role if blocks else None,
                data_label=heading if blocks and i else None,
                data_v=None if entry.value is None else f"{entry.value:.12g}",
            )
        )
    return el("tr", cells, role="row" if blocks else None)
