"""Where the figures of a machine come from: tables of sources, and captions of pictures."""

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


def figures_table(title: str, figures: Sequence[Figure], where: doc.Where) -> doc.Table:
    """Figures with their spreads and sources."""
    rows = [
        (
            f.key,
            f.text,
            f"x {math.exp(f.log_sd):.2f}" if f.log_sd else "",
            doc.Cell(f.source, more=f". {f.note}" if f.note else ""),
        )
        for f in figures
    ]
    return doc.Table(
        title, ("figure", "value", "1 sd", "source"), rows, "lprp", where, drop=("1 sd",)
    )


def provenance(
    hardware: Hardware, where: doc.Where, silent: tuple[str, ...] = ()
) -> Iterator[doc.Block]:
    """Every unsure figure with its source but `silent` ones; on pages the published ones too."""
    figures = hardware.provenance
    unsure = [
        f for f in figures if _unsure(f) and (f.source == BY_HAND or not f.key.startswith(silent))
    ]
    title = (
        f"Figures of {hardware.name} that are fitted, estimated or set by hand "
        f"(all: archinfer hardware show {hardware.name})"
    )
    if unsure:
        yield figures_table(title, unsure, where)
    known = [f for f in figures if f not in unsure]
    words = f"Other figures of {hardware.name}"
    if known:
        table = figures_table(words, known, doc.PAGE)
        yield doc.Section(words, [table], doc.PAGE, folded=True)


def caption(hardware: Hardware) -> str:
    """Profile, version, and which of its figures are fitted, estimated or set."""
    unsure = [f.key for f in hardware.provenance if _unsure(f)]
    text = f"archinfer {version('archinfer')}, profile {hardware.name}."
    if unsure:
        text += f" Fitted, estimated or set by hand: {', '.join(unsure)}."
    return f"{text} Sources: archinfer hardware show {hardware.name}."
