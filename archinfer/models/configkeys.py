"""A model config whose every read is recorded, so that what was not read can be named.

A config key may change a model's size, describe something else (rope, tokens, training), or be
a decoy: present, but unused by the maker's own code. `ConfigKeys` reads values strictly and
keeps the list; `leftovers` returns the keys that look like sizes and were neither read nor
declared as decoys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from archinfer.errors import InputError, shorten
from archinfer.models.tables import harmless_keys

_MISSING: Any = object()

_SIZE_KEY = re.compile(
    r"(hidden|intermediate|inner|ffn|mlp|head|expert|layer|rank|latent|state|conv|expand|embed|"
    r"width|dim|kernel|topk|top_k|window|vocab|shared|moe|bias|gate|block|group|depth|ngram|"
    r"mixer|residual|ple|sink|qk_norm|d_model|lora|attn|attention|"
    r"hc_mult|altup|laurel|loop|recur|repeat)",
)
"""Words by which makers name what changes a size."""

_HARMLESS_KEY = re.compile(
    r"(rope|rotary|yarn|theta|token|dropout|_pdrop|initializer|init_std|init_method|epsilon|_eps$|"
    r"^eps$|aux_loss|z_loss|loss_coef|jitter|dtype|scal(e|ing)|multiplier|_coef|_clip|clamp|"
    r"capping|_act$|_activation|activation_|act_fn|hidden_act|attn_implementation|_limit|"
    r"time_step|norm_topk|normalize|layernorm_.*(alpha|beta)|scoring_func|score_func|topk_method|topk_group|n_group$|"
    r"num_expert_group|group_routed|router_logits|output_hidden|output_attentions|return_dict|"
    r"max_position|max_seq|seq_length|model_max_length|max_model_len|context_length|"
    r"initial_context|use_cache|use_kernel|mamba_kernels|num_logits|chunk_size_feed|"
    r"pretraining_tp|auto_map|architectures|transformers_version|name_or_path|id2label|label2id|"
    r"problem_type|_alpha_factor|_beta_factor|_attn_temperature|floor_|mtp|nextn|eagle|"
    r"prefix|query_pre_attn|attn_factor|residual_in_fp32|"
    r"rescale_prenorm|embedding_std|ep_size|router_dtype|aux_free|freeze|sparsity_pattern|"
    r"router_bias_update|cache_implementation|torchscript|pruned_heads|is_decoder|"
    r"is_encoder_decoder|tie_encoder|finetuning|task_specific|"
    r"moe_norm_min|kda_|gate_lower_bound|situ|cpu_offload|fp32|interleave$|use_rms_norm|"
    r"index_topk_freq|enable_moe_fp32|overlap|use_flash|attention_probs|"
    r"_bos_|_eos_|_pad_|begin_suppress|suppress|decoder_start|forced_|diversity|repetition|"
    r"num_beams|temperature|top_p$|^top_k$|early_stopping|length_penalty|min_length|max_length|"
    r"remove_invalid|encoder_no_repeat|no_repeat|bad_words|image_|video_|vision_|audio_|visual|"
    r"media_|_media|mm_|^vit_|_ids?$|moe_loss|balanc|capacity|drop_tokens|layer_norm_e|layernorm_e|residual_multi|"
    r"norm_type$|position_embedding_type|partial_|_factor$|expert_parallel|seq_aux|"
    r"router_activation|log_scale|swiglu|softmax|mscale|truncate|_offload|compile|"
    r"sinkhorn|grouped_topk|dual_chunk|attention_method|attn_temperature|attention_out_mult|mamba_chunk|chunk_size$)"
)
"""Words of keys that change how a model computes, trains or is served, but not its size."""

_ALWAYS_SIZE_KEY = re.compile(
    r"((^|_)(ff|ffn|mlp|dim|feed_forward)_(dim_)?(multiplier|mult|factor|ratio|expansion_factor)$|"
    r"expansion_(ratio|factor)$|^d_ff$|^d_inner$|_streams$|adapter_(size|dim|rank)|hash_buckets|"
    r"mem(ory)?_tokens$|prefix_(tokens|length|size)$)"
)
"""Words that name a size even where a harmless word stands in the same key."""

_SIZE_STRINGS = frozenset(
    {"moe_layers_enum", "hybrid_override_pattern", "index_topk_pattern", "layers_block_type"}
)
"""Keys that say which layer is what in a string."""

_NEUTRAL: tuple[Any, ...] = (None, False, 0, -1, "", [], {})


class ConfigKeys:
    """Strict, recorded access to one config object.

    Args:
        data: the config (or its text part).
        where: what to call it in messages.
    """

    def __init__(self, data: Mapping[str, Any], where: str) -> None:
        self.data = data
        self.where = where
        self.warnings: list[str] = []
        self.notes: list[str] = []
        self._used: set[str] = set()

    def refuse(self, message: str) -> InputError:
        """The error for something in this config."""
        return InputError(f"{self.where}: {message}")

    def must_be(self, name: str, expected: str, found: Any) -> InputError:
        """The error for a key whose value is not what is expected."""
        return self.refuse(f"{name} must be {expected}, found {brief(found)}")

    def has(self, *names: str) -> bool:
        """Whether any of the keys holds something other than null."""
        return any(self.data.get(n) is not None for n in names)

    def ignore(self, *names: str) -> None:
        """Declare decoys: keys that the maker's code does not use."""
        self._used.update(names)

    def raw(self, *names: str, default: Any = None) -> Any:
        """The value of the first key that is present; all of them count as read.

        Raises:
            InputError: two of the keys disagree.
        """
        found = [(n, self.data[n]) for n in names if self.data.get(n) is not None]
        self._used.update(names)
        if not found:
            return default
        for name, value in found[1:]:
            if value != found[0][1]:
                first, first_value = found[0]
                raise self.refuse(f"{first} is {brief(first_value)} but {name} is {brief(value)}")
        return found[0][1]

    def integer(self, *names: str, default: Any = _MISSING, low: int = 1) -> int:
        """A whole number, at least `low`, under any of these names.

        Raises:
            InputError: missing without a default, no whole number, or below `low`.
        """
        value = self.raw(*names)
        if value is None:
            if default is _MISSING:
                also = f" (or {', '.join(names[1:])})" if len(names) > 1 else ""
                raise self.refuse(f"key {names[0]}{also} is missing")
            return int(default)
        return self._whole(names, value, low)

    def _whole(self, names: tuple[str, ...], value: Any, low: int) -> int:
        name = next((n for n in names if self.data.get(n) is not None), names[0])
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.refuse(f"{name} must be a whole number, found {brief(value)}")
        if value < low:
            raise self.refuse(f"{name} must be at least {low}, found {brief(value)}")
        if value > 2**53:
            raise self.refuse(f"{name} is absurdly large: {brief(value)}")
        return value

    def optional(self, *names: str, low: int = 1) -> int | None:
        """A whole number, or None where the key is absent or null."""
        self._used.update(names)
        return self.integer(*names, low=low) if self.has(*names) else None

    def number(self, name: str, default: float) -> float:
        """A finite number."""
        value = self.raw(name, default=default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.refuse(f"{name} must be a number, found {brief(value)}")
        if not -1e300 < value < 1e300:
            raise self.refuse(f"{name} must be finite, found {brief(value)}")
        return float(value)

    def flag(self, *names: str, default: bool = False) -> bool:
        """A truth value."""
        value = self.raw(*names, default=default)
        if isinstance(value, bool) or value in (0, 1):
            return bool(value)
        raise self.refuse(f"{names[0]} must be true or false, found {brief(value)}")

    def only(self, name: str, *allowed: Any) -> None:
        """Refuse a key that holds something other than what its family's code is known for."""
        value = self.raw(name)
        if value is not None and not any(value is a or value == a for a in allowed):
            raise self.must_be(name, " or ".join(brief(a) for a in allowed), value)

    def whole_list(self, name: str, default: Any = None) -> list[int] | None:
        """A list of whole numbers, 0 or above, or None where the key is absent."""
        value = self.raw(name, default=default)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self.must_be(name, "a list of whole numbers", value)
        return [self._whole((name,), item, 0) for item in value]

    def text(self, name: str, default: str = "") -> str:
        """A string."""
        value = self.raw(name, default=default)
        if not isinstance(value, str):
            raise self.refuse(f"{name} must be a string, found {brief(value)}")
        return value

    def per_layer(self, names: tuple[str, ...], layers: int, default: Any = _MISSING) -> list[int]:
        """A whole number for each layer: one number for all, or a list with one each."""
        value = self.raw(*names)
        if not isinstance(value, list):
            return [self.integer(*names, default=default, low=0)] * layers
        items = self.layer_list(names[0] if names[0] in self.data else names[-1], value, layers)
        return [self._whole(names, v, 0) for v in items]

    def layer_list(self, name: str, value: Any, layers: int, extra: int = 0) -> list[Any]:
        """A list with one entry per layer; up to `extra` more belong to other layers."""
        if not isinstance(value, list):
            raise self.refuse(f"{name} must be a list, found {brief(value)}")
        if not layers <= len(value) <= layers + extra:
            raise self.refuse(f"{name} has {len(value)} entries for {layers} layers")
        return value[:layers]

    def names_list(self, name: str, layers: int, extra: int = 0) -> list[str] | None:
        """A list of strings, one per layer, or None where the key is absent."""
        value = self.raw(name)
        if value is None:
            return None
        items = self.layer_list(name, value, layers, extra)
        for item in items:
            if not isinstance(item, str):
                raise self.refuse(f"{name} must hold strings, found {brief(item)}")
        return items

    def section(self, name: str) -> ConfigKeys | None:
        """A nested object as its own keys, or None where it is absent."""
        value = self.raw(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.must_be(name, "a mapping", value)
        shown = name if name.isidentifier() else shorten(name)
        return ConfigKeys(value, f"{self.where}: {shown}")

    def leftovers(self) -> list[str]:
        """Keys that look like sizes, hold something, and were neither read nor ignored."""
        return [
            name
            for name, value in self.data.items()
            if name not in self._used
            and name not in harmless_keys()
            and not name.startswith("_")
            and not any(value is n or value == n for n in _NEUTRAL)
            and (not isinstance(value, str) or name in _SIZE_STRINGS)
            and (
                _ALWAYS_SIZE_KEY.search(name.lower())
                or (_SIZE_KEY.search(name.lower()) and not _HARMLESS_KEY.search(name.lower()))
            )
        ]


def json_kind(value: Any) -> str:
    """What a value is, in words of JSON."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, list):
        return "a list"
    return "a mapping" if isinstance(value, Mapping) else "a number"


def brief(value: Any) -> str:
    """A value for a message: at most 40 characters."""
    if value is None or isinstance(value, bool):
        return json_kind(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**30:
        return f"a number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
