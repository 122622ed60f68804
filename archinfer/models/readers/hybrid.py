"""Readers of hybrids and state-space models: linear attention, Mamba or convolutions, with softmax
attention beside them or without."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from archinfer.models import layers as part
from archinfer.models.configkeys import ConfigKeys
from archinfer.models.readers import common
from archinfer.models.readers.common import Decoder, Reading
from archinfer.models.readers.style import Style

# Qwen3-Next, Qwen3.5


def read_qwen3_next(d: Decoder) -> Reading:
    """Gated DeltaNet in most layers, gated attention in every fourth."""
    keys, layers = d.keys, d.layers
    gated = keys.flag("attn_output_gate", default=True)
    attention = replace(d.attention(), gate="full" if gated else "none")
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
    return d.reading(d.blocks([attention if t == "full_attention" else delta for t in types]))


# Hybrids with Mamba


def mamba1(keys: ConfigKeys, hidden: int) -> part.Mamba1:
    """Mamba 1, by the keys of hybrids (which begin with `mamba_`) or by its own."""
    ranks = ("mamba_dt_rank", "time_step_rank")
    rank = keys.raw(*ranks, default="auto")
    return part.Mamba1(
        keys.integer("mamba_expand", "expand", default=2) * hidden,
        keys.integer("mamba_d_state", "state_size", default=16),
        keys.integer("mamba_d_conv", "conv_kernel", default=4),
        ceil(hidden / 16) if rank == "auto" else keys.integer(*ranks),
        conv_bias=keys.flag("mamba_conv_bias", "use_conv_bias", default=True),
        proj_bias=keys.flag("mamba_proj_bias", "use_bias"),
    )


def mamba2(keys: ConfigKeys, heads: int, width: int, states: int, groups: int) -> part.Mamba2:
    """Mamba 2 likewise; `states` and `groups` are the class's defaults."""
    return part.Mamba2(
        heads,
        width,
        keys.integer("mamba_d_state", "ssm_state_size", "state_size", default=states),
        keys.integer("mamba_n_groups", "n_groups", "mamba_ngroups", default=groups),
        keys.integer("mamba_d_conv", "conv_kernel", default=4),
        conv_bias=keys.flag("mamba_conv_bias", "use_conv_bias", default=True),
        proj_bias=keys.flag("mamba_proj_bias", "use_bias"),
    )


def read_jamba(d: Decoder) -> Reading:
    """Mamba-1 with attention in every eighth layer, experts in every second."""
    keys, attention = d.keys, d.attention()
    mamba = replace(mamba1(keys, d.hidden), inner_norms=True)
    period = keys.integer("attn_layer_period", default=8)
    offset = keys.integer("attn_layer_offset", default=4, low=0)
    mixers = [attention if i % period == offset else mamba for i in range(d.layers)]
    width = keys.integer("intermediate_size")
    dense = part.DenseMLP(width)
    experts = keys.integer(*common.EXPERTS, default=16)
    step = keys.integer("expert_layer_period", default=2)
    shift = keys.integer("expert_layer_offset", default=1, low=0)
    top_k = keys.integer(*common.TOP_K, default=2)
    moe = part.MoE(experts, top_k, width) if experts > 1 else dense
    return d.reading(
        d.blocks(mixers, [moe if i % step == shift else dense for i in range(d.layers)])
    )


_NEMOTRON_BLOCKS = {"M": "mamba", "E": "moe", "*": "attention", "-": "mlp"}
_NEMOTRON_NAMES = {"linear_attention": "mamba", "full_attention": "attention"}


def parse_nemotron_h(keys: ConfigKeys, style: Style) -> Reading:
    """One branch a "layer": Mamba-2, attention, experts or a two-matrix feed-forward."""
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
    d = Decoder(keys.having(num_hidden_layers=len(kinds), mamba_proj_bias=None), style)
    bodies = {kind: part.Sublayer(_nemotron_body(d, kind)) for kind in set(kinds)}
    keys.ignore(*common.EXPERTS, *common.TOP_K, *common.SHARED_EXPERTS)
    keys.ignore(*common.HEADS, *common.KV_HEADS)
    return d.reading([part.LayerBlock(1, (bodies[k],)) for k in kinds])


def _nemotron_body(d: Decoder, kind: str) -> part.Mixer | part.FeedForward:
    keys = d.keys
    if kind == "attention":
        return d.attention()
    if kind == "mamba":
        heads, width = keys.integer("mamba_num_heads"), keys.integer("mamba_head_dim")
        return mamba2(keys, heads, width, 128, 8)
    bias = keys.flag("mlp_bias")
    if kind == "mlp":
        return part.DenseMLP(keys.integer("intermediate_size"), 2, bias)
    latent = keys.integer("moe_latent_size", default=0, low=0)
    count = keys.integer(*common.SHARED_EXPERTS, default=0, low=0)
    shared = keys.integer("moe_shared_expert_intermediate_size", default=0, low=0)
    biases = part.Piece("latent", latent + d.hidden, vector=True)
    return part.MoE(
        keys.integer(*common.EXPERTS),
        keys.integer(*common.TOP_K),
        keys.integer("moe_intermediate_size"),
        matrices=2,
        latent=latent or None,
        shared_width=shared * bool(count),
        shared_bias=bias,
        extra=(biases,) if bias and latent else (),
    )


# LFM2


