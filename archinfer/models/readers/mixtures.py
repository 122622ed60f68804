"""Readers of mixtures of experts that need more than a style, and of decoders whose layers share
weights, look at pictures, mix streams or have sizes of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil

from archinfer.models import layers as part
from archinfer.models.configkeys import ConfigKeys
from archinfer.models.readers import common
from archinfer.models.readers.common import Decoder, Reading
from archinfer.models.readers.hybrid import mamba1, mamba2
from archinfer.models.readers.style import Style, read_windows
from archinfer.models.shape import Cache

# Hunyuan


def parse_hunyuan(keys: ConfigKeys, style: Style) -> Reading:
    """Hunyuan A13B and Large: experts everywhere, perhaps caches shared by layers."""
    widths = keys.raw(*common.EXPERT_WIDTH)
    d = Decoder(keys, replace(style, expert_width=widths is None))
    attention = d.attention()
    shared = keys.flag("use_mixed_mlp_moe", default=True)
    feed_forwards = d.feed_forwards()
    if any(isinstance(f, part.MoE) for f in feed_forwards):
        if shared and not keys.has(*common.SHARED_EXPERTS):
            raise keys.refuse("key num_shared_expert is missing")
        if not keys.has("intermediate_size"):
            keys.warnings.append("intermediate_size is missing: moe_intermediate_size taken")
        elif widths is not None and {*keys.per_layer(("intermediate_size",), d.layers)} != {
            *keys.per_layer(common.EXPERT_WIDTH, d.layers)
        }:
            keys.warnings.append(
                "intermediate_size is not moe_intermediate_size, which is taken for the experts"
            )
    if not shared:
        feed_forwards = [
            replace(f, shared_width=0) if isinstance(f, part.MoE) else f for f in feed_forwards
        ]
    period = keys.integer("cla_share_factor", default=1) if keys.flag("use_cla") else 1
    mixers = [replace(attention, borrows_cache=i % period != 0) for i in range(d.layers)]
    return d.reading(d.blocks(mixers, feed_forwards))


# ERNIE


def read_ernie4_5(d: Decoder) -> Reading:
    """ERNIE 4.5, dense or routed; its score-correction bias is a parameter. Biases are on the
    shared experts, not on the routed ones."""
    bias = d.keys.flag("use_bias")
    feed_forwards = [
        replace(f, shared_bias=bias) if isinstance(f, part.MoE) else f for f in d.feed_forwards()
    ]
    head_bias = bias and d.keys.has(*common.EXPERTS)
    return d.reading(d.blocks(d.windowed(), feed_forwards), head_bias=head_bias)


# DBRX, Grok, Arctic


def read_dbrx(d: Decoder) -> Reading:
    """DBRX: everything in two nested objects."""
    attn, ffn = d.keys.section("attn_config"), d.keys.section("ffn_config")
    if attn is None or ffn is None:
        raise d.keys.refuse("keys attn_config and ffn_config are missing")
    attention = d.multi_head(kv=attn.integer("kv_n_heads"))
    stated = ffn.integer("hidden_size", default=d.hidden)
    if stated != d.hidden:
        raise ffn.refuse(f"hidden_size is {stated} but d_model is {d.hidden}")
    moe = part.MoE(
        ffn.integer("moe_num_experts"), ffn.integer("moe_top_k"), ffn.integer("ffn_hidden_size")
    )
    attn.check_leftovers("this family")
    ffn.check_leftovers("this family")
    return d.reading(d.blocks(attention, moe))


def read_grok_1(d: Decoder) -> Reading:
    """Grok-1 and Grok-2: sandwich norms; Grok-2 adds a dense feed-forward beside the experts."""
    keys, width = d.keys, d.keys.integer("intermediate_size")
    moe = part.MoE(
        keys.integer(*common.EXPERTS),
        keys.integer(*common.TOP_K),
        keys.integer("moe_intermediate_size", default=width),
        shared_width=width if keys.flag("residual_moe") else 0,
    )
    return d.reading(d.blocks(d.attention(), moe))


read_grok_2 = read_grok_1


def read_arctic(d: Decoder) -> Reading:
    """Arctic: a dense residual feed-forward as wide as hidden_size beside the experts."""
    keys, attention = d.keys, part.Sublayer(d.attention())
    step = keys.integer("moe_layer_frequency", default=2)
    width = keys.integer("intermediate_size")
    moe = part.Sublayer(part.MoE(keys.integer(*common.EXPERTS), keys.integer(*common.TOP_K), width))
    dense = part.Sublayer(part.DenseMLP(width))
    beside = part.Sublayer(part.DenseMLP(d.hidden, component="shared"))
    routed: tuple[part.Sublayer | part.Parallel, ...] = (attention, moe)
    if keys.flag("use_residual", default=True):
        routed = (part.Parallel(((attention, beside), (moe,))),)
    return d.reading(
        [
            part.LayerBlock(1, (attention, dense) if (i + 1) % step else routed)
            for i in range(d.layers)
        ]
    )


class BareAttention(part.Attention):
    """Attention of which only `extra` is stored here: its projections are counted elsewhere."""

    __slots__ = ()

    def pieces(self, hidden: int) -> Iterator[part.Piece]:
        """What is stored in this layer."""
        yield from self.extra


class CrossAttention(part.Attention):
    """Attention to a picture, whose keys and values do not grow with the text."""

    __slots__ = ()

    @property
    def kind(self) -> str:
        """What people call it."""
        return f"cross-attention {self.heads}:{self.kv_heads}"

    def caches(self) -> tuple[Cache, ...]:
        """None of the text."""
        return ()


class ReusedMLP(part.DenseMLP):
    """A feed-forward whose matrices another layer stores."""

    __slots__ = ()

    def pieces(self, hidden: int) -> Iterator[part.Piece]:
        """None: stored elsewhere."""
        yield from ()


def read_jetmoe(d: Decoder) -> Reading:
    """JetMoE: query and output projections are experts as well; keys and values are shared."""
    keys, hidden = d.keys, d.hidden
    experts, top_k = keys.integer("num_local_experts"), keys.integer("num_experts_per_tok")
    kv, width = keys.integer("num_key_value_heads"), keys.integer("kv_channels")
    keys.only("num_attention_heads", kv * top_k)
    bias = (part.Piece("experts", hidden, vector=True),)
    shared = part.Piece("attention", 2 * hidden * kv * width, module="self_attn.kv_proj")
    attention = BareAttention(kv * top_k, kv, width, extra=(shared,))
    chosen = part.MoE(experts, top_k, kv * width, matrices=2, extra=bias)
    moe = part.MoE(experts, top_k, keys.integer("intermediate_size"), extra=bias)
    return d.reading(
        d.alike(part.Sublayer(attention), part.Sublayer(chosen, norms_before=0), part.Sublayer(moe))
    )


def read_mllama_text_model(d: Decoder) -> Reading:
    """Llama 3.2 Vision's decoder: Llama, with cross-attention in some layers."""
    attention = d.attention()
    known = [3, 8, 13, 18, 23, 28, 33, 38]
    crossed = set(d.keys.whole_list("cross_attention_layers", known) or [])
    cross = CrossAttention(attention.heads, attention.kv_heads, attention.head_dim, qk_norm="head")
    gates = (part.Piece("other", 2, vector=True),)
    mixers = [cross if i in crossed else attention for i in range(d.layers)]
    dense = part.DenseMLP(d.keys.integer("intermediate_size"))
    blocks = [
        replace(block, extra=gates) if i in crossed else block
        for i, block in enumerate(d.blocks(mixers, dense))
    ]
    notes = ("keys and values of pictures are not in the KV cache",)
    # Eight further rows stand for pictures.
    return d.reading(blocks, outside=(part.Piece("embedding", 8 * d.hidden),), notes=notes)


