"""Readers of mixtures of experts that need more than a style, and of decoders whose layers share
weights, look at pictures, mix streams or have sizes of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil

from archinfer.models import layers as part
from archinfer.models.configkeys import ConfigKeys
from archinfer.models.readers import common
from archinfer.models.readers.hybrid import mamba1
from archinfer.models.readers.layering import read_windows
from archinfer.models.readers.style import Style
from archinfer.models.shape import Cache

# Hunyuan


def read_hunyuan(keys: ConfigKeys) -> common.Reading:
    """Hunyuan A13B and Large: experts everywhere, perhaps caches shared by layers."""
    style = Style(
        qkv_bias="attention_bias",
        o_bias="attention_bias",
        qk_norm="head",
        qk_norm_key="use_qk_norm",
    )
    hidden, layers, vocab = common.read_core(keys, style)
    attention = common.read_attention(keys, hidden, style)
    keys.ignore("org_vocab_size", "sliding_window", "use_sliding_window", "dense_list")
    shared = keys.flag("use_mixed_mlp_moe", default=True)
    widths = keys.raw(*common.EXPERT_WIDTH)
    feed_forwards = common.read_feed_forwards(
        keys, layers, replace(style, expert_width=widths is None)
    )
    if any(isinstance(f, part.MoE) for f in feed_forwards):
        if shared and not keys.has(*common.SHARED_EXPERTS):
            raise keys.refuse("key num_shared_expert is missing")
        if not keys.has("intermediate_size"):
            keys.warnings.append("intermediate_size is missing: moe_intermediate_size taken")
    if not shared:
        feed_forwards = [
            replace(f, shared_width=0) if isinstance(f, part.MoE) else f for f in feed_forwards
        ]
    period = keys.integer("cla_share_factor", default=1) if keys.flag("use_cla") else 1
    mixers = [replace(attention, borrows_cache=i % period != 0) for i in range(layers)]
    return common.make_reading(
        keys, common.make_blocks(mixers, feed_forwards, style), hidden, vocab, style
    )


# ERNIE


def read_ernie4_5(keys: ConfigKeys) -> common.Reading:
    """ERNIE 4.5, dense or routed; its score-correction bias is a parameter."""
    style = Style(
        qkv_bias="use_bias",
        o_bias="use_bias",
        mlp_bias="use_bias",
        tied=True,
        router_bias=True,
        defaults={"num_key_value_heads": 4},
    )
    reading = common.plain(style)(keys)
    if not keys.flag("use_bias"):
        return reading
    layers = [_with_shared_bias(block) for block in reading.layers]
    return replace(reading, layers=layers, head_bias=keys.has(*common.EXPERTS))


def _with_shared_bias(block: part.LayerBlock) -> part.LayerBlock:
    """The layer with biases on its shared experts; its routed experts have none."""
    parts = [
        replace(one, body=replace(one.body, shared_bias=True))
        if isinstance(one, part.Sublayer) and isinstance(one.body, part.MoE)
        else one
        for one in block.parts
    ]
    return replace(block, parts=tuple(parts))


# DBRX, Grok, Arctic


def read_dbrx(keys: ConfigKeys) -> common.Reading:
    """DBRX: everything in two nested objects."""
    hidden, layers = keys.integer(*common.HIDDEN), keys.integer(*common.LAYERS)
    vocab, heads = keys.integer("vocab_size"), keys.integer(*common.HEADS)
    attn, ffn = keys.section("attn_config"), keys.section("ffn_config")
    if attn is None or ffn is None:
        raise keys.refuse("keys attn_config and ffn_config are missing")
    keys.ignore("num_key_value_heads")
    if hidden % heads:
        raise keys.refuse(f"d_model {hidden} is no multiple of {heads} heads")
    attention = part.Attention(heads, attn.integer("kv_n_heads"), hidden // heads)
    stated = ffn.integer("hidden_size", default=hidden)
    if stated != hidden:
        raise ffn.refuse(f"hidden_size is {stated} but d_model is {hidden}")
    moe = part.MoE(
        ffn.integer("moe_num_experts"), ffn.integer("moe_top_k"), ffn.integer("ffn_hidden_size")
    )
    common.refuse_leftovers(attn)
    common.refuse_leftovers(ffn)
    blocks = [part.LayerBlock.of(1, attention, moe) for _ in range(layers)]
    return common.make_reading(keys, blocks, hidden, vocab, Style())


def grok(keys: ConfigKeys) -> common.Reading:
    """Grok-1 and Grok-2: sandwich norms; Grok-2 adds a dense feed-forward beside the experts."""
    style = Style(norms_after=1)
    keys.ignore("max_attn_value", "attn_output_multiplier", "global_attn_every_n")
    hidden, layers, vocab = common.read_core(keys, style)
    attention = common.read_attention(keys, hidden, style)
    width = keys.integer("intermediate_size")
    moe = part.MoE(
        keys.integer(*common.EXPERTS),
        keys.integer(*common.TOP_K),
        keys.integer("moe_intermediate_size", default=width),
        shared_width=width if keys.flag("residual_moe") else 0,
    )
    blocks = common.make_blocks([attention] * layers, [moe] * layers, style)
    return replace(
        common.make_reading(keys, blocks, hidden, vocab, style),
        tied=common.read_tied(keys, keys.text("model_type") == "grok-1"),
        final_norm_vectors=1,
    )


def read_arctic(keys: ConfigKeys) -> common.Reading:
    """Arctic: a dense residual feed-forward as wide as hidden_size beside the experts."""
    style = Style(expert_width=True)
    keys.ignore("parallel_attn_mlp_res", "sliding_window", "moe_layer_frequency")
    hidden, layers, vocab = common.read_core(keys, style)
    attention = common.read_attention(keys, hidden, style)
    step = keys.integer("moe_layer_frequency", default=2)
    width = keys.integer("intermediate_size")
    moe = part.Sublayer(part.MoE(keys.integer(*common.EXPERTS), keys.integer(*common.TOP_K), width))
    residual = keys.flag("use_residual", default=True)
    dense = part.Sublayer(part.DenseMLP(width))
    beside = part.Sublayer(part.DenseMLP(hidden, component="shared"))
    blocks = []
    for i in range(layers):
        parts: tuple[part.Sublayer | part.Parallel, ...] = (part.Sublayer(attention), dense)
        if (i + 1) % step == 0:
            parts = (part.Sublayer(attention), moe)
            if residual:
                parts = (part.Parallel(((part.Sublayer(attention), beside), (moe,))),)
        blocks.append(part.LayerBlock(1, parts))
    return common.make_reading(keys, blocks, hidden, vocab, style)


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
        """None."""
        yield from ()


def read_jetmoe(keys: ConfigKeys) -> common.Reading:
    """JetMoE: query and output projections are experts as well; keys and values are shared."""
    hidden, layers, vocab = common.read_core(keys, Style())
    experts, top_k = keys.integer("num_local_experts"), keys.integer("num_experts_per_tok")
    kv, width = keys.integer("num_key_value_heads"), keys.integer("kv_channels")
    keys.only("num_attention_heads", kv * top_k)
    keys.only("bias", True)
    keys.ignore("glu", "moe_num_experts", "moe_top_k")
    bias = (part.Piece("experts", hidden, vector=True),)
    shared = part.Piece("attention", 2 * hidden * kv * width, module="self_attn.kv_proj")
    attention = BareAttention(kv * top_k, kv, width, extra=(shared,))
    chosen = part.MoE(experts, top_k, kv * width, matrices=2, extra=bias)
    moe = part.MoE(experts, top_k, keys.integer("intermediate_size"), extra=bias)
    parts = (part.Sublayer(attention), part.Sublayer(chosen, norms_before=0), part.Sublayer(moe))
    blocks = [part.LayerBlock(1, parts) for _ in range(layers)]
    return common.make_reading(keys, blocks, hidden, vocab, Style(tied=True))


def read_mllama_text_model(keys: ConfigKeys) -> common.Reading:
    """Llama 3.2 Vision's decoder: Llama, with cross-attention in some layers."""
    hidden, layers, vocab = common.read_core(keys, Style())
    attention = common.read_attention(keys, hidden, Style())
    crossed = set(keys.whole_list("cross_attention_layers", [3, 8, 13, 18, 23, 28, 33, 38]) or [])
    dense = part.Sublayer(part.DenseMLP(keys.integer("intermediate_size")))
    gates = (part.Piece("other", 2, vector=True),)
    cross = CrossAttention(attention.heads, attention.kv_heads, attention.head_dim, qk_norm="head")
    blocks = [
        part.LayerBlock(1, (part.Sublayer(cross), dense), gates)
        if i in crossed
        else part.LayerBlock(1, (part.Sublayer(attention), dense))
        for i in range(layers)
    ]
    reading = common.make_reading(keys, blocks, hidden, vocab, Style())
    notes = ("keys and values of pictures are not in the KV cache",)
    # Eight further rows stand for pictures.
    return replace(reading, outside=(part.Piece("embedding", 8 * hidden),), notes=notes)


