"""Posterior: sampler and information against closed forms, the answer against plain sampling."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from archinfer import solve
from archinfer.errors import InputError, UnknownNameError
from archinfer.hardware.figures import SoftwareFactor
from archinfer.hardware.profile import Hardware
from archinfer.inference.batch import QUANTITIES
from archinfer.inference.building import generative_model
from archinfer.inference.comparison import compare_with
from archinfer.inference.importance import Space, adapt, effective_size, kronecker
from archinfer.inference.infer import infer
from archinfer.inference.nuisances import drawn_software
from archinfer.inference.posterior import Posterior
from archinfer.inference.prior import CATALOGUE_PRIOR
from archinfer.inference.statistics import (
    information_bits,
    log_likelihood,
    quantiles,
)
from archinfer.models.catalogue import load as load_model
from archinfer.models.formats import weight_format
from archinfer.models.shape import DENSE_CHAIN, LayerGroup, ModelShape
from archinfer.physics.decode import decode_time, log_sd
from archinfer.physics.mapping import Placement
from archinfer.physics.memory import memory_fraction
from archinfer.physics.workload import Traffic, Workload
from archinfer.solver.question import Question
from archinfer.solver.region import solve as solve_region
from benchmarks.simulation import simulate
from tests.founding import founding, wafer


@cache
def answer() -> Posterior:
    return infer(founding())


def normal_sample(mean: float, sd: float, count: int = 20_000) -> np.ndarray:
    from scipy.special import ndtri

    return mean + sd * ndtri((np.arange(count) + 0.5) / count)


class TestInformation:
    @pytest.mark.parametrize(("mean", "sd"), [(0.0, 0.5), (1.0, 0.5), (0.3, 0.9), (-2.0, 0.25)])
    def test_divergence_of_normals(self, mean: float, sd: float) -> None:
        equal = np.full(20_000, 1 / 20_000)
        exact = (-np.log(sd) + (sd**2 + mean**2 - 1) / 2) / np.log(2)
        found = information_bits((normal_sample(mean, sd), equal), (normal_sample(0, 1), equal))
        assert found == pytest.approx(exact, rel=0.03, abs=0.03)

    def test_weights_stand_for_the_same_distribution(self) -> None:
        x = normal_sample(0, 1, 100_000)
        w = np.exp(-0.5 * ((x - 1) / 0.5) ** 2 + 0.5 * x**2)
        exact = (np.log(2) + (0.25 + 1 - 1) / 2) / np.log(2)
        found = information_bits((x, w / w.sum()), (x, np.full(len(x), 1 / len(x))))
        assert found == pytest.approx(exact, abs=0.06)

    def test_nothing_learned_is_zero_without_bias(self) -> None:
        rng = np.random.default_rng(1)
        equal = np.full(1500, 1 / 1500)
        found = [
            information_bits((rng.normal(size=1500), equal), (rng.normal(size=1500), equal))
            for _ in range(20)
        ]
        assert np.mean(found) < 0.01

    def test_a_value_known_exactly(self) -> None:
        prior = np.repeat([1.0, 2.0, 4.0, 8.0], 500)
        found = information_bits(
            (np.full(2000, 2.0), np.full(2000, 1 / 2000)), (prior, np.full(2000, 1 / 2000))
        )
        assert found == pytest.approx(2.0)

    def test_weighted_quantiles_are_those_of_repeated_values(self) -> None:
        values, counts = np.array([5.0, 1.0, 3.0]), np.array([3, 5, 2])
        repeated = np.repeat(values, counts)
        found = quantiles(values, counts / counts.sum(), (0.25, 0.75))
        assert found[0] == pytest.approx(np.median(repeated[repeated <= 1.0]))
        assert 3.0 < found[1] < 5.0


class TestSampler:
    def test_evidence_of_a_normal_likelihood(self) -> None:
        """Mean of exp(-(z - 1)^2 / (2 s^2)) over a standard normal: closed form."""
        space = Space(2, np.ones(1), np.zeros(1, dtype=np.intp), np.ones(2))
        draws = adapt(
            space,
            lambda z, cell: (-0.5 * ((z[:, 0] - 1.0) / 0.2) ** 2, z),
            8192,
            3000,
            np.random.default_rng(6),
        )
        exact = np.log(0.2 / np.sqrt(1.04)) - 0.5 / 1.04
        assert draws.log_evidence == pytest.approx(exact, abs=0.03)

    @pytest.mark.parametrize("shift", [0.0, 2.0, 7.0])
    def test_normal_prior_and_likelihood(self, shift: float) -> None:
        """Posterior of z0 + z1 = shift +- 0.1: closed form; 7 needs annealing to be found."""
        space = Space(3, np.ones(1), np.zeros(1, dtype=np.intp), np.ones(3))

        def evidence(z: np.ndarray, cell: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return -0.5 * ((z[:, 0] + z[:, 1] - shift) / 0.1) ** 2, z

        draws = adapt(space, evidence, 8192, 2000, np.random.default_rng(0))
        assert draws.ess >= 2000
        mean = draws.weights @ draws.payload
        gain = 1.0 / (2.0 + 0.01)
        assert mean == pytest.approx([gain * shift, gain * shift, 0.0], abs=0.06)
        variance = draws.weights @ (draws.payload - mean) ** 2
        assert variance == pytest.approx([1 - gain, 1 - gain, 1.0], rel=0.1)

    def test_cells_get_their_posterior_probability(self) -> None:
        prior = np.array([0.7, 0.2, 0.1])
        space = Space(2, prior, np.arange(3), np.ones(2))
        evidence = np.array([1e-3, 0.5, 2.0])

        draws = adapt(
            space,
            lambda z, cell: (np.log(evidence)[cell], cell),
            8192,
            3000,
            np.random.default_rng(3),
        )
        shares = np.bincount(draws.payload, weights=draws.weights, minlength=3)
        assert shares == pytest.approx(prior * evidence / (prior @ evidence), abs=0.01)

    def test_no_evidence_at_all(self) -> None:
        space = Space(2, np.ones(1), np.zeros(1, dtype=np.intp), np.ones(2))
        draws = adapt(
            space,
            lambda z, cell: (np.full(len(z), -np.inf), z),
            512,
            100,
            np.random.default_rng(0),
        )
        assert draws.ess == 0.0

    def test_effective_size(self) -> None:
        assert effective_size(np.log([1.0, 1.0, 1.0, 1.0])) == pytest.approx(4.0)
        assert effective_size(np.log([1.0, 1e-9])) == pytest.approx(1.0)
        assert effective_size(np.full(3, -np.inf)) == 0.0

    def test_points_fill_the_cube_evenly(self) -> None:
        points = kronecker(4096, 8, np.random.default_rng(5))
        for axis in points.T:
            assert np.bincount((axis * 64).astype(int), minlength=64).max() <= 64 + 4
        # Pairs too, where random points would scatter by 8 around 64.
        pair = np.bincount(
            (points[:, 0] * 8).astype(int) * 8 + (points[:, 1] * 8).astype(int), minlength=64
        )
        assert abs(pair - 64).max() < 16


class TestAnswer:
    def test_agrees_with_plain_weighted_draws(self) -> None:
        """No adaptation: the prior itself, weighted by the evidence."""
        question = founding(nodes=(4, 6), tokens_per_s=700.0)
        model = generative_model(question, CATALOGUE_PRIOR, None, None, None, None)
        rng = np.random.default_rng(11)
        z = rng.standard_normal((150_000, model.space.dimensions))
        p = model.space.cell_probability
        log_w, batch = model.evaluate(2, z, rng.choice(len(p), len(z), p=p))
        w = np.exp(log_w - log_w.max())
        w /= w.sum()
        found = infer(question, samples=8192)
        size = 1 / (w @ w)
        assert size > 1000
        for quantity in ("total_params", "active_params", "layers"):
            values, weights = found.density(quantity)
            for level, edge in zip((0.05, 0.5, 0.95), found.quantiles(quantity, (0.05, 0.5, 0.95)),
                                   strict=True):  # fmt: skip
                plain = w[getattr(batch, quantity) <= edge].sum()
                ours = weights[values <= edge].sum()
                assert plain == pytest.approx(ours, abs=0.05), (quantity, level)

    @pytest.mark.parametrize("there", [5, 62])
    def test_the_node_count_conditions_the_deployments(self, there: int) -> None:
        """Draws made for a number of nodes are those made for any number, weighted by its chance.

        More may be meant than a model has layers for: 80 wafers for 62 layers are 62 in use.
        """
        from archinfer.inference.nuisances import NODES_CAP

        def drawn(nodes: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
            model = generative_model(founding(nodes=nodes), CATALOGUE_PRIOR, None, None, None, None)
            rng = np.random.default_rng(2)
            z = rng.standard_normal((200_000, model.space.dimensions))
            p = model.space.cell_probability
            log_w, batch = model.evaluate(1, z, rng.choice(len(p), len(z), p=p))
            return np.exp(log_w), batch.nodes

        told, used = drawn((there, there))
        any_w, any_used = drawn((1, NODES_CAP))
        # Nodes that are there over those in use: exponential tail of mean 0.1 in the logarithm.
        chance = (any_used / there) ** 10 - (any_used / (there + 1)) ** 10
        within = (any_used <= there) & (4 * any_used >= there)
        any_w = any_w * np.where(within, chance, 0.0)
        assert told.mean() == pytest.approx(any_w.mean(), rel=0.1)
        for most in (0.7 * there, 0.9 * there, there - 0.5):
            plain = any_w[any_used <= most].sum() / any_w.sum()
            assert told[used <= most].sum() / told.sum() == pytest.approx(plain, abs=0.03)

    def test_each_draw_fits_and_has_the_speed_of_the_cost_model(self) -> None:
        posterior = answer()
        q, d = posterior.question, posterior.draws
        heavy = np.argsort(-posterior.weights)[:40]
        for i in heavy:
            layers, nodes = d.layers[i], d.nodes[i]
            assert d.total_params[i] >= d.active_params[i] * (1 - 1e-12)
            assert 1 <= nodes <= min(88, layers)
            assert layers == int(layers)
            # The whole posterior must be within the memory of the nodes in use.
            bits = weight_format(q.weights[int(d.weights[i])]).bits
            per_stage = np.ceil(layers / nodes)
            weights_bytes = d.total_params[i] * bits / 8 / layers * per_stage
            assert weights_bytes <= q.hardware.usable_bytes
            # Terms add up to the predicted speed.
            pass_s = d.depth_s[i] + d.bytes_s[i] + d.links_s[i] + d.queue_s[i]
            assert d.accepted_tokens[i] / pass_s == pytest.approx(d.tokens_per_s[i], rel=1e-9)

    def test_predicted_speed_of_a_hand_built_draw(self) -> None:
        """One dense draw, its shape written out by hand, through the cost model alone."""
        posterior = infer(
            founding(nodes=(4, 4), tokens_per_s=450.0, weights=("bf16",), speculation=(1.0, 1.0)),
            samples=4096,
            attention=("gqa",),
            concurrency=(1.0, 1.0),
            read_context=(8000.0, 8000.0),
            target_ess=500,
        )
        d, q = posterior.draws, posterior.question
        i = int(np.argmax(posterior.weights * (d.moe == 0.0)))
        layers, active = d.layers[i], d.active_params[i]
        assert d.total_params[i] == pytest.approx(active)
        from archinfer.models.shape import Cache

        hidden = d.hidden_size[i]
        table = d.vocabulary[i] * hidden
        in_layers = active - (1.0 if d.tied[i] else 2.0) * table
        assert d.active_in_layers[i] == pytest.approx(in_layers)
        group = LayerGroup(
            count=layers,
            shared_params=in_layers / layers,
            caches=(Cache(2048.0, macs_per_token=2.0 * hidden, shards=8),),
            reductions=DENSE_CHAIN,
        )
        shape = ModelShape((group,), hidden, table, table, bool(d.tied[i]))
        stored = Workload(shape, Traffic(8000, 1, 16, None, 16)).memory
        mapping = Placement(np.ceil(layers / d.nodes[i]))
        assert memory_fraction(q.hardware, stored, mapping) <= 1.0
        time = decode_time(q.hardware, Workload(shape, Traffic(8000, 1, 16, None, 16)), mapping)
        assert d.tokens_per_s[i] == pytest.approx(float(1 / time.total), rel=1e-9)
        # Student's t with 4 degrees: its scale is 1 / sqrt 2 of the model error's deviation.
        variance = float(log_sd(q.hardware, time)) ** 2
        scale = np.sqrt(1.2 * (variance - q.hardware.model_error_log_sd**2 / 2))
        assert d.log_scale[i] == pytest.approx(scale, rel=1e-9)
        deviation = np.log(450.0 * time.total) / scale
        assert d.deviation[i] == pytest.approx(deviation, rel=1e-6, abs=1e-9)

    def test_same_seed_same_answer_other_seed_nearly(self) -> None:
        first = infer(founding(), samples=4096, target_ess=800, seed=1)
        again = infer(founding(), samples=4096, target_ess=800, seed=1)
        other = infer(founding(), samples=16_384, target_ess=4000, seed=2)
        assert first.to_dict() == again.to_dict()
        for q in ("total_params", "active_params", "layers"):
            a, b = first.quantiles(q), other.quantiles(q)
            assert np.log(a / b) == pytest.approx(0.0, abs=0.3)

    def test_other_seeds_give_the_same_architecture_and_digits(self) -> None:
        """The middle of the highest hump; ends to the digits that are printed, or the next ones."""
        first, other = answer(), infer(founding(), seed=7)
        a, b = first.most_likely, other.most_likely
        assert a is not None and b is not None
        assert (a.weights, a.attention, a.layers) == (b.weights, b.attention, b.layers)
        assert a.total_params == pytest.approx(b.total_params, rel=0.05)
        assert a.active_params == pytest.approx(b.active_params, rel=0.05)
        assert a.nodes == 80 and a.tokens_per_s == pytest.approx(750.0, rel=0.3)
        for q in ("total_params", "active_params"):
            for level in ("p05", "p50", "p95"):
                x, y = (getattr(p.marginals[q], level) for p in (first, other))
                assert x == pytest.approx(y, rel=0.1)  # 550B and 600B are one step apart
                assert x == float(f"{x:.3g}")

    def test_json_has_the_stable_keys_and_enough_draws(self) -> None:
        found = json.loads(json.dumps(answer().to_dict()))
        assert found["ess"] >= 1000
        for q in QUANTITIES:
            m = found[q]
            levels = [m[p] for p in ("p05", "p25", "p50", "p75", "p95")]
            assert levels == sorted(levels)
            assert m["information_bits"] >= 0
            assert m["identified"] == (m["information_bits"] >= 1.0)
        assert sum(found["weights"].values()) == pytest.approx(1.0)
        assert sum(found["attention"].values()) == pytest.approx(1.0)
        assert set(found["weights"]) == {"bf16", "fp8", "nvfp4"}

    def test_node_count_informs_total_and_speed_informs_depth(self) -> None:
        m = answer().marginals
        assert m["total_params"].nodes_bits > 1.0 > m["total_params"].speed_bits
        fewer = infer(founding(nodes=(4, 4), tokens_per_s=450.0, speculation=(1.0, 1.0)))
        assert fewer.marginals["active_params"].speed_bits > 1.0
        assert fewer.marginals["layers"].speed_bits > 1.0

    def test_layers_a_wafer(self) -> None:
        found = answer()
        per_node = found.layers_per_node_probability
        assert per_node is not None and sum(per_node.values()) == pytest.approx(1.0)
        d, w = found.draws, found.weights
        assert per_node["1"] == pytest.approx(w[d.layers <= d.nodes].sum())
        assert per_node["more"] == pytest.approx(w[d.layers > 3 * d.nodes].sum())
        gpus = Question(Hardware.load("h100-sxm"), nodes=(8, 8), observed=True, tokens_per_s=90.0)
        assert infer(gpus, samples=1024, target_ess=100).layers_per_node_probability is None

    def test_whole_numbers_are_whole(self) -> None:
        for name in ("layers", "nodes"):
            m = answer().marginals[name]
            assert all(v == round(v) for v in (m.p05, m.p25, m.p50, m.p75, m.p95))

    def test_the_speed_taught_more_about_everything_than_about_one(self) -> None:
        """Information cannot grow by looking at one quantity of several."""
        for changes in ({}, {"nodes": (4, 4), "tokens_per_s": 450.0, "speculation": (1.0, 1.0)}):
            found = infer(founding(**changes), samples=8192, target_ess=2000)
            assert found.speed_bits > max(m.speed_bits for m in found.marginals.values()) - 0.03
            assert found.to_dict()["speed_bits"] == found.speed_bits
        assert infer(founding(observed=False), samples=2048).speed_bits == 0.0

    def test_throughput_is_that_of_the_constraint(self) -> None:
        d = answer().draws
        assert d.throughput == pytest.approx(d.concurrency * d.tokens_per_s, rel=1e-12)

    def test_no_observation_is_the_prior_with_the_nodes(self) -> None:
        found = infer(founding(observed=False), samples=4096, target_ess=800)
        for m in found.marginals.values():
            assert m.speed_bits == pytest.approx(0.0, abs=1e-9)
        unknown = infer(founding(observed=False, nodes=(1, 4096)), samples=8192)
        for m in unknown.marginals.values():
            assert m.information_bits < 0.05
            assert not m.identified

    def test_known_ranges_hold(self) -> None:
        found = infer(
            founding(total=(2e12, 4e12), active=(150e9, 150e9), layers=(80, 90)),
            samples=4096,
            target_ess=800,
        )
        d, w = found.draws, found.weights
        held = w > 0
        assert np.all((d.total_params[held] >= 2e12) & (d.total_params[held] <= 4e12))
        assert np.all(np.abs(d.active_params[held] / 150e9 - 1) <= 0.0251)
        assert np.all((d.layers[held] >= 80) & (d.layers[held] <= 90))
        assert all(found.marginals[q].given for q in ("total_params", "active_params", "layers"))
        # 88 nodes were asked for; of a range that is left open those in use are still learnt.
        assert found.marginals["nodes"].given
        open_ended = replace(found, question=found.question.with_(nodes=(70, 88)))
        assert not open_ended.marginals["nodes"].given

    def test_what_is_asked_but_is_no_evidence_is_said(self) -> None:
        found = infer(
            founding(throughput_tokens_per_s=1e4, power_w=1e7), samples=2048, target_ess=300
        )
        assert any("of throughput and power bounds" in w for w in found.warnings)
        assert not any("bounds the ranges" in w for w in answer().warnings)

    def test_depth_has_an_end_unless_it_is_known(self) -> None:
        slow = infer(founding(nodes=(1, 4096), tokens_per_s=60.0), samples=4096, target_ess=500)
        assert slow.draws.layers[slow.weights > 0].max() <= 512
        told = infer(founding(layers=(600, 700), tokens_per_s=200.0), samples=4096, target_ess=500)
        assert told.possible and told.draws.layers[told.weights > 0].min() >= 600

    def test_larger_than_seen_models_have_support(self) -> None:
        found = infer(founding(total=(4e12, 4e12), weights=("nvfp4",)), samples=8192)
        assert found.possible and found.ess >= 1000

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"total": (2e12, 4e12), "active": (5e12, 6e12)}, "total 2T:4T and active 5T:6T"),
            ({"tokens_per_s": 1e8}, "answers at 100,000,000 tokens/s"),
            ({"nodes": (4000, 4000)}, "fits on 4k wafers"),
            ({"layers": (20, 10**4), "active": (1e17, 2e17)}, "excludes it"),
        ],
    )
    def test_impossible_is_an_answer(self, changes: dict[str, object], words: str) -> None:
        found = infer(founding(**changes), samples=2048, target_ess=300)
        assert not found.possible
        assert words in found.reason
        data = json.loads(json.dumps(found.to_dict()))
        assert data["possible"] is False
        assert all(data[q] is None for q in QUANTITIES)
        assert found.marginals == {} and found.what_would_narrow == ()

    def test_a_strange_speed_carries_a_warning(self) -> None:
        assert answer().warnings == ()
        assert answer().predictive is not None
        assert answer().predictive.tail > 0.01
        strange = 0.1 * answer().predictive.p05
        found = infer(founding(tokens_per_s=strange), samples=2048, target_ess=300)
        assert not found.possible or any("far from" in w for w in found.warnings)

    def test_bad_choices_are_refused(self) -> None:
        with pytest.raises(InputError, match="samples"):
            infer(founding(), samples=10)
        with pytest.raises(InputError, match="weights_prior"):
            infer(founding(), weights_prior={"fp32": 1.0})
        with pytest.raises(UnknownNameError):
            infer(founding(), attention=("gqq",))
        with pytest.raises(InputError, match="attention"):
            infer(founding(), attention=())
        with pytest.raises(InputError, match="concurrency"):
            infer(founding(), concurrency=(4.0, 2.0))
        with pytest.raises(UnknownNameError):
            answer().density("depth")

    def test_speculation_follows_the_profile_unless_a_range_is_chosen(self) -> None:
        assert wafer().speculation is not None
        assert answer().law == wafer().speculation
        gains, _ = answer().density("accepted_tokens")
        assert np.all(gains >= 1.0 - 1e-9) and gains.max() > 3.0
        chosen = infer(founding(speculation=(1.2, 2.0)), samples=4096, target_ess=500)
        assert chosen.law is None
        gains, _ = chosen.density("accepted_tokens")
        assert np.all((gains >= 1.2 - 1e-9) & (gains <= 2.0 + 1e-9))
        none = infer(founding(speculation=(1.0, 1.0)), samples=4096, target_ess=500)
        assert np.all(none.density("accepted_tokens")[0] == 1.0)
        sure = infer(
            founding(speculation=(1.2, 3.0)), samples=4096, target_ess=500, law=wafer().speculation
        )
        assert np.all(sure.density("speculates")[0][sure.weights > 0] == 1.0)

    def test_gain_of_a_fast_model_is_small(self) -> None:
        """Drafts take nearly as long as a fast model's own tokens."""
        shallow = infer(founding(observed=True, nodes=(1, 1), tokens_per_s=2500.0), samples=4096)
        deep = infer(founding(nodes=(80, 80), tokens_per_s=700.0), samples=4096)
        assert (
            shallow.quantiles("accepted_tokens", (0.5,))[0]
            < 0.8 * (deep.quantiles("accepted_tokens", (0.5,))[0])
        )

    def test_weight_prior_counts(self) -> None:
        only = infer(founding(), samples=4096, target_ess=500, weights_prior={"fp8": 1.0})
        assert only.weights_probability["fp8"] == pytest.approx(1.0)


