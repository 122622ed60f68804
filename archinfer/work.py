"""What one decode pass reads, writes and computes, and what a deployment stores.

Nothing here knows any hardware: counts of bytes and FLOPs only. FLOPs are those of matrix
products (two per multiply-accumulate), attention scores and weighted sums included; element-wise
work (norms, activations, rotary embedding, softmax) is not counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from archinfer.shape import Cache, LayerGroup, ModelShape, Number

__all__ = [
    "ACTIVATION_BYTES",
    "ACTIVATION_VECTORS",
    "LayerWork",
    "Memory",
    "Work",
    "attention_macs",
    "experts_hit",
    "layer_work",
    "memory",
    "work",
]

ACTIVATION_BYTES = 2
"""Bytes of one number of an activation: 16 bits, stored as well as sent."""

ACTIVATION_VECTORS = 8
"""Live vectors of hidden_size per token in flight: residual, normed input, query, key and value,
attention output, gate and up of the feed-forward, its output (an upper bound for the usual
shapes, since each expert is narrower than the hidden size it works on)."""


def experts_hit(experts: Number, experts_per_token: Number, tokens: Number) -> Number:
    """Distinct experts that `tokens` tokens use in one layer under even routing.

    E (1 - (1 - k/E)^B): each token misses a given expert with probability 1 - k/E.
    Real routers are skewed and hit fewer (`LayerGroup.evenness`).
    """
    return experts * (1.0 - (1.0 - experts_per_token / experts) ** tokens)


def _tokens_read(cache: Cache, context_tokens: Number) -> Number:
    return np.minimum(np.minimum(context_tokens, cache.window_tokens), cache.read_tokens)


def _cache_bytes(cache: Cache, kv_bits: float) -> Number:
    """Bytes that one token adds to the cache of one layer."""
    bits = kv_bits if cache.bits is None else cache.bits
    return cache.values_per_token * (bits / 8.0)


def attention_macs(group: LayerGroup, context_tokens: Number) -> Number:
    """Multiply-accumulates of scores and weighted sum for one token in one layer."""
    macs: Number = 0.0
    for cache in group.caches:
        macs = macs + cache.macs_per_token * _tokens_read(cache, context_tokens)
    return macs


def _weight_bytes(
    group: LayerGroup, shared_params: Number, routed_params: Number, weight_bits: Number
) -> Number:
    shared_bits = weight_bits if group.shared_bits is None else group.shared_bits
    routed_bits = weight_bits if group.routed_bits is None else group.routed_bits
    return (shared_params * shared_bits + routed_params * routed_bits) / 8.0


@dataclass(frozen=True, slots=True)
class LayerWork:
    """One layer of one kind in one decode pass of `batch` tokens."""

    weight_params: Number
    """Parameters read (each distinct expert once)."""
    weight_bytes: Number
    kv_read_bytes: Number
    kv_write_bytes: Number
    flops: Number


def layer_work(
    group: LayerGroup,
    context_tokens: Number,
    batch: Number,
    weight_bits: Number,
    kv_bits: float,
    hit: Number | None = None,
) -> LayerWork:
    """Work of one layer of `group` when `batch` sequences each add one token.

    Args:
        group: the layer; its own bits per parameter take the place of `weight_bits`.
        context_tokens: tokens attended to, the new one included.
        batch: sequences.
        weight_bits, kv_bits: bits per stored number.
        hit: distinct experts that the batch uses; None: the mean under routing as even as the
            group's.
    """
    if hit is None:
        hit = experts_hit(group.even_experts, group.experts_per_token, batch)
    kv_read: Number = 0.0
    kv_write: Number = 0.0
    for cache in group.caches:
        kv_read = kv_read + _cache_bytes(cache, kv_bits) * _tokens_read(cache, context_tokens)
        kv_write = kv_write + _cache_bytes(cache, kv_bits)
    matrix_params = group.shared_params - group.vector_params + group.routed_active_params
    routed_read = group.routed_params * (hit / group.experts)
    return LayerWork(
        weight_params=group.shared_params + routed_read,
        weight_bytes=_weight_bytes(group, group.shared_params, routed_read, weight_bits),
        kv_read_bytes=batch * (kv_read + group.state_bytes),
        kv_write_bytes=batch * (kv_write + group.state_bytes),
        flops=2.0 * batch * (matrix_params + attention_macs(group, context_tokens)),
    )


@dataclass(frozen=True, slots=True)
class Work:
    """Totals of one decode pass: bytes moved and FLOPs computed."""

    weight_bytes: Number
    kv_read_bytes: Number
    kv_write_bytes: Number
    flops: Number


def work(
    shape: ModelShape,
    context_tokens: Number,
    batch: Number = 1,
    weight_bits: Number = 16,
    kv_bits: float = 16,
    outside_bits: Number | None = None,
    hit: Number | None = None,
) -> Work:
    """Work of one whole decode pass: every layer, one embedding row per token, the head.

    Args:
        shape: the model.
        context_tokens: tokens attended to, the new one included.
        batch: sequences that each add one token.
        weight_bits, kv_bits: bits per stored number.
        outside_bits: bits of embedding, head and final norm; None: as `weight_bits`.
        hit: distinct experts used in each MoE layer; None: the even-routing mean.
    """
    outside_bits = weight_bits if outside_bits is None else outside_bits
    layers = [
        (
            g,
            layer_work(
                g,
                context_tokens,
                batch,
                weight_bits,
                kv_bits,
                hit if np.any(g.routed_params) else None,
            ),
        )
        for g in shape.groups
    ]
    row_params = batch * shape.hidden_size if np.any(shape.lookup_params) else 0.0
    outside_params = shape.head_params + shape.extra_params + row_params
    return Work(
        weight_bytes=sum(g.count * w.weight_bytes for g, w in layers)
        + outside_params * (outside_bits / 8.0),
        kv_read_bytes=sum(g.count * w.kv_read_bytes for g, w in layers),
        kv_write_bytes=sum(g.count * w.kv_write_bytes for g, w in layers),
        flops=sum(g.count * w.flops for g, w in layers) + 2.0 * batch * shape.head_params,
    )


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes that a deployment stores, over all nodes."""

    weights: Number
    kv: Number
    other: Number

    @property
    def total(self) -> Number:
        """Everything."""
        return self.weights + self.kv + self.other


