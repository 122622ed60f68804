"""The region is exact, monotone, and says what draws its edges."""

from dataclasses import replace
from functools import cache
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archinfer.errors import InputError, UnknownNameError
from archinfer.forward.evaluation import Evaluation
from archinfer.forward.predict import predict
from archinfer.hardware.figures import SoftwareFactor
from archinfer.hardware.profile import Hardware
from archinfer.models.formats import weight_format
from archinfer.models.solver_family import FamilyRules, family_shape, in_formats
from archinfer.physics.deployment import Deployment
from archinfer.physics.mapping import Placement, mappings
from archinfer.physics.speed import software_speed
from archinfer.physics.workload import Traffic, Workload
from archinfer.solver.answer import answer
from archinfer.solver.bounds import Bounds
from archinfer.solver.constraints import Candidate, slacks
from archinfer.solver.question import Question
from archinfer.solver.region import Region, feasible, solve
from archinfer.solver.variants import sensitivity, variants
from tests.exactness import (
    CONSTANTS,
    agreement,
    by_slice,
    directly,
    limited,
    random_hardware,
    random_question,
)

WSE3 = Hardware.load("wse-3")
WHOLE = WSE3.with_value("memory.usable_fraction", "1")
FOUNDING = Question(WSE3)
# Of a latent or one-headed cache each node of a group has a copy, which fills a B200 here.
MANY_USERS = Question(
    Hardware.load("b200"), nodes=(1, 64), tokens_per_s=20.0, concurrency=40, context_tokens=32_000
)
PHYSICS = Question(WHOLE, habits=None, weights=("fp8",))


@cache
def observed() -> Region:
    return solve(FOUNDING.with_(observed=True))


@pytest.mark.parametrize(
    ("question", "points"),
    [
        (FOUNDING, 6_000),
        (FOUNDING.with_(observed=True), 3_000),
        (FOUNDING.with_(habits=None, nodes=(70, 100)), 2_000),
        (FOUNDING.with_(nodes=(4, 20), concurrency=64, context_tokens=32_000), 2_000),
        (Question(Hardware.load("b200"), nodes=(1, 64), tokens_per_s=60.0, concurrency=16), 1_500),
        (Question(Hardware.load("b200"), nodes=(8, 8), tokens_per_s=600.0, observed=True), 2_000),
        (MANY_USERS.with_(rules=FamilyRules("mla")), 1_500),
        (MANY_USERS.with_(rules=FamilyRules("mqa")), 1_500),
    ],
    ids=[
        "founding",
        "observed",
        "physics 70:100",
        "users",
        "b200",
        "software",
        "latent",
        "one head",
    ],
)
def test_membership_equals_the_constraints(question: Question, points: int) -> None:
    found = agreement(solve(question), points, seed=points)
    assert found.points >= points - 3
    assert found.inside > points // 100, "the points must straddle the region"
    assert found.differing == 0


@pytest.mark.parametrize(
    ("total", "active", "layers", "weights"),
    [
        (182893945854.03677, 33445624024.851704, 44, "bf16"),
        (240952077708.17728, 49554543667.92498, 44, "bf16"),
        (7747745763.722247, 4996460653.972866, 53, "nvfp4"),
        (66526971010.28863, 4941241018.549568, 53, "nvfp4"),
        (363755782051.0436, 40354198830.4536, 39, "nvfp4"),
    ],
)
def test_least_total_where_the_time_is_the_same_at_every_total(
    total: float, active: float, layers: int, weights: str
) -> None:
    """A wafer's time stands still until the bytes fill the best region; no rounding decides."""
    point = tuple(np.array([float(v)]) for v in (total, active, layers, 88))
    assert directly(observed().question, *point, weights).all()
    assert observed().contains(*point, weights).all()