def read_gemma3n_text(d: Decoder) -> Reading:
    """Gemma 3n: four streams mixed by AltUp, low-rank side branches, embeddings per layer."""
    keys, hidden, layers, attention = d.keys, d.hidden, d.layers, d.attention()
    windows = read_windows(keys, layers, d.style)
    borrowed = keys.integer("num_kv_shared_layers", default=15, low=0)
    own = keys.integer("hidden_size_per_layer_input", default=256)
    rows = keys.integer("vocab_size_per_layer_input", default=262_144)
    streams = keys.integer("altup_num_inputs", default=4)
    rank = keys.integer("laurel_rank", default=64)
    side = (
        part.Piece("dense_mlp", 2 * hidden * own, module="per_layer_projection"),
        part.Piece("other", 2 * hidden * rank, module="laurel"),
        part.Piece("other", hidden * streams + streams * streams * (1 + streams), module="altup"),
        part.Piece("norm", 4 * hidden, vector=True),
    )
    mixers = [
        replace(attention, window=w, borrows_cache=i >= layers - borrowed)
        for i, w in enumerate(windows)
    ]
    outside = (
        part.Piece("embedding", rows * layers * own),
        part.Piece("other", hidden * layers * own + 2 * (streams - 1) * hidden * hidden),
        part.Piece("norm", own, vector=True),
    )
    reading = d.reading(d.blocks(mixers, d.dense()), outside=outside)
    return common.with_extra(reading, *side)


