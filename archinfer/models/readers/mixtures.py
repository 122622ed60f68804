"""Readers of mixtures of experts on grouped queries that need more than a style."""

from __future__ import annotations

from dataclasses import replace

from archinfer.models.architecture import (
    Attention,
    DenseMLP,
    LayerBlock,
    MoE,
    Parallel,
    Sublayer,
)
from archinfer.models.configkeys import ConfigKeys
from archinfer.models.readers.common import (
    EXPERT_WIDTH,
    EXPERTS,
    HEADS,
    HIDDEN,
    LAYERS,
    SHARED_EXPERTS,
    TOP_K,
    Reading,
    make_blocks,
    make_reading,
    plain,
    read_attention,
    read_core,
    read_feed_forwards,
    read_tied,
    refuse_leftovers,
)
from archinfer.models.readers.style import Style

# Hunyuan


def read_hunyuan(keys: ConfigKeys) -> Reading:
    """Hunyuan A13B and Large: experts everywhere, perhaps caches shared by layers."""
    style = Style(
        qkv_bias="attention_bias",
        o_bias="attention_bias",
        qk_norm="head",
        qk_norm_key="use_qk_norm",
    )
    hidden, layers, vocab = read_core(keys, style)
    attention = read_attention(keys, hidden, style)
    keys.ignore("org_vocab_size", "sliding_window", "use_sliding_window", "dense_list")
    shared = keys.flag("use_mixed_mlp_moe", default=True)
    widths = keys.raw(*EXPERT_WIDTH)
    feed_forwards = read_feed_forwards(keys, layers, replace(style, expert_width=widths is None))
    if any(isinstance(f, MoE) for f in feed_forwards):
        if shared and not keys.has(*SHARED_EXPERTS):
            raise keys.refuse("key num_shared_expert is missing")
        if not keys.has("intermediate_size"):
            keys.warnings.append("intermediate_size is missing: moe_intermediate_size taken")
    if not shared:
        feed_forwards = [
            replace(f, shared_width=0) if isinstance(f, MoE) else f for f in feed_forwards
        ]
    period = keys.integer("cla_share_factor", default=1) if keys.flag("use_cla") else 1
    mixers = [replace(attention, borrows_cache=i % period != 0) for i in range(layers)]
    return make_reading(keys, make_blocks(mixers, feed_forwards, style), hidden, vocab, style)


# ERNIE


def read_ernie(keys: ConfigKeys) -> Reading:
    """ERNIE 4.5, dense or routed; its score-correction bias is a parameter."""
    style = Style(
        qkv_bias="use_bias",
        o_bias="use_bias",
        mlp_bias="use_bias",
        tied=True,
        router_bias=True,
        defaults={"num_key_value_heads": 4},
    )
    reading = plain(style)(keys)
    if not keys.flag("use_bias"):
        return reading
    layers = [_with_shared_bias(block) for block in reading.layers]
    return replace(reading, layers=layers, head_bias=True)


def _with_shared_bias(block: LayerBlock) -> LayerBlock:
    """The layer with biases on its shared experts; its routed experts have none."""
    parts = [
        replace(part, body=replace(part.body, shared_bias=True))
        if isinstance(part, Sublayer) and isinstance(part.body, MoE)
        else part
        for part in block.parts
    ]
    return replace(block, parts=tuple(parts))


# DBRX, Grok, Arctic


def read_dbrx(keys: ConfigKeys) -> Reading:
    """DBRX: everything in two nested objects."""
    hidden, layers = keys.integer(*HIDDEN), keys.integer(*LAYERS)
    vocab, heads = keys.integer("vocab_size"), keys.integer(*HEADS)
    attn, ffn = keys.section("attn_config"), keys.section("ffn_config")
    if attn is None or ffn is None:
        raise keys.refuse("keys attn_config and ffn_config are missing")
    keys.ignore("num_key_value_heads")
    if hidden % heads:
        raise keys.refuse(f"d_model {hidden} is no multiple of {heads} heads")
    attention = Attention(heads, attn.integer("kv_n_heads"), hidden // heads)
    stated = ffn.integer("hidden_size", default=hidden)
    if stated != hidden:
        raise ffn.refuse(f"hidden_size is {stated} but d_model is {hidden}")
    moe = MoE(
        ffn.integer("moe_num_experts"), ffn.integer("moe_top_k"), ffn.integer("ffn_hidden_size")
    )
    refuse_leftovers(attn)
    refuse_leftovers(ffn)
    blocks = [LayerBlock.of(1, attention, moe) for _ in range(layers)]
    return make_reading(keys, blocks, hidden, vocab, Style())


def read_grok(keys: ConfigKeys) -> Reading:
    """Grok-1 and Grok-2: sandwich norms; Grok-2 adds a dense feed-forward beside the experts."""
    style = Style(norms_after=1)
    keys.ignore("max_attn_value", "attn_output_multiplier", "global_attn_every_n")
    hidden, layers, vocab = read_core(keys, style)
    attention = read_attention(keys, hidden, style)
    width = keys.integer("intermediate_size")
    moe = MoE(
        keys.integer(*EXPERTS),
        keys.integer(*TOP_K),
        keys.integer("moe_intermediate_size", default=width),
        shared_width=width if keys.flag("residual_moe") else 0,
    )
    blocks = make_blocks([attention] * layers, [moe] * layers, style)
    return replace(
        make_reading(keys, blocks, hidden, vocab, style),
        tied=read_tied(keys, keys.text("model_type") == "grok-1"),
        final_norm_vectors=1,
    )


def read_arctic(keys: ConfigKeys) -> Reading:
    """Arctic: a dense residual feed-forward as wide as hidden_size beside the experts."""
    style = Style(expert_width=True)
    keys.ignore("parallel_attn_mlp_res", "sliding_window", "moe_layer_frequency")
    hidden, layers, vocab = read_core(keys, style)
    attention = read_attention(keys, hidden, style)
    step = keys.integer("moe_layer_frequency", default=2)
    width = keys.integer("intermediate_size")
    moe = Sublayer(MoE(keys.integer(*EXPERTS), keys.integer(*TOP_K), width))
    residual = keys.flag("use_residual", default=True)
    dense = Sublayer(DenseMLP(width))
    beside = Sublayer(DenseMLP(hidden, component="shared"))
    blocks = []
    for i in range(layers):
        parts: tuple[Sublayer | Parallel, ...] = (Sublayer(attention), dense)
        if (i + 1) % step == 0:
            parts = (Sublayer(attention), moe)
            if residual:
                parts = (Parallel(((Sublayer(attention), beside), (moe,))),)
        blocks.append(LayerBlock(1, parts))
    return make_reading(keys, blocks, hidden, vocab, style)
