"""GPUs and the like: closed forms, published speeds, and what more nodes can and cannot do."""

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archinfer.errors import InputError, UnknownNameError
from archinfer.fitting import observations, serving
from archinfer.fitting.fit import fit_rows, without_model
from archinfer.fitting.pooled import compared
from archinfer.forward.predict import predict
from archinfer.hardware.profile import Hardware
from archinfer.models.catalogue import load
from archinfer.models.shape import DENSE_CHAIN, Cache, LayerGroup, ModelShape
from archinfer.models.solver_family import FamilyRules, family_shape
from archinfer.physics.decode import decode_time
from archinfer.physics.deployment import Deployment
from archinfer.physics.mapping import GROUP_MOST, Layout, Placement, group_sizes, read_layout
from archinfer.physics.memory import memory_fraction, node_share
from archinfer.physics.nodegroup import (
    KERNEL_WIDTH,
    busiest_experts,
    node_group,
    payload_s,
    peak_flops_for,
    sync_latency_s,
    unpack_s_per_weight,
)
from archinfer.physics.speed import software_speed
from archinfer.physics.temporal import temporal_time
from archinfer.physics.workload import Traffic, Workload
from tests.cli import run

A100 = Hardware.load("a100-80gb")
B200 = Hardware.load("b200")
GB200 = Hardware.load("gb200-nvl72")


def speed(
    model: str, hardware: Hardware, nodes: int, accepted: float = 1.0, **asked: object
) -> float:
    """Central tokens/s of one user on one tensor-parallel group of `nodes`."""
    deployment = Deployment(
        nodes=nodes,
        layout=Layout(nodes),
        accepted_low=accepted,
        accepted_high=accepted,
        **asked,  # type: ignore[arg-type]
    )
    found = predict(load(model), hardware, deployment, changes=False)
    assert found.fits
    return float(found.speed[1])


@pytest.mark.parametrize(
    ("model", "nodes", "weights", "measured"),
    [
        ("llama-2-7b", 1, "bf16", 104.9),
        ("llama-2-7b", 2, "bf16", 168.84),
        ("llama-2-7b", 4, "bf16", 254.02),
        ("llama-2-7b", 8, "bf16", 328.43),
        ("llama-2-70b", 2, "bf16", 21.32),
        ("llama-2-70b", 1, "int4", 25.25),
    ],
)
def test_gpt_fast_on_a100(model: str, nodes: int, weights: str, measured: float) -> None:
    found = speed(model, A100, nodes, weights=weights, context_tokens=200)
    assert found == pytest.approx(measured, rel=0.15)


def test_a100_rows_predicted_without_their_model() -> None:
    rows = [r for r in observations.load() if r.profile == "a100-80gb" and r.fitted]
    fit, cases = fit_rows(A100, rows)
    fits: dict[tuple[float, ...], object] = {}
    errors = []
    for case in cases:
        if case.row.software is not None or case.row.speculative:
            continue
        alone = fits.setdefault(case.model_key, without_model(fit, cases, case))
        median = float(np.median(alone.draws(case, 1000, 1)))  # type: ignore[attr-defined]
        errors.append(math.exp(abs(case.log_speed - median)) - 1.0)
    assert len(errors) == 6
    assert float(np.median(errors)) <= 0.15


def test_sixteen_gpus_in_two_servers_are_slower_than_eight() -> None:
    """SGLang (WaferLLM, Table 4): 164.6 against 260.4 for 8B, 48.7 against 51.2 for 72B."""
    for model, published in (("llama-3.1-8b", 164.6 / 260.4), ("qwen2-72b", 48.7 / 51.2)):
        eight, sixteen = (speed(model, A100, n, context_tokens=4096) for n in (8, 16))
        assert sixteen < eight
        assert sixteen / eight == pytest.approx(published, rel=0.15)


