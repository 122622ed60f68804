"""The same model in Hugging Face transformers: an outside reference for archinfer's decoder.

Not part of the tests, which read what `make_moe_fixtures.py` stored. Needs torch and
transformers (written for torch 2.13.0 and transformers 5.24.0), in an environment of their own:

    python3.11 -m venv reference
    reference/bin/pip install torch==2.13.0 transformers==5.24.0 -e .
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from transformers import (
    DeepseekV2Config,
    Dots1Config,
    Dots1ForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)
from transformers.models.deepseek_v2.modeling_deepseek_v2 import DeepseekV2Moe

from archinfer.calibration.moe import MoEConfig, Weights


def build(config: MoEConfig, family: str, experts: str = "eager", max_tokens: int = 4096) -> Any:
    """A transformers model of these sizes, without meaningful weights.

    Args:
        config: sizes; must be what the family can do.
        family: mixtral, qwen3_moe, deepseek_v3 (dots1: grouped-query attention with
            DeepSeek-V3's experts) or deepseek_v2 (dots1 with DeepSeek-V2's own MoE block).
        experts: transformers' way to run experts: eager, batched_mm or grouped_mm.
    """
    c = config
    common = dict(
        vocab_size=c.vocab_size,
        hidden_size=c.hidden_size,
        num_hidden_layers=c.layers,
        num_attention_heads=c.heads,
        num_key_value_heads=c.kv_heads,
        head_dim=c.head_dim,
        num_experts_per_tok=c.experts_per_token,
        rms_norm_eps=c.rms_norm_eps,
        rope_parameters={"rope_type": "default", "rope_theta": c.rope_theta},
        tie_word_embeddings=c.tie_word_embeddings,
        max_position_embeddings=max_tokens,
        attn_implementation="eager",
        experts_implementation=experts,
        dtype="float32",
    )
    if family == "mixtral":
        assert c.norm_topk_prob and not c.qk_norm and not c.shared_experts
        model = MixtralForCausalLM(
            MixtralConfig(
                intermediate_size=c.moe_intermediate_size, num_local_experts=c.experts, **common
            )
        )
    elif family == "qwen3_moe":
        assert c.qk_norm and not c.shared_experts
        model = Qwen3MoeForCausalLM(
            Qwen3MoeConfig(
                intermediate_size=c.intermediate_size or 1,
                moe_intermediate_size=c.moe_intermediate_size,
                num_experts=c.experts,
                norm_topk_prob=c.norm_topk_prob,
                mlp_only_layers=list(range(c.dense_layers)),
                **common,
            )
        )
    else:
        assert c.qk_norm and c.shared_experts
        deepseek = dict(
            intermediate_size=c.intermediate_size,
            moe_intermediate_size=c.moe_intermediate_size,
            n_routed_experts=c.experts,
            n_shared_experts=c.shared_experts,
            first_k_dense_replace=c.first_dense_layers,
            n_group=c.expert_groups,
            topk_group=c.groups_per_token,
            norm_topk_prob=c.norm_topk_prob,
            routed_scaling_factor=c.routed_scaling_factor,
        )
        model = Dots1ForCausalLM(Dots1Config(**common, **deepseek))
        if family == "deepseek_v2":
            assert c.scoring == "softmax" and not c.norm_topk_prob
            v2 = DeepseekV2Config(
                hidden_size=c.hidden_size,
                num_experts_per_tok=c.experts_per_token,
                topk_method="group_limited_greedy" if c.expert_groups > 1 else "greedy",
                experts_implementation=experts,
                **deepseek,
            )
            v2._experts_implementation = experts
            for layer in model.model.layers[c.first_dense_layers :]:
                layer.mlp = DeepseekV2Moe(v2)
        elif family == "deepseek_v3":
            assert c.scoring == "sigmoid"
        else:
            raise ValueError(family)
    return model.eval()


@torch.no_grad()
def copy_weights(weights: Weights, model: Any) -> None:
    """Write archinfer's weights into a transformers model from `build`."""
    c = weights.config
    left = dict(model.state_dict())

    def put(name: str, array: np.ndarray) -> None:
        target = left.pop(name)
        assert tuple(target.shape) == array.shape, (name, tuple(target.shape), array.shape)
        target.copy_(torch.from_numpy(array))

    put("model.embed_tokens.weight", weights.embedding)
    put("model.norm.weight", weights.final_norm)
    if c.tie_word_embeddings:
        left.pop("lm_head.weight", None)
    else:
        put("lm_head.weight", weights.head)
    q, kv = c.heads * c.head_dim, c.kv_heads * c.head_dim
    for number, layer in enumerate(weights.layers):
        at = f"model.layers.{number}."
        put(at + "input_layernorm.weight", layer.attention_norm)
        put(at + "post_attention_layernorm.weight", layer.mlp_norm)
        put(at + "self_attn.q_proj.weight", layer.qkv[:q])
        put(at + "self_attn.k_proj.weight", layer.qkv[q : q + kv])
        put(at + "self_attn.v_proj.weight", layer.qkv[q + kv :])
        put(at + "self_attn.o_proj.weight", layer.output)
        if c.qk_norm:
            put(at + "self_attn.q_norm.weight", layer.query_norm)
            put(at + "self_attn.k_norm.weight", layer.key_norm)
        block = at + "mlp."
        if c.is_moe(number):
            put(block + "gate.weight", layer.router)
            put(block + "experts.gate_up_proj", layer.expert_gate_up)
            put(block + "experts.down_proj", layer.expert_down)
            if c.scoring == "sigmoid":
                put(block + "gate.e_score_correction_bias", layer.router_bias)
            block += "shared_experts."
        if layer.down.size:
            width = layer.down.shape[1]
            put(block + "gate_proj.weight", layer.gate_up[:width])
            put(block + "up_proj.weight", layer.gate_up[width:])
            put(block + "down_proj.weight", layer.down)
    assert not left, f"weights of the reference that archinfer has not: {sorted(left)}"
