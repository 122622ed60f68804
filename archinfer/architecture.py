"""An exact model architecture: layers, widths, attention, experts -> parameters, KV bytes, steps.

An `Architecture` is built of small frozen parts. A layer is a sequence of residual branches
(`Sublayer`), some of them side by side (`Parallel`); the body of a branch is either a mixer
(`Attention`, `LatentAttention`, `CompressedAttention`, `GatedDelta`, `KimiDelta`, `Lightning`,
`Mamba1`, `Mamba2`, `ShortConv`) or a feed-forward (`DenseMLP`, `MoE`). Each part states its
parameters, its caches, its recurrent state and its chain of dependent all-reduces; everything
else here is a sum over parts.

Conventions of the counts:

- total: the language model: embedding and head (once if tied) and all layers; no vision tower,
  no multi-token-prediction layers, no score-correction bias of a router (a buffer, not a weight).
- active: total minus the routed experts that a token does not use; embedding and head are in.
  Experts without weights ("zero experts") count by the average, all being equally likely.
- n-gram tables are stored but left out of active, but for the rows that one token looks up.
- a multiply-accumulate is one product of two numbers; norms and biases are no matrix products.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import chain
from math import inf
from typing import Literal, TypeAlias

from archinfer.errors import InputError
from archinfer.formats import weight_format
from archinfer.shape import Cache, LayerGroup, ModelShape

__all__ = [
    "COMPONENTS",
    "Architecture",
    "Attention",
    "CompressedAttention",
    "DenseMLP",
    "FeedForward",
    "GatedDelta",
    "Indexer",
    "KimiDelta",
    "LatentAttention",
    "LayerBlock",
    "Lightning",
    "Mamba1",
    "Mamba2",
    "Mixer",
    "MoE",
    "Parallel",
    "ParameterCount",
    "Piece",
    "ShortConv",
    "Sublayer",
    "group_layers",
    "weight_bytes",
]

COMPONENTS = (
    "embedding",
    "attention",
    "indexer",
    "ssm",
    "dense_mlp",
    "experts",
    "shared",
    "latent",
    "router",
    "norm",
    "hyper",
    "ngram_table",
    "ngram_projection",
    "other",
    "lm_head",
)
"""Every component a count is broken into, in the order of printing."""

OUTSIDE_COMPONENTS = frozenset({"embedding", "lm_head", "ngram_table"})
"""Tables that usually stay at 16 bits when the layers are stored in fewer."""

STATE_BYTES = 4
"""Recurrent state is kept at 32 bits (`mamba_ssm_cache_dtype`, fla's recurrent kernels)."""

CONV_STATE_BYTES = 2
"""The convolution's last inputs are activations: 16 bits."""

MAX_COUNT = 2**53
"""Counts up to here are exact as floats; no model comes near."""


@dataclass(frozen=True, slots=True)
class Piece:
    """`count` parameters of one component; `vector`: outside matrix products."""

    component: str
    count: int
    vector: bool = False


def _need(ok: bool, message: str) -> None:
    if not ok:
        raise InputError(message)


def _size(what: str, value: object, high: int, low: int = 1) -> None:
    """Refuse what is no whole number in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{what} must be a whole number, found {value!r}")
    if not low <= value <= high:
        raise InputError(f"{what} must be between {low} and {high}, found {value}")


_MAX_WIDTH = 2**24
_MAX_HEADS = 2**14
_MAX_LAYERS = 10_000
_MAX_VOCABULARY = 2**28
_MAX_EXPERTS = 2**20
_MAX_WINDOW = 2**40


@dataclass(frozen=True, slots=True)
class Indexer:
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

    def __post_init__(self) -> None:
        _size("indexer heads", self.heads, _MAX_HEADS)
        _size("indexer head_dim", self.head_dim, _MAX_WIDTH)
        _size("indexer top-k", self.top_k, _MAX_WINDOW)

    def pieces(self, hidden: int) -> tuple[Piece, ...]:
        """Query, key and head-weight projections; two norm vectors of head_dim.

        They are weight and bias of the key's LayerNorm in DeepSeek's indexer, and one RMSNorm
        each of query and key where the heads are not weighted (MiniMax-M3).
        """
        if self.shared:
            return ()
        outputs = self.head_dim + (self.heads if self.head_weights else 0)
        return (
            Piece("indexer", self.query_width * self.heads * self.head_dim),
            Piece("indexer", hidden * outputs),
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


class _Memoryless:
    """A mixer without the kinds of memory that it does not name itself."""

    __slots__ = ()

    def caches(self) -> tuple[Cache, ...]:
        """Keys and values of one layer: none."""
        return ()

    def indexer_caches(self) -> tuple[Cache, ...]:
        """Keys of a sparse-attention indexer: none."""
        return ()

    def state_bytes(self) -> int:
        """Recurrent and convolution state of a sequence: none."""
        return 0

    @property
    def state_shards(self) -> float:
        """Ways in which tensor parallelism can split the state: by its heads or channels."""
        return inf


@dataclass(frozen=True, slots=True)
class Attention(_Memoryless):
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

    def __post_init__(self) -> None:
        _size("attention heads", self.heads, _MAX_HEADS)
        _size("key-value heads", self.kv_heads, _MAX_HEADS)
        _size("head_dim", self.head_dim, _MAX_WIDTH)
        _need(
            self.heads % self.kv_heads == 0,
            f"{self.kv_heads} key-value heads do not divide {self.heads} attention heads",
        )
        if self.v_head_dim is not None:
            _size("v_head_dim", self.v_head_dim, _MAX_WIDTH)
        if self.window is not None:
            _size("attention window", self.window, _MAX_WINDOW)
        if self.query_rank is not None:
            _size("query rank", self.query_rank, _MAX_WIDTH)

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
        if self.query_rank is None:
            yield Piece("attention", hidden * q)
        else:
            yield Piece("attention", self.query_rank * (hidden + q))
            yield Piece("norm", self.query_rank, vector=True)
        k, v = (0, 0) if self.borrows_cache else (k, v)
        v_stored = 0 if self.values_from_keys else v
        yield Piece("attention", hidden * (k + v_stored) + out * hidden)
        if self.qkv_bias:
            yield Piece("attention", q + k + v_stored, vector=True)
        if self.o_bias:
            yield Piece("attention", hidden, vector=True)
        if self.qk_norm == "head":
            yield Piece("norm", self.head_dim * (1 if self.borrows_cache else 2), vector=True)
        elif self.qk_norm == "projection":
            yield Piece("norm", q + k, vector=True)
        if self.gate != "none":
            yield Piece("attention", hidden * (out if self.gate == "full" else self.heads))
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

    def indexer_caches(self) -> tuple[Cache, ...]:
        """Keys of the indexer."""
        return () if self.indexer is None else self.indexer.caches()

    @property
    def steps(self) -> tuple[str, ...]:
        """Dependent all-reduces, the branch's own norm not included."""
        low_rank = () if self.query_rank is None else ("query down-projection", "query norm")
        normed = () if self.qk_norm == "none" else ("q/k norm",)
        indexer = () if self.indexer is None else self.indexer.steps
        return (
            *low_rank,
            "QKV projection",
            *normed,
            *indexer,
            "scores",
            "softmax maximum",
            "softmax sum",
            "attention output",
            "output projection",
        )


@dataclass(frozen=True, slots=True)
class LatentAttention(_Memoryless):
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

    def __post_init__(self) -> None:
        _size("attention heads", self.heads, _MAX_HEADS)
        _size("kv_lora_rank", self.kv_rank, _MAX_WIDTH)
        _size("qk_nope_head_dim", self.nope_dim, _MAX_WIDTH, low=0)
        _size("qk_rope_head_dim", self.rope_dim, _MAX_WIDTH, low=0)
        _need(self.nope_dim + self.rope_dim > 0, "a query head must have a width above 0")
        _size("v_head_dim", self.v_head_dim, _MAX_WIDTH)
        if self.query_rank is not None:
            _size("q_lora_rank", self.query_rank, _MAX_WIDTH)
        if self.window is not None:
            _size("attention window", self.window, _MAX_WINDOW)

    @property
    def kind(self) -> str:
        """What people call it."""
        sparse = "" if self.indexer is None else f" + DSA (top {self.indexer.top_k})"
        window = "" if self.window is None else f", window {self.window}"
        return f"MLA{sparse}{window}"

    def pieces(self, hidden: int) -> Iterator[Piece]:
        """Down- and up-projections of queries and latent, output projection, norms."""
        q = self.heads * (self.nope_dim + self.rope_dim)
        if self.query_rank is None:
            yield Piece("attention", hidden * q)
        else:
            yield Piece("attention", self.query_rank * (hidden + q))
            if self.norms:
                yield Piece("norm", self.query_rank, vector=True)
        yield Piece("attention", hidden * (self.kv_rank + self.rope_dim))
        if self.norms:
            yield Piece("norm", self.kv_rank, vector=True)
        yield Piece("attention", self.kv_rank * self.heads * (self.nope_dim + self.v_head_dim))
        out = self.heads * self.v_head_dim
        yield Piece("attention", out * hidden)
        if self.bias:
            query_bias = 0 if self.query_rank is None else self.query_rank
            count = query_bias + self.kv_rank + self.rope_dim + hidden
            yield Piece("attention", count, vector=True)
        if self.gate != "none":
            yield Piece("attention", hidden * (out if self.gate == "full" else self.heads))
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
            ),
        )

    def indexer_caches(self) -> tuple[Cache, ...]:
        """Keys of the indexer."""
        return () if self.indexer is None else self.indexer.caches()

    @property
    def steps(self) -> tuple[str, ...]:
        """Dependent all-reduces of the absorbed form, the branch's own norm not included."""
        down = ("q_a and kv_a projection", "latent norm", "q_b projection")
        query = down if self.query_rank is not None else ("q and kv_a projection",)
        indexer = () if self.indexer is None else self.indexer.steps
        return (
            *query,
            *indexer,
            "absorbed query",
            "scores",
            "softmax maximum",
            "softmax sum",
            "latent output",
            "value up-projection",
            "output projection",
        )


