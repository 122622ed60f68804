"""What the readers of config files share: the keys of ordinary decoders, the styles of families."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from archinfer.models import layers as part
from archinfer.models.configkeys import ConfigKeys
from archinfer.models.readers.layering import moe_layers, read_windows
from archinfer.models.readers.style import Style

EXPERTS = ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts")
TOP_K = (
    "num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_topk", "moe_k",
    "moe_top_k", "top_k_experts",
)  # fmt: skip
EXPERT_WIDTH = ("moe_intermediate_size", "expert_ffn_hidden_size", "expert_hidden_dim")
SHARED_EXPERTS = (
    "n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts",
)  # fmt: skip
LAYERS = ("num_hidden_layers", "num_layers", "n_layers", "n_layer")
HIDDEN = ("hidden_size", "d_model", "n_embd")
HEADS = ("num_attention_heads", "n_heads", "n_head")
KV_HEADS = ("num_key_value_heads", "num_attention_groups", "num_kv_heads")
ALIASES = (EXPERTS, TOP_K, EXPERT_WIDTH, SHARED_EXPERTS, LAYERS, HIDDEN, HEADS, KV_HEADS)
"""Names that mean the same: a file states one of each."""

SCORE_BIASES = (
    "use_routing_bias", "use_moe_router_bias", "moe_router_enable_expert_bias", "use_expert_bias",
    "moe_use_aux_free",
)  # fmt: skip


@dataclass(frozen=True)
class Reading:
    """What a reader found: the fields of an `Architecture`."""

    layers: list[part.LayerBlock]
    hidden: int
    vocab: int
    tied: bool
    head_bias: bool = False
    final_norm_vectors: int = 1
    outside: tuple[part.Piece, ...] = ()
    unread: int = 0
    mtp_layers: int = 0
    head_rows: int | None = None
    notes: tuple[str, ...] = ()


def read_switch(
    keys: ConfigKeys, rule: str | bool, default: bool, own_default: bool | None = None
) -> bool:
    """What a rule of a style says: a fixed answer, or a key and its default."""
    if isinstance(rule, bool):
        return rule
    return keys.flag(rule, default=default if own_default is None else own_default)


def read_core(keys: ConfigKeys, style: Style) -> tuple[int, int, int]:
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


def read_heads(keys: ConfigKeys, hidden: int, style: Style) -> tuple[int, int, int]:
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


def read_attention(keys: ConfigKeys, hidden: int, style: Style) -> part.Attention:
    """The attention of a layer without window."""
    heads, kv, head_dim = read_heads(keys, hidden, style)
    if style.whole_heads and heads * head_dim != hidden:
        raise keys.refuse(f"{heads} heads of {head_dim} are not as wide as hidden_size {hidden}")
    qk_norm = style.qk_norm
    if style.qk_norm_key and not keys.flag(style.qk_norm_key, default=style.qk_norm_default):
        qk_norm = "none"
    return part.Attention(
        heads,
        kv,
        head_dim,
        qkv_bias=read_switch(keys, style.qkv_bias, style.bias_default),
        o_bias=read_switch(keys, style.o_bias, style.bias_default, style.o_bias_default),
        qk_norm=qk_norm,
        gate=style.gate,
        sinks=style.sinks,
    )


def read_experts(keys: ConfigKeys, layers: int, style: Style) -> list[part.MoE]:
    """The routed experts each layer would have."""
    experts = keys.per_layer(EXPERTS, layers)
    top_k = keys.per_layer(TOP_K, layers)
    own = EXPERT_WIDTH if keys.has(*EXPERT_WIDTH) else ("intermediate_size",)
    if not style.expert_width and own == ("intermediate_size",):
        raise keys.refuse("key moe_intermediate_size is missing")
    widths = keys.per_layer(("intermediate_size",) if style.expert_width else own, layers)
    if style.expert_width and own == EXPERT_WIDTH and keys.per_layer(own, layers) != widths:
        raise keys.refuse(
            "moe_intermediate_size is not intermediate_size, which sizes the experts of this family"
        )
    counts = keys.per_layer(SHARED_EXPERTS, layers, default=0)
    wide = keys.optional(*(style.shared_width or ("shared_expert_intermediate_size",)), low=0)
    each = keys.optional("moe_shared_expert_intermediate_size", low=0)
    shared = [n * (w if each is None else each) for n, w in zip(counts, widths, strict=True)]
    keys.ignore(*SCORE_BIASES)
    return [
        part.MoE(
            experts[i],
            top_k[i],
            widths[i],
            matrices=style.matrices,
            bias=style.expert_bias,
            router_bias=style.router_bias,
            shared_width=shared[i] if wide is None else wide,
            shared_gate=style.shared_gate and bool(wide),
        )
        for i in range(layers)
    ]


def read_feed_forwards(keys: ConfigKeys, layers: int, style: Style) -> list[part.FeedForward]:
    """Each layer's feed-forward, dense or routed."""
    if not any(isinstance(keys.data.get(n), list) or keys.has(n) for n in EXPERTS):
        return list(read_dense(keys, layers, style))
    experts = keys.per_layer(EXPERTS, layers)
    if max(experts) <= 1 and not keys.has(*EXPERT_WIDTH):
        keys.ignore(*TOP_K)
        return list(read_dense(keys, layers, style))
    routed = moe_layers(keys, layers)
    moe = read_experts(keys, layers, style)
    if all(routed):
        keys.ignore("intermediate_size")
        return list(moe)
    dense = read_dense(keys, layers, style)
    return [moe[i] if routed[i] else dense[i] for i in range(layers)]


