"""Readers of hybrids: linear attention, Mamba or convolutions beside softmax attention."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from archinfer.models.architecture import (
    Attention,
    DenseMLP,
    FeedForward,
    GatedDelta,
    LayerBlock,
    Mamba1,
    Mamba2,
    Mixer,
    MoE,
    Piece,
    ShortConv,
    Sublayer,
)
from archinfer.models.configkeys import ConfigKeys
from archinfer.models.readers.common import (
    EXPERTS,
    HEADS,
    KV_HEADS,
    SHARED_EXPERTS,
    TOP_K,
    Reading,
    make_blocks,
    make_reading,
    read_attention,
    read_core,
    read_feed_forwards,
    read_heads,
    read_layers,
)
from archinfer.models.readers.style import Style

# Qwen3-Next, Qwen3.5


def read_qwen_linear(keys: ConfigKeys) -> Reading:
    """Gated DeltaNet in most layers, gated attention in every fourth."""
    style = Style(
        qkv_bias="attention_bias", o_bias="attention_bias", qk_norm="head", shared_gate=True,
        defaults={"head_dim": 256}, decoys=("sliding_window", "use_sliding_window"),
    )  # fmt: skip
    return read_layers(keys, style, _gated_delta)


def _gated_delta(keys: ConfigKeys, hidden: int, layers: int, style: Style) -> list[Mixer]:
    gated = keys.flag("attn_output_gate", default=True)
    attention = replace(read_attention(keys, hidden, style), gate="full" if gated else "none")
    delta = GatedDelta(
        keys.integer("linear_num_key_heads"),
        keys.integer("linear_key_head_dim"),
        keys.integer("linear_num_value_heads"),
        keys.integer("linear_value_head_dim"),
        keys.integer("linear_conv_kernel_dim"),
    )
    every = keys.integer("full_attention_interval", default=4)
    types = keys.names_list("layer_types", layers)
    if types is None:
        types = [
            "full_attention" if (i + 1) % every == 0 else "linear_attention" for i in range(layers)
        ]
    if not set(types) <= {"full_attention", "linear_attention"}:
        raise keys.refuse("layer_types must hold 'full_attention' or 'linear_attention'")
    return [attention if t == "full_attention" else delta for t in types]


# Hybrids with Mamba


def mamba1(keys: ConfigKeys, hidden: int) -> Mamba1:
    """Mamba 1 inside a hybrid, whose keys begin with `mamba_`."""
    rank = keys.raw("mamba_dt_rank", default="auto")
    return Mamba1(
        keys.integer("mamba_expand", default=2) * hidden,
        keys.integer("mamba_d_state", default=16),
        keys.integer("mamba_d_conv", default=4),
        ceil(hidden / 16) if rank == "auto" else keys.integer("mamba_dt_rank"),
        conv_bias=keys.flag("mamba_conv_bias", default=True),
        proj_bias=keys.flag("mamba_proj_bias"),
    )


def read_jamba(keys: ConfigKeys) -> Reading:
    """Mamba-1 with attention in every eighth layer, experts in every second."""
    style = Style()
    keys.ignore("sliding_window", "use_mamba_kernels", "mamba_inner_layernorms", "num_logits")
    hidden, layers, vocab = read_core(keys, style)
    attention = read_attention(keys, hidden, style)
    mamba = replace(mamba1(keys, hidden), inner_norms=True)
    period = keys.integer("attn_layer_period", default=8)
    offset = keys.integer("attn_layer_offset", default=4, low=0)
    mixers: list[Mixer | None] = [
        attention if i % period == offset else mamba for i in range(layers)
    ]
    width = keys.integer("intermediate_size")
    dense = DenseMLP(width)
    experts = keys.integer(*EXPERTS, default=16)
    step = keys.integer("expert_layer_period", default=2)
    shift = keys.integer("expert_layer_offset", default=1, low=0)
    top_k = keys.integer(*TOP_K, default=2)
    feed_forwards: list[FeedForward] = [dense] * layers
    if experts > 1:
        moe = MoE(experts, top_k, width)
        feed_forwards = [moe if i % step == shift else dense for i in range(layers)]
    return make_reading(keys, make_blocks(mixers, feed_forwards, style), hidden, vocab, style)


_NEMOTRON_BLOCKS = {"M": "mamba", "E": "moe", "*": "attention", "-": "mlp"}
_NEMOTRON_NAMES = {"linear_attention": "mamba", "full_attention": "attention"}


def read_nemotron_h(keys: ConfigKeys) -> Reading:
    """One branch a "layer": Mamba-2, attention, experts or a two-matrix feed-forward."""
    style = Style(
        matrices=2,
        defaults={"head_dim": 128, "num_key_value_heads": 8},
    )
    pattern = keys.raw("hybrid_override_pattern")
    names = keys.raw("layers_block_type", "layer_types")
    if isinstance(pattern, str):
        kinds = [_NEMOTRON_BLOCKS.get(c, c) for c in pattern]
    elif isinstance(names, list):
        kinds = [_NEMOTRON_NAMES.get(str(n), str(n)) for n in names]
    else:
        raise keys.refuse("key layers_block_type or hybrid_override_pattern is missing")
    unknown = sorted(set(kinds) - set(_NEMOTRON_BLOCKS.values()))
    if unknown:
        raise keys.refuse(f"block type {unknown[0]!r} is not one this family has")
    stated = keys.integer("num_hidden_layers", default=len(kinds))
    if stated != len(kinds):
        raise keys.refuse(f"num_hidden_layers is {stated} but {len(kinds)} blocks are listed")
    hidden, vocab = keys.integer("hidden_size"), keys.integer("vocab_size")
    bodies: dict[str, Mixer | FeedForward] = {}
    for kind in set(kinds):
        bodies[kind] = _nemotron_body(keys, kind, hidden, style)
    keys.ignore("intermediate_size", "expand", "sliding_window", "chunk_size")
    keys.ignore("use_mamba_kernels", "head_dim", "attention_head_dim", "mlp_bias", "use_bias")
    keys.ignore(*EXPERTS, *TOP_K, *SHARED_EXPERTS, "moe_intermediate_size", "moe_latent_size")
    keys.ignore("moe_shared_expert_intermediate_size", "ssm_state_size", "conv_kernel")
    keys.ignore("mamba_num_heads", "mamba_head_dim", "n_groups", "use_conv_bias")
    keys.ignore(*HEADS, *KV_HEADS, "mamba_proj_bias")
    blocks = [LayerBlock(1, (Sublayer(bodies[k]),)) for k in kinds]
    return make_reading(keys, blocks, hidden, vocab, style)


def _nemotron_body(keys: ConfigKeys, kind: str, hidden: int, style: Style) -> Mixer | FeedForward:
    if kind == "attention":
        return read_attention(keys, hidden, style)
    if kind == "mamba":
        return Mamba2(
            keys.integer("mamba_num_heads"),
            keys.integer("mamba_head_dim"),
            keys.integer("ssm_state_size"),
            keys.integer("n_groups", "mamba_n_groups"),
            keys.integer("conv_kernel", "mamba_d_conv"),
            conv_bias=keys.flag("use_conv_bias", default=True),
            proj_bias=keys.flag("use_bias"),
        )
    bias = keys.flag("mlp_bias")
    if kind == "mlp":
        return DenseMLP(keys.integer("intermediate_size"), 2, bias)
    latent = keys.integer("moe_latent_size", default=0, low=0)
    count = keys.integer(*SHARED_EXPERTS, default=0, low=0)
    shared = keys.integer("moe_shared_expert_intermediate_size", default=0, low=0)
    return MoE(
        keys.integer(*EXPERTS),
        keys.integer(*TOP_K),
        keys.integer("moe_intermediate_size"),
        matrices=2,
        latent=latent or None,
        shared_width=shared * bool(count),
        shared_bias=bias,
        extra=(Piece("latent", latent + hidden, vector=True),) if bias and latent else (),
    )


def read_nemotron_nas(keys: ConfigKeys) -> Reading:
    """Llama-Nemotron: every block with its own attention and width, or without."""
    style = Style(qkv_bias="attention_bias", o_bias="attention_bias", mlp_bias="mlp_bias")
    hidden, layers, vocab = read_core(keys, style)
    heads, _, head_dim = read_heads(keys, hidden, style)
    bias, mlp_bias = keys.flag("attention_bias"), keys.flag("mlp_bias")
    entries = keys.layer_list("block_configs", keys.raw("block_configs"), layers)
    mixers: list[Mixer | None] = []
    feed_forwards: list[FeedForward | None] = []
    for index, entry in enumerate(entries):
        where = f"{keys.where}: block_configs[{index}]"
        block = ConfigKeys(entry if isinstance(entry, dict) else {}, where)
        attention, ff = block.section("attention"), block.section("ffn")
        if attention is None or ff is None:
            raise block.refuse("needs an attention and an ffn")
        for part in (attention, ff):
            if part.flag("replace_with_linear") or part.raw("sparsify"):
                raise part.refuse("replace_with_linear and sparsify are not supported")
        if attention.flag("no_op"):
            mixers.append(None)
        else:
            group = attention.integer("n_heads_in_group")
            if heads % group:
                raise attention.refuse(f"{group} heads in a group do not divide {heads} heads")
            window = attention.optional("window_length", low=0) or None
            mixers.append(
                Attention(
                    heads, heads // group, head_dim, qkv_bias=bias, o_bias=bias, window=window
                )
            )
        if ff.flag("no_op"):
            feed_forwards.append(None)
        else:
            width = ff.optional("intermediate_size")
            if width is None:
                width = ceil(int(2 * ff.number("ffn_mult", 0.0) * hidden / 3) / 256) * 256
            feed_forwards.append(DenseMLP(width, 3, mlp_bias))
    return make_reading(keys, make_blocks(mixers, feed_forwards, style), hidden, vocab, style)


# LFM2


def read_lfm2(keys: ConfigKeys) -> Reading:
    """Short convolutions with grouped-query attention in some layers."""
    style = Style(qk_norm="head", tied=True, defaults={"num_key_value_heads": 8})
    hidden, layers, vocab = read_core(keys, style)
    attention = read_attention(keys, hidden, style)
    conv = ShortConv(
        hidden, keys.integer("conv_L_cache", default=3), keys.flag("conv_bias", default=False)
    )
    full = keys.raw("full_attn_idxs")
    types = keys.names_list("layer_types", layers)
    if types is None:
        if not isinstance(full, list):
            raise keys.refuse("key layer_types or full_attn_idxs is missing")
        types = ["full_attention" if i in full else "conv" for i in range(layers)]
    mixers: list[Mixer | None] = [attention if t == "full_attention" else conv for t in types]
    keys.ignore("conv_dim", "conv_dim_out", "conv_use_xavier_init", "block_use_xavier_init")
    keys.ignore(
        "block_use_swiglu", "block_norm_eps", "block_mlp_init_scale", "block_out_init_scale"
    )
    keys.ignore("block_dim", "block_ff_dim", "num_heads", "use_pos_enc")
    feed_forwards = read_feed_forwards(keys, layers, style)
    if not any(isinstance(f, MoE) for f in feed_forwards):
        if keys.flag("block_auto_adjust_ff_dim", default=True):
            width = int(2 * keys.integer("intermediate_size", "block_ff_dim") / 3)
            width = int(keys.number("block_ffn_dim_multiplier", 1.0) * width)
            unit = keys.integer("block_multiple_of", default=256)
            feed_forwards = [DenseMLP(unit * ceil(width / unit))] * layers
        keys.ignore("block_multiple_of", "block_ffn_dim_multiplier")
    return make_reading(keys, make_blocks(mixers, feed_forwards, style), hidden, vocab, style)
