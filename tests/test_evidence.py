"""Several observations of one service: their joint density, files and options, what each taught."""

from __future__ import annotations

import json
import re
import runpy
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import multivariate_t

from archinfer import infer as infer_by_options
from archinfer import solve
from archinfer.api.evidence import read_evidence
from archinfer.cli.examples import example
from archinfer.errors import FileError, InputError
from archinfer.hardware.profile import Hardware
from archinfer.inference import alternatives
from archinfer.inference.building import generative_model
from archinfer.inference.contradiction import Left, Suspect, contradictions
from archinfer.inference.evidence import Conditions, Deployment, Evidence, Piece
from archinfer.inference.generative import COORDINATES, DEPLOYED
from archinfer.inference.infer import infer
from archinfer.inference.lanes import WIDTH
from archinfer.inference.narrowing import Outlook
from archinfer.inference.observing import (
    SHARED,
    Noise,
    conditional,
    log_likelihood,
    noise,
    predict,
)
from archinfer.inference.operations import operations
from archinfer.inference.posterior import Posterior
from archinfer.inference.prior import CATALOGUE_PRIOR
from archinfer.physics.decode import decode_time
from archinfer.solver.question import Question
from benchmarks.simulation import simulate
from tests.cli import run
from tests.founding import founding, wafer

SHORT = Piece("speed", 750.0, 0.02, conditions=Conditions(context=1000.0))
LONG = Piece("speed", 690.0, 0.02, conditions=Conditions(context=128_000.0))
PREFILL = Piece("prefill", 350_000.0, 0.05, conditions=Conditions(prompt=32_000.0))
PASS = Piece("tokens_per_pass", 2.4, 0.05)


@cache
def several() -> Posterior:
    return infer(founding(), evidence=Evidence((SHORT, LONG, PREFILL, PASS)))


def width(posterior: Posterior, quantity: str) -> float:
    low, high = posterior.quantiles(quantity, (0.05, 0.95))
    return float(high / low)


class TestDensity:
    rng = np.random.default_rng(1)
    root = rng.standard_normal((5, 3, 3))
    scale = root @ root.swapaxes(1, 2) + 0.1 * np.eye(3)
    residual = rng.standard_normal((5, 3))

    def test_values_are_multivariate_t(self) -> None:
        found, _ = log_likelihood(Noise(self.scale, self.residual, (0, 0, 0)))
        exact = [
            multivariate_t(shape=s, df=4).logpdf(r)
            for s, r in zip(self.scale, self.residual, strict=True)
        ]
        assert np.ptp(found - exact) < 1e-9

    def test_conditional_is_joint_over_marginal(self) -> None:
        given = conditional(self.scale, self.residual, [0, 1], [2])
        t = (self.residual[:, 2] - given.mean[:, 0]) / np.sqrt(given.variance[:, 0])
        n = given.degrees
        own = -0.5 * (n + 1) * np.log1p(t**2 / n) - 0.5 * np.log(given.variance[:, 0])
        both, _ = log_likelihood(Noise(self.scale, self.residual, (0, 0, 0)))
        first, _ = log_likelihood(Noise(self.scale[:, :2, :2], self.residual[:, :2], (0, 0)))
        assert np.ptp(both - first - own) < 1e-9

    def test_a_bound_is_the_mass_on_its_side(self) -> None:
        one, zero = np.ones((1, 1, 1)), np.zeros((1, 1))
        assert np.exp(log_likelihood(Noise(one, zero, (1,)))[0]) == pytest.approx(0.5)
        both = [np.exp(log_likelihood(Noise(one, zero + 1.3, (b,)))[0]) for b in (1, -1)]
        assert sum(both) == pytest.approx(1.0)
        assert both[0] > 0.8

    def test_constants_cancel_in_ratios_as_where_they_are_drawn(self) -> None:
        """To first order, each speed and their ratio spread as where constants are drawn."""
        model = _model()
        batch_z = np.zeros((1, model.space.dimensions))
        ((_, scene),) = list(model.scenes(batch_z, np.array([3])))
        found = predict(scene, (SHORT, LONG))
        exact = replace_errors(found)
        at = noise(wafer(), (replace(SHORT, spread=0.0), replace(LONG, spread=0.0)), exact)
        expected = at.scale[0] / 1.2
        names, centre, covariance = wafer().constants()
        draws = np.random.default_rng(0).multivariate_normal(np.zeros(len(names)), covariance, 4000)
        machine = wafer().with_constants(dict(zip(names, (centre * np.exp(draws)).T, strict=True)))
        logs = []
        for piece in (SHORT, LONG):
            traffic = replace(
                scene.workload.traffic, context_tokens=piece.conditions.context or 0.0
            )
            workload = replace(scene.workload, traffic=traffic)
            logs.append(-np.log(decode_time(machine, workload, scene.mapping).total))
        measured = np.cov(np.stack(logs))
        assert measured == pytest.approx(expected, rel=0.25)
        apart = np.array([1.0, -1.0])
        assert apart @ measured @ apart < 0.5 * measured[0, 0]


