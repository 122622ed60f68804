"""What a model is: its sizes and switches, and the same model as the cost model sees it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np

from archinfer.errors import InputError, UnknownNameError
from archinfer.models.architecture import Architecture
from archinfer.models.layers import Attention, DenseMLP, LayerBlock, MoE
from archinfer.models.shape import ModelShape

SCORINGS = ("softmax", "sigmoid")


@dataclass(frozen=True, slots=True)
class MoEConfig:
    """Sizes and switches of a decoder with grouped-query attention.

    Raises:
        InputError: a size below 1, or sizes that do not fit together.
    """

    vocab_size: int
    """Rows of the embedding table and of the LM head."""
    hidden_size: int
    """Width of the residual stream."""
    layers: int
    """Decoder layers, dense and MoE together."""
    heads: int
    """Query heads."""
    kv_heads: int
    """Key and value heads; each serves heads / kv_heads query heads."""
    head_dim: int
    """Width of a head; even, since the rotary embedding turns pairs."""
    intermediate_size: int = 0
    """Width of the SwiGLU block in dense layers."""
    moe_intermediate_size: int = 0
    """Width of one expert, routed or shared."""
    experts: int = 0
    """Routed experts in an MoE layer; 0: every layer is dense."""
    experts_per_token: int = 0
    """Routed experts that each token uses."""
    shared_experts: int = 0
    """Experts that every token uses beside the routed ones; fused into one wide block."""
    first_dense_layers: int = 0
    """Leading layers that are dense although the others are MoE."""
    scoring: str = "softmax"
    """Router scores: 'softmax' over all experts (Mixtral, Qwen3, DeepSeek-V2), or 'sigmoid' with
    a bias that steers the selection but not the weights (DeepSeek-V3)."""
    norm_topk_prob: bool = True
    """Whether the weights of the chosen experts are divided by their sum."""
    routed_scaling_factor: float = 1.0
    """Factor on the routed experts' weights, after renormalisation."""
    expert_groups: int = 1
    """Groups of equally many experts, of which a token may use only some (DeepSeek)."""
    groups_per_token: int = 1
    """How many groups a token may use."""
    qk_norm: bool = False
    """RMSNorm of each query and key head before the rotary embedding (Qwen3)."""
    rope_theta: float = 10_000.0
    """Base of the rotary frequencies."""
    rms_norm_eps: float = 1e-6
    """Added to the mean square before the root."""
    tie_word_embeddings: bool = False
    """The LM head is the embedding table."""

    def __post_init__(self) -> None:
        if not 0 <= self.first_dense_layers <= self.layers:
            raise InputError(
                f"MoE model: first_dense_layers must be within 0 to {self.layers} layers, "
                f"not {self.first_dense_layers}"
            )
        needed = ["vocab_size", "hidden_size", "layers", "heads", "kv_heads", "head_dim"]
        if self.dense_layers:
            needed.append("intermediate_size")
        if self.moe_layers:
            needed += ["moe_intermediate_size", "experts_per_token"]
            needed += ["expert_groups", "groups_per_token"]
        for name in needed:
            if getattr(self, name) < 1:
                raise InputError(f"MoE model: {name} must be at least 1, not {getattr(self, name)}")
        if self.scoring not in SCORINGS:
            raise UnknownNameError("router scoring", self.scoring, SCORINGS)
        if self.head_dim % 2:
            raise InputError(f"MoE model: head_dim must be even, not {self.head_dim}")
        self._divides("kv_heads", "heads")
        if self.moe_layers:
            self._divides("expert_groups", "experts")
            self._at_most("groups_per_token", self.expert_groups)
            selectable = self.experts // self.expert_groups * self.groups_per_token
            self._at_most("experts_per_token", selectable)

    def _divides(self, name: str, whole: str) -> None:
        if getattr(self, whole) % getattr(self, name):
            raise InputError(
                f"MoE model: {name} must divide {whole} = {getattr(self, whole)}, "
                f"not {getattr(self, name)}"
            )

    def _at_most(self, name: str, most: int) -> None:
        if getattr(self, name) > most:
            raise InputError(f"MoE model: {name} must be at most {most}, not {getattr(self, name)}")

    @property
    def name(self) -> str:
        """Short description, for people."""
        kind = f"{self.experts} experts, top {self.experts_per_token}" if self.experts else "dense"
        return f"{self.layers} layers x {self.hidden_size}, {kind}"

    @property
    def dense_layers(self) -> int:
        """Layers with one SwiGLU block and no router; they come first."""
        return self.first_dense_layers if self.experts else self.layers

    @property
    def moe_layers(self) -> int:
        """Layers with a router and experts."""
        return self.layers - self.dense_layers

    def is_moe(self, layer: int) -> bool:
        """Whether layer number `layer`, from 0, has a router and experts."""
        return layer >= self.dense_layers

    def shape(self) -> ModelShape:
        """This model as the cost model sees it; equal to what `Counters` counts, to the byte."""
        return _shape(self)


@lru_cache(maxsize=256)
def _shape(c: MoEConfig) -> ModelShape:
    """See `MoEConfig.shape`. What is one product here is one matrix there: q, k and v side by
    side, and gate and up."""
    h, wide = c.hidden_size, c.heads * c.head_dim
    norm: Literal["head", "none"] = "head" if c.qk_norm else "none"
    attention = Attention(c.heads, c.kv_heads, c.head_dim, qk_norm=norm)
    shared = c.shared_experts * c.moe_intermediate_size
    dense = DenseMLP(max(c.intermediate_size, 1))
    routed = MoE(c.experts, c.experts_per_token, c.moe_intermediate_size,
                 shared_width=shared) if c.moe_layers else dense  # fmt: skip
    kinds = ((c.dense_layers, dense), (c.moe_layers, routed))
    blocks = tuple(LayerBlock.of(n, attention, body) for n, body in kinds if n)
    products = (float(h * (wide + 2 * c.kv_heads * c.head_dim)), float(h * wide))
    found = Architecture(c.name, blocks, h, c.vocab_size, c.tie_word_embeddings).shape()
    groups = []
    for group in found.groups:
        one = np.any(group.routed_params)
        fed = (float(h * c.experts), *_swiglu(h, shared)) if one else _swiglu(h, dense.width)
        expert = _swiglu(h, c.moe_intermediate_size) if one else ()
        groups.append(
            replace(group, fused_steps=0.0, matrices=(*products, *fed), expert_matrices=expert)
        )
    return replace(found, groups=tuple(groups), heads=0, name="")


def _swiglu(hidden: int, width: int) -> tuple[float, ...]:
    """Parameters of a block's matrices: gate and up side by side, and down."""
    return (2.0 * hidden * width, 1.0 * hidden * width) if width else ()