def read_gemma3n_text(keys: ConfigKeys) -> common.Reading:
    """Gemma 3n: four streams mixed by AltUp, low-rank side branches, embeddings per layer."""
    style = Style(qk_norm="head", tied=True, window="every", window_every=5, window_default=512,
                  qkv_bias="attention_bias", o_bias="attention_bias",
                  defaults={"head_dim": 256})  # fmt: skip
    hidden, layers, vocab = common.read_core(keys, style)
    attention = common.read_attention(keys, hidden, style)
    windows = read_windows(keys, layers, style)
    borrowed = keys.integer("num_kv_shared_layers", default=15, low=0)
    widths = keys.per_layer(("intermediate_size",), layers)
    own = keys.integer("hidden_size_per_layer_input", default=256)
    rows = keys.integer("vocab_size_per_layer_input", default=262_144)
    streams = keys.integer("altup_num_inputs", default=4)
    rank = keys.integer("laurel_rank", default=64)
    keys.ignore("altup_active_idx", "altup_correct_scale", "altup_coef_clip")
    side = (
        part.Piece("dense_mlp", 2 * hidden * own, module="per_layer_projection"),
        part.Piece("other", 2 * hidden * rank, module="laurel"),
        part.Piece("other", hidden * streams + streams * streams * (1 + streams), module="altup"),
        part.Piece("norm", 4 * hidden, vector=True),
    )
    blocks = [
        part.LayerBlock(
            1,
            (
                part.Sublayer(
                    replace(attention, window=w, borrows_cache=i >= layers - borrowed), 1, 1
                ),
                part.Sublayer(part.DenseMLP(width), 1, 1),
            ),
            side,
        )
        for i, (w, width) in enumerate(zip(windows, widths, strict=True))
    ]
    outside = (
        part.Piece("embedding", rows * layers * own),
        part.Piece("other", hidden * layers * own + 2 * (streams - 1) * hidden * hidden),
        part.Piece("norm", own, vector=True),
    )
    return replace(common.make_reading(keys, blocks, hidden, vocab, style), outside=outside)


