"""One reader for each family of Hugging Face configs: recorded keys in, layers out.

Each reader follows its family's modelling code (transformers, or the code a maker ships with the
weights): which keys it uses, what it takes for keys that files leave out, and which parameters it
allocates. Biases that only correct router scores are buffers there and are not counted, except in
ERNIE 4.5, whose class holds them as parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any, Literal

from archinfer.architecture import (
    Attention,
    CompressedAttention,
    DenseMLP,
    FeedForward,
    GatedDelta,
    Indexer,
    KimiDelta,
    LatentAttention,
    LayerBlock,
    Lightning,
    Mamba1,
    Mamba2,
    Mixer,
    MoE,
    Parallel,
    Piece,
    ShortConv,
    Sublayer,
)
from archinfer.configkeys import ConfigKeys

__all__ = ["ARCHITECTURE_ALIASES", "FAMILIES", "Reading", "generic"]

EXPERTS = ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts")
TOP_K = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "moe_topk",
    "moe_k",
    "moe_top_k",
    "top_k_experts",
)
EXPERT_WIDTH = ("moe_intermediate_size", "expert_ffn_hidden_size")
SHARED_EXPERTS = (
    "n_shared_experts",
    "num_shared_experts",
    "num_shared_expert",
    "moe_num_shared_experts",
)
LAYERS = ("num_hidden_layers", "num_layers", "n_layers", "n_layer")
HIDDEN = ("hidden_size", "d_model", "n_embd")
HEADS = ("num_attention_heads", "n_heads", "n_head")
KV_HEADS = ("num_key_value_heads", "num_attention_groups", "num_kv_heads")
SCORE_BIASES = (
    "use_routing_bias",
    "use_moe_router_bias",
    "moe_router_enable_expert_bias",
    "use_expert_bias",
    "moe_use_aux_free",
)


@dataclass(frozen=True)
class Reading:
    """What a reader found: the fields of an `Architecture`."""

    layers: list[LayerBlock]
    hidden: int
    vocab: int
    tied: bool
    head_bias: bool = False
    final_norm_vectors: int = 1
    outside: tuple[Piece, ...] = ()
    unread: int = 0
    mtp_layers: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Style:
    """How a family of ordinary decoders differs from Llama.

    Attributes:
        qkv_bias, o_bias: a key that switches the bias, or a fixed answer.
        bias_default: what the keys are where a file leaves them out.
        qk_norm: kind of q/k norm, and the key that switches it ("": always).
        norms_before, norms_after, norm_vectors: norms of each branch.
        parallel: attention and feed-forward side by side under one norm.
        matrices: matrices of a feed-forward.
        mlp_bias: key of its biases, or a fixed answer.
        expert_width: experts are as wide as `intermediate_size` says.
        shared_gate: the shared expert has a one-row gate.
        tied: the head is tied where the file does not say.
        window: which layers are windowed where `layer_types` does not say: "none", "all",
            "switched" (only with use_sliding_window), or every layer but each n-th ("every").
        window_default, window_every: class defaults of `sliding_window` and n.
        gate: output gate of the attention.
        sinks: attention sinks.
        defaults: class defaults of keys that released files are known to leave out.
        decoys: keys that the family's code does not use.
    """

    qkv_bias: str | bool = False
    o_bias: str | bool = False
    bias_default: bool = False
    qk_norm: Literal["none", "head", "projection", "unweighted"] = "none"
    qk_norm_key: str = ""
    qk_norm_default: bool = True
    norms_before: int = 1
    norms_after: int = 0
    norm_vectors: int = 1
    final_norm_vectors: int | None = None
    parallel: bool = False
    matrices: int = 3
    mlp_bias: str | bool = False
    expert_width: bool = False
    expert_bias: bool = False
    router_bias: bool = False
    shared_gate: bool = False
    tied: bool = False
    window: Literal["none", "all", "switched", "every"] = "none"
    window_default: int | None = None
    window_every: int = 0
    gate: Literal["none", "full", "head"] = "none"
    sinks: bool = False
    defaults: dict[str, int] = field(default_factory=dict)
    decoys: tuple[str, ...] = ()


def _switch(keys: ConfigKeys, rule: str | bool, default: bool) -> bool:
    return keys.flag(rule, default=default) if isinstance(rule, str) else rule


def _core(keys: ConfigKeys, style: Style) -> tuple[int, int, int]:
    """Hidden size, layers, vocabulary."""
    d = style.defaults
    missing = [n for n in ("hidden_size", "num_hidden_layers", "vocab_size") if not keys.has(n)]
    taken = [n for n in missing if n in d]
    if taken:
        listed = ", ".join(f"{n} = {d[n]}" for n in taken)
        keys.warnings.append(f"not in the file, taken from the class default: {listed}")
    hidden = keys.integer(*HIDDEN, **_default(d, "hidden_size"))
    layers = keys.integer(*LAYERS, **_default(d, "num_hidden_layers"))
    if layers > 10_000:
        raise keys.refuse(f"num_hidden_layers is absurdly large: {layers}")
    vocab = keys.integer("vocab_size", **_default(d, "vocab_size"))
    return hidden, layers, vocab


def _default(defaults: dict[str, int], name: str) -> dict[str, int]:
    return {"default": defaults[name]} if name in defaults else {}


def _heads(keys: ConfigKeys, hidden: int, style: Style) -> tuple[int, int, int]:
    """Query heads, key-value heads, head_dim."""
    heads = keys.integer(*HEADS, **_default(style.defaults, "num_attention_heads"))
    kv = keys.integer(*KV_HEADS, default=style.defaults.get("num_key_value_heads", heads))
    if keys.has("head_dim", "attention_head_dim"):
        head_dim = keys.integer("head_dim", "attention_head_dim")
    elif "head_dim" in style.defaults:
        head_dim = style.defaults["head_dim"]
    elif hidden % heads == 0:
        head_dim = hidden // heads
    else:
        raise keys.refuse(
            f"head_dim is missing and hidden_size {hidden} is no multiple of {heads} heads"
        )
    return heads, kv, head_dim


def _attention(keys: ConfigKeys, hidden: int, style: Style) -> Attention:
    """The attention of a layer without window."""
    heads, kv, head_dim = _heads(keys, hidden, style)
    qk_norm = style.qk_norm
    if style.qk_norm_key and not keys.flag(style.qk_norm_key, default=style.qk_norm_default):
        qk_norm = "none"
    return Attention(
        heads,
        kv,
        head_dim,
        qkv_bias=_switch(keys, style.qkv_bias, style.bias_default),
        o_bias=_switch(keys, style.o_bias, style.bias_default),
        qk_norm=qk_norm,
        gate=style.gate,
        sinks=style.sinks,
    )


_WINDOWED_TYPES = {"sliding_attention", "chunked_attention", "local_attention", "swa"}
_FULL_TYPES = {"full_attention", "attention", "global_attention"}


def _windows(keys: ConfigKeys, layers: int, style: Style) -> list[int | None]:
    """The window of each layer, None where it sees everything."""
    types = keys.names_list("layer_types", layers, extra=16)
    switched = style.window != "switched" or keys.flag("use_sliding_window")
    keys.ignore("use_sliding_window", "max_window_layers")
    present = "sliding_window" in keys.data
    size = keys.optional("sliding_window", "sliding_window_size", low=0) or None
    if not present and size is None:
        size = style.window_default
    if types is not None:
        keys.ignore(
            "sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers"
        )
        return [_typed_window(keys, t, size) for t in types]
    if size is None or not switched or style.window == "none":
        return [None] * layers
    if style.window == "switched":
        first = keys.integer("max_window_layers", default=0, low=0)
        return [size if i >= first else None for i in range(layers)]
    if style.window == "every":
        names = ("sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers")
        every = keys.raw(*names)
        if isinstance(every, str):
            return [size if every[i % len(every)] == "L" else None for i in range(layers)]
        every = keys.integer(*names, default=style.window_every)
        return [None if (i + 1) % every == 0 else size for i in range(layers)]
    return [size] * layers


def _typed_window(keys: ConfigKeys, kind: str, size: int | None) -> int | None:
    if kind in _FULL_TYPES:
        return None
    if kind not in _WINDOWED_TYPES:
        raise keys.refuse(f"layer_types holds {kind!r}, which this family does not have")
    if size is None:
        raise keys.refuse(f"layer_types holds {kind!r} but sliding_window is missing")
    return size


def _moe_layers(keys: ConfigKeys, layers: int) -> list[bool]:
    """Which layers have routed experts; every way in which files say so."""
    types = keys.names_list("mlp_layer_types", layers, extra=16)
    first = keys.integer("first_k_dense_replace", "num_dense_layers", default=0, low=0)
    freq = keys.raw("moe_layer_freq", "moe_layer_frequency", default=1)
    step = keys.integer("decoder_sparse_step", "interleave_moe_layer_step", default=1)
    only_dense = keys.raw("mlp_only_layers", default=[])
    listed = keys.raw("moe_layers")
    enum = keys.raw("moe_layers_enum")
    start = keys.integer("moe_layer_start_index", default=0, low=0)
    end = keys.raw("moe_layer_end_index", default=-1)
    interval = keys.integer("moe_layer_interval", default=1)
    skipped = keys.integer("moe_layer_num_skipped", default=0, low=0)
    if types is not None:
        dense = {"dense", "mlp"}
        return [t not in dense for t in types]
    if enum is not None:
        listed = _enumerated(keys, enum)
    if listed is not None:
        if not isinstance(listed, list) or not all(isinstance(i, int) for i in listed):
            raise keys.refuse("the list of MoE layers must hold whole numbers")
        return [i in set(listed) for i in range(layers)]
    if isinstance(freq, list):
        return [bool(v) for v in keys.layer_list("moe_layer_freq", freq, layers)]
    every = keys.integer("moe_layer_freq", "moe_layer_frequency", default=1)
    last = layers - 1 if end == -1 else end
    if not isinstance(last, int) or not isinstance(only_dense, list):
        raise keys.refuse("moe_layer_end_index and mlp_only_layers must say which layers")
    return [
        i >= max(first, start, skipped)
        and i <= last
        and i % every == 0
        and (i + 1) % step == 0
        and (i + 1) % interval == 0
        and i not in only_dense
        for i in range(layers)
    ]


def _enumerated(keys: ConfigKeys, value: Any) -> list[int]:
    if isinstance(value, list):
        return value
    try:
        return [int(v) for v in str(value).split(",") if v.strip()]
    except ValueError:
        raise keys.refuse("moe_layers_enum must be whole numbers between commas") from None


def _moe(keys: ConfigKeys, layers: int, style: Style) -> list[MoE]:
    """The routed experts each layer would have."""
    experts = keys.per_layer(EXPERTS, layers)
    top_k = keys.per_layer(TOP_K, layers)
    own = EXPERT_WIDTH if keys.has(*EXPERT_WIDTH) else ("intermediate_size",)
    if not style.expert_width and own == ("intermediate_size",):
        raise keys.refuse("key moe_intermediate_size is missing")
    widths = keys.per_layer(("intermediate_size",) if style.expert_width else own, layers)
    counts = keys.per_layer(SHARED_EXPERTS, layers, default=0)
    wide = keys.optional("shared_expert_intermediate_size", low=0)
    keys.ignore(*SCORE_BIASES)
    return [
        MoE(
            experts[i],
            top_k[i],
            widths[i],
            matrices=style.matrices,
            bias=style.expert_bias,
            router_bias=style.router_bias,
            shared_width=counts[i] * widths[i] if wide is None else wide,
            shared_gate=style.shared_gate and bool(wide),
        )
        for i in range(layers)
    ]


def _feed_forwards(keys: ConfigKeys, layers: int, style: Style) -> list[FeedForward]:
    """Each layer's feed-forward, dense or routed."""
    if not any(isinstance(keys.data.get(n), list) or keys.has(n) for n in EXPERTS):
        return list(_dense(keys, layers, style))
    experts = keys.per_layer(EXPERTS, layers)
    if max(experts) <= 1 and not keys.has(*EXPERT_WIDTH):
        keys.ignore(*TOP_K)
        return list(_dense(keys, layers, style))
    routed = _moe_layers(keys, layers)
    moe = _moe(keys, layers, style)
    if all(routed):
        keys.ignore("intermediate_size")
        return list(moe)
    dense = _dense(keys, layers, style)
    return [moe[i] if routed[i] else dense[i] for i in range(layers)]


