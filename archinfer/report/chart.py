"""Charts as data: axes, marks and words, drawn by `plots` (matplotlib) and `svg` (the report).

A chart says what is shown, never how: both renderers draw the same numbers with the same words,
and tests compare those.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from archinfer.words import compact

COLOURS = {
    "ink": "#1a1a1a",
    "grey": "#6b6b6b",
    "orange": "#e69f00",
    "sky": "#56b4e9",
    "green": "#009e73",
    "yellow": "#f0e442",
    "blue": "#0072b2",
    "red": "#d55e00",
    "purple": "#cc79a7",
}
"""Okabe and Ito, Color Universal Design (2008): told apart in every form of colour blindness."""

DARK = {"ink": "#e8e8e8", "grey": "#a3a3a3", "sky": "#8ccdf2", "blue": "#3d9be0"}
"""The same on dark paper, where they differ: lighter, so that they stand out there."""

CIVIDIS = (
    "#00224e", "#123570", "#3b496c", "#575d6d", "#707173",
    "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838",
)  # fmt: skip
"""Ten steps of cividis (Nunez, Anderton and Renslow 2018): lightness rises evenly, so that the
order survives colour blindness and grey print."""

MASS_COLOURS, MASS_DARK = ("#2f6f9f", "#8ab8d9", "#d3e4f1"), ("#79b3dd", "#3a719b", "#1c3d58")
"""Of areas of probability on light and on dark paper: the outermost is the nearest to it."""

DASHES: tuple[tuple[float, ...], ...] = ((), (6.0, 2.5), (1.0, 2.0), (6.0, 2.0, 1.0, 2.0))
"""Line styles, in the order of series: on and off lengths."""

_TICKS_FEW = 3


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis."""

    label: str
    """Quantity with its unit, in which the ends are."""
    low: float
    high: float
    log: bool = True
    categories: tuple[str, ...] = ()
    """Names at 0, 1, 2, ... instead of numbers."""

    def fraction(self, value: float) -> float:
        """Where `value` lies between the ends: 0 at low, 1 at high."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def ticks(axis: Axis, most: int = 7, letters: int = 30) -> list[tuple[float, str]]:
    """Tick positions within the axis and their words, at most about `most` and so long."""
    if axis.categories:
        return [(float(i), _short(name, letters)) for i, name in enumerate(axis.categories)]
    if not axis.log:
        return _linear(axis, most)
    first, last = math.floor(math.log10(axis.low)), math.ceil(math.log10(axis.high))
    inside: list[float] = []
    for steps in ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0)):
        inside = [
            s * 10.0**d
            for d in range(first, last + 1)
            for s in steps
            if axis.low * (1 - 1e-9) <= s * 10.0**d <= axis.high * (1 + 1e-9)
        ]
        if len(inside) > _TICKS_FEW:
            break
    if len(inside) < _TICKS_FEW:
        return _linear(axis, most)
    stride = math.ceil(len(inside) / most)
    return [(v, compact(v)) for v in inside[::stride]]


def _short(name: str, most: int) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}\N{HORIZONTAL ELLIPSIS}"


def _linear(axis: Axis, most: int) -> list[tuple[float, str]]:
    raw = (axis.high - axis.low) / most
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(s * magnitude for s in (1.0, 2.0, 5.0, 10.0) if s * magnitude >= raw)
    start = math.ceil(axis.low / step - 1e-9)
    count = math.floor(axis.high / step + 1e-9) - start + 1
    return [(v, compact(v) if v else "0") for v in ((start + i) * step for i in range(count))]


@dataclass(frozen=True, slots=True)
class Band:
    """The area between two curves."""

    x: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    colour: str
    hatch: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class Curve:
    """A line through points."""

    x: Sequence[float]
    y: Sequence[float]
    colour: str = "ink"
    dash: tuple[float, ...] = ()
    width: float = 1.6
    label: str = ""


@dataclass(frozen=True, slots=True)
class Cells:
    """Coloured cells between edges `x` and `y`, ascending."""

    x: Sequence[float]
    y: Sequence[float]
    steps: Sequence[Sequence[int]]
    """For each row of cells (along y) and column the step, -1 where there is nothing."""
    colours: tuple[str, ...]
    """Of the steps."""
    bounds: tuple[str, ...]
    """Words at the lower edge of each step and the upper edge of the last; or as many as steps,
    then each names its step."""
    label: str
    """What the colour says, with its unit."""
    clip: tuple[tuple[float, float], ...] = ()
    """Corners (x, y) of the polygon outside which nothing is coloured; empty: none."""


@dataclass(frozen=True, slots=True)
class Points:
    """Markers, with error bars where ends are given; `names` may be empty texts."""

    x: Sequence[float]
    y: Sequence[float]
    colour: str = "ink"
    marker: str = "circle"
    label: str = ""
    names: Sequence[str] = ()
    x_ends: tuple[Sequence[float], Sequence[float]] | None = None
    y_ends: tuple[Sequence[float], Sequence[float]] | None = None
    size: float = 3.0


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle that marks a range of both quantities."""

    x: tuple[float, float]
    y: tuple[float, float]
    label: str
    colour: str = "red"


