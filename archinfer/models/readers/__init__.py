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
    read_stablelm,
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
    read_jamba,
    read_lfm2,
    read_nemotron_h,
    read_nemotron_nas,
    read_qwen_linear,
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
    read_granite_shared,
    read_grok,
    read_hunyuan,
    read_phimoe,
)
from archinfer.models.readers.statespace import (
    read_bamba,
    read_falcon_h1,
    read_granite_hybrid,
    read_mamba,
    read_mamba2,
    read_recurrent_gemma,
)
from archinfer.models.readers.style import Style
from archinfer.models.readers.unusual import (
    read_gemma3n,
    read_jetmoe,
    read_mllama,
    read_zamba,
    read_zamba2,
)

__all__ = ["ARCHITECTURE_ALIASES", "FAMILIES", "SAME_AS", "Reading", "generic"]


_BIASED = Style(qkv_bias="attention_bias", o_bias="attention_bias")
_LLAMA = replace(_BIASED, mlp_bias="mlp_bias", decoys=("sliding_window",), only={"lm_head": True})


def read_llama(keys: ConfigKeys) -> Reading:
    """Llama; with `draft_vocab_size` the draft of EAGLE-3, whose head has rows of its own."""
    rows = keys.optional("draft_vocab_size")
    reading = plain(_LLAMA)(keys)
    if rows is None or rows == reading.vocab:
        return reading
    keys.warnings.append(
        f"draft_vocab_size = {rows}: a draft of EAGLE-3, whose head has as many rows; the "
        "projection of three hidden states before its layer is not counted"
    )
    return replace(reading, head_rows=rows, tied=False)


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

