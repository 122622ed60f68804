"""Readers of decoders whose layers share weights, look at pictures or mix streams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from archinfer.models.architecture import (
    Attention,
    DenseMLP,
    LayerBlock,
    Mamba2,
    Mixer,
    MoE,
    Piece,
    Sublayer,
)
from archinfer.models.configkeys import ConfigKeys
from archinfer.models.readers.common import Reading, make_reading, read_attention, read_core
from archinfer.models.readers.hybrid import mamba1
from archinfer.models.readers.layering import read_windows
from archinfer.models.readers.style import Style
from archinfer.models.shape import Cache


class BareAttention(Attention):
    """Attention of which only `extra` is stored here: its projections are counted elsewhere."""

    __slots__ = ()

    def pieces(self, hidden: int) -> Iterator[Piece]:
        """What is stored in this layer."""
        yield from self.extra


class CrossAttention(Attention):
    """Attention to a picture, whose keys and values do not grow with the text."""

    __slots__ = ()

    @property
    def kind(self) -> str:
        """What people call it."""
        return f"cross-attention {self.heads}:{self.kv_heads}"

    def caches(self) -> tuple[Cache, ...]:
        """None of the text."""
        return ()


class ReusedMLP(DenseMLP):
    """A feed-forward whose matrices another layer stores."""

    __slots__ = ()

    def pieces(self, hidden: int) -> Iterator[Piece]:
        """None."""
        yield from ()


def read_jetmoe(keys: ConfigKeys) -> Reading:
    """JetMoE: query and output projections are experts as well; keys and values are shared."""
    hidden, layers, vocab = read_core(keys, Style())
    experts, top_k = keys.integer("num_local_experts"), keys.integer("num_experts_per_tok")
    kv, width = keys.integer("num_key_value_heads"), keys.integer("kv_channels")
    keys.only("num_attention_heads", kv * top_k)
    keys.only("bias", True)
    keys.ignore("glu", "moe_num_experts", "moe_top_k")
    bias = (Piece("experts", hidden, vector=True),)
    shared = Piece("attention", 2 * hidden * kv * width, module="self_attn.kv_proj")
    attention = BareAttention(kv * top_k, kv, width, extra=(shared,))
    chosen = MoE(experts, top_k, kv * width, matrices=2, extra=bias)
    moe = MoE(experts, top_k, keys.integer("intermediate_size"), extra=bias)
    parts = (Sublayer(attention), Sublayer(chosen, norms_before=0), Sublayer(moe))
    blocks = [LayerBlock(1, parts) for _ in range(layers)]
    return make_reading(keys, blocks, hidden, vocab, Style(tied=True))


def read_mllama(keys: ConfigKeys) -> Reading:
    """Llama 3.2 Vision's decoder: Llama, with cross-attention in some layers."""
    hidden, layers, vocab = read_core(keys, Style())
    attention = read_attention(keys, hidden, Style())
    crossed = set(keys.whole_list("cross_attention_layers", [3, 8, 13, 18, 23, 28, 33, 38]) or [])
    dense = Sublayer(DenseMLP(keys.integer("intermediate_size")))
    gates = (Piece("other", 2, vector=True),)
    cross = CrossAttention(attention.heads, attention.kv_heads, attention.head_dim, qk_norm="head")
    blocks = [
        LayerBlock(1, (Sublayer(cross), dense), gates)
        if i in crossed
        else LayerBlock(1, (Sublayer(attention), dense))
        for i in range(layers)
    ]
    reading = make_reading(keys, blocks, hidden, vocab, Style())
    notes = ("keys and values of pictures are not in the KV cache",)
    # Eight further rows stand for pictures.
    return replace(reading, outside=(Piece("embedding", 8 * hidden),), notes=notes)


