"""Softmax attention on a shared latent: multi-head latent attention, DeepSeek-V4's compression."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Literal

from archinfer.models.layers.attention import SOFTMAX, Indexer
from archinfer.models.layers.pieces import Mixer, Piece, Sized, need
from archinfer.models.shape import Cache


@dataclass(frozen=True, slots=True)
class LatentAttention(Mixer):
    """Multi-head latent attention (DeepSeek-V2): one latent vector a token is cached.

    Attributes:
        heads: query heads.
        kv_rank: width of the cached latent (`kv_lora_rank`).
        nope_dim, rope_dim: parts of a query or key head without and with rotary embedding;
            rope_dim numbers are cached beside the latent, for all heads together.
        v_head_dim: width of a value head.
        query_rank: rank of the query projection (None: one full matrix).
        bias: biases of the down- and output projections (`attention_bias`).
        query_bias: a bias on the full query projection as well.
        gate: output gate per channel.
        norms: norms of the latents.
        indexer: sparse attention's indexer.
    """

    heads: int
    kv_rank: int
    nope_dim: int
    rope_dim: int
    v_head_dim: int
    query_rank: int | None = None
    bias: bool = False
    gate: Literal["none", "full", "head"] = "none"
    norms: bool = True
    indexer: Indexer | None = None
    window: int | None = None
    extra: tuple[Piece, ...] = ()

    TITLE = "attention"

    def __post_init__(self) -> None:
        Sized.__post_init__(self)
        need(self.nope_dim + self.rope_dim > 0, "a query head must have a width above 0")

    @property
    def kind(self) -> str:
        """What people call it."""
        sparse = "" if self.indexer is None else f" + DSA (top {self.indexer.top_k})"
        window = "" if self.window is None else f", window {self.window}"
        return f"MLA{sparse}{window}"

    def pieces(self, hidden: int) -> Iterator[Piece]:
        """Down- and up-projections of queries and latent, output projection, norms."""
        q = self.heads * (self.nope_dim + self.rope_dim)
        rank = self.query_rank
        if rank is None:
            yield Piece("attention", hidden * q, module="self_attn.q_proj")
        else:
            yield Piece("attention", rank * hidden, module="self_attn.q_a_proj")
            yield Piece("attention", rank * q, module="self_attn.q_b_proj")
            if self.norms:
                yield Piece("norm", rank, vector=True)
        down, up = self.kv_rank + self.rope_dim, self.nope_dim + self.v_head_dim
        yield Piece("attention", hidden * down, module="self_attn.kv_a_proj_with_mqa")
        if self.norms:
            yield Piece("norm", self.kv_rank, vector=True)
        yield Piece("attention", self.kv_rank * self.heads * up, module="self_attn.kv_b_proj")
        out = self.heads * self.v_head_dim
        yield Piece("attention", out * hidden, module="self_attn.o_proj")
        if self.bias:
            query_bias = 0 if self.query_rank is None else self.query_rank
            count = query_bias + self.kv_rank + self.rope_dim + hidden
            yield Piece("attention", count, vector=True)
        if self.gate != "none":
            width = out if self.gate == "full" else self.heads
            yield Piece("attention", hidden * width, module="self_attn.g_proj")
        if self.indexer is not None:
            yield from self.indexer.pieces(hidden)
        yield from self.extra

    def caches(self) -> tuple[Cache, ...]:
        """The latent and its rotary part; both products run on the latent (absorbed form)."""
        width = self.kv_rank + self.rope_dim
        return (
            Cache(
                float(width),
                window_tokens=inf if self.window is None else float(self.window),
                read_tokens=inf if self.indexer is None else float(self.indexer.top_k),
                macs_per_token=float(self.heads * (width + self.kv_rank)),
                shards=1.0,
                prompt_macs_per_token=float(
                    self.heads * (self.nope_dim + self.rope_dim + self.v_head_dim)
                ),
            ),
        )

    @property
    def steps(self) -> tuple[str, ...]:
        """Dependent all-reduces of the absorbed form, the branch's own norm not included."""
        down = ("q_a and kv_a projection", "latent norm", "q_b projection")
        query = down if self.query_rank is not None else ("q and kv_a projection",)
        indexer = () if self.indexer is None else self.indexer.steps
        after = ("latent output", "value up-projection", "output projection")
        return (*query, *indexer, "absorbed query", *SOFTMAX, *after)


