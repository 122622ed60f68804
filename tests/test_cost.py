"""Closed forms, published measurements and properties of the cost model."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from archinfer.hardware.profile import Hardware
from archinfer.models.shape import DENSE_CHAIN, Cache, LayerGroup, ModelShape
from archinfer.models.solver_family import FamilyRules, family_shape
from archinfer.physics.decode import decode_time, log_sd
from archinfer.physics.mapping import Placement
from archinfer.physics.nodegroup import sync_latency_s
from archinfer.physics.spatial import all_reduce_cycles, best_side
from archinfer.physics.speed import speed_range, tokens_per_s
from archinfer.physics.terms import TERMS, TokenTime
from archinfer.physics.workload import Traffic, Workload, experts_hit

WSE2 = Hardware.load("wse-2")
WSE3 = Hardware.load("wse-3")
# The constants of the WSE-2 fit, so that a later fit of the shipped profile moves no test here.
PLAIN = WSE3.with_constants(
    {
        "cycles_per_weight": 0.813,
        "fixed_time_per_layer": 6.34e-6,
        "reductions_per_layer": 10.0,
        "link.latency": 5e-6,
        "compute.clock": 1.1e9,
        "routed_weight_factor": 1.0,
        "compute_efficiency": 1.0,
    }
)


def dense(layers: int, hidden: int, width: int, kv_heads: int, vocab: int) -> ModelShape:
    heads = hidden // 128
    group = LayerGroup(
        count=layers,
        shared_params=2 * hidden**2 + 2 * hidden * kv_heads * 128 + 3 * hidden * width + 2 * hidden,
        vector_params=2 * hidden,
        caches=(Cache(2 * kv_heads * 128, macs_per_token=2 * heads * 128),),
    )
    table = vocab * hidden
    return ModelShape((group,), hidden, lookup_params=table, head_params=table, extra_params=hidden)


LLAMA_8B = dense(32, 4096, 14336, 8, 128256)
LLAMA_70B = dense(80, 8192, 28672, 8, 128256)


def pass_time(hardware, shape, mapping, context=2000, bits=16.0, **kwargs):
    traffic = Traffic(context_tokens=context, weight_bits=bits)
    return decode_time(hardware, Workload(shape, traffic), mapping, **kwargs)


def test_shapes_have_the_published_counts() -> None:
    assert LLAMA_8B.total_params == 8_030_261_248
    assert LLAMA_70B.total_params == LLAMA_70B.active_params == 70_553_706_496


def test_all_reduce_is_hops_plus_tree_steps() -> None:
    assert all_reduce_cycles(400.0, 1.0, 5.0) == 400 + 5 * 20
    assert all_reduce_cycles(900.0, 1.0, 5.0) == 900 + 5 * 30


@pytest.mark.parametrize(
    ("layers", "hidden", "width", "measured"),
    [
        (32, 4096, 14336, {420: 2699.9, 540: 2501.5, 660: 2243.3}),
        (40, 5120, 13824, {420: 2039.2, 540: 1899.4, 660: 1739.8}),
        (80, 8192, 29568, {420: 839.7, 540: 824.3, 660: 787.1}),
    ],
)
def test_waferllm_table_4(layers: int, hidden: int, width: int, measured: dict) -> None:
    """Measured decode speeds on a WSE-2; its code runs multi-head shapes and times layers only."""
    group = LayerGroup(
        count=layers,
        shared_params=4 * hidden**2 + 3 * hidden * width,
        caches=(Cache(2 * hidden, macs_per_token=2 * hidden),),
    )
    shape = ModelShape((group,), hidden)
    for side, speed in measured.items():
        time = pass_time(WSE2, shape, Placement(layers), context=4096, side=float(side))
        layers_only = 1.0 / (time.total - time.head)
        assert layers_only == pytest.approx(speed, rel=0.07)


def test_speed_falls_as_the_region_grows() -> None:
    sides = np.array([420.0, 540.0, 660.0])
    time = pass_time(PLAIN, LLAMA_8B, Placement(32.0), side=sides)
    assert (np.diff(time.total) > 0).all()


def test_wse2_constants_predict_the_wse3_without_refitting() -> None:
    """1,800 tokens/s for 8B on one wafer, 450 for 70B on four: published without speculation."""
    one = pass_time(PLAIN, LLAMA_8B, Placement(32.0))
    four = pass_time(PLAIN, LLAMA_70B, Placement(20.0))
    assert tokens_per_s(one) == pytest.approx(1800, rel=0.25)
    assert tokens_per_s(four) == pytest.approx(450, rel=0.25)


def test_founding_example_is_mostly_depth() -> None:
    """88 layers on 88 wafers: links a quarter of the token, active size hardly read."""
    speeds = []
    for active in (20e9, 150e9, 300e9):
        shape = family_shape(3e12, active, 88.0, FamilyRules())
        time = pass_time(PLAIN, shape, Placement(1.0), bits=8.0)
        speeds.append(float(tokens_per_s(time)))
        assert time.links == pytest.approx(88 * 5e-6, rel=0.05)
    # Fixed times scale with the chain of a routed layer: 12 steps against 10.
    assert 400 < speeds[2] < speeds[1] < speeds[0] < 540
    assert speeds[0] / speeds[2] < 1.2


def test_terms_add_up_by_hand() -> None:
    side, clock = 200.0, 1.1e9
    shape = ModelShape((LayerGroup(count=4, shared_params=1e9),), 4096, head_params=5e8)
    time = pass_time(PLAIN, shape, Placement(2.0), side=side)
    reduce = side + 5 * math.sqrt(side)
    assert time.weights == pytest.approx(4 * 0.813 * 1e9 / side**2 / clock)
    assert time.reductions == pytest.approx(4 * 10 * reduce / clock)
    assert time.fixed == pytest.approx(4 * 6.34e-6)
    assert time.links == pytest.approx(2 * (5e-6 + 4096 * 2 / 150e9))
    head = 0.813 * 5e8 / side**2 / clock + 3 * reduce / clock + 6.34e-6
    assert time.head == pytest.approx(head)
    assert time.kv == time.compute == time.queue == time.draft == 0.0
    assert time.total == pytest.approx(sum(getattr(time, t) for t in TERMS))


def drafting(hardware: Hardware, shape: ModelShape, drafts: int, side: float) -> TokenTime:
    """A pass over two layers a wafer that verifies drafted tokens, in regions of given side."""
    traffic = Traffic(context_tokens=2000, weight_bits=16, draft_tokens=drafts)
    return decode_time(hardware, Workload(shape, traffic), Placement(2.0), side)


@pytest.mark.parametrize("drafts", [1, 2, 5])
def test_a_draft_is_one_more_layer_and_head_by_hand(drafts: int) -> None:
    side, clock = 200.0, 1.1e9
    shape = ModelShape((LayerGroup(count=4, shared_params=1e9),), 4096, head_params=5e8)
    reduce = side + 5 * math.sqrt(side)
    layer = 0.813 * 1e9 / side**2 / clock + 10 * reduce / clock + 6.34e-6
    head = 0.813 * 5e8 / side**2 / clock + 3 * reduce / clock + 6.34e-6
    time = drafting(PLAIN, shape, drafts, side)
    assert time.draft == pytest.approx(drafts * (layer + head), rel=1e-12)
    assert time.total == pytest.approx(
        4 * layer + head + 2 * (5e-6 + (1 + drafts) * 4096 * 2 / 150e9) + drafts * (layer + head)
    )


@pytest.mark.parametrize("drafts", [0, 1, 3])
def test_drafted_tokens_share_one_read_of_the_cache_by_hand(drafts: int) -> None:
    """A cache that is hardly multiplied with: its time is that of the ports, drafts or none."""
    side, clock, cores = 200.0, 1.1e9, 900_000
    slow = replace(
        PLAIN, bandwidth_bytes_per_s=1e15, read_fraction=0.5, bandwidth_efficiency=0.8, cores=cores
    )
    cache = Cache(values_per_token=2048.0, macs_per_token=1.0)
    shape = ModelShape((LayerGroup(4, 1e9, caches=(cache,)),), 4096, head_params=5e8)
    port_bytes_per_cycle = 1e15 * 0.5 * 0.8 / clock / cores
    cycles = 2000 * 2048 * 2 / port_bytes_per_cycle / side**2
    time = drafting(slow, shape, drafts, side)
    assert time.kv == pytest.approx(4 * cycles / clock, rel=1e-12)


@pytest.mark.parametrize(("hardware", "free"), [(WSE2, 3.6), (WSE3, 6.99)])
def test_tokens_are_verified_for_free_up_to_the_peak(hardware: Hardware, free: float) -> None:
    """The figures of docs/model.md: cycles per weight times peak MACs per core and cycle."""
    macs_per_s = hardware.peak_flops("bf16") * hardware.compute_efficiency / 2
    macs_per_cycle = macs_per_s / hardware.clock_hz / hardware.cores
    assert hardware.cycles_per_weight * macs_per_cycle == pytest.approx(free, abs=0.05)
    plain = drafting(hardware, LLAMA_8B, 0, 200.0)
    below = drafting(hardware, LLAMA_8B, math.floor(free) - 1, 200.0)
    above = drafting(hardware, LLAMA_8B, 15, 200.0)
    for term in ("weights", "head", "reductions"):
        assert getattr(below, term) == pytest.approx(getattr(plain, term), rel=1e-12)
    assert above.weights == pytest.approx(
        plain.weights * 16 / (hardware.cycles_per_weight * macs_per_cycle), rel=1e-9
    )
    assert above.reductions == pytest.approx(plain.reductions, rel=1e-12)


def test_a_wafer_multiplies_at_the_part_of_its_peak_that_is_reached() -> None:
    peak = drafting(replace(WSE3, compute_efficiency=1.0), LLAMA_8B, 15, 200.0)
    half = drafting(replace(WSE3, compute_efficiency=0.5), LLAMA_8B, 15, 200.0)
    assert half.weights == pytest.approx(2 * peak.weights, rel=1e-12)


def test_query_heads_share_a_read_as_drafted_tokens_do() -> None:
    """A number costs its cycles once, or its products theirs, whichever are more."""
    macs_per_s = WSE3.peak_flops("bf16") * WSE3.compute_efficiency / 2
    macs_per_cycle = macs_per_s / WSE3.clock_hz / WSE3.cores
    for kv_heads in (32, 8, 1):
        shape = dense(4, 4096, 14336, kv_heads, 128_256)
        numbers = 4 * 2000 * 2 * kv_heads * 128
        for drafts in (0, 3):
            products = (1 + drafts) * 4 * 2000 * 2 * 4096
            cycles = max(numbers * WSE3.cycles_per_weight, products / macs_per_cycle)
            time = drafting(WSE3, shape, drafts, 200.0)
            assert time.kv == pytest.approx(cycles / 200.0**2 / WSE3.clock_hz, rel=1e-9)


def test_routed_weights_and_routed_layers_cost_more() -> None:
    rules = FamilyRules()
    even, slow = (replace(WSE3, routed_weight_factor=f) for f in (1.0, 2.0))
    sparse = family_shape(4e11, 4e10, 60.0, rules)
    plain = family_shape(4e10, 4e10, 60.0, rules, dense=True)
    for shape, share in ((sparse, rules.routed_share), (plain, 0.0)):
        one, two = (drafting(h, shape, 0, 200.0) for h in (even, slow))
        group = shape.groups[0]
        assert two.weights / one.weights - 1.0 == pytest.approx(share, abs=1e-9)
        chain = float(group.reductions) / DENSE_CHAIN
        assert one.fixed == pytest.approx(60 * chain * WSE3.fixed_time_per_layer_s, rel=1e-12)


@pytest.mark.parametrize(("users", "drafts"), [(1, 3), (200, 0), (1, 16), (200, 3)])
def test_spread_under_queue_and_drafts_is_that_of_derivatives(users: int, drafts: int) -> None:
    names, central, covariance = WSE3.constants()
    traffic = Traffic(1500, users, 16, draft_tokens=drafts)

    def passed(hardware: Hardware) -> TokenTime:
        return decode_time(hardware, Workload(LLAMA_70B, traffic), Placement(20.0))

    step = 1e-4
    slopes = np.array(
        [
            math.log(
                passed(WSE3.with_constants({n: v * math.exp(step)})).total
                / passed(WSE3.with_constants({n: v * math.exp(-step)})).total
            )
            / (2 * step)
            for n, v in zip(names, central, strict=True)
        ]
    )
    derived = math.sqrt(slopes @ covariance @ slopes + WSE3.model_error_log_sd**2)
    found = float(log_sd(WSE3, passed(WSE3)))
    assert found == pytest.approx(derived, rel=2e-3)


def test_the_middle_of_a_range_of_accepted_tokens_is_geometric() -> None:
    time = pass_time(PLAIN, LLAMA_8B, Placement(32.0))
    spread = math.exp(1.6448536269514722 * float(log_sd(PLAIN, time)))
    p05, p50, p95 = (float(v) for v in speed_range(PLAIN, time, 1.0, 9.0))
    one = 1.0 / float(time.total)
    assert p50 == pytest.approx(3.0 * one, rel=1e-12)
    assert p05 == pytest.approx(one / spread, rel=1e-12)
    assert p95 == pytest.approx(9.0 * one * spread, rel=1e-12)


@given(st.floats(5, 30), st.floats(1e5, 1e10), st.floats(0.5, 2), st.floats(0.5, 50))
def test_best_side_is_the_minimum(r: float, work_cycles: float, hop: float, step: float) -> None:
    def cycles(log_side: float) -> float:
        side = math.exp(log_side)
        return r * float(all_reduce_cycles(side, hop, step)) + work_cycles / side**2

    found = float(best_side(r, work_cycles, hop, step))
    best = minimize_scalar(cycles, bounds=(0.0, 9.0), method="bounded")
    assert cycles(math.log(found)) <= best.fun * (1 + 1e-4)


def test_without_reductions_a_region_is_as_large_as_it_may_be() -> None:
    with np.errstate(all="raise"):
        assert best_side(0.0, 1e5, 1.0, 5.0) > 1e9


ANY_SHAPE = st.tuples(
    st.floats(1e9, 1e11), st.floats(1.0, 30.0), st.integers(8, 120), st.integers(1, 8)
)


@given(ANY_SHAPE, st.sampled_from([4.5, 8.0, 16.0]), st.sampled_from(["wse-2", "wse-3"]))
def test_never_faster_than_reading_the_active_weights(
    numbers: tuple[float, float, int, int], bits: float, name: str
) -> None:
    active, sparsity, layers, per_stage = numbers
    hardware = Hardware.load(name)
    shape = family_shape(active * sparsity, active, float(layers), FamilyRules())
    time = pass_time(hardware, shape, Placement(float(per_stage)), bits=bits)
    moved = Workload(shape, Traffic(2000, 1, bits, None, 16)).work(1).weight_bytes
    read_s = moved / (hardware.bandwidth_bytes_per_s * hardware.read_fraction)
    assert time.total >= read_s


@given(ANY_SHAPE, st.floats(1.01, 4.0))
def test_time_grows_with_active_layers_context_and_users(
    numbers: tuple[float, float, int, int], factor: float
) -> None:
    active, sparsity, layers, per_stage = numbers
    total = active * sparsity * factor

    def time(a=active, n=total, depth=float(layers), context=2000.0, users=1) -> float:
        shape = family_shape(n, a, depth, FamilyRules())
        traffic = Traffic(context_tokens=context, concurrency=users, weight_bits=8.0)
        return float(decode_time(WSE3, Workload(shape, traffic), Placement(float(per_stage))).total)

    base = time() * (1 - 1e-9)
    assert time(a=min(active * factor, total)) >= base
    assert time(n=total * factor) >= base
    assert time(context=2000.0 * factor) >= base
    assert time(users=500) >= base


def test_scaling_is_the_derivative() -> None:
    shape = family_shape(1e12, 4e10, 61.0, FamilyRules())
    names, central, _ = WSE3.constants()
    time = pass_time(WSE3, shape, Placement(2.0), bits=8.0)
    for name, value in zip(names, central, strict=True):
        h = 1e-4
        up, down = (
            pass_time(
                WSE3.with_constants({name: value * math.exp(s * h)}),
                shape,
                Placement(2.0),
                bits=8.0,
            ).total
            for s in (1, -1)
        )
        assert time.scaling[name] == pytest.approx((up - down) / (2 * h), rel=1e-3, abs=1e-12)


def test_interval_is_first_order_propagation() -> None:
    """Against sampling of the log-normal constants and the model error."""
    shape = family_shape(1e12, 4e10, 61.0, FamilyRules())
    names, central, covariance = WSE3.constants()
    rng = np.random.default_rng(1)
    draws = rng.multivariate_normal(np.log(central), covariance, size=20_000)
    many = WSE3.with_constants({n: np.exp(draws[:, i]) for i, n in enumerate(names)})
    sampled = np.log(pass_time(many, shape, Placement(2.0), bits=8.0).total)
    time = pass_time(WSE3, shape, Placement(2.0), bits=8.0)
    spread = float(log_sd(WSE3, time))
    assert spread == pytest.approx(
        math.hypot(float(np.std(sampled)), WSE3.model_error_log_sd), rel=0.05
    )
    p05, p50, p95 = (float(v) for v in speed_range(WSE3, time, 1.0, 1.0))
    assert p05 < p50 < p95
    assert p50 == pytest.approx(float(tokens_per_s(time)))


def test_queue_is_the_slowest_stage_once_per_user() -> None:
    shape = family_shape(1e12, 4e10, 61.0, FamilyRules())
    many = decode_time(WSE3, Workload(shape, Traffic(2000, 1000, 8.0)), Placement(1.0))
    layer = (many.weights + many.kv + many.reductions + many.fixed) / 61
    assert many.total == pytest.approx(1000 * max(layer, many.head))


def test_experts_hit() -> None:
    assert experts_hit(256.0, 8.0, 1.0) == pytest.approx(8.0)
    assert experts_hit(8.0, 2.0, 2.0) == pytest.approx(8 * (1 - 0.75**2))
    assert experts_hit(64.0, 8.0, 1e6) == pytest.approx(64.0)
    assert experts_hit(1.0, 1.0, 5.0) == 1.0


def test_sync_latency_interpolates_and_crosses_domains() -> None:
    a100 = Hardware.load("a100-80gb")
    sizes, times = a100.sync_group_sizes, a100.sync_latency_s
    for size, time in zip(sizes, times, strict=True):
        if size <= a100.scale_up_size:
            assert sync_latency_s(a100, size) == pytest.approx(time)
    assert sync_latency_s(a100, 16.0) > sync_latency_s(a100, 8.0) + a100.link_latency_s


@pytest.mark.parametrize(
    ("context", "group", "printed"),
    [(4096, 8, 86), (4096, 32, 290), (4096, 128, 776),
     (131072, 8, 80), (131072, 32, 271), (131072, 128, 743)],
)  # fmt: skip
def test_liminal_llama_405b(context: int, group: int, printed: int) -> None:
    """The six printed entries of LIMINAL (arXiv:2507.14397): Llama-405B, 8-bit weights and KV."""
    layers, hidden = 126, 16384
    per_layer = 405e9 / layers
    cache = Cache(2 * 8 * 128, macs_per_token=2 * hidden)
    shape = ModelShape((LayerGroup(layers, per_layer, caches=(cache,)),), hidden)
    traffic = Traffic(context_tokens=context, weight_bits=8.0, kv_bits=8)
    hardware = Hardware.load("liminal-hbm3")
    time = decode_time(hardware, Workload(shape, traffic), Placement(float(layers), float(group)))
    assert round(float(tokens_per_s(time))) == printed
