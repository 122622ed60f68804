"""What to know before a predicted speed is used: uneven splits, and what nobody has validated."""

from __future__ import annotations

from collections.abc import Iterable

from archinfer.fitting.extent import extent
from archinfer.forward.predict import SERVER
from archinfer.forward.prediction import Prediction
from archinfer.hardware.profile import Hardware
from archinfer.models.architecture import Architecture
from archinfer.words import compact, counted


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
