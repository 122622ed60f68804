"""How families of ordinary decoders differ from Llama, and which of their layers is what."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from archinfer.models.configkeys import ConfigKeys
from archinfer.models.tables import table


@dataclass(frozen=True)
class Style:
    """How a family of ordinary decoders differs from Llama.

    Attributes:
        qkv_bias, o_bias: a key that switches the bias, or a fixed answer.
        bias_default: what the keys are where a file leaves them out.
        o_bias_default, mlp_bias_default: the same for those keys alone (None: bias_default).
        qk_norm: kind of q/k norm, and the key that switches it ("": always).
        norms_before, norms_after, norm_vectors: norms of each branch; the key that switches one
            after it.
        parallel: attention and feed-forward side by side under one norm, and the key that says so;
            own_norms: each under its own.
        head_bias, vocab: a key that switches a bias of the head; the key of its rows.
        shared_width: keys that hold the width of all shared experts together.
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
        whole_heads: all heads together are as wide as the hidden size.
        defaults: class defaults of keys that released files are known to leave out.
        decoys: keys that the family's code does not use.
        only: keys that the family's code is known with one value of; another is refused.
    """

    qkv_bias: str | bool = False
    o_bias: str | bool = False
    bias_default: bool = False
    o_bias_default: bool | None = None
    mlp_bias_default: bool | None = None
    qk_norm: Literal["none", "head", "projection", "unweighted"] = "none"
    qk_norm_key: str = ""
    qk_norm_default: bool = True
    norms_before: int = 1
    norms_after: int = 0
    norms_after_key: str = ""
    norm_vectors: int = 1
    final_norm_vectors: int | None = None
    parallel: bool = False
    parallel_key: str = ""
    own_norms: bool = False
    head_bias: str = ""
    vocab: str = "vocab_size"
    shared_width: tuple[str, ...] = ()
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
    whole_heads: bool = False
    defaults: dict[str, int] = field(default_factory=dict)
    decoys: tuple[str, ...] = ()
    only: dict[str, Any] = field(default_factory=dict)


def _families(name: str) -> dict[str, Any]:
    """families.json: what the families' modelling code does, a row each."""
    found: dict[str, Any] = table("readers/families.json", name)
    return found


@cache
def styles() -> dict[str, Style]:
    """Styles by `model_type`."""

    def style(row: dict[str, Any]) -> Style:
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in row.items()}
        return Style(**fields)

    return {name: style(row) for name, row in _families("styles").items()}


def same_as() -> dict[str, str]:
    """Model types that read like another, and which."""
    return dict(_families("same_as"))


def family_of_class(name: object) -> str | None:
    """The family of a class, for files without a usable `model_type`."""
    return _families("classes").get(name) if isinstance(name, str) else None


_WINDOWED_TYPES = {"sliding_attention", "chunked_attention", "local_attention", "swa"}
_FULL_TYPES = {"full_attention", "attention", "global_attention"}


_EVERY = (
    "sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers",
    "layer_switch",
)  # fmt: skip


def read_windows(keys: ConfigKeys, layers: int, style: Style) -> list[int | None]:
    """The window of each layer, None where it sees everything."""
    types = keys.names_list("layer_types", layers, extra=16)
    switched = style.window != "switched" or keys.flag("use_sliding_window")
    keys.ignore("use_sliding_window", "max_window_layers")
    present = "sliding_window" in keys.data
    size = keys.optional("sliding_window", "sliding_window_size", low=0) or None
    if not present and size is None:
        size = style.window_default
    if types is not None:
        keys.ignore(*_EVERY)
        return [_typed_window(keys, t, size) for t in types]
    if size is None or not switched or style.window == "none":
        return [None] * layers
    if style.window == "switched":
        first = keys.integer("max_window_layers", default=0, low=0)
        return [size if i >= first else None for i in range(layers)]
    if style.window == "every":
        every = keys.raw(*_EVERY)
        if isinstance(every, str):
            return [size if every[i % len(every)] == "L" else None for i in range(layers)]
        every = keys.integer(*_EVERY, default=style.window_every)
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


def moe_layers(keys: ConfigKeys, layers: int) -> list[bool]:
    """Which layers have routed experts; every way in which files say so."""
    types = keys.names_list("mlp_layer_types", layers, extra=16)
    first = keys.integer("first_k_dense_replace", "num_dense_layers", default=0, low=0)
    freq = keys.raw("moe_layer_freq", "moe_layer_frequency", default=1)
    step = keys.integer("decoder_sparse_step", "interleave_moe_layer_step", default=1)
    only_dense = keys.whole_list("mlp_only_layers", []) or []
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
    if not isinstance(last, int):
        raise keys.must_be("moe_layer_end_index", "a whole number", last)
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
