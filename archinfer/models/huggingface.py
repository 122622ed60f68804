"""A Hugging Face config.json becomes an `Architecture`; what is not known is refused by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from archinfer.errors import InputError, closest, either, shorten
from archinfer.models.architecture import Architecture
from archinfer.models.configkeys import ConfigKeys
from archinfer.models.layers import group_layers
from archinfer.models.quantization import read_recipe
from archinfer.models.quantmethods import Recipe
from archinfer.models.readers import FAMILIES, SAME_AS, Reading, generic
from archinfer.models.readers.common import ALIASES, EXPERTS, KV_HEADS, SHARED_EXPERTS
from archinfer.models.readers.style import family_of_class
from archinfer.models.storage import store
from archinfer.models.tables import (
    class_constants,
    class_defaults,
    is_unlike,
    not_a_decoder,
    unused_keys,
)

_SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
          "vocab_size")  # fmt: skip
"""What is told where the class says it."""

_STRUCTURE: dict[str, tuple[str, ...]] = {
    "first_k_dense_replace": ("num_dense_layers", "mlp_layer_types", "moe_layers_enum",
                              "mlp_only_layers"),
    "num_dense_layers": ("first_k_dense_replace", "mlp_layer_types"),
    "n_shared_experts": SHARED_EXPERTS,
    "num_shared_experts": SHARED_EXPERTS,
    "moe_num_shared_experts": SHARED_EXPERTS,
    "num_shared_expert": SHARED_EXPERTS,
    "moe_layer_start_index": ("moe_layers",),
    "shared_intermediate_size": (),
    "shared_expert_intermediate_size": SHARED_EXPERTS,
    "moe_shared_expert_intermediate_size": (),
}  # fmt: skip
"""Keys that say how many experts are shared and which layers are dense, and others that do."""


def _heads(keys: ConfigKeys, constants: dict[str, int]) -> list[str]:
    """Heads that a file leaves out and that its class does not make of the width."""
    heads, hidden = keys.data.get("num_attention_heads"), keys.data.get("hidden_size")
    if not isinstance(heads, int) or not isinstance(hidden, int) or keys.has("kv_lora_rank"):
        return []
    usual = {"num_key_value_heads": (KV_HEADS, heads),
             "head_dim": (("head_dim", "attention_head_dim"), hidden / max(heads, 1))}  # fmt: skip
    return [
        name
        for name, (names, derived) in usual.items()
        if constants.get(name, derived) != derived and not keys.has(*names)
    ]


def with_defaults(keys: ConfigKeys, family: str, whole: bool) -> ConfigKeys:
    """The config with what its class takes for keys that the file leaves out, and a warning.

    Args:
        keys: the config.
        family: whose reader reads it.
        whole: it is the text part of a multimodal config, which leaves out whatever its class
            takes anyway. Of another config only how many experts are shared and which layers are
            dense is added; the sizes that it has to state are asked for by name.
    """
    defaults = class_defaults(keys.text("model_type")) or class_defaults(family)
    constants = class_constants(keys.text("model_type")) or class_constants(family)
    if not whole:
        known = defaults | constants
        listed = isinstance(keys.data.get("moe_layer_freq"), list)
        said = [
            name
            for name, others in _STRUCTURE.items()
            if known.get(name) and keys.has(*EXPERTS) and name not in keys.data
            and not keys.has(*others) and not (listed and "dense" in name)
        ]  # fmt: skip
        said += _heads(keys, constants)
        if known.get("q_lora_rank") and keys.has("kv_lora_rank") and "q_lora_rank" not in keys.data:
            said.append("q_lora_rank")
        taken = {name: known[name] for name in said}
    else:
        if keys.has("head_dim", "hidden_size", "num_attention_heads") and "gemma" not in family:
            # The class derives it from what the file has changed.
            defaults = {k: v for k, v in defaults.items() if k != "head_dim"}
        # Whether the head is tied is the wrapper's to say, else the family's.
        stated = {n for names in ALIASES if keys.has(*names) for n in names} | {*keys.data}
        taken = {k: v for k, v in defaults.items() if k not in stated}
        taken.pop("tie_word_embeddings", None)
        said = [k for k in _SIZES if k in taken]
    if not taken:
        return keys
    found = keys.having(**taken)
    if said:
        text = ", ".join(f"{name} = {taken[name]}" for name in said)
        found.warnings.append(f"not in the file, taken from the class default: {text}")
    return found


_TEXT_SECTIONS = ("text_config", "llm_config", "language_config", "thinker_config")

_CONTEXT = ("max_position_embeddings", "model_max_length", "max_seq_len")

_NAME_MOST = 100
"""Characters of a `model_type` up to which the nearest known ones are looked for."""


def known_families() -> tuple[str, ...]:
    """Every `model_type` that is read without guessing, sorted."""
    return tuple(sorted({*FAMILIES, *SAME_AS}, key=lambda name: (name.lower(), name)))


def _text_part(config: Mapping[str, Any], where: str) -> tuple[dict[str, Any], list[str]]:
    """The language model's config inside a multimodal wrapper, and what was left out."""
    inner = dict(config)
    notes: list[str] = []
    for _ in range(3):
        name = next((n for n in _TEXT_SECTIONS if inner.get(n) is not None), None)
        if name is None:
            break
        if not isinstance(inner[name], Mapping):
            raise ConfigKeys(inner, where).must_be(name, "a mapping", inner[name])
        if isinstance(inner[name].get(name), Mapping):
            raise ConfigKeys(inner, where).refuse(f"{name} holds a {name} of its own")
        outer, inner = inner, dict(inner[name])
        if not notes:
            notes.append(f"multimodal: only {name} is counted, no vision or audio tower")
        if outer.get("tie_word_embeddings") is not None:
            inner["tie_word_embeddings"] = outer["tie_word_embeddings"]
        for key in ("quantization_config", "compression_config", "dtype", "torch_dtype"):
            if inner.get(key) is None and outer.get(key) is not None:
                inner[key] = outer[key]
        if "model_type" not in inner and isinstance(outer.get("model_type"), str):
            inner["model_type"] = outer["model_type"]
    if not notes and any(isinstance(inner.get(k), Mapping) for k in ("vision_config", "visual")):
        notes.append("multimodal: only the language model is counted, no vision tower")
    if not inner:
        raise InputError(f"{where}: the config is empty")
    return inner, notes


