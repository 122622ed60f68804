"""Readers of decoders with query, key and value heads that need more than a style."""

from __future__ import annotations

from dataclasses import replace

from archinfer.models import layers as part
from archinfer.models.configkeys import ConfigKeys
from archinfer.models.readers import common
from archinfer.models.readers.common import Decoder, Reading
from archinfer.models.readers.style import Style, moe_layers, read_windows

# Llama


def parse_llama(keys: ConfigKeys, style: Style) -> Reading:
    """Llama; with `draft_vocab_size` the draft of EAGLE-3, whose head has rows of its own."""
    rows = keys.optional("draft_vocab_size")
    reading = common.plain(keys, style)
    if rows is None or rows == reading.vocab:
        return reading
    keys.warnings.append(
        f"draft_vocab_size = {rows}: a draft of EAGLE-3, whose head has as many rows; the "
        "projection of three hidden states before its layer is not counted"
    )
    return replace(reading, head_rows=rows, tied=False)


# Gemma 4


def read_gemma4_text(d: Decoder) -> Reading:
    """Own heads in full layers, dense and routed feed-forward side by side, sandwich norms."""
    keys, hidden = d.keys, d.hidden
    mixers = _gemma4_attention(d)
    double, width = keys.flag("use_double_wide_mlp"), keys.integer("intermediate_size")
    moe = _gemma4_experts(keys, hidden)
    per_layer = keys.integer("hidden_size_per_layer_input", default=0, low=0)
    extra = (
        part.Piece("dense_mlp", 2 * hidden * per_layer),
        part.Piece("norm", hidden, vector=True),
    )
    blocks = []
    for mixer in mixers:
        dense = part.Sublayer(
            part.DenseMLP(width * (2 if double and mixer.borrows_cache else 1)), 1, 1
        )
        beside = dense if moe is None else part.Parallel(((dense,), (part.Sublayer(moe, 1, 2),)))
        blocks.append(
            part.LayerBlock(1, (part.Sublayer(mixer, 1, 1), beside), extra if per_layer else ())
        )
    rows = keys.integer("vocab_size_per_layer_input", default=d.vocab)
    outside = (
        part.Piece("embedding", rows * d.layers * per_layer),
        part.Piece("other", hidden * d.layers * per_layer),
        part.Piece("norm", per_layer, vector=True),
    )
    return d.reading(blocks, outside=outside if per_layer else ())


def _gemma4_attention(d: Decoder) -> list[part.Attention]:
    """Full layers have key-value heads and a width of their own; the last ones borrow a cache."""
    keys, narrow = d.keys, d.attention()
    windows = read_windows(keys, d.layers, d.style)
    own = _per_layer_sizes(keys, [i for i, w in enumerate(windows) if w is None])
    wide = keys.integer("global_head_dim", default=own.get("head_dim", 512))
    own_kv = own.get("num_key_value_heads", narrow.kv_heads)
    global_kv = keys.integer("num_global_key_value_heads", default=own_kv)
    if own.get("head_dim", wide) != wide or own_kv not in (global_kv, narrow.kv_heads):
        raise keys.refuse("per_layer_config disagrees with global_head_dim")
    shared = keys.flag("attention_k_eq_v")
    kv = global_kv if shared else narrow.kv_heads
    full = replace(narrow, kv_heads=kv, head_dim=wide, values_from_keys=shared)
    borrowing = keys.integer("num_kv_shared_layers", default=0, low=0)
    return [
        replace(full if w is None else narrow, window=w, borrows_cache=i >= d.layers - borrowing)
        for i, w in enumerate(windows)
    ]


def _gemma4_experts(keys: ConfigKeys, hidden: int) -> part.MoE | None:
    """Routed experts, whose router scales its input and each expert's score."""
    if not keys.flag("enable_moe_block"):
        keys.ignore(*common.EXPERTS, *common.TOP_K, *common.EXPERT_WIDTH)
        return None
    experts = keys.integer(*common.EXPERTS)
    router = (part.Piece("router", hidden + experts, vector=True),)
    return part.MoE(
        experts, keys.integer(*common.TOP_K), keys.integer(*common.EXPERT_WIDTH), extra=router,
        container="block",
    )  # fmt: skip


