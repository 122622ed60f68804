"""Readers of decoders with query, key and value heads that need more than a style."""

from __future__ import annotations

from dataclasses import replace

from archinfer.models import layers as part
from archinfer.models.configkeys import ConfigKeys
from archinfer.models.readers import common
from archinfer.models.readers.layering import moe_layers, read_windows
from archinfer.models.readers.style import Style, styles

# Llama


def read_llama(keys: ConfigKeys) -> common.Reading:
    """Llama; with `draft_vocab_size` the draft of EAGLE-3, whose head has rows of its own."""
    rows = keys.optional("draft_vocab_size")
    reading = common.plain(styles()["llama"])(keys)
    if rows is None or rows == reading.vocab:
        return reading
    keys.warnings.append(
        f"draft_vocab_size = {rows}: a draft of EAGLE-3, whose head has as many rows; the "
        "projection of three hidden states before its layer is not counted"
    )
    return replace(reading, head_rows=rows, tied=False)


# Gemma 4


def read_gemma4_text(keys: ConfigKeys) -> common.Reading:
    """Own heads in full layers, dense and routed feed-forward side by side, sandwich norms."""
    style = Style(tied=True, window="every", window_every=6, window_default=512, qk_norm="head",
                  qkv_bias="attention_bias", o_bias="attention_bias",
                  defaults={"vocab_size": 262144, "head_dim": 256})  # fmt: skip
    hidden, layers, vocab = common.read_core(keys, style)
    mixers = _gemma4_attention(keys, hidden, layers, style)
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
    reading = common.make_reading(keys, blocks, hidden, vocab, style)
    rows = keys.integer("vocab_size_per_layer_input", default=vocab)
    if not per_layer:
        return reading
    outside = (
        part.Piece("embedding", rows * layers * per_layer),
        part.Piece("other", hidden * layers * per_layer),
        part.Piece("norm", per_layer, vector=True),
    )
    return replace(reading, outside=outside)


def _gemma4_attention(
    keys: ConfigKeys, hidden: int, layers: int, style: Style
) -> list[part.Attention]:
    """Full layers have key-value heads and a width of their own; the last ones borrow a cache."""
    windows = read_windows(keys, layers, style)
    narrow = common.read_attention(keys, hidden, style)
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
        replace(full if w is None else narrow, window=w, borrows_cache=i >= layers - borrowing)
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


def read_llama4_text(keys: ConfigKeys) -> common.Reading:
    """Chunked attention but in every fourth layer; a shared expert that no key mentions."""
    style = Style(qk_norm="unweighted", qk_norm_key="use_qk_norm", qkv_bias="attention_bias",
                  o_bias="attention_bias", defaults={"head_dim": 128})  # fmt: skip
    hidden, layers, vocab = common.read_core(keys, style)
    attention = common.read_attention(keys, hidden, style)
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
    blocks = common.make_blocks(mixers, [moe if r else dense for r in routed], style)
    return common.make_reading(keys, blocks, hidden, vocab, style)


# MiniMax


def read_minimax(keys: ConfigKeys) -> common.Reading:
    """MiniMax-Text-01 and M1: lightning attention, softmax attention in every eighth layer."""
    keys.ignore("block_size", "sliding_window", "postnorm", "shared_moe_mode")
    style = Style(expert_width=True, shared_width=("shared_intermediate_size",))
    return common.read_layers(keys, style, _lightning)


def _lightning(keys: ConfigKeys, hidden: int, layers: int, style: Style) -> list[part.Mixer]:
    attention = common.read_attention(keys, hidden, style)
    flags = keys.raw("attn_type_list")
    types = keys.names_list("layer_types", layers)
    if flags is not None:
        flags = keys.layer_list("attn_type_list", flags, layers)
        types = ["full_attention" if f == 1 else "linear_attention" for f in flags]
    if types is None:
        types = ["linear_attention" if i % 2 else "full_attention" for i in range(layers)]
        keys.warnings.append("attn_type_list is missing: every second layer taken as linear")
    linear = part.Lightning(attention.heads, attention.head_dim)
    return [attention if t == "full_attention" else linear for t in types]


def read_minimax_m2(keys: ConfigKeys) -> common.Reading:
    """MiniMax-M2: grouped queries, norms over whole projections, experts everywhere."""
    style = Style(
        qk_norm="projection",
        qk_norm_key="use_qk_norm",
        expert_width=True,
        defaults={"head_dim": 128},
        decoys=(
            "attn_type_list",
            "mlp_intermediate_size",
            "use_mtp",
            "num_mtp_modules",
            "mtp_transformer_layers",
        ),
    )
    shared = keys.integer("shared_intermediate_size", default=0, low=0)
    if shared:
        raise keys.refuse("shared_intermediate_size is not part of this family")
    modules = keys.integer("num_mtp_modules", default=0, low=0)
    per_module = keys.integer("mtp_transformer_layers", default=1, low=0)
    reading = common.plain(style)(keys)
    return replace(reading, mtp_layers=modules * per_module)