@pytest.mark.parametrize(
    "question",
    [
        FOUNDING.with_(observed=True),
        FOUNDING.with_(rules=FamilyRules("mla"), tokens_per_s=1500.0, confidence_z=1.28),
    ],
    ids=["observed", "confident"],
)
def test_nothing_is_possible_beyond_the_ends_of_active(question: Question) -> None:
    """Where the bytes fill a wafer's region the time hardly grows, and the spread falls."""
    region = solve(question)
    bounds, every = Bounds(question, region.slices), np.arange(len(region.slices))
    mixed = ~region.slices.dense
    for total, at in (
        (region.total_low, region.total_low_at),
        (region.total_high, region.total_high_at),
    ):
        assert np.all(bounds.slack_and_turns(total, at, every)[0][mixed] > -1e-10)
    low, high, _, _ = bounds.active_limits
    for step in (2e-6, 2e-5, 1e-4, 5e-4):
        for active in (region.active_low * (1 - step), region.active_high * (1 + step)):
            asked = mixed & (low <= active) & (active <= high)
            for share in np.linspace(0.0, 1.0, 12):
                least = bounds.total_low_of(active, every)
                most = np.maximum(bounds.total_high_of(active, every), least)
                total = least ** (1.0 - share) * most**share
                assert not np.any(asked & (bounds.slack_and_turns(total, active, every)[0] > 1e-9))


@pytest.mark.parametrize("constant", CONSTANTS)
def test_every_slice_is_exact_whatever_the_constant(constant: str) -> None:
    rng = np.random.default_rng(len(constant))
    for _ in range(3):
        assert by_slice(random_question(rng, constant), 2000, rng).differing == 0


@pytest.mark.parametrize("name", ["wse-3", "gb200-nvl72", "amd-epyc-9754"])
def test_every_slice_is_exact_with_all_constants_drawn(name: str) -> None:
    rng = np.random.default_rng(len(name))
    inside = 0
    for _ in range(6):
        question = random_question(rng, hardware=random_hardware(rng, name))
        found = by_slice(question, 2000, rng)
        assert found.differing == 0
        inside += found.inside
    assert inside > 500


def test_time_that_falls_with_active_parameters() -> None:
    """With a time for each expert call a batch answers sooner where more of fewer are active."""
    hardware = Hardware.load("amd-epyc-9754").with_value("fixed_time_per_expert", "15us")
    question = Question(
        hardware, nodes=(1, 1), tokens_per_s=5.0, concurrency=64, context_tokens=2000,
        layers=(40.0, 40.0), weights=("int4",), speculation=(1.0, 1.0),
    )  # fmt: skip
    whole = solve(question)
    part = solve(question.with_(active=(14.6e9, 14.62e9)))
    assert part.total_high.max() > 2 * 16.9e9
    assert whole.total_high.max() >= part.total_high.max()
    # Brute force: totals just beyond the end are possible with no active parameters.
    active = np.geomspace(whole.active_low.min(), whole.active_high.max(), 4000)
    one, layers = np.ones(4000), np.full(4000, 40.0)
    for share, possible in ((0.998, True), (1 + 1e-6, False)):
        total = whole.total_high.max() * share
        assert directly(question, total * one, active, layers, one, "int4").any() == possible
    assert agreement(whole, 4000, seed=1).differing == 0


def exact_most(question: Question, layers: float, per_stage: float, bits: float) -> float:
    """Largest total from the definition: usable memory less exactly what else is stored."""
    region = solve(question)
    mine = (region.slices.layers == layers) & (region.slices.layers_per_stage == per_stage)
    i = int(np.flatnonzero(mine)[np.argmax(region.total_high[mine])])
    candidate = Candidate.of(
        question,
        region.total_high[i],
        region.total_high_at[i],
        layers,
        Placement(per_stage),
        question.traffic(bits, False),
    )
    share = layers / per_stage
    rest = candidate.memory.kv + candidate.memory.other
    assert region.total_high_by[i] == "capacity"
    expected = (share * WHOLE.memory_capacity_bytes - rest) * 8 / bits
    assert region.total_high[i] == pytest.approx(expected, rel=1e-9)
    # KV cache: 88 layers, 8,000 tokens, keys and values of two bytes; 8 heads of 128, or as many
    # numbers as a narrower layer has.
    wide = min(8 * 128, float(candidate.workload.shape.hidden_size))
    assert candidate.memory.kv == pytest.approx(layers * 8000 * 2 * wide * 2)
    return float(region.total_high[i])


