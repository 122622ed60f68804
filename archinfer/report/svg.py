"""A panel of a chart as inline SVG: no library, no script, no file beside it.

Colours are classes (`f-blue` fills, `s-blue` strokes); cells carry their own, which are data.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from archinfer.report import chart
from archinfer.report.markup import Markup, el, join

FONT = 12.0
NAME_FONT = 11.0
NARROW = 360.0
"""Width of a picture for a phone, where a unit is about a pixel."""
HATCH_STEP = 7
_HATCHES = {
    "/": "M0,7 L7,0",
    "\\": "M0,0 L7,7",
    "x": "M0,7 L7,0 M0,0 L7,7",
    "|": "M3.5,0 L3.5,7",
    "-": "M0,3.5 L7,3.5",
    "+": "M3.5,0 L3.5,7 M0,3.5 L7,3.5",
    "*": "M1.5,3.5 L5.5,3.5 M2.5,1.8 L4.5,5.2 M4.5,1.8 L2.5,5.2",
    ".": "M3,3.5 L4.2,3.5",
    "o": "M2,3.5 a1.6,1.6 0 1,0 3.2,0 a1.6,1.6 0 1,0 -3.2,0",
}


def colour_rules() -> str:
    """CSS of the colour classes, and of those that differ on dark paper."""

    def rules(colours: Mapping[str, str]) -> str:
        return "".join(
            f".f-{name}{{fill:{value}}}.s-{name}{{stroke:{value}}}"
            for name, value in colours.items()
        )

    cells = zip(chart.MASS_COLOURS, chart.MASS_DARK, strict=True)
    dark = "".join(f'[fill="{light}"]{{fill:{other}}}' for light, other in cells)
    screen = "@media screen and (prefers-color-scheme: dark)"
    return f"{rules(chart.COLOURS)}{screen}{{{rules(chart.DARK)}{dark}}}"


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where the axes are, in the units of the picture."""

    panel: chart.Panel
    ident: str
    width: float
    narrow: bool
    """drawn for a phone"""
    left: float
    right: float
    top: float
    bottom: float

    def x(self, value: float) -> float:
        share = self.panel.x.fraction(value)
        return self.left + share * (self.right - self.left)

    def y(self, value: float) -> float:
        share = self.panel.y.fraction(value)
        return self.bottom - share * (self.bottom - self.top)

    def points(self, xs: Sequence[float], ys: Sequence[float]) -> str:
        return " ".join(f"{self.x(a):.1f},{self.y(b):.1f}" for a, b in zip(xs, ys, strict=True))


def svg(panel: chart.Panel, ident: str, width: float = 600.0, height: float = 430.0) -> Markup:
    """The panel as an SVG element of a size in its own units; `ident` begins all ids inside."""
    if panel.y.categories:
        height = min(height, 110.0 + 38.0 * len(panel.y.categories))
    narrow = width <= NARROW and not panel.small
    legend = _legend(panel, ident, width, narrow)
    few = 4 if narrow or panel.small else 6
    rows = chart.ticks(panel.y, few, 14 if narrow else 30)
    widest = max(chart.text_width(t, FONT) for _, t in rows)
    bar = next((m for m in panel.marks if isinstance(m, chart.Cells)), None)
    beside = 64.0 if narrow else 108.0
    frame = _Frame(
        panel,
        ident,
        width,
        narrow,
        left=widest + (34.0 if panel.y.label else 14.0),
        right=width - (beside if bar else 16.0),
        top=12.0,
        bottom=height - 46.0,
    )
    inside = el("g", [_mark(frame, m) for m in panel.marks], clip_path=f"url(#{ident}-area)")
    total = height + legend[1]
    return el(
        "svg",
        el("title", panel.title, id=f"{ident}-title"),
        el("desc", panel.text, id=f"{ident}-desc"),
        _definitions(frame),
        inside,
        _axes(frame, chart.ticks(panel.x, few), rows),
        # Words and names may reach over the edge of the axes.
        _words(frame),
        _colour_bar(frame, bar) if bar else "",
        el("g", legend[0], transform=f"translate(0,{height:.0f})"),
        viewBox=f"0 0 {width:.0f} {total:.0f}",
        role="img",
        aria_labelledby=f"{ident}-title {ident}-desc",
        class_="chart small" if panel.small else "chart narrow" if narrow else "chart",
        xmlns="http://www.w3.org/2000/svg",
    )


