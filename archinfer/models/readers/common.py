"""What readers of config files share: a decoder's config with its sizes, and what it becomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from archinfer.models import layers as part
from archinfer.models.configkeys import ConfigKeys
from archinfer.models.readers.style import Style, moe_layers, read_windows

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
HIDDEN = ("hidden_size", "d_model", "n_embd", "n_embed")
HEADS = ("num_attention_heads", "n_heads", "n_head")
KV_HEADS = ("num_key_value_heads", "num_attention_groups", "num_kv_heads")
ALIASES = (EXPERTS, TOP_K, EXPERT_WIDTH, SHARED_EXPERTS, LAYERS, HIDDEN, HEADS, KV_HEADS)
"""Names that mean the same: a file states one of each."""

SCORE_BIASES = (
    "use_routing_bias", "use_moe_router_bias", "moe_router_enable_expert_bias", "use_expert_bias",
    "moe_use_aux_free",
)  # fmt: skip
_MTP = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "mtp_num_layers")


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


class Decoder:
    """A decoder's config, with the sizes that every reader asks for.

    Args:
        keys: the config.
        style: how its family differs from Llama.

    Raises:
        InputError: a size is missing or malformed.
    """

    def __init__(self, keys: ConfigKeys, style: Style) -> None:
        self.keys, self.style = keys, style
        d = style.defaults
        missing = [n for n in ("hidden_size", "num_hidden_layers", "vocab_size") if not keys.has(n)]
        taken = [n for n in missing if n in d]
        if taken:
            listed = ", ".join(f"{n} = {d[n]}" for n in taken)
            keys.warnings.append(f"not in the file, taken from the class default: {listed}")
        self.hidden = keys.integer(*HIDDEN, **self._default("hidden_size"))
        self.layers = keys.integer(*LAYERS, **self._default("num_hidden_layers"))
        if self.layers > 10_000:
            raise keys.refuse(f"num_hidden_layers is absurdly large: {self.layers}")
        rows = dict.fromkeys((style.vocab, "vocab_size"))
        self.vocab = keys.integer(*rows, **self._default("vocab_size"))

    def _default(self, name: str) -> dict[str, int]:
        defaults = self.style.defaults
        return {"default": defaults[name]} if name in defaults else {}

    def switch(self, rule: str | bool, own_default: bool | None = None) -> bool:
        """What a rule of a style says: a fixed answer, or a key and its default."""
        if isinstance(rule, bool):
            return rule
        default = self.style.bias_default if own_default is None else own_default
        return self.keys.flag(rule, default=default)

    def attention(self) -> part.Attention:
        """The attention of a layer without window."""
        keys, style = self.keys, self.style
        heads = keys.integer(*HEADS, **self._default("num_attention_heads"))
        kv = keys.integer(*KV_HEADS, default=style.defaults.get("num_key_value_heads", heads))
        if keys.has("head_dim", "attention_head_dim"):
            head_dim = keys.integer("head_dim", "attention_head_dim")
        elif "head_dim" in style.defaults:
            head_dim = style.defaults["head_dim"]
        else:
            head_dim = self._share(heads)
        if style.whole_heads and heads * head_dim != self.hidden:
            raise keys.refuse(
                f"{heads} heads of {head_dim} are not as wide as hidden_size {self.hidden}"
            )
        qk_norm = style.qk_norm
        if style.qk_norm_key and not keys.flag(style.qk_norm_key, default=style.qk_norm_default):
            qk_norm = "none"
        return part.Attention(
            heads,
            kv,
            head_dim,
            qkv_bias=self.switch(style.qkv_bias),
            o_bias=self.switch(style.o_bias, style.o_bias_default),
            qk_norm=qk_norm,
            gate=style.gate,
            sinks=style.sinks,
        )

    def multi_head(self, bias: bool = False, kv: int | None = None) -> part.Attention:
        """Attention of heads that share the hidden size, whatever else the file says of them."""
        heads = self.keys.integer(*HEADS)
        return part.Attention(heads, kv or heads, self._share(heads), qkv_bias=bias, o_bias=bias)

    def _share(self, heads: int) -> int:
        if self.hidden % heads:
            raise self.keys.refuse(
                f"head_dim is missing and hidden_size {self.hidden} is no multiple of {heads} heads"
            )
        return self.hidden // heads

    def windowed(self) -> list[part.Mixer]:
        """Attention in every layer, with windows where the style or the file says so."""
        attention = self.attention()
        windows = read_windows(self.keys, self.layers, self.style)
        return [replace(attention, window=w) for w in windows]

    def experts(self) -> list[part.MoE]:
        """The routed experts each layer would have."""
        keys, layers, style = self.keys, self.layers, self.style
        experts = keys.per_layer(EXPERTS, layers)
        top_k = keys.per_layer(TOP_K, layers)
        own = EXPERT_WIDTH if keys.has(*EXPERT_WIDTH) else ("intermediate_size",)
        if not style.expert_width and own == ("intermediate_size",):
            raise keys.refuse("key moe_intermediate_size is missing")
        widths = keys.per_layer(("intermediate_size",) if style.expert_width else own, layers)
        if style.expert_width and own == EXPERT_WIDTH and keys.per_layer(own, layers) != widths:
            raise keys.refuse(
                "moe_intermediate_size is not intermediate_size, which sizes the experts of this "
                "family"
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

    def dense(self) -> list[part.DenseMLP]:
        """The dense feed-forward each layer would have."""
        style = self.style
        names = ("intermediate_size", "n_inner", "ffn_hidden_size", "ffn_dim")
        widths = self.keys.per_layer(names, self.layers, **self._default("intermediate_size"))
        bias = self.switch(style.mlp_bias, style.mlp_bias_default)
        return [part.DenseMLP(w, style.matrices, bias) for w in widths]

    def feed_forwards(self) -> list[part.FeedForward]:
        """Each layer's feed-forward, dense or routed."""
        keys = self.keys
        if not any(isinstance(keys.data.get(n), list) or keys.has(n) for n in EXPERTS):
            return list(self.dense())
        experts = keys.per_layer(EXPERTS, self.layers)
        if max(experts) <= 1 and not keys.has(*EXPERT_WIDTH):
            keys.ignore(*TOP_K)
            return list(self.dense())
        routed = moe_layers(keys, self.layers)
        moe = self.experts()
        if all(routed):
            keys.ignore("intermediate_size")
            return list(moe)
        dense = self.dense()
        return [m if r else d for m, r, d in zip(moe, routed, dense, strict=True)]

    def blocks(
        self,
        mixers: part.Mixer | Sequence[part.Mixer | None],
        feed_forwards: part.FeedForward | Sequence[part.FeedForward | None] | None = None,
    ) -> list[part.LayerBlock]:
        """Layers of one mixer and one feed-forward each, with the style's norms.

        Args:
            mixers: of each layer, or one for all; None leaves the branch out.
            feed_forwards: likewise; where they are left out, those of the file.
        """
        style = self.style
        feed_forwards = self.feed_forwards() if feed_forwards is None else feed_forwards

        def branch(body: part.Mixer | part.FeedForward, norms_before: int) -> part.Sublayer:
            return part.Sublayer(body, norms_before, style.norms_after, style.norm_vectors)

        blocks = []
        for mixer, ff in zip(self._each(mixers), self._each(feed_forwards), strict=True):
            before = style.norms_before
            parts: tuple[part.Sublayer | part.Parallel, ...]
            if style.parallel and mixer is not None and ff is not None:
                after = before if style.own_norms else 0
                parts = (part.Parallel(((branch(mixer, before),), (branch(ff, after),))),)
            else:
                parts = tuple(branch(b, before) for b in (mixer, ff) if b is not None)
            blocks.append(part.LayerBlock(1, parts))
        return blocks

    def _each(self, parts: Any) -> Sequence[Any]:
        return parts if isinstance(parts, list) else [parts] * self.layers

    def alike(
        self, *parts: part.Sublayer | part.Parallel, extra: tuple[part.Piece, ...] = ()
    ) -> list[part.LayerBlock]:
        """Layers of these branches, all of them alike."""
        return [part.LayerBlock(1, parts, extra)] * self.layers

    def reading(self, layers: list[part.LayerBlock], **more: Any) -> Reading:
        """What a reader found, the keys outside the layers read here.

        Args:
            layers: one by one, in order.
            more: further fields of `Reading`.
        """
        style = self.style
        own = style.final_norm_vectors
        found: dict[str, Any] = {
            "tied": self.keys.flag("tie_word_embeddings", default=style.tied),
            "final_norm_vectors": style.norm_vectors if own is None else own,
            "mtp_layers": self.keys.integer(*_MTP, default=0, low=0),
        }
        return Reading(layers, self.hidden, self.vocab, **found | more)


def plain(keys: ConfigKeys, style: Style) -> Reading:
    """A family of ordinary decoders: attention and a feed-forward in every layer."""
    after = int(keys.flag(style.norms_after_key)) if style.norms_after_key else 0
    beside = bool(style.parallel_key) and keys.flag(style.parallel_key)
    style = replace(style, norms_after=style.norms_after + after, parallel=style.parallel or beside)
    decoder = Decoder(keys, style)
    biased = bool(style.head_bias) and keys.flag(style.head_bias)
    return decoder.reading(decoder.blocks(decoder.windowed()), head_bias=biased)


def with_extra(reading: Reading, *pieces: part.Piece) -> Reading:
    """The same with further parameters in each layer."""
    return replace(reading, layers=[replace(b, extra=pieces) for b in reading.layers])


def reader(
    style: Style, parse: Callable[[ConfigKeys, Style], Reading]
) -> Callable[[ConfigKeys], Reading]:
    """The reader of a family, its decoys left out and its fixed keys held."""

    def read(keys: ConfigKeys) -> Reading:
        for name, value in style.only.items():
            keys.only(name, value)
        keys.ignore(*style.decoys)
        return parse(keys, style)

    return read