@dataclass(frozen=True, slots=True)
class Bars:
    """Horizontal bars from `start` to `end` at `y`; `texts` stand right of them."""

    y: Sequence[float]
    start: Sequence[float]
    end: Sequence[float]
    colours: Sequence[str]
    hatches: Sequence[str]
    texts: Sequence[str] = ()
    label: str = ""
    height: float = 0.62


@dataclass(frozen=True, slots=True)
class Note:
    """Words at a place; `dx` and `dy` shift them by points (dy upwards)."""

    x: float
    y: float
    text: str
    anchor: str = "middle"
    angle: float = 0.0
    colour: str = "ink"
    dx: float = 0.0
    dy: float = 0.0


Line = tuple[str, Sequence[float], Sequence[float], Sequence[str]]
"""Label, x, y and a name for each point ("" or none at all: no name)."""


Mark = Band | Curve | Cells | Points | Box | Bars | Note


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes with marks that are drawn in order."""

    title: str
    text: str
    """What is shown, in words for those who cannot see it."""
    x: Axis
    y: Axis
    marks: tuple[Mark, ...]
    legend: str = "upper left"
    """Corner of the list of labelled marks; "": none."""
    small: bool = False
    """A small multiple."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Panels in rows under one title, with the sources of the figures."""

    title: str
    rows: tuple[tuple[Panel, ...], ...]
    caption: str
    widths: tuple[float, ...] = field(default=())

    @property
    def panels(self) -> tuple[Panel, ...]:
        """All panels, row by row."""
        return tuple(p for row in self.rows for p in row)


def around(label: str, values: Sequence[float], room: float = 1.3) -> Axis:
    """A logarithmic axis that holds `values` and a factor of `room` on either side."""
    return Axis(label, min(values) / room, max(values) * room)


def rows_axis(names: Sequence[str], below: float = 0.4) -> Axis:
    """An axis of names from the top down, with room below the last for a legend."""
    return Axis("", len(names) - below, -0.6, log=False, categories=tuple(names))


def lines(drawn: Sequence[Line], size: float = 3.0) -> list[Mark]:
    """Each line with its points, told apart by colour and dash."""
    colours = [c for c in COLOURS if c not in ("ink", "grey", "yellow")]
    marks: list[Mark] = []
    for k, (label, x, y, names) in enumerate(drawn):
        colour = colours[k % len(colours)]
        marks.append(Curve(x, y, colour, DASHES[k % len(DASHES)]))
        marks.append(Points(x, y, colour, label=label, names=names, size=size))
    return marks


def text_width(text: str, size: float) -> float:
    """About how wide `text` is in a proportional face of `size`."""
    return 0.56 * size * len(text)


WIDTH, _HEIGHT, _SIZE = 430.0, 350.0, 10.5
"""About how large the axes of a panel and its letters are, in points."""

TextBox = tuple[float, float, float, float]


def note_box(note: Note, x: Axis, y: Axis) -> TextBox:
    """Where a note lies in a panel: left, lower, right and upper end in points."""
    long = text_width(note.text, _SIZE)
    across = x.fraction(note.x) * WIDTH + note.dx
    base = y.fraction(note.y) * _HEIGHT + note.dy
    if note.angle:
        return across - 6.0, base - long / 2.0, across + 6.0, base + long / 2.0
    left = across - {"start": 0.0, "middle": long / 2.0, "end": long}[note.anchor]
    return left, base - 3.0, left + long, base + 10.0


def overlap(one: TextBox, other: TextBox) -> bool:
    """Whether two boxes share a place."""
    return one[0] <= other[2] and other[0] <= one[2] and one[1] <= other[3] and other[1] <= one[3]


def point_box(across: float, up: float, x: Axis, y: Axis) -> TextBox:
    """Where a marker lies in a panel, as `note_box` for notes."""
    left, base = x.fraction(across) * WIDTH, y.fraction(up) * _HEIGHT
    return left - 4.0, base - 4.0, left + 4.0, base + 4.0


def first_free(
    tried: Sequence[Note], words: list[TextBox], points: Sequence[TextBox], x: Axis, y: Axis
) -> Note | None:
    """The first note on no word and no point, else on no word; its place joins `words`."""
    boxes = [(note, note_box(note, x, y)) for note in tried]
    clear = [(n, box) for n, box in boxes if not any(overlap(box, t) for t in words)]
    best = [(n, box) for n, box in clear if not any(overlap(box, p) for p in points)] or clear
    if not best:
        return None
    words.append(best[0][1])
    return best[0][0]


def names_that_fit(
    shown: Sequence[tuple[str, float, float]], x: Axis, y: Axis, notes: Sequence[Note], most: int
) -> list[str]:
    """A text for each (name, x, y): its name where it lies on no other and no note, else ""."""
    width, height, size = WIDTH, _HEIGHT, _SIZE
    taken = [note_box(note, x, y) for note in notes]
    names: list[str] = []
    room = len(taken) + most
    for name, a, b in shown:
        left, middle = x.fraction(a) * width + 5.0, y.fraction(b) * height
        box = (left, middle - 7.0, left + text_width(name, size), middle + 7.0)
        free = not any(overlap(box, t) for t in taken)
        if free and box[2] < width and len(taken) < room and name not in names:
            taken.append(box)
            names.append(name)
        else:
            names.append("")
    return names