def _definitions(frame: _Frame) -> Markup:
    width, height = frame.right - frame.left, frame.bottom - frame.top
    area = _rect(frame.left, frame.top, width, height)
    parts = [el("clipPath", area, id=f"{frame.ident}-area")]
    for mark in frame.panel.marks:
        if isinstance(mark, chart.Cells) and mark.clip:
            corners = frame.points([c[0] for c in mark.clip], [c[1] for c in mark.clip])
            parts.append(el("clipPath", el("polygon", points=corners), id=f"{frame.ident}-clip"))
    hatches = {h for m in frame.panel.marks if isinstance(m, chart.Bars) for h in m.hatches if h}
    size = {"width": HATCH_STEP, "height": HATCH_STEP, "patternUnits": "userSpaceOnUse"}
    for hatch in sorted(hatches):
        line = el("path", d=_HATCHES[hatch], fill="none", class_="hatch")
        parts.append(el("pattern", line, id=_pattern_id(frame.ident, hatch), **size))
    return el("defs", parts)


def _pattern_id(ident: str, hatch: str) -> str:
    return f"{ident}-hatch{ord(hatch)}"


def _rect(x: float, y: float, width: float, height: float, **more: object) -> Markup:
    return el("rect", x=x, y=y, width=width, height=height, **more)


def _path(d: str, kind: str, **more: object) -> Markup:
    return el("path", d=d, class_=kind, **more)


def _text(
    x: float, y: float, words: str, anchor: str, size: float = FONT, **more: object
) -> Markup:
    return el("text", words, x=x, y=y, text_anchor=anchor, font_size=size, **more)


def _axes(
    frame: _Frame, columns: Sequence[tuple[float, str]], rows: Sequence[tuple[float, str]]
) -> Markup:
    panel = frame.panel
    edge = f"M{frame.left:.1f},{frame.top:.1f} V{frame.bottom:.1f} H{frame.right:.1f}"
    parts = [_path(edge, "axis")]
    for value, word in columns:
        x = frame.x(value)
        parts.append(_path(f"M{x:.1f},{frame.bottom:.1f} v5", "axis"))
        parts.append(_text(x, frame.bottom + 18.0, word, "middle"))
    for value, word in rows:
        y = frame.y(value)
        parts.append(_path(f"M{frame.left:.1f},{y:.1f} h-5", "axis"))
        parts.append(_text(frame.left - 8.0, y + 4.0, word, "end"))
    half = chart.text_width(panel.x.label, FONT) / 2.0
    middle = min((frame.left + frame.right) / 2.0, frame.width - half)
    parts.append(_text(middle, frame.bottom + 38.0, panel.x.label, "middle"))
    if panel.y.label:
        parts.append(_upright(14.0, (frame.top + frame.bottom) / 2.0, panel.y.label))
    return el("g", parts)


def _upright(
    x: float, y: float, words: str, anchor: str = "middle", size: float = FONT, **more: object
) -> Markup:
    return _text(x, y, words, anchor, size, transform=f"rotate(-90 {x:.1f} {y:.1f})", **more)


def _mark(frame: _Frame, mark: chart.Mark) -> Markup:
    match mark:
        case chart.Band():
            there = frame.points(mark.x, mark.high)
            back = frame.points(list(reversed(mark.x)), list(reversed(mark.low)))
            return el("polygon", points=f"{there} {back}", class_=f"f-{mark.colour}")
        case chart.Curve():
            return _line(frame, mark)
        case chart.Cells():
            return _cells(frame, mark)
        case chart.Points():
            return _points(frame, mark)
        case chart.Box():
            (left, right), (bottom, top) = map(frame.x, mark.x), map(frame.y, mark.y)
            kind = f"box s-{mark.colour}"
            return _rect(left, top, right - left, bottom - top, class_=kind)
        case chart.Bars():
            return _bars(frame, mark)
        case chart.Note():
            return Markup("")


def _line(frame: _Frame, mark: chart.Curve) -> Markup:
    """The line on a white one, so that it stands out from dark colours as well."""
    points = frame.points(mark.x, mark.y)
    width, dashes = mark.width, _dashes(mark)
    back = _path(f"M{points}", "line back", stroke_width=width + 2.0, stroke_dasharray=dashes)
    style = {"class_": f"line s-{mark.colour}", "stroke_width": width, "stroke_dasharray": dashes}
    return join(back, el("polyline", points=points, **style))


