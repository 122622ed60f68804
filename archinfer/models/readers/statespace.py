"""Readers of state-space models and of hybrids that mix them with attention."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from archinfer.models.architecture import (
    DenseMLP,
    FeedForward,
    LayerBlock,
    Mamba1,
    Mamba2,
    Mixer,
    MoE,
    Parallel,
    Sublayer,
)
from archinfer.models.configkeys import ConfigKeys
from archinfer.models.layers.mamba import RecurrentUnit
from archinfer.models.readers.common import (
    HIDDEN,
    LAYERS,
    TOP_K,
    Reading,
    make_blocks,
    make_reading,
    read_attention,
    read_core,
    read_layers,
)
from archinfer.models.readers.style import Style

_ATTENTION = {"attention", "full_attention"}
_GRIFFIN = ("recurrent", "attention")


def _only_mixers(keys: ConfigKeys, mixer: Mixer, hidden: int, tied: bool) -> Reading:
    """Layers of one norm and one mixer."""
    layers = keys.integer(*LAYERS)
    if layers > 10_000:
        raise keys.refuse(f"{layers} layers are absurdly many")
    blocks = [LayerBlock(1, (Sublayer(mixer),)) for _ in range(layers)]
    return make_reading(keys, blocks, hidden, keys.integer("vocab_size"), Style(tied=tied))


def read_mamba(keys: ConfigKeys) -> Reading:
    """Mamba 1 and FalconMamba."""
    hidden = keys.integer(*HIDDEN)
    inner = keys.integer("expand", default=2) * hidden
    inner = keys.integer("intermediate_size", "d_inner", default=inner)
    rank = keys.raw("time_step_rank", default="auto")
    keys.ignore("mixer_rms_eps", "use_mambapy", "use_associative_scan", "expand", "ssm_cfg")
    keys.ignore("pad_vocab_size_multiple")
    mixer = Mamba1(
        inner,
        keys.integer("state_size", default=16),
        keys.integer("conv_kernel", default=4),
        ceil(hidden / 16) if rank == "auto" else keys.integer("time_step_rank"),
        conv_bias=keys.flag("use_conv_bias", default=True),
        proj_bias=keys.flag("use_bias"),
    )
    return _only_mixers(keys, mixer, hidden, True)


def read_mamba2(keys: ConfigKeys) -> Reading:
    """Mamba 2 and Codestral-Mamba."""
    hidden = keys.integer(*HIDDEN)
    heads, width = keys.integer("num_heads"), keys.integer("head_dim")
    expand = keys.integer("expand", default=2)
    if heads * width != expand * hidden:
        raise keys.refuse(f"num_heads x head_dim is not expand x hidden_size ({expand * hidden})")
    keys.ignore("time_step_rank", "rms_norm", "norm_before_gate", "intermediate_size")
    mixer = Mamba2(
        heads,
        width,
        keys.integer("state_size", default=128),
        keys.integer("n_groups", default=8),
        keys.integer("conv_kernel", default=4),
        conv_bias=keys.flag("use_conv_bias", default=True),
        proj_bias=keys.flag("use_bias"),
    )
    return _only_mixers(keys, mixer, hidden, False)


def _mamba2(keys: ConfigKeys, hidden: int) -> Mamba2:
    """Mamba 2 inside a hybrid, whose keys begin with `mamba_`."""
    heads = keys.integer("mamba_n_heads", default=128)
    inner = keys.integer("mamba_expand", default=2) * hidden
    inner = keys.integer("mamba_d_ssm", default=inner)
    width = keys.raw("mamba_d_head", default="auto")
    width = inner // heads if width == "auto" else keys.integer("mamba_d_head")
    if heads * width != inner:
        raise keys.refuse(f"mamba_n_heads x mamba_d_head is not the inner width {inner}")
    return Mamba2(
        heads,
        width,
        keys.integer("mamba_d_state", default=256),
        keys.integer("mamba_n_groups", default=1),
        keys.integer("mamba_d_conv", default=4),
        conv_bias=keys.flag("mamba_conv_bias", default=True),
        proj_bias=keys.flag("mamba_proj_bias"),
    )


def read_falcon_h1(keys: ConfigKeys) -> Reading:
    """Falcon-H1: Mamba 2 and attention side by side under one norm."""
    style = Style(qkv_bias="attention_bias", o_bias="attention_bias")
    hidden, layers, vocab = read_core(keys, style)
    keys.ignore("mamba_norm_before_gate", "mamba_use_mlp", "mlp_expansion_factor")
    keys.ignore("ssm_multipliers", "mlp_multipliers", "attn_layer_indices", "time_step_limit")
    keys.only("projectors_bias", False)
    attention = read_attention(keys, hidden, style)
    mamba = replace(_mamba2(keys, hidden), gated_norm=keys.flag("mamba_rms_norm"))
    dense = DenseMLP(keys.integer("intermediate_size"), 3, keys.flag("mlp_bias"))
    both = Parallel(((Sublayer(mamba),), (Sublayer(attention, 0),)))
    blocks = [LayerBlock(1, (both, Sublayer(dense))) for _ in range(layers)]
    return make_reading(keys, blocks, hidden, vocab, style)


def _kinds(keys: ConfigKeys, layers: int) -> list[bool]:
    """Which layers have attention."""
    for name in ("layer_types", "layers_block_type"):
        types = keys.names_list(name, layers)
        if types is not None:
            keys.ignore("layers_block_type", "attn_layer_indices")
            return [t in _ATTENTION for t in types]
    chosen = set(keys.whole_list("attn_layer_indices") or [])
    return [i in chosen for i in range(layers)]


def _mamba_or_attention(keys: ConfigKeys, hidden: int, layers: int, style: Style) -> list[Mixer]:
    attention, mamba = read_attention(keys, hidden, style), _mamba2(keys, hidden)
    return [attention if a else mamba for a in _kinds(keys, layers)]


def read_bamba(keys: ConfigKeys) -> Reading:
    """Bamba: Mamba 2, attention in some layers, a feed-forward in all."""
    style = Style(qkv_bias="attention_bias", o_bias="attention_bias", mlp_bias="mlp_bias")
    return read_layers(keys, style, _mamba_or_attention)


def read_granite_hybrid(keys: ConfigKeys) -> Reading:
    """Granite 4: Mamba 2 or attention, then routed experts beside a shared one, or that alone."""
    style = Style(qkv_bias="attention_bias", o_bias="attention_bias", expert_width=True)
    hidden, layers, vocab = read_core(keys, style)
    mixers = _mamba_or_attention(keys, hidden, layers, style)
    shared = keys.integer("shared_intermediate_size", default=1024)
    experts = keys.integer("num_local_experts", default=8, low=0)
    body: FeedForward = DenseMLP(shared)
    if experts:
        width = keys.integer("intermediate_size")
        body = MoE(experts, keys.integer(*TOP_K, default=2), width, shared_width=shared)
    keys.ignore(*TOP_K, "intermediate_size", "mamba_expand", "init_method")
    blocks = make_blocks(mixers, [body] * layers, style)
    return make_reading(keys, blocks, hidden, vocab, style)


def read_recurrent_gemma(keys: ConfigKeys) -> Reading:
    """RecurrentGemma (Griffin): linear recurrent units, local attention in every third layer."""
    style = Style(qkv_bias="attention_bias", o_bias=True, tied=True)
    hidden, layers, vocab = read_core(keys, style)
    attention = replace(
        read_attention(keys, hidden, style),
        window=keys.integer("attention_window_size", default=2048),
    )
    unit = RecurrentUnit(
        keys.integer("lru_width", default=hidden),
        attention.heads,
        keys.integer("conv1d_width", default=4),
    )
    keys.ignore("_block_types", "layer_types", "layers_block_type")
    types = keys.raw("block_types", "_block_types", default=["recurrent", "recurrent", "attention"])
    if not isinstance(types, list) or not types or any(t not in _GRIFFIN for t in types):
        raise keys.must_be("block_types", "a list of 'recurrent' and 'attention'", types)
    mixers: list[Mixer | None] = [
        attention if types[i % len(types)] == "attention" else unit for i in range(layers)
    ]
    dense = DenseMLP(keys.integer("intermediate_size") // 2, 3, True)
    blocks = make_blocks(mixers, [dense] * layers, style)
    return make_reading(keys, blocks, hidden, vocab, style)