class TestSoftware:
    def gpus(self, **changes: object) -> Question:
        hardware = Hardware.load("b200")
        return Question(hardware, nodes=(8, 8), tokens_per_s=600.0, observed=True).with_(**changes)

    def test_each_is_as_likely_with_its_own_factor_and_spread(self) -> None:
        z = normal_sample(0.0, 1.0, 60_000)
        factors, log_sds = np.array([2.5, 1.0, 0.5]), np.array([0.2, 0.0, 0.1])
        which, factor = drawn_software(factors, log_sds, z)
        for k in range(3):
            mine = np.log(factor[which == k])
            assert len(mine) / len(z) == pytest.approx(1 / 3, abs=1e-3)
            assert mine.mean() == pytest.approx(np.log(factors[k]), abs=1e-3)
            assert mine.std() == pytest.approx(log_sds[k], abs=1e-3)

    def test_usual_software_is_a_profile_that_lists_no_other(self) -> None:
        alone = replace(Hardware.load("b200"), software=())
        found = infer(self.gpus(software="usual"), samples=2048, target_ess=500)
        same = infer(self.gpus(hardware=alone), samples=2048, target_ess=500)
        assert found.marginals == same.marginals
        assert found.to_dict()["software"] is None
        assert "software" not in {f.fact for f in found.what_would_narrow}

    def test_quicker_software_leaves_more_time_to_read(self) -> None:
        found = [
            infer(self.gpus(software=name), samples=2048, target_ess=500).quantiles("active_params")
            for name in ("without graphs", "usual", "tilert")
        ]
        assert found[0][2] < found[1][2] < found[2][2]

    def test_probabilities_agree_with_plain_weighted_draws(self) -> None:
        question = self.gpus(total=(660e9, 680e9), active=(37e9, 38e9), layers=(61.0, 61.0))
        found = infer(question, samples=8192)
        model = generative_model(question, CATALOGUE_PRIOR, None, None, None, None)
        assert model.space.dimensions == 14
        assert (
            generative_model(founding(), CATALOGUE_PRIOR, None, None, None, None).space.dimensions
            == 13
        )
        rng = np.random.default_rng(0)
        z = rng.standard_normal((40_000, 14))
        cells = rng.choice(
            len(model.space.cell_probability), len(z), p=model.space.cell_probability
        )
        evidence, batch = model.evaluate(2, z, cells)
        w = np.exp(evidence - evidence.max())
        names = [s.name for s in question.softwares]
        plain = np.bincount(batch.software.astype(int), weights=w / w.sum(), minlength=len(names))
        assert names[-1] == "tilert"
        assert found.software_probability is not None
        assert list(found.software_probability) == names
        assert list(found.software_probability.values()) == pytest.approx(plain, abs=0.05)
        assert max(found.software_probability.values()) == found.software_probability["tilert"]

    @pytest.mark.parametrize(("factor", "speed"), [(1.0, 400.0), (10.0, 4000.0)])
    def test_a_reference_tells_which_software_ran_both(self, factor: float, speed: float) -> None:
        known = replace(Hardware.load("b200"), software=(SoftwareFactor("quick", 0.05, 0.0),))
        question = self.gpus(hardware=known, tokens_per_s=800.0)
        name = "usual" if factor == 1.0 else "quick"
        reference = load_model("gpt-oss-120b").shape("nvfp4")
        both, one = (
            compare_with(infer(asked, target_ess=6000.0), reference, speed, weights="nvfp4")
            for asked in (question, question.with_(software=name))
        )
        # The noise has heavy tails, so the reference does not tell for certain.
        assert both.probability == pytest.approx(one.probability, abs=0.1)
        assert np.log(both.factor["depth"]) == pytest.approx(np.log(one.factor["depth"]), abs=0.25)


