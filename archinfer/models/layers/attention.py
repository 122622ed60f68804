"""Mixers that look back at cached keys and values: softmax attention in its kinds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Literal

from archinfer.models.layers.pieces import Mixer, Piece, Sized
from archinfer.models.shape import Cache

SOFTMAX = ("scores", "softmax maximum", "softmax sum")
"""Dependent all-reduces between projections and the weighted sum."""


@dataclass(frozen=True, slots=True)
class Indexer(Sized):
    """Scores every cached token cheaply and picks the `top_k` that the attention reads.

    Attributes:
        heads, head_dim: its query heads and the width of its one key per token.
        top_k: tokens read by the attention.
        query_width: width its queries are projected from (the latent query, or hidden_size).
        shared: uses another layer's choice; then it has neither parameters nor keys.
        head_weights: the heads' scores are weighted by a projection of the hidden vector.
    """

    heads: int
    head_dim: int
    top_k: int
    query_width: int
    shared: bool = False
    head_weights: bool = True

    TITLE = "indexer"

    def pieces(self, hidden: int) -> tuple[Piece, ...]:
        """Query, key and head-weight projections; two norm vectors of head_dim.

        They are weight and bias of the key's LayerNorm in DeepSeek's indexer, and one RMSNorm
        each of query and key where the heads are not weighted (MiniMax-M3).
        """
        if self.shared:
            return ()
        outputs = self.head_dim + (self.heads if self.head_weights else 0)
        query, key = "indexer.wq_b", "indexer.wk"
        if not self.head_weights:
            query, key = "index_q_proj", "index_k_proj"
        queries = self.query_width * self.heads * self.head_dim
        return (
            Piece("indexer", queries, module=f"self_attn.{query}"),
            Piece("indexer", hidden * outputs, module=f"self_attn.{key}"),
            Piece("indexer", 2 * self.head_dim, vector=True),
        )

    def caches(self) -> tuple[Cache, ...]:
        """One key a token, read whole by every query head."""
        if self.shared:
            return ()
        macs = float(self.heads * self.head_dim)
        return (Cache(float(self.head_dim), macs_per_token=macs, shards=1.0),)

    @property
    def steps(self) -> tuple[str, ...]:
        """The indexer's own projections run beside the attention's."""
        return () if self.shared else ("indexer scores", "indexer top-k")


@dataclass(frozen=True, slots=True)
class Attention(Mixer):
    """Softmax attention on query, key and value heads (multi-head, grouped or multi-query).

    Attributes:
        heads, kv_heads, head_dim: query heads, key/value heads, width of a query or key head.
        v_head_dim: width of a value head (None: head_dim).
        qkv_bias, o_bias: biases of the projections.
        qk_norm: "none", "head" (one weight vector of head_dim each for q and k),
            "projection" (each as wide as its whole projection), "unweighted".
        gate: "none", "full" (a gate per output channel) or "head" (one per head).
        sinks: one learned logit per head.
        window: most tokens attended to (sliding window or chunk); None: all.
        values_from_keys: no value projection; the cache still holds both.
        query_rank: rank of a low-rank query projection with a norm between (None: full).
        borrows_cache: reads an earlier layer's keys and values: no key or value projection.
        indexer: sparse attention's indexer.
        extra: further parameters of the family.
    """

    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int | None = None
    qkv_bias: bool = False
    o_bias: bool = False
    qk_norm: Literal["none", "head", "projection", "unweighted"] = "none"
    gate: Literal["none", "full", "head"] = "none"
    sinks: bool = False
    window: int | None = None
    values_from_keys: bool = False
    query_rank: int | None = None
    borrows_cache: bool = False
    indexer: Indexer | None = None
    extra: tuple[Piece, ...] = ()

    TITLE = "attention"
    DIVIDES = ("kv_heads", "heads")

    @property
    def value_dim(self) -> int:
        """Width of a value head."""
        return self.head_dim if self.v_head_dim is None else self.v_head_dim

    @property
    def kind(self) -> str:
        """What people call it, with query:key-value heads."""
        name = "MHA" if self.heads == self.kv_heads else "MQA" if self.kv_heads == 1 else "GQA"
        window = "" if self.window is None else f", window {self.window}"
        return f"{name} {self.heads}:{self.kv_heads}{window}"

    def pieces(self, hidden: int) -> Iterator[Piece]:
        """Projections, biases, norms, sinks."""
        q, k = self.heads * self.head_dim, self.kv_heads * self.head_dim
        v, out = self.kv_heads * self.value_dim, self.heads * self.value_dim
        rank = self.query_rank
        query = hidden * q if rank is None else rank * (hidden + q)
        yield Piece("attention", query, module="self_attn.q_proj")
        if rank is not None:
            yield Piece("norm", rank, vector=True)
        k, v = (0, 0) if self.borrows_cache else (k, v)
        v_stored = 0 if self.values_from_keys else v
        if not self.borrows_cache:
            yield Piece("attention", hidden * k, module="self_attn.k_proj")
            yield Piece("attention", hidden * v_stored, module="self_attn.v_proj")
        yield Piece("attention", out * hidden, module="self_attn.o_proj")
        if self.qkv_bias:
            yield Piece("attention", q + k + v_stored, vector=True)
        if self.o_bias:
            yield Piece("attention", hidden, vector=True)
        if self.qk_norm == "head":
            yield Piece("norm", self.head_dim * (1 if self.borrows_cache else 2), vector=True)
        elif self.qk_norm == "projection":
            yield Piece("norm", q + k, vector=True)
        if self.gate != "none":
            width = out if self.gate == "full" else self.heads
            yield Piece("attention", hidden * width, module="self_attn.query_gate")
        if self.sinks:
            yield Piece("attention", self.heads, vector=True)
        if self.indexer is not None:
            yield from self.indexer.pieces(hidden)
        yield from self.extra

    def caches(self) -> tuple[Cache, ...]:
        """Keys and values of all key-value heads; scores and weighted sum of all query heads."""
        stored = 0 if self.borrows_cache else self.kv_heads * (self.head_dim + self.value_dim)
        return (
            Cache(
                float(stored),
                window_tokens=inf if self.window is None else float(self.window),
                read_tokens=inf if self.indexer is None else float(self.indexer.top_k),
                macs_per_token=float(self.heads * (self.head_dim + self.value_dim)),
                shards=float(self.kv_heads),
            ),
        )

    @property
    def steps(self) -> tuple[str, ...]:
        """Dependent all-reduces, the branch's own norm not included."""
        low_rank = () if self.query_rank is None else ("query down-projection", "query norm")
        normed = () if self.qk_norm == "none" else ("q/k norm",)
        indexer = () if self.indexer is None else self.indexer.steps
        before = (*low_rank, "QKV projection", *normed, *indexer)
        return (*before, *SOFTMAX, "attention output", "output projection")