def test_capacity_of_88_wafers_in_8_16_and_4_5_bits() -> None:
    eight = exact_most(PHYSICS, 88.0, 1.0, 8.0)
    assert eight == pytest.approx(3.872e12, rel=2e-3)
    assert eight < 3.872e12
    sixteen = exact_most(PHYSICS.with_(weights=("bf16",)), 88.0, 1.0, 16.0)
    assert sixteen == pytest.approx(eight / 2, rel=1e-5)
    small = exact_most(PHYSICS.with_(weights=("nvfp4",)), 88.0, 1.0, 4.5)
    assert small == pytest.approx(eight * 8 / 4.5, rel=1e-5)


def test_layers_are_whole() -> None:
    """With 89 layers a wafer holds two, so the capacity halves (89 / 2 of 88)."""
    region = solve(PHYSICS)

    def most(layers: int) -> float:
        return float(region.total_high[region.slices.layers == layers].max())

    assert most(89) == pytest.approx(most(88) * 44.5 / 88, rel=1e-3)
    assert most(176) == pytest.approx(most(88), rel=1e-2)
    assert most(44) == pytest.approx(most(88) / 2, rel=1e-3)


@pytest.mark.parametrize("machine", ["wse-3", "b200", "amd-epyc-9754"])
def test_uneven_stages_gain_nothing(machine: str) -> None:
    """Fuller stages than the nodes in use need hold less, and no pass is sooner: predict evaluates
    them, and no target is met on them alone."""
    hardware, rng, compared = Hardware.load(machine), np.random.default_rng(1), 0
    for _ in range(150):
        layers, active = float(rng.integers(5, 130)), 10.0 ** rng.uniform(8.0, 11.0)
        shape = family_shape(active * rng.uniform(1.0, 30.0), active, layers, FamilyRules())
        traffic = Traffic(concurrency=int(rng.choice([1, 8, 100])), weight_bits=8.0)
        held = float(rng.integers(1, layers + 1))
        mapping = Placement(np.array([held, np.ceil(layers / np.ceil(layers / held))]))
        both = Evaluation(hardware, Workload(shape, traffic), mapping)
        uneven, even = both.memory_fraction
        assert even <= uneven
        if even < uneven <= 1.0:
            compared += 1
            assert both.passes_s[1] <= both.passes_s[0] * (1.0 + 1e-12)
    assert compared > 30


def test_mappings_are_every_distinct_way() -> None:
    depth, mapping = mappings(WSE3, np.array([7.0]), 7)
    assert sorted(mapping.layers_per_stage) == [1.0, 2.0, 3.0, 4.0, 7.0]
    assert set(depth) == {7.0}
    assert set(mapping.tensor_parallel) == {1.0}
    for layers in (1, 5, 61, 88, 126):
        for nodes in (1, 2, 7, 88):
            _, mapping = mappings(WSE3, np.array([float(layers)]), nodes)
            stages = mapping.stages(layers)
            brute = {int(np.ceil(layers / np.ceil(layers / u))) for u in range(1, nodes + 1)}
            assert set(stages.astype(int)) == brute
            assert (stages <= nodes).all()


QUESTIONS = st.builds(
    lambda nodes, speed, context, users, habits, weights: Question(
        WSE3,
        nodes=(nodes, nodes),
        tokens_per_s=speed,
        context_tokens=context,
        concurrency=users,
        weights=(weights,),
        habits=FOUNDING.habits if habits else None,
        layers=(1.0, 130.0),
    ),
    st.integers(1, 120),
    st.floats(50, 5000),
    st.integers(1, 200_000),
    st.integers(1, 64),
    st.booleans(),
    st.sampled_from(["bf16", "fp8", "nvfp4", "int8", "int4"]),
)


