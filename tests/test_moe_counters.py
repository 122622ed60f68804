"""What the decoder counts: closed forms written out here, the cost model, and the chain."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archinfer.calibration.moe import Counters, Decoder, MoEConfig, Weights
from archinfer.models.shape import DENSE_CHAIN
from archinfer.physics.workload import Traffic, Workload

DENSE = MoEConfig(
    vocab_size=70,
    hidden_size=20,
    layers=3,
    heads=6,
    kv_heads=2,
    head_dim=4,
    intermediate_size=28,
)
MOE = dataclasses.replace(
    DENSE, intermediate_size=0, moe_intermediate_size=12, experts=8, experts_per_token=3
)
MIXED = dataclasses.replace(
    MOE,
    layers=4,
    first_dense_layers=2,
    intermediate_size=36,
    shared_experts=1,
    qk_norm=True,
    scoring="sigmoid",
    tie_word_embeddings=True,
)
MODELS = {"dense": DENSE, "moe": MOE, "mixed": MIXED}


@st.composite
def configs(draw: st.DrawFn) -> MoEConfig:
    """Any small model."""
    kv_heads = draw(st.integers(1, 3))
    groups = draw(st.integers(1, 3))
    in_group = draw(st.integers(2, 4))
    kept = draw(st.integers(1, groups))
    layers = draw(st.integers(1, 3))
    return MoEConfig(
        vocab_size=draw(st.integers(2, 40)),
        hidden_size=draw(st.integers(1, 24)),
        layers=layers,
        heads=kv_heads * draw(st.integers(1, 3)),
        kv_heads=kv_heads,
        head_dim=2 * draw(st.integers(1, 5)),
        intermediate_size=draw(st.integers(1, 20)),
        moe_intermediate_size=draw(st.integers(1, 20)),
        experts=draw(st.sampled_from([0, groups * in_group])),
        experts_per_token=draw(st.integers(1, kept * in_group)),
        shared_experts=draw(st.integers(0, 2)),
        first_dense_layers=draw(st.integers(0, layers)),
        scoring=draw(st.sampled_from(["softmax", "sigmoid"])),
        norm_topk_prob=draw(st.booleans()),
        expert_groups=groups,
        groups_per_token=kept,
        qk_norm=draw(st.booleans()),
        tie_word_embeddings=draw(st.booleans()),
    )


def one_step(config: MoEConfig, batch: int, context: int) -> Counters:
    """Counts of the decode step that sees `context` tokens, its own included."""
    decoder = Decoder(Weights.random(config, seed=1), batch, max_tokens=context)
    rng = np.random.default_rng(0)
    if context > 1:
        decoder.prefill(rng.integers(config.vocab_size, size=(batch, context - 1)))
    count = Counters()
    decoder.decode(rng.integers(config.vocab_size, size=batch), count)
    return count


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("batch", "context"), [(1, 1), (1, 9), (4, 6), (9, 3)])
def test_a_decode_step_counts_its_closed_form(name: str, batch: int, context: int) -> None:
    c = MODELS[name]
    count = one_step(c, batch, context)
    q, kv = c.heads * c.head_dim, c.kv_heads * c.head_dim
    numbers, macs = 0, 0
    hits = iter(count.experts_hit)
    for layer in range(c.layers):
        attention = c.hidden_size * q + 2 * c.hidden_size * kv + q * c.hidden_size
        numbers += attention + 2 * c.hidden_size + (2 * c.head_dim if c.qk_norm else 0)
        macs += attention + 2 * q * context
        if c.experts and layer >= c.first_dense_layers:
            expert = 3 * c.hidden_size * c.moe_intermediate_size
            numbers += c.hidden_size * c.experts
            numbers += (next(hits) + c.shared_experts) * expert
            macs += c.hidden_size * c.experts + (c.experts_per_token + c.shared_experts) * expert
        else:
            numbers += 3 * c.hidden_size * c.intermediate_size
            macs += 3 * c.hidden_size * c.intermediate_size
    numbers += c.hidden_size + c.vocab_size * c.hidden_size + batch * c.hidden_size
    macs += c.vocab_size * c.hidden_size
    total = count.total
    assert total.weight_bytes == 4 * numbers
    assert total.flops == 2 * batch * macs
    assert total.kv_read_bytes == batch * context * c.layers * 2 * kv * 4
    assert total.kv_write_bytes == batch * c.layers * 2 * kv * 4
    moved = batch * c.moe_layers * c.experts_per_token * c.hidden_size * 4
    assert total.dispatch_bytes == 2 * moved
    assert count.expert_calls == sum(count.experts_hit)
    assert count.tokens == batch


@settings(max_examples=60, deadline=None)
@given(configs(), st.integers(1, 9), st.integers(1, 12))
def test_a_decode_step_equals_the_cost_model_to_the_byte(
    config: MoEConfig, batch: int, context: int
) -> None:
    count = one_step(config, batch, context)
    hit = sum(count.experts_hit) / config.moe_layers if config.moe_layers else None
    predicted = Workload(config.shape(), Traffic(context, 1, 32, None, 32)).work(batch, hit)
    for quantity in ("weight_bytes", "kv_read_bytes", "kv_write_bytes", "flops"):
        # Half a byte: the mean of the experts hit is not an exact binary fraction.
        assert abs(getattr(predicted, quantity) - getattr(count.total, quantity)) < 0.5, quantity


@settings(max_examples=30, deadline=None)
@given(configs(), st.integers(1, 12))
def test_one_token_hits_as_many_experts_as_the_cost_model_says(
    config: MoEConfig, context: int
) -> None:
    count = one_step(config, 1, context)
    predicted = Workload(config.shape(), Traffic(context, 1, 32, None, 32)).work(1)
    assert predicted.weight_bytes == pytest.approx(count.total.weight_bytes, rel=1e-12)
    assert count.experts_hit == [config.experts_per_token] * config.moe_layers


@settings(max_examples=60, deadline=None)
@given(configs())
def test_stored_parameters_equal_the_cost_model(config: MoEConfig) -> None:
    assert Weights.empty(config).params == config.shape().total_params


def test_prefill_reads_weights_once_per_pass_and_the_head_once() -> None:
    weights = Weights.random(DENSE, seed=0)
    count = Counters()
    Decoder(weights, batch=2, max_tokens=12, pass_tokens=8).prefill(np.zeros((2, 11), int), count)
    layers = sum(array.nbytes for layer in weights.layers for _, array in layer.named())
    rows = 2 * 11 * DENSE.hidden_size * 4
    once = weights.head.nbytes + weights.final_norm.nbytes
    assert count.total.weight_bytes == 3 * layers + rows + once
    # Passes of 4, 4 and 3 tokens see 4, 8 and 11 cached ones.
    numbers = 2 * DENSE.kv_heads * DENSE.head_dim * DENSE.layers * 2
    assert count.total.kv_read_bytes == 4 * numbers * (4 + 8 + 11)
    assert count.total.kv_write_bytes == 4 * numbers * 11
    assert count.tokens == 22


@pytest.mark.parametrize("batch", [1, 5])
def test_the_chain_of_dependent_reductions(batch: int) -> None:
    assert one_step(DENSE, batch, 4).chain_lengths == [DENSE_CHAIN] * 3 == [10] * 3
    assert one_step(MOE, batch, 4).chain_lengths == [12] * 3
    assert one_step(MIXED, batch, 4).chain_lengths == [11, 11, 13, 13]
    assert one_step(MIXED, batch, 4).chain_length == 13


@settings(max_examples=20, deadline=None)
@given(configs(), st.integers(1, 3))
def test_the_counted_chain_is_the_shapes(config: MoEConfig, batch: int) -> None:
    expected = [
        group.reductions for group in config.shape().groups for _ in range(int(group.count))
    ]
    assert one_step(config, batch, 3).chain_lengths == expected


def test_the_head_ends_in_three_reductions() -> None:
    count = Counters()
    Decoder(Weights.random(MOE)).greedy([[1, 2]], 2, count)
    assert count.head_chain == 3


def test_chains_follow_the_data_and_not_the_order_of_calls() -> None:
    count = Counters()
    a, b, c, d = (np.zeros(4) for _ in range(4))
    count.operation("x", b, (a,), reductions=1)
    count.operation("x", c, (a,), reductions=2)
    count.operation("x", d[:2], (b, c), reductions=1)
    assert [count.depth(array) for array in (a, b, c, d)] == [0, 1, 2, 3]
    count.elementwise(d, a)
    assert count.depth(d) == 0


def test_counting_changes_no_result() -> None:
    weights = Weights.random(MIXED, seed=2)
    plain, counted = Decoder(weights, 2), Decoder(weights, 2)
    prompt = np.arange(6).reshape(2, 3)
    assert np.array_equal(plain.prefill(prompt), counted.prefill(prompt, Counters()))
