"""What to know before a predicted speed is used: sources of the figures, warnings and notes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version

from archinfer.fitting.extent import extent
from archinfer.forward.predict import SERVER
from archinfer.forward.prediction import Prediction
from archinfer.hardware.figures import Figure
from archinfer.hardware.profile import Hardware
from archinfer.models.architecture import Architecture
from archinfer.report import document as doc
from archinfer.words import compact, counted

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


def uneven_groups(placed: Iterable[tuple[Architecture, float]]) -> list[str]:
    """One text for each size of groups of nodes that cannot share the heads of a model evenly."""
    heads: dict[int, set[int]] = {}
    for architecture, group in placed:
        heads.setdefault(round(group), set()).update(architecture.uneven_heads(round(group)))
    return [
        f"{' or '.join(map(str, sorted(found)))} heads do not divide by tp={group}, which vLLM and "
        "TensorRT-LLM refuse: the figures are those of an even split"
        for group, found in sorted(heads.items())
        if found
    ]


def unfilled_stages(result: Prediction) -> list[str]:
    """What to say of a mapping with more stages than its model's whole layers fill."""
    layout, layers = result.deployment.layout, float(result.shape.layers)
    if layout is None:
        return []
    filled = int(result.mapping.stages(layers))
    if filled >= layout.stages:
        return []
    return [
        f"{layers:.0f} whole layers, spread evenly, fill {filled:,} of the {layout.stages:,} "
        f"stages of {layout.text}"
    ]


def beyond(p: Prediction) -> list[str]:
    """What to say of a model or a number of nodes beyond every published speed of the machine."""
    if p.hardware.name not in Hardware.names() or not p.fits:
        return []
    reach = extent(p.hardware.name)
    if reach is None:
        return _unsold(p)
    total, node = float(p.shape.total_params), p.hardware.node
    parts = []
    if total > reach.total_params:
        largest = compact(reach.total_params)
        parts.append(f"{compact(total)} parameters (the largest is {reach.model}, {largest})")
    if p.nodes_used > reach.nodes:
        parts.append(f"{counted(int(p.nodes_used), node)} (at most {reach.nodes:,.0f})")
    if not parts:
        return []
    held = f"published speeds of {p.hardware.name}"
    return [f"beyond what was validated: no {held} reach {' or '.join(parts)}", *_unsold(p)]


def _unsold(p: Prediction) -> list[str]:
    """What to say of more nodes than a server has, where no scale-up network joins them."""
    hardware, used = p.hardware, int(p.nodes_used)
    if hardware.spatial or hardware.scale_up_size > 1.0 or used <= SERVER:
        return []
    return [
        f"no scale-up network joins {counted(used, hardware.node)} of {hardware.name}: no one "
        "sells so many as one system"
    ]
