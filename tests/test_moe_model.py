"""Building models, their memory, and what the decoder refuses."""

from __future__ import annotations

import dataclasses
import os
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from archinfer.calibration.bench import buffer, read_kernels
from archinfer.calibration.moe import Decoder, MoEConfig, Weights
from archinfer.calibration.moe.operations import route
from archinfer.errors import InputError

CONFIG = MoEConfig(
    vocab_size=64,
    hidden_size=32,
    layers=2,
    heads=4,
    kv_heads=2,
    head_dim=8,
    moe_intermediate_size=16,
    experts=8,
    experts_per_token=2,
)


def test_one_seed_builds_one_model(monkeypatch: pytest.MonkeyPatch) -> None:
    # More than one block of random numbers, so that threads could reorder them.
    config = dataclasses.replace(CONFIG, vocab_size=1 << 18)
    first = Weights.random(config, seed=7)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    again = Weights.random(config, seed=7)
    other = Weights.random(config, seed=8)
    for (name, a), (_, b), (_, c) in zip(first.named(), again.named(), other.named(), strict=True):
        assert np.array_equal(a, b), name
        assert not np.array_equal(a, c), name


def test_no_two_arrays_share_numbers() -> None:
    draws = [float(a.reshape(-1)[0]) for _, a in Weights.random(CONFIG, seed=7).named()]
    assert len(set(draws)) == len(draws)


def test_random_weights_have_the_promised_size() -> None:
    weights = Weights.random(dataclasses.replace(CONFIG, hidden_size=256), seed=0)
    layer = weights.layers[1]
    assert layer.qkv.std() == pytest.approx(256**-0.5, rel=0.02)
    assert layer.expert_down.std() == pytest.approx(16**-0.5, rel=0.02)
    assert weights.embedding.std() == pytest.approx(1.0, rel=0.02)
    assert 0.8 <= layer.mlp_norm.min() < layer.mlp_norm.max() <= 1.2