def test_deepseek_r1_on_8_b200_and_what_drafts_gain() -> None:
    """TensorRT-LLM, NVFP4, March 2025: 111 tokens/s, and 198, 250, 253, 239 with 1, 2, 3, 5
    drafts. Engines of 2026 take 7.19 ms a token at four users and as many GPUs."""

    def one(drafts: int, accepted: float) -> float:
        asked = {"weights": "nvfp4", "context_tokens": 3000, "draft_tokens": drafts}
        return speed("deepseek-v3", B200, 8, accepted, **asked)

    found = [one(*d) for d in ((0, 1.0), (1, 1.92), (2, 2.58), (3, 2.82), (5, 3.01))]
    measured = [111.0, 198.0, 250.0, 253.0, 239.0]
    assert found[0] == pytest.approx(1.0 / 7.19e-3, rel=0.15)
    # Two, three and five drafts were within 6 % of each other.
    assert found[0] < found[1] < min(found[2:])
    assert found[4] < found[3]
    gains = np.array(found) / found[0]
    assert gains == pytest.approx(np.array(measured) / 111.0, rel=0.13)


def test_no_number_of_gpus_beats_the_latency_floor() -> None:
    for hardware in (A100, B200, GB200):
        for model in ("llama-3.1-70b", "deepseek-v3"):
            shape = load(model).shape()
            endless = dataclasses.replace(hardware, bandwidth_bytes_per_s=1e30)
            groups = 2.0 ** np.arange(1.0, 8.0)
            mapping = Placement(float(shape.layers), groups)
            traffic = Traffic(2000, 1, 8.0)
            real = decode_time(hardware, Workload(shape, traffic), mapping).total
            floor = decode_time(endless, Workload(shape, traffic), mapping).total
            assert (np.asarray(real) > np.asarray(floor)).all()
            least = float(sync_latency_s(hardware, 2.0)) * hardware.reductions_per_layer
            bound = float(shape.layers) * (least + hardware.fixed_time_per_layer_s)
            assert float(np.min(floor)) >= bound


def test_terms_by_hand() -> None:
    g = 8.0
    shape = ModelShape(
        (LayerGroup(10, 1e9, caches=(Cache(2048.0, shards=4),), reductions=20),),
        4096,
        head_params=5e8,
    )
    time = temporal_time(A100, Workload(shape, Traffic(1000, 1, 16.0)), Placement(10.0, g))
    rate = A100.bandwidth_bytes_per_s * A100.bandwidth_efficiency
    assert time.weights == pytest.approx(10 * 2e9 / (rate * g))
    assert time.head == pytest.approx(1e9 / (rate * g))
    each = float(sync_latency_s(A100, g)) + 7 * 4096 * 2 / (300e9 * A100.network_efficiency)
    assert time.reductions == pytest.approx(10 * A100.reductions_per_layer * each)
    # Eight nodes split a quarter of the width of a dense layer.
    width = (1.0 + 4096 * (1.0 - 0.25 * 7 / 8) / KERNEL_WIDTH) / 2.0
    fixed = 10 * 2 * A100.fixed_time_per_layer_s * width + A100.fixed_time_per_token_s
    assert time.fixed == pytest.approx(fixed + A100.fixed_time_per_sequence_s)
    kv_rate = A100.bandwidth_bytes_per_s * A100.kv_bandwidth_efficiency
    assert time.kv == pytest.approx(10 * 1000 * 2048 * 2 / (kv_rate * 4))
    assert time.links == time.compute == time.draft == time.queue == 0.0


def test_a_layer_with_experts_takes_more_kernels() -> None:
    dense = LayerGroup(1, 1e9)
    routed = LayerGroup(1, 1e9, routed_params=1e9, experts=8.0, experts_per_token=2.0)
    times = [
        temporal_time(
            B200, Workload(ModelShape((g,), 4096), Traffic(1000)), Placement(1.0, 8.0)
        ).fixed
        - B200.fixed_time_per_token_s
        - B200.fixed_time_per_sequence_s
        for g in (dense, routed)
    ]
    kernels = 1.0 + B200.routed_kernels / DENSE_CHAIN
    split, whole = (1.0 + w * 4096 / KERNEL_WIDTH for w in (1.0 - 0.25 * 7 / 8, 1.0))
    assert times[1] / times[0] == pytest.approx(kernels * whole / split)
    old = B200.with_constants({"routed_kernels": math.nan, "routed_layer_factor": 3.0})
    alone = temporal_time(
        old, Workload(ModelShape((routed,), 4096), Traffic(1000)), Placement(1.0, 8.0)
    ).fixed
    each = old.fixed_time_per_token_s + old.fixed_time_per_sequence_s
    assert alone - each == pytest.approx(3.0 * old.fixed_time_per_layer_s)