def read_minimax_m3(keys: ConfigKeys) -> common.Reading:
    """MiniMax-M3: grouped queries with a block-sparse indexer, dense layers first."""
    style = Style(qk_norm="head", expert_width=True, defaults={"head_dim": 128})
    keys.ignore("use_qk_norm", "qk_norm_type", "use_gemma_norm", "use_mtp", "num_mtp_modules")
    hidden, layers, vocab = common.read_core(keys, style)
    attention = common.read_attention(keys, hidden, style)
    sparse = keys.section("sparse_attention_config")
    source = keys if sparse is None else sparse
    types = keys.names_list("layer_types", layers)
    flags = None if sparse is None else sparse.raw("sparse_attention_freq")
    if flags is not None:
        flags = keys.layer_list("sparse_attention_freq", flags, layers)
    elif types is not None:
        flags = [t == "minimax_m3_sparse" for t in types]
    else:
        flags = [False] * layers
    mixers = [attention] * layers
    if any(flags):
        block = source.integer("index_block_size", "sparse_block_size", default=128)
        source.ignore("index_local_blocks", "sparse_local_block", "sparse_disable_index_value")
        chosen = source.integer("index_topk_blocks", "sparse_topk_blocks", default=16)
        indexer = part.Indexer(
            source.integer("index_n_heads", "sparse_num_index_heads", default=4),
            source.integer("index_head_dim", "sparse_index_dim", default=128),
            chosen * block,
            hidden,
            head_weights=False,
        )
        mixers = [replace(attention, indexer=indexer if f else None) for f in flags]
    else:
        keys.ignore("index_block_size", "index_local_blocks", "index_topk_blocks")
        keys.ignore("index_n_heads", "index_head_dim")
    routed = moe_layers(keys, layers)
    shared = keys.integer("shared_intermediate_size", default=0, low=0)
    keys.ignore(*common.SHARED_EXPERTS)
    moe = [replace(m, shared_width=shared) for m in common.read_experts(keys, layers, style)]
    feed_forwards: list[part.FeedForward] = list(moe)
    if not all(routed):
        dense = part.DenseMLP(keys.integer("dense_intermediate_size"))
        feed_forwards = [moe[i] if routed[i] else dense for i in range(layers)]
    keys.ignore("dense_intermediate_size")
    return common.make_reading(
        keys, common.make_blocks(mixers, feed_forwards, style), hidden, vocab, style
    )


# Step


def read_step3_text(keys: ConfigKeys) -> common.Reading:
    """Step-3: low-rank queries, one key and value head."""
    style = Style(
        decoys=("max_position_embedding", "norm_expert_weight", "sliding_window"),
        shared_width=("share_expert_dim",),
    )
    return common.read_layers(keys, style, _low_rank_queries)


def _low_rank_queries(keys: ConfigKeys, hidden: int, layers: int, style: Style) -> list[part.Mixer]:
    rank = keys.integer("share_q_dim")
    return [replace(common.read_attention(keys, hidden, style), query_rank=rank)] * layers


def read_step3p5(keys: ConfigKeys) -> common.Reading:
    """Step-3.5: more query heads in window layers, a gate per head."""
    style = Style(
        qk_norm="head", defaults={"head_dim": 128},
        shared_width=("share_expert_dim", "share_expert_dims"),
        decoys=("use_qk_norm", "moe_every_n_layer", "yarn_only_types", "use_moe",
                "num_attention_groups", "norm_expert_weight"),
    )  # fmt: skip
    return common.read_layers(keys, style, _narrow_windows)


def _narrow_windows(keys: ConfigKeys, hidden: int, layers: int, style: Style) -> list[part.Mixer]:
    gate = keys.flag("use_head_wise_attn_gate", default=True)
    attention = replace(common.read_attention(keys, hidden, style), gate="head" if gate else "none")
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
        common.refuse_leftovers(other)
    elif keys.has("num_sliding_attention_heads"):
        narrow = replace(attention, heads=keys.integer("num_sliding_attention_heads"))
    windows = read_windows(keys, layers, style)
    return [attention if w is None else replace(narrow, window=w) for w in windows]


# MiMo


def read_mimo_v2_flash(keys: ConfigKeys) -> common.Reading:
    """MiMo-V2: more key-value heads and sinks in window layers, keys wider than values."""
    style = Style(qkv_bias="attention_bias", defaults={"head_dim": 192})
    hidden, layers, vocab = common.read_core(keys, style)
    keys.ignore("attention_value_scale", "hybrid_block_size", "attention_chunk_size")
    full = replace(
        common.read_attention(keys, hidden, style),
        v_head_dim=keys.integer("v_head_dim", default=128),
        sinks=keys.flag("add_full_attention_sink_bias"),
    )
    window = keys.integer("sliding_window", "sliding_window_size", default=128)
    narrow = replace(
        full,
        heads=keys.integer("swa_num_attention_heads", default=full.heads),
        kv_heads=keys.integer("swa_num_key_value_heads", default=2 * full.kv_heads),
        head_dim=keys.integer("swa_head_dim", default=full.head_dim),
        v_head_dim=keys.integer("swa_v_head_dim", default=full.value_dim),
        sinks=keys.flag("add_swa_attention_sink_bias", default=True),
        window=window,
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
    mixers = [narrow if f else full for f in flags]
    if not keys.has("moe_layer_freq", "mlp_layer_types", "first_k_dense_replace"):
        keys.warnings.append("moe_layer_freq is missing: first layer taken as dense")
        routed = [i > 0 for i in range(layers)]
        moe = common.read_experts(keys, layers, style)
        dense = common.read_dense(keys, layers, style)
        feed_forwards: list[part.FeedForward] = [
            moe[i] if routed[i] else dense[i] for i in range(layers)
        ]
    else:
        feed_forwards = common.read_feed_forwards(keys, layers, style)
    return common.make_reading(
        keys, common.make_blocks(mixers, feed_forwards, style), hidden, vocab, style
    )