@pytest.mark.parametrize("threads", [1, 2])
def test_short_rows_that_threads_share_lie_the_other_way_round_and_give_the_same_logits(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archinfer.calibration.threads.blas_threads", lambda: threads)
    config = dataclasses.replace(CONFIG, hidden_size=1024, moe_intermediate_size=480)
    weights = Weights.random(config, seed=3)
    rows = Weights.empty(config)
    for (name, array), (_, out) in zip(weights.named(), rows.named(), strict=True):
        out[...] = array
        turned = threads > 1 and name.endswith("expert_down")
        assert array.flags.c_contiguous != turned, name
        assert array.std() > 0.0
    for layer in rows.layers:
        layer.expert_down = np.ascontiguousarray(layer.expert_down)
    prompt = np.arange(12).reshape(2, 6)
    assert np.allclose(
        Decoder(weights, 2).prefill(prompt), Decoder(rows, 2).prefill(prompt), atol=1e-4
    )


def test_the_embedding_lies_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking a token up in a transposed table would copy the table."""
    monkeypatch.setattr("archinfer.calibration.threads.blas_threads", lambda: 2)
    config = dataclasses.replace(CONFIG, vocab_size=1 << 15)
    assert Weights.empty(config).embedding.flags.c_contiguous


def test_building_takes_no_more_memory_than_the_model() -> None:
    config = dataclasses.replace(CONFIG, hidden_size=512, moe_intermediate_size=512, layers=4)
    tracemalloc.start()
    try:
        weights = Weights.random(config, seed=0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    size = 4 * weights.params
    assert size > 100e6
    assert peak < size + 1e6


def test_each_layer_is_one_block_in_order_of_use() -> None:
    for layer in Weights.empty(CONFIG).layers:
        starts = [array.ctypes.data for _, array in layer.named()]
        sizes = [array.nbytes for _, array in layer.named()]
        assert starts == sorted(starts)
        assert starts[-1] + sizes[-1] - starts[0] < sum(sizes) + 64 * len(sizes)
        assert all(start % 64 == 16 for start in starts)


def test_decoding_allocates_nothing_large() -> None:
    decoder = Decoder(Weights.random(dataclasses.replace(CONFIG, hidden_size=256)), max_tokens=64)
    decoder.prefill([[1] * 8])
    decoder.decode([1])
    tracemalloc.start()
    try:
        for token in range(8):
            decoder.decode([token])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16e3


def test_tied_embeddings_are_stored_once() -> None:
    tied = Weights.random(dataclasses.replace(CONFIG, tie_word_embeddings=True))
    assert tied.head is tied.embedding
    assert tied.params == Weights.empty(CONFIG).params - 64 * 32


def test_sequences_of_a_batch_do_not_see_each_other() -> None:
    weights = Weights.random(CONFIG, seed=3)
    prompts = np.random.default_rng(0).integers(64, size=(9, 7))
    together = Decoder(weights, batch=9).prefill(prompts)
    for row, prompt in enumerate(prompts):
        alone = Decoder(weights).prefill(prompt[None])
        assert np.allclose(alone[0], together[row], rtol=0, atol=1e-5 * np.abs(together).max())


def test_pretending_a_context_fills_the_cache() -> None:
    decoder = Decoder(Weights.random(CONFIG), max_tokens=32)
    decoder.pretend(31)
    first = decoder.decode([1]).copy()
    assert decoder.position == 32
    decoder.pretend(31)
    assert np.array_equal(first, decoder.decode([1]))
    decoder.pretend(0)
    assert not np.allclose(first, decoder.decode([1]))


def test_routing_by_hand() -> None:
    scores = np.log(np.array([[0.1, 0.2, 0.3, 0.4]], dtype=np.float32))
    config = dataclasses.replace(CONFIG, experts=4)
    none = np.empty(0, np.float32)
    experts, weights = route(scores.copy(), none, config)
    found = dict(zip(experts[0].tolist(), weights[0].tolist(), strict=True))
    assert found == {2: pytest.approx(3 / 7), 3: pytest.approx(4 / 7)}
    raw = dataclasses.replace(config, norm_topk_prob=False, routed_scaling_factor=2.0)
    experts, weights = route(scores.copy(), none, raw)
    found = dict(zip(experts[0].tolist(), weights[0].tolist(), strict=True))
    assert found == {2: pytest.approx(0.6), 3: pytest.approx(0.8)}


def test_the_bias_steers_the_choice_but_not_the_weights() -> None:
    config = dataclasses.replace(CONFIG, experts=4, scoring="sigmoid", experts_per_token=1)
    scores = np.zeros((1, 4), dtype=np.float32)
    scores[0, 2] = 1.0
    bias = np.array([0.0, 5.0, 0.0, 0.0], dtype=np.float32)
    raw = dataclasses.replace(config, norm_topk_prob=False)
    experts, weights = route(scores, bias, raw)
    assert experts.tolist() == [[1]]
    assert weights[0, 0] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"hidden_size": 0}, "hidden_size must be at least 1, not 0"),
        ({"experts_per_token": 0}, "experts_per_token must be at least 1"),
        ({"experts_per_token": 9}, "experts_per_token must be at most 8, not 9"),
        ({"heads": 3}, "kv_heads must divide heads = 3, not 2"),
        ({"head_dim": 7}, "head_dim must be even, not 7"),
        ({"first_dense_layers": 3}, "first_dense_layers must be within 0 to 2 layers, not 3"),
        ({"first_dense_layers": 1}, "intermediate_size must be at least 1"),
        ({"expert_groups": 3}, "expert_groups must divide experts = 8, not 3"),
        ({"groups_per_token": 2}, "groups_per_token must be at most 1, not 2"),
        ({"scoring": "tanh"}, "unknown router scoring 'tanh'"),
    ],
)
def test_a_config_that_cannot_be_is_refused(change: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        dataclasses.replace(CONFIG, **change)


def test_the_decoder_refuses_what_it_cannot_read() -> None:
    weights = Weights.random(CONFIG)
    decoder = Decoder(weights, batch=2, max_tokens=4)
    for tokens, says in (
        ([1, 64], "token 64 is outside the vocabulary of 64"),
        ([-1, 0], "integers from 0"),
        ([0.5, 0], "integers from 0"),
    ):
        with pytest.raises(InputError, match=says):
            decoder.decode(tokens)
    for shape in ((1, 3), (2, 0), (2,)):
        with pytest.raises(InputError, match="expected a prompt of shape"):
            decoder.prefill(np.zeros(shape, int))
    with pytest.raises(InputError, match="expected 2 tokens, got 3"):
        decoder.decode([1, 2, 3])
    decoder.prefill(np.zeros((2, 4), int))
    with pytest.raises(InputError, match=r"holds 4 tokens; 4 \+ 1 do not fit"):
        decoder.decode([0, 0])
    with pytest.raises(InputError, match="do not fit in a cache of 4"):
        decoder.pretend(5)
    with pytest.raises(InputError, match="batch must be at least 1"):
        Decoder(weights, batch=0)


def test_reading_kernels_read_everything() -> None:
    memory = buffer(20e6)
    assert memory.nbytes == pytest.approx(20e6, rel=0.5)
    memory[-1, -1, -1] = np.nan
    with ThreadPoolExecutor(2) as pool:
        kernels = read_kernels(memory, pool)
        assert len(kernels) == 5
        for name, kernel in kernels.items():
            assert np.isnan(np.asarray(kernel())).any(), name