def test_kernels_are_counted() -> None:
    """Latent attention has four more than grouped queries, 4-bit experts run fused."""
    one = ModelShape((LayerGroup(1, 1e9),), KERNEL_WIDTH)
    on = node_group(B200, Workload(one, Traffic(1000)), Placement(1.0, 1.0))
    each = B200.fixed_time_per_layer_s / DENSE_CHAIN
    none, some = np.array(False), np.array(True)
    for model, bits, expected in (
        ("llama-3.1-70b", 16.0, 10.0),
        ("qwen3-32b", 16.0, 10.0),
        ("deepseek-v3", 8.0, 16.0 + B200.routed_kernels),
        ("deepseek-v3", 4.5, 17.0 + 0.1 * B200.routed_kernels),
        ("gpt-oss-120b", 8.0, 12.0 + B200.routed_kernels),
    ):
        group = load(model).shape().groups[-1]
        asked = dataclasses.replace(on, traffic=Traffic(1000, weight_bits=bits))
        routed = some if group.routed_params else none
        assert float(asked.kernels_s(group, routed)[0]) / each == pytest.approx(expected), model


def test_payload_of_an_all_reduce() -> None:
    payload = 1e6
    assert payload_s(A100, 1.0, payload) == 0.0
    in_rings = A100.with_constants({"network_efficiency": math.nan})
    assert payload_s(in_rings, 2.0, payload) == pytest.approx(payload / 300e9)
    within = 2 * (7 / 8) * payload / 300e9
    assert payload_s(in_rings, 8.0, payload) == pytest.approx(within)
    across = 2 * (1 / 2) * payload / (8 * 25e9)
    assert payload_s(in_rings, 16.0, payload) == pytest.approx(within + across)
    in_one_step = 7 * payload / (300e9 * A100.network_efficiency)
    assert payload_s(A100, 8.0, payload) == pytest.approx(in_one_step)
    assert payload_s(A100, 8.0, payload, in_rings=True) == pytest.approx(within)
    # More nodes send as rings of as many bytes do: 8 (1 - 1/g).
    assert payload_s(GB200, 64.0, payload) == pytest.approx(
        8 * (63 / 64) * payload / (900e9 * GB200.network_efficiency)
    )
    assert payload_s(Hardware.load("liminal-hbm3"), 8.0, payload) == 0.0


def test_a_table_beyond_the_domain_includes_its_crossings() -> None:
    lpu = Hardware.load("groq-lpu-v1")
    assert lpu.scale_up_size == 8.0
    # Out and back in a system of 10,440 chips, less in a smaller one: Abts et al., ISCA 2022.
    between = 2e-6 + 4e-6 * math.log(576 / 8) / math.log(10_440 / 8)
    assert float(sync_latency_s(lpu, 576.0)) == pytest.approx(between)
    assert float(sync_latency_s(lpu, 10_440.0)) == pytest.approx(6e-6)
    two = 6e-6 + 2 * 2 * lpu.link_latency_s
    assert float(sync_latency_s(lpu, 4 * 10_440.0)) == pytest.approx(two)
    sixteen = float(sync_latency_s(A100, 8.0)) + 2 * A100.link_latency_s
    assert float(sync_latency_s(A100, 16.0)) == pytest.approx(sixteen)


def test_a_layer_that_takes_many_chips_finds_a_group() -> None:
    """Kimi K2: 1.03 TB over 61 layers are 17 GB each, 82 chips of 207 MB, so 128 of them."""
    lpu = Hardware.load("groq-lpu-v1")
    found = predict(load("kimi-k2"), lpu, changes=False)
    assert found.fits
    assert float(found.mapping.tensor_parallel) == 128.0
    assert found.nodes_used == 61 * 128


SHARING = [h.name for h in map(Hardware.load, Hardware.names()) if not (h.spatial or h.alone)]