def _dense(keys: ConfigKeys, layers: int, style: Style) -> list[DenseMLP]:
    names = ("intermediate_size", "n_inner", "ffn_hidden_size", "ffn_dim")
    widths = keys.per_layer(names, layers, **_default(style.defaults, "intermediate_size"))
    bias = _switch(keys, style.mlp_bias, style.bias_default)
    return [DenseMLP(w, style.matrices, bias) for w in widths]


def _blocks(
    mixers: Sequence[Mixer | None], feed_forwards: Sequence[FeedForward | None], style: Style
) -> list[LayerBlock]:
    """Layers of one mixer and one feed-forward each, with the style's norms."""

    def branch(body: Mixer | FeedForward, norms_before: int) -> Sublayer:
        return Sublayer(body, norms_before, style.norms_after, style.norm_vectors)

    blocks = []
    for mixer, ff in zip(mixers, feed_forwards, strict=True):
        before = style.norms_before
        parts: tuple[Sublayer | Parallel, ...]
        if style.parallel and mixer is not None and ff is not None:
            parts = (Parallel(((branch(mixer, before),), (branch(ff, 0),))),)
        else:
            parts = tuple(branch(b, before) for b in (mixer, ff) if b is not None)
        blocks.append(LayerBlock(1, parts))
    return blocks


