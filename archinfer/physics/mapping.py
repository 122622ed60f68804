"""Which nodes hold which layers of a model, and which share a layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from archinfer.errors import InputError
from archinfer.hardware.profile import Hardware
from archinfer.models.shape import FloatArray, Number

GROUP_MOST = 8192.0
"""Largest tensor-parallel group that is tried, in nodes. A layer must fit one group: 10T parameters
at 16 bits in 14 layers are 1.4 TB a layer, or 6,900 of the smallest node (207 MB, Groq's LPU).
For speed less is enough: on the shipped profiles no catalogue model is fastest on more than 1,024
nodes a layer."""


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

    def take(self, index: Any) -> Placement:
        """Some of several mappings, or one of them; numbers become arrays."""
        both = np.broadcast_arrays(
            *(
                np.atleast_1d(np.asarray(v, float))
                for v in (self.layers_per_stage, self.tensor_parallel)
            )
        )
        return Placement(both[0][index], both[1][index], self.whole_experts)

    def one(self, index: int) -> Placement:
        """One of several mappings, in numbers."""
        found = self.take(index)
        return Placement(
            float(found.layers_per_stage), float(found.tensor_parallel), self.whole_experts
        )


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


def widest_group(hardware: Hardware) -> float:
    """Largest tensor-parallel group that is tried: one node of spatial hardware and of a machine
    without links, else GROUP_MOST."""
    return 1.0 if hardware.spatial or hardware.alone else GROUP_MOST


def group_sizes(hardware: Hardware, nodes: float = np.inf) -> list[float]:
    """Tensor-parallel groups that are tried on at most `nodes` nodes: 1, 2, 4, ... of them."""
    most = min(nodes, widest_group(hardware))
    return [2.0**k for k in range(int(np.log2(most)) + 1)]


def mappings(hardware: Hardware, layers: FloatArray, nodes: int) -> tuple[FloatArray, Placement]:
    """Every way to place `layers` whole layers on at most `nodes` nodes.

    A pipeline of u stages holds ceil(L / u) layers in the fullest; stage counts that lead to
    the same number are one mapping, the one with fewest stages. Each stage is a
    tensor-parallel group (`group_sizes`).

    Returns:
        Layers and mapping, one entry a mapping.
    """
    nodes = 1 if hardware.alone else nodes
    depth, held, shared = [], [], []
    for group in group_sizes(hardware, nodes):
        stages = np.arange(1.0, min(nodes // group, layers.max()) + 1.0)
        per_stage = np.ceil(layers[:, None] / stages)
        kept = (np.ceil(layers[:, None] / per_stage) == stages) & (stages <= layers[:, None])
        rows, columns = np.nonzero(kept)
        depth.append(layers[rows])
        held.append(per_stage[rows, columns])
        shared.append(np.full(len(rows), group))
    return np.concatenate(depth), Placement(np.concatenate(held), np.concatenate(shared))
