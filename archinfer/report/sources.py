"""Where the figures of a profile come from, as blocks and as a caption."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from importlib.metadata import version

from archinfer.hardware.figures import Figure
from archinfer.hardware.profile import Hardware
from archinfer.report import document as doc

BY_HAND = "set by hand"


def _unsure(figure: Figure) -> bool:
    carried = figure.source.startswith("calibration ")
    return bool(figure.log_sd or figure.estimate or carried or figure.source == BY_HAND)


def _rows(figures: Sequence[Figure]) -> list[tuple[str, str, str, doc.Cell]]:
    return [
        (
            f.key,
            f.text,
            f"x {math.exp(f.log_sd):.2f}" if f.log_sd else "",
            doc.Cell(f.source, more=f". {f.note}" if f.note else ""),
        )
        for f in figures
    ]


def provenance(
    hardware: Hardware, where: doc.Where, silent: tuple[str, ...] = ()
) -> Iterator[doc.Block]:
    """Every figure with its source: the unsure ones, and on pages the published ones too.

    Args:
        hardware: whose figures.
        where: media that show the unsure ones.
        silent: beginnings of the keys that play no part in the answer.
    """
    figures = hardware.provenance
    unsure = [
        f for f in figures if _unsure(f) and (f.source == BY_HAND or not f.key.startswith(silent))
    ]
    headings, align = ("what", "value", "1 sd", "source"), "prrw"
    title = (
        f"Figures of {hardware.name} that are fitted, estimated or set by hand "
        f"(all: archinfer hardware show {hardware.name})"
    )
    if unsure:
        yield doc.Table(title, headings, _rows(unsure), align, where)
    known = _rows([f for f in figures if f not in unsure])
    words = f"Other figures of {hardware.name}"
    if known:
        yield doc.Section(
            words, [doc.Table(words, headings, known, align, doc.PAGE)], doc.PAGE, folded=True
        )


def caption(hardware: Hardware) -> str:
    """Profile, version, and which of its figures are fitted, estimated or set."""
    unsure = [f.key for f in hardware.provenance if _unsure(f)]
    text = f"archinfer {version('archinfer')}, profile {hardware.name}."
    if unsure:
        text += f" Fitted, estimated or set by hand: {', '.join(unsure)}."
    return f"{text} Sources: archinfer hardware show {hardware.name}."