def points_inside(question: Question, seed: int = 0) -> tuple[np.ndarray, ...] | None:
    region = solve(question)
    if not region.feasible:
        return None
    rng = np.random.default_rng(seed)
    slot = rng.integers(0, len(region.slices), 40)
    low, high = np.log(region.active_low[slot]), np.log(region.active_high[slot])
    active = np.exp(low + (high - low) * rng.uniform(0.001, 0.999, 40))
    n_low, n_high = region.total_interval(active, slot)
    keep = n_low <= n_high
    slot, active, n_low, n_high = slot[keep], active[keep], n_low[keep], n_high[keep]
    total = n_low * (n_high / n_low) ** rng.uniform(0.001, 0.999, len(active))
    return total, active, region.slices.layers[slot]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(QUESTIONS, st.sampled_from(["nodes", "memory", "target", "context", "users"]),
       st.floats(1.05, 3.0))  # fmt: skip
def test_monotone(question: Question, what: str, factor: float) -> None:
    """Points of a region stay inside when the question gets easier; harder ones add none."""
    node = question.nodes[1]
    easier = {
        "nodes": question.with_(nodes=(int(node * factor) + 1,) * 2),
        "memory": question.with_(hardware=WSE3.with_constants({"memory.capacity": 44e9 * factor})),
        "target": question.with_(tokens_per_s=question.tokens_per_s / factor),
        "context": question.with_(context_tokens=max(1, int(question.context_tokens / factor))),
        "users": question.with_(concurrency=max(1, int(question.concurrency / factor))),
    }[what]
    inside = points_inside(question)
    if inside is None:
        return
    total, active, layers = inside
    nodes = np.full(len(total), float(easier.nodes[1]))
    kept = solve(easier).contains(total, active, layers, nodes, question.weights[0])
    assert kept.all()


def test_edges_are_where_a_slack_is_zero() -> None:
    region = solve(FOUNDING)
    checked = 0
    for i in np.linspace(0, len(region.slices) - 1, 60).astype(int):
        total, active = region.total_high[i], region.total_high_at[i]
        part = region.slices.take(np.array([i]))
        found = slacks(part.candidate(FOUNDING, np.array([total]), np.array([active])))
        name = str(region.total_high_by[i]).split(" with ")[0]
        assert np.all(np.abs(found[name]) < 1e-6)
        assert min(float(np.min(v)) for v in found.values()) >= -1e-9
        checked += 1
    assert checked == 60


def test_observed_region_lies_in_the_predicted_interval() -> None:
    question = FOUNDING.with_(observed=True)
    total, active, layers = points_inside(question) or ((), (), ())
    assert len(total) > 20
    # Far too slow and far too fast are outside.
    for speed in (1.0, 1e5):
        other = solve(question.with_(tokens_per_s=speed))
        nodes = np.full(len(total), 88.0)
        assert not other.contains(total, active, layers, nodes, "fp8").any()


def test_variants_are_answers_of_their_own() -> None:
    question = Question(Hardware.load("b200"), nodes=(1, 16))
    found = {v.name: v for v in variants(question)}
    # Of the software known TileRT alone has fixed times that are clearly shorter.
    assert list(found) == ["no speculation", "tilert"]
    assert found["no speculation"].ranges["total_params"][1] < 1e11  # small models only
    by_hand = solve(question.with_(hardware=question.hardware.with_software("tilert")))
    assert found["tilert"].ranges["total_params"][1] == by_hand.total_high.max()
    assert found["tilert"].ranges["layers"][1] == by_hand.slices.layers.max()
    assert "serving engines of 2025" in found["tilert"].text
    slow = question.with_(tokens_per_s=100.0, throughput_tokens_per_s=4000.0, concurrency=16)
    faster = {v.name: v for v in variants(slow)}["tilert"]
    asked = slow.with_(hardware=question.hardware.with_software("tilert"))
    assert faster.ranges["active_params"][1] == solve(asked).active_high.max()
    assert variants(question.with_(observed=True)) == ()
    assert variants(FOUNDING.with_(speculation=(1.0, 1.0))) == ()
    (plain,) = variants(FOUNDING)
    alone = solve(FOUNDING.with_(speculation=(1.0, 1.0)))
    assert plain.ranges["layers"] == (14.0, float(alone.slices.layers.max()))


