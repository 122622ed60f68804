"""Which layer is what: windows of attention, routed or dense feed-forwards."""

from __future__ import annotations

from typing import Any

from archinfer.models.configkeys import ConfigKeys
from archinfer.models.readers.style import Style

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