def _per_layer_sizes(keys: ConfigKeys, full: list[int]) -> dict[str, int]:
    """Sizes of the full layers in `per_layer_config`, which transformers 5 writes on saving."""
    section = keys.section("per_layer_config")
    if section is None:
        return {}
    found: list[dict[str, int]] = []
    for name in section.data:
        layer = section.section(name)
        if not name.isdecimal() or int(name) not in full or layer is None:
            raise section.refuse(f"{name} must be a layer of full attention")
        found.append({n: layer.integer(n) for n in layer.data})
        if not found[-1].keys() <= {"head_dim", "num_key_value_heads"} or found[-1] != found[0]:
            raise layer.refuse("expected head_dim and num_key_value_heads, alike in all layers")
    if found and len(found) != len(full):
        raise section.refuse("must hold every layer of full attention, or none")
    return found[0] if found else {}


# Llama 4


def read_llama4_text(d: Decoder) -> Reading:
    """Chunked attention but in every fourth layer; a shared expert that no key mentions."""
    keys, layers, attention = d.keys, d.layers, d.attention()
    chunk = keys.optional("attention_chunk_size", low=0) or None
    every = keys.integer("no_rope_layer_interval", default=4)
    types = keys.names_list("layer_types", layers)
    rope = keys.raw("no_rope_layers") or [int((i + 1) % every != 0) for i in range(layers)]
    rope = keys.layer_list("no_rope_layers", rope, layers)
    if types is not None:
        rope = [int(t == "chunked_attention") for t in types]
    routed = moe_layers(keys, layers)
    width = keys.integer("intermediate_size")
    experts, top_k = keys.integer(*common.EXPERTS), keys.integer(*common.TOP_K)
    moe = part.MoE(experts, top_k, width, shared_width=width)
    dense = part.DenseMLP(keys.integer("intermediate_size_mlp"))
    mixers = [replace(attention, window=chunk if r else None) for r in rope]
    return d.reading(d.blocks(mixers, [moe if r else dense for r in routed]))


# MiniMax


def read_minimax(d: Decoder) -> Reading:
    """MiniMax-Text-01 and M1: lightning attention, softmax attention in every eighth layer."""
    keys, layers, attention = d.keys, d.layers, d.attention()
    flags = keys.raw("attn_type_list")
    types = keys.names_list("layer_types", layers)
    if flags is not None:
        flags = keys.layer_list("attn_type_list", flags, layers)
        types = ["full_attention" if f == 1 else "linear_attention" for f in flags]
    if types is None:
        types = ["linear_attention" if i % 2 else "full_attention" for i in range(layers)]
        keys.warnings.append("attn_type_list is missing: every second layer taken as linear")
    linear = part.Lightning(attention.heads, attention.head_dim)
    return d.reading(d.blocks([attention if t == "full_attention" else linear for t in types]))


def parse_minimax_m2(keys: ConfigKeys, style: Style) -> Reading:
    """MiniMax-M2: grouped queries, norms over whole projections, experts everywhere."""
    modules = keys.integer("num_mtp_modules", default=0, low=0)
    per_module = keys.integer("mtp_transformer_layers", default=1, low=0)
    return replace(common.plain(keys, style), mtp_layers=modules * per_module)


def read_minimax_m3(d: Decoder) -> Reading:
    """MiniMax-M3: grouped queries with a block-sparse indexer, dense layers first."""
    keys, layers = d.keys, d.layers
    mixers = _block_sparse(d)
    shared = keys.integer("shared_intermediate_size", default=0, low=0)
    keys.ignore(*common.SHARED_EXPERTS)
    moe: list[part.FeedForward] = [replace(m, shared_width=shared) for m in d.experts()]
    routed = moe_layers(keys, layers)
    if not all(routed):
        dense = part.DenseMLP(keys.integer("dense_intermediate_size"))
        moe = [m if r else dense for m, r in zip(moe, routed, strict=True)]
    keys.ignore("dense_intermediate_size")
    return d.reading(d.blocks(mixers, moe))