def read_gemma3n(keys: ConfigKeys) -> Reading:
    """Gemma 3n: four streams mixed by AltUp, low-rank side branches, embeddings per layer."""
    style = Style(qk_norm="head", tied=True, window="every", window_every=5, window_default=512,
                  qkv_bias="attention_bias", o_bias="attention_bias",
                  defaults={"head_dim": 256})  # fmt: skip
    hidden, layers, vocab = read_core(keys, style)
    attention = read_attention(keys, hidden, style)
    windows = read_windows(keys, layers, style)
    borrowed = keys.integer("num_kv_shared_layers", default=15, low=0)
    widths = keys.per_layer(("intermediate_size",), layers)
    own = keys.integer("hidden_size_per_layer_input", default=256)
    rows = keys.integer("vocab_size_per_layer_input", default=262_144)
    streams = keys.integer("altup_num_inputs", default=4)
    rank = keys.integer("laurel_rank", default=64)
    keys.ignore("altup_active_idx", "altup_correct_scale", "altup_coef_clip")
    side = (
        Piece("dense_mlp", 2 * hidden * own, module="per_layer_projection"),
        Piece("other", 2 * hidden * rank, module="laurel"),
        Piece("other", hidden * streams + streams * streams * (1 + streams), module="altup"),
        Piece("norm", 4 * hidden, vector=True),
    )
    blocks = [
        LayerBlock(
            1,
            (
                Sublayer(replace(attention, window=w, borrows_cache=i >= layers - borrowed), 1, 1),
                Sublayer(DenseMLP(width), 1, 1),
            ),
            side,
        )
        for i, (w, width) in enumerate(zip(windows, widths, strict=True))
    ]
    outside = (
        Piece("embedding", rows * layers * own),
        Piece("other", hidden * layers * own + 2 * (streams - 1) * hidden * hidden),
        Piece("norm", own, vector=True),
    )
    return replace(make_reading(keys, blocks, hidden, vocab, style), outside=outside)


def read_zamba2(keys: ConfigKeys) -> Reading:
    """Zamba 2: Mamba 2, and a few shared transformer blocks with adapters at each use."""
    heads = keys.integer("n_mamba_heads", default=8)
    inner = keys.integer("mamba_expand", default=2) * keys.integer("hidden_size")
    if inner % heads:
        raise keys.refuse(f"n_mamba_heads {heads} does not divide the inner width {inner}")
    keys.ignore("mamba_headdim", "kv_channels", "hybrid_layer_ids", "num_query_groups")
    keys.ignore("use_mem_rope", "use_long_context", "use_mem_eff_path", "use_shared_mlp_adapter")
    keys.only("add_bias_linear", False)
    keys.only("use_conv_bias", True)
    mamba = Mamba2(
        heads, inner // heads, keys.integer("mamba_d_state", default=64),
        keys.integer("mamba_ngroups", "n_groups", default=1),
        keys.integer("mamba_d_conv", default=4),
    )  # fmt: skip
    rank, stored = keys.integer("adapter_rank"), keys.integer("num_mem_blocks", default=1)
    hidden, wide = keys.integer("hidden_size"), keys.integer("intermediate_size")
    own = [Piece("dense_mlp", rank * (hidden + 2 * wide))]
    if keys.flag("use_shared_attention_adapter"):
        own.append(Piece("attention", 3 * 2 * rank * 2 * hidden))
    return _shared_blocks(keys, mamba, stored, tuple(own))


def read_zamba(keys: ConfigKeys) -> Reading:
    """Zamba 1: Mamba 1 in heads (as many numbers as without), one shared transformer block."""
    keys.ignore("n_mamba_heads", "use_mamba_kernels", "attn_layer_period", "attn_layer_offset")
    return _shared_blocks(keys, mamba1(keys, keys.integer("hidden_size")), 1, ())


def _shared_blocks(
    keys: ConfigKeys, mamba: Mixer, stored: int, adapters: tuple[Piece, ...]
) -> Reading:
    """Mamba in every layer; before it, in some, one of `stored` transformer blocks on the hidden
    vector and the embedding side by side, with a matrix and adapters of the layer's own."""
    hidden, layers, vocab = read_core(keys, Style())
    keys.only("attention_hidden_size", 2 * hidden)
    types = keys.names_list("layers_block_type", layers)
    if types is None:
        raise keys.refuse("key layers_block_type is missing")
    heads = keys.integer("num_attention_heads")
    kv = keys.integer("num_key_value_heads", default=heads)
    width = keys.integer("attention_head_dim", default=2 * hidden // heads)
    wide = keys.integer("intermediate_size")
    block = (
        Piece("attention", 2 * hidden * (heads + 2 * kv) * width + heads * width * hidden),
        Piece("norm", 3 * hidden, vector=True),
        Piece("dense_mlp", 3 * hidden * wide),
    )
    own = (Piece("other", hidden * hidden, module="linear"), *adapters)
    shared = (
        Sublayer(BareAttention(heads, kv, width), norms_before=0),
        Sublayer(ReusedMLP(wide), norms_before=0),
    )
    blocks, used = [], 0
    for kind in types:
        if kind != "hybrid":
            blocks.append(LayerBlock(1, (Sublayer(mamba),)))
            continue
        extra = (*block, *own) if used < stored else own
        blocks.append(LayerBlock(1, (*shared, Sublayer(mamba)), extra))
        used += 1
    reading = make_reading(keys, blocks, hidden, vocab, Style(tied=True))
    note = (
        f"{used} layers use {stored} shared transformer block(s), counted once; what their later "
        "uses read is left out"
    )
    return replace(reading, notes=(note,))