def read_lfm2(d: Decoder) -> Reading:
    """Short convolutions with grouped-query attention in some layers."""
    keys, layers, attention = d.keys, d.layers, d.attention()
    conv = part.ShortConv(d.hidden, keys.integer("conv_L_cache", default=3), keys.flag("conv_bias"))
    full = keys.raw("full_attn_idxs")
    types = keys.names_list("layer_types", layers)
    if types is None:
        if not isinstance(full, list):
            raise keys.refuse("key layer_types or full_attn_idxs is missing")
        types = ["full_attention" if i in full else "conv" for i in range(layers)]
    feed_forwards = d.feed_forwards()
    if not any(isinstance(f, part.MoE) for f in feed_forwards):
        if keys.flag("block_auto_adjust_ff_dim", default=True):
            width = int(2 * keys.integer("intermediate_size", "block_ff_dim") / 3)
            width = int(keys.number("block_ffn_dim_multiplier", 1.0) * width)
            unit = keys.integer("block_multiple_of", default=256)
            feed_forwards = [part.DenseMLP(unit * ceil(width / unit))] * layers
        keys.ignore("block_multiple_of", "block_ffn_dim_multiplier")
    mixers = [attention if t == "full_attention" else conv for t in types]
    return d.reading(d.blocks(mixers, feed_forwards))


def read_mamba(d: Decoder) -> Reading:
    """Mamba 1 and FalconMamba: layers of one norm and one mixer."""
    mixer = mamba1(d.keys, d.hidden)
    inner = d.keys.integer("intermediate_size", "d_inner", default=mixer.inner)
    return d.reading(d.alike(part.Sublayer(replace(mixer, inner=inner))))


def read_mamba2(d: Decoder) -> Reading:
    """Mamba 2 and Codestral-Mamba: layers of one norm and one mixer."""
    keys = d.keys
    heads, width = keys.integer("num_heads"), keys.integer("head_dim")
    inner = keys.integer("expand", default=2) * d.hidden
    if heads * width != inner:
        raise keys.refuse(f"num_heads x head_dim is not expand x hidden_size ({inner})")
    return d.reading(d.alike(part.Sublayer(mamba2(keys, heads, width, 128, 8))))


def _mamba2(d: Decoder) -> part.Mamba2:
    """Mamba 2 inside a hybrid, whose keys begin with `mamba_`."""
    keys = d.keys
    heads = keys.integer("mamba_n_heads", default=128)
    inner = keys.integer("mamba_expand", default=2) * d.hidden
    inner = keys.integer("mamba_d_ssm", default=inner)
    width = keys.raw("mamba_d_head", default="auto")
    width = inner // heads if width == "auto" else keys.integer("mamba_d_head")
    if heads * width != inner:
        raise keys.refuse(f"mamba_n_heads x mamba_d_head is not the inner width {inner}")
    return mamba2(keys, heads, width, 256, 1)


def read_falcon_h1(d: Decoder) -> Reading:
    """Falcon-H1: Mamba 2 and attention side by side under one norm."""
    keys, attention = d.keys, d.attention()
    mamba = replace(_mamba2(d), gated_norm=keys.flag("mamba_rms_norm"))
    dense = part.DenseMLP(keys.integer("intermediate_size"), 3, keys.flag("mlp_bias"))
    both = part.Parallel(((part.Sublayer(mamba),), (part.Sublayer(attention, 0),)))
    return d.reading(d.alike(both, part.Sublayer(dense)))


def _mamba_or_attention(d: Decoder) -> list[part.Mixer]:
    """Attention in the layers that the file names, Mamba 2 in the others."""
    keys, attention, mamba = d.keys, d.attention(), _mamba2(d)
    types = keys.names_list("layer_types", d.layers)
    types = keys.names_list("layers_block_type", d.layers) if types is None else types
    chosen = set(keys.whole_list("attn_layer_indices") or []) if types is None else set()
    keys.ignore("layers_block_type", "attn_layer_indices")
    names = types or ["attention" if i in chosen else "" for i in range(d.layers)]
    return [attention if t in ("attention", "full_attention") else mamba for t in names]


def read_bamba(d: Decoder) -> Reading:
    """Bamba: Mamba 2, attention in some layers, a feed-forward in all."""
    return d.reading(d.blocks(_mamba_or_attention(d)))


def read_granitemoehybrid(d: Decoder) -> Reading:
    """Granite 4: Mamba 2 or attention, then routed experts beside a shared one, or that alone."""
    keys, mixers = d.keys, _mamba_or_attention(d)
    shared = keys.integer("shared_intermediate_size", default=1024)
    experts = keys.integer("num_local_experts", default=8, low=0)
    body: part.FeedForward = part.DenseMLP(shared)
    if experts:
        width = keys.integer("intermediate_size")
        body = part.MoE(experts, keys.integer(*common.TOP_K, default=2), width, shared_width=shared)
    keys.ignore(*common.TOP_K)
    return d.reading(d.blocks(mixers, body))


_GRIFFIN = ("recurrent", "attention")


def read_recurrent_gemma(d: Decoder) -> Reading:
    """RecurrentGemma (Griffin): linear recurrent units, local attention in every third layer."""
    keys = d.keys
    window = keys.integer("attention_window_size", default=2048)
    attention = replace(d.attention(), window=window)
    unit = part.RecurrentUnit(
        keys.integer("lru_width", default=d.hidden),
        attention.heads,
        keys.integer("conv1d_width", default=4),
    )
    types = keys.raw("block_types", "_block_types", default=["recurrent", "recurrent", "attention"])
    if not isinstance(types, list) or not types or any(t not in _GRIFFIN for t in types):
        raise keys.must_be("block_types", "a list of 'recurrent' and 'attention'", types)
    mixers = [attention if types[i % len(types)] == "attention" else unit for i in range(d.layers)]
    return d.reading(
        d.blocks(mixers, part.DenseMLP(keys.integer("intermediate_size") // 2, 3, True))
    )