def read_dense(keys: ConfigKeys, layers: int, style: Style) -> list[part.DenseMLP]:
    """The dense feed-forward each layer would have."""
    names = ("intermediate_size", "n_inner", "ffn_hidden_size", "ffn_dim")
    widths = keys.per_layer(names, layers, **_default(style.defaults, "intermediate_size"))
    bias = read_switch(keys, style.mlp_bias, style.bias_default, style.mlp_bias_default)
    return [part.DenseMLP(w, style.matrices, bias) for w in widths]


def make_blocks(
    mixers: Sequence[part.Mixer | None],
    feed_forwards: Sequence[part.FeedForward | None],
    style: Style,
) -> list[part.LayerBlock]:
    """Layers of one mixer and one feed-forward each, with the style's norms."""

    def branch(body: part.Mixer | part.FeedForward, norms_before: int) -> part.Sublayer:
        return part.Sublayer(body, norms_before, style.norms_after, style.norm_vectors)

    blocks = []
    for mixer, ff in zip(mixers, feed_forwards, strict=True):
        before = style.norms_before
        parts: tuple[part.Sublayer | part.Parallel, ...]
        if style.parallel and mixer is not None and ff is not None:
            parts = (part.Parallel(((branch(mixer, before),), (branch(ff, 0),))),)
        else:
            parts = tuple(branch(b, before) for b in (mixer, ff) if b is not None)
        blocks.append(part.LayerBlock(1, parts))
    return blocks


def read_tied(keys: ConfigKeys, default: bool) -> bool:
    """Whether the head is the embedding table; `default` where the file does not say."""
    return keys.flag("tie_word_embeddings", default=default)


def read_mtp(keys: ConfigKeys) -> int:
    """Multi-token-prediction layers in the checkpoint."""
    names = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "mtp_num_layers")
    return keys.integer(*names, default=0, low=0)


def make_reading(
    keys: ConfigKeys, layers: list[part.LayerBlock], hidden: int, vocab: int, style: Style
) -> Reading:
    """What a reader of this style found, the keys outside the layers read here."""
    vectors = style.norm_vectors if style.final_norm_vectors is None else style.final_norm_vectors
    return Reading(
        layers,
        hidden,
        vocab,
        read_tied(keys, style.tied),
        final_norm_vectors=vectors,
        mtp_layers=read_mtp(keys),
    )


def plain(style: Style) -> Callable[[ConfigKeys], Reading]:
    """The reader of a family of ordinary decoders."""

    def read(keys: ConfigKeys) -> Reading:
        for name, value in style.only.items():
            keys.only(name, value)
        after = int(keys.flag(style.norms_after_key)) if style.norms_after_key else 0
        beside = bool(style.parallel_key) and keys.flag(style.parallel_key)
        own = replace(style, norms_after=style.norms_after + after,
                      parallel=style.parallel or beside)  # fmt: skip
        reading = read_layers(keys, own, windowed)
        biased = bool(style.head_bias) and keys.flag(style.head_bias)
        return replace(reading, head_bias=biased)

    return read


Mixers = Callable[[ConfigKeys, int, int, Style], Sequence[part.Mixer]]
"""Mixers of all layers, from the config, hidden size, number of layers and style."""


def windowed(keys: ConfigKeys, hidden: int, layers: int, style: Style) -> list[part.Mixer]:
    """Attention in every layer, with windows where the style or the file says so."""
    attention = read_attention(keys, hidden, style)
    return [replace(attention, window=w) for w in read_windows(keys, layers, style)]


def read_layers(keys: ConfigKeys, style: Style, mixers: Mixers) -> Reading:
    """A decoder of one mixer and one feed-forward a layer."""
    keys.ignore(*style.decoys)
    hidden, layers, vocab = read_core(keys, style)
    found = mixers(keys, hidden, layers, style)
    blocks = make_blocks(found, read_feed_forwards(keys, layers, style), style)
    return make_reading(keys, blocks, hidden, vocab, style)


def refuse_leftovers(keys: ConfigKeys) -> None:
    """Every key that looks like a size is used or refused by name."""
    names = keys.leftovers()
    if names:
        shown = ", ".join(f"{n} = {str(keys.data[n])[:30]}" for n in names[:4])
        raise keys.refuse(f"unknown size key {shown}: it may change the count, so nothing is said")