def _model():  # type: ignore[no-untyped-def]
    return generative_model(founding(), CATALOGUE_PRIOR, None, None, None, None, None)


def replace_errors(found):  # type: ignore[no-untyped-def]
    return replace(found, error=0.0 * found.error)


class TestInference:
    def test_one_speed_is_what_it_always_was(self) -> None:
        alone = infer(founding(), samples=4096, target_ess=500)
        same = infer(
            founding(), samples=4096, target_ess=500, evidence=Evidence((Piece("speed", 750.0),))
        )
        assert same.weights == pytest.approx(alone.weights, rel=1e-4)

    def test_several_narrow_what_one_leaves_open(self) -> None:
        alone = infer(founding())
        assert width(several(), "active_params") < 0.4 * width(alone, "active_params")
        assert width(several(), "layers") < 0.8 * width(alone, "layers")
        assert several().ess > 1000.0
        assert [step.after for step in several().steps][2:] == [
            p.text for p in (SHORT, LONG, PREFILL, PASS)
        ]
        assert all(taught.bits > 0.0 for taught in several().evidence)

    def test_order_does_not_matter_in_the_end(self) -> None:
        other = infer(founding(), evidence=Evidence((PASS, SHORT, PREFILL, LONG)), seed=1)
        for quantity in ("total_params", "active_params", "layers"):
            assert other.quantiles(quantity) == pytest.approx(
                several().quantiles(quantity), rel=0.1
            )

    def test_bounds_and_announcements_say_less(self) -> None:
        def found(stated: str) -> Posterior:
            piece = replace(SHORT, stated=stated)
            return infer(founding(), 4096, target_ess=500, evidence=Evidence((piece,)))

        bits = {s: found(s).steps[-1].bits for s in ("measured", "announced", "at least")}
        assert bits["measured"] > bits["announced"] > bits["at least"] > 0.0

    def test_an_estimate_of_the_total_counts_with_its_error(self) -> None:
        told = Piece("total", 1e12, 0.05)
        found = infer(founding(), 4096, target_ess=500, evidence=Evidence((SHORT, told)))
        assert width(found, "total_params") < 1.3
        loose = infer(
            founding(), 4096, target_ess=500, evidence=Evidence((SHORT, replace(told, spread=0.7)))
        )
        assert 1.3 < width(loose, "total_params") < width(several(), "total_params")

    def test_what_no_draw_predicts_contradicts_nothing(self) -> None:
        silent = Outlook(np.full(3, np.nan), np.ones(3), 4.0)
        suspect = Suspect(PASS.kind, PASS.text, (PASS.value, PASS.value), PASS)
        (low, _, high), tail = silent.expected(PASS)
        left = Left((((low, high), tail),), 1.0)
        assert contradictions((suspect,), lambda _: left) == ()

    def test_contradictions_have_no_posterior(self) -> None:
        slow = replace(PREFILL, value=1.0)
        found = infer(founding(), 4096, target_ess=500, evidence=Evidence((SHORT, slow)))
        assert (
            not found.possible and "prefill" in found.reason and found.evidence[0].kind == "speed"
        )
        assert found.contradictions[0].factor > 1000.0

    def test_facts_that_no_model_has_are_named_with_their_factor(self) -> None:
        """One to two parameters at 750 tokens/s: no posterior, and the total is to blame."""
        for total in ((1.0, 2.0), (1e6, 2e6)):
            found = infer(founding(total=total), 4096, target_ess=500)
            assert not found.possible and found.total_params is None
            worst = found.contradictions[0]
            assert worst.kind == "total" and worst.factor > 1e3
            assert worst.expected[0] > 1e9 and "total parameters" in worst.text

    def test_pieces_that_hardly_go_together_are_named(self) -> None:
        pieces = Evidence((SHORT, replace(PREFILL, value=8000.0), PASS))
        found = infer(founding(), 4096, target_ess=500, evidence=pieces)
        (first, *_) = found.contradictions
        assert "prefill" in first.piece and 3.0 < first.factor < 100.0
        assert not found.possible or "do not go together" in " ".join(found.warnings)
        assert not several().contradictions

    def test_two_that_are_wrong_are_named_together(self) -> None:
        """Without either of them alone the rest does not go together: the smallest set is the pair,
        each with its own factor, and what is true is not in it."""
        slow, wide = replace(PREFILL, value=1.0), Piece("hidden_size", 4e6, 0.1)
        asked = founding(layers=(60.0, 100.0))
        found = infer(asked, 4096, target_ess=500, evidence=Evidence((SHORT, slow, PASS, wide)))
        assert not found.possible
        assert {c.kind for c in found.contradictions} == {"prefill", "hidden_size"}
        for one, other in (found.contradictions, found.contradictions[::-1]):
            assert one.beside == other.piece and one.beside in one.text
        factor = {c.kind: c.factor for c in found.contradictions}
        assert factor["prefill"] > 1000.0 and 50.0 < factor["hidden_size"] < 4000.0

    def test_what_would_narrow_ranks_as_drawing_again(self) -> None:
        """Widths to expect against those of posteriors with the fact drawn and added."""
        told = infer(founding(), evidence=Evidence((SHORT, PREFILL)))
        expected = {n.fact: n.width_after for n in told.what_would_narrow if n.quantity == "layers"}
        rng = np.random.default_rng(3)
        index = rng.choice(len(told.weights), 5, p=told.weights)
        again = {}
        for fact, kind, column, spread in (
            ("hidden size", "hidden_size", "hidden_size", 0.23),
            ("nodes in use", "nodes", "nodes", 0.003),
            ("total parameters", "total", "total_params", 0.03),
        ):
            widths = []
            for truth in getattr(told.draws, column)[index]:
                value = float(truth * np.exp(spread * rng.standard_normal()))
                pieces = Evidence((SHORT, PREFILL, Piece(kind, value, spread)))
                found = infer(founding(), 2048, target_ess=400, evidence=pieces)
                widths.append(np.log(width(found, "layers")))
            again[fact] = float(np.exp(np.mean(widths)))
        # Five draws leave a third of a factor of chance.
        assert expected == pytest.approx(expected | again, rel=0.4)
        assert min(again, key=lambda f: again[f]) == min(again, key=lambda f: expected[f])