def _dashes(mark: chart.Curve) -> str | None:
    return " ".join(f"{2 * d:g}" for d in mark.dash) or None


def _cells(frame: _Frame, mark: chart.Cells) -> Markup:
    """Neighbours of one colour in a row become one rectangle."""
    parts = []
    for j, row in enumerate(mark.steps):
        high, low = frame.y(mark.y[j + 1]), frame.y(mark.y[j])
        start = 0
        while start < len(row):
            stop = start
            while stop < len(row) and row[stop] == row[start]:
                stop += 1
            if row[start] >= 0:
                left, right = frame.x(mark.x[start]), frame.x(mark.x[stop])
                # A hair over the edges, so that no seam shows.
                d = f"M{left:.1f},{high - 0.2:.1f}H{right + 0.3:.1f}V{low + 0.2:.1f}H{left:.1f}z"
                parts.append(el("path", d=d, fill=mark.colours[row[start]]))
            start = stop
    clip = f"url(#{frame.ident}-clip)" if mark.clip else None
    return el("g", parts, clip_path=clip, shape_rendering="crispEdges")


def _marker(kind: str, x: float, y: float, size: float, colour: str) -> Markup:
    match kind:
        case "circle":
            return el("circle", cx=x, cy=y, r=size + 0.5, class_=f"point f-{colour}")
        case "cross":
            d = f"M{x - size:.1f},{y - size:.1f}l{2 * size:g},{2 * size:g}"
            d += f"M{x - size:.1f},{y + size:.1f}l{2 * size:g},{-2 * size:g}"
            return _path(d, f"line s-{colour}")
        case "triangle":
            d = f"M{x:.1f},{y - size - 1:.1f}l{size + 1:g},{2 * size + 1:g}h{-2 * size - 2:g}z"
            return _path(d, f"point f-{colour}")
        case _:
            return _rect(x - size, y - size, 2 * size, 2 * size, class_=f"point f-{colour}")


def _points(frame: _Frame, mark: chart.Points) -> Markup:
    parts = []
    cap, line = 3.5, f"line s-{mark.colour}"
    for i, (vx, vy) in enumerate(zip(mark.x, mark.y, strict=True)):
        x, y = frame.x(vx), frame.y(vy)
        if mark.x_ends is not None:
            a, b = (frame.x(ends[i]) for ends in mark.x_ends)
            d = f"M{a:.1f},{y:.1f}H{b:.1f}M{a:.1f},{y - cap:.1f}v7M{b:.1f},{y - cap:.1f}v7"
            parts.append(_path(d, line))
        if mark.y_ends is not None:
            a, b = (frame.y(ends[i]) for ends in mark.y_ends)
            d = f"M{x:.1f},{a:.1f}V{b:.1f}M{x - cap:.1f},{a:.1f}h7M{x - cap:.1f},{b:.1f}h7"
            parts.append(_path(d, line))
        parts.append(_marker(mark.marker, x, y, mark.size, mark.colour))
    return el("g", parts)


def _bars(frame: _Frame, mark: chart.Bars) -> Markup:
    parts = []
    for i, at in enumerate(mark.y):
        left, right = frame.x(mark.start[i]), frame.x(mark.end[i])
        top, bottom = sorted((frame.y(at - mark.height / 2.0), frame.y(at + mark.height / 2.0)))
        box = left, top, max(right - left, 0.0), bottom - top
        parts.append(_bar(frame.ident, mark, i, box))
        if mark.texts:
            words, middle = mark.texts[i], (top + bottom) / 2.0 + 4.0
            if right + 5.0 + chart.text_width(words, FONT) <= frame.width:
                parts.append(_text(right + 5.0, middle, words, "start"))
            else:
                parts.append(_text(left - 5.0, middle, words, "end"))
    return el("g", parts)


def _bar(ident: str, mark: chart.Bars, i: int, box: tuple[float, float, float, float]) -> Markup:
    """The area of a bar and the hatch over it."""
    plain = _rect(*box, class_=f"bar f-{mark.colours[i]}")
    if not mark.hatches[i]:
        return plain
    return join(plain, _rect(*box, fill=f"url(#{_pattern_id(ident, mark.hatches[i])})"))


