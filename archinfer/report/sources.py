"""The shipped profiles, and where the figures of a machine come from: tables and captions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from importlib.metadata import version

from archinfer.hardware.figures import Figure
from archinfer.hardware.profile import Hardware
from archinfer.report import document as doc
from archinfer.report.document import ALL, SHOWN, Document, Paragraph, Table
from archinfer.units import format_quantity

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


def list_document(profiles: Sequence[Hardware]) -> Document:
    """The shipped profiles."""
    rows = [
        (
            h.name,
            h.execution,
            format_quantity(float(h.memory_capacity_bytes), "bytes"),
            format_quantity(float(h.bandwidth_bytes_per_s), "bytes_per_s"),
            h.title,
        )
        for h in profiles
    ]
    headings = ("name", "execution", "memory", "bandwidth", "what it is")
    return Document("", [Table("", headings, rows, "llrrp", ALL)])


def show_document(hardware: Hardware) -> Document:
    """Every figure of a profile, how sure it is and where it comes from."""
    told = [f"one node is a {hardware.node}; {hardware.execution} execution"]
    if hardware.usual_software:
        told.append(f"constants are those of: {hardware.usual_software}")
    for other, factor, sd, routed in hardware.software:
        spread = f" (log sd {sd:.2g})" if sd else ""
        fewer = f", kernels of routed experts: x {routed:.3g}" if routed != 1.0 else ""
        told.append(f"fixed times with {other}: x {factor:.3g}{spread}{fewer}")
    blocks = [Paragraph(text, tight=text is not told[-1]) for text in told]
    table = figures_table("", hardware.provenance, SHOWN)
    return Document(f"{hardware.name}: {hardware.title}", [*blocks, table])
