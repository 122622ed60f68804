"""A family nobody told us of, read by the keys that most families share."""

from __future__ import annotations

from archinfer.errors import shorten
from archinfer.models.configkeys import ConfigKeys, brief
from archinfer.models.readers.common import EXPERT_WIDTH, Reading, plain
from archinfer.models.readers.latent import parse_deepseek_v3
from archinfer.models.readers.style import Style

_CHANGES_COUNTS: dict[str, tuple[object, ...]] = {
    "kv_channels": (), "multi_query": (False,), "multi_query_attention": (False,),
    "use_glu": (True,), "gated": (True,), "norm_type": ("rms_norm", "rmsnorm"),
    "normalization": ("rms_norm", "rmsnorm"),
    "normalization_function": ("rms_norm", "rmsnorm"), "position_embedding_type": ("rope",),
    "post_norm": (False,), "sandwich_norm": (False,), "attention_pattern": (),
    "parallel_attn": (False,), "use_parallel_residual": (False,), "alibi": (False,),
    "learned_pos_emb": (False,), "word_embed_proj_dim": (), "add_bias_linear": (False,),
    "layer_norm": (False,), "use_layernorm": (False,), "hidden_act_gated": (True,),
    "lambda_std_dev": (),
}  # fmt: skip
"""Keys that change counts in ways the generic reading does not follow, and what is harmless."""


def _stop_at_changes(keys: ConfigKeys) -> None:
    for name, harmless in _CHANGES_COUNTS.items():
        value = keys.data.get(name)
        if value is None or any(value is h or value == h for h in harmless):
            keys.ignore(name)
            continue
        family = shorten(keys.text("model_type"))
        raise keys.refuse(
            f"key {name} = {brief(value)} changes the count in a way that is not known of "
            f"model_type {family}"
        )


def _tied_by_default(keys: ConfigKeys) -> bool:
    """What a config without `tie_word_embeddings` means: the base class of transformers 4 tied."""
    return keys.text("transformers_version").startswith(("3.", "4."))


def generic(keys: ConfigKeys) -> Reading:
    """A family nobody told us of, read as a Llama-like decoder, saying what was assumed.

    Raises:
        InputError: a key that is known to change counts in other families.
    """
    _stop_at_changes(keys)
    if keys.has("kv_lora_rank"):
        keys.warnings.append("read as multi-head latent attention of DeepSeek-V3's kind")
        return parse_deepseek_v3(keys, Style())
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
        tied=_tied_by_default(keys),
    )
    keys.warnings.append(
        "read as a decoder of Llama's kind: gated feed-forward of three matrices, one RMSNorm "
        f"before each branch, {'q/k norms' if qk_norm else 'no q/k norms'}, "
        f"{'biases' if bias else 'no biases'} on the attention, "
        f"{'tied' if keys.flag('tie_word_embeddings', default=style.tied) else 'untied'} head"
    )
    return plain(keys, style)
