"""One look for every table of the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["new_console", "print_table"]

TEXT_COLUMNS = frozenset(
    (
        "",
        "bound by",
        "weights",
        "bottleneck",
        "source",
        "what",
        "why",
        "kind",
        "verdict",
        "model",
        "hardware",
        "set by",
    )
)


def new_console() -> Console:
    """Standard output for people: no highlighting of what Rich takes for numbers or paths."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False)


def print_table(
    console: Console, title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]
) -> None:
    """A table without lines: text columns to the left, numbers to the right, a blank line after."""
    from rich.table import Table
    from rich.text import Text

    # A title inside the table would wrap to the table's width.
    if title:
        console.print(Text(title, style="bold"))
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in headings:
        right = heading not in TEXT_COLUMNS
        table.add_column(heading, justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*[Text(cell) for cell in row])
    console.print(table)
    console.print()