class TestFacts:
    def test_every_fact_is_weighed_and_sorted(self) -> None:
        for quantity in QUANTITIES:
            found = [f for f in answer().what_would_narrow if f.quantity == quantity]
            ratios = [f.width_after for f in found]
            assert len(found) > 8 and ratios == sorted(ratios)
            p05, p95 = answer().quantiles(quantity, (0.05, 0.95))
            # Knowing more cannot widen the mean interval by more than the noise of a sample.
            assert max(ratios) < (p95 / p05) ** 1.1

    def test_the_weight_format_is_what_separates_totals(self) -> None:
        """Capacity in bytes is known, so bits per weight are what the total lacks."""
        first = next(f for f in answer().what_would_narrow if f.quantity == "total_params")
        assert first.fact == "weight format"

    def test_a_fact_that_can_take_one_value_is_no_fact(self) -> None:
        found = infer(founding(weights=("fp8",)), samples=4096, target_ess=500)
        assert all(f.fact != "weight format" for f in found.what_would_narrow)


def test_simulated_speeds_are_covered() -> None:
    """A small version of benchmarks/simulation_coverage.py: ranks of the truth are uniform.

    Nodes too: each wafer's number is told, and those in use are inferred from it.
    """
    count = 50
    simulated = simulate(founding(), count, seed=4)
    ranks = np.empty((count, len(QUANTITIES)))
    # Whole numbers: the mass at the truth itself is split at random, so that ranks are uniform.
    u = np.random.default_rng(5).random(ranks.shape)
    for i, question in enumerate(simulated.questions):
        posterior = infer(question, samples=4096, target_ess=300, seed=i)
        assert posterior.possible
        for j, quantity in enumerate(QUANTITIES):
            values, weights = posterior.density(quantity)
            truth = getattr(simulated.truth, quantity)[i]
            at = weights[values == truth].sum()
            ranks[i, j] = weights[values < truth].sum() + u[i, j] * at
    for nominal in (0.5, 0.9):
        inside = (abs(ranks - 0.5) <= nominal / 2).mean(axis=0)
        spread = np.sqrt(nominal * (1 - nominal) / count)
        assert np.all(abs(inside - nominal) < 3.5 * spread), (nominal, inside)