def _labels(frame: _Frame) -> Iterator[tuple[float, float, str, str, float, bool]]:
    """Notes and names of points: place, words, anchor, size, and whether they stand upright."""
    for m in frame.panel.marks:
        if isinstance(m, chart.Note):
            upright = bool(m.angle)
            x, y = frame.x(m.x) + m.dx + 4.0 * upright, frame.y(m.y) - m.dy
            yield x, y, m.text, "middle" if upright else m.anchor, FONT, upright
        elif isinstance(m, chart.Points):
            for a, b, name in zip(m.x, m.y, m.names, strict=False):
                yield frame.x(a) + 6.0, frame.y(b) + 4.0, name, "start", NAME_FONT, False


def _words(frame: _Frame) -> Iterator[Markup]:
    """Notes before names; a phone shows, inside of its axes, those that lie on none before."""
    taken: list[chart.TextBox] = []
    for x, y, text, anchor, size, upright in sorted(_labels(frame), key=lambda one: -one[4]):
        long = 0.0 if upright else chart.text_width(text, size)
        before = long * {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor]
        if frame.narrow:
            x = min(max(x, frame.left + 3.0 + before), frame.right - long + before)
            half = chart.text_width(text, size) / 2.0 if upright else 0.0
            y = min(max(y, frame.top + half), frame.bottom - half - 4.0)
            box = x - before - 10.0 * upright, y - 10.0 - half, x - before + long, y + 3.0 + half
            if not text or box[1] < 0.0 or any(chart.overlap(box, other) for other in taken):
                continue
            taken.append(box)
        if text:
            yield (_upright if upright else _text)(x, y, text, anchor, size, class_="halo")


def _colour_bar(frame: _Frame, mark: chart.Cells) -> Markup:
    left, width = frame.right + 14.0, 12.0
    count = len(mark.colours)
    step = (frame.bottom - frame.top) / count
    parts = [
        _rect(left, frame.bottom - (i + 1) * step, width, step + 0.3, fill=colour)
        for i, colour in enumerate(mark.colours)
    ]
    named = len(mark.bounds) == count
    for i, word in enumerate(mark.bounds):
        y = frame.bottom - (i + (0.5 if named else 0.0)) * step
        parts.append(_text(left + width + 4.0, y + 4.0, word, "start", NAME_FONT))
    if frame.narrow:
        return el("g", parts)
    middle = (frame.top + frame.bottom) / 2.0
    widest = max(chart.text_width(word, NAME_FONT) for word in mark.bounds)
    size = min(NAME_FONT, (frame.bottom - frame.top) / chart.text_width(mark.label, 1.0) * 1.05)
    x = left + width + 1.15 * widest + 20.0
    parts.append(_upright(x, middle, mark.label, size=size))
    return el("g", parts)


def _legend(
    panel: chart.Panel, ident: str, width: float, narrow: bool
) -> tuple[list[Markup], float]:
    """Entries in rows under the axes, and the height that they take; a phone names colours here."""
    parts: list[Markup] = []
    x, y, line = 12.0, 14.0, 20.0
    for mark in panel.marks:
        label = "" if isinstance(mark, chart.Note) else mark.label
        colours = isinstance(mark, chart.Cells)
        if not label or not (narrow if colours else panel.legend):
            continue
        label = f"Colour: {label}" if colours else label
        letters = int((width - 46.0) / chart.text_width(" ", FONT)) if narrow else 999
        first, *rest = textwrap.wrap(label, letters)
        need = 34.0 + chart.text_width(label, FONT) + 18.0
        if x + need > width and x > 12.0:
            x, y = 12.0, y + line
        parts.append(_key(mark, ident, x, y))
        parts.append(_text(x + 34.0, y + 4.0, first, "start"))
        for more in rest:
            y += 16.0
            parts.append(_text(x + 34.0, y + 4.0, more, "start"))
        x += need
    return parts, y + line if parts else 0.0


def _key(mark: chart.Mark, ident: str, x: float, y: float) -> Markup:
    box = x, y - 6.0, 26.0, 12.0
    match mark:
        case chart.Curve():
            style = {"stroke_width": mark.width, "stroke_dasharray": _dashes(mark)}
            return _path(f"M{x:.1f},{y:.1f}h26", f"line s-{mark.colour}", **style)
        case chart.Points():
            return _marker(mark.marker, x + 13.0, y, mark.size, mark.colour)
        case chart.Box():
            return _rect(*box, class_=f"box s-{mark.colour}")
        case chart.Bars():
            return _bar(ident, mark, 0, box)
        case chart.Band():
            return _rect(*box, class_=f"f-{mark.colour}")
        case _:
            return Markup("")