@pytest.mark.parametrize(
    "question",
    [
        FOUNDING,
        FOUNDING.with_(observed=True),
        FOUNDING.with_(habits=None, nodes=(1, 20)),
        Question(Hardware.load("b200"), nodes=(1, 16), tokens_per_s=300.0),
        Question(Hardware.load("h100-sxm"), nodes=(1, 16), tokens_per_s=100.0, observed=True),
    ],
)
def test_dense_models_against_brute_force(question: Question) -> None:
    region, rng = solve(question), np.random.default_rng(5)
    n, name = 200, question.weights[0]
    bits = weight_format(name).bits
    active = np.exp(rng.uniform(np.log(2e8), np.log(2e12), n))
    layers = rng.integers(1, 140, n).astype(float)
    nodes = rng.integers(*question.nodes, n, endpoint=True).astype(float)
    says = region.contains(active, active, layers, nodes, name)
    each = [mappings(question.hardware, layers[i : i + 1], int(nodes[i])) for i in range(n)]
    point = np.repeat(np.arange(n), [len(depth) for depth, _ in each])
    depth = np.concatenate([depth for depth, _ in each])
    mapping = Placement(
        np.concatenate([m.layers_per_stage for _, m in each]),
        np.concatenate([m.tensor_parallel for _, m in each]),
    )
    size, worst = active[point], np.full(n, -np.inf)
    for dense in (True, False):
        traffic = question.traffic(bits, False)
        candidate = Candidate.of(question, size, size, depth, mapping, traffic, dense=dense)
        least = np.min([np.broadcast_to(s, depth.shape) for s in slacks(candidate).values()], 0)
        np.maximum.at(worst, point, least)
    assert not np.any((says != (worst >= 0.0)) & (abs(worst) > 1e-9))
    assert 7 <= says.sum() < n


@pytest.mark.parametrize("hardware", ["wse-3", "b200", "h100-sxm", "a100-80gb"])
def test_a_dense_model_is_possible_at_its_own_speed(hardware: str) -> None:
    rules = FamilyRules()
    machine = Hardware.load(hardware)
    for size, layers in ((8.03e9, 32.0), (7.06e10, 80.0)):
        asked = Deployment(nodes=8, weights="bf16")
        alone = predict(family_shape(size, size, layers, rules, dense=True), machine, asked)
        question = Question(
            machine, (8, 8), float(alone.speed[1]) * (1 - 1e-9), speculation=(1.0, 1.0),
            total=(size, size), active=(size, size), layers=(layers, layers), weights=("bf16",),
        )  # fmt: skip
        assert solve(question).feasible
        assert not solve(question.with_(tokens_per_s=question.tokens_per_s * 1.001)).feasible


