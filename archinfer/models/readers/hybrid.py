"""Readers of hybrids and state-space models: linear attention, Mamba or convolutions, with softmax
attention beside them or without."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from archinfer.models import layers as part
from archinfer.models.configkeys import ConfigKeys
from archinfer.models.readers import common
from archinfer.models.readers.style import Style

# Qwen3-Next, Qwen3.5


def read_qwen3_next(keys: ConfigKeys) -> common.Reading:
    """Gated DeltaNet in most layers, gated attention in every fourth."""
    decoys = ("sliding_window", "use_sliding_window")
    style = Style(qk_norm="head", shared_gate=True, defaults={"head_dim": 256}, decoys=decoys)
    return common.read_layers(keys, style, _gated_delta)


def _gated_delta(keys: ConfigKeys, hidden: int, layers: int, style: Style) -> list[part.Mixer]:
    keys.only("attention_bias", False)
    gated = keys.flag("attn_output_gate", default=True)
    attention = replace(
        common.read_attention(keys, hidden, style), gate="full" if gated else "none"
    )
    delta = part.GatedDelta(
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


def mamba1(keys: ConfigKeys, hidden: int) -> part.Mamba1:
    """Mamba 1 inside a hybrid, whose keys begin with `mamba_`."""
    rank = keys.raw("mamba_dt_rank", default="auto")
    return part.Mamba1(
        keys.integer("mamba_expand", default=2) * hidden,
        keys.integer("mamba_d_state", default=16),
        keys.integer("mamba_d_conv", default=4),
        ceil(hidden / 16) if rank == "auto" else keys.integer("mamba_dt_rank"),
        conv_bias=keys.flag("mamba_conv_bias", default=True),
        proj_bias=keys.flag("mamba_proj_bias"),
    )


def read_jamba(keys: ConfigKeys) -> common.Reading:
    """Mamba-1 with attention in every eighth layer, experts in every second."""
    style = Style()
    keys.ignore("sliding_window", "use_mamba_kernels", "mamba_inner_layernorms", "num_logits")
    hidden, layers, vocab = common.read_core(keys, style)
    attention = common.read_attention(keys, hidden, style)
    mamba = replace(mamba1(keys, hidden), inner_norms=True)
    period = keys.integer("attn_layer_period", default=8)
    offset = keys.integer("attn_layer_offset", default=4, low=0)
    mixers: list[part.Mixer | None] = [
        attention if i % period == offset else mamba for i in range(layers)
    ]
    width = keys.integer("intermediate_size")
    dense = part.DenseMLP(width)
    experts = keys.integer(*common.EXPERTS, default=16)
    step = keys.integer("expert_layer_period", default=2)
    shift = keys.integer("expert_layer_offset", default=1, low=0)
    top_k = keys.integer(*common.TOP_K, default=2)
    feed_forwards: list[part.FeedForward] = [dense] * layers
    if experts > 1:
        moe = part.MoE(experts, top_k, width)
        feed_forwards = [moe if i % step == shift else dense for i in range(layers)]
    return common.make_reading(
        keys, common.make_blocks(mixers, feed_forwards, style), hidden, vocab, style
    )


_NEMOTRON_BLOCKS = {"M": "mamba", "E": "moe", "*": "attention", "-": "mlp"}
_NEMOTRON_NAMES = {"linear_attention": "mamba", "full_attention": "attention"}


def read_nemotron_h(keys: ConfigKeys) -> common.Reading:
    """One branch a "layer": Mamba-2, attention, experts or a two-matrix feed-forward."""
    style = Style(matrices=2, defaults={"head_dim": 128, "num_key_value_heads": 8})
    keys.only("tie_word_embeddings", False)
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
    bodies: dict[str, part.Mixer | part.FeedForward] = {}
    for kind in set(kinds):
        bodies[kind] = _nemotron_body(keys, kind, hidden, style)
    keys.ignore("intermediate_size", "expand", "sliding_window", "chunk_size")
    keys.ignore("use_mamba_kernels", "head_dim", "attention_head_dim", "mlp_bias", "use_bias")
    keys.ignore(
        *common.EXPERTS,
        *common.TOP_K,
        *common.SHARED_EXPERTS,
        "moe_intermediate_size",
        "moe_latent_size",
    )
    keys.ignore("moe_shared_expert_intermediate_size", "ssm_state_size", "conv_kernel")
    keys.ignore("mamba_num_heads", "mamba_head_dim", "n_groups", "use_conv_bias")
    keys.ignore(*common.HEADS, *common.KV_HEADS, "mamba_proj_bias")
    blocks = [part.LayerBlock(1, (part.Sublayer(bodies[k]),)) for k in kinds]
    return common.make_reading(keys, blocks, hidden, vocab, style)


def _nemotron_body(
    keys: ConfigKeys, kind: str, hidden: int, style: Style
) -> part.Mixer | part.FeedForward:
    if kind == "attention":
        return common.read_attention(keys, hidden, style)
    if kind == "mamba":
        return part.Mamba2(
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
        return part.DenseMLP(keys.integer("intermediate_size"), 2, bias)
    latent = keys.integer("moe_latent_size", default=0, low=0)
    count = keys.integer(*common.SHARED_EXPERTS, default=0, low=0)
    shared = keys.integer("moe_shared_expert_intermediate_size", default=0, low=0)
    return part.MoE(
        keys.integer(*common.EXPERTS),
        keys.integer(*common.TOP_K),
        keys.integer("moe_intermediate_size"),
        matrices=2,
        latent=latent or None,
        shared_width=shared * bool(count),
        shared_bias=bias,
        extra=(part.Piece("latent", latent + hidden, vector=True),) if bias and latent else (),
    )


# LFM2


def read_lfm2(keys: ConfigKeys) -> common.Reading:
    """Short convolutions with grouped-query attention in some layers."""
    style = Style(qk_norm="head", tied=True, defaults={"num_key_value_heads": 8})
    hidden, layers, vocab = common.read_core(keys, style)
    attention = common.read_attention(keys, hidden, style)
    conv = part.ShortConv(
        hidden, keys.integer("conv_L_cache", default=3), keys.flag("conv_bias", default=False)
    )
    full = keys.raw("full_attn_idxs")
    types = keys.names_list("layer_types", layers)
    if types is None:
        if not isinstance(full, list):
            raise keys.refuse("key layer_types or full_attn_idxs is missing")
        types = ["full_attention" if i in full else "conv" for i in range(layers)]
    mixers: list[part.Mixer | None] = [attention if t == "full_attention" else conv for t in types]
    keys.ignore("conv_dim", "conv_dim_out", "conv_use_xavier_init", "block_use_xavier_init")
    keys.ignore(
        "block_use_swiglu", "block_norm_eps", "block_mlp_init_scale", "block_out_init_scale"
    )
    keys.ignore("block_dim", "block_ff_dim", "num_heads", "use_pos_enc")
    feed_forwards = common.read_feed_forwards(keys, layers, style)
    if not any(isinstance(f, part.MoE) for f in feed_forwards):
        if keys.flag("block_auto_adjust_ff_dim", default=True):
            width = int(2 * keys.integer("intermediate_size", "block_ff_dim") / 3)
            width = int(keys.number("block_ffn_dim_multiplier", 1.0) * width)
            unit = keys.integer("block_multiple_of", default=256)
            feed_forwards = [part.DenseMLP(unit * ceil(width / unit))] * layers
        keys.ignore("block_multiple_of", "block_ffn_dim_multiplier")
    return common.make_reading(
        keys, common.make_blocks(mixers, feed_forwards, style), hidden, vocab, style
    )


_ATTENTION = {"attention", "full_attention"}
_GRIFFIN = ("recurrent", "attention")


def _only_mixers(keys: ConfigKeys, mixer: part.Mixer, hidden: int, tied: bool) -> common.Reading:
    """Layers of one norm and one mixer."""
    layers = keys.integer(*common.LAYERS)
    if layers > 10_000:
        raise keys.refuse(f"{layers} layers are absurdly many")
    blocks = [part.LayerBlock(1, (part.Sublayer(mixer),)) for _ in range(layers)]
    return common.make_reading(keys, blocks, hidden, keys.integer("vocab_size"), Style(tied=tied))


def read_mamba(keys: ConfigKeys) -> common.Reading:
    """Mamba 1 and FalconMamba."""
    hidden = keys.integer(*common.HIDDEN)
    inner = keys.integer("expand", default=2) * hidden
    inner = keys.integer("intermediate_size", "d_inner", default=inner)
    rank = keys.raw("time_step_rank", default="auto")
    keys.ignore("mixer_rms_eps", "use_mambapy", "use_associative_scan", "expand", "ssm_cfg")
    keys.ignore("pad_vocab_size_multiple")
    mixer = part.Mamba1(
        inner,
        keys.integer("state_size", default=16),
        keys.integer("conv_kernel", default=4),
        ceil(hidden / 16) if rank == "auto" else keys.integer("time_step_rank"),
        conv_bias=keys.flag("use_conv_bias", default=True),
        proj_bias=keys.flag("use_bias"),
    )
    return _only_mixers(keys, mixer, hidden, True)


def read_mamba2(keys: ConfigKeys) -> common.Reading:
    """Mamba 2 and Codestral-Mamba."""
    hidden = keys.integer(*common.HIDDEN)
    heads, width = keys.integer("num_heads"), keys.integer("head_dim")
    expand = keys.integer("expand", default=2)
    if heads * width != expand * hidden:
        raise keys.refuse(f"num_heads x head_dim is not expand x hidden_size ({expand * hidden})")
    keys.ignore("time_step_rank", "rms_norm", "norm_before_gate", "intermediate_size")
    mixer = part.Mamba2(
        heads,
        width,
        keys.integer("state_size", default=128),
        keys.integer("n_groups", default=8),
        keys.integer("conv_kernel", default=4),
        conv_bias=keys.flag("use_conv_bias", default=True),
        proj_bias=keys.flag("use_bias"),
    )
    return _only_mixers(keys, mixer, hidden, False)


def _mamba2(keys: ConfigKeys, hidden: int) -> part.Mamba2:
    """Mamba 2 inside a hybrid, whose keys begin with `mamba_`."""
    heads = keys.integer("mamba_n_heads", default=128)
    inner = keys.integer("mamba_expand", default=2) * hidden
    inner = keys.integer("mamba_d_ssm", default=inner)
    width = keys.raw("mamba_d_head", default="auto")
    width = inner // heads if width == "auto" else keys.integer("mamba_d_head")
    if heads * width != inner:
        raise keys.refuse(f"mamba_n_heads x mamba_d_head is not the inner width {inner}")
    return part.Mamba2(
        heads,
        width,
        keys.integer("mamba_d_state", default=256),
        keys.integer("mamba_n_groups", default=1),
        keys.integer("mamba_d_conv", default=4),
        conv_bias=keys.flag("mamba_conv_bias", default=True),
        proj_bias=keys.flag("mamba_proj_bias"),
    )


def read_falcon_h1(keys: ConfigKeys) -> common.Reading:
    """Falcon-H1: Mamba 2 and attention side by side under one norm."""
    style = Style(qkv_bias="attention_bias", o_bias="attention_bias")
    hidden, layers, vocab = common.read_core(keys, style)
    keys.ignore("mamba_norm_before_gate", "mamba_use_mlp", "mlp_expansion_factor")
    keys.ignore("ssm_multipliers", "mlp_multipliers", "attn_layer_indices", "time_step_limit")
    keys.only("projectors_bias", False)
    keys.only("mamba_proj_bias", False)
    attention = common.read_attention(keys, hidden, style)
    mamba = replace(_mamba2(keys, hidden), gated_norm=keys.flag("mamba_rms_norm"))
    dense = part.DenseMLP(keys.integer("intermediate_size"), 3, keys.flag("mlp_bias"))
    both = part.Parallel(((part.Sublayer(mamba),), (part.Sublayer(attention, 0),)))
    blocks = [part.LayerBlock(1, (both, part.Sublayer(dense))) for _ in range(layers)]
    return common.make_reading(keys, blocks, hidden, vocab, style)


def _kinds(keys: ConfigKeys, layers: int) -> list[bool]:
    """Which layers have attention."""
    for name in ("layer_types", "layers_block_type"):
        types = keys.names_list(name, layers)
        if types is not None:
            keys.ignore("layers_block_type", "attn_layer_indices")
            return [t in _ATTENTION for t in types]
    chosen = set(keys.whole_list("attn_layer_indices") or [])
    return [i in chosen for i in range(layers)]


def _mamba_or_attention(
    keys: ConfigKeys, hidden: int, layers: int, style: Style
) -> list[part.Mixer]:
    attention, mamba = common.read_attention(keys, hidden, style), _mamba2(keys, hidden)
    return [attention if a else mamba for a in _kinds(keys, layers)]


def read_bamba(keys: ConfigKeys) -> common.Reading:
    """Bamba: Mamba 2, attention in some layers, a feed-forward in all."""
    style = Style(qkv_bias="attention_bias", o_bias="attention_bias", mlp_bias="mlp_bias")
    return common.read_layers(keys, style, _mamba_or_attention)


def read_granitemoehybrid(keys: ConfigKeys) -> common.Reading:
    """Granite 4: Mamba 2 or attention, then routed experts beside a shared one, or that alone."""
    style = Style(qkv_bias="attention_bias", o_bias="attention_bias", expert_width=True)
    hidden, layers, vocab = common.read_core(keys, style)
    mixers = _mamba_or_attention(keys, hidden, layers, style)
    shared = keys.integer("shared_intermediate_size", default=1024)
    experts = keys.integer("num_local_experts", default=8, low=0)
    body: part.FeedForward = part.DenseMLP(shared)
    if experts:
        width = keys.integer("intermediate_size")
        body = part.MoE(experts, keys.integer(*common.TOP_K, default=2), width, shared_width=shared)
    keys.ignore(*common.TOP_K, "intermediate_size", "mamba_expand", "init_method")
    blocks = common.make_blocks(mixers, [body] * layers, style)
    return common.make_reading(keys, blocks, hidden, vocab, style)


def read_recurrent_gemma(keys: ConfigKeys) -> common.Reading:
    """RecurrentGemma (Griffin): linear recurrent units, local attention in every third layer."""
    style = Style(qkv_bias="attention_bias", o_bias=True, tied=True)
    hidden, layers, vocab = common.read_core(keys, style)
    attention = replace(
        common.read_attention(keys, hidden, style),
        window=keys.integer("attention_window_size", default=2048),
    )
    unit = part.RecurrentUnit(
        keys.integer("lru_width", default=hidden),
        attention.heads,
        keys.integer("conv1d_width", default=4),
    )
    keys.ignore("_block_types", "layer_types", "layers_block_type")
    types = keys.raw("block_types", "_block_types", default=["recurrent", "recurrent", "attention"])
    if not isinstance(types, list) or not types or any(t not in _GRIFFIN for t in types):
        raise keys.must_be("block_types", "a list of 'recurrent' and 'attention'", types)
    mixers: list[part.Mixer | None] = [
        attention if types[i % len(types)] == "attention" else unit for i in range(layers)
    ]
    dense = part.DenseMLP(keys.integer("intermediate_size") // 2, 3, True)
    blocks = common.make_blocks(mixers, [dense] * layers, style)
    return common.make_reading(keys, blocks, hidden, vocab, style)