@pytest.mark.parametrize("name", SHARING)
def test_the_widest_group_that_is_tried_is_wide_enough(name: str) -> None:
    """The slowest reads there are gain nothing from twice the nodes at the limit."""
    hardware, shape = Hardware.load(name), load("llama-3.1-405b").shape()
    groups = 2.0 ** np.arange(0.0, np.log2(GROUP_MOST) + 1.0)
    total = temporal_time(
        hardware, Workload(shape, Traffic(8000, 1, 16.0)), Placement(126.0, groups)
    ).total
    assert groups[int(np.argmin(total))] <= 1024.0


def test_narrow_weights_run_at_their_own_peak_or_are_unpacked() -> None:
    assert peak_flops_for(B200, np.array([16.0, 8.0, 4.5])).tolist() == [2.25e15, 4.5e15, 9e15]
    assert unpack_s_per_weight(B200, np.array([16.0, 8.0, 4.5])).tolist() == [0.0, 0.0, 0.0]
    # The A100's tensor cores take neither: two instructions at half of 19.5 TFLOP/s.
    assert peak_flops_for(A100, np.array([16.0, 8.0, 4.5])).tolist() == [312e12] * 3
    found = unpack_s_per_weight(A100, np.array([16.0, 8.0, 4.5]))
    assert found == pytest.approx([0.0, 2 / 9.75e12, 2 / 9.75e12])
    assert unpack_s_per_weight(Hardware.load("h100-sxm"), 4.5) > 0.0


def test_integers_are_widened_where_floats_of_as_many_bits_are_not() -> None:
    model = load("llama-3.1-70b")
    wide = tuple((name, peak) for name, peak in B200.peaks_flops if name in ("fp32", "bf16"))
    older = dataclasses.replace(B200, peaks_flops=wide)

    def seconds(hardware: Hardware, weights: str) -> float:
        asked = Deployment(weights=weights, layout=Layout(2))
        return float(predict(model, hardware, asked, changes=False).time.total)

    for integers, floats in (("int4", "nvfp4"), ("int8", "fp8")):
        assert seconds(B200, integers) == pytest.approx(seconds(older, floats), rel=1e-12)
        assert seconds(B200, floats) < 0.9 * seconds(B200, integers)


def test_busiest_node_holds_its_share() -> None:
    """Engines with whole experts are as fast as the mean load says, which they balance."""
    for hit, group in ((8, 8), (64, 8), (200, 64), (256, 72)):
        assert busiest_experts(hit, group) == pytest.approx(hit / group)
    assert busiest_experts(4.0, 8.0) == 1.0
    assert busiest_experts(1.0, 8.0) == 1.0
    assert busiest_experts(8.0, 1.0) == 8.0


def test_whole_experts_pay_for_large_batches_only() -> None:
    shape = load("deepseek-v3").shape()

    def total(users: int, whole: bool | None) -> float:
        mapping = Placement(61.0, 64.0, whole)
        time = decode_time(GB200, Workload(shape, Traffic(1000, users, 8.0)), mapping)
        return float(time.total)

    assert total(1, True) > total(1, False) == total(1, None)
    assert total(4096, False) > total(4096, True) == total(4096, None)


def test_tokens_go_out_to_whole_experts_and_back() -> None:
    """2,000 more users: bytes that a node sends for the attention, and both ways for k experts."""
    g, k, more = 64, 4, 2000
    hardware = GB200.with_constants({"reductions_per_layer": 2.0, "network_efficiency": math.nan})
    shape = load("gpt-oss-120b").shape()

    def reductions(users: int) -> float:
        mapping = Placement(36.0, float(g), True)
        return float(
            temporal_time(hardware, Workload(shape, Traffic(1000, users)), mapping).reductions
        )

    vectors = more / g * (g - 1) * (2 + 2 * k / g)
    sent = 36 * vectors * 2880 * 2 / hardware.scale_up_bandwidth_bytes_per_s
    assert reductions(4000) - reductions(2000) == pytest.approx(sent)


