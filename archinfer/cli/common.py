"""What several commands share: reading of options, and what to say of mappings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from archinfer.forward.prediction import Prediction
    from archinfer.models.architecture import Architecture


def read_count(option: str, text: str, dimension: str = "count") -> float:
    """The number that an option holds; UnitError names the option."""
    from archinfer.errors import UnitError
    from archinfer.units import parse

    try:
        return parse(text, dimension)
    except UnitError as error:
        raise UnitError(f"{option}: {error}") from None


def uneven_groups(placed: Iterable[tuple[Architecture, float]]) -> list[str]:
    """What to say of groups of nodes that cannot share the heads of their model evenly.

    Args:
        placed: models, and how many nodes share each of their layers.

    Returns:
        One text for each size of such a group.
    """
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