def test_software_widens_what_an_observed_speed_allows() -> None:
    """DeepSeek V3.2 at 600 tokens/s on 8 B200, which TileRT reaches and usual software does not."""
    question = Question(
        Hardware.load("b200"), nodes=(8, 8), tokens_per_s=600.0, observed=True,
        weights=("fp8",), layers=(61.0, 61.0),
    )  # fmt: skip
    truth = (np.array([671e9]), np.array([37.6e9]), np.array([61.0]), np.array([8.0]), "fp8")
    inside = {
        name: bool(solve(question.with_(software=name)).contains(*truth)[0])
        for name in (None, "usual", "tilert")
    }
    assert inside == {None: True, "usual": False, "tilert": True}

    def slack(name: str, software: str | None) -> float:
        asked = question.with_(software=software)
        sizes = (v[0] for v in truth[:3])
        one = Candidate.of(asked, *sizes, Placement(61.0, 8.0), asked.traffic(8.0, False))
        return float(slacks(one)[name])

    traffic = question.traffic(8.0, False)
    plain = Candidate.of(question, 671e9, 37.6e9, 61.0, Placement(61.0, 8.0), traffic)
    own_sd = float(plain.log_sd)
    listed = {s.name: s[1:] for s in question.hardware.software}
    fast, slow = listed["tilert"], listed["without graphs"]
    for name, sign, (factor, sd, routed) in (
        ("speed", 1.0, fast),
        ("speed (not faster)", -1.0, slow),
    ):
        speed, sooner = (
            float(software_speed(plain.time, f, routed)) for f in (factor, factor * np.exp(sd))
        )
        wider = np.hypot(own_sd, np.log(sooner / speed)) - own_sd
        expected = slack(name, "usual") + sign * np.log(speed) + NormalDist().inv_cdf(0.95) * wider
        assert slack(name, None) == pytest.approx(expected, abs=1e-3)
    with pytest.raises(UnknownNameError, match="did you mean 'tilert'"):
        question.with_(software="tilrt")
    assert question.with_(observed=False).softwares == (("usual", 1.0, 0.0, 1.0),)


def test_what_is_known_is_kept() -> None:
    question = FOUNDING.with_(total=(2e12, 4e12), active=(1e11, 2e11), layers=(60.0, 90.0))
    region = solve(question)
    assert region.total_low.min() == pytest.approx(2e12, rel=1e-9)
    assert region.total_high.max() <= 4e12 * (1 + 1e-9)
    assert region.active_low.min() == pytest.approx(1e11, rel=1e-9)
    assert region.slices.layers.min() >= 60
    assert region.slices.layers.max() <= 90


def test_conflicts_name_what_would_have_to_give() -> None:
    fast = answer(FOUNDING.with_(tokens_per_s=1e9))
    assert not fast.feasible
    assert fast.conflict is not None
    assert fast.conflict.relaxations[0].constraints == ("speed",)
    small = answer(FOUNDING.with_(nodes=(1, 1), total=(1e12, 2e12)))
    assert small.conflict is not None
    by_name = {r.constraints[0]: r for r in small.conflict.relaxations}
    assert set(by_name) == {"capacity", "total asked"}
    # 1 T parameters of 4.5 bits on wafers of 91 % of 44 GB.
    assert by_name["capacity"].factor == pytest.approx(1e12 * 4.5 / 8 / (0.91 * 44e9), rel=0.02)
    assert f"{int(np.ceil(by_name['capacity'].factor))} wafers" in by_name["capacity"].text


def test_fewest_nodes_are_named() -> None:
    found = answer(FOUNDING.with_(nodes=(1, 100), total=(2e12, np.inf), weights=("fp8",)))
    nodes = found.ranges["nodes"]
    assert nodes.low.value == pytest.approx(np.ceil(2e12 / (0.91 * 44e9)), abs=2)
    assert "capacity" in nodes.low.by
    again = solve(found.question.with_(nodes=(1, int(nodes.low.value) - 1)))
    assert not again.feasible


def test_architectures_are_really_feasible() -> None:
    for question in (FOUNDING, FOUNDING.with_(habits=None), FOUNDING.with_(observed=True)):
        found = answer(question)
        assert len(found.architectures) >= 5
        for design in found.architectures:
            arch = design.architecture
            count = arch.parameters()
            assert (count.total, count.active) == (design.total_params, design.active_params)
            assert arch.hidden_size % 128 == 0
            assert min(design.slack.values()) >= 0.0
            assert design.nodes <= 88
            assert design.accepted_needed <= 3.0 or question.observed
            assert design.bottleneck in design.time_s
            p05, p50, p95 = design.speed
            assert p05 < p50 < p95
            if not question.observed:
                best = 3.0 / design.time_s["total"]
                assert best >= question.tokens_per_s


