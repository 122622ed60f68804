"""The decoder against outside references: stored logits of transformers, and a slow rewrite."""

from __future__ import annotations

import dataclasses
import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from archinfer.calibration.moe import Decoder, MoEConfig, Weights
from archinfer.calibration.moe.linear import FEW_TOKENS, linear

FIXTURES = sorted((Path(__file__).parent / "fixtures" / "moe").glob("*.npz"))

DENSE = MoEConfig(
    vocab_size=50,
    hidden_size=24,
    layers=2,
    heads=6,
    kv_heads=3,
    head_dim=8,
    intermediate_size=40,
)
MIXTRAL = dataclasses.replace(
    DENSE, moe_intermediate_size=20, experts=6, experts_per_token=2, intermediate_size=0
)
QWEN = dataclasses.replace(
    MIXTRAL, qk_norm=True, norm_topk_prob=False, head_dim=6, tie_word_embeddings=True
)
DEEPSEEK = MoEConfig(
    vocab_size=40,
    hidden_size=16,
    layers=3,
    heads=4,
    kv_heads=1,
    head_dim=8,
    intermediate_size=32,
    moe_intermediate_size=10,
    experts=12,
    experts_per_token=3,
    shared_experts=2,
    first_dense_layers=1,
    scoring="sigmoid",
    routed_scaling_factor=1.7,
    expert_groups=4,
    groups_per_token=2,
)
MODELS = {"dense": DENSE, "mixtral": MIXTRAL, "qwen": QWEN, "deepseek": DEEPSEEK}