def _tied(keys: ConfigKeys, default: bool) -> bool:
    return keys.flag("tie_word_embeddings", default=default)


def _mtp(keys: ConfigKeys) -> int:
    """Multi-token-prediction layers in the checkpoint."""
    names = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "mtp_num_layers")
    return keys.integer(*names, default=0, low=0)


def _reading(
    keys: ConfigKeys, layers: list[LayerBlock], hidden: int, vocab: int, style: Style
) -> Reading:
    vectors = style.norm_vectors if style.final_norm_vectors is None else style.final_norm_vectors
    return Reading(
        layers,
        hidden,
        vocab,
        _tied(keys, style.tied),
        final_norm_vectors=vectors,
        mtp_layers=_mtp(keys),
    )


def _plain(style: Style) -> Callable[[ConfigKeys], Reading]:
    """The reader of a family of ordinary decoders."""

    def read(keys: ConfigKeys) -> Reading:
        keys.ignore(*style.decoys)
        hidden, layers, vocab = _core(keys, style)
        attention = _attention(keys, hidden, style)
        windows = _windows(keys, layers, style)
        mixers = [replace(attention, window=w) for w in windows]
        blocks = _blocks(mixers, _feed_forwards(keys, layers, style), style)
        return _reading(keys, blocks, hidden, vocab, style)

    return read


def generic(keys: ConfigKeys) -> Reading:
    """A family nobody told us of, read as a Llama-like decoder, saying what was assumed."""
    if keys.has("kv_lora_rank"):
        keys.warnings.append("read as multi-head latent attention of DeepSeek-V3's kind")
        return _latent(keys)
    bias = keys.flag("attention_bias", "qkv_bias", "use_qkv_bias", "use_bias")
    qk_norm = keys.flag("use_qk_norm", "qk_norm")
    style = Style(
        qkv_bias=bias,
        o_bias=bias and keys.has("attention_bias", "use_bias"),
        qk_norm="head" if qk_norm else "none",
        mlp_bias="mlp_bias",
        window="all",
        expert_width=not keys.has(*EXPERT_WIDTH),
        shared_gate=False,
    )
    keys.warnings.append(
        "read as a decoder of Llama's kind: gated feed-forward of three matrices, one RMSNorm "
        f"before each branch, {'q/k norms' if qk_norm else 'no q/k norms'}, "
        f"{'biases' if bias else 'no biases'} on the attention, "
        f"{'tied' if _tied(keys, False) else 'untied'} head"
    )
    return _plain(style)(keys)


# DeepSeek and what is built like it


def _latent_attention(keys: ConfigKeys, hidden: int) -> LatentAttention:
    """Multi-head latent attention; `head_dim` and `num_key_value_heads` are decoys in it."""
    keys.ignore("head_dim", "qk_head_dim", *KV_HEADS)
    return LatentAttention(
        heads=keys.integer(*HEADS),
        kv_rank=keys.integer("kv_lora_rank"),
        nope_dim=keys.integer("qk_nope_head_dim", low=0),
        rope_dim=keys.integer("qk_rope_head_dim", low=0),
        v_head_dim=keys.integer("v_head_dim"),
        query_rank=keys.optional("q_lora_rank", low=0) or None,
        bias=keys.flag("attention_bias"),
    )


def _indexers(keys: ConfigKeys, query_width: int, layers: int) -> list[Indexer | None]:
    """Sparse attention's indexer of each layer."""
    if not keys.has("index_topk"):
        return [None] * layers
    indexer = Indexer(
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


def _latent(keys: ConfigKeys, style: Style | None = None) -> Reading:
    """DeepSeek V2, V3, V3.2 and their kin."""
    style = Style() if style is None else style
    hidden, layers, vocab = _core(keys, style)
    attention = _latent_attention(keys, hidden)
    keys.ignore("layer_types", "sliding_window", "num_experts_shared")
    width = hidden if attention.query_rank is None else attention.query_rank
    mixers = [replace(attention, indexer=i) for i in _indexers(keys, width, layers)]
    feed_forwards = _feed_forwards(keys, layers, style)
    return _reading(keys, _blocks(mixers, feed_forwards, style), hidden, vocab, style)


def _deepseek_v4(keys: ConfigKeys) -> Reading:
    """Shared key = value, compressed past, grouped output, hyper-connections."""
    style = Style()
    keys.ignore("qk_rope_head_dim", "num_key_value_heads", "intermediate_size", "compress_rates")
    hidden, layers, vocab = _core(keys, style)
    keys.ignore("num_hash_layers", "mlp_layer_types", "expert_dtype")
    ratios = _compress_ratios(keys, layers)
    heads = keys.integer(*HEADS)
    query_rank = keys.integer("q_lora_rank")
    indexer = Indexer(
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
    moe = _moe(keys, layers, style)
    blocks = []
    for i, ratio in enumerate(ratios):
        mixer = CompressedAttention(
            **fixed, ratio=ratio, indexer=indexer if ratio and ratio == sparse else None
        )
        parts = (Sublayer(mixer), Sublayer(moe[i]))
        blocks.append(LayerBlock(1, parts, (Piece("hyper", hyper, vector=False),)))
    head = copies * copies * hidden + copies + 1
    reading = _reading(keys, blocks, hidden, vocab, style)
    return replace(reading, outside=(Piece("hyper", head),))


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


def _longcat(keys: ConfigKeys) -> Reading:
    """Two attentions and two dense feed-forwards a layer, the experts beside the second half."""
    style = Style()
    keys.ignore("zero_expert_type", "num_hidden_layers")
    hidden = keys.integer(*HIDDEN)
    layers = keys.integer("num_layers", "num_hidden_layers")
    vocab = keys.integer("vocab_size")
    attention = Sublayer(_latent_attention(keys, hidden))
    dense = Sublayer(DenseMLP(keys.integer("ffn_hidden_size")))
    moe = MoE(
        keys.integer(*EXPERTS),
        keys.integer(*TOP_K),
        keys.integer(*EXPERT_WIDTH),
        zero_experts=keys.integer("zero_expert_num", default=0, low=0),
        router_bias=keys.flag("router_bias"),
    )
    # The experts read the normed input of the first dense feed-forward and join after the second.
    shortcut = Parallel(((dense, attention, dense), (Sublayer(moe, norms_before=0),)))
    blocks = [LayerBlock(1, (attention, shortcut)) for _ in range(layers)]
    reading = _reading(keys, blocks, hidden, vocab, style)
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
            Piece("ngram_table", rows * width),
            Piece("ngram_projection", tables * width * hidden),
        ),
        unread=(rows - tables) * width,
        notes=(
            f"{rows * width} parameters are n-gram tables: stored, but only {tables} rows are "
            "read per token, so active leaves the rest out",
        ),
    )


