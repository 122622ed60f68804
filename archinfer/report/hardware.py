"""The shipped profiles, and every figure of one, as documents."""

from __future__ import annotations

from collections.abc import Sequence

from archinfer.hardware.profile import Hardware
from archinfer.report.document import ALL, SHOWN, Document, Paragraph, Table
from archinfer.report.sources import figures_table
from archinfer.units import format_quantity


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