def test_a_latent_cache_is_read_whole_by_each_node() -> None:
    def kv(model: str, group: float) -> float:
        shape = load(model).shape()
        mapping = Placement(float(shape.layers), group)
        return float(temporal_time(GB200, Workload(shape, Traffic(32_000)), mapping).kv)

    assert kv("deepseek-v3", 1.0) == pytest.approx(kv("deepseek-v3", 8.0))
    assert kv("llama-3.1-70b", 1.0) == pytest.approx(8 * kv("llama-3.1-70b", 8.0))
    assert kv("llama-3.1-70b", 16.0) == pytest.approx(kv("llama-3.1-70b", 8.0))


@given(st.integers(1, 40), st.integers(1, 80))
def test_heads_of_a_cache_are_dealt_out_whole(heads: int, nodes: int) -> None:
    """Brute force: the least that the fullest node can hold, if every head is on some node."""
    dealt = np.bincount(np.arange(heads) % nodes, minlength=nodes)
    assert node_share(heads, nodes) == pytest.approx(dealt.max() / heads)
    assert node_share(np.inf, nodes) == pytest.approx(1.0 / nodes)
    assert node_share(1.0, nodes) == 1.0


def test_memory_of_a_group_by_hand() -> None:
    shape = ModelShape(
        (
            LayerGroup(6, 1e9, caches=(Cache(576.0, shards=1.0),)),
            LayerGroup(2, 1e9, caches=(Cache(2048.0, shards=8.0), Cache(128.0, shards=1.0))),
            LayerGroup(4, 1e9, state_bytes=3e6, state_shards=4.0),
        ),
        4096,
    )
    users, context, g = 100, 10_000, 16.0
    stored = Workload(shape, Traffic(context, users, 8.0, None, 16)).memory
    latent = users * context * 2 * (6 * 576.0 + 2 * 128.0)
    heads = users * context * 2 * 2 * 2048.0
    state = users * 4 * 3e6
    activations = users * 8 * 4096 * 2
    assert stored.kv == pytest.approx(latent + heads + state)
    node = (12e9 + activations) / g + latent + heads / 8 + state / 4
    assert stored.held(Placement(1.0, g)) == pytest.approx(g * node)
    assert stored.held(Placement(1.0)) == pytest.approx(stored.total)
    whole = memory_fraction(B200, stored, Placement(12.0, g))
    assert whole == pytest.approx(node / B200.usable_bytes)
    half = memory_fraction(B200, stored, Placement(6.0, g))
    assert half == pytest.approx(node / 2 / B200.usable_bytes)


@pytest.mark.parametrize("name", ["deepseek-v3", "llama-3.1-70b", "qwen3-next-80b-a3b", "kimi-k2"])
def test_a_node_stores_what_it_reads(name: str) -> None:
    """Where all of the context is read, one rule gives both; a state is also written back."""
    shape, context, bandwidth = load(name).shape(), 4000, 1e12
    hardware = dataclasses.replace(B200, bandwidth_bytes_per_s=bandwidth).with_constants(
        {"bandwidth_efficiency": 1.0}
    )
    hardware = dataclasses.replace(hardware, kv_bandwidth_efficiency=1.0, read_fraction=1.0)
    for g in (1.0, 2.0, 8.0, 64.0):
        time = temporal_time(
            hardware, Workload(shape, Traffic(context)), Placement(float(shape.layers), g)
        )
        held = Workload(shape, Traffic(context, 1, 16, None, 16)).memory.kv_held(Placement(1.0, g))
        states = tuple(dataclasses.replace(group, caches=()) for group in shape.groups)
        state = Workload(
            dataclasses.replace(shape, groups=states), Traffic(context, 1, 16, None, 16)
        ).memory.kv_held(Placement(1.0, g))
        assert (state > 0.0) == name.startswith("qwen3-next")
        assert time.kv * bandwidth * g == pytest.approx(held + state)


