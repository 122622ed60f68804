"""Which nodes hold which layers of a model, and which share a layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from archinfer.errors import InputError
from archinfer.models.shape import Number


@dataclass(frozen=True, slots=True)
class Placement:
    """Which nodes hold which layers. Layers are whole: a stage holds `layers_per_stage` of them.

    Attributes:
        layers_per_stage: decoder layers of the fullest pipeline stage.
        tensor_parallel: nodes that share each layer of a stage (1 on a wafer, whose cores
            share the layer instead).
        whole_experts: whether routed experts stay whole, one node each (expert parallelism),
            instead of being cut over the group; None: the faster, layer by layer.
    """

    layers_per_stage: Number
    tensor_parallel: Number = 1.0
    whole_experts: bool | None = None

    def stages(self, layers: Number) -> Number:
        """Pipeline stages that `layers` layers fill."""
        return np.ceil(layers / self.layers_per_stage)

    def nodes(self, layers: Number) -> Number:
        """Nodes in use."""
        return self.stages(layers) * self.tensor_parallel


@dataclass(frozen=True, slots=True)
class Layout:
    """A mapping for any number of layers.

    Attributes:
        tensor_parallel: nodes that share each layer.
        stages: pipeline stages, over which whole layers are spread evenly.
        whole_experts: as in `Placement`.
    """

    tensor_parallel: int = 1
    stages: int = 1
    whole_experts: bool | None = None

    @property
    def nodes(self) -> int:
        """Nodes that it takes."""
        return self.tensor_parallel * self.stages

    @property
    def text(self) -> str:
        """As it is typed: `tp=8,pp=2`."""
        experts = {None: "", True: f",ep={self.tensor_parallel}", False: ",ep=1"}
        return f"tp={self.tensor_parallel},pp={self.stages}{experts[self.whole_experts]}"

    def mapping(self, layers: Number) -> Placement:
        """The mapping of a model with so many layers."""
        held = np.ceil(np.asarray(layers, dtype=float) / self.stages)
        group = float(self.tensor_parallel)
        return Placement(float(held) if held.ndim == 0 else held, group, self.whole_experts)


def read_layout(text: str, spatial: bool = False) -> Layout:
    """Reads `tp=8,pp=2`: nodes that share a layer, pipeline stages, and `ep=`: 1 to cut every
    expert over the group, the group's size to keep experts whole.

    Args:
        text: at least one of the three; what is missing is 1 (for `ep`: the faster).
        spatial: the hardware is spatial, where nodes never share a layer.

    Raises:
        InputError: anything else.
    """
    values: dict[str, int] = {}
    for part in text.split(","):
        key, equals, number = (x.strip() for x in part.partition("="))
        if key not in ("tp", "pp", "ep") or not equals or key in values:
            raise InputError(f"mapping: expected such as tp=8,pp=2, found {text!r}")
        if not number.isascii() or not number.isdigit() or not 1 <= int(number) <= 100_000:
            raise InputError(
                f"mapping: {key}: expected a whole number between 1 and 100,000, found {number!r}"
            )
        values[key] = int(number)
    group, experts = values.get("tp", 1), values.get("ep")
    if spatial and (group > 1 or experts not in (None, 1)):
        raise InputError("mapping: the cores of one node share a layer: expected tp=1 and no ep")
    if experts not in (None, 1, group):
        raise InputError(f"mapping: ep: expected 1 or the tp of {group}, found {experts}")
    whole = None if experts is None or group == 1 else experts == group
    return Layout(group, values.get("pp", 1), whole)
