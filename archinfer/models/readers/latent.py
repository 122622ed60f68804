"""Readers of latent attention: DeepSeek V2 to V4, LongCat, Kimi Linear and their kin."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from archinfer.models import layers as part
from archinfer.models.configkeys import ConfigKeys
from archinfer.models.readers import common
from archinfer.models.readers.common import Decoder, Reading
from archinfer.models.readers.style import Style

# DeepSeek and what is built like it


def _latent_attention(keys: ConfigKeys) -> part.LatentAttention:
    """Multi-head latent attention; `head_dim` and `num_key_value_heads` are decoys in it."""
    keys.ignore("head_dim", "qk_head_dim", *common.KV_HEADS)
    return part.LatentAttention(
        heads=keys.integer(*common.HEADS),
        kv_rank=keys.integer("kv_lora_rank"),
        nope_dim=keys.integer("qk_nope_head_dim", low=0),
        rope_dim=keys.integer("qk_rope_head_dim", low=0),
        v_head_dim=keys.integer("v_head_dim"),
        query_rank=keys.optional("q_lora_rank", low=0) or None,
        bias=keys.flag("attention_bias"),
    )


def _indexer(keys: ConfigKeys, query_width: int) -> part.Indexer:
    """Sparse attention's indexer."""
    return part.Indexer(
        keys.integer("index_n_heads"),
        keys.integer("index_head_dim"),
        keys.integer("index_topk"),
        query_width,
    )


def _indexers(keys: ConfigKeys, query_width: int, layers: int) -> list[part.Indexer | None]:
    """The indexer of each layer; some use another layer's choice."""
    if not keys.has("index_topk"):
        return [None] * layers
    indexer = _indexer(keys, query_width)
    types = keys.names_list("indexer_types", layers, extra=16)
    pattern = keys.raw("index_topk_pattern")
    freq = max(keys.integer("index_topk_freq", default=1, low=0), 1)
    offset = keys.integer("index_skip_topk_offset", default=2, low=0)
    if types is None and pattern is not None:
        types = [{"F": "full", "S": "shared"}.get(c, c) for c in pattern][:layers]
    if types is None:
        whole = [max(i - offset + 1, 0) % freq == 0 for i in range(layers)]
    elif len(types) == layers and set(types) <= {"full", "shared"}:
        whole = [t == "full" for t in types]
    else:
        raise keys.refuse("indexer_types must hold 'full' or 'shared' for each layer")
    return [indexer if w else replace(indexer, shared=True) for w in whole]