@pytest.mark.parametrize("name", ["h100-sxm", "b200", "wse-3"])
def test_limits_of_cost_and_power_at_load_are_exact(name: str) -> None:
    """Beside prompts of others; with the nodes paid by the hour, and with power paid for."""
    rng, hardware = np.random.default_rng(3), Hardware.load(name)
    bought = replace(
        hardware, price_dollars_per_hour=np.nan, price_dollars=3e4, life_years=5.0,
        dollars_per_kwh=1.0,
    )  # fmt: skip
    found = [by_slice(limited(rng, h), 500, rng) for h in (hardware, bought) for _ in range(5)]
    assert sum(f.inside for f in found) > 200
    assert sum(f.differing for f in found) == 0


def test_power_and_price_bound_the_nodes() -> None:
    limited = solve(FOUNDING.with_(power_w=20 * 23e3))
    assert limited.slices.nodes.max() == 20
    priced = FOUNDING.with_(
        hardware=WSE3.with_value("price.rent", "10 USD/h"), price_per_hour=105.0
    )
    assert solve(priced).slices.nodes.max() == 10


@pytest.mark.parametrize("total", [1e12, 3e11, 2_779_481_663_584.0])
def test_a_total_to_the_last_digit_is_possible(total: float) -> None:
    found = solve(FOUNDING.with_(total=(total, total)))
    assert found.feasible
    assert found.total_low == pytest.approx(total, rel=1e-9)
    assert found.total_high == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize("throughput", [700.0, 940.0, 1500.0])
def test_throughput_against_an_observed_speed(throughput: float) -> None:
    """One user at 750 tokens/s is not 1,500 in all: the region shrinks to nothing, exactly."""
    question = FOUNDING.with_(
        observed=True, speculation=(1.0, 1.0), throughput_tokens_per_s=throughput, weights=("fp8",)
    )
    found = solve(question)
    assert np.all(found.total_low <= found.total_high * (1.0 + 1e-9))
    assert np.all(np.isfinite(found.total_low))
    assert found.feasible == (throughput < 1500.0)
    if found.feasible:
        assert agreement(found, 2_000, seed=1).differing == 0


def test_throughput_bounds_active() -> None:
    free = solve(FOUNDING.with_(concurrency=200))
    asked = solve(FOUNDING.with_(concurrency=200, throughput_tokens_per_s=170_000.0))
    assert asked.active_high.max() < free.active_high.max()
    assert "throughput" in set(asked.active_high_by)


@pytest.mark.parametrize(
    "change",
    [
        {"nodes": (0, 0)},
        {"nodes": (5, 4)},
        {"tokens_per_s": 0.0},
        {"tokens_per_s": float("nan")},
        {"context_tokens": 0},
        {"concurrency": 0},
        {"speculation": (0.0, 1.0)},
        {"weights": ("fp3",)},
        {"weights": ()},
        {"kv": "fp3"},
        {"total": (4e12, 2e12)},
    ],
)
def test_wrong_questions_are_refused(change: dict) -> None:
    with pytest.raises(InputError):
        FOUNDING.with_(**change)


def test_sensitivity_is_of_the_design_and_says_where_there_is_no_model() -> None:
    found = answer(FOUNDING.with_(habits=None), architectures=8)
    for design in found.architectures:
        rows = {s.quantity: s for s in sensitivity(FOUNDING, design)}
        for row in rows.values():
            assert row.tokens_per_s[1] == pytest.approx(1.0 / design.time_s["total"])
        halved, same, doubled = rows["layers"].tokens_per_s
        assert halved > same > doubled
        sparsity = design.total_params / design.active_params
        assert np.isnan(rows["active_params"].tokens_per_s[2]) == (sparsity < 2.0)
        assert np.isnan(rows["total_params"].tokens_per_s[0]) == (sparsity < 2.0)
        # More to read is never faster.
        assert not rows["active_params"].tokens_per_s[2] > same


