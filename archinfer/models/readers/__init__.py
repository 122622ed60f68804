"""One reader for each family of Hugging Face configs, by `model_type`.

Each reader follows its family's modelling code (transformers, or the code a maker ships with the
weights): which keys it uses, what it takes for keys that files leave out, and which parameters it
allocates. Biases that only correct router scores are buffers there and are not counted, except
where a class holds them as parameters (ERNIE 4.5, AFMoE).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from archinfer.models.configkeys import ConfigKeys
from archinfer.models.readers.classic import (
    read_bloom,
    read_chatglm,
    read_falcon,
    read_gpt2,
    read_gpt_neox,
    read_gptj,
    read_mpt,
    read_opt,
    read_phi,
    sub_norms,
    with_layer_extra,
    xielu,
)
from archinfer.models.readers.common import Reading, plain
from archinfer.models.readers.generic import generic
from archinfer.models.readers.grouped import (
    read_gemma4,
    read_llama4,
    read_mimo_v2,
    read_minimax,
    read_minimax_m2,
    read_minimax_m3,
    read_step3,
    read_step35,
)
from archinfer.models.readers.hybrid import (
    read_bamba,
    read_falcon_h1,
    read_granite_hybrid,
    read_jamba,
    read_lfm2,
    read_mamba,
    read_mamba2,
    read_nemotron_h,
    read_qwen_linear,
    read_recurrent_gemma,
)
from archinfer.models.readers.latent import (
    read_deepseek_v4,
    read_kimi_linear,
    read_latent,
    read_longcat,
)
from archinfer.models.readers.mixtures import (
    read_arctic,
    read_dbrx,
    read_ernie,
    read_gemma3n,
    read_grok,
    read_hunyuan,
    read_jetmoe,
    read_mllama,
    read_nemotron_nas,
    read_zamba,
    read_zamba2,
)
from archinfer.models.readers.style import Style, same_as, styles

__all__ = ["FAMILIES", "SAME_AS", "Reading", "generic"]


def read_llama(keys: ConfigKeys) -> Reading:
    """Llama; with `draft_vocab_size` the draft of EAGLE-3, whose head has rows of its own."""
    rows = keys.optional("draft_vocab_size")
    reading = plain(styles()["llama"])(keys)
    if rows is None or rows == reading.vocab:
        return reading
    keys.warnings.append(
        f"draft_vocab_size = {rows}: a draft of EAGLE-3, whose head has as many rows; the "
        "projection of three hidden states before its layer is not counted"
    )
    return replace(reading, head_rows=rows, tied=False)


def read_latent_tied(keys: ConfigKeys) -> Reading:
    """MiniCPM3: latent attention with values as wide as a share of the hidden size."""
    keys.ignore("dim_model_base")
    heads, hidden = keys.integer("num_attention_heads"), keys.integer("hidden_size")
    if hidden % heads or keys.integer("v_head_dim", default=hidden // heads) != hidden // heads:
        raise keys.refuse("v_head_dim must be hidden_size / num_attention_heads")
    data = dict(keys.data) | {"v_head_dim": hidden // heads}
    inner = ConfigKeys(data, keys.where)
    reading = read_latent(inner, Style(tied=True))
    keys.ignore(*(n for n in data if n not in inner.leftovers()))
    return reading


FAMILIES: dict[str, Callable[[ConfigKeys], Reading]] = {
    **{name: plain(style) for name, style in styles().items()},
    "apertus": with_layer_extra(plain(styles()["apertus"]), xielu),
    "arctic": read_arctic,
    "bamba": read_bamba,
    "bitnet": with_layer_extra(plain(styles()["bitnet"]), sub_norms),
    "bloom": read_bloom,
    "chatglm": read_chatglm,
    "dbrx": read_dbrx,
    "deepseek_v3": read_latent,
    "deepseek_v4": read_deepseek_v4,
    "ernie4_5": read_ernie,
    "falcon": read_falcon,
    "falcon_h1": read_falcon_h1,
    "gemma3n_text": read_gemma3n,
    "gemma4_text": read_gemma4,
    "gpt2": read_gpt2,
    "gpt_neox": read_gpt_neox,
    "gptj": read_gptj,
    "granitemoehybrid": read_granite_hybrid,
    "grok-1": read_grok,
    "grok-2": read_grok,
    "hunyuan": read_hunyuan,
    "jamba": read_jamba,
    "jetmoe": read_jetmoe,
    "kimi_linear": read_kimi_linear,
    "lfm2": read_lfm2,
    "llama": read_llama,
    "llama4_text": read_llama4,
    "longcat_flash": read_longcat,
    "mamba": read_mamba,
    "mamba2": read_mamba2,
    "mimo_v2_flash": read_mimo_v2,
    "minicpm3": read_latent_tied,
    "minimax": read_minimax,
    "minimax_m2": read_minimax_m2,
    "minimax_m3": read_minimax_m3,
    "mllama_text_model": read_mllama,
    "mpt": read_mpt,
    "nemotron-nas": read_nemotron_nas,
    "nemotron_h": read_nemotron_h,
    "opt": read_opt,
    "phi": read_phi,
    "qwen3_next": read_qwen_linear,
    "recurrent_gemma": read_recurrent_gemma,
    "step3_text": read_step3,
    "step3p5": read_step35,
    "zamba": read_zamba,
    "zamba2": read_zamba2,
}
"""Readers by `model_type`: those of families.json, and those that need more than a style."""

SAME_AS = same_as()
"""Model types that read like another."""