# Kimi Linear and K3


def _kimi_linear(keys: ConfigKeys) -> Reading:
    """Kimi delta attention in most layers, latent attention in the others."""
    style = Style()
    hidden, layers, vocab = _core(keys, style)
    linear = keys.section("linear_attn_config")
    types = keys.names_list("layer_types", layers)
    if linear is not None:
        full = set(linear.raw("full_attn_layers", default=[]))
        delta = set(linear.raw("kda_layers", default=[]))
        if full | delta != set(range(1, layers + 1)) or full & delta:
            raise keys.refuse("full_attn_layers and kda_layers must name each layer once, from 1")
        types = ["full_attention" if i + 1 in full else "linear_attention" for i in range(layers)]
        kda = KimiDelta(
            linear.integer("num_heads"),
            linear.integer("head_dim"),
            linear.integer("short_conv_kernel_size"),
            linear.flag("use_full_rank_gate"),
        )
        _refuse_leftovers(linear)
    else:
        kda = KimiDelta(
            keys.integer("linear_num_heads"),
            keys.integer("linear_head_dim"),
            keys.integer("linear_conv_kernel_dim"),
        )
    if types is None:
        raise keys.refuse("key linear_attn_config is missing")
    latent_width = keys.optional("routed_expert_hidden_size")
    attention = replace(
        _latent_attention(keys, hidden),
        gate="full" if keys.flag("mla_use_output_gate") else "none",
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
    mixers: list[Mixer | None] = [attention if t == "full_attention" else kda for t in types]
    norm = keys.flag("latent_moe_use_norm")
    feed_forwards = [
        replace(f, latent=latent_width, latent_norm=norm) if isinstance(f, MoE) else f
        for f in _feed_forwards(keys, layers, style)
    ]
    blocks = _blocks(mixers, feed_forwards, style)
    return replace(_reading(keys, blocks, hidden, vocab, style), notes=notes)


# Qwen3-Next, Qwen3.5


def _qwen_linear(keys: ConfigKeys) -> Reading:
    """Gated DeltaNet in most layers, gated attention in every fourth."""
    style = Style(
        qkv_bias="attention_bias",
        o_bias="attention_bias",
        qk_norm="head",
        shared_gate=True,
        defaults={"head_dim": 256},
    )
    keys.ignore("sliding_window", "use_sliding_window")
    hidden, layers, vocab = _core(keys, style)
    gated = keys.flag("attn_output_gate", default=True)
    attention = replace(_attention(keys, hidden, style), gate="full" if gated else "none")
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
    mixers: list[Mixer | None] = [attention if t == "full_attention" else delta for t in types]
    blocks = _blocks(mixers, _feed_forwards(keys, layers, style), style)
    return _reading(keys, blocks, hidden, vocab, style)


# Gemma 4


def _gemma4(keys: ConfigKeys) -> Reading:
    """Own heads in full layers, dense and routed feed-forward side by side, sandwich norms."""
    style = Style(tied=True, window="every", window_every=6, window_default=512)
    hidden, layers, vocab = _core(keys, replace(style, defaults={"vocab_size": 262144}))
    windows = _windows(keys, layers, style)
    heads = keys.integer(*HEADS)
    kv = keys.integer("num_key_value_heads")
    head_dim = keys.integer("head_dim", default=256)
    wide = keys.integer("global_head_dim", default=512)
    shared_kv = keys.flag("attention_k_eq_v")
    global_kv = keys.integer("num_global_key_value_heads", default=kv)
    bias = keys.flag("attention_bias")
    borrowing = keys.integer("num_kv_shared_layers", default=0, low=0)
    double = keys.flag("use_double_wide_mlp")
    width = keys.integer("intermediate_size")
    routed = keys.flag("enable_moe_block")
    moe: MoE | None = None
    if routed:
        experts = keys.integer(*EXPERTS)
        router = (Piece("router", hidden + experts, vector=True),)
        moe = MoE(experts, keys.integer(*TOP_K), keys.integer(*EXPERT_WIDTH), extra=router)
    else:
        keys.ignore(*EXPERTS, *TOP_K, *EXPERT_WIDTH)
    per_layer = keys.integer("hidden_size_per_layer_input", default=0, low=0)
    per_layer_vocab = keys.integer("vocab_size_per_layer_input", default=vocab)
    blocks = []
    for i, window in enumerate(windows):
        full = window is None
        borrows = i >= layers - borrowing
        attention = Attention(
            heads,
            (global_kv if shared_kv else kv) if full else kv,
            wide if full else head_dim,
            qkv_bias=bias,
            o_bias=bias,
            qk_norm="head",
            window=window,
            values_from_keys=shared_kv and full,
            borrows_cache=borrows,
        )
        dense = DenseMLP(width * (2 if double and borrows else 1))
        parts: tuple[Sublayer | Parallel, ...]
        if moe is None:
            parts = (Sublayer(attention, 1, 1), Sublayer(dense, 1, 1))
        else:
            branches = ((Sublayer(dense, 1, 1),), (Sublayer(moe, 1, 2),))
            parts = (Sublayer(attention, 1, 1), Parallel(branches))
        extra: tuple[Piece, ...] = ()
        if per_layer:
            extra = (
                Piece("dense_mlp", 2 * hidden * per_layer),
                Piece("norm", hidden, vector=True),
            )
        blocks.append(LayerBlock(1, parts, extra))
    reading = _reading(keys, blocks, hidden, vocab, style)
    if not per_layer:
        return reading
    packed = layers * per_layer
    outside = (
        Piece("embedding", per_layer_vocab * packed),
        Piece("other", hidden * packed),
        Piece("norm", per_layer, vector=True),
    )
    return replace(reading, outside=outside)


# Llama 4


def _llama4(keys: ConfigKeys) -> Reading:
    """Chunked attention but in every fourth layer; a shared expert that no key mentions."""
    style = Style(qk_norm="unweighted", qk_norm_key="use_qk_norm", qkv_bias="attention_bias",
                  o_bias="attention_bias", defaults={"head_dim": 128})  # fmt: skip
    hidden, layers, vocab = _core(keys, style)
    attention = _attention(keys, hidden, style)
    chunk = keys.optional("attention_chunk_size", low=0) or None
    every = keys.integer("no_rope_layer_interval", default=4)
    types = keys.names_list("layer_types", layers)
    rope = keys.raw("no_rope_layers") or [int((i + 1) % every != 0) for i in range(layers)]
    rope = keys.layer_list("no_rope_layers", rope, layers)
    if types is not None:
        rope = [int(t == "chunked_attention") for t in types]
    routed = _moe_layers(keys, layers)
    width = keys.integer("intermediate_size")
    experts, top_k = keys.integer(*EXPERTS), keys.integer(*TOP_K)
    moe = MoE(experts, top_k, width, shared_width=width)
    dense = DenseMLP(keys.integer("intermediate_size_mlp"))
    mixers = [replace(attention, window=chunk if r else None) for r in rope]
    blocks = _blocks(mixers, [moe if r else dense for r in routed], style)
    return _reading(keys, blocks, hidden, vocab, style)


# MiniMax


def _minimax(keys: ConfigKeys) -> Reading:
    """MiniMax-Text-01 and M1: lightning attention, softmax attention in every eighth layer."""
    style = Style(expert_width=True, matrices=3)
    hidden, layers, vocab = _core(keys, style)
    attention = _attention(keys, hidden, style)
    keys.ignore("block_size", "sliding_window", "postnorm", "shared_moe_mode")
    shared = keys.integer("shared_intermediate_size", default=0, low=0)
    flags = keys.raw("attn_type_list")
    types = keys.names_list("layer_types", layers)
    if flags is not None:
        flags = keys.layer_list("attn_type_list", flags, layers)
        types = ["full_attention" if f == 1 else "linear_attention" for f in flags]
    if types is None:
        types = ["linear_attention" if i % 2 else "full_attention" for i in range(layers)]
        keys.warnings.append("attn_type_list is missing: every second layer taken as linear")
    linear = Lightning(attention.heads, attention.head_dim)
    mixers: list[Mixer | None] = [attention if t == "full_attention" else linear for t in types]
    feed_forwards = [
        replace(f, shared_width=shared) if isinstance(f, MoE) else f
        for f in _feed_forwards(keys, layers, style)
    ]
    return _reading(keys, _blocks(mixers, feed_forwards, style), hidden, vocab, style)


def _minimax_m2(keys: ConfigKeys) -> Reading:
    """MiniMax-M2: grouped queries, norms over whole projections, experts everywhere."""
    style = Style(
        qk_norm="projection",
        qk_norm_key="use_qk_norm",
        expert_width=True,
        defaults={"head_dim": 128},
        decoys=("attn_type_list", "use_mtp", "num_mtp_modules", "mtp_transformer_layers"),
    )
    shared = keys.integer("shared_intermediate_size", default=0, low=0)
    if shared:
        raise keys.refuse("shared_intermediate_size is not part of this family")
    modules = keys.integer("num_mtp_modules", default=0, low=0)
    per_module = keys.integer("mtp_transformer_layers", default=1, low=0)
    reading = _plain(style)(keys)
    return replace(reading, mtp_layers=modules * per_module)


def _minimax_m3(keys: ConfigKeys) -> Reading:
    """MiniMax-M3: grouped queries with a block-sparse indexer, dense layers first."""
    style = Style(qk_norm="head", expert_width=True, defaults={"head_dim": 128})
    keys.ignore("use_qk_norm", "qk_norm_type", "use_gemma_norm", "use_mtp", "num_mtp_modules")
    hidden, layers, vocab = _core(keys, style)
    attention = _attention(keys, hidden, style)
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
        near = source.integer("index_local_blocks", "sparse_local_block", default=1, low=0)
        chosen = source.integer("index_topk_blocks", "sparse_topk_blocks", default=16)
        indexer = Indexer(
            source.integer("index_n_heads", "sparse_num_index_heads", default=4),
            source.integer("index_head_dim", "sparse_index_dim", default=128),
            (chosen + near) * block,
            hidden,
            head_weights=False,
        )
        mixers = [replace(attention, indexer=indexer if f else None) for f in flags]
    else:
        keys.ignore("index_block_size", "index_local_blocks", "index_topk_blocks")
        keys.ignore("index_n_heads", "index_head_dim")
    routed = _moe_layers(keys, layers)
    shared = keys.integer("shared_intermediate_size", default=0, low=0)
    keys.ignore(*SHARED_EXPERTS)
    moe = [replace(m, shared_width=shared) for m in _moe(keys, layers, style)]
    feed_forwards: list[FeedForward] = list(moe)
    if not all(routed):
        dense = DenseMLP(keys.integer("dense_intermediate_size"))
        feed_forwards = [moe[i] if routed[i] else dense for i in range(layers)]
    keys.ignore("dense_intermediate_size")
    return _reading(keys, _blocks(mixers, feed_forwards, style), hidden, vocab, style)


# Hunyuan


def _hunyuan(keys: ConfigKeys) -> Reading:
    """Hunyuan A13B and Large: experts everywhere, perhaps caches shared by layers."""
    style = Style(
        qkv_bias="attention_bias",
        o_bias="attention_bias",
        qk_norm="head",
        qk_norm_key="use_qk_norm",
    )
    hidden, layers, vocab = _core(keys, style)
    attention = _attention(keys, hidden, style)
    keys.ignore("org_vocab_size", "sliding_window", "use_sliding_window", "dense_list")
    shared = keys.flag("use_mixed_mlp_moe", default=True)
    widths = keys.raw(*EXPERT_WIDTH)
    feed_forwards = _feed_forwards(keys, layers, replace(style, expert_width=widths is None))
    if not shared:
        feed_forwards = [
            replace(f, shared_width=0) if isinstance(f, MoE) else f for f in feed_forwards
        ]
    period = keys.integer("cla_share_factor", default=1) if keys.flag("use_cla") else 1
    mixers = [replace(attention, borrows_cache=i % period != 0) for i in range(layers)]
    return _reading(keys, _blocks(mixers, feed_forwards, style), hidden, vocab, style)


# Step


def _step3(keys: ConfigKeys) -> Reading:
    """Step-3: low-rank queries, one key and value head."""
    style = Style(decoys=("max_position_embedding", "norm_expert_weight"))
    keys.ignore(*style.decoys, "sliding_window")
    hidden, layers, vocab = _core(keys, style)
    attention = replace(
        _attention(keys, hidden, style), query_rank=keys.integer("share_q_dim"), qk_norm="none"
    )
    shared = keys.integer("share_expert_dim", default=0, low=0)
    feed_forwards = [
        replace(f, shared_width=shared) if isinstance(f, MoE) else f
        for f in _feed_forwards(keys, layers, style)
    ]
    blocks = _blocks([attention] * layers, feed_forwards, style)
    return _reading(keys, blocks, hidden, vocab, style)


def _step35(keys: ConfigKeys) -> Reading:
    """Step-3.5: more query heads in window layers, a gate per head."""
    style = Style(qk_norm="head", defaults={"head_dim": 128})
    hidden, layers, vocab = _core(keys, style)
    gate = keys.flag("use_head_wise_attn_gate", default=True)
    attention = replace(_attention(keys, hidden, style), gate="head" if gate else "none")
    windows = _windows(keys, layers, style)
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
        _refuse_leftovers(other)
    elif keys.has("num_sliding_attention_heads"):
        narrow = replace(attention, heads=keys.integer("num_sliding_attention_heads"))
    keys.ignore("yarn_only_types", "use_moe", "num_attention_groups", "norm_expert_weight")
    mixers = [attention if w is None else replace(narrow, window=w) for w in windows]
    shared = keys.integer("share_expert_dim", "share_expert_dims", default=0, low=0)
    feed_forwards = [
        replace(f, shared_width=shared) if isinstance(f, MoE) else f
        for f in _feed_forwards(keys, layers, style)
    ]
    return _reading(keys, _blocks(mixers, feed_forwards, style), hidden, vocab, style)


# ERNIE


def _ernie(keys: ConfigKeys) -> Reading:
    """ERNIE 4.5, dense or routed; its score-correction bias is a parameter."""
    style = Style(
        qkv_bias="use_bias",
        o_bias="use_bias",
        mlp_bias="use_bias",
        tied=True,
        router_bias=True,
        defaults={"num_key_value_heads": 4},
    )
    reading = _plain(style)(keys)
    return replace(reading, head_bias=keys.flag("use_bias"))


# MiMo


def _mimo_v2(keys: ConfigKeys) -> Reading:
    """MiMo-V2: more key-value heads and sinks in window layers, keys wider than values."""
    style = Style(qkv_bias="attention_bias", defaults={"head_dim": 192})
    hidden, layers, vocab = _core(keys, style)
    keys.ignore("attention_value_scale", "hybrid_block_size", "attention_chunk_size")
    full = replace(
        _attention(keys, hidden, style),
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
        moe = _moe(keys, layers, style)
        dense = _dense(keys, layers, style)
        feed_forwards: list[FeedForward] = [
            moe[i] if routed[i] else dense[i] for i in range(layers)
        ]
    else:
        feed_forwards = _feed_forwards(keys, layers, style)
    return _reading(keys, _blocks(mixers, feed_forwards, style), hidden, vocab, style)


# Hybrids with Mamba


def _jamba(keys: ConfigKeys) -> Reading:
    """Mamba-1 with attention in every eighth layer, experts in every second."""
    style = Style()
    keys.ignore("sliding_window", "use_mamba_kernels", "mamba_inner_layernorms", "num_logits")
    hidden, layers, vocab = _core(keys, style)
    attention = _attention(keys, hidden, style)
    inner = keys.integer("mamba_expand", default=2) * hidden
    rank = keys.raw("mamba_dt_rank", default="auto")
    mamba = Mamba1(
        inner,
        keys.integer("mamba_d_state", default=16),
        keys.integer("mamba_d_conv", default=4),
        ceil(hidden / 16) if rank == "auto" else keys.integer("mamba_dt_rank"),
        conv_bias=keys.flag("mamba_conv_bias", default=True),
        proj_bias=keys.flag("mamba_proj_bias"),
        inner_norms=True,
    )
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
    return _reading(keys, _blocks(mixers, feed_forwards, style), hidden, vocab, style)


_NEMOTRON_BLOCKS = {"M": "mamba", "E": "moe", "*": "attention", "-": "mlp"}
_NEMOTRON_NAMES = {"linear_attention": "mamba", "full_attention": "attention"}


def _nemotron_h(keys: ConfigKeys) -> Reading:
    """One branch a "layer": Mamba-2, attention, experts or a two-matrix feed-forward."""
    style = Style(
        qkv_bias="attention_bias",
        o_bias="attention_bias",
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
    keys.ignore("mamba_num_heads", "mamba_head_dim", "n_groups", "use_conv_bias", "attention_bias")
    keys.ignore(*HEADS, *KV_HEADS, "mamba_proj_bias")
    blocks = [LayerBlock(1, (Sublayer(bodies[k]),)) for k in kinds]
    return _reading(keys, blocks, hidden, vocab, style)


def _nemotron_body(keys: ConfigKeys, kind: str, hidden: int, style: Style) -> Mixer | FeedForward:
    if kind == "attention":
        return _attention(keys, hidden, style)
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
    count = keys.integer(*SHARED_EXPERTS, default=0, low=0)
    shared = keys.integer("moe_shared_expert_intermediate_size", default=0, low=0)
    return MoE(
        keys.integer(*EXPERTS),
        keys.integer(*TOP_K),
        keys.integer("moe_intermediate_size"),
        matrices=2,
        latent=keys.optional("moe_latent_size", low=0) or None,
        shared_width=shared * bool(count),
        shared_bias=bias,
    )


def _nemotron_nas(keys: ConfigKeys) -> Reading:
    """Llama-Nemotron: every block with its own attention and width, or without."""
    style = Style(qkv_bias="attention_bias", o_bias="attention_bias", mlp_bias="mlp_bias")
    hidden, layers, vocab = _core(keys, style)
    heads, _, head_dim = _heads(keys, hidden, style)
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
    return _reading(keys, _blocks(mixers, feed_forwards, style), hidden, vocab, style)


# DBRX, Grok, Arctic


def _dbrx(keys: ConfigKeys) -> Reading:
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
    _refuse_leftovers(attn)
    _refuse_leftovers(ffn)
    blocks = [LayerBlock.of(1, attention, moe) for _ in range(layers)]
    return _reading(keys, blocks, hidden, vocab, Style())


def _grok(keys: ConfigKeys) -> Reading:
    """Grok-1 and Grok-2: sandwich norms; Grok-2 adds a dense feed-forward beside the experts."""
    style = Style(norms_after=1)
    keys.ignore("max_attn_value", "attn_output_multiplier")
    hidden, layers, vocab = _core(keys, style)
    attention = _attention(keys, hidden, style)
    width = keys.integer("intermediate_size")
    moe = MoE(
        keys.integer(*EXPERTS),
        keys.integer(*TOP_K),
        keys.integer("moe_intermediate_size", default=width),
        shared_width=width if keys.flag("residual_moe") else 0,
    )
    blocks = _blocks([attention] * layers, [moe] * layers, style)
    return replace(
        _reading(keys, blocks, hidden, vocab, style),
        tied=_tied(keys, keys.text("model_type") == "grok-1"),
        final_norm_vectors=1,
    )


def _arctic(keys: ConfigKeys) -> Reading:
    """Arctic: a dense residual feed-forward as wide as hidden_size beside the experts."""
    style = Style(expert_width=True)
    keys.ignore("parallel_attn_mlp_res", "sliding_window", "moe_layer_frequency")
    hidden, layers, vocab = _core(keys, style)
    attention = _attention(keys, hidden, style)
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
    return _reading(keys, blocks, hidden, vocab, style)


# Phi-3.5-MoE


def _phimoe(keys: ConfigKeys) -> Reading:
    """LayerNorms with bias, biases on attention and head."""
    style = Style(
        qkv_bias="attention_bias",
        o_bias="attention_bias",
        norm_vectors=2,
        expert_width=True,
        decoys=("sliding_window",),
    )
    return replace(_plain(style)(keys), head_bias=keys.flag("lm_head_bias"))


# Granite


def _granite_shared(keys: ConfigKeys) -> Reading:
    """Granite MoE with a shared expert of its own width."""
    style = replace(_BIASED, expert_width=True)
    hidden, layers, vocab = _core(keys, style)
    attention = _attention(keys, hidden, style)
    shared = keys.integer("shared_intermediate_size", default=0, low=0)
    feed_forwards = [
        replace(f, shared_width=shared) if isinstance(f, MoE) else f
        for f in _feed_forwards(keys, layers, style)
    ]
    blocks = _blocks([attention] * layers, feed_forwards, style)
    return _reading(keys, blocks, hidden, vocab, style)


# LFM2


def _lfm2(keys: ConfigKeys) -> Reading:
    """Short convolutions with grouped-query attention in some layers."""
    style = Style(qk_norm="head", tied=True, defaults={"num_key_value_heads": 8})
    hidden, layers, vocab = _core(keys, style)
    attention = _attention(keys, hidden, style)
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
    feed_forwards = _feed_forwards(keys, layers, style)
    if not any(isinstance(f, MoE) for f in feed_forwards):
        if keys.flag("block_auto_adjust_ff_dim", default=True):
            width = int(2 * keys.integer("intermediate_size", "block_ff_dim") / 3)
            width = int(keys.number("block_ffn_dim_multiplier", 1.0) * width)
            unit = keys.integer("block_multiple_of", default=256)
            feed_forwards = [DenseMLP(unit * ceil(width / unit))] * layers
        keys.ignore("block_multiple_of", "block_ffn_dim_multiplier")
    return _reading(keys, _blocks(mixers, feed_forwards, style), hidden, vocab, style)


def _refuse_leftovers(keys: ConfigKeys) -> None:
    """Every key that looks like a size is used or refused by name."""
    names = keys.leftovers()
    if names:
        shown = ", ".join(f"{n} = {str(keys.data[n])[:30]}" for n in names[:4])
        raise keys.refuse(f"unknown size key {shown}: it may change the count, so nothing is said")


_BIASED = Style(qkv_bias="attention_bias", o_bias="attention_bias")
_LLAMA = replace(_BIASED, mlp_bias="mlp_bias", decoys=("sliding_window",))
_MISTRAL = Style(window="all", window_default=4096, defaults={"num_key_value_heads": 8})
_QWEN2 = Style(qkv_bias=True, window="switched")
_QWEN3 = replace(_BIASED, qk_norm="head", window="switched", decoys=("use_qk_norm", "qkv_bias"))
_GEMMA = replace(_BIASED, tied=True, defaults={"head_dim": 256})
_GEMMA2 = replace(
    _GEMMA, norms_after=1, window="every", window_every=2, window_default=4096,
    final_norm_vectors=1,
)  # fmt: skip
_GEMMA3 = replace(
    _GEMMA2, qk_norm="head", window_every=6,
    defaults={
        "head_dim": 256, "vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4,
        "hidden_size": 2304, "num_hidden_layers": 26, "intermediate_size": 9216,
    },
)  # fmt: skip
_GLM_MOE = Style(
    qkv_bias="attention_bias", qk_norm="head", qk_norm_key="use_qk_norm", qk_norm_default=False
)
_GPT_OSS = replace(
    _BIASED, bias_default=True, sinks=True, expert_width=True, expert_bias=True, router_bias=True,
    window="every", window_every=2, window_default=128, defaults={"head_dim": 64},
)  # fmt: skip
_COHERE = replace(
    _BIASED, parallel=True, tied=True, qk_norm="projection", qk_norm_key="use_qk_norm",
    qk_norm_default=False,
)  # fmt: skip

FAMILIES: dict[str, Callable[[ConfigKeys], Reading]] = {
    "afmoe": _plain(
        replace(
            _BIASED, qk_norm="head", norms_after=1, gate="full", router_bias=True, window="every",
            window_every=4, window_default=1024,
        )
    ),
    "arcee": _plain(replace(_LLAMA, matrices=2)),
    "arctic": _arctic,
    "cohere": _plain(_COHERE),
    "cohere2": _plain(replace(_COHERE, qk_norm="none", qk_norm_key="", window="every",
                              window_every=4, window_default=4096)),
    "dbrx": _dbrx,
    "deepseek_v2": _latent,
    "deepseek_v3": _latent,
    "deepseek_v32": _latent,
    "deepseek_v4": _deepseek_v4,
    "dots1": _plain(replace(_BIASED, qk_norm="head", decoys=("sliding_window",))),
    "ernie4_5": _ernie,
    "ernie4_5_moe": _ernie,
    "cwm": _plain(replace(_LLAMA, decoys=("sliding_window", "layer_types"))),
    "exaone4": _plain(Style(qk_norm="head", norms_before=0, norms_after=1, window="every",
                            window_every=4)),
    "exaone_moe": _plain(
        Style(qk_norm="head", window="every", window_every=4)
    ),
    "flex_olmo": _plain(
        replace(_BIASED, qk_norm="projection", norms_before=0, norms_after=1, expert_width=True)
    ),
    "gemma": _plain(_GEMMA),
    "gemma2": _plain(_GEMMA2),
    "gemma3_text": _plain(_GEMMA3),
    "gemma4_text": _gemma4,
    "glm": _plain(Style(qkv_bias="attention_bias", bias_default=True)),
    "glm4": _plain(Style(qkv_bias="attention_bias", bias_default=True, norms_after=1)),
    "glm4_moe": _plain(_GLM_MOE),
    "glm4_moe_lite": _latent,
    "glm4v_moe_text": _plain(replace(_GLM_MOE, bias_default=True, qk_norm="none",
                                     qk_norm_key="", decoys=("use_qk_norm",))),
    "glm_moe_dsa": _latent,
    "gpt_oss": _plain(_GPT_OSS),
    "granite": _plain(_LLAMA),
    "granitemoe": _plain(replace(_BIASED, expert_width=True)),
    "granitemoeshared": _granite_shared,
    "grok-1": _grok,
    "grok-2": _grok,
    "helium": _plain(_LLAMA),
    "hunyuan": _hunyuan,
    "hunyuan_v1_dense": _hunyuan,
    "hunyuan_v1_moe": _hunyuan,
    "hy_v3": _plain(replace(_BIASED, qk_norm="head", mlp_bias="mlp_bias",
                            decoys=("qk_norm",), defaults={"head_dim": 128})),
    "internlm3": _plain(replace(_LLAMA, qkv_bias="qkv_bias", o_bias="bias")),
    "jamba": _jamba,
    "kimi_k2": _latent,
    "kimi_linear": _kimi_linear,
    "lfm2": _lfm2,
    "lfm2_moe": _lfm2,
    "llama": _plain(_LLAMA),
    "llama4_text": _llama4,
    "longcat_flash": _longcat,
    "mimo": _plain(_QWEN2),
    "mimo_v2_flash": _mimo_v2,
    "minimax": _minimax,
    "minimax_m1": _minimax,
    "minimax_m2": _minimax_m2,
    "minimax_m3": _minimax_m3,
    "minimax_text_01": _minimax,
    "ministral": _plain(_MISTRAL),
    "ministral3": _plain(replace(_MISTRAL, window="none")),
    "mistral": _plain(_MISTRAL),
    "mistral4": _latent,
    "mixtral": _plain(Style(expert_width=True, window="all", defaults={"num_key_value_heads": 8})),
    "nemotron": _plain(replace(_LLAMA, matrices=2, norm_vectors=2)),
    "nemotron-nas": _nemotron_nas,
    "nemotron_h": _nemotron_h,
    "olmo": _plain(replace(_BIASED, norm_vectors=0)),
    "olmo2": _plain(replace(_BIASED, qk_norm="projection", norms_before=0, norms_after=1)),
    "olmo3": _plain(replace(_BIASED, qk_norm="projection", norms_before=0, norms_after=1,
                            window="every", window_every=4, window_default=4096)),
    "olmoe": _plain(replace(_BIASED, qk_norm="projection", expert_width=True)),
    "phi3": _plain(Style(window="all")),
    "phimoe": _phimoe,
    "qwen2": _plain(_QWEN2),
    "qwen2_moe": _plain(Style(qkv_bias="qkv_bias", bias_default=True, window="switched",
                              shared_gate=True)),
    "qwen3": _plain(_QWEN3),
    "qwen3_5_moe_text": _qwen_linear,
    "qwen3_5_text": _qwen_linear,
    "qwen3_moe": _plain(replace(_QWEN3, decoys=("use_qk_norm", "qkv_bias"))),
    "qwen3_next": _qwen_linear,
    "sarvam_moe": _plain(replace(_GLM_MOE, qk_norm_default=True)),
    "seed_oss": _plain(Style(qkv_bias="attention_bias", bias_default=True, mlp_bias=False,
                             o_bias=False, defaults={"head_dim": 128},
                             decoys=("attention_out_bias", "mlp_bias"))),
    "smollm3": _plain(replace(_LLAMA, tied=True, decoys=("no_rope_layers", "sliding_window",
                                                         "no_rope_layer_interval"))),
    "solar_open": _plain(replace(_BIASED, decoys=("use_qk_norm",))),
    "starcoder2": _plain(Style(qkv_bias="use_bias", o_bias="use_bias", mlp_bias="use_bias",
                               bias_default=True, matrices=2, norm_vectors=2, tied=True,
                               window="all", defaults={"num_key_value_heads": 2})),
    "step3_text": _step3,
    "step3p5": _step35,
    "youtu": _latent,
}  # fmt: skip
"""Readers by `model_type`."""

SAME_AS = {
    "gemma3": "gemma3_text",
    "gemma4": "gemma4_text",
    "git": "grok-2",
    "glm4v_moe": "glm4v_moe_text",
    "kimi_k25": "kimi_k2",
    "kimi_k3": "kimi_linear",
    "llama4": "llama4_text",
    "minimax_m3_vl": "minimax_m3",
    "minimax_m3_vl_text": "minimax_m3",
    "mistral_large_3": "deepseek_v3",
    "mimo_v2": "mimo_v2_flash",
    "qwen2_5_vl": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "qwen2_vl": "qwen2",
    "qwen2_vl_text": "qwen2",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "qwen3_vl": "qwen3",
    "qwen3_vl_moe": "qwen3_moe",
    "qwen3_vl_moe_text": "qwen3_moe",
    "qwen3_vl_text": "qwen3",
    "sarvam_mla": "deepseek_v3",
    "step3_vl": "step3_text",
    "step3p7": "step3p5",
    "yi": "llama",
    "Yi": "llama",
}
"""Model types that read like another."""

ARCHITECTURE_ALIASES = {
    "ArcticForCausalLM": "arctic",
    "DeciLMForCausalLM": "nemotron-nas",
    "DeepseekV2ForCausalLM": "deepseek_v2",
    "DeepseekV32ForCausalLM": "deepseek_v32",
    "DeepseekV3ForCausalLM": "deepseek_v3",
    "DeepseekV4ForCausalLM": "deepseek_v4",
    "GptOssForCausalLM": "gpt_oss",
    "Grok1ForCausalLM": "grok-2",
    "Grok1ModelForCausalLM": "grok-1",
    "LlamaForCausalLM": "llama",
    "LongcatFlashForCausalLM": "longcat_flash",
    "LongcatFlashNgramForCausalLM": "longcat_flash",
    "MistralForCausalLM": "mistral",
    "MixtralForCausalLM": "mixtral",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
    "Qwen3MoeForCausalLM": "qwen3_moe",
}
"""Families by class name, for files without a usable `model_type`."""
