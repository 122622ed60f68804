"""An answer as words, tables and pictures in order: data that three renderers show.

`terminal`, `markdown` and `html` each know every kind of block once; no command prints by itself.
JSON and CSV do not come from here but from the record of the answer (`archinfer.cli.output`).

How an answer gets its document: one module beside this one, named after the answer, with a
function that takes the record and returns a `Document`. It holds every phrase of the answer once
and computes nothing; numbers go through `archinfer.words` or `archinfer.units`. The command then
calls `archinfer.cli.output.show`. Of each block `where` says in which medium it appears:

- SHOWN, the default: on the terminal and on the HTML page;
- EXPLAIN: on the terminal with --explain only (EXPLAIN | PAGE: on every page as well);
- MARKDOWN is named where Markdown has it too (ALL: everywhere).

Sections give pages their headings; on the terminal and in Markdown only the blocks in them show.
What takes time to make stands in a `Later`, opened only in a medium that shows it; pictures are
made by the page. A heading of a table says nothing about alignment: `align` has one letter a
column, as `Table` explains. Texts for people are tested here, on the document; how a block looks
is tested once in each renderer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Flag, auto
from typing import Any

from archinfer.report.chart import Panel


class Where(Flag):
    """Media in which a block appears."""

    SCREEN = auto()
    EXPLAIN = auto()
    MARKDOWN = auto()
    PAGE = auto()


SCREEN, EXPLAIN, MARKDOWN, PAGE = Where
SHOWN = SCREEN | PAGE
ALL = SCREEN | PAGE | MARKDOWN


@dataclass(frozen=True, slots=True)
class Span:
    """Words with a style: strong, soft, good, bad, yes, no, or a chip of a kind ("chip physics").

    A terminal knows the first four, Markdown strong; elsewhere the words stand alone.
    """

    text: str
    style: str = "strong"


Words = str | tuple[str | Span, ...]


def plain(words: Words) -> str:
    """The words without styles."""
    if isinstance(words, str):
        return words
    return "".join(w if isinstance(w, str) else w.text for w in words)


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table that is more than its words."""

    words: Words
    value: float | None = None
    """The number by which a page sorts, and of which a bar is drawn."""
    more: Words = ""
    """Further words that only pages have room for."""


Row = Sequence["Words | Cell"]


def number(value: float, text: str) -> Cell:
    """A number as it is shown, sorted by its value."""
    return Cell(text, float(value))


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Words on their own."""

    words: Words
    style: str = ""
    """strong, or soft (pages)."""
    where: Where = SHOWN
    tight: bool = False
    """No empty line after it on the terminal."""
    whole: bool = False
    """One line, however long, in a pipe."""


@dataclass(frozen=True, slots=True)
class Items:
    """A list; an item that begins with spaces belongs to the one before."""

    items: Sequence[Words]
    title: str = ""
    where: Where = SHOWN
    bullet: str = "  "
    """What stands before an item on the terminal."""
    whole: bool = False
    """Each item one line, however long, in a pipe."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings, which may all be empty; the first cell of a row names it."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Row]
    align: str
    """A letter for each column: r numbers, to the right; l words; w words that may wrap; p words
    that may wrap and speak for themselves, without their heading, where rows become paragraphs;
    b a bar of the cell's value (on a terminal with --explain, nowhere else)."""
    where: Where = SHOWN
    drop: Sequence[str] = ()
    """Headings of columns that a narrow terminal leaves out first, in this order."""
    sortable: bool = False
    most: int = 0
    """Rows that a terminal shows; 0: all."""


@dataclass(frozen=True, slots=True)
class Lead:
    """What to take away, at the top."""

    sentences: Sequence[str]
    items: Sequence[tuple[str, str]] = ()
    """Label and sentence."""
    where: Where = PAGE


@dataclass(frozen=True, slots=True)
class Pictures:
    """Panels of a chart beside each other."""

    panels: Callable[[], Sequence[Panel]]
    """Made only where they are shown."""
    ident: str
    """Prefix of the ids in the page."""
    notes: Sequence[str] = ()
    """Words under the first ones in place of their own."""
    layout: str = "pair"
    """pair, four, or "" for one alone."""
    where: Where = PAGE


@dataclass(frozen=True, slots=True)
class TextMap:
    """A picture of letters: for each name the range of y that belongs to it at each x."""

    title: str
    names: Sequence[str]
    x: Sequence[float]
    low: Sequence[Sequence[float]]
    high: Sequence[Sequence[float]]
    unit: str
    note: str = ""
    where: Where = SCREEN


@dataclass(frozen=True, slots=True)
class Section:
    """Blocks under a heading of the page."""

    heading: str
    blocks: Sequence[Block]
    where: Where = SHOWN | EXPLAIN | MARKDOWN
    folded: bool = False
    """Closed until the reader opens it."""


@dataclass(frozen=True, slots=True)
class Later:
    """Blocks that are made only where they are shown."""

    make: Callable[[], Iterable[Block]]
    where: Where = PAGE


Block = Paragraph | Items | Table | Lead | Pictures | TextMap | Section | Later


@dataclass(frozen=True, slots=True)
class Document:
    """A whole answer."""

    title: str
    blocks: Sequence[Block]
    titled: Where = SHOWN
    """Media that show the title; a page always does."""
    page_title: str = field(default="")
    """Title of the page, where it is another."""


def shown(blocks: Iterable[Block], here: Where) -> Iterator[Block]:
    """The blocks that appear in a medium, those of `Later` made."""
    for block in blocks:
        if not block.where & here:
            continue
        if isinstance(block, Later):
            yield from shown(block.make(), here)
        else:
            yield block


def flat(blocks: Iterable[Block], here: Where) -> Iterator[Block]:
    """The same without sections: their blocks one after the other."""
    for block in shown(blocks, here):
        if isinstance(block, Section):
            yield from flat(block.blocks, here)
        else:
            yield block


def cell(entry: Words | Cell) -> Cell:
    """Any entry of a row as a cell."""
    return entry if isinstance(entry, Cell) else Cell(entry)


def rows_of(
    columns: Sequence[str], records: Callable[[Any], Iterable[Any]] = iter
) -> Callable[[Any], list[list[Any]]]:
    """How an answer becomes rows for CSV in full precision, as `flatten` makes them."""
    return lambda found: flatten((record.to_dict() for record in records(found)), columns)


def flatten(records: Iterable[dict[str, Any]], columns: Sequence[str]) -> list[list[Any]]:
    """Rows of records for CSV, headings first.

    Args:
        records: as they serialise.
        columns: keys, or `heading=key.of.a.value.inside`; what is not there is None.
    """
    named = [column.partition("=") for column in columns]

    def value(record: Any, path: str) -> Any:
        for key in path.split("."):
            record = record.get(key) if isinstance(record, dict) else None
        return record

    rows = [[value(r, path or heading) for heading, _, path in named] for r in records]
    return [[heading for heading, _, _ in named], *rows]