@pytest.mark.parametrize("weights", ["bf16", "nvfp4"])
def test_every_exact_total_inside_the_range_is_feasible(weights: str) -> None:
    asked = FOUNDING.with_(weights=(weights,), observed=False)
    found = solve(asked)
    low, high = float(found.total_low.min()), float(found.total_high.max())
    for total in np.geomspace(1.001 * low, 0.999 * high, 40):
        exact = solve(asked.with_(total=(float(total), float(total))))
        assert exact.feasible, total
        assert (exact.total_low <= exact.total_high).all()
    for total in (0.999 * low, 1.001 * high):
        assert not solve(asked.with_(total=(total, total))).feasible


def test_components_in_formats_of_their_own() -> None:
    def most(weights: str) -> float:
        question = PHYSICS.with_(weights=(weight_format(weights).name,), layers=(40.0, 44.0))
        return float(answer(question, architectures=0).ranges["total_params"].high.value)

    whole, wide = most("int4"), most("int4,embedding=bf16,lm_head=bf16")
    assert most("int4,lm_head=int4") == pytest.approx(whole, rel=1e-12)
    assert most("bf16,experts=int4,attention=int4,shared=int4,dense_mlp=int4,head=int4,"
                "embedding=int4") == pytest.approx(whole, rel=1e-9)  # fmt: skip
    assert most("bf16") < wide < whole


def test_bytes_of_the_family_by_component() -> None:
    shape = family_shape(100e9, 10e9, 40.0, FamilyRules())
    own = in_formats(shape, ("bf16", "int8,experts=int4,attention=fp8,embedding=bf16"), 1)
    (group,) = own.groups
    stored = Workload(own, Traffic(weight_bits=8.0)).memory.weights
    experts = group.count * group.routed_params
    assert stored == pytest.approx(
        (100e9 - experts - own.lookup_params) + experts * 4.5 / 8 + 2 * own.lookup_params
    )
    assert in_formats(shape, ("bf16", "int8"), 1) is shape


def test_feasible_means_what_solve_means() -> None:
    """Also where a total that was asked for and sparsity leave no active parameters."""
    question = Question(WSE3, observed=True, total=(2e12, 4e12))
    for layers in (40.0, 43.0, 44.0, 60.0):
        depth = np.array([layers])
        assert feasible(question, depth) == solve(question, depth).feasible
    assert answer(question, 0).ranges["layers"].low.by == "sparsity with shape with total asked"


def test_the_fastest_software_is_that_of_the_kind_of_model() -> None:
    """One that sorts no tokens is fastest on mixtures, the slowest on dense models."""
    machine = replace(
        Hardware.load("h100-sxm"),
        software=(SoftwareFactor("by index", 1.2, 0.0, 0.1), SoftwareFactor("short", 0.9, 0.0)),
    )
    question = Question(machine, nodes=(8, 8), tokens_per_s=90.0, observed=True, weights=("fp8",))
    for total, active, layers, names in (
        (671e9, 37e9, 61.0, ("by index", "usual")),
        (70e9, 70e9, 80.0, ("short", "by index")),
    ):
        found: dict[str | None, dict[str, float]] = {}
        for name in (None, "usual", "by index", "short"):
            asked = question.with_(software=name)
            place, traffic = Placement(layers, 8.0), asked.traffic(8.0, False)
            one = Candidate.of(asked, total, active, layers, place, traffic, None, total == active)
            every = slacks(one)
            found[name] = {k: float(every[k]) for k in ("speed", "speed (not faster)")}
        for key, name in zip(("speed", "speed (not faster)"), names, strict=True):
            assert found[None][key] == pytest.approx(found[name][key], rel=1e-12)
            assert key == "speed" or found[None][key] == max(f[key] for f in found.values())