_BAILING = Style(
    qkv_bias="use_qkv_bias", o_bias="use_bias", mlp_bias="use_bias", decoys=("use_rmsnorm",),
)  # fmt: skip


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
    "afmoe": plain(
        replace(
            _BIASED, qk_norm="head", norms_after=1, gate="full", router_bias=True, window="every",
            window_every=4, window_default=1024,
        )
    ),
    "apertus": with_layer_extra(
        plain(replace(_BIASED, matrices=2, qk_norm="head", mlp_bias="mlp_bias",
                      only={"qk_norm": True, "post_norm": False})), xielu
    ),
    "arcee": plain(replace(_LLAMA, matrices=2)),
    "arctic": read_arctic,
    "bailing_moe": plain(_BAILING),
    "bailing_moe_v2": plain(replace(_BAILING, qk_norm="head", qk_norm_key="use_qk_norm")),
    "bamba": read_bamba,
    "bitnet": with_layer_extra(plain(_BIASED), sub_norms),
    "bloom": read_bloom,
    "chatglm": read_chatglm,
    "codegen": read_gptj,
    "cohere": plain(_COHERE),
    "cohere2": plain(replace(_COHERE, qk_norm="none", qk_norm_key="", window="every",
                              window_every=4, window_default=4096,
                              only={"use_parallel_block": True, "use_embedding_sharing": True})),
    "dbrx": read_dbrx,
    "deepseek_v2": read_latent,
    "deepseek_v3": read_latent,
    "deepseek_v32": read_latent,
    "deepseek_v4": read_deepseek_v4,
    "dots1": plain(replace(_BIASED, qk_norm="head", decoys=("sliding_window",))),
    "ernie4_5": read_ernie,
    "ernie4_5_moe": read_ernie,
    "cwm": plain(replace(_LLAMA, decoys=("sliding_window", "layer_types"))),
    "exaone": plain(_LLAMA),
    "exaone4": plain(Style(qk_norm="head", norms_before=0, norms_after=1, window="every",
                            window_every=4)),
    "exaone_moe": plain(
        Style(qk_norm="head", window="every", window_every=4)
    ),
    "falcon": read_falcon,
    "falcon_h1": read_falcon_h1,
    "falcon_mamba": read_mamba,
    "flex_olmo": plain(
        replace(_BIASED, qk_norm="projection", norms_before=0, norms_after=1, expert_width=True)
    ),
    "flint": plain(replace(_QWEN3, sinks=True)),
    "gemma": plain(_GEMMA),
    "gemma2": plain(_GEMMA2),
    "gemma3_text": plain(_GEMMA3),
    "gemma3n_text": read_gemma3n,
    "gemma4_text": read_gemma4,
    "glm": plain(Style(qkv_bias="attention_bias", bias_default=True)),
    "glm4": plain(Style(qkv_bias="attention_bias", bias_default=True, norms_after=1)),
    "glm4_moe": plain(_GLM_MOE),
    "glm4_moe_lite": read_latent,
    "glm4v_text": plain(Style(qkv_bias=True, norms_after=1, decoys=("attention_bias",))),
    "glm4v_moe_text": plain(replace(_GLM_MOE, bias_default=True, qk_norm="none",
                                     qk_norm_key="", decoys=("use_qk_norm",))),
    "glm_moe_dsa": read_latent,
    "gpt2": read_gpt2,
    "gpt_bigcode": read_gpt2,
    "gpt_neox": read_gpt_neox,
    "gpt_oss": plain(_GPT_OSS),
    "gptj": read_gptj,
    "granite": plain(_LLAMA),
    "granitemoe": plain(replace(_BIASED, expert_width=True)),
    "granite_swa": plain(replace(_LLAMA, sinks=True, window="all", decoys=())),
    "granitemoehybrid": read_granite_hybrid,
    "granitemoeshared": read_granite_shared,
    "grok-1": read_grok,
    "grok-2": read_grok,
    "helium": plain(_LLAMA),
    "hunyuan": read_hunyuan,
    "hunyuan_v1_dense": read_hunyuan,
    "hunyuan_v1_moe": read_hunyuan,
    "hy_v3": plain(replace(_BIASED, qk_norm="head", mlp_bias="mlp_bias",
                            decoys=("qk_norm",), defaults={"head_dim": 128})),
    "hyperclovax": lambda keys: plain(
        replace(_LLAMA, norms_after=int(keys.flag("use_post_norm")))
    )(keys),
    "internlm3": plain(replace(_LLAMA, qkv_bias="qkv_bias", o_bias="bias")),
    "jamba": read_jamba,
    "jetmoe": read_jetmoe,
    "kimi_k2": read_latent,
    "kimi_linear": read_kimi_linear,
    "lfm2": read_lfm2,
    "lfm2_moe": read_lfm2,
    "llama": read_llama,
    "llama4_text": read_llama4,
    "longcat_flash": read_longcat,
    "mamba": read_mamba,
    "mamba2": read_mamba2,
    "mimo": plain(replace(_QWEN2, qkv_bias="attention_bias", bias_default=True)),
    "mimo_v2_flash": read_mimo_v2,
    "jais2": plain(replace(_LLAMA, matrices=2, norm_vectors=2, bias_default=True)),
    "kolibri1": plain(replace(_BIASED, qk_norm="head", norms_after=1, window="all")),
    "mellum": plain(_QWEN3),
    "minicpm": plain(replace(_LLAMA, tied=True, decoys=("sliding_window", "dim_model_base"))),
    "minicpm3": read_latent_tied,
    "minimax": read_minimax,
    "minimax_m1": read_minimax,
    "minimax_m2": read_minimax_m2,
    "minimax_m3": read_minimax_m3,
    "minimax_text_01": read_minimax,
    "ministral": plain(_MISTRAL),
    "ministral3": plain(replace(_MISTRAL, window="none")),
    "mistral": plain(_MISTRAL),
    "mistral4": read_latent,
    "mixtral": plain(Style(expert_width=True, window="all", defaults={"num_key_value_heads": 8})),
    "mllama_text_model": read_mllama,
    "mpt": read_mpt,
    "nanochat": plain(replace(_BIASED, matrices=2, norm_vectors=0)),
    "nemotron": plain(replace(_LLAMA, matrices=2, norm_vectors=2)),
    "nemotron-nas": read_nemotron_nas,
    "nemotron_h": read_nemotron_h,
    "olmo": plain(replace(_BIASED, norm_vectors=0)),
    "olmo2": plain(replace(_BIASED, qk_norm="projection", norms_before=0, norms_after=1)),
    "olmo3": plain(replace(_BIASED, qk_norm="projection", norms_before=0, norms_after=1,
                            window="every", window_every=4, window_default=4096)),
    "olmoe": plain(replace(_BIASED, qk_norm="projection", expert_width=True)),
    "opt": read_opt,
    "phi": read_phi,
    "phi3": plain(Style(window="all", only={"full_attn_mod": 1})),
    "phimoe": read_phimoe,
    "qwen2": plain(_QWEN2),
    "qwen2_moe": plain(Style(qkv_bias="qkv_bias", bias_default=True, window="switched",
                              shared_gate=True)),
    "qwen3": plain(_QWEN3),
    "qwen3_5_moe_text": read_qwen_linear,
    "qwen3_5_text": read_qwen_linear,
    "qwen3_moe": plain(replace(_QWEN3, decoys=("use_qk_norm", "qkv_bias"))),
    "qwen3_next": read_qwen_linear,
    "recurrent_gemma": read_recurrent_gemma,
    "sarvam_moe": plain(replace(_GLM_MOE, qk_norm_default=True)),
    "seed_oss": plain(
        Style(
            qkv_bias="attention_bias", bias_default=True, o_bias="attention_out_bias",
            o_bias_default=False, mlp_bias="mlp_bias", mlp_bias_default=False,
            defaults={"head_dim": 128},
        )
    ),
    "smollm3": plain(replace(_LLAMA, tied=True, decoys=("no_rope_layers", "sliding_window",
                                                         "no_rope_layer_interval"))),
    "solar_open": plain(_BIASED),
    "stablelm": read_stablelm,
    "starcoder2": plain(Style(qkv_bias="use_bias", o_bias="use_bias", mlp_bias="use_bias",
                               bias_default=True, matrices=2, norm_vectors=2, tied=True,
                               window="all", defaults={"num_key_value_heads": 2})),
    "step3_text": read_step3,
    "step3p5": read_step35,
    "youtu": read_latent,
    "zamba": read_zamba,
    "zamba2": read_zamba2,
}  # fmt: skip
"""Readers by `model_type`."""