class TestService:
    def test_a_price_says_little_but_in_the_right_direction(self) -> None:
        def found(price: float) -> Posterior:
            question = founding(nodes=(1, 128))
            return infer(
                question,
                4096,
                target_ess=500,
                evidence=Evidence((SHORT, Piece("output_price", price))),
            )

        dear, cheap = found(60.0), found(2.0)
        assert dear.quantiles("total_params")[2] > 1.5 * cheap.quantiles("total_params")[2]
        assert 0.1 < dear.steps[-1].bits < 3.0

    def test_an_input_price_speaks_of_active_parameters(self) -> None:
        """What a prompt costs is arithmetic: two FLOPs a parameter and token."""
        there = Question(Hardware.load("b200"), (8, 8), observed=True, tokens_per_s=90.0)

        def found(price: float) -> Posterior:
            pieces = (replace(SHORT, value=90.0), Piece("input_price", price))
            return infer(there, 4096, target_ess=500, evidence=Evidence(pieces))

        dear, cheap = found(3.0), found(0.1)
        ratio = dear.quantiles("active_params")[2] / cheap.quantiles("active_params")[2]
        assert 1.5 < ratio < 30.0

    def test_a_known_model_says_how_fast_the_service_is(self) -> None:
        """The faster a known model answers, the larger the unknown one is of the same speed."""

        def median(speed: float) -> float:
            known = Piece("speed", speed, 0.05, model="gpt-oss-120b")
            found = infer(founding(), 8192, target_ess=800, evidence=Evidence((SHORT, known)))
            assert found.evidence[1].model == "gpt-oss-120b"
            return float(found.quantiles("layers")[2])

        assert median(4000.0) > median(1500.0)

    def test_a_known_model_needs_a_name_that_is_known(self, tmp_path: Path) -> None:
        path = tmp_path / "e.yaml"
        text = (
            "schema_version: 1\nevidence:\n  - speed: 750\n  - speed: 9\n    model: gpt-oss-121b\n"
        )
        path.write_text(text, encoding="utf-8")
        with pytest.raises(FileError, match="gpt-oss-120b"):
            read_evidence(path)

    def test_the_spread_of_prices_is_that_of_the_shipped_ones(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        runpy.run_path("benchmarks/price_over_cost.py", run_name="__main__")
        told = capsys.readouterr().out
        for kind in ("output", "input"):
            found = re.findall(rf"{kind}: ([\d.]+) \(log-sd ([\d.]+)", told)
            ratios, spreads = np.array(found, dtype=float).T
            over, spread = operations().price_over_cost[f"{kind}_price"]
            assert ratios == pytest.approx(over, rel=0.2)
            assert spreads == pytest.approx(spread, rel=0.1)
        shared = [float(x) for x in re.findall(r"correlation: ([\d.]+)", told)]
        assert shared == pytest.approx([SHARED["price"]] * 3, abs=0.05)


GPUS = tuple(Hardware.load(name) for name in ("h100-sxm", "b200"))
USUAL = Deployment("usual lane", GPUS, (1, 64))
THERE = Piece("speed", 70.0, 0.08, deployment="usual lane")


class TestDeployments:
    def test_the_likelihood_is_the_product_over_deployments(self) -> None:
        """That of the other one is what its own model says of the same architectures."""
        lane = replace(USUAL, hardware=GPUS[1:], weights=("fp8",))
        evidence = Evidence((SHORT, THERE), (lane,))
        built = CATALOGUE_PRIOR, None, None, None, None, "profile", None
        joint = generative_model(founding(weights=("fp8",)), *built, evidence)
        first = joint.space.dimensions - WIDTH
        z = np.random.default_rng(0).standard_normal((512, joint.space.dimensions))
        cell = np.random.default_rng(1).integers(0, len(joint.space.cell_probability), 512)
        evidence_log, batch = joint.evaluate(3, z, cell)
        alone, same = joint.evaluate(2, z, cell)
        there = Question(GPUS[1], (1, 64), observed=True, weights=("fp8",))
        model = generative_model(there, *built, evidence.of("usual lane"))
        own = z[:, :COORDINATES].copy()
        own[:, DEPLOYED] = z[:, first + 2 :]
        _, expected = model.evaluate(2, own, cell)
        fits = np.isfinite(evidence_log) & np.isfinite(alone)
        assert 50 < fits.sum() < 512
        assert expected.total_params[fits] == pytest.approx(batch.total_params[fits])
        added = evidence_log[fits] - alone[fits]
        assert added == pytest.approx((expected.log_speed + expected.log_nodes)[fits])
        assert batch.log_before[fits] == pytest.approx(same.log_speed[fits])

    def test_a_slow_lane_on_known_machines_narrows(self) -> None:
        lane = replace(USUAL, hardware=GPUS[1:], nodes=(8, 8), weights=("fp8",))

        def found(speed: float) -> Posterior:
            there = replace(THERE, value=speed)
            return infer(
                founding(), 4096, target_ess=500, evidence=Evidence((SHORT, there), (lane,))
            )

        slow, fast = found(30.0), found(120.0)
        assert slow.quantiles("active_params")[2] > 1.3 * fast.quantiles("active_params")[2]
        (one,) = slow.deployments
        assert one.hardware == {"b200": pytest.approx(1.0)} and one.nodes.p95 == 8.0
        assert slow.evidence[1].deployment == "usual lane" and slow.evidence[1].bits > 0.1

    @pytest.mark.parametrize("second", [GPUS[1:], GPUS])
    def test_lanes_on_the_same_machine_share_its_constants(
        self, second: tuple[Hardware, ...]
    ) -> None:
        """All speeds there are one multivariate t: what the machine's constants do to them is
        common, so that it cancels in their ratios, while errors of the cost model are apart."""
        machine, here = GPUS[1], replace(SHORT, value=150.0)
        lanes = (
            replace(USUAL, hardware=second, weights=("fp8",)),
            replace(USUAL, name="third lane", hardware=(machine,), weights=("fp8",)),
        )
        pieces = (here, THERE, replace(THERE, value=55.0, deployment="third lane"))
        asked = Question(machine, (1, 64), observed=True, weights=("fp8",))
        built = CATALOGUE_PRIOR, None, None, None, None, "profile", None
        joint = generative_model(asked, *built, Evidence(pieces, lanes))
        z = np.random.default_rng(2).standard_normal((128, joint.space.dimensions))
        cell = np.zeros(128, dtype=int)
        _, batch = joint.evaluate(4, z, cell)
        names = ("", "usual lane", "third lane")
        scenes = [list(joint.scenes(z, cell, name)) for name in names]
        at, _ = next((i, s) for i, s in scenes[1] if s.hardware.name == machine.name)
        assert len(at) == 128 or 10 < len(at) < 118
        each = [
            predict(scene, (piece,)).take(np.searchsorted(index, at))
            for piece, found in zip(pieces, scenes, strict=True)
            for index, scene in found
            if scene.hardware.name == machine.name
        ]
        found = each[0].beside(each[1]).beside(each[2])
        measured = 0.5 * np.diag(np.array([p.spread for p in pieces]) ** 2 + 1e-10)
        error = 1.2 * np.diag(0.5 * found.error**2) + measured
        scale = (
            1.2 * found.exposure @ machine.constants()[2] @ found.exposure.swapaxes(1, 2) + error
        )
        residual = np.log([p.value for p in pieces]) - found.centre
        fits = np.flatnonzero(np.isfinite(batch.log_speed[at]))
        exact = [multivariate_t(shape=scale[n], df=4).logpdf(residual[n]) for n in fits]
        assert len(fits) > 10 and np.ptp(batch.log_speed[at[fits]] - exact) < 1e-6
        assert np.all(np.abs(scale[fits][:, [0, 0, 1], [1, 2, 2]]) > 1e-4)

    def test_a_lane_that_no_model_explains_is_named(self) -> None:
        there = replace(THERE, value=1e5)
        found = infer(founding(), 2048, target_ess=300, evidence=Evidence((SHORT, there), (USUAL,)))
        assert not found.possible and "(usual lane)" in found.reason

    def test_truths_lie_within(self) -> None:
        """Of 8 simulated architectures with two lanes, 90 % intervals hold most."""
        pieces = (SHORT, THERE)
        simulated = simulate(founding(), 8, 3, evidence=Evidence(pieces, (USUAL,)))
        inside = np.zeros(3)
        for i, one in enumerate(simulated.questions):
            told = tuple(
                replace(p, value=float(v)) for p, v in zip(pieces, simulated.seen[i], strict=True)
            )
            found = infer(one, 2048, target_ess=200, evidence=Evidence(told, (USUAL,)))
            for j, quantity in enumerate(("total_params", "active_params", "layers")):
                low, high = found.quantiles(quantity, (0.05, 0.95))
                inside[j] += low <= getattr(simulated.truth, quantity)[i] <= high
        assert inside.min() >= 6

    @pytest.mark.parametrize(
        ("entries", "message"),
        [
            ("    hardware: h100-sxn\n    evidence:\n      - speed: 70\n", "h100-sxm"),
            ("    hardware: b200\n    evidence:\n      - layers: 61\n", "8: layers: expected in"),
            ("    hardware: b200\n    evidence:\n      - nodes: 8\n", "8: nodes: expected in key"),
            ("    hardware: b200\n    nodes: 0\n    evidence:\n      - speed: 7\n", "7: key"),
            ("    hardware: sn40l\n    evidence:\n      - ttft: 2s\n        prompt: 8k\n", "ttft"),
        ],
    )  # fmt: skip
    def test_faults_have_their_line(self, tmp_path: Path, entries: str, message: str) -> None:
        path = tmp_path / "e.yaml"
        head = "schema_version: 1\nevidence:\n  - speed: 750\ndeployments:\n  - name: other\n"
        path.write_text(f"{head}{entries}".replace("  - name", "  - name"), encoding="utf-8")
        with pytest.raises(FileError) as caught:
            read_evidence(path)
        assert message in str(caught.value)

    def test_the_founding_example_has_two_lanes(self, capsys: pytest.CaptureFixture[str]) -> None:
        path = "docs/evidence/founding.yaml"
        assert "h100-sxm or h200-sxm or b200" in run(capsys, "evidence", path).out
        found = read_evidence(path)
        assert [p.deployment for p in found.pieces] == ["", "", *3 * ["usual lane"]]
        assert found.deployments[0].nodes == (1, 64)


class TestFiles:
    def text(self, tmp_path: Path, entries: str) -> Path:
        path = tmp_path / "e.yaml"
        path.write_text(f"schema_version: 1\nevidence:\n{entries}", encoding="utf-8")
        return path

    def test_the_example_is_read(self, tmp_path: Path) -> None:
        path = tmp_path / "e.yaml"
        path.write_text(example("evidence-example.yaml", "e.yaml"), encoding="utf-8")
        found = read_evidence(path)
        assert [p.kind for p in found.pieces] == [
            "speed", "speed", "prefill", "tokens_per_pass", "total",
        ]  # fmt: skip
        assert found.facts == {"nodes": (1.0, 100.0)}
        assert found.pieces[0].conditions.context == 8000.0
        assert found.pieces[-1].spread == pytest.approx(np.log(3.5) / 1.6449, rel=1e-3)

    @pytest.mark.parametrize(
        ("entries", "message"),
        [
            ("  - speed: 750\n    contxt: 8k\n", "4: unknown key 'evidence.0.contxt'; did"),
            ("  - speed: 750\n    ttft: 2s\n", "3: expected one of speed, "),
            ("  - context: 8k\n", "found none"),
            ("  - speed: fast\n", "3: key 'evidence.0.speed': found 'fast', expected a speed"),
            ("  - speed: 1\n    stated: maximal\n", "4: key 'evidence.0.stated'"),
            ("  - speed: 1\n    spread: 5 %\n    within: 2\n", "spread and within"),
            ("  - layers: 61\n  - layers: 62\n", "4: layers is said twice"),
            ("  - speculation: on\n    speed: 7\n    within: 0.5\n", "5: key"),
        ],
    )  # fmt: skip
    def test_faults_have_their_line(self, tmp_path: Path, entries: str, message: str) -> None:
        path = self.text(tmp_path, entries)
        with pytest.raises(FileError) as caught:
            read_evidence(path)
        assert message in str(caught.value)

    def test_facts_narrow_the_question(self, tmp_path: Path) -> None:
        path = self.text(
            tmp_path, "  - speed: 750\n    context: 8k\n  - layers: 61\n  - weights: fp8\n"
        )
        found = infer_by_options("wse-3", 40, evidence=path)
        assert found.question.layers == (61.0, 61.0) and found.question.weights == ("fp8",)
        with pytest.raises(InputError, match="layers: said by the option"):
            infer_by_options("wse-3", 40, evidence=path, layers=60)

    def test_a_speed_is_needed(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="goes with a speed"):
            solve("wse-3", 40, evidence=self.text(tmp_path, "  - layers: 61\n    spread: 5 %\n"))

    def test_prompts_need_a_profile_that_knows_them(self) -> None:
        with pytest.raises(InputError, match="how fast prompts are read"):
            solve("groq-lpu-v1", 64, observed="300", prefill="9000@8k")


class TestCommands:
    def test_options_and_json(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Other assumptions have draws of their own, and tests.
        monkeypatch.setattr(alternatives, "_changes", lambda _: ())
        options = ("--observed", "750@1k", "--observed", "690@128k", "--tokens-per-pass", "2.4")
        done = run(capsys, "solve", "--nodes", "88", *options, "--format", "json")
        data = json.loads(done.out)
        assert [e["kind"] for e in data["evidence"]] == ["speed", "speed", "tokens_per_pass"]
        assert data["evidence"][1]["conditions"]["context"] == 128_000.0
        assert all(e["bits"] >= 0.0 for e in data["evidence"])
        assert {"fact", "quantity", "width_now", "width_after"} <= data["what_would_narrow"][
            0
        ].keys()

    def test_the_table_tells_each_step(self, capsys: pytest.CaptureFixture[str]) -> None:
        options = ("--observed", "750@1k", "--tokens-per-pass", "2.4")
        told = " ".join(run(capsys, "solve", "--nodes", "88", *options).out.split())
        assert "What each observation taught" in told and "tokens a pass " in told
        assert "What to measure next" in told
        assert "with 1 more observation, on 88" in told and "bits taught (nodes, evidence)" in told
        assert "Ranges by the first speed and exact facts alone" in told

    def test_widths_now_are_those_of_the_last_step(self) -> None:
        last = several().steps[-1]
        for one in several().what_would_narrow:
            ends = getattr(last, one.quantity)
            assert one.width_now == pytest.approx(ends.p95 / ends.p05, rel=1e-9)

    def test_lint(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "e.yaml"
        assert "written" in run(capsys, "evidence", "--init", str(path)).out
        told = run(capsys, "evidence", str(path)).out
        assert "prefill 300000 tokens/s at 32k" in told
        path.write_text("schema_version: 1\nevidence: []\n")
        done = run(capsys, "evidence", str(path))
        assert done.code == 2 and "empty list" in done.err
