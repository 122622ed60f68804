"""How a model is served: nodes, mapping, context, users, number formats, speculation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from archinfer.errors import InputError
from archinfer.formats import kv_format, weight_format
from archinfer.shape import Number

__all__ = ["Deployment", "Mapping"]


@dataclass(frozen=True, slots=True)
class Mapping:
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
class Deployment:
    """What is asked of a model and the hardware under it.

    Attributes:
        nodes: nodes that are there (the mapping may leave some idle); None: the fewest that
            hold the model.
        context_tokens: tokens of context whose keys and values a decode step sees.
        concurrency: sequences served at once; each keeps its own KV cache.
        weights: weight format (`archinfer.formats`); None: the format the model comes in.
        kv: KV-cache format.
        draft_tokens: drafted tokens that each pass verifies (0: no speculative decoding).
        accepted_low, accepted_high: range of the tokens gained per pass, net of drafting.
        mapping: a forced mapping; None: the fastest one that fits.
    """

    nodes: int | None = None
    context_tokens: int = 8000
    concurrency: int = 1
    weights: str | None = None
    kv: str = "bf16"
    draft_tokens: int = 0
    accepted_low: float = 1.0
    accepted_high: float = 1.0
    mapping: Mapping | None = None

    def __post_init__(self) -> None:
        for key, low in (("nodes", 1), ("context_tokens", 1), ("concurrency", 1)):
            value = getattr(self, key)
            if value is None:
                continue
            if not value >= low or value != int(value):
                raise InputError(f"{key} must be a whole number of at least {low}, found {value}")
        if self.draft_tokens < 0:
            raise InputError(f"draft_tokens must not be negative, found {self.draft_tokens}")
        if not 0 < self.accepted_low <= self.accepted_high < np.inf:
            raise InputError(
                "accepted tokens a pass must be a range of positive numbers, found "
                f"{self.accepted_low}:{self.accepted_high}"
            )
        if self.weights is not None:
            weight_format(self.weights)
        kv_format(self.kv)

    @property
    def kv_bits(self) -> float:
        """Bits of one stored key or value number."""
        return kv_format(self.kv).bits

    def with_(self, **changes: Any) -> Deployment:
        """A copy with some fields changed."""
        return replace(self, **changes)