def _block_sparse(d: Decoder) -> list[part.Mixer]:
    """Attention, in some layers to the blocks that an indexer picks."""
    keys, layers, attention = d.keys, d.layers, d.attention()
    sparse = keys.section("sparse_attention_config")
    source = keys if sparse is None else sparse
    types = keys.names_list("layer_types", layers)
    flags = None if sparse is None else sparse.raw("sparse_attention_freq")
    if flags is not None:
        flags = keys.layer_list("sparse_attention_freq", flags, layers)
    else:
        flags = [t == "minimax_m3_sparse" for t in types or [""] * layers]
    if not any(flags):
        keys.ignore("index_block_size", "index_local_blocks", "index_topk_blocks")
        keys.ignore("index_n_heads", "index_head_dim")
        return [attention] * layers
    block = source.integer("index_block_size", "sparse_block_size", default=128)
    source.ignore("index_local_blocks", "sparse_local_block", "sparse_disable_index_value")
    chosen = source.integer("index_topk_blocks", "sparse_topk_blocks", default=16)
    indexer = part.Indexer(
        source.integer("index_n_heads", "sparse_num_index_heads", default=4),
        source.integer("index_head_dim", "sparse_index_dim", default=128),
        chosen * block,
        d.hidden,
        head_weights=False,
    )
    return [replace(attention, indexer=indexer if f else None) for f in flags]


# Step


def read_step3_text(d: Decoder) -> Reading:
    """Step-3: low-rank queries, one key and value head."""
    rank = d.keys.integer("share_q_dim")
    return d.reading(d.blocks(replace(d.attention(), query_rank=rank)))


def read_step3p5(d: Decoder) -> Reading:
    """Step-3.5: more query heads in window layers, a gate per head."""
    keys = d.keys
    gate = keys.flag("use_head_wise_attn_gate", default=True)
    attention = replace(d.attention(), gate="head" if gate else "none")
    narrow = attention
    other = keys.section("attention_other_setting")
    if other is not None:
        other.ignore("attention_type", "true_head_dim")
        narrow = replace(
            attention,
            heads=other.integer("num_attention_heads"),
            kv_heads=other.integer("num_attention_groups", default=attention.kv_heads),
            head_dim=other.integer("head_dim", default=attention.head_dim),
        )
        other.check_leftovers("this family")
    elif keys.has("num_sliding_attention_heads"):
        narrow = replace(attention, heads=keys.integer("num_sliding_attention_heads"))
    windows = read_windows(keys, d.layers, d.style)
    mixers = [attention if w is None else replace(narrow, window=w) for w in windows]
    return d.reading(d.blocks(mixers))


# MiMo


def read_mimo_v2_flash(d: Decoder) -> Reading:
    """MiMo-V2: more key-value heads and sinks in window layers, keys wider than values."""
    keys, layers = d.keys, d.layers
    full = replace(
        d.attention(),
        v_head_dim=keys.integer("v_head_dim", default=128),
        sinks=keys.flag("add_full_attention_sink_bias"),
    )
    narrow = replace(
        full,
        heads=keys.integer("swa_num_attention_heads", default=full.heads),
        kv_heads=keys.integer("swa_num_key_value_heads", default=2 * full.kv_heads),
        head_dim=keys.integer("swa_head_dim", default=full.head_dim),
        v_head_dim=keys.integer("swa_v_head_dim", default=full.value_dim),
        sinks=keys.flag("add_swa_attention_sink_bias", default=True),
        window=keys.integer("sliding_window", "sliding_window_size", default=128),
    )
    pattern = keys.raw("hybrid_layer_pattern")
    types = keys.names_list("layer_types", layers)
    if pattern is not None:
        flags = [bool(v) for v in keys.layer_list("hybrid_layer_pattern", pattern, layers)]
    elif types is not None:
        flags = [t == "sliding_attention" for t in types]
    else:
        flags = [i != 0 and (i + 1) % 6 != 0 for i in range(layers)]
        keys.warnings.append("hybrid_layer_pattern is missing: class default taken")
    feed_forwards: list[part.FeedForward] | None = None
    if not keys.has("moe_layer_freq", "mlp_layer_types", "first_k_dense_replace"):
        keys.warnings.append("moe_layer_freq is missing: first layer taken as dense")
        feed_forwards = [*d.dense()[:1], *d.experts()[1:]]
    return d.reading(d.blocks([narrow if f else full for f in flags], feed_forwards))
