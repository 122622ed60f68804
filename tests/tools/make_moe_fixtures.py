"""Write tests/fixtures/moe/*.npz: small models with the logits that transformers computes.

Run once, in the environment that transformers_reference.py describes:

    reference/bin/python tests/tools/make_moe_fixtures.py

Each file holds `config` (JSON), `tokens` (batch, tokens), `logits` (batch, tokens, vocab) of the
reference, `made_with`, and every weight array under archinfer's name.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import torch
import transformers
from transformers_reference import build, copy_weights

from archinfer.calibration.moe import MoEConfig, Weights

FOLDER = Path(__file__).resolve().parents[1] / "fixtures" / "moe"
BATCH, TOKENS = 3, 20

SMALL = MoEConfig(
    vocab_size=96,
    hidden_size=32,
    layers=2,
    heads=4,
    kv_heads=2,
    head_dim=8,
    moe_intermediate_size=24,
    experts=8,
    experts_per_token=2,
)
DEEPSEEK = dataclasses.replace(
    SMALL,
    layers=3,
    qk_norm=True,
    intermediate_size=56,
    shared_experts=2,
    first_dense_layers=1,
    experts=16,
    experts_per_token=4,
    moe_intermediate_size=12,
    expert_groups=4,
    groups_per_token=2,
)
CASES = {
    "mixtral": (
        "mixtral",
        dataclasses.replace(SMALL, rope_theta=1e6, rms_norm_eps=1e-5),
    ),
    "qwen3_moe": (
        "qwen3_moe",
        dataclasses.replace(
            SMALL, qk_norm=True, head_dim=12, experts=16, experts_per_token=4, rope_theta=1e6
        ),
    ),
    "qwen3_moe_raw_probabilities_tied": (
        "qwen3_moe",
        dataclasses.replace(
            SMALL,
            qk_norm=True,
            norm_topk_prob=False,
            tie_word_embeddings=True,
            first_dense_layers=1,
            intermediate_size=40,
        ),
    ),
    "deepseek_v2": (
        "deepseek_v2",
        dataclasses.replace(DEEPSEEK, norm_topk_prob=False, routed_scaling_factor=4.0),
    ),
    "deepseek_v2_one_group": (
        "deepseek_v2",
        dataclasses.replace(
            DEEPSEEK,
            norm_topk_prob=False,
            routed_scaling_factor=1.0,
            expert_groups=1,
            groups_per_token=1,
        ),
    ),
    "deepseek_v3": (
        "deepseek_v3",
        dataclasses.replace(DEEPSEEK, scoring="sigmoid", routed_scaling_factor=2.5),
    ),
}


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for seed, (name, (family, config)) in enumerate(CASES.items()):
        weights = Weights.random(config, seed=seed)
        model = build(config, family)
        copy_weights(weights, model)
        tokens = np.random.default_rng(seed).integers(config.vocab_size, size=(BATCH, TOKENS))
        with torch.no_grad():
            logits = model(torch.from_numpy(tokens)).logits.numpy()
        path = FOLDER / f"{name}.npz"
        np.savez_compressed(
            path,
            config=json.dumps(dataclasses.asdict(config)),
            made_with=f"torch {torch.__version__}, transformers {transformers.__version__}",
            tokens=tokens,
            logits=logits,
            **dict(weights.named()),
        )
        print(f"{path.name}: {path.stat().st_size} bytes, logits {logits.shape}")


if __name__ == "__main__":
    main()