def read_zamba2(d: Decoder) -> Reading:
    """Zamba 2: Mamba 2, and a few shared transformer blocks with adapters at each use."""
    keys, hidden = d.keys, d.hidden
    heads = keys.integer("n_mamba_heads", default=8)
    inner = keys.integer("mamba_expand", default=2) * hidden
    if inner % heads:
        raise keys.refuse(f"n_mamba_heads {heads} does not divide the inner width {inner}")
    mamba = mamba2(keys, heads, inner // heads, 64, 1)
    rank, stored = keys.integer("adapter_rank"), keys.integer("num_mem_blocks", default=1)
    own = [part.Piece("dense_mlp", rank * (hidden + 2 * keys.integer("intermediate_size")))]
    if keys.flag("use_shared_attention_adapter"):
        own.append(part.Piece("attention", 3 * 2 * rank * 2 * hidden))
    return _shared_blocks(d, mamba, stored, tuple(own))


def read_zamba(d: Decoder) -> Reading:
    """Zamba 1: Mamba 1 in heads (as many numbers as without), one shared transformer block."""
    return _shared_blocks(d, mamba1(d.keys, d.hidden), 1, ())


def _shared_blocks(
    d: Decoder, mamba: part.Mixer, stored: int, adapters: tuple[part.Piece, ...]
) -> Reading:
    """Mamba in every layer; before it, in some, one of `stored` transformer blocks on the hidden
    vector and the embedding side by side, with a matrix and adapters of the layer's own."""
    keys, hidden = d.keys, d.hidden
    keys.only("attention_hidden_size", 2 * hidden)
    types = keys.names_list("layers_block_type", d.layers)
    if types is None:
        raise keys.refuse("key layers_block_type is missing")
    heads = keys.integer("num_attention_heads")
    kv = keys.integer("num_key_value_heads", default=heads)
    width = keys.integer("attention_head_dim", default=2 * hidden // heads)
    wide = keys.integer("intermediate_size")
    block = (
        part.Piece("attention", 2 * hidden * (heads + 2 * kv) * width + heads * width * hidden),
        part.Piece("norm", 3 * hidden, vector=True),
        part.Piece("dense_mlp", 3 * hidden * wide),
    )
    own = (part.Piece("other", hidden * hidden, module="linear"), *adapters)
    shared = (
        part.Sublayer(BareAttention(heads, kv, width), norms_before=0),
        part.Sublayer(ReusedMLP(wide), norms_before=0),
    )
    blocks, used = [], 0
    for kind in types:
        if kind != "hybrid":
            blocks.append(part.LayerBlock(1, (part.Sublayer(mamba),)))
            continue
        extra = (*block, *own) if used < stored else own
        blocks.append(part.LayerBlock(1, (*shared, part.Sublayer(mamba)), extra))
        used += 1
    note = (
        f"{used} layers use {stored} shared transformer block(s), counted once; what their later "
        "uses read is left out"
    )
    return d.reading(blocks, notes=(note,))


def read_nemotron_nas(d: Decoder) -> Reading:
    """Llama-Nemotron: every block with its own attention and width, or without."""
    keys, base = d.keys, d.attention()
    entries = keys.layer_list("block_configs", keys.raw("block_configs"), d.layers)
    mixers: list[part.Mixer | None] = []
    feed_forwards: list[part.FeedForward | None] = []
    for index, entry in enumerate(entries):
        where = f"{keys.where}: block_configs[{index}]"
        block = ConfigKeys(entry if isinstance(entry, dict) else {}, where)
        attention, ff = block.section("attention"), block.section("ffn")
        if attention is None or ff is None:
            raise block.refuse("needs an attention and an ffn")
        for one in (attention, ff):
            if one.flag("replace_with_linear") or one.raw("sparsify"):
                raise one.refuse("replace_with_linear and sparsify are not supported")
        mixer = feed_forward = None
        if not attention.flag("no_op"):
            group = attention.integer("n_heads_in_group")
            if base.heads % group:
                raise attention.refuse(f"{group} heads in a group do not divide {base.heads} heads")
            window = attention.optional("window_length", low=0) or None
            mixer = replace(base, kv_heads=base.heads // group, window=window)
        if not ff.flag("no_op"):
            width = ff.optional("intermediate_size")
            if width is None:
                width = ceil(int(2 * ff.number("ffn_mult", 0.0) * d.hidden / 3) / 256) * 256
            feed_forward = part.DenseMLP(width, 3, d.switch(d.style.mlp_bias))
        mixers.append(mixer)
        feed_forwards.append(feed_forward)
    return d.reading(d.blocks(mixers, feed_forwards))