def test_a_group_does_not_make_room_for_a_latent_cache() -> None:
    """128 users of 32,000 tokens of DeepSeek V3: 288 GB of cache, whole on each of 8 nodes."""
    users = {"weights": "nvfp4", "context_tokens": 32_000, "concurrency": 128}
    model = load("deepseek-v3")
    shared = predict(model, B200, Deployment(layout=Layout(8), **users), changes=False)
    assert not shared.fits
    assert shared.bottleneck == "kv cache"
    kv = 128 * 32_000 * 70_272
    assert float(shared.memory.kv) == kv
    assert float(shared.memory.kv_held(Placement(1.0, 8.0))) == 8 * kv
    piped = predict(model, B200, Deployment(layout=Layout(1, 8), **users), changes=False)
    assert piped.fits
    assert float(piped.memory_fraction) < float(shared.memory_fraction) / 1.5
    found = predict(model, B200, Deployment(nodes=8, **users), changes=False)
    assert found.fits and found.data_parallel
    grouped = predict(load("llama-3.1-70b"), B200, Deployment(layout=Layout(8)), changes=False)
    assert float(grouped.memory.kv_held(Placement(1.0, 8.0))) == pytest.approx(
        float(grouped.memory.kv)
    )


@pytest.mark.parametrize(
    ("hardware", "group", "traffic"),
    [
        (A100, 16.0, Traffic(4000, 1, 4.5)),
        (B200, 8.0, Traffic(3000, 1, 8.0, draft_tokens=3)),
        (B200, 8.0, Traffic(500, 3000, 8.0)),
        (GB200, 64.0, Traffic(500, 4096, 8.0, draft_tokens=1)),
    ],
    ids=["two servers", "drafts", "arithmetic", "whole experts"],
)
def test_scaling_is_the_derivative(hardware: Hardware, group: float, traffic: Traffic) -> None:
    shape = load("deepseek-v3").shape()
    mapping = Placement(61.0, group)
    names, central, _ = hardware.constants()
    time = temporal_time(hardware, Workload(shape, traffic), mapping)
    step = 1e-5
    for name, value in zip(names, central, strict=True):
        up, down = (
            temporal_time(changed, Workload(shape, traffic), mapping).total
            for changed in (
                hardware.with_constants({name: value * math.exp(s * step)}) for s in (1, -1)
            )
        )
        slope = (up - down) / (2 * step)
        assert time.scaling[name] == pytest.approx(slope, rel=1e-3, abs=1e-9), name


ANY = st.tuples(st.floats(1e9, 1e11), st.floats(1.0, 30.0), st.integers(8, 120), st.integers(0, 7))


@given(ANY, st.floats(1.01, 4.0), st.sampled_from([4.5, 8.0, 16.0]), st.integers(0, 4))
def test_time_grows_with_everything_that_is_read(
    numbers: tuple[float, float, int, int], factor: float, bits: float, drafts: int
) -> None:
    active, sparsity, layers, doublings = numbers
    total = active * sparsity * factor
    group = 2.0**doublings

    def time(
        a: float = active, n: float = total, depth: float = layers, context: float = 2000.0,
        users: int = 1, d: int = drafts,
    ) -> float:  # fmt: skip
        shape = family_shape(n, a, depth, FamilyRules())
        traffic = Traffic(context, users, bits, draft_tokens=d)
        return float(temporal_time(B200, Workload(shape, traffic), Placement(depth, group)).total)

    base = time() * (1 - 1e-9)
    # Of drafted tokens nearly every expert of a nearly dense model is read, and what a wider
    # embedding takes from them is not; the solver asks for one token a pass.
    assert time(a=min(active * factor, total), d=0) >= time(d=0) * (1 - 1e-9)
    assert time(n=total * factor) >= base
    assert time(context=2000.0 * factor) >= base
    assert time(users=500) >= base
    assert time(d=drafts + 1) >= base


def test_a_dense_member_of_the_family_has_no_experts() -> None:
    member = family_shape(7e10, 7e10, 80.0, FamilyRules())
    dense = family_shape(7e10, 7e10, 80.0, FamilyRules(), dense=True)
    assert dense.total_params == pytest.approx(7e10)
    assert dense.groups[0].routed_params == 0.0
    assert dense.groups[0].reductions == 10.0
    mapping, traffic = Placement(80.0, 8.0), Traffic(1000)
    assert (
        temporal_time(B200, Workload(dense, traffic), mapping).fixed
        < temporal_time(B200, Workload(member, traffic), mapping).fixed
    )


