"""What one decode pass reads, writes and computes, and what a deployment stores.

Nothing here knows any hardware: counts of bytes and FLOPs only. FLOPs are those of matrix
products (two per multiply-accumulate), attention scores and weighted sums included; element-wise
work (norms, activations, rotary embedding, softmax) is not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from archinfer.models.shape import Cache, LayerGroup, ModelShape, Number
from archinfer.physics.memory import CacheBytes, Memory

ACTIVATION_BYTES = 2
"""Bytes of one number of an activation: 16 bits, stored as well as sent."""

ACTIVATION_VECTORS = 8
"""Live vectors of hidden_size per token in flight: residual, normed input, query, key and value,
attention output, gate and up of the feed-forward, its output (an upper bound for the usual
shapes, since each expert is narrower than the hidden size it works on)."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is asked of a model: context, users, number formats, drafts."""

    context_tokens: Number = 8000
    """Tokens whose keys and values a step sees, the new one included."""
    concurrency: Number = 1
    """Sequences served at once; each keeps its own KV cache."""
    weight_bits: Number = 16
    """Bits of a weight, scales included, where a layer has none of its own."""
    outside_bits: Number | None = None
    """The same of embedding, head and final norm; None: `weight_bits`."""
    kv_bits: float = 16
    draft_tokens: Number = 0
    """Drafted tokens that a pass verifies beside its own."""
    weights_only: bool | NDArray[np.bool_] = False
    """No product takes weights of this format (`archinfer.models.formats`)."""
    held_context_tokens: Number | None = None
    """Tokens of context that memory is kept for; None: `context_tokens`."""

    prompt_tokens: Number | None = None
    """Tokens of a user's prompt; None: decode passes wait for nobody's prompt."""
    output_tokens: Number = 1000
    """Tokens of an answer."""

    def table_bits(self, shape: ModelShape) -> tuple[Number, Number, Number]:
        """Bits of one parameter of the embedding tables, of the head, of what else is outside."""
        usual = self.weight_bits if self.outside_bits is None else self.outside_bits
        own = (shape.lookup_bits, shape.head_bits, shape.extra_bits)
        lookup, head, extra = (usual if bits is None else bits for bits in own)
        return lookup, head, extra

    def layer_bits(self, group: LayerGroup) -> tuple[Number, Number]:
        """Bits of one shared and of one routed parameter of a layer."""
        return (
            self.weight_bits if group.shared_bits is None else group.shared_bits,
            self.weight_bits if group.routed_bits is None else group.routed_bits,
        )


def experts_hit(experts: Number, experts_per_token: Number, tokens: Number) -> Number:
    """Distinct experts that `tokens` tokens use in one layer under even routing.

    E (1 - (1 - k/E)^B): each token misses a given expert with probability 1 - k/E.
    Real routers are skewed and hit fewer (`LayerGroup.evenness`).
    """
    return experts * (1.0 - (1.0 - experts_per_token / experts) ** tokens)


def _tokens_read(cache: Cache, context_tokens: Number) -> Number:
    return np.minimum(np.minimum(context_tokens, cache.window_tokens), cache.read_tokens)


def _token_bytes(cache: Cache, kv_bits: float) -> Number:
    """Bytes that one token adds to the cache of one layer."""
    bits = kv_bits if cache.bits is None else cache.bits
    return cache.values_per_token * (bits / 8.0)


def cache_read_bytes(cache: Cache, traffic: Traffic) -> Number:
    """Bytes of one layer's cache that one token reads."""
    return _token_bytes(cache, traffic.kv_bits) * _tokens_read(cache, traffic.context_tokens)


def kv_read_bytes(group: LayerGroup, traffic: Traffic) -> Number:
    """Bytes of one layer's caches and state that one token reads."""
    return sum((cache_read_bytes(c, traffic) for c in group.caches), start=0.0) + group.state_bytes


def values_read(group: LayerGroup, context_tokens: Number) -> Number:
    """Cached numbers of one layer that one token reads."""
    read = (c.values_per_token * _tokens_read(c, context_tokens) for c in group.caches)
    return sum(read, start=0.0)


def attention_macs(group: LayerGroup, context_tokens: Number) -> Number:
    """Multiply-accumulates of scores and weighted sum for one token in one layer."""
    macs = (c.macs_per_token * _tokens_read(c, context_tokens) for c in group.caches)
    return sum(macs, start=0.0)


def flops(group: LayerGroup, traffic: Traffic) -> Number:
    """FLOPs of one token in one layer: two for each multiply-accumulate."""
    matrix_params = group.shared_params - group.vector_params + group.routed_active_params
    return 2.0 * (matrix_params + attention_macs(group, traffic.context_tokens))


def weights_read(group: LayerGroup, traffic: Traffic, hit: Number) -> tuple[Number, Number]:
    """Parameters of one layer that a pass reads when it uses `hit` distinct experts; bytes."""
    routed_read = group.routed_params * (hit / group.experts)
    return group.shared_params + routed_read, _weight_bytes(group, routed_read, traffic)