@dataclass(frozen=True, slots=True)
class CompressedAttention(_Memoryless):
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

    def __post_init__(self) -> None:
        _size("attention heads", self.heads, _MAX_HEADS)
        _size("head_dim", self.head_dim, _MAX_WIDTH)
        _size("q_lora_rank", self.query_rank, _MAX_WIDTH)
        _size("o_lora_rank", self.output_rank, _MAX_WIDTH)
        _size("o_groups", self.output_groups, _MAX_HEADS)
        _size("sliding_window", self.window, _MAX_WINDOW)
        _size("compression ratio", self.ratio, _MAX_WINDOW, low=0)
        _need(
            self.heads % self.output_groups == 0,
            f"{self.output_groups} output groups do not divide {self.heads} attention heads",
        )

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
        yield Piece("attention", self.query_rank * (hidden + q) + hidden * self.head_dim)
        yield Piece("attention", q * self.output_rank)
        yield Piece("attention", self.output_groups * self.output_rank * hidden)
        yield Piece("attention", self.heads, vector=True)
        yield Piece("norm", self.query_rank + self.head_dim, vector=True)
        if self.ratio:
            matrix, bias = self._compressor(hidden, self.head_dim)
            yield Piece("attention", matrix)
            yield Piece("attention", bias, vector=True)
            yield Piece("norm", self.head_dim, vector=True)
        if self.indexer is not None:
            i = self.indexer
            yield Piece("indexer", self.query_rank * i.heads * i.head_dim + hidden * i.heads)
            matrix, bias = self._compressor(hidden, i.head_dim)
            yield Piece("indexer", matrix)
            yield Piece("indexer", bias + i.head_dim, vector=True)

    def caches(self) -> tuple[Cache, ...]:
        """The window, and the compressed past (a 1/ratio share of an entry a token)."""
        macs = float(2 * self.heads * self.head_dim)
        window = Cache(
            float(self.head_dim),
            window_tokens=float(self.window),
            macs_per_token=macs,
            shards=1.0,
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

    def state_bytes(self) -> int:
        """The entry under construction is small and left out."""
        return 0

    @property
    def steps(self) -> tuple[str, ...]:
        """Dependent all-reduces, the branch's own norm not included."""
        return (
            "q_a and kv projection",
            "latent norm",
            "q_b projection",
            "query norm",
            *(() if self.indexer is None else self.indexer.steps),
            "scores",
            "softmax maximum",
            "softmax sum",
            "attention output",
            "output down-projection",
            "output projection",
        )


@dataclass(frozen=True, slots=True)
class GatedDelta(_Memoryless):
    """Gated DeltaNet (Qwen3-Next, Qwen3.5): a matrix state per value head.

    Attributes:
        key_heads, key_dim, value_heads, value_dim: heads and their widths.
        conv: taps of the causal convolution over q, k and v.
    """

    key_heads: int
    key_dim: int
    value_heads: int
    value_dim: int
    conv: int

    def __post_init__(self) -> None:
        _size("linear key heads", self.key_heads, _MAX_HEADS)
        _size("linear value heads", self.value_heads, _MAX_HEADS)
        _size("linear key head_dim", self.key_dim, _MAX_WIDTH)
        _size("linear value head_dim", self.value_dim, _MAX_WIDTH)
        _size("convolution taps", self.conv, _MAX_WIDTH)
        _need(
            self.value_heads % self.key_heads == 0,
            f"{self.key_heads} linear key heads do not divide {self.value_heads} value heads",
        )

    @property
    def kind(self) -> str:
        """What people call it."""
        return f"gated DeltaNet {self.key_heads}:{self.value_heads}"

    @property
    def _channels(self) -> int:
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim

    def pieces(self, hidden: int) -> Iterator[Piece]:
        """q, k, v, z and output projections, decay and beta, convolution, gated norm."""
        value = self.value_heads * self.value_dim
        yield Piece("ssm", hidden * (self._channels + value + 2 * self.value_heads))
        yield Piece("ssm", value * hidden)
        yield Piece("ssm", self.conv * self._channels, vector=True)
        yield Piece("ssm", 2 * self.value_heads + self.value_dim, vector=True)

    def caches(self) -> tuple[Cache, ...]:
        """None: the past is in the state."""
        return ()

    def state_bytes(self) -> int:
        """key_dim x value_dim per value head, and the last conv - 1 inputs."""
        recurrent = self.value_heads * self.key_dim * self.value_dim
        return recurrent * STATE_BYTES + self._channels * (self.conv - 1) * CONV_STATE_BYTES

    @property
    def state_shards(self) -> float:
        """One for each value head."""
        return float(self.value_heads)

    @property
    def steps(self) -> tuple[str, ...]:
        """Dependent all-reduces, the branch's own norm not included."""
        return (
            "input projection",
            "q/k norm",
            "state times key",
            "state times query",
            "gated norm",
            "output projection",
        )


@dataclass(frozen=True, slots=True)
class KimiDelta(_Memoryless):
    """Kimi Delta Attention: DeltaNet with a decay per channel.

    Attributes:
        heads, head_dim: heads of q, k and v alike.
        conv: taps of the three causal convolutions.
        full_rank_gate: the output gate is one matrix (else low-rank through head_dim).
    """

    heads: int
    head_dim: int
    conv: int
    full_rank_gate: bool = False

    def __post_init__(self) -> None:
        _size("linear attention heads", self.heads, _MAX_HEADS)
        _size("linear attention head_dim", self.head_dim, _MAX_WIDTH)
        _size("convolution taps", self.conv, _MAX_WIDTH)

    @property
    def kind(self) -> str:
        """What the maker calls it."""
        return f"Kimi delta attention {self.heads}"

    def pieces(self, hidden: int) -> Iterator[Piece]:
        """q, k, v, output, gate, decay and beta projections, convolutions, gated norm."""
        wide = self.heads * self.head_dim
        low_rank = self.head_dim * (hidden + wide)
        gate = hidden * wide if self.full_rank_gate else low_rank
        yield Piece("ssm", 4 * hidden * wide + gate + low_rank + hidden * self.heads)
        yield Piece("ssm", 3 * self.conv * wide, vector=True)
        yield Piece("ssm", self.heads + wide + self.head_dim, vector=True)

    def caches(self) -> tuple[Cache, ...]:
        """None: the past is in the state."""
        return ()

    def state_bytes(self) -> int:
        """head_dim squared per head, and the last conv - 1 inputs of q, k and v."""
        wide = self.heads * self.head_dim
        recurrent = wide * self.head_dim * STATE_BYTES
        return recurrent + 3 * wide * (self.conv - 1) * CONV_STATE_BYTES

    @property
    def state_shards(self) -> float:
        """One for each head."""
        return float(self.heads)

    @property
    def steps(self) -> tuple[str, ...]:
        """Dependent all-reduces; the decay's second matrix runs beside the q/k norm."""
        return (
            "input projection",
            "q/k norm",
            "state times key",
            "state times query",
            "gated norm",
            "output projection",
        )


@dataclass(frozen=True, slots=True)
class Lightning(_Memoryless):
    """Lightning attention (MiniMax-Text-01): linear attention with a fixed decay.

    Attributes:
        heads, head_dim: heads of q, k and v alike.
    """

    heads: int
    head_dim: int

    def __post_init__(self) -> None:
        _size("linear attention heads", self.heads, _MAX_HEADS)
        _size("head_dim", self.head_dim, _MAX_WIDTH)

    @property
    def kind(self) -> str:
        """What the maker calls it."""
        return f"lightning attention {self.heads}"

    def pieces(self, hidden: int) -> Iterator[Piece]:
        """q, k, v, gate and output projections, output norm."""
        wide = self.heads * self.head_dim
        yield Piece("attention", 5 * hidden * wide)
        yield Piece("norm", wide, vector=True)

    def caches(self) -> tuple[Cache, ...]:
        """None: the past is in the state."""
        return ()

    def state_bytes(self) -> int:
        """head_dim squared per head."""
        return self.heads * self.head_dim**2 * STATE_BYTES

    @property
    def state_shards(self) -> float:
        """One for each head."""
        return float(self.heads)

    @property
    def steps(self) -> tuple[str, ...]:
        """Dependent all-reduces, the branch's own norm not included."""
        return ("QKV projection", "state times query", "output norm", "output projection")


@dataclass(frozen=True, slots=True)
class Mamba1(_Memoryless):
    """Mamba (selective state space, version 1), as in Jamba.

    Attributes:
        inner: channels (`expand` times hidden_size).
        state: state numbers per channel.
        conv: taps of the causal convolution.
        dt_rank: rank of the time-step projection.
        conv_bias, proj_bias: biases.
        inner_norms: norms of time step, B and C.
    """

    inner: int
    state: int
    conv: int
    dt_rank: int
    conv_bias: bool = True
    proj_bias: bool = False
    inner_norms: bool = False

    def __post_init__(self) -> None:
        _size("mamba channels", self.inner, _MAX_WIDTH)
        _size("mamba state size", self.state, _MAX_WIDTH)
        _size("convolution taps", self.conv, _MAX_WIDTH)
        _size("mamba time-step rank", self.dt_rank, _MAX_WIDTH)

    @property
    def kind(self) -> str:
        """What people call it."""
        return f"Mamba-1 state {self.state}"

    def pieces(self, hidden: int) -> Iterator[Piece]:
        """In-, x-, dt- and out-projection, convolution, A, D, inner norms."""
        yield Piece("ssm", 3 * hidden * self.inner)
        yield Piece("ssm", self.inner * (self.dt_rank + 2 * self.state))
        yield Piece("ssm", self.dt_rank * self.inner)
        conv = self.inner * (self.conv + int(self.conv_bias))
        yield Piece("ssm", conv + self.inner * (self.state + 2), vector=True)
        if self.proj_bias:
            yield Piece("ssm", 2 * self.inner + hidden, vector=True)
        if self.inner_norms:
            yield Piece("ssm", self.dt_rank + 2 * self.state, vector=True)

    def caches(self) -> tuple[Cache, ...]:
        """None: the past is in the state."""
        return ()

    def state_bytes(self) -> int:
        """state numbers per channel, and the last conv - 1 inputs."""
        return self.inner * (self.state * STATE_BYTES + (self.conv - 1) * CONV_STATE_BYTES)

    @property
    def state_shards(self) -> float:
        """One for each channel."""
        return float(self.inner)

    @property
    def steps(self) -> tuple[str, ...]:
        """Dependent all-reduces, the branch's own norm not included."""
        normed = ("dt, B, C norm",) if self.inner_norms else ()
        return (
            "input projection",
            "x projection",
            *normed,
            "dt projection",
            "state output",
            "output projection",
        )


@dataclass(frozen=True, slots=True)
class Mamba2(_Memoryless):
    """Mamba-2, as in Nemotron-H: heads with a scalar decay, B and C shared by groups of heads.

    Attributes:
        heads, head_dim: heads and channels of each.
        state: state numbers per channel.
        groups: groups that share B and C.
        conv: taps of the causal convolution.
        conv_bias, proj_bias: biases.
        gated_norm: norm before the output projection.
    """

    heads: int
    head_dim: int
    state: int
    groups: int
    conv: int
    conv_bias: bool = True
    proj_bias: bool = False
    gated_norm: bool = True

    def __post_init__(self) -> None:
        _size("mamba heads", self.heads, _MAX_HEADS)
        _size("mamba head_dim", self.head_dim, _MAX_WIDTH)
        _size("mamba state size", self.state, _MAX_WIDTH)
        _size("mamba groups", self.groups, _MAX_HEADS)
        _size("convolution taps", self.conv, _MAX_WIDTH)
        _need(
            self.heads % self.groups == 0,
            f"{self.groups} mamba groups do not divide {self.heads} mamba heads",
        )

    @property
    def kind(self) -> str:
        """What people call it."""
        return f"Mamba-2 {self.heads} heads, state {self.state}"

    @property
    def _inner(self) -> int:
        return self.heads * self.head_dim

    @property
    def _channels(self) -> int:
        return self._inner + 2 * self.groups * self.state

    def pieces(self, hidden: int) -> Iterator[Piece]:
        """In- and out-projection, convolution, A, D, time-step bias, gated norm."""
        wide = self._inner + self._channels + self.heads
        yield Piece("ssm", hidden * wide + self._inner * hidden)
        conv = self._channels * (self.conv + int(self.conv_bias))
        yield Piece("ssm", conv + 3 * self.heads, vector=True)
        if self.proj_bias:
            yield Piece("ssm", wide + hidden, vector=True)
        if self.gated_norm:
            yield Piece("norm", self._inner, vector=True)

    def caches(self) -> tuple[Cache, ...]:
        """None: the past is in the state."""
        return ()

    def state_bytes(self) -> int:
        """state numbers per channel, and the last conv - 1 inputs."""
        recurrent = self._inner * self.state * STATE_BYTES
        return recurrent + self._channels * (self.conv - 1) * CONV_STATE_BYTES

    @property
    def state_shards(self) -> float:
        """One for each head."""
        return float(self.heads)

    @property
    def steps(self) -> tuple[str, ...]:
        """Dependent all-reduces, the branch's own norm not included."""
        normed = ("gated norm",) if self.gated_norm else ()
        return ("input projection", "state output", *normed, "output projection")


@dataclass(frozen=True, slots=True)
class ShortConv(_Memoryless):
    """Gated short convolution (LFM2): in-projection to three streams, convolution, out.

    Attributes:
        taps: taps of the causal convolution.
        bias: biases of projections and convolution.
        width: channels.
    """

    width: int
    taps: int
    bias: bool = False

    def __post_init__(self) -> None:
        _size("convolution width", self.width, _MAX_WIDTH)
        _size("convolution taps", self.taps, _MAX_WIDTH)

    @property
    def kind(self) -> str:
        """What it is."""
        return f"short convolution {self.taps}"

    def pieces(self, hidden: int) -> Iterator[Piece]:
        """In- and out-projection, taps, biases."""
        yield Piece("ssm", 4 * hidden * self.width)
        yield Piece("ssm", self.width * self.taps, vector=True)
        if self.bias:
            yield Piece("ssm", 4 * self.width + hidden, vector=True)

    def state_bytes(self) -> int:
        """The last taps - 1 inputs."""
        return self.width * (self.taps - 1) * CONV_STATE_BYTES

    @property
    def state_shards(self) -> float:
        """One for each channel."""
        return float(self.width)

    @property
    def steps(self) -> tuple[str, ...]:
        """Dependent all-reduces, the branch's own norm not included."""
        return ("input projection", "output projection")


@dataclass(frozen=True, slots=True)
class DenseMLP:
    """A feed-forward of width `width`: gate, up and down (3 matrices) or up and down (2).

    Attributes:
        width: its inner width.
        matrices: 3 (gated) or 2.
        bias: a bias on each matrix.
        component: what it is counted as.
    """

    width: int
    matrices: int = 3
    bias: bool = False
    component: str = "dense_mlp"

    def __post_init__(self) -> None:
        _size("feed-forward width", self.width, _MAX_WIDTH)
        _need(
            self.matrices in (1, 2, 3), f"a feed-forward has 2 or 3 matrices, not {self.matrices}"
        )

    def pieces(self, hidden: int) -> Iterator[Piece]:
        """Matrices and biases."""
        yield Piece(self.component, self.matrices * hidden * self.width)
        if self.bias:
            yield Piece(self.component, (self.matrices - 1) * self.width + hidden, vector=True)

    @property
    def steps(self) -> tuple[str, ...]:
        """Dependent all-reduces, the branch's own norm not included."""
        up = "up and gate projection" if self.matrices == 3 else "up projection"
        return (up, "down projection")


@dataclass(frozen=True, slots=True)
class MoE:
    """Routed experts, perhaps with shared ones beside them.

    Attributes:
        experts, top_k, width: routed experts, how many a token uses, inner width of each.
        zero_experts: further choices of the router that have no weights.
        matrices: 3 (gated) or 2, of experts and shared experts alike.
        bias: biases inside the routed experts.
        router_bias: a bias of the router's matrix (not its score-correction buffer).
        latent: width of the space the experts work in (None: hidden_size).
        latent_norm: a norm of the experts' output in that space.
        shared_width: inner width of all shared experts together (0: none).
        shared_bias, shared_gate: biases of the shared experts; a one-row gate on their
            output (counted with the router).
        extra: further parameters of the family.
    """

    experts: int
    top_k: int
    width: int
    zero_experts: int = 0
    matrices: int = 3
    bias: bool = False
    router_bias: bool = False
    latent: int | None = None
    latent_norm: bool = False
    shared_width: int = 0
    shared_bias: bool = False
    shared_gate: bool = False
    router: bool = True
    extra: tuple[Piece, ...] = ()

    def __post_init__(self) -> None:
        _size("experts", self.experts, _MAX_EXPERTS)
        _size("experts per token", self.top_k, _MAX_EXPERTS)
        _size("expert width", self.width, _MAX_WIDTH)
        _size("zero experts", self.zero_experts, _MAX_EXPERTS, low=0)
        _size("shared expert width", self.shared_width, _MAX_WIDTH, low=0)
        if self.latent is not None:
            _size("latent width", self.latent, _MAX_WIDTH)
        choices = self.experts + self.zero_experts
        _need(
            self.top_k <= choices,
            f"a token cannot use {self.top_k} experts of {choices}",
        )
        _need(self.matrices in (2, 3), f"an expert has 2 or 3 matrices, not {self.matrices}")

    @property
    def experts_per_token(self) -> Fraction:
        """Mean number of experts with weights that a token uses."""
        return Fraction(self.top_k * self.experts, self.experts + self.zero_experts)

    def routed_params(self, hidden: int) -> int:
        """Parameters of all routed experts."""
        outer = hidden if self.latent is None else self.latent
        biases = (self.matrices - 1) * self.width + outer if self.bias else 0
        return self.experts * (self.matrices * outer * self.width + biases)

    def pieces(self, hidden: int) -> Iterator[Piece]:
        """Everything, the routed experts as component `experts`."""
        yield Piece("experts", self.routed_params(hidden))
        rows = self.experts + self.zero_experts
        if self.router:
            yield Piece("router", rows * hidden)
        if self.router_bias:
            yield Piece("router", rows, vector=True)
        if self.latent is not None:
            yield Piece("latent", 2 * hidden * self.latent)
            if self.latent_norm:
                yield Piece("latent", self.latent, vector=True)
        if self.shared_width:
            yield Piece("shared", self.matrices * hidden * self.shared_width)
            if self.shared_bias:
                count = (self.matrices - 1) * self.shared_width + hidden
                yield Piece("shared", count, vector=True)
            if self.shared_gate:
                yield Piece("router", hidden)
        yield from self.extra

    @property
    def steps(self) -> tuple[str, ...]:
        """Dependent all-reduces; shared experts and the latent's entry run beside the router."""
        up = "up and gate projection" if self.matrices == 3 else "up projection"
        normed = ("latent norm",) if self.latent_norm else ()
        back = () if self.latent is None else (*normed, "latent up-projection")
        return ("router", "router softmax and top-k", up, "down projection", *back)


Mixer: TypeAlias = (
    Attention
    | LatentAttention
    | CompressedAttention
    | GatedDelta
    | KimiDelta
    | Lightning
    | Mamba1
    | Mamba2
    | ShortConv
)
FeedForward: TypeAlias = DenseMLP | MoE


@dataclass(frozen=True, slots=True)
class Sublayer:
    """One residual branch: norms before, a body, norms after.

    Attributes:
        body: a mixer or a feed-forward.
        norms_before, norms_after: norms on the branch's path.
        norm_vectors: weight vectors of hidden_size in each norm (1 RMSNorm, 2 LayerNorm with
            bias, 0 without weights).
    """

    body: Mixer | FeedForward
    norms_before: int = 1
    norms_after: int = 0
    norm_vectors: int = 1

    def pieces(self, hidden: int) -> Iterator[Piece]:
        """Norms and body."""
        norms = (self.norms_before + self.norms_after) * self.norm_vectors
        if norms:
            yield Piece("norm", norms * hidden, vector=True)
        yield from self.body.pieces(hidden)

    @property
    def steps(self) -> tuple[str, ...]:
        """Dependent all-reduces of the branch in order."""
        before = ("norm",) * self.norms_before
        after = ("post-norm",) * self.norms_after
        return (*before, *self.body.steps, *after)


@dataclass(frozen=True, slots=True)
class Parallel:
    """Branches that do not wait for each other: each a sequence of sublayers."""

    branches: tuple[tuple[Sublayer, ...], ...]

    @property
    def steps(self) -> tuple[str, ...]:
        """The longest branch's steps."""
        return max((_chain(b) for b in self.branches), key=len)


def _chain(parts: Iterable[Sublayer | Parallel]) -> tuple[str, ...]:
    return tuple(chain.from_iterable(p.steps for p in parts))


@dataclass(frozen=True, slots=True)
class LayerBlock:
    """`count` equal decoder layers.

    Attributes:
        count: how many.
        parts: the layer's branches in order.
        extra: parameters that belong to no branch (hyper-connections, layer scales).
    """

    count: int
    parts: tuple[Sublayer | Parallel, ...]
    extra: tuple[Piece, ...] = ()

    def __post_init__(self) -> None:
        _size("layers", self.count, _MAX_LAYERS)

    @classmethod
    def of(cls, count: int, mixer: Mixer | None, feed_forward: FeedForward | None) -> LayerBlock:
        """The usual layer: norm, mixer, norm, feed-forward; None leaves a branch out."""
        bodies = [b for b in (mixer, feed_forward) if b is not None]
        return cls(count, tuple(Sublayer(b) for b in bodies))

    @property
    def sublayers(self) -> tuple[Sublayer, ...]:
        """Every branch, parallel ones included."""
        found: list[Sublayer] = []
        for part in self.parts:
            if isinstance(part, Sublayer):
                found.append(part)
            else:
                found.extend(chain.from_iterable(part.branches))
        return tuple(found)

    @property
    def mixers(self) -> tuple[Mixer, ...]:
        """Attention and recurrent bodies, in order."""
        return tuple(s.body for s in self.sublayers if not isinstance(s.body, (DenseMLP, MoE)))

    @property
    def feed_forwards(self) -> tuple[FeedForward, ...]:
        """Feed-forward bodies, in order."""
        return tuple(s.body for s in self.sublayers if isinstance(s.body, (DenseMLP, MoE)))

    @property
    def moe(self) -> MoE | None:
        """The routed experts of the layer."""
        found = [f for f in self.feed_forwards if isinstance(f, MoE)]
        return found[0] if found else None

    @property
    def steps(self) -> tuple[str, ...]:
        """The longest chain of dependent all-reduces of one layer, step by step."""
        return _chain(self.parts)

    @property
    def reductions(self) -> int:
        """Length of that chain."""
        return len(self.steps)

    def pieces(self, hidden: int) -> tuple[Piece, ...]:
        """Parameters of ONE layer."""
        body = chain.from_iterable(s.pieces(hidden) for s in self.sublayers)
        return (*body, *self.extra)

    def parameters(self, hidden: int) -> int:
        """Parameters of ONE layer."""
        return sum(p.count for p in self.pieces(hidden))

    def caches(self) -> tuple[Cache, ...]:
        """Key-value caches of ONE layer, without the indexer's keys."""
        return tuple(chain.from_iterable(m.caches() for m in self.mixers))

    def indexer_caches(self) -> tuple[Cache, ...]:
        """Indexer keys of ONE layer."""
        return tuple(chain.from_iterable(m.indexer_caches() for m in self.mixers))

    def state_bytes(self) -> int:
        """Recurrent and convolution state of ONE layer, per sequence."""
        return sum(m.state_bytes() for m in self.mixers)

    @property
    def state_shards(self) -> float:
        """Ways in which the state can be split: those of the mixer with the fewest."""
        return min((m.state_shards for m in self.mixers if m.state_bytes()), default=inf)


def group_layers(layers: Sequence[LayerBlock]) -> tuple[LayerBlock, ...]:
    """Equal layers merged, in order of first appearance."""
    counts: dict[tuple[object, ...], LayerBlock] = {}
    for block in layers:
        key = (block.parts, block.extra)
        seen = counts.get(key)
        counts[key] = block if seen is None else replace(seen, count=seen.count + block.count)
    return tuple(counts.values())


@dataclass(frozen=True, slots=True)
class ParameterCount:
    """Exact counts, in parameters.

    Attributes:
        total: language model, no vision tower, no multi-token-prediction layers.
        active: total minus the routed experts (and table rows) that a token does not use.
        by_component: total by component; the values add up to `total`.
        active_without_input_embedding: `active` less the input embedding (unless it is the head).
        active_without_embedding_and_head: `active` less both.
    """

    total: int
    active: int
    by_component: dict[str, int]
    active_without_input_embedding: int
    active_without_embedding_and_head: int


def _exact(value: Fraction) -> int:
    """Nearest whole number: only zero experts can leave a fraction."""
    return round(value)


def _mean_bits(pieces: Sequence[Piece], bits: dict[str, float]) -> float:
    """Mean bits of one parameter over `pieces`."""
    return sum(p.count * bits[p.component] for p in pieces) / sum(p.count for p in pieces)


@dataclass(frozen=True, slots=True)
class Architecture:
    """A decoder-only language model.

    Attributes:
        name: what to call it.
        blocks: the layers by kind.
        hidden_size, vocab_size: width of the residual stream, rows of the embedding.
        tied: the head is the embedding table.
        has_head: there is a head (a base encoder of features has none).
        head_bias: a bias of the head.
        final_norm_vectors: weight vectors of the norm after the last layer.
        outside: further parameters outside layers.
        unread: how many of those `outside` a token does not read (rows of n-gram tables).
        mtp_layers: multi-token-prediction layers of the checkpoint, which are not counted.
        weight_format: format the weights come in (a name of `archinfer.formats`).
        unquantized: components that format leaves out.
        unquantized_format: the format of those of them that lie in the layers.
        family: the `model_type` it was read as.
        max_context_tokens: what the config states, None where it does not.
        warnings: what was assumed in reading it.
        notes: facts a reader of the counts should know.
    """

    name: str
    blocks: tuple[LayerBlock, ...]
    hidden_size: int
    vocab_size: int
    tied: bool = False
    has_head: bool = True
    head_bias: bool = False
    final_norm_vectors: int = 1
    outside: tuple[Piece, ...] = ()
    unread: int = 0
    mtp_layers: int = 0
    weight_format: str = "bf16"
    unquantized: frozenset[str] = OUTSIDE_COMPONENTS
    unquantized_format: str = "bf16"
    family: str = ""
    max_context_tokens: int | None = None
    warnings: tuple[str, ...] = field(default=(), compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        _need(len(self.blocks) > 0, "a model must have at least one layer")
        _size("hidden_size", self.hidden_size, _MAX_WIDTH)
        _size("vocab_size", self.vocab_size, _MAX_VOCABULARY)
        _size("layers", self.layers, _MAX_LAYERS)
        weight_format(self.weight_format)
        total = self.parameters().total
        _need(total < MAX_COUNT, f"{total} parameters are more than any model has")

    @property
    def layers(self) -> int:
        """Decoder layers."""
        return sum(b.count for b in self.blocks)

    @property
    def _embedding(self) -> int:
        return self.vocab_size * self.hidden_size

    @property
    def _head(self) -> int:
        """Parameters of the head's matrix, stored or shared."""
        return self._embedding if self.has_head else 0

    def _outside_pieces(self) -> Iterator[Piece]:
        yield Piece("embedding", self._embedding)
        yield from self.outside
        yield Piece("norm", self.final_norm_vectors * self.hidden_size, vector=True)
        if self.has_head and not self.tied:
            yield Piece("lm_head", self._head)
        if self.head_bias:
            yield Piece("lm_head", self.vocab_size, vector=True)

    def parameters(self) -> ParameterCount:
        """Exact parameter counts.

        active = total - sum over MoE layers (1 - k/E) * routed - unread table rows.
        """
        counts: dict[str, int] = {}
        for piece in self._outside_pieces():
            counts[piece.component] = counts.get(piece.component, 0) + piece.count
        unused = Fraction(self.unread)
        for block in self.blocks:
            for piece in block.pieces(self.hidden_size):
                counts[piece.component] = counts.get(piece.component, 0) + block.count * piece.count
            for ff in block.feed_forwards:
                if isinstance(ff, MoE):
                    routed = block.count * ff.routed_params(self.hidden_size)
                    unused += routed * (1 - ff.experts_per_token / ff.experts)
        total = sum(counts.values())
        active = _exact(total - unused)
        head = counts.get("lm_head", 0)
        return ParameterCount(
            total=total,
            active=active,
            by_component={c: counts[c] for c in COMPONENTS if counts.get(c)},
            active_without_input_embedding=active
            - (0 if self.tied and self.has_head else self._embedding),
            active_without_embedding_and_head=active - self._embedding - head,
        )

    def mtp_parameters(self) -> int:
        """Estimate of the multi-token-prediction layers that the counts leave out.

        Each is the last MoE layer again, a projection of two hidden vectors to one (2 h^2) and
        three norms (3 h); copies of embedding and head in some checkpoints come on top.
        """
        if not self.mtp_layers:
            return 0
        routed = [b for b in self.blocks if b.moe is not None] or list(self.blocks)
        h = self.hidden_size
        return self.mtp_layers * (routed[-1].parameters(h) + 2 * h * h + 3 * h)

    def _per_token_values(self, caches: Iterable[tuple[int, Cache]]) -> Fraction:
        values = (count * Fraction(float(c.values_per_token)) for count, c in caches)
        return sum(values, start=Fraction(0))

    def _caches(self) -> list[tuple[int, Cache]]:
        return [(b.count, c) for b in self.blocks for c in b.caches()]

    def _indexer_caches(self) -> list[tuple[int, Cache]]:
        return [(b.count, c) for b in self.blocks for c in b.indexer_caches()]

    def kv_bytes_per_token(self, bits: float = 16) -> float:
        """Bytes one token adds while the context is shorter than every window."""
        return float(self._per_token_values(self._caches()) * Fraction(bits) / 8)

    def kv_bytes_per_token_past_windows(self, bits: float = 16) -> float:
        """Bytes one token adds once every window is full: the layers that keep growing."""
        growing = [(n, c) for n, c in self._caches() if c.window_tokens == inf]
        return float(self._per_token_values(growing) * Fraction(bits) / 8)

    def kv_window_bytes_max(self, bits: float = 16) -> float:
        """Most bytes that the windowed layers hold for one sequence."""
        held = (
            n * Fraction(float(c.values_per_token)) * int(float(c.window_tokens))
            for n, c in self._caches()
            if c.window_tokens != inf
        )
        return float(sum(held, start=Fraction(0)) * Fraction(bits) / 8)

    def state_bytes(self) -> int:
        """Recurrent (32-bit) and convolution (16-bit) state of one sequence, at any context."""
        return sum(b.count * b.state_bytes() for b in self.blocks)

    def indexer_bytes_per_token(self, bits: float = 16) -> float:
        """Bytes of indexer keys one token adds; not in the KV figures."""
        return float(self._per_token_values(self._indexer_caches()) * Fraction(bits) / 8)

    def kv_bytes(self, context_tokens: float, bits: float = 16) -> float:
        """Bytes that one sequence of `context_tokens` keeps: growth, windows, indexer, state."""
        stored = sum(
            n * float(c.values_per_token) * min(context_tokens, float(c.window_tokens))
            for n, c in chain(self._caches(), self._indexer_caches())
        )
        return stored * bits / 8 + self.state_bytes()

    @property
    def attention_kinds(self) -> dict[str, int]:
        """Kinds of attention or recurrence, and how many layers have each."""
        kinds: dict[str, int] = {}
        for block in self.blocks:
            found = [m.kind for m in block.mixers] or ["no attention"]
            name = found[0] if len(found) == 1 else f"{len(found)} x {found[0]}"
            kinds[name] = kinds.get(name, 0) + block.count
        return kinds

    @property
    def moe(self) -> MoE | None:
        """The routed experts of the first MoE layer."""
        return next((b.moe for b in self.blocks if b.moe is not None), None)

    def component_bits(self, format_name: str | None = None) -> dict[str, float]:
        """Bits of one weight by component in a format (None: the one the weights come in).

        A format of fewer than 16 bits leaves embedding, head and tables at 16 bits; the model's
        own format does so where they are among the `unquantized`, and leaves the others of those
        in `unquantized_format`.
        """
        chosen = weight_format(self.weight_format if format_name is None else format_name)
        own = chosen.name == weight_format(self.weight_format).name
        bits = dict.fromkeys(COMPONENTS, chosen.bits)
        if own:
            kept = max(chosen.bits, weight_format(self.unquantized_format).bits)
            bits.update(dict.fromkeys(self.unquantized, kept))
        outside = OUTSIDE_COMPONENTS & self.unquantized if own else OUTSIDE_COMPONENTS
        bits.update(dict.fromkeys(outside, max(chosen.bits, 16.0)))
        return bits

    def shape(self, weights: str | None = None) -> ModelShape:
        """What the cost model sees.

        Args:
            weights: a weight format; where it is the model's own and leaves components inside
                the layers at 16 bits, each group states its mean bits per shared and per
                routed parameter. None: counts only.

        Raises:
            UnknownNameError: no such format.
        """
        bits = None if weights is None else self.component_bits(weights)
        return ModelShape(
            groups=tuple(self._group(b, bits) for b in self.blocks),
            hidden_size=float(self.hidden_size),
            lookup_params=float(self._lookup_params()),
            head_params=float(self._head),
            tied=self.tied and self.has_head,
            extra_params=float(self._extra_params()),
            inactive_params=float(self.unread),
            name=self.name,
        )

    def _lookup_params(self) -> int:
        tables = sum(p.count for p in self.outside if p.component in OUTSIDE_COMPONENTS)
        return self._embedding + tables

    def _extra_params(self) -> int:
        plain = sum(p.count for p in self.outside if p.component not in OUTSIDE_COMPONENTS)
        bias = self.vocab_size if self.head_bias else 0
        return plain + bias + self.final_norm_vectors * self.hidden_size

    def _group(self, block: LayerBlock, bits: dict[str, float] | None) -> LayerGroup:
        pieces = block.pieces(self.hidden_size)
        mixed = bits is not None and len({bits[p.component] for p in pieces}) > 1
        routed = sum(p.count for p in pieces if p.component == "experts")
        shared_pieces = [p for p in pieces if p.component != "experts"]
        shared = sum(p.count for p in shared_pieces)
        vector = sum(p.count for p in pieces if p.vector)
        moe = block.moe
        return LayerGroup(
            count=float(block.count),
            shared_params=float(shared),
            vector_params=float(vector),
            routed_params=float(routed),
            experts=1.0 if moe is None else float(moe.experts),
            experts_per_token=1.0 if moe is None else float(moe.experts_per_token),
            caches=(*block.caches(), *block.indexer_caches()),
            state_bytes=float(block.state_bytes()),
            state_shards=block.state_shards,
            reductions=float(block.reductions),
            shared_bits=_mean_bits(shared_pieces, bits) if bits is not None and mixed else None,
            routed_bits=bits["experts"] if bits is not None and mixed else None,
        )

    def weight_bytes(self, format_name: str | None = None) -> float:
        """Bytes of all weights in a format (None: the one they come in), scales included."""
        bits = self.component_bits(format_name)
        counts = self.parameters().by_component
        return sum(n * bits[c] for c, n in counts.items()) / 8


def weight_bytes(
    model: Architecture | ModelShape, format_name: str, outside_format: str | None = None
) -> float:
    """Bytes of all weights of a model or of a bare shape.

    Args:
        model: what to store.
        format_name: format of the layers.
        outside_format: format of embedding, head and final norm; None: at least 16 bits, since
            makers rarely store them in fewer.
    """
    if isinstance(model, Architecture) and outside_format is None:
        return model.weight_bytes(format_name)
    shape = model.shape() if isinstance(model, Architecture) else model
    bits = weight_format(format_name).bits
    outside_bits = max(bits, 16.0) if outside_format is None else weight_format(outside_format).bits
    outside = shape.outside_params
    return float((shape.total_params - outside) * bits + outside * outside_bits) / 8
