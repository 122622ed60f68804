"""What the cost model sees of a model: layers by kind, in numbers or arrays of numbers.

`architecture.py` makes a `ModelShape` of a real model (scalars), `solver_family.py` makes one of
the solver's (total, active, layers) points (arrays). Everything downstream takes either: each
field may be a float or an array, and all arrays of one shape broadcast together.

Parameters are counts of numbers, never bytes: the weight format is the deployment's.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from archinfer.arrays import FloatArray, Number

__all__ = ["DENSE_CHAIN", "Cache", "FloatArray", "LayerGroup", "ModelShape", "Number"]


DENSE_CHAIN = 10
"""Dependent all-reduces of one dense grouped-query layer: norm, QKV, scores, softmax max,
softmax sum, attention output, O, norm, up+gate, down (counted in WaferLLM's decode.csl)."""


@dataclass(frozen=True, slots=True)
class Cache:
    """One kind of key-value storage that a layer keeps for every sequence.

    Attributes:
        values_per_token: numbers stored per cached token in one layer (K and V together).
        window_tokens: most tokens that are kept (inf: all of them).
        read_tokens: most tokens read in one decode step (inf: all that are kept);
            smaller than the window for sparse attention.
        macs_per_token: multiply-accumulates per token read (scores and weighted sum,
            all query heads).
        bits: bits of one stored number; None: the deployment's KV format.
        shards: ways in which tensor parallelism can split it (KV heads; 1: a latent cache, of
            which every node of the group holds and reads its own copy).
        prompt_macs_per_token: the same as `macs_per_token` while a prompt is read, where keys and
            values are made of the cache first (latent attention); None: as then.
    """

    values_per_token: Number
    window_tokens: Number = np.inf
    read_tokens: Number = np.inf
    macs_per_token: Number = 0.0
    bits: float | None = None
    shards: Number = np.inf
    prompt_macs_per_token: Number | None = None


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """`count` decoder layers of one kind; every other figure is of ONE such layer.

    Attributes:
        count: how many layers of this kind.
        shared_params: parameters that every token reads: attention, norms, biases, router,
            shared experts, dense MLP. `vector_params` is a part of it.
        vector_params: norms, biases and other parameters outside matrix products.
        routed_params: parameters of all routed experts together (0: a dense layer).
        experts: routed experts that have weights.
        experts_per_token: mean number of those that one token uses.
        caches: key-value storage of the layer.
        state_bytes: recurrent and convolution state, per sequence, whatever the context.
        state_shards: ways in which tensor parallelism can split the state (its heads).
        reductions: longest chain of dependent all-reduces (DENSE_CHAIN for dense GQA).
        shared_bits, routed_bits: mean bits of one shared or routed parameter where a format
            leaves some of the layer unquantised; None: the deployment's weight format.
        evenness: share of the experts that would, evenly used, be hit by a batch as often as
            the real, skewed ones are (1: even routing).
    """

    count: Number
    shared_params: Number
    vector_params: Number = 0.0
    routed_params: Number = 0.0
    experts: Number = 1.0
    experts_per_token: Number = 1.0
    caches: tuple[Cache, ...] = ()
    state_bytes: Number = 0.0
    state_shards: Number = np.inf
    reductions: Number = DENSE_CHAIN
    fused_steps: Number = 0.0
    """steps of that chain that kernels of GPUs do along with others: norms of queries and keys"""
    shared_bits: Number | None = None
    routed_bits: Number | None = None
    evenness: Number = 1.0
    matrices: tuple[Number, ...] = field(default=(), compare=False)
    """Parameters of each matrix that every token reads, where they are known."""
    expert_matrices: tuple[Number, ...] = field(default=(), compare=False)
    """Parameters of each matrix of one routed expert, where they are known."""

    def small_params(self, below: Number) -> tuple[Number, Number]:
        """Shared parameters in matrices of fewer than `below`, and the share of such in experts."""
        shared, one, expert = (
            sum((np.where(np.less(m, limit), m, 0.0) for m in sizes), start=0.0)
            for sizes, limit in (
                (self.matrices, below),
                (self.expert_matrices, below),
                (self.expert_matrices, np.inf),
            )
        )
        return shared, one / np.maximum(expert, 1.0)

    @property
    def even_experts(self) -> Number:
        """Experts that count for how many distinct ones a batch hits."""
        return np.maximum(self.experts * self.evenness, self.experts_per_token)

    @property
    def routed_active_params(self) -> Number:
        """Routed-expert parameters that one token reads in this layer (mean)."""
        return self.routed_params * self.experts_per_token / self.experts

    @property
    def active_params(self) -> Number:
        """Parameters that one token reads in this layer."""
        return self.shared_params + self.routed_active_params

    @property
    def total_params(self) -> Number:
        """Parameters stored for this layer."""
        return self.shared_params + self.routed_params


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A decoder as the cost model sees it.

    Attributes:
        groups: the layers by kind, in order of first appearance.
        hidden_size: width of the residual stream.
        lookup_params: embedding tables, of which a pass reads one row per token.
        head_params: matrix of the LM head, read whole (also where it is the tied embedding).
        tied: the head is the embedding table, stored and counted once; or 1 where it is, else 0.
        extra_params: parameters outside layers read in each pass (final norm).
        inactive_params: stored parameters that the convention leaves out of `active`
            although they are not routed experts (n-gram tables).
        lookup_bits, head_bits, extra_bits: mean bits of one parameter of each; None: the
            deployment's format of what is outside the layers. A tied head is stored once, as
            part of the tables.
    """

    groups: tuple[LayerGroup, ...]
    hidden_size: Number
    lookup_params: Number = 0.0
    head_params: Number = 0.0
    tied: Number = False
    extra_params: Number = 0.0
    inactive_params: Number = 0.0
    lookup_bits: Number | None = None
    head_bits: Number | None = None
    extra_bits: Number | None = None
    heads: int = 0
    """number that every layer's query heads are a multiple of; 0: unknown, or none"""
    name: str = field(default="", compare=False)

    @property
    def routed(self) -> bool:
        """Whether any layer has routed experts."""
        return any(bool(np.any(np.asarray(g.routed_params) > 0.0)) for g in self.groups)

    def __repr__(self) -> str:
        """One short line: the name, or how large it is, or how many models it holds."""
        count = np.size(self.total_params)
        if count > 1:
            return f"ModelShape({count:,} models)"
        total, layers = float(self.total_params), float(self.layers)
        return f"ModelShape(name={self.name!r}, total_params={total:.4g}, layers={layers:g})"

    @property
    def layers(self) -> Number:
        """Decoder layers of all kinds."""
        return sum((g.count for g in self.groups), start=0.0)

    @property
    def outside_params(self) -> Number:
        """Parameters stored outside the layers: embedding, untied head, final norm."""
        return self.lookup_params + (1.0 - self.tied) * self.head_params + self.extra_params

    @property
    def total_params(self) -> Number:
        """All stored parameters; embedding and head counted once if tied."""
        return sum((g.count * g.total_params for g in self.groups), start=self.outside_params)

    @property
    def active_params(self) -> Number:
        """Total minus the routed experts a token does not use (embedding and head are in)."""
        outside = self.outside_params - self.inactive_params
        return sum((g.count * g.active_params for g in self.groups), start=outside)