def _empty_section(config: Mapping[str, Any]) -> str:
    """For messages: the section that would hold the language model's config, but is null."""
    name = next((n for n in _TEXT_SECTIONS if n in config and config[n] is None), None)
    return f"; {name} is null, so nothing was read from it" if name else ""


def _family(config: Mapping[str, Any], keys: ConfigKeys) -> str | None:
    """The family by `model_type`, else by class name; None where neither is known."""
    name = keys.text("model_type")
    classes = config.get("architectures")
    known = map(family_of_class, classes if isinstance(classes, list) else [])
    by_class = next((family for family in known if family), None)
    by_class = SAME_AS.get(by_class or "", by_class)
    if name == "git" and by_class != "grok-2":
        return None
    name = SAME_AS.get(name, name)
    if name in FAMILIES:
        return name
    return by_class


def _unlike_llama(keys: ConfigKeys) -> str | None:
    """Why the generic keys would not suffice: LayerNorms or ungated feed-forwards are likely."""
    if is_unlike(keys.text("model_type")):
        return "its class counts otherwise than its keys say"
    for key in ("layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps"):
        if keys.has(key) and not keys.has("rms_norm_eps"):
            return f"{key} does not say whether its norms have biases"
    act = keys.data.get("hidden_act", keys.data.get("hidden_activation", "silu"))
    if act not in ("silu", "swish", "swiglu", "gelu_pytorch_tanh"):
        return f"hidden_act {act!r} does not say whether its feed-forward is gated"
    return None


