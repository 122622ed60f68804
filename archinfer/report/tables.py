"""One look for every table of the terminal.

In a terminal (or with COLUMNS set) a table keeps to the width there is: headings and texts wrap
between words, then columns that may go are left out and named below, then each row becomes a
paragraph. Where the output goes to a file or a pipe, lines are as long as they need to be.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["PIPE_WIDTH", "new_console", "print_table"]

PIPE_WIDTH = 100
"""Where the output is no terminal, sentences wrap here, and tables where they can."""

TEXT_COLUMNS = frozenset(
    (
        "",
        "announced",
        "bound by",
        "bottleneck",
        "execution",
        "figure",
        "hardware",
        "kind",
        "limit",
        "model",
        "name",
        "parameter",
        "row",
        "set by",
        "source",
        "verdict",
        "weights",
        "what",
        "what it is",
        "why",
    )
)
"""Headings of columns that stand to the left."""

_WRAP = frozenset(("", "bound by", "source", "verdict", "what", "what it is", "why"))
"""Headings of columns whose cells may break between words."""

_PLAIN = frozenset(("", "what", "what it is", "why"))
"""Headings that say nothing where a row is words."""


def _free(console: Console) -> bool:
    """Whether lines may be as long as they need to be."""
    return not console.is_terminal and "COLUMNS" not in os.environ


def new_console() -> Console:
    """Standard output for people: no highlighting of what Rich takes for numbers or paths."""
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=False)
    if _free(console):
        console = Console(highlight=False, soft_wrap=False, width=PIPE_WIDTH)
    return console


@dataclass(frozen=True, slots=True)
class _Column:
    heading: str
    cells: tuple[str, ...]

    @property
    def text(self) -> bool:
        return self.heading in TEXT_COLUMNS

    @property
    def widest(self) -> int:
        """Width without a break."""
        return max(map(_width, (self.heading, *self.cells)))

    @property
    def narrowest(self) -> int:
        """Width in which no word breaks; the cells of most columns stay whole."""
        broken = [self.heading, *(self.cells if self.heading in _WRAP else ())]
        words = [word for text in broken for word in text.split()]
        whole = () if self.heading in _WRAP else self.cells
        return max(map(_width, (*words, *whole)), default=0)


def _width(text: str) -> int:
    from rich.cells import cell_len

    return max((cell_len(line) for line in text.splitlines()), default=0)


def _fit(columns: Sequence[_Column], room: int) -> list[int] | None:
    """A width for each column so that all take `room` at most; None where none fit."""
    widths = [c.widest for c in columns]
    least = [c.narrowest for c in columns]
    spare = room - (len(columns) - 1)
    while sum(widths) > spare:
        able = [i for i, w in enumerate(widths) if w > least[i]]
        if not able:
            return None
        widths[max(able, key=lambda i: widths[i])] -= 1
    return widths


def print_table(
    console: Console,
    title: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    optional: Sequence[str] = (),
) -> None:
    """A table without lines: text columns to the left, numbers to the right, a blank line after.

    Args:
        console: of `new_console`.
        title: "" for none.
        headings, rows: all of the same length.
        optional: headings of columns that a narrow terminal may leave out, the first one first.
    """
    from rich.text import Text

    # A title inside the table would wrap to the table's width.
    if title:
        console.print(Text(title, style="bold"))
    columns = [_Column(h, tuple(r[i] for r in rows)) for i, h in enumerate(headings)]
    room = console.width
    if _free(console):
        room = max(room, sum(c.narrowest for c in columns) + len(columns) - 1)
    left_out: list[str] = []
    widths = _fit(columns, room)
    if widths is None and optional:
        kept = list(columns)
        for heading in optional:
            kept = [c for c in kept if c.heading != heading]
            left_out.append(heading)
            widths = _fit(kept, room)
            if widths is not None:
                columns = kept
                break
    if widths is None:
        _print_paragraphs(console, headings, rows)
        return
    _print_columns(console, columns, widths, room)
    if left_out:
        names = ", ".join(left_out)
        console.print(Text(f"(Left out, the window is narrow: {names}; --format json has all.)"))
    console.print()


def _print_columns(
    console: Console, columns: Sequence[_Column], widths: Sequence[int], room: int
) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for column, width in zip(columns, widths, strict=True):
        table.add_column(
            column.heading,
            justify="left" if column.text else "right",
            overflow="fold",
            width=width,
        )
    for row in zip(*(c.cells for c in columns), strict=True):
        table.add_row(*[Text(cell) for cell in row])
    if room > console.width:
        Console(highlight=False, soft_wrap=False, width=room).print(table)
    else:
        console.print(table)


def _print_paragraphs(
    console: Console, headings: Sequence[str], rows: Sequence[Sequence[str]]
) -> None:
    """Each row as words: its first cell, then every heading with its value."""
    from rich.text import Text

    for first, *rest in rows:
        pairs = [
            v if h in _PLAIN else f"{h} {v}" for h, v in zip(headings[1:], rest, strict=True) if v
        ]
        console.print(Text(f"{first}: {'; '.join(pairs)}"))
    console.print()
