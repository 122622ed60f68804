"""A config.json read as an architecture predicts what a decoder of that config then counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from archinfer.calibration.moe import Counters, Decoder, MoEConfig, Weights
from archinfer.models.huggingface import from_config
from archinfer.physics.workload import Traffic, Workload

FIXTURES = Path(__file__).parent / "fixtures" / "moe"


def config_json(c: MoEConfig, family: str) -> dict[str, Any]:
    """What the makers of `family` would write for this model."""
    common = {
        "vocab_size": c.vocab_size,
        "hidden_size": c.hidden_size,
        "num_hidden_layers": c.layers,
        "num_attention_heads": c.heads,
        "num_key_value_heads": c.kv_heads,
        "head_dim": c.head_dim,
        "num_experts_per_tok": c.experts_per_token,
        "rms_norm_eps": c.rms_norm_eps,
        "rope_theta": c.rope_theta,
        "tie_word_embeddings": c.tie_word_embeddings,
        "hidden_act": "silu",
        "max_position_embeddings": 4096,
    }
    own = {
        "mixtral": {
            "architectures": ["MixtralForCausalLM"],
            "intermediate_size": c.moe_intermediate_size,
            "num_local_experts": c.experts,
        },
        "qwen3_moe": {
            "architectures": ["Qwen3MoeForCausalLM"],
            "intermediate_size": c.intermediate_size,
            "moe_intermediate_size": c.moe_intermediate_size,
            "num_experts": c.experts,
            "norm_topk_prob": c.norm_topk_prob,
            "decoder_sparse_step": 1,
            "mlp_only_layers": list(range(c.dense_layers)),
        },
        "glm4_moe": {
            "architectures": ["Glm4MoeForCausalLM"],
            "intermediate_size": c.intermediate_size,
            "moe_intermediate_size": c.moe_intermediate_size,
            "n_routed_experts": c.experts,
            "n_shared_experts": c.shared_experts,
            "first_k_dense_replace": c.first_dense_layers,
            "n_group": c.expert_groups,
            "topk_group": c.groups_per_token,
            "norm_topk_prob": c.norm_topk_prob,
            "routed_scaling_factor": c.routed_scaling_factor,
            "use_qk_norm": c.qk_norm,
            "attention_bias": False,
        },
    }[family]
    return {"model_type": family, **common, **own}


@pytest.mark.parametrize(
    ("fixture", "family"),
    [
        ("mixtral", "mixtral"),
        ("qwen3_moe", "qwen3_moe"),
        ("qwen3_moe_raw_probabilities_tied", "qwen3_moe"),
        ("deepseek_v3", "glm4_moe"),
    ],
)
@pytest.mark.parametrize(("batch", "context"), [(1, 7), (5, 3)])
def test_the_architecture_of_a_config_predicts_the_counts(
    fixture: str, family: str, batch: int, context: int
) -> None:
    stored = np.load(FIXTURES / f"{fixture}.npz")
    config = MoEConfig(**json.loads(str(stored["config"])))
    shape = from_config(config_json(config, family)).shape()
    weights = Weights.random(config, seed=0)
    assert shape.total_params == weights.params

    decoder = Decoder(weights, batch, max_tokens=context)
    decoder.prefill(np.ones((batch, context - 1), int))
    count = Counters()
    decoder.decode(np.arange(batch), count)
    hit = sum(count.experts_hit) / config.moe_layers
    predicted = Workload(shape, Traffic(context, 1, 32, None, 32)).work(batch, hit)
    for quantity in ("weight_bytes", "kv_read_bytes", "kv_write_bytes", "flops"):
        assert getattr(predicted, quantity) == getattr(count.total, quantity), quantity
    chains = [group.reductions for group in shape.groups for _ in range(int(group.count))]
    assert count.chain_lengths == chains
