"""Documents on a terminal.

In a terminal (or with COLUMNS set) a table keeps to the width there is: headings and texts wrap
between words, then columns are left out and named below, the least important first, and where two
do not fit each row becomes a paragraph. Where the output goes to a file or a pipe, lines are as
long as they need to be.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from archinfer.report import document as doc
from archinfer.words import compact

PIPE_WIDTH = 100
"""Where the output is no terminal, sentences wrap here, and tables where they can."""

PATH = 24
"""Letters from which a word is taken for a path, which may break."""

FEWEST = 2
"""Columns that stay, however narrow the window is."""

MAP_ROWS, MAP_WIDTH = 12, 80
"""Size of a map of letters; a narrower window makes it narrower."""

_TIED, _TIE = (
    re.compile(
        r"(?<=\S) (?=<)|(?<=<) (?=\S)|(?<=\d) (?=%)|(?<=\bx) (?=\d)"
        r"|(?<=\d) (?=(?:[kMGTPE]?i?B(?:/s)?|[num]?s|[kM]?W|USD(?:/h)?|tokens/s)\b)"
        r"|(?<=[\d%TBMk]) (?=to \d)|(?<=[\d%TBMk] to) (?=\d)"
    ),
    "\ue000",
)
"""Blanks inside a number, a range or a quantity, where no line breaks; what stands for them until
the lines are made."""

_STYLES = {"strong": "bold", "soft": "dim", "good": "green", "bad": "bold red"}


def _free(console: Console) -> bool:
    """Whether lines may be as long as they need to be."""
    return not console.is_terminal and "COLUMNS" not in os.environ


def new_console() -> Console:
    """Standard output for people: no highlighting of what Rich takes for numbers or paths."""
    console = _console()
    return _console(PIPE_WIDTH) if _free(console) else console


def _console(width: int | None = None) -> Console:
    # Rich itself leaves out the colours alone, and still writes in bold.
    colors: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    return Console(highlight=False, soft_wrap=False, width=width, color_system=colors)


def print_document(document: doc.Document, explain: bool = False) -> None:
    """The document on standard output, with the blocks that stand for --explain if asked."""
    console = new_console()
    with console.capture() as captured:
        _print(console, document, explain)
    lines = captured.get().replace(_TIE, " ").splitlines()
    # A file or a pipe gets no blanks at the ends of lines.
    ends = None if console.is_terminal else " "
    console.file.writelines(f"{line.rstrip(ends) if ends else line}\n" for line in lines)


def _print(console: Console, document: doc.Document, explain: bool) -> None:
    here = doc.SCREEN | doc.EXPLAIN if explain else doc.SCREEN
    gap = False
    if document.title and document.titled & here:
        console.print(_text(document.title, "strong"))
    for block in doc.flat(document.blocks, here):
        if gap:
            console.print()
        gap = not (isinstance(block, doc.Paragraph) and block.tight)
        match block:
            case doc.Paragraph():
                _line(console, _text(block.words, block.style), block.whole, 6 * block.whole)
            case doc.Lead():
                for sentence in block.sentences:
                    console.print(_text(sentence, "strong"))
                for label, text in block.items:
                    console.print(_text((doc.Span(f"{label}:"), f" {text}")))
            case doc.Items():
                _items(console, block)
            case doc.Table():
                _print_table(console, block, here)
            case doc.TextMap():
                _map(console, block)


def _text(words: doc.Words, style: str = "", tied: bool = True) -> Text:
    parts = [doc.Span(w, "") if isinstance(w, str) else w for w in
             ((words,) if isinstance(words, str) else words)]  # fmt: skip
    made = [
        (_TIED.sub(_TIE, part.text) if tied else part.text, _STYLES.get(part.style, ""))
        for part in parts
    ]
    return Text.assemble(*made, style=_STYLES.get(style, ""))


def _line(console: Console, text: Text, whole: bool, hang: int = 0) -> None:
    """Words that wrap, the lines after the first `hang` further in; `whole`: not in a pipe."""
    if whole and _free(console):
        console.print(text, soft_wrap=True)
        return
    first, *rest = text.wrap(console, console.width - hang)
    console.print(first)
    for line in rest:
        console.print(Text.assemble(" " * hang, line))


def _items(console: Console, block: doc.Items) -> None:
    if block.title:
        console.print(_text(block.title, "strong"))
    for item in block.items:
        _line(console, Text.assemble(block.bullet, _text(item)), block.whole, len(block.bullet))


@dataclass(frozen=True, slots=True)
class _Column:
    heading: str
    align: str
    cells: tuple[Text, ...]

    @property
    def wraps(self) -> bool:
        return self.align in "wp"

    @property
    def widest(self) -> int:
        """Width without a break."""
        return max(map(_width, (self.heading, *(c.plain for c in self.cells))))

    @property
    def narrowest(self) -> int:
        """Width in which no word but a path breaks, and no percentage of a heading; the cells of
        most columns stay whole."""
        cells = [c.plain for c in self.cells]
        words = [_width(word) for word in re.findall(r"\S+ %|\S+", self.heading)]
        if self.wraps:
            words += [min(_width(word), PATH) for text in cells for word in text.split()]
        return max([*words, *(() if self.wraps else map(_width, cells))], default=0)


def _width(text: str) -> int:
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


def _columns(console: Console, table: doc.Table, here: doc.Where) -> list[_Column]:
    """The columns that show, with their cells as text."""
    rows = table.rows[: table.most or None]
    width = max(8, min(30, console.width - 64))
    found = []
    for i, (heading, align) in enumerate(zip(table.headings, table.align, strict=True)):
        cells = [doc.cell(row[i]) for row in rows]
        if align != "b":
            # Sentences beside figures have little room.
            texts = tuple(_text(c.words, tied=align != "p") for c in cells)
            found.append(_Column(heading, align, texts))
        elif here & doc.EXPLAIN:
            bars = tuple(Text(bar(c.value or 0.0, width, unicode_ok())) for c in cells)
            found.append(_Column(heading, align, bars))
    return found


def _print_table(console: Console, table: doc.Table, here: doc.Where = doc.SCREEN) -> None:
    """A table without lines: words to the left, numbers to the right."""
    # A title inside the table would wrap to the table's width.
    if table.title:
        console.print(_text(table.title, "strong"))
    columns = _columns(console, table, here)
    room = console.width
    if _free(console):
        room = max(room, sum(c.narrowest for c in columns) + len(columns) - 1)
    kept, widths, left_out = columns, _fit(columns, room), list[str]()
    for column in _least_first(columns, table.drop):
        if widths is not None or len(kept) <= FEWEST:
            break
        kept = [c for c in kept if c is not column]
        left_out += [column.heading] if column.heading else []
        widths = _fit(kept, room)
    if widths is None:
        _print_paragraphs(console, columns)
        return
    _print_columns(console, kept, widths, room)
    if left_out:
        names = ", ".join(dict.fromkeys(left_out))
        console.print(_text(f"(Left out, the window is narrow: {names}; --format json has all.)"))


def _least_first(columns: Sequence[_Column], drop: Sequence[str]) -> Iterator[_Column]:
    """Columns that may go: bars, those named, then from the right those that hold no sentences."""
    yield from (c for c in columns if c.align == "b")
    for heading in drop:
        yield from (c for c in columns if c.heading == heading)
    yield from (c for c in columns[:0:-1] if not c.wraps and c.heading not in drop)


def _print_columns(
    console: Console, columns: Sequence[_Column], widths: Sequence[int], room: int
) -> None:
    headed = any(c.heading for c in columns)
    grid = Grid(box=None, show_header=headed, pad_edge=False, padding=(0, 1, 0, 0))
    for column, width in zip(columns, widths, strict=True):
        right = column.align == "r"
        grid.add_column(
            column.heading, justify="right" if right else "left", overflow="fold", width=width
        )
    for row in zip(*(c.cells for c in columns), strict=True):
        grid.add_row(*row)
    before, console.width = console.width, max(room, console.width)
    console.print(grid)
    console.width = before


def _print_paragraphs(console: Console, columns: Sequence[_Column]) -> None:
    """Each row as words: its first cell, then every value, each after its heading."""
    first, *rest = columns
    for i, name in enumerate(first.cells):
        pairs = [
            c.cells[i].plain if c.align in "pb" else f"{c.heading} {c.cells[i].plain}"
            for c in rest
            if c.cells[i].plain
        ]
        named = f"{first.heading} {name.plain}".strip()
        console.print(_text(f"{named}: {'; '.join(pairs)}"))


def unicode_ok() -> bool:
    """Whether standard output can show block characters."""
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower()
    return encoding.replace("-", "").startswith("utf")


def bar(share: float, width: int, blocks: bool) -> str:
    """A bar of `width` cells filled to `share`."""
    if not blocks:
        return "#" * round(share * width)
    eighths = round(share * width * 8)
    full, rest = divmod(eighths, 8)
    return "█" * full + ("" if rest == 0 else " ▏▎▍▌▋▊▉"[rest])


def _map(console: Console, block: doc.TextMap) -> None:
    marks = "█▓▒░·" if unicode_ok() else "#x=-."
    letters = [marks[min(i, len(marks) - 1)] for i in range(len(block.names))]
    width = max(20, min(console.width, MAP_WIDTH) - 9)
    console.print(_text(block.title, "strong"))
    for row in map_rows(block, letters, width, MAP_ROWS):
        console.print(Text(row), no_wrap=True, overflow="crop")
    legend = "  ".join(f"{m} {name}" for m, name in zip(letters, block.names, strict=True))
    console.print(Text(f"{legend}   ({block.note})" if block.note else legend))


def map_rows(block: doc.TextMap, letters: Sequence[str], width: int, height: int) -> list[str]:
    """Rows of a map, y on a log axis; earlier letters are drawn over later ones.

    A cell shows whatever lies there at any of its x (nan: nothing); where there are more cells
    than x, a cell shows the nearest. One letter a name.
    """
    finite = [v for ends in (*block.high, *block.low) for v in ends if v == v and v > 0]
    low, high = math.log10(min(finite)), math.log10(max(finite))
    # The first row is the highest end, the last one the lowest.
    step = (high - low) / (height - 1)
    held = _cells_of(block.x, width)

    def letter(value: float, here: Sequence[int]) -> str:
        inside = (
            mark
            for mark, tops, bottoms in zip(letters, block.high, block.low, strict=True)
            for j in here
            if tops[j] == tops[j]
            and math.log10(bottoms[j]) - 1e-9 <= value <= math.log10(tops[j]) + 1e-9
        )
        return next(inside, " ")

    rows = []
    for r in range(height):
        value = high - r * step
        label = compact(10**value, 2) if r % 3 == 0 else ""
        rows.append(f"{label:>6} |{''.join(letter(value, here) for here in held)}")
    left, right = f"{min(block.x):g}", f"{max(block.x):g} {block.unit}"
    gap = max(width - len(left) - len(right), 1)
    return [*rows, " " * 7 + "+" + "-" * width, " " * 8 + left + " " * gap + right]


def _cells_of(columns: Sequence[float], width: int) -> list[list[int]]:
    """Positions in `columns` that each of `width` cells shows, every one in some cell."""
    first, span = min(columns), max(max(columns) - min(columns), 1.0)
    held: list[list[int]] = [[] for _ in range(width)]
    for j, value in enumerate(columns):
        held[min(int((value - first) / span * width), width - 1)].append(j)
    nearest: Callable[[float], int] = lambda wanted: min(  # noqa: E731
        range(len(columns)), key=lambda i: abs(columns[i] - wanted)
    )
    return [here or [nearest(first + (c + 0.5) / width * span)] for c, here in enumerate(held)]
