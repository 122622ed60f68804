"""What a family's class takes for keys that a file leaves out."""

from __future__ import annotations

from archinfer.models.configkeys import ConfigKeys
from archinfer.models.readers.common import ALIASES, EXPERTS, KV_HEADS, SHARED_EXPERTS
from archinfer.models.tables import class_constants, class_defaults

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
