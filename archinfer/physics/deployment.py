"""How a model is served: nodes, mapping, context, users, number formats, speculation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from archinfer.errors import InputError
from archinfer.models.formats import kv_format, weight_format
from archinfer.models.shape import Number

__all__ = [
    "ACCEPTED_MOST",
    "DRAFTS_MOST",
    "Deployment",
    "Layout",
    "Mapping",
    "check_accepted",
    "read_layout",
]

DRAFTS_MOST = 16
"""Most tokens that a service is taken to draft for one pass."""

ACCEPTED_MOST = 1.0 + DRAFTS_MOST
"""Tokens gained by a pass whose drafts are all accepted, its own token beside them."""


def check_accepted(low: float, high: float, drafts: int = 0) -> None:
    """Refuse tokens a pass that no decoding gains.

    A pass yields its own token at least, also net of drafting: a service whose drafts cost more
    than they gain drafts none. At most every drafted token is accepted beside it.

    Args:
        low, high: ends of the range.
        drafts: tokens drafted for each pass; 0: unknown, at most `DRAFTS_MOST`.

    Raises:
        InputError: below 1, more than the drafts can give, or low above high.
    """
    drafted = drafts or DRAFTS_MOST
    if not 1.0 <= low <= high <= 1 + drafted:
        found = f"{low:g}" if low == high else f"{low:g}:{high:g}"
        plural = "" if drafted == 1 else "s"
        raise InputError(
            "speculation: expected accepted tokens a pass from 1 (nothing drafted) to "
            f"{1 + drafted} ({drafted} draft{plural} and the pass's own), found {found}"
        )


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
class Layout:
    """A mapping for any number of layers.

    Attributes:
        tensor_parallel: nodes that share each layer.
        stages: pipeline stages, over which whole layers are spread evenly.
        whole_experts: as in `Mapping`.
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

    def mapping(self, layers: Number) -> Mapping:
        """The mapping of a model with so many layers."""
        held = np.ceil(np.asarray(layers, dtype=float) / self.stages)
        group = float(self.tensor_parallel)
        return Mapping(float(held) if held.ndim == 0 else held, group, self.whole_experts)


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


@dataclass(frozen=True, slots=True)
class Deployment:
    """What is asked of a model and the hardware under it.

    Attributes:
        nodes: nodes that are there (the mapping may leave some idle); None: the fewest that
            hold the model.
        context_tokens: tokens of context whose keys and values a decode step sees.
        concurrency: sequences served at once; each keeps its own KV cache.
        weights: weight format (`archinfer.models.formats`); None: the format the model comes in.
        kv: KV-cache format.
        draft_tokens: drafted tokens that each pass verifies (0: no speculative decoding).
        accepted_low, accepted_high: range of the tokens gained per pass, net of drafting.
        mapping: a forced mapping; None: the fastest one that fits.
        layout: a forced mapping for any number of layers; `mapping` goes first.
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
    layout: Layout | None = None

    def __post_init__(self) -> None:
        for key, low in (("nodes", 1), ("context_tokens", 1), ("concurrency", 1)):
            value = getattr(self, key)
            if value is None:
                continue
            if not value >= low or value != int(value):
                raise InputError(f"{key} must be a whole number of at least {low}, found {value}")
        if self.draft_tokens < 0:
            raise InputError(f"draft_tokens must not be negative, found {self.draft_tokens}")
        check_accepted(self.accepted_low, self.accepted_high, self.draft_tokens)
        if self.weights is not None:
            weight_format(self.weights)
        kv_format(self.kv)

    def forced(self, layers: Number) -> Mapping | None:
        """The mapping that is forced on a model with so many layers; None: the fastest."""
        if self.mapping is not None or self.layout is None:
            return self.mapping
        return self.layout.mapping(layers)

    @property
    def kv_bits(self) -> float:
        """Bits of one stored key or value number."""
        return kv_format(self.kv).bits

    def with_(self, **changes: Any) -> Deployment:
        """A copy with some fields changed."""
        return replace(self, **changes)