def relative(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def load(path: Path) -> tuple[Weights, np.ndarray, np.ndarray]:
    stored = np.load(path)
    weights = Weights.empty(MoEConfig(**json.loads(str(stored["config"]))))
    arrays = dict(weights.named())
    assert set(arrays) == set(stored.files) - {"config", "made_with", "tokens", "logits"}
    for name, array in arrays.items():
        array[...] = stored[name]
    return weights, stored["tokens"], stored["logits"]


def test_every_family_has_a_fixture() -> None:
    assert {path.stem.split("_")[0] for path in FIXTURES} == {"mixtral", "qwen3", "deepseek"}
    assert all(path.stat().st_size < 1_000_000 for path in FIXTURES)


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_decoding_token_by_token_gives_the_logits_of_transformers(path: Path) -> None:
    weights, tokens, expected = load(path)
    decoder = Decoder(weights, batch=len(tokens), max_tokens=tokens.shape[1])
    for at in range(tokens.shape[1]):
        assert relative(decoder.decode(tokens[:, at]), expected[:, at]) < 1e-4


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
@pytest.mark.parametrize("pass_tokens", [1, 20, 64])
def test_prefill_gives_the_logits_of_transformers(path: Path, pass_tokens: int) -> None:
    weights, tokens, expected = load(path)
    decoder = Decoder(weights, batch=len(tokens), max_tokens=32, pass_tokens=pass_tokens)
    assert relative(decoder.prefill(tokens), expected[:, -1]) < 1e-4


def test_a_changed_router_would_be_noticed() -> None:
    weights, tokens, expected = load(FIXTURES[0].with_name("qwen3_moe.npz"))
    other = dataclasses.replace(weights.config, norm_topk_prob=False)
    decoder = Decoder(dataclasses.replace(weights, config=other), len(tokens), tokens.shape[1])
    assert relative(decoder.prefill(tokens), expected[:, -1]) > 1e-2


# ------------------------------------------------- a slow rewrite: no cache, one thing at a time


def slow_logits(weights: Weights, tokens: list[int]) -> np.ndarray:
    """Logits (V) after one sequence, in float64, every position recomputed from nothing."""
    c = weights.config

    def norm(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        return x / np.sqrt(np.mean(x**2) + c.rms_norm_eps) * w.astype(float)

    def turn(head: np.ndarray, position: int) -> np.ndarray:
        half = c.head_dim // 2
        pairs = head[:half] + 1j * head[half:]
        pairs = pairs * np.exp(1j * position * c.rope_theta ** (-np.arange(half) / half))
        return np.concatenate([pairs.real, pairs.imag])

    def mlp(x: np.ndarray, gate_up: np.ndarray, down: np.ndarray) -> np.ndarray:
        gate, up = np.split(gate_up.astype(float) @ x, 2)
        return down.astype(float) @ (gate / (1 + np.exp(-gate)) * up)

    def experts(x: np.ndarray, layer: object) -> np.ndarray:
        logits = layer.router.astype(float) @ x
        if c.scoring == "softmax":
            score = np.exp(logits) / np.exp(logits).sum()
            choice = score
            worth = choice.reshape(c.expert_groups, -1).max(axis=1)
        else:
            score = 1 / (1 + np.exp(-logits))
            choice = score + layer.router_bias
            worth = np.sort(choice.reshape(c.expert_groups, -1), axis=1)[:, -2:].sum(axis=1)
        size = c.experts // c.expert_groups
        groups = np.argsort(worth)[-c.groups_per_token :]
        allowed = [g * size + i for g in groups for i in range(size)]
        chosen = sorted(allowed, key=lambda e: choice[e])[-c.experts_per_token :]
        total = sum(score[e] for e in chosen) if c.norm_topk_prob else 1.0
        out = np.zeros(c.hidden_size)
        for e in chosen:
            weight = c.routed_scaling_factor * score[e] / total
            out += weight * mlp(x, layer.expert_gate_up[e], layer.expert_down[e])
        if c.shared_experts:
            out += mlp(x, layer.gate_up, layer.down)
        return out

    stream = [weights.embedding[t].astype(float) for t in tokens]
    for number, layer in enumerate(weights.layers):
        queries, keys, values = [], [], []
        for position, x in enumerate(stream):
            heads = layer.qkv.astype(float) @ norm(x, layer.attention_norm)
            q, k, v = np.split(
                heads.reshape(-1, c.head_dim), [c.heads, c.heads + c.kv_heads], axis=0
            )
            if c.qk_norm:
                q = np.array([norm(h, layer.query_norm) for h in q])
                k = np.array([norm(h, layer.key_norm) for h in k])
            queries.append([turn(h, position) for h in q])
            keys.append([turn(h, position) for h in k])
            values.append(v)
        for position in range(len(tokens)):
            gathered = []
            for head in range(c.heads):
                kv = head * c.kv_heads // c.heads
                score = np.array(
                    [
                        queries[position][head] @ keys[past][kv] / np.sqrt(c.head_dim)
                        for past in range(position + 1)
                    ]
                )
                share = np.exp(score - score.max())
                share /= share.sum()
                gathered.append(sum(s * values[past][kv] for past, s in enumerate(share)))
            stream[position] = stream[position] + layer.output.astype(float) @ np.concatenate(
                gathered
            )
        for position, x in enumerate(stream):
            x = norm(x, layer.mlp_norm)
            moe = c.is_moe(number)
            update = experts(x, layer) if moe else mlp(x, layer.gate_up, layer.down)
            stream[position] = stream[position] + update
    return weights.head.astype(float) @ norm(stream[-1], weights.final_norm)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("batch", "prompt", "pass_tokens"), [(1, 9, 4), (3, 5, 64), (8, 1, 8)])
def test_greedy_with_cache_equals_recomputing(
    name: str, batch: int, prompt: int, pass_tokens: int
) -> None:
    weights = Weights.random(MODELS[name], seed=5)
    rng = np.random.default_rng(batch)
    start = rng.integers(weights.config.vocab_size, size=(batch, prompt))
    decoder = Decoder(weights, batch, max_tokens=prompt + 5, pass_tokens=pass_tokens)
    chosen = decoder.greedy(start, 5)

    decoder.reset()
    logits = decoder.prefill(start)
    sequences = start.tolist()
    for step in range(5):
        if step:
            logits = decoder.decode(chosen[:, step - 1])
        slow = np.array([slow_logits(weights, s) for s in sequences])
        assert relative(logits, slow) < 1e-4
        assert (chosen[:, step] == slow.argmax(axis=1)).all()
        for sequence, token in zip(sequences, slow.argmax(axis=1).tolist(), strict=True):
            sequence.append(token)


@pytest.mark.parametrize("name", MODELS)
def test_a_pass_of_many_tokens_equals_passes_of_few(name: str) -> None:
    weights = Weights.random(MODELS[name], seed=5)
    prompt = np.random.default_rng(0).integers(weights.config.vocab_size, size=(2, 96))
    logits = [Decoder(weights, 2, pass_tokens=tokens).prefill(prompt) for tokens in (16, 192)]
    assert relative(logits[1], logits[0].astype(float)) < 1e-5


def test_what_a_pass_takes_does_not_grow_with_the_square_of_its_tokens() -> None:
    batch = 1000
    decoder = Decoder(Weights.random(DEEPSEEK), batch, max_tokens=2)
    tracemalloc.start()
    decoder.decode(np.arange(batch) % DEEPSEEK.vocab_size)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < batch * DEEPSEEK.experts_per_token * batch


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("tokens", [1, 2, FEW_TOKENS, FEW_TOKENS + 1, 40])
@pytest.mark.parametrize("shape", [(7, 5), (1300, 1024), (2500, 600)])
def test_linear_is_a_matrix_product_for_any_number_of_tokens_in_either_order_of_memory(
    tokens: int, shape: tuple[int, int], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archinfer.calibration.threads.blas_threads", lambda: threads)
    rng = np.random.default_rng(0)
    weight = rng.standard_normal(shape, dtype=np.float32)
    x = rng.standard_normal((tokens, shape[1]), dtype=np.float32)
    expected = x.astype(float) @ weight.T.astype(float)
    for stored in (weight, np.asfortranarray(weight)):
        out = np.full((tokens, shape[0]), np.nan, dtype=np.float32)
        linear(x, stored, out, np.empty(out.size, dtype=np.float32))
        assert relative(out, expected) < 1e-5
