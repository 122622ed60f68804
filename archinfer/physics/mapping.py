"""Which nodes hold which layers of a model, and which share a layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from archinfer.errors import InputError, foreign_digit
from archinfer.hardware.profile import Hardware
from archinfer.models.shape import FloatArray, Number

GROUP_MOST = 8192.0
"""Largest tensor-parallel group that is tried, in nodes. A layer must fit one group: 10T parameters
at 16 bits in 14 layers are 1.4 TB a layer, or 6,900 of the smallest node (207 MB, Groq's LPU).
For speed less is enough: on the shipped profiles no catalogue model is fastest on more than 1,024
nodes a layer."""


Flags: TypeAlias = bool | NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Placement:
    """Which nodes hold which layers. Layers are whole: a stage holds `layers_per_stage` of them.

    Attributes:
        layers_per_stage: decoder layers of the fullest pipeline stage.
        tensor_parallel: nodes that share each layer of a stage (1 on a wafer, whose cores
            share the layer instead).
        whole_experts: whether routed experts stay whole, one node each (expert parallelism),
            instead of being cut over the group; None: the faster, layer by layer.
        data_parallel: whether the nodes of a group share the routed experts alone, whole ones:
            each has a copy of everything else and users of its own (data-parallel attention).
    """

    layers_per_stage: Number
    tensor_parallel: Number = 1.0
    whole_experts: bool | None = None
    data_parallel: Flags = False

    @property
    def copies(self) -> Number:
        """Copies in a group of what every token reads."""
        if self.data_parallel is False:
            return 1.0
        return np.where(self.data_parallel, self.tensor_parallel, 1.0)

    @property
    def heads_split(self) -> Number:
        """Nodes over which heads are split."""
        return self.tensor_parallel / self.copies

    def stages(self, layers: Number) -> Number:
        """Pipeline stages that `layers` layers fill."""
        return np.ceil(layers / self.layers_per_stage)

    def nodes(self, layers: Number) -> Number:
        """Nodes in use."""
        return self.stages(layers) * self.tensor_parallel

    def take(self, index: Any) -> Placement:
        """Some of several mappings, or one of them; numbers become arrays."""
        held, group, flags = np.broadcast_arrays(
            np.atleast_1d(np.asarray(self.layers_per_stage, dtype=float)),
            np.asarray(self.tensor_parallel, dtype=float),
            self.data_parallel,
        )
        own: Any = flags[index] if np.any(flags) else False
        return Placement(held[index], group[index], self.whole_experts, own)

    def where(self, kept: NDArray[np.bool_], other: Placement) -> Placement:
        """These mappings where `kept`, else the others."""
        own: Flags = np.where(kept, self.data_parallel, other.data_parallel)
        return Placement(
            np.where(kept, self.layers_per_stage, other.layers_per_stage),
            np.where(kept, self.tensor_parallel, other.tensor_parallel),
            self.whole_experts,
            own if np.any(own) else False,
        )

    def one(self, index: int) -> Placement:
        """One of several mappings, in numbers."""
        found = self.take(index)
        held, group = float(found.layers_per_stage), float(found.tensor_parallel)
        return Placement(held, group, self.whole_experts, bool(found.data_parallel))

    def text(self, layers: Number) -> str:
        """As it is typed: `tp=8,pp=2`, or `dp=8,pp=2` with data-parallel attention."""
        kind = "dp" if self.data_parallel else "tp"
        return f"{kind}={int(self.tensor_parallel)},pp={int(self.stages(layers))}"


@dataclass(frozen=True, slots=True)
class Layout:
    """A mapping for any number of layers.

    Attributes:
        tensor_parallel: nodes that share each layer.
        stages: pipeline stages, over which whole layers are spread evenly.
        whole_experts, data_parallel: as in `Placement`.
    """

    tensor_parallel: int = 1
    stages: int = 1
    whole_experts: bool | None = None
    data_parallel: bool = False

    @property
    def nodes(self) -> int:
        """Nodes that it takes."""
        return self.tensor_parallel * self.stages

    @property
    def text(self) -> str:
        """As it is typed: `tp=8,pp=2`."""
        if self.data_parallel:
            return f"dp={self.tensor_parallel},pp={self.stages}"
        experts = {None: "", True: f",ep={self.tensor_parallel}", False: ",ep=1"}
        return f"tp={self.tensor_parallel},pp={self.stages}{experts[self.whole_experts]}"

    def mapping(self, layers: Number) -> Placement:
        """The mapping of a model with so many layers."""
        held: Any = np.ceil(np.asarray(layers, dtype=float) / self.stages)
        group = float(self.tensor_parallel)
        held = float(held) if held.ndim == 0 else held
        return Placement(held, group, self.whole_experts, self.data_parallel)


def read_layout(text: str, spatial: bool = False) -> Layout:
    """Reads `tp=8,pp=2`: nodes that share a layer, pipeline stages, and `ep=`: 1 to cut every
    expert over the group, the group's size to keep experts whole. `dp=8,pp=2`: nodes that share
    the routed experts alone, each with users of its own.

    Args:
        text: at least one of them; what is missing is 1 (for `ep`: the faster).
        spatial: the hardware is spatial, where nodes never share a layer.

    Raises:
        InputError: anything else.
    """
    values: dict[str, int] = {}
    for part in text.split(","):
        key, equals, number = (x.strip() for x in part.partition("="))
        if key in values:
            raise InputError(f"mapping: {key} is given twice, found {text!r}")
        if key not in ("tp", "pp", "ep", "dp") or not equals:
            raise InputError(f"mapping: expected such as tp=8,pp=2 or dp=8, found {text!r}")
        if not number.isascii() or not number.isdigit() or not 1 <= int(number) <= 100_000:
            raise InputError(
                f"mapping: {key}: expected a whole number between 1 and 100,000, found {number!r}"
                f"{foreign_digit(number)}"
            )
        values[key] = int(number)
    own = values.get("dp", 1) > 1
    if own and values.get("tp", 1) > 1:
        raise InputError(f"mapping: dp: expected no tp beside it, found {text!r}")
    group, experts = max(values.get("tp", 1), values.get("dp", 1)), values.get("ep")
    if spatial and (group > 1 or experts not in (None, 1)):
        raise InputError("mapping: the cores of one node share a layer: expected tp=1 and no ep")
    if experts not in ((None, group) if own else (None, 1, group)):
        wanted = f"the dp of {group}" if own else f"1 or the tp of {group}"
        raise InputError(f"mapping: ep: expected {wanted}, found {experts}")
    whole = None if experts is None or group == 1 or own else experts == group
    return Layout(group, values.get("pp", 1), whole, own)


def widest_group(hardware: Hardware) -> float:
    """Largest tensor-parallel group that is tried: one node of spatial hardware and of a machine
    without links, else GROUP_MOST."""
    return 1.0 if hardware.spatial or hardware.alone else GROUP_MOST


def group_sizes(hardware: Hardware, nodes: float = np.inf, heads: int = 0) -> list[float]:
    """Tensor-parallel groups that are tried on at most `nodes` nodes, the smallest first.

    1, 2, 4, ... of them, and the same times 3 and times the odd factor of a scale-up domain (9 of
    72) where that divides the model's query heads: software splits heads evenly.

    Args:
        hardware: profile.
        nodes: that are there.
        heads: number that every layer's query heads are a multiple of; 0: unknown, or none.
    """
    most = min(nodes, widest_group(hardware))
    domain = int(hardware.scale_up_size)
    odd = {1, 3, domain // (domain & -domain)} if domain > 1 else {1}
    factors = [m for m in odd if m <= most and heads % m == 0]
    return sorted(m * 2.0**k for m in factors for k in range(int(np.log2(most / m)) + 1))


def mappings(
    hardware: Hardware,
    layers: FloatArray,
    nodes: int,
    heads: int = 0,
    data_parallel: bool = False,
) -> tuple[FloatArray, Placement]:
    """Every way to place `layers` whole layers on at most `nodes` nodes.

    A pipeline of u stages holds ceil(L / u) layers in the fullest; stage counts that lead to
    the same number are one mapping, the one with fewest stages. Each stage is a group of
    `group_sizes`, of which heads are split.

    Uneven stages gain nothing. Time and memory read two numbers of a mapping: its stages, and the
    layers m of the fullest, of which u stages have ceil(L / u) at least. The fullest node holds m
    layers' bytes (tables count as spread over all layers, the most that uneven stages could do for
    them), and every layer of a wafer has at most an m-th of its cores; GPUs pass the same layers
    whichever stage has them, at a batch that is set by u.

    Args:
        hardware: profile.
        layers: of the models.
        nodes: that are there.
        heads: as of `group_sizes`.
        data_parallel: also those whose nodes have users of their own.

    Returns:
        Layers and mapping, one entry a mapping.
    """
    nodes = 1 if hardware.alone else nodes
    kinds = [(group, False) for group in group_sizes(hardware, nodes, heads)]
    if data_parallel:
        kinds += [(group, True) for group in group_sizes(hardware, nodes) if group > 1.0]
    depth, held, shared = [], [], []
    for group, _ in kinds:
        stages = np.arange(1.0, min(nodes // group, layers.max()) + 1.0)
        per_stage = np.ceil(layers[:, None] / stages)
        kept = (np.ceil(layers[:, None] / per_stage) == stages) & (stages <= layers[:, None])
        rows, columns = np.nonzero(kept)
        depth.append(layers[rows])
        held.append(per_stage[rows, columns])
        shared.append(np.full(len(rows), group))
    own: Flags = False
    if data_parallel:
        own = np.repeat([own for _, own in kinds], [len(one) for one in depth])
    found = Placement(np.concatenate(held), np.concatenate(shared), None, own)
    return np.concatenate(depth), found