def parse_deepseek_v3(keys: ConfigKeys, style: Style) -> Reading:
    """DeepSeek V2, V3, V3.2 and their kin."""
    latent = "kv_lora_rank" not in keys.data or keys.has("kv_lora_rank")
    if not keys.flag("use_mla", default=latent):
        keys.ignore("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "q_lora_rank")
        return common.plain(
            keys, replace(style, qkv_bias="attention_bias", o_bias="attention_bias")
        )
    keys.ignore("layer_types", "sliding_window", "num_experts_shared")
    d = Decoder(keys, style)
    attention = _latent_attention(keys)
    indexers = _indexers(keys, attention.query_rank or d.hidden, d.layers)
    return d.reading(d.blocks([replace(attention, indexer=i) for i in indexers]))


def read_deepseek_v4(d: Decoder) -> Reading:
    """Shared key = value, compressed past, grouped output, hyper-connections."""
    keys, hidden = d.keys, d.hidden
    ratios = _compress_ratios(keys, d.layers)
    query_rank = keys.integer("q_lora_rank")
    indexer = _indexer(keys, query_rank)
    fixed: dict[str, Any] = {
        "heads": keys.integer(*common.HEADS),
        "head_dim": keys.integer("head_dim"),
        "query_rank": query_rank,
        "output_rank": keys.integer("o_lora_rank"),
        "output_groups": keys.integer("o_groups"),
        "window": keys.integer("sliding_window"),
    }
    sparse = min((r for r in ratios if r), default=0)
    copies = keys.integer("hc_mult")
    hyper = 2 * ((2 + copies) * copies * (copies * hidden + 1) + 3)
    mixers: list[part.Mixer] = [
        part.CompressedAttention(
            **fixed, ratio=ratio, indexer=indexer if ratio and ratio == sparse else None
        )
        for ratio in ratios
    ]
    head = copies * copies * hidden + copies + 1
    reading = d.reading(d.blocks(mixers, d.experts()), outside=(part.Piece("hyper", head),))
    return common.with_extra(reading, part.Piece("hyper", hyper))


def _compress_ratios(keys: ConfigKeys, layers: int) -> list[int]:
    """Tokens per compressed entry in each layer; the file's list has an entry for MTP more."""
    value = keys.raw("compress_ratios")
    types = keys.names_list("layer_types", layers, extra=16)
    if value is not None:
        ratios = keys.layer_list("compress_ratios", value, layers, extra=16)
    elif types is not None:
        rates = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
        ratios = [rates.get(t, 0) for t in types]
    else:
        raise keys.refuse("key compress_ratios is missing")
    if not all(isinstance(r, int) and not isinstance(r, bool) and r >= 0 for r in ratios):
        raise keys.refuse("compress_ratios must hold whole numbers")
    return [int(r) for r in ratios]


def parse_longcat_flash(keys: ConfigKeys, style: Style) -> Reading:
    """Two attentions and two dense feed-forwards a layer, the experts beside the second half."""
    if keys.has("num_layers"):
        # Beside it num_hidden_layers counts attentions.
        keys = keys.having(num_hidden_layers=None)
    d = Decoder(keys, style)
    hidden, vocab = d.hidden, d.vocab
    attention = part.Sublayer(_latent_attention(keys))
    dense = part.Sublayer(part.DenseMLP(keys.integer("ffn_hidden_size")))
    moe = part.MoE(
        keys.integer(*common.EXPERTS),
        keys.integer(*common.TOP_K),
        keys.integer(*common.EXPERT_WIDTH),
        zero_experts=keys.integer("zero_expert_num", default=0, low=0),
        router_bias=keys.flag("router_bias"),
    )
    # The experts read the normed input of the first dense feed-forward and join after the second.
    shortcut = part.Parallel(((dense, attention, dense), (part.Sublayer(moe, norms_before=0),)))
    reading = d.reading(d.alike(attention, shortcut))
    ratio = keys.optional("ngram_vocab_size_ratio")
    if ratio is None:
        return reading
    neighbours = keys.integer("emb_neighbor_num")
    tables = (neighbours - 1) * keys.integer("emb_split_num")
    if tables < 1 or hidden % tables:
        raise keys.refuse(f"hidden_size {hidden} cannot be shared by {tables} n-gram tables")
    width = hidden // tables
    rows = sum(ratio * vocab + 2 * i + 1 for i in range(tables))
    return replace(
        reading,
        outside=(
            part.Piece("ngram_table", rows * width),
            part.Piece("ngram_projection", tables * width * hidden),
        ),
        unread=(rows - tables) * width,
        notes=(
            f"{rows * width} parameters are n-gram tables: stored, but only {tables} rows are "
            "read per token, so active leaves the rest out",
        ),
    )


# Kimi Linear and K3


def read_kimi_linear(d: Decoder) -> Reading:
    """Kimi delta attention in most layers, latent attention in the others."""
    keys = d.keys
    types, kda = _delta_layers(keys, d.layers)
    latent_width = keys.optional("routed_expert_hidden_size")
    gated = keys.flag("mla_use_output_gate")
    attention = replace(_latent_attention(keys), gate="full" if gated else "none")
    notes: tuple[str, ...] = ()
    if latent_width is not None:
        # The exact count on record for Kimi K3 is a formula without them.
        attention = replace(attention, norms=False)
        notes = (
            "counted by formula, no public class to check it: the norms of the attention's "
            "latents and the attention residuals are left out (below 1e-6 of the total)",
        )
    norm = keys.flag("latent_moe_use_norm")
    feed_forwards = [
        replace(f, latent=latent_width, latent_norm=norm) if isinstance(f, part.MoE) else f
        for f in d.feed_forwards()
    ]
    mixers = [attention if t == "full_attention" else kda for t in types]
    return d.reading(d.blocks(mixers, feed_forwards), notes=notes)


def _delta_layers(keys: ConfigKeys, layers: int) -> tuple[list[str], part.KimiDelta]:
    """Which attention each layer has, and the delta attention's sizes."""
    linear = keys.section("linear_attn_config")
    types = keys.names_list("layer_types", layers)
    if linear is None:
        kda = part.KimiDelta(
            keys.integer("linear_num_heads"),
            keys.integer("linear_head_dim"),
            keys.integer("linear_conv_kernel_dim"),
        )
        if types is None:
            raise keys.refuse("key linear_attn_config is missing")
        return types, kda
    full = set(linear.whole_list("full_attn_layers") or [])
    delta = set(linear.whole_list("kda_layers") or [])
    if full | delta != set(range(1, layers + 1)) or full & delta:
        raise keys.refuse("full_attn_layers and kda_layers must name each layer once, from 1")
    kda = part.KimiDelta(
        linear.integer("num_heads"),
        linear.integer("head_dim"),
        linear.integer("short_conv_kernel_size"),
        linear.flag("use_full_rank_gate"),
    )
    linear.check_leftovers("this family")
    return ["full_attention" if i in full else "" for i in range(1, layers + 1)], kda


def parse_minicpm3(keys: ConfigKeys, style: Style) -> Reading:
    """MiniCPM3: latent attention with values as wide as a share of the hidden size."""
    heads, hidden = keys.integer("num_attention_heads"), keys.integer("hidden_size")
    if hidden % heads or keys.integer("v_head_dim", default=hidden // heads) != hidden // heads:
        raise keys.refuse("v_head_dim must be hidden_size / num_attention_heads")
    return parse_deepseek_v3(keys.having(v_head_dim=hidden // heads), style)