@dataclass(frozen=True, slots=True)
class CompressedAttention(Mixer):
    """DeepSeek-V4: one shared key = value of head_dim, a window, and a compressed past.

    Attributes:
        heads, head_dim: query heads and the width of the one cached vector.
        query_rank: rank of the query projection.
        output_rank, output_groups: the output projection is `output_groups` low-rank blocks.
        window: tokens kept uncompressed.
        ratio: tokens that share one compressed entry (0: no compressed past).
        indexer: picks compressed entries to read (its keys are compressed alike); None: all.
    """

    heads: int
    head_dim: int
    query_rank: int
    output_rank: int
    output_groups: int
    window: int
    ratio: int = 0
    indexer: Indexer | None = None

    TITLE = "attention"
    DIVIDES = ("output_groups", "heads")

    @property
    def kind(self) -> str:
        """What the maker calls it."""
        name = {True: "window", False: f"compressed {self.ratio}:1"}[self.ratio == 0]
        sparse = "" if self.indexer is None else f", top {self.indexer.top_k}"
        return f"shared K=V of {self.head_dim}, {name}{sparse}, window {self.window}"

    @property
    def _overlap(self) -> int:
        """A compressor that feeds an indexer sees two overlapping blocks: twice the width."""
        return 2 if self.indexer is not None else 1

    def _compressor(self, hidden: int, width: int) -> tuple[int, int]:
        """Parameters of a compressor's two projections, and of its position bias."""
        wide = width * self._overlap
        return 2 * hidden * wide, self.ratio * wide

    def pieces(self, hidden: int) -> Iterator[Piece]:
        """Query, key = value and grouped output projections, norms, sinks, compressor, indexer."""
        q = self.heads * self.head_dim
        yield Piece("attention", self.query_rank * hidden, module="self_attn.wq_a")
        yield Piece("attention", self.query_rank * q, module="self_attn.wq_b")
        yield Piece("attention", hidden * self.head_dim, module="self_attn.wkv")
        yield Piece("attention", q * self.output_rank, module="self_attn.wo_a")
        output = self.output_groups * self.output_rank * hidden
        yield Piece("attention", output, module="self_attn.wo_b")
        yield Piece("attention", self.heads, vector=True)
        yield Piece("norm", self.query_rank + self.head_dim, vector=True)
        if self.ratio:
            matrix, bias = self._compressor(hidden, self.head_dim)
            yield Piece("attention", matrix, module="self_attn.compressor.wkv")
            yield Piece("attention", bias, vector=True)
            yield Piece("norm", self.head_dim, vector=True)
        if self.indexer is not None:
            i = self.indexer
            own = self.query_rank * i.heads * i.head_dim + hidden * i.heads
            yield Piece("indexer", own, module="self_attn.indexer.wq_b")
            matrix, bias = self._compressor(hidden, i.head_dim)
            yield Piece("indexer", matrix, module="self_attn.indexer.compressor.wkv")
            yield Piece("indexer", bias + i.head_dim, vector=True)

    def caches(self) -> tuple[Cache, ...]:
        """The window, and the compressed past (a 1/ratio share of an entry a token)."""
        macs = float(2 * self.heads * self.head_dim)
        window = Cache(
            float(self.head_dim), window_tokens=float(self.window), macs_per_token=macs, shards=1.0
        )
        if not self.ratio:
            return (window,)
        read = inf if self.indexer is None else float(self.indexer.top_k * self.ratio)
        past = Cache(
            self.head_dim / self.ratio,
            read_tokens=read,
            macs_per_token=macs / self.ratio,
            shards=1.0,
        )
        return (window, past)

    def indexer_caches(self) -> tuple[Cache, ...]:
        """Compressed keys of the indexer."""
        if self.indexer is None:
            return ()
        width = self.indexer.head_dim
        macs = self.indexer.heads * width / self.ratio
        return (Cache(width / self.ratio, macs_per_token=macs, shards=1.0),)

    @property
    def steps(self) -> tuple[str, ...]:
        """Dependent all-reduces, the branch's own norm not included."""
        before = ("q_a and kv projection", "latent norm", "q_b projection", "query norm")
        indexer = () if self.indexer is None else self.indexer.steps
        after = ("attention output", "output down-projection", "output projection")
        return (*before, *indexer, *SOFTMAX, *after)