SAME_AS = {
    "RefinedWeb": "falcon",
    "RefinedWebModel": "falcon",
    "gemma3": "gemma3_text",
    "gemma3n": "gemma3n_text",
    "gemma4": "gemma4_text",
    "gemma4_unified": "gemma4_text",
    "gemma4_unified_text": "gemma4_text",
    "exaone4_5": "exaone4",
    "exaone4_5_text": "exaone4",
    "git": "grok-2",
    "glm4v": "glm4v_text",
    "glm4v_moe": "glm4v_moe_text",
    "kimi_k25": "kimi_k2",
    "kimi_k3": "kimi_linear",
    "llama4": "llama4_text",
    "mllama": "mllama_text_model",
    "minimax_m3_vl": "minimax_m3",
    "minimax_m3_vl_text": "minimax_m3",
    "mistral_large_3": "deepseek_v3",
    "mimo_v2": "mimo_v2_flash",
    "qwen2_5_omni": "qwen2",
    "qwen2_5_omni_text": "qwen2",
    "qwen2_5_omni_thinker": "qwen2",
    "qwen2_5_vl": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "qwen2_vl": "qwen2",
    "qwen2_vl_text": "qwen2",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "qwen3_omni_moe": "qwen3_moe",
    "qwen3_omni_moe_text": "qwen3_moe",
    "qwen3_omni_moe_thinker": "qwen3_moe",
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