def test_dense_and_mixed_members_in_one_array() -> None:
    active = np.array([7e10, 7e10, 2e10])
    total = np.array([7e10, 7e10, 4e11])
    dense = np.array([True, False, False])
    many = family_shape(total, active, 80.0, FamilyRules(), dense)
    for group in (1.0, 8.0):
        for experts in (None, True, False):
            mapping, traffic = Placement(80.0, group, experts), Traffic(1000, 64)
            times = temporal_time(B200, Workload(many, traffic), mapping)
            for i in range(3):
                alone = family_shape(total[i], active[i], 80.0, FamilyRules(), bool(dense[i]))
                time = temporal_time(B200, Workload(alone, traffic), mapping)
                assert np.broadcast_to(times.total, (3,))[i] == pytest.approx(float(time.total))
                for name, scaling in time.scaling.items():
                    found = np.broadcast_to(times.scaling[name], (3,))[i]
                    assert found == pytest.approx(float(scaling), rel=1e-12)


def test_layouts_as_typed() -> None:
    assert read_layout("tp=8,pp=2") == Layout(8, 2)
    assert read_layout("pp=4") == Layout(1, 4)
    assert read_layout("tp=8, ep=8") == Layout(8, 1, True)
    assert read_layout("tp=8,ep=1") == Layout(8, 1, False)
    assert read_layout("pp=88", spatial=True) == Layout(1, 88)
    for text in ("tp=8,pp=2", "pp=3", "tp=4,pp=1,ep=4"):
        assert read_layout(read_layout(text).text) == read_layout(text)
    held = Layout(8, 3).mapping(61.0)
    assert (held.layers_per_stage, held.nodes(61.0)) == (21.0, 24.0)


@pytest.mark.parametrize(
    ("text", "spatial"),
    [("8", False), ("tp=0", False), ("tp=x", False), ("tp=8,tp=8", False), ("tp=1.5", False),
     ("xx=1", False), ("tp=8,ep=4", False), ("tp=2", True), ("", False), ("tp=99999999", False)],
)  # fmt: skip
def test_wrong_layouts(text: str, spatial: bool) -> None:
    with pytest.raises(InputError, match="mapping"):
        read_layout(text, spatial)


def test_a_forced_layout_is_used_even_where_it_is_slower() -> None:
    model = load("llama-3.1-8b")
    best = predict(model, A100, Deployment(nodes=8), changes=False)
    forced = predict(model, A100, Deployment(nodes=8, layout=Layout(2, 4)), changes=False)
    assert float(best.mapping.tensor_parallel) == 8.0
    assert (forced.mapping.tensor_parallel, forced.mapping.layers_per_stage) == (2.0, 8.0)
    assert float(forced.speed[1]) < float(best.speed[1])


def test_copies_of_a_cache_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["predict", "deepseek-v3", "--hardware", "b200", "--nodes", "8", "--mapping", "tp=8"]
    text = " ".join(run(capsys, *words, "--explain").out.split())
    assert "with the copies on the nodes that share a layer: 4.5" in text
    (row,) = json.loads(run(capsys, *words, "--format", "json").out)["results"]
    assert row["kv_held_bytes"] == pytest.approx(8 * row["memory_bytes"]["kv"])
    grouped = ["predict", "llama-3.1-70b", *words[2:], "--explain"]
    assert "copies" not in run(capsys, *grouped).out


@pytest.mark.parametrize("name", ["without graphs", "gpt-fast", "tilert"])
def test_software_changes_fixed_times_alone(name: str) -> None:
    hardware = Hardware.load("b200")
    workload = Workload(load("deepseek-v3").shape("fp8"), Traffic(weight_bits=8, prompt_tokens=500))
    mapping = Placement(61.0, 8.0)
    usual = decode_time(hardware, workload, mapping)
    other = decode_time(hardware.with_software(name), workload, mapping)
    assert (other.weights, other.kv, other.reductions) == (
        usual.weights, usual.kv, usual.reductions
    )  # fmt: skip
    (listed,) = (s for s in hardware.software if s.name == name)
    # Single users' engines launch a tenth of the kernels of routed experts.
    fewer = (1.0 - listed.routed_kernels) * usual.scaling["routed_kernels"]
    assert (fewer > 0.1 * usual.fixed) == (name != "without graphs")
    assert other.fixed == pytest.approx(listed.factor * (usual.fixed - fewer))
    assert usual.total / other.total == pytest.approx(software_speed(usual, *listed[1::2]))
    with pytest.raises(UnknownNameError, match="did you mean 'tilert'"):
        hardware.with_software("tilrt")


