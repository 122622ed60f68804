"""Architectures: closed forms, properties, validation, chains of reductions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archinfer import catalogue
from archinfer.errors import InputError, UnknownNameError
from archinfer.models.architecture import Architecture
from archinfer.models.formats import KV_FORMATS, WEIGHT_FORMATS, kv_format, weight_format
from archinfer.models.layers import (
    COMPONENTS,
    Attention,
    DenseMLP,
    FeedForward,
    GatedDelta,
    Indexer,
    KimiDelta,
    LatentAttention,
    LayerBlock,
    Lightning,
    Mamba1,
    Mamba2,
    Mixer,
    MoE,
    Piece,
    ShortConv,
    Sublayer,
    group_layers,
)
from archinfer.models.shape import DENSE_CHAIN
from archinfer.physics.workload import Traffic, Workload


def held_bytes(model: Architecture, context: int) -> float:
    """What the cost model stores for one sequence in 16 bits."""
    return float(Workload(model.shape(), Traffic(context)).memory.kv)


def small(*blocks: LayerBlock, **fields: Any) -> Architecture:
    fields = {"hidden_size": 64, "vocab_size": 100, **fields}
    return Architecture("small", blocks, **fields)


DENSE = LayerBlock.of(2, Attention(8, 2, 16), DenseMLP(96))


def test_a_dense_model_by_hand() -> None:
    counts = small(DENSE).parameters()
    assert counts.by_component == {
        "embedding": 6400,
        "attention": 2 * (64 * 128 + 2 * 64 * 32 + 128 * 64),
        "dense_mlp": 2 * 3 * 64 * 96,
        "norm": 2 * 2 * 64 + 64,
        "lm_head": 6400,
    }
    assert counts.active == counts.total


def test_biases_norms_sinks_and_gates_by_hand() -> None:
    plain = Attention(8, 2, 16)
    base = sum(p.count for p in plain.pieces(64))

    def extra(**changes: Any) -> int:
        return sum(p.count for p in Attention(8, 2, 16, **changes).pieces(64)) - base

    assert extra(qkv_bias=True) == 128 + 32 + 32
    assert extra(o_bias=True) == 64
    assert extra(qk_norm="head") == 2 * 16
    assert extra(qk_norm="projection") == 128 + 32
    assert extra(qk_norm="unweighted") == 0
    assert extra(sinks=True) == 8
    assert extra(gate="full") == 64 * 128
    assert extra(gate="head") == 64 * 8
    assert extra(v_head_dim=8) == -(64 * 2 * 8) - 8 * 8 * 64
    assert extra(values_from_keys=True) == -64 * 32
    assert extra(borrows_cache=True) == -2 * 64 * 32


def test_multiply_accumulates_of_all_query_heads() -> None:
    (cache,) = Attention(8, 2, 16, v_head_dim=24).caches()
    assert cache.values_per_token == 2 * (16 + 24)
    assert cache.macs_per_token == 8 * (16 + 24)
    (latent,) = LatentAttention(16, 512, 128, 64, 128).caches()
    assert latent.values_per_token == 576
    assert latent.macs_per_token == 16 * (576 + 512)


def test_sparse_attention_reads_what_its_indexer_picks() -> None:
    model = catalogue.load("deepseek-v3.2")
    main, keys = model.shape().groups[0].caches
    assert main.read_tokens == 2048
    assert (keys.values_per_token, keys.macs_per_token) == (128, 64 * 128)
    assert keys.read_tokens == float("inf")


# Chains


@pytest.mark.parametrize(
    ("mixer", "feed_forward", "length"),
    [
        (Attention(8, 2, 16), DenseMLP(96), DENSE_CHAIN),
        (Attention(8, 2, 16, qk_norm="head"), DenseMLP(96), 11),
        (Attention(8, 2, 16), MoE(8, 2, 32), 12),
        (LatentAttention(8, 32, 16, 8, 16, query_rank=24), DenseMLP(96), 14),
        (LatentAttention(8, 32, 16, 8, 16, query_rank=24), MoE(8, 2, 32, shared_width=32), 16),
        (LatentAttention(8, 32, 16, 8, 16), DenseMLP(96), 12),
        (Mamba2(8, 16, 16, 2, 4), None, 5),
        (None, DenseMLP(96, 2), 3),
    ],
)
def test_length_of_the_chain(
    mixer: Mixer | None, feed_forward: FeedForward | None, length: int
) -> None:
    block = LayerBlock.of(1, mixer, feed_forward)
    assert block.reductions == len(block.steps) == length


def test_the_dense_chain_step_by_step() -> None:
    assert DENSE.steps == (
        "norm", "QKV projection", "scores", "softmax maximum", "softmax sum", "attention output",
        "output projection", "norm", "up and gate projection", "down projection",
    )  # fmt: skip


def test_longcat_waits_for_two_attentions_and_two_dense_feed_forwards() -> None:
    (block,) = catalogue.load("longcat-flash").blocks
    assert block.reductions == 2 * 14
    assert "router" not in block.steps


# Properties


SMALL = st.integers(1, 8)


@st.composite
def mixers(draw: st.DrawFn) -> Mixer | None:
    kv = draw(SMALL)
    kind = draw(st.sampled_from(("gqa", "mla", "delta", "kda", "light", "m1", "m2", "conv", "no")))
    match kind:
        case "gqa":
            return Attention(
                kv * draw(SMALL), kv, 8 * draw(SMALL),
                qkv_bias=draw(st.booleans()), o_bias=draw(st.booleans()),
                qk_norm=draw(st.sampled_from(("none", "head", "projection"))),
                gate=draw(st.sampled_from(("none", "full", "head"))), sinks=draw(st.booleans()),
                window=draw(st.none() | st.integers(1, 4096)),
            )  # fmt: skip
        case "mla":
            rank = draw(st.none() | SMALL)
            indexer = draw(st.none() | st.builds(Indexer, SMALL, SMALL, SMALL, st.just(64)))
            return LatentAttention(kv, 16, 8, 4, 8, query_rank=rank, indexer=indexer)
        case "delta":
            return GatedDelta(kv, 8, kv * draw(SMALL), 8, 4)
        case "kda":
            return KimiDelta(kv, 8, 4, draw(st.booleans()))
        case "light":
            return Lightning(kv, 8)
        case "m1":
            return Mamba1(16 * kv, 8, 4, 8, inner_norms=draw(st.booleans()))
        case "m2":
            return Mamba2(kv * draw(SMALL), 8, 8, kv, 4)
        case "conv":
            return ShortConv(8 * kv, 3)
    return None


@st.composite
def feed_forwards(draw: st.DrawFn) -> FeedForward:
    matrices = draw(st.sampled_from((2, 3)))
    if draw(st.booleans()):
        return DenseMLP(draw(SMALL) * 16, matrices, draw(st.booleans()))
    experts = draw(st.integers(1, 512))
    return MoE(
        experts, draw(st.integers(1, experts)), draw(SMALL) * 16, matrices=matrices,
        bias=draw(st.booleans()), router_bias=draw(st.booleans()),
        latent=draw(st.none() | SMALL), shared_width=draw(st.integers(0, 64)),
        shared_gate=draw(st.booleans()),
    )  # fmt: skip


@st.composite
def architectures(draw: st.DrawFn) -> Architecture:
    blocks = draw(
        st.lists(
            st.builds(LayerBlock.of, st.integers(1, 100), mixers(), feed_forwards()),
            min_size=1,
            max_size=4,
        )
    )
    return Architecture(
        "drawn", tuple(blocks), 64 * draw(SMALL), draw(st.integers(1, 300_000)),
        tied=draw(st.booleans()), head_bias=draw(st.booleans()),
    )  # fmt: skip


@given(architectures())
@settings(max_examples=150)
def test_the_shape_has_exactly_the_architectures_totals(model: Architecture) -> None:
    shape, counts = model.shape(), model.parameters()
    assert shape.total_params == counts.total
    assert shape.active_params == counts.active
    assert sum(counts.by_component.values()) == counts.total
    assert set(counts.by_component) <= set(COMPONENTS)
    assert counts.active <= counts.total
    assert shape.layers == model.layers


@given(architectures(), st.integers(1, 10**5))
@settings(max_examples=100)
def test_the_cache_never_shrinks_and_grows_at_the_stated_rates(
    model: Architecture, context: int
) -> None:
    step = held_bytes(model, context + 1) - held_bytes(model, context)
    slow = model.kv_bytes_per_token_past_windows() + model.indexer_bytes_per_token()
    fast = model.kv_bytes_per_token() + model.indexer_bytes_per_token()
    near = 1e-9 * held_bytes(model, context)
    assert slow - near <= step <= fast + near
    far = held_bytes(model, 10**7)
    assert far == pytest.approx(
        slow * 10**7 + model.kv_window_bytes_max() + model.state_bytes(), rel=1e-12
    )


@given(architectures(), st.sampled_from(sorted(WEIGHT_FORMATS)))
@settings(max_examples=100)
def test_bytes_lie_between_all_narrow_and_all_wide(model: Architecture, name: str) -> None:
    bits = weight_format(name).bits
    total = model.parameters().total
    assert total * bits / 8 <= model.weight_bytes(name) * (1 + 1e-12)
    assert model.weight_bytes(name) <= total * max(bits, 16) / 8 * (1 + 1e-12)


def test_zero_experts_count_by_the_average() -> None:
    moe = MoE(6, 3, 32, zero_experts=3)
    assert moe.experts_per_token == 2
    model = small(LayerBlock.of(1, None, moe))
    counts = model.parameters()
    assert counts.total - counts.active == 4 * 3 * 64 * 32


def test_unread_table_rows_are_not_active() -> None:
    model = small(DENSE, outside=(Piece("ngram_table", 5000),), unread=4900)
    counts = model.parameters()
    assert counts.total - counts.active == 4900
    assert model.shape().active_params == counts.active


def test_equal_layers_are_merged_in_order() -> None:
    one = LayerBlock.of(1, Attention(8, 2, 16), DenseMLP(96))
    other = LayerBlock.of(1, Attention(8, 2, 16, window=8), DenseMLP(96))
    merged = group_layers([other, one, other, one, one])
    assert [b.count for b in merged] == [2, 3]
    assert merged[0].parts == other.parts


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Attention(8, 3, 16), "3 key-value heads do not divide 8"),
        (lambda: Attention(0, 1, 16), "attention heads"),
        (lambda: Attention(8, 2, -16), "head_dim"),
        (lambda: Attention(8, 2, 16, window=0), "window"),
        (lambda: MoE(8, 9, 32), "cannot use 9 experts of 8"),
        (lambda: MoE(8, 0, 32), "experts per token"),
        (lambda: MoE(8, 2, 2**40), "expert width"),
        (lambda: DenseMLP(0), "feed-forward width"),
        (lambda: LayerBlock.of(0, None, DenseMLP(8)), "layers"),
        (lambda: small(), "at least one layer"),
        (lambda: small(DENSE, hidden_size=2**30), "hidden_size"),
        (lambda: small(DENSE, vocab_size=0), "vocab_size"),
        (lambda: GatedDelta(3, 8, 4, 8, 4), "do not divide"),
        (lambda: Mamba2(3, 8, 8, 2, 4), "do not divide"),
        (
            lambda: small(LayerBlock.of(9999, None, MoE(2**20, 1, 2**20))),
            "more than any model has",
        ),
    ],
)
def test_what_cannot_be_built_is_refused(build: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        build()


def test_layer_norms_with_bias_count_twice() -> None:
    one = sum(p.count for p in Sublayer(DenseMLP(8)).pieces(64))
    two = sum(p.count for p in Sublayer(DenseMLP(8), norm_vectors=2).pieces(64))
    assert two - one == 64


# Formats


def test_bits_include_the_scales() -> None:
    bits = {name: f.bits for name, f in WEIGHT_FORMATS.items()}
    assert bits["mxfp4"] == 4.25
    assert bits["nvfp4"] == 4.5
    assert bits["mxfp8"] == 8.25
    assert bits["int4"] == 4.5
    assert bits["int4-g128"] == 4.125
    assert bits["fp8-block"] == 8 + 32 / 16384
    assert {n: f.bits for n, f in KV_FORMATS.items()}["fp8"] == 8


def test_unknown_format_carries_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="fp3") as caught:
        weight_format("fp3")
    assert caught.value.nearest in ("fp8", "fp32")
    with pytest.raises(UnknownNameError):
        kv_format("fp3")
    assert weight_format(" BF16 ") is WEIGHT_FORMATS["bf16"]