def test_simulated_deployments_keep_to_the_nodes_asked() -> None:
    within = simulate(founding(nodes=(2, 6)), 200, seed=1, known_nodes=False)
    assert {q.nodes for q in within.questions} == {(2, 6)}
    # Some of the nodes that are there may be idle, not more than three in four.
    assert within.truth.nodes.max() <= 6 and within.truth.nodes.min() >= 1
    known = simulate(founding(), 200, seed=1)
    assert all(low == high for low, high in (q.nodes for q in known.questions))
    there = np.array([q.nodes[0] for q in known.questions])
    assert np.all((known.truth.nodes <= there) & (there <= 4 * known.truth.nodes))


@settings(max_examples=15, deadline=None)
@given(
    nodes=st.integers(1, 300),
    speed=st.floats(20, 5000),
    observed=st.booleans(),
    context=st.sampled_from([1, 500, 8000, 128_000, 1_000_000]),
)
@example(nodes=158, speed=20.0, observed=True, context=1)
def test_any_question_has_an_answer(nodes: int, speed: float, observed: bool, context: int) -> None:
    question = Question(
        wafer(),
        nodes=(nodes, nodes),
        tokens_per_s=speed,
        observed=observed,
        context_tokens=context,
    )
    found = infer(question, samples=1024, target_ess=100)
    data = json.loads(json.dumps(found.to_dict()))
    assert found.possible == (found.reason == "")
    if found.possible:
        assert np.isfinite([data[q]["p50"] for q in QUANTITIES]).all()
        assert found.weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("sparsity", "share"), [((1.0, 1.0), 0.0), ((4.0, 16.0), 1.0)], ids=["dense", "mixtures"]
)
def test_sparsity_that_is_asked_for_holds_in_the_probabilities_too(
    sparsity: tuple[float, float], share: float
) -> None:
    found = solve("wse-3", nodes=88, observed=750, sparsity=sparsity, architectures=0).posterior
    assert found.moe_probability == pytest.approx(share)