def _assume(keys: ConfigKeys) -> Reading:
    """An unknown family: read by the generic keys, with a warning, or refused."""
    name = keys.text("model_type")
    others = [family for family in known_families() if family != name]
    close = closest(name, others, 3) if len(name) <= _NAME_MOST else ()
    hint = f" (did you mean {either(close)}?)" if close else ""
    unknown = f"model_type {shorten(name)} is not known{hint}" if name else "no model_type is given"
    needed = ("hidden_size", "num_hidden_layers", "vocab_size", "num_attention_heads")
    missing = [key for key in needed if not keys.has(key)]
    known = f"archinfer models families has all {len(others)}"
    other = not_a_decoder(name)
    if other or keys.data.get("is_encoder_decoder"):
        subject = f"model_type {shorten(name)}" if name else "the model"
        other = other or "an encoder-decoder, which is not counted"
        raise keys.refuse(f"{subject} is no decoder-only model: it is {other}")
    unlike = _unlike_llama(keys)
    if unlike:
        raise keys.refuse(f"{unknown} and {unlike} ({known})")
    if not keys.has("intermediate_size") and not keys.has("moe_intermediate_size"):
        missing.append("intermediate_size")
    if missing:
        raise keys.refuse(f"{unknown} and key {missing[0]} is missing ({known})")
    keys.warnings.append(f"{unknown}; counted by its generic keys")
    return generic(keys)


def from_config(config: Mapping[str, Any], source: str = "config") -> Architecture:
    """The architecture that a config.json describes.

    Args:
        config: the parsed object, as its maker wrote it.
        source: what to call it in messages, and its name unless `solve --emit` gave one.

    Returns:
        An architecture whose `warnings` say what was assumed and whose `notes` say what was
        left out.

    Raises:
        InputError: an unknown family without the generic keys, a missing, malformed or
            contradictory key, or a key that may change the size and is not understood.
    """
    inner, notes = _text_part(config, source)
    keys = ConfigKeys(inner, source)
    family = _family(inner, keys)
    outer_keys = ConfigKeys(config, source)
    if family is None and notes:
        family = _family(config, outer_keys)
    if family is not None:
        keys = with_defaults(keys, family, whole=bool(notes))
    try:
        reading = _assume(keys) if family is None else FAMILIES[family](keys)
        name = keys.text("model_type") or family or "unknown"
        recipe = read_recipe(keys)
        keys.ignore("max_position_embeddings", "num_nextn_predict_layers")
        keys.ignore(*unused_keys(name), *unused_keys(family or name))
        keys.check_leftovers(f"model_type {name!r}")
        return _architecture(keys, reading, name, source, recipe, notes)
    except InputError as error:
        message = str(error)
        if " is missing" in message:
            message += _empty_section(config)
        raise InputError(
            message if message.startswith(source) else f"{source}: {message}"
        ) from None


def _emitted_name(config: Mapping[str, Any]) -> str:
    """What `archinfer solve --emit` calls a config that it wrote; "" for any other."""
    mark = config.get("_archinfer")
    name = mark.get("name") if isinstance(mark, Mapping) else None
    return name if isinstance(name, str) and re.fullmatch(r"[\w.-]{1,60}", name) else ""


def _architecture(
    keys: ConfigKeys, reading: Reading, family: str, source: str, recipe: Recipe, notes: list[str]
) -> Architecture:
    stated = (keys.data.get(name) for name in _CONTEXT)
    context = next((tokens for tokens in stated if isinstance(tokens, int)), None)
    if reading.mtp_layers:
        notes = [*notes, f"{reading.mtp_layers} multi-token-prediction layer(s) are not counted"]
    outside = {"embedding", "lm_head", *(p.component for p in reading.outside)}
    kinds = [{p.component for p in b.pieces(reading.hidden)} - {"norm"} for b in reading.layers]
    layers, stored = store(recipe, reading.layers, reading.hidden, outside, reading.tied)
    if recipe.main not in (None, recipe.base) and stored.main == recipe.base:
        keys.warnings.append(f"the quantization in {recipe.main} leaves every matrix alone")
    return Architecture(
        name=_emitted_name(keys.data) or source,
        blocks=group_layers(layers),
        hidden_size=reading.hidden,
        vocab_size=reading.vocab,
        tied=reading.tied,
        head_bias=reading.head_bias,
        head_rows=reading.head_rows,
        final_norm_vectors=reading.final_norm_vectors,
        outside=reading.outside,
        unread=reading.unread,
        mtp_layers=reading.mtp_layers,
        stored=stored,
        layer_kinds=tuple(frozenset(k) for k in kinds),
        family=family,
        max_context_tokens=context,
        warnings=tuple(keys.warnings),
        assumed=(*keys.warnings, *recipe.notes),
        notes=(*notes, *reading.notes, *keys.notes),
    )