def _weight_bytes(group: LayerGroup, routed_params: Number, traffic: Traffic) -> Number:
    """Bytes of a layer's shared weights and of `routed_params` of its experts'."""
    shared_bits, routed_bits = traffic.layer_bits(group)
    return (group.shared_params * shared_bits + routed_params * routed_bits) / 8.0


@dataclass(frozen=True, slots=True)
class Work:
    """Bytes moved and FLOPs computed in one decode pass of a batch, by one layer or by all."""

    weight_bytes: Number
    """Each distinct expert once."""
    kv_read_bytes: Number
    kv_write_bytes: Number
    flops: Number


def _layer_work(group: LayerGroup, traffic: Traffic, batch: Number, hit: Number | None) -> Work:
    """Of one layer; arguments as of `Workload.work`."""
    if hit is None or not np.any(group.routed_params):
        hit = experts_hit(group.even_experts, group.experts_per_token, batch)
    kv_write = sum((_token_bytes(c, traffic.kv_bits) for c in group.caches), start=0.0)
    return Work(
        weight_bytes=weights_read(group, traffic, hit)[1],
        kv_read_bytes=batch * kv_read_bytes(group, traffic),
        kv_write_bytes=batch * (kv_write + group.state_bytes),
        flops=batch * flops(group, traffic),
    )


@dataclass(frozen=True)
class Workload:
    """A model and what is asked of it."""

    shape: ModelShape
    traffic: Traffic

    @cached_property
    def memory(self) -> Memory:
        """Bytes stored: weights, KV cache of every sequence, activations in flight.

        Activations: `ACTIVATION_VECTORS` vectors of hidden_size at 16 bits for each sequence in
        flight, at least one per layer, since every layer of a pipeline owns its buffers.
        """
        shape, traffic = self.shape, self.traffic
        users = traffic.concurrency
        in_layers = sum(g.count * _weight_bytes(g, g.routed_params, traffic) for g in shape.groups)
        shared = sum(g.count * _weight_bytes(g, 0.0, traffic) for g in shape.groups)
        vectors = ACTIVATION_VECTORS * np.maximum(users, shape.layers)
        lookup_bits, head_bits, extra_bits = traffic.table_bits(shape)
        head = (1.0 - shape.tied) * shape.head_params * head_bits
        outside = shape.lookup_params * lookup_bits + head + shape.extra_params * extra_bits
        return Memory(
            weights=in_layers + outside / 8.0,
            caches=tuple(
                CacheBytes(users * c.whole_bytes, c.shards) for c in _caches(shape, traffic)
            ),
            other=vectors * shape.hidden_size * ACTIVATION_BYTES,
            layers=shape.layers,
            shared=shared + outside / 8.0,
            users=users,
            heads=shape.heads,
        )

    def work(self, batch: Number, hit: Number | None = None) -> Work:
        """One whole pass: every layer, one embedding row per token, the head.

        Args:
            batch: sequences that each add one token.
            hit: distinct experts used in each MoE layer; None: the mean under routing as even as
                the layer's.
        """
        shape, traffic = self.shape, self.traffic
        layers = [(g.count, _layer_work(g, traffic, batch, hit)) for g in shape.groups]
        row_params = batch * shape.hidden_size if np.any(shape.lookup_params) else 0.0
        lookup_bits, head_bits, extra_bits = traffic.table_bits(shape)
        outside = row_params * lookup_bits + shape.head_params * head_bits
        return Work(
            weight_bytes=sum(n * w.weight_bytes for n, w in layers)
            + (outside + shape.extra_params * extra_bits) / 8.0,
            kv_read_bytes=sum(n * w.kv_read_bytes for n, w in layers),
            kv_write_bytes=sum(n * w.kv_write_bytes for n, w in layers),
            flops=sum(n * w.flops for n, w in layers) + 2.0 * batch * shape.head_params,
        )


def _caches(shape: ModelShape, traffic: Traffic) -> list[CacheBytes]:
    """KV cache and recurrent state of one sequence, those of equal shards together."""
    found: list[CacheBytes] = []
    held = traffic.held_context_tokens
    context_tokens = traffic.context_tokens if held is None else held

    def add(whole_bytes: Number, shards: Number) -> None:
        for i, known in enumerate(found):
            if known.shards is shards or np.array_equal(known.shards, shards):
                found[i] = CacheBytes(known.whole_bytes + whole_bytes, shards)
                return
        found.append(CacheBytes(whole_bytes, shards))

    for group in shape.groups:
        for cache in group.caches:
            tokens = np.minimum(context_tokens, cache.window_tokens)
            add(group.count * (_token_bytes(cache, traffic.kv_bits) * tokens), cache.shards)
        if np.any(group.state_bytes):
            add(group.count * group.state_bytes, group.state_shards)
    return found