def read_zamba2(keys: ConfigKeys) -> common.Reading:
    """Zamba 2: Mamba 2, and a few shared transformer blocks with adapters at each use."""
    heads = keys.integer("n_mamba_heads", default=8)
    inner = keys.integer("mamba_expand", default=2) * keys.integer("hidden_size")
    if inner % heads:
        raise keys.refuse(f"n_mamba_heads {heads} does not divide the inner width {inner}")
    keys.ignore("mamba_headdim", "kv_channels", "hybrid_layer_ids", "num_query_groups")
    keys.ignore("use_mem_rope", "use_long_context", "use_mem_eff_path", "use_shared_mlp_adapter")
    keys.only("add_bias_linear", False)
    keys.only("use_conv_bias", True)
    mamba = part.Mamba2(
        heads, inner // heads, keys.integer("mamba_d_state", default=64),
        keys.integer("mamba_ngroups", "n_groups", default=1),
        keys.integer("mamba_d_conv", default=4),
    )  # fmt: skip
    rank, stored = keys.integer("adapter_rank"), keys.integer("num_mem_blocks", default=1)
    hidden, wide = keys.integer("hidden_size"), keys.integer("intermediate_size")
    own = [part.Piece("dense_mlp", rank * (hidden + 2 * wide))]
    if keys.flag("use_shared_attention_adapter"):
        own.append(part.Piece("attention", 3 * 2 * rank * 2 * hidden))
    return _shared_blocks(keys, mamba, stored, tuple(own))


def read_zamba(keys: ConfigKeys) -> common.Reading:
    """Zamba 1: Mamba 1 in heads (as many numbers as without), one shared transformer block."""
    keys.ignore("n_mamba_heads", "use_mamba_kernels", "attn_layer_period", "attn_layer_offset")
    return _shared_blocks(keys, mamba1(keys, keys.integer("hidden_size")), 1, ())


def _shared_blocks(
    keys: ConfigKeys, mamba: part.Mixer, stored: int, adapters: tuple[part.Piece, ...]
) -> common.Reading:
    """Mamba in every layer; before it, in some, one of `stored` transformer blocks on the hidden
    vector and the embedding side by side, with a matrix and adapters of the layer's own."""
    hidden, layers, vocab = common.read_core(keys, Style())
    keys.only("attention_hidden_size", 2 * hidden)
    types = keys.names_list("layers_block_type", layers)
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
    reading = common.make_reading(keys, blocks, hidden, vocab, Style(tied=True))
    note = (
        f"{used} layers use {stored} shared transformer block(s), counted once; what their later "
        "uses read is left out"
    )
    return replace(reading, notes=(note,))


def nemotron_nas(keys: ConfigKeys) -> common.Reading:
    """Llama-Nemotron: every block with its own attention and width, or without."""
    style = Style(qkv_bias="attention_bias", o_bias="attention_bias", mlp_bias="mlp_bias")
    hidden, layers, vocab = common.read_core(keys, style)
    heads, _, head_dim = common.read_heads(keys, hidden, style)
    bias, mlp_bias = keys.flag("attention_bias"), keys.flag("mlp_bias")
    entries = keys.layer_list("block_configs", keys.raw("block_configs"), layers)
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
        if attention.flag("no_op"):
            mixers.append(None)
        else:
            group = attention.integer("n_heads_in_group")
            if heads % group:
                raise attention.refuse(f"{group} heads in a group do not divide {heads} heads")
            window = attention.optional("window_length", low=0) or None
            mixers.append(
                part.Attention(
                    heads, heads // group, head_dim, qkv_bias=bias, o_bias=bias, window=window
                )
            )
        if ff.flag("no_op"):
            feed_forwards.append(None)
        else:
            width = ff.optional("intermediate_size")
            if width is None:
                width = ceil(int(2 * ff.number("ffn_mult", 0.0) * hidden / 3) / 256) * 256
            feed_forwards.append(part.DenseMLP(width, 3, mlp_bias))
    return common.make_reading(
        keys, common.make_blocks(mixers, feed_forwards, style), hidden, vocab, style
    )