def test_groups_that_divide_heads_or_domains() -> None:
    rack = Hardware.load("gb200-nvl72")
    assert {1, 2, 3, 6, 8, 9, 12, 36, 64, 72, 144} <= set(group_sizes(rack, 200))
    assert group_sizes(rack, 100, heads=128) == [1, 2, 4, 8, 16, 32, 64]
    assert group_sizes(rack, 50, heads=96) == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48]
    assert group_sizes(B200, 7) == [1, 2, 3, 4, 6]
    assert group_sizes(Hardware.load("wse-3")) == [1]
    assert load("deepseek-v3").heads == 128


def test_nodes_with_users_of_their_own() -> None:
    """Data-parallel attention: all but experts is on every node, of caches each user's once."""
    shape, g = load("deepseek-v3").shape(), 8.0
    workload = Workload(shape, Traffic(8000, 64, 8.0, None, 16))
    stored, own = workload.memory, Placement(61.0, g, None, True)
    routed = sum(float(v.count * v.routed_params) for v in shape.groups)
    assert float(stored.shared) == pytest.approx(shape.total_params - routed)
    assert stored.kv_held(own) == pytest.approx(stored.kv)
    assert stored.held(own) == pytest.approx(stored.total + 7 * stored.shared)
    # Nine users on eight nodes: the busiest has two of them.
    nine = Workload(shape, Traffic(8000, 9, 8.0, None, 16)).memory
    assert nine.kv_held(own) == pytest.approx(nine.kv * 8 * 2 / 9)
    # Only the way to the experts and back is left of the all-reduces.
    time, cut = (temporal_time(B200, workload, p) for p in (own, Placement(61.0, g, True)))
    assert time.kv == pytest.approx(cut.kv / g)
    assert time.weights > cut.weights
    assert time.reductions < cut.reductions
    assert time.scaling["reductions_per_layer"] == 0.0


def test_data_parallel_attention_was_measured() -> None:
    """Engines' rows with it, of three models: nearer than as tensor parallelism, without bias."""
    rows = [r for r in serving.rows() if r.attention_replicas > 1]
    plain = [dataclasses.replace(r, attention_replicas=1) for r in rows]
    own, shared = (serving.accuracy("", compared(part)) for part in (rows, plain))
    assert len(rows) > 30
    assert own.median_factor < 1.12 < shared.median_factor
    assert own.bias == pytest.approx(1.0, abs=0.05)


def test_data_parallel_layouts_are_read_and_chosen() -> None:
    for text in ("dp=8,pp=2", "dp=16,pp=1"):
        assert read_layout(text).text == text
    assert read_layout("dp=8,ep=8") == Layout(8, 1, None, True)
    for text in ("dp=8,tp=8", "dp=8,ep=1", "dp=0"):
        with pytest.raises(InputError, match="mapping"):
            read_layout(text)
    model, asked = load("deepseek-v3"), Deployment(nodes=16, concurrency=512, weights="fp8")
    h200 = Hardware.load("h200-sxm")
    best, forced = (
        predict(model, h200, asked.with_(layout=layout), changes=False)
        for layout in (None, read_layout("tp=16"))
    )
    assert best.fits and best.data_parallel and not forced.fits
    assert not predict(model, h200, asked.with_(concurrency=1), changes=False).data_parallel


def test_scheduling_grows_with_the_root_of_the_users() -> None:
    shape = ModelShape((LayerGroup(10, 1e9),), 4096)

    def fixed(users: int) -> float:
        workload = Workload(shape, Traffic(1000, users, 16.0))
        return float(temporal_time(A100, workload, Placement(10.0, 1.0)).fixed)

    assert fixed(64) - fixed(1) == pytest.approx(7.0 * A100.fixed_time_per_sequence_s)