def _kv_stored_bytes(group: LayerGroup, context_tokens: Number, kv_bits: float) -> Number:
    """KV cache and recurrent state of one sequence in one layer."""
    stored: Number = group.state_bytes
    for cache in group.caches:
        tokens = np.minimum(context_tokens, cache.window_tokens)
        stored = stored + _cache_bytes(cache, kv_bits) * tokens
    return stored


def memory(
    shape: ModelShape,
    context_tokens: Number,
    concurrency: Number,
    weight_bits: Number,
    kv_bits: float,
    outside_bits: Number | None = None,
) -> Memory:
    """Bytes stored: weights, KV cache of every sequence, activations in flight.

    Activations: `ACTIVATION_VECTORS` vectors of hidden_size at 16 bits for each sequence in
    flight, at least one per layer, since every layer of a pipeline owns its buffers.
    """
    outside_bits = weight_bits if outside_bits is None else outside_bits
    in_layers = sum(
        g.count * _weight_bytes(g, g.shared_params, g.routed_params, weight_bits)
        for g in shape.groups
    )
    kv = sum(g.count * _kv_stored_bytes(g, context_tokens, kv_bits) for g in shape.groups)
    vectors = ACTIVATION_VECTORS * np.maximum(concurrency, shape.layers)
    return Memory(
        weights=in_layers + shape.outside_params * outside_bits / 8.0,
        kv=concurrency * kv,
        other=vectors * shape.hidden_size * ACTIVATION_BYTES,
    )
