"""Readers of latent attention: DeepSeek V2 to V4, LongCat, Kimi Linear and their kin."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from archinfer.models import layers as part
from archinfer.models.configkeys import ConfigKeys
from archinfer.models.readers import common
from archinfer.models.readers.style import Style

# DeepSeek and what is built like it


def _latent_attention(keys: ConfigKeys, hidden: int) -> part.LatentAttention:
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


def _indexers(keys: ConfigKeys, query_width: int, layers: int) -> list[part.Indexer | None]:
    """Sparse attention's indexer of each layer."""
    if not keys.has("index_topk"):
        return [None] * layers
    indexer = part.Indexer(
        keys.integer("index_n_heads"),
        keys.integer("index_head_dim"),
        keys.integer("index_topk"),
        query_width,
    )
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


def read_deepseek_v3(keys: ConfigKeys, style: Style | None = None) -> common.Reading:
    """DeepSeek V2, V3, V3.2 and their kin."""
    style = Style() if style is None else style
    if not keys.flag(
        "use_mla", default="kv_lora_rank" not in keys.data or keys.has("kv_lora_rank")
    ):
        keys.ignore("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "q_lora_rank")
        return common.plain(replace(style, qkv_bias="attention_bias", o_bias="attention_bias"))(
            keys
        )
    keys.ignore("layer_types", "sliding_window", "num_experts_shared")
    return common.read_layers(keys, style, _latent_mixers)


def _latent_mixers(keys: ConfigKeys, hidden: int, layers: int, style: Style) -> list[part.Mixer]:
    attention = _latent_attention(keys, hidden)
    width = hidden if attention.query_rank is None else attention.query_rank
    return [replace(attention, indexer=i) for i in _indexers(keys, width, layers)]


def read_deepseek_v4(keys: ConfigKeys) -> common.Reading:
    """Shared key = value, compressed past, grouped output, hyper-connections."""
    style = Style()
    keys.ignore("qk_rope_head_dim", "num_key_value_heads", "intermediate_size", "compress_rates")
    hidden, layers, vocab = common.read_core(keys, style)
    keys.ignore("num_hash_layers", "mlp_layer_types", "expert_dtype")
    keys.only("n_shared_experts", 1)
    ratios = _compress_ratios(keys, layers)
    heads = keys.integer(*common.HEADS)
    query_rank = keys.integer("q_lora_rank")
    indexer = part.Indexer(
        keys.integer("index_n_heads"),
        keys.integer("index_head_dim"),
        keys.integer("index_topk"),
        query_rank,
    )
    fixed: dict[str, Any] = {
        "heads": heads,
        "head_dim": keys.integer("head_dim"),
        "query_rank": query_rank,
        "output_rank": keys.integer("o_lora_rank"),
        "output_groups": keys.integer("o_groups"),
        "window": keys.integer("sliding_window"),
    }
    sparse = min((r for r in ratios if r), default=0)
    copies = keys.integer("hc_mult")
    hyper = 2 * ((2 + copies) * copies * (copies * hidden + 1) + 3)
    moe = common.read_experts(keys, layers, style)
    blocks = []
    for i, ratio in enumerate(ratios):
        mixer = part.CompressedAttention(
            **fixed, ratio=ratio, indexer=indexer if ratio and ratio == sparse else None
        )
        parts = (part.Sublayer(mixer), part.Sublayer(moe[i]))
        blocks.append(part.LayerBlock(1, parts, (part.Piece("hyper", hyper, vector=False),)))
    head = copies * copies * hidden + copies + 1
    reading = common.make_reading(keys, blocks, hidden, vocab, style)
    return replace(reading, outside=(part.Piece("hyper", head),))


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


def read_longcat_flash(keys: ConfigKeys) -> common.Reading:
    """Two attentions and two dense feed-forwards a layer, the experts beside the second half."""
    style = Style()
    keys.ignore("zero_expert_type", "num_hidden_layers")
    hidden = keys.integer(*common.HIDDEN)
    layers = keys.integer("num_layers" if keys.has("num_layers") else "num_hidden_layers")
    vocab = keys.integer("vocab_size")
    attention = part.Sublayer(_latent_attention(keys, hidden))
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
    blocks = [part.LayerBlock(1, (attention, shortcut)) for _ in range(layers)]
    reading = common.make_reading(keys, blocks, hidden, vocab, style)
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


def read_kimi_linear(keys: ConfigKeys) -> common.Reading:
    """Kimi delta attention in most layers, latent attention in the others."""
    style = Style()
    hidden, layers, vocab = common.read_core(keys, style)
    linear = keys.section("linear_attn_config")
    keys.only("tie_word_embeddings", False)
    types = keys.names_list("layer_types", layers)
    if linear is not None:
        full = set(linear.whole_list("full_attn_layers") or [])
        delta = set(linear.whole_list("kda_layers") or [])
        if full | delta != set(range(1, layers + 1)) or full & delta:
            raise keys.refuse("full_attn_layers and kda_layers must name each layer once, from 1")
        types = ["full_attention" if i + 1 in full else "linear_attention" for i in range(layers)]
        kda = part.KimiDelta(
            linear.integer("num_heads"),
            linear.integer("head_dim"),
            linear.integer("short_conv_kernel_size"),
            linear.flag("use_full_rank_gate"),
        )
        common.refuse_leftovers(linear)
    else:
        kda = part.KimiDelta(
            keys.integer("linear_num_heads"),
            keys.integer("linear_head_dim"),
            keys.integer("linear_conv_kernel_dim"),
        )
    if types is None:
        raise keys.refuse("key linear_attn_config is missing")
    latent_width = keys.optional("routed_expert_hidden_size")
    attention = replace(
        _latent_attention(keys, hidden), gate="full" if keys.flag("mla_use_output_gate") else "none"
    )
    keys.ignore("mla_use_nope", "attn_res_block_size")
    notes: tuple[str, ...] = ()
    if latent_width is not None:
        # The exact count on record for Kimi K3 is a formula without them.
        attention = replace(attention, norms=False)
        notes = (
            "counted by formula, no public class to check it: the norms of the attention's "
            "latents and the attention residuals are left out (below 1e-6 of the total)",
        )
    mixers: list[part.Mixer | None] = [attention if t == "full_attention" else kda for t in types]
    norm = keys.flag("latent_moe_use_norm")
    feed_forwards = [
        replace(f, latent=latent_width, latent_norm=norm) if isinstance(f, part.MoE) else f
        for f in common.read_feed_forwards(keys, layers, style)
    ]
    blocks = common.make_blocks(mixers, feed_forwards, style)
    return replace(common.make_reading(keys, blocks, hidden, vocab, style), notes=notes)


def read_minicpm3(keys: ConfigKeys) -> common.Reading:
    """MiniCPM3: latent attention with values as wide as a share of the hidden size."""
    keys.ignore("dim_model_base")
    heads, hidden = keys.integer("num_attention_heads"), keys.integer("hidden_size")
    if hidden % heads or keys.integer("v_head_dim", default=hidden // heads) != hidden // heads:
        raise keys.refuse("v_head_dim must be hidden_size / num_attention_heads")
    data = dict(keys.data) | {"v_head_dim": hidden // heads}
    inner = ConfigKeys(data, keys.where)
    reading = read_deepseek_v3(inner, Style(tied=True))
    keys.ignore(*(n for n in data if n not in inner.leftovers()))
    return reading