def test_an_announced_ceiling_excludes_only_what_is_faster() -> None:
    hardware = Hardware.load("wse-3")
    measured = Question(hardware, tokens_per_s=750, observed=True)
    announced = measured.with_(ceiling=True)
    likelihood, off = log_likelihood(np.array([-30.0, -1.0, 0.0, 5.0]), np.ones(4), ceiling=True)
    assert np.all(np.diff(likelihood) > 0.0) and likelihood[2] == pytest.approx(np.log(0.5))
    # Far above a ceiling as improbable as the tail of the noise; far below it as good as certain.
    assert likelihood[0] < -10.0 and likelihood[3] > -0.01 and off[3] == 0.0
    wide, narrow = (infer(q, 4096, target_ess=400) for q in (announced, measured))
    assert wide.layers.p95 > narrow.layers.p95 and wide.active_params.p95 > narrow.active_params.p95
    ranges = [solve_region(q).active_high.max() for q in (announced, measured)]
    assert ranges[0] >= ranges[1]
    # A crawl is no contradiction to "up to"; a wafer that cannot be so slow is one.
    slow = announced.with_(layers=(88.0, 88.0), tokens_per_s=1e4)
    assert solve_region(slow).feasible and infer(slow, 2048, target_ess=200).possible
    assert not solve_region(slow.with_(ceiling=False)).feasible
    with pytest.raises(InputError, match="a ceiling, and observed a measurement"):
        solve("wse-3", 88, observed=750, observed_max=750)
